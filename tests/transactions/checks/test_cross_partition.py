"""The checks that join several partitions, where the copies are of different times."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import ProducerIdsRecord
from kafkawire.records import Record, build
from kafkawire.rows import CheckAnswer
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory
from tests.worlds import World


def unique(root: Path, *, metadata_is_newer: bool) -> CheckAnswer:
    """producer_id_unique, of a producer id that was not handed out as far as the metadata log shows."""
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


@pytest.mark.parametrize(
    ("stopped", "minutes", "violated"),
    [(True, 1, 1), (False, 1, 0), (False, 10, 0), (False, 11, 1), (False, 26 * 60, 0)],
)
def test_a_commit_that_no_record_decides_may_be_later_than_the_copy_of_a_running_coordinators_log(
    tmp_path: Path, stopped: bool, minutes: int, violated: int
) -> None:
    """Clocks of brokers differ by up to ten minutes, and one may be far ahead; in one moment nothing is later."""
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False, stopped=stopped)
    logs.partition("orders").data(7)
    logs.partition("orders").marker("COMMIT", 7, at=NOON)
    logs.partition("payments").marker("COMMIT", 77, at=NOON)
    logs.id("other", "Empty", 8, 0, at=NOON + minutes * MINUTE)
    audit = transactions.audit(logdir.open(logs.write()), Settings(transaction_state_partitions=1))
    found = next(answer for answer in audit.answers if answer.check == "one_outcome")
    assert (found.violated, found.not_checkable) == (violated, 1 - violated)


@pytest.mark.parametrize(("high_watermark", "violated"), [(0, 1), (26, 0)])
def test_a_commit_may_be_decided_by_a_coordinator_whose_records_were_not_copied(
    tmp_path: Path, high_watermark: int, violated: int
) -> None:
    """One of the two partitions of `__transaction_state` is an empty file: it was never written to, or is not whole."""
    logs = LogDirectory(tmp_path / "logs", ids=2, compacted=False, stopped=True)
    logs.partition("orders").data(7)
    logs.partition("orders").marker("COMMIT", 7, at=NOON)
    logs.id("other", "Empty", 8, 0, at=NOON + HOUR)
    (empty,) = (number for number in range(2) if not logs.partition("__transaction_state", number).end)
    logs.high_watermark("__transaction_state", empty, high_watermark)
    audit = transactions.audit(logdir.open(logs.write()), Settings(transaction_state_partitions=2))
    found = next(answer for answer in audit.answers if answer.check == "one_outcome")
    assert (found.violated, found.not_checkable) == (violated, 1 - violated)


# More copies ---------------------------------------------------------------------------------------------------------


def unique_of(*roots: Path) -> CheckAnswer:
    answers = transactions.audit(logdir.open(*roots)).answers
    return next(answer for answer in answers if answer.check == "producer_id_unique")


def copies(tmp_path: Path, *, marker: bool, checkpoint: bool, producer_id: int) -> tuple[Path, Path]:
    """Two copies of a broker with a producer id that was not handed out: at a time, and three minutes later, when the
    metadata log has more records and may have handed it out; `checkpoint`: in records that a checkpoint has replaced.
    """
    for name in ("now", "later"):
        world = World(tmp_path / name, 1)
        world.orders[0].data(producer_id, at=world.tick())
        if marker:
            world.orders[0].marker("ABORT", producer_id, at=world.tick())
        world.tick(MINUTE)
        world.configure("anything", "1")
        if name == "later":
            world.tick(3 * MINUTE)
            log, free = world.metadata, world.next_producer_id + 100_000
            if checkpoint:
                start = log.end
                body = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=free).encode(version=0)
                record = Record(value=bytes((1, ProducerIdsRecord.spec.api_key or 0, 0)) + body, timestamp=world.now)
                log.directory.mkdir(parents=True)
                (log.directory / f"{start:020}-0000000001.checkpoint").write_bytes(build([record], base_offset=0))
                log.segments[:] = [(start, bytearray())]
            else:
                world.hand_out(free)
            world.configure("anything", "2")
            # A record of the coordinator's, later than all that the copy's metadata log has.
            world.tick(MINUTE)
            world.producer("late")
        world.logs.write()
        world.logs.root.rename(tmp_path / f"broker-{name}")
    return tmp_path / "broker-now", tmp_path / "broker-later"


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("marker", [False, True])
@pytest.mark.parametrize("producer_id", [50_000, 5_000_000])
def test_a_later_copy_does_not_hide_a_violation(
    tmp_path: Path, marker: bool, checkpoint: bool, producer_id: int
) -> None:
    """Neither where the later replica counts, whose own metadata log is older than it, nor where the producer id was
    handed out since then, nor where a checkpoint has replaced the records with the time."""
    now, later = copies(tmp_path, marker=marker, checkpoint=checkpoint, producer_id=producer_id)
    assert unique_of(now).violated == 1
    for both in ((now, later), (later, now)):
        found = unique_of(*both)
        if marker or producer_id == 5_000_000:
            assert found.violated == 1, found
        else:
            assert (found.violated, found.not_checkable) == (0, 1), found
            assert found.lacked == (
                "a later __cluster_metadata has the producer id: no marker shows whether it was in use before",
            )


def test_a_metadata_log_with_a_hole_proves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.orders[0].data(5_000_000, at=world.tick())
    world.orders[0].marker("ABORT", 5_000_000, at=world.tick())
    world.tick(MINUTE)
    place = len(world.metadata.segments[0][1])
    world.hand_out(6_000_000)
    world.configure("anything", "1")
    world.logs.write()
    path = world.metadata.directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[place + 65] ^= 1
    path.write_bytes(data)
    found = unique_of(world.logs.root)
    assert found.violated == 0
    assert any("is damaged or has gaps" in reason for reason in found.lacked)
    read = transactions.audit(logdir.open(world.logs.root)).read
    assert len(read.transaction_state_missing) == 46, "a record that adds partitions may be lost: 50 are expected"
