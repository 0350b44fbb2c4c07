"""The longest holds by copies that lack offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.offsets.copied_holds import copied_holds
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Batch, read
from kafkawire.rows import DamageRow, Hold
from tests.audit_logs import HOUR, NOON, LogDirectory


def orders(root: Path) -> LogDirectory:
    """Two transactions, one after the other, in four batches."""
    logs = LogDirectory(root, ids=1, compacted=False)
    log = logs.partition("orders")
    for number in (1, 2):
        log.data(number, at=NOON)
        log.marker("COMMIT", number, at=NOON + number * HOUR)
    logs.high_watermark("orders", 0, log.end)
    return logs


def read_holds(*paths: str) -> tuple[list[str | None], int]:
    """What is missing, and the number of holds."""
    found = list(copied_holds(LeadingReplicas(logdir.open(*paths)), "orders", [0], 5))
    damage = [row for row in found if isinstance(row, DamageRow)]
    assert all((row.topic, row.partition, row.reason) == ("orders", 0, "missing") for row in damage)
    return [row.detail for row in damage], sum(isinstance(row, Hold) for row in found)


@pytest.mark.parametrize(
    ("first", "end", "cleaned", "lacks"),
    [
        (4, 4, 0, None),
        (2, 4, 0, "{path}: the log ends at offset 2, below its high watermark 4"),
        (1, 3, 0, "offsets 1 to 2 are missing"),
        (1, 3, 2, "offset 2 is missing"),
        (1, 3, 3, None),
    ],
)
def test_offsets_that_are_not_here_are_named(
    tmp_path: Path, first: int, end: int, cleaned: int, lacks: str | None
) -> None:
    """The batches from one on up to another, without it, are not in the copy."""
    logs = orders(tmp_path)
    logs.checkpoint("cleaner-offset-checkpoint", "orders", 0, cleaned)
    data = logs.partition("orders").segments[0][1]
    starts = [item.position for item in read(bytes(data)) if isinstance(item, Batch)]
    del data[[*starts, len(data)][first] : [*starts, len(data)][end]]
    damage, holds = read_holds(logs.write())
    assert damage == ([] if lacks is None else [lacks.format(path=tmp_path / "orders-0")])
    assert holds


def test_copies_of_which_none_is_known_as_the_leaders_are_named(tmp_path: Path) -> None:
    damage, holds = read_holds(orders(tmp_path / "a").write(), orders(tmp_path / "b").write())
    assert (damage, holds) == (["orders-0: which of 2 copies is the leader's is not known"], 2)


def test_a_cleaner_explains_what_is_missing_after_damage_too(tmp_path: Path) -> None:
    """The first batch is damaged; the third one was removed, and the cleaner has been there."""
    logs = orders(tmp_path)
    logs.checkpoint("cleaner-offset-checkpoint", "orders", 0, 3)
    data = logs.partition("orders").segments[0][1]
    starts = [item.position for item in read(bytes(data)) if isinstance(item, Batch)]
    del data[starts[2] : starts[3]]
    data[starts[1] - 1] ^= 1
    found = list(copied_holds(LeadingReplicas(logdir.open(logs.write())), "orders", [0], 5))
    assert [row.reason for row in found if isinstance(row, DamageRow)] == ["crc_mismatch"]
