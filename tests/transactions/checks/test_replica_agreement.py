"""replicas_agree, on what the injected breaches do not show: damage, old formats, and what compaction may explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.records import Record, build
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, replica_facts
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests, replicas_agree, together
from kafkawire.transactions.parts.replica_files import replicas
from tests.audit_logs import NOON, LogDirectory, PartitionLog

HIGH = 9


def answer(*directories: LogDirectory) -> Answer:
    """Of the second replica of orders-0."""
    for directory in directories:
        directory.high_watermark("orders", 0, HIGH)
        directory.write()
    audited = replicas(logdir.open(*(str(directory.root) for directory in directories)))
    facts = [(partition, replica_facts(AuditedReplica(partition))) for partition in audited]
    found = [ReplicaDigests(partition, one.digests, one.partition.damage) for partition, one in facts]
    (placed,) = replicas_agree(together(found, {}))
    return placed.answer


@pytest.fixture
def both(tmp_path: Path) -> list[LogDirectory]:
    return [LogDirectory(tmp_path / name, ids=0) for name in ("one", "two")]


def orders(directories: list[LogDirectory]) -> list[PartitionLog]:
    return [directory.partition("orders") for directory in directories]


def test_batches_of_every_magic_are_compared(both: list[LogDirectory]) -> None:
    for log in orders(both):
        for magic in (0, 1):
            listed = [Record(value=b"old", offset=log.end, timestamp=NOON if magic else -1)]
            log.segments[-1][1].extend(build(listed, base_offset=log.end, magic=magic))
            log.end += 1
        log.plain(records=2)
    assert (answer(*both).held, answer(*both).not_checkable) == (3, 0)


def test_a_batch_across_others_is_a_violation(both: list[LogDirectory]) -> None:
    """One replica has three batches where the other has one that begins between them."""
    one, other = orders(both)
    one.plain(records=2)
    one.plain(records=2)
    one.plain(records=2)
    other.plain(records=1)
    other.plain(records=3)
    other.plain(records=2)
    found = answer(*both)
    assert (found.held, found.violated) == (1, 2)
    assert [breach.offset for breach in found.breaches] == [0, 1]
    assert "lies across others in the replica of" in found.breaches[1].what


@pytest.mark.parametrize(
    ("compacted", "violated"), [(None, 0), ("__consumer_offsets 0 9", 1), ("orders 0 1", 1), ("orders 0 3", 0)]
)
def test_a_lacking_batch_is_a_violation_where_compaction_has_not_been(
    both: list[LogDirectory], compacted: str | None, violated: int
) -> None:
    """As the checkpoint of the broker's cleaner says."""
    one, other = orders(both)
    for log in (one, other):
        log.plain()
    one.plain(records=2)
    other.skip(2)
    for log in (one, other):
        log.plain()
    for directory in both if compacted else ():
        directory.root.mkdir()
        (directory.root / "cleaner-offset-checkpoint").write_text(f"0\n1\n{compacted}\n")
    found = answer(*both)
    assert (found.held, found.violated, found.not_checkable) == (2, violated, 1 - violated)
    assert [breach.offset for breach in found.breaches] == [1] * violated


def test_damaged_batches_are_passed_over(both: list[LogDirectory]) -> None:
    """The damage is reported where the replica is read."""
    for log in orders(both):
        log.plain()
        log.segments[-1][1].extend(b"\xff" * 100)
    assert (answer(*both).held, answer(*both).violated) == (1, 0)


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_batch_with_a_wrong_checksum_is_not_lacking(both: list[LogDirectory], damaged: int) -> None:
    """By its header, which cannot be trusted, it ends above the high watermark."""
    for log in orders(both):
        for _ in range(3):
            log.plain(records=2)
    size = len(orders(both)[damaged].segments[0][1]) // 3
    orders(both)[damaged].segments[0][1][size + 23 : size + 27] = (100).to_bytes(4, "big")
    for directory in both:
        directory.checkpoint("cleaner-offset-checkpoint", "orders", 0, 0)
    found = answer(*both)
    assert [breach.what for breach in found.breaches] == []
    assert (found.held, found.not_checkable) == (2, 1)


def test_an_unreadable_segment_is_not_checkable(both: list[LogDirectory]) -> None:
    for log in orders(both):
        log.plain()
        log.roll()
        log.plain()
    for directory in both:
        directory.high_watermark("orders", 0, HIGH)
        directory.write()
    path = both[1].root / "orders-0" / f"{1:020}.log"
    path.unlink()
    path.symlink_to(path.parent / "gone")
    audited = replicas(logdir.open(*(str(directory.root) for directory in both)))
    facts = [(partition, replica_facts(AuditedReplica(partition))) for partition in audited]
    found = [ReplicaDigests(partition, one.digests, one.partition.damage) for partition, one in facts]
    (placed,) = replicas_agree(together(found, {}))
    assert placed.answer.answer == "not_checkable"
    assert placed.answer.lacked == ("a segment cannot be read: No such file or directory",)


def test_damage_is_a_reason_for_not_checkable(both: list[LogDirectory]) -> None:
    for log in orders(both):
        log.plain()
        log.plain()
    orders(both)[1].segments[-1][1][-1] ^= 1
    found = answer(*both)
    assert (found.held, found.violated) == (2, 0), "headers are compared, and are right"
    orders(both)[1].segments[-1][1][60:] = b""
    found = answer(*both)
    assert (found.held, found.violated) == (0, 0)
    assert "a segment is damaged: what could not be read was not compared" in found.lacked
