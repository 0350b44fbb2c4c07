"""The checks that join several partitions, where the copies are of different moments."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir, transactions
from kafkawire.rows import CheckAnswer
from tests.audit_logs import HOUR
from tests.worlds import World


def unique(root: Path, *, metadata_is_newer: bool) -> CheckAnswer:
    """producer_id_unique, of a producer id that the metadata log does not say was handed out."""
    world = World(root, 1)
    world.orders[0].data(5_000_000, at=world.tick(), transactional=False)
    world.orders[0].data(-1, -1, at=world.now, append_time=world.tick(), transactional=False)
    if metadata_is_newer:
        world.tick(HOUR)
        world.hand_out(world.next_producer_id + 2000)
    world.logs.write()
    audit = transactions.audit(logdir.open(world.logs.root))
    return next(answer for answer in audit.answers if answer.check == "producer_id_unique")


def test_a_metadata_log_that_was_copied_before_proves_nothing(tmp_path: Path) -> None:
    assert unique(tmp_path / "newer", metadata_is_newer=True).violated == 1
    older = unique(tmp_path / "older", metadata_is_newer=False)
    assert older.violated == 0
    assert older.lacked == ("__cluster_metadata may have been copied before the producer id was handed out",)
