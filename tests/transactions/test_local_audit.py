"""From log directories to the audit: what is open, which replica counts, the clock, coverage and damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import crc32c
import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import PartitionRecord, TopicRecord
from kafkawire.records import Record
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from kafkawire.transactions.answers import MAX_BREACHES, ONE_OUTCOME, TRANSITION_FIELDS
from kafkawire.wire.write import uvarint
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory, PartitionLog, open_entry

OLD = NOON - 3 * HOUR


def run(*directories: LogDirectory, **settings: int) -> Audit:
    paths = tuple(directory.write() for directory in directories)
    return read(*paths, **{"transaction_state_partitions": directories[0].ids, **settings})


def read(*paths: str, **settings: int) -> Audit:
    return transactions.audit(logdir.open(*paths), Settings(**settings), paths=paths)


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs")


@pytest.fixture
def orders(logs: LogDirectory) -> PartitionLog:
    return logs.partition("orders")


def starts(audit: Audit) -> list[tuple[int, int | None, int | None]]:
    return sorted((f.producer_id, f.start_offset, f.last_offset) for f in audit.findings)


# What is open --------------------------------------------------------------------------------------------------------


def test_a_marker_ends_the_transaction_of_its_producer_only(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, records=2)
    orders.data(2)
    orders.data(1)
    orders.marker("COMMIT", 1)
    orders.plain()
    orders.data(3)
    orders.marker("ABORT", 3)
    orders.data(1, 5, records=3)
    assert starts(run(logs)) == [(1, 8, 10), (2, 2, 2)]


def test_a_higher_epoch_continues_the_transaction(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, 3)
    orders.data(1, 4)
    (finding,) = run(logs).findings
    assert (finding.start_offset, finding.producer_epoch) == (0, 4)


def test_a_marker_of_a_higher_epoch_ends_it(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, 3)
    orders.marker("COMMIT", 1, 4)
    assert run(logs).findings == ()


def test_a_marker_that_compaction_emptied_ends_it(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    orders.empty_marker(1)
    assert run(logs).findings == ()


def test_idempotent_data_without_the_transactional_bit_opens_nothing(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, transactional=False)
    assert run(logs).findings == ()


def test_transactions_cross_segments(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    orders.data(2)
    orders.roll()
    orders.plain()
    orders.roll()
    orders.marker("ABORT", 1, coordinator_epoch=3)
    orders.data(2)
    audit = run(logs)
    assert starts(audit) == [(2, 1, 4)]
    assert audit.read.segments == 3 + logs.ids


def test_a_control_batch_that_cannot_be_read_may_be_the_marker(logs: LogDirectory, orders: PartitionLog) -> None:
    from kafkawire.records import build

    orders.data(1, at=OLD)
    control = build([Record(key=b"\0\0\0\x09", value=b"", timestamp=OLD)], base_offset=1, producer_id=1,
                    producer_epoch=0, transactional=True, control=True)  # fmt: skip
    orders.segments[-1][1].extend(control)
    orders.end += 1
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    (finding,) = run(logs).findings
    assert finding.verdict == "unknown"
    assert "Offsets from 1 to 1 could not be read: a marker may be among them." in finding.evidence


def test_offsets_of_the_consumer_group_coordinator_are_audited_as_well(logs: LogDirectory) -> None:
    logs.partition("__consumer_offsets", 7).data(1)
    (finding,) = run(logs).findings
    assert (finding.topic, finding.partition) == ("__consumer_offsets", 7)


def test_findings_are_ordered_by_urgency(logs: LogDirectory) -> None:
    for topic, producer_id in (("b", 1), ("a", 2), ("c", 3), ("d", 4)):
        logs.partition(topic).data(producer_id, at=OLD)
    logs.id("two", "Ongoing", 2, 0, ("a", 0), begun=NOON)
    logs.id("four", "PrepareCommit", 4, 1, ("d", 0), at=OLD)
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    found = [(f.topic, f.reason) for f in run(logs).findings]
    assert found == [
        ("b", "no_transactional_id"),
        ("c", "no_transactional_id"),
        ("d", "stuck_prepare"),
        ("a", "live"),
    ]


# Replicas ------------------------------------------------------------------------------------------------------------


def test_the_replica_that_reaches_furthest_counts(tmp_path: Path) -> None:
    behind, ahead = LogDirectory(tmp_path / "one"), LogDirectory(tmp_path / "two")
    for directory in (behind, ahead):
        directory.partition("orders").data(1)
        directory.id("pay", "Ongoing", 1, 0, ("orders", 0))
    ahead.partition("orders").marker("COMMIT", 1)
    audit = run(behind, ahead)
    assert audit.findings == ()
    assert audit.read.partitions == 8


def test_a_later_leader_epoch_beats_more_offsets(tmp_path: Path) -> None:
    old, new = LogDirectory(tmp_path / "one"), LogDirectory(tmp_path / "two")
    for directory, epoch in ((old, 1), (new, 2)):
        directory.partition("orders").leader_epoch = epoch
        directory.partition("orders").data(epoch)
    old.partition("orders").plain(records=10)
    assert starts(run(old, new)) == [(2, 0, 0)]


def test_a_partition_is_read_once_however_often_it_is_named(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    path = logs.write()
    audit = read(path, f"{path}/orders-0", f"{path}/../logs")
    assert len(audit.findings) == 1
    assert audit.read.partitions == 1 + logs.ids


def test_replicas_on_their_way_out_are_not_audited(logs: LogDirectory) -> None:
    logs.partition("orders").data(1)
    path = Path(logs.write())
    (path / "orders-0").rename(path / f"orders-0.{'0' * 32}-delete")
    assert run(LogDirectory(path)).findings == ()


def test_an_abort_is_no_evidence_while_the_copies_are_of_different_moments(tmp_path: Path) -> None:
    """The coordinator's log was copied an hour after the partition's: the marker may have come between."""
    partition, ids = (
        LogDirectory(tmp_path / name, ids=count, stopped=False) for name, count in (("one", 0), ("two", 3))
    )
    partition.partition("orders").data(1, at=OLD)
    partition.partition("payments").marker("COMMIT", 5, at=NOON - HOUR)
    ids.id("pay", "CompleteCommit", 1, 1, at=NOON)
    (finding,) = run(ids, partition).findings
    assert finding.verdict == "unknown"
    assert any("the marker may have come later" in sentence for sentence in finding.evidence)
    partition.partition("payments").marker("COMMIT", 5, at=NOON + MINUTE)  # of another file, which was copied later
    (finding,) = run(ids, partition).findings
    assert finding.verdict == "unknown"
    partition.partition("orders").marker("COMMIT", 5, at=NOON + HOUR)
    (finding,) = run(ids, partition).findings
    assert (finding.verdict, finding.reason) == ("hanging", "transaction_ended")


# The clock -----------------------------------------------------------------------------------------------------------


def test_the_clock_is_the_newest_time_that_a_broker_wrote(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=NOON + HOUR)  # a client's clock is not believed
    logs.id("pay", "Empty", 1, 0, at=NOON)
    assert run(logs).as_of == NOON
    orders.marker("COMMIT", 1, at=NOON + 1)
    audit = run(logs)
    assert audit.as_of == NOON + 1
    assert audit.read.clock == f"newest time that a broker wrote, in orders-0 of {logs.root}"
    orders.data(-1, -1, transactional=False, at=NOON, append_time=NOON + 2)
    assert run(logs).as_of == NOON + 2
    logs.partition("__cluster_metadata").plain(at=NOON + 3)
    assert run(logs).as_of == NOON + 3
    audit = run(logs, as_of=5)
    assert (audit.as_of, audit.read.clock) == (5, "as given")


def test_without_a_clock_nothing_is_hanging(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs", ids=0)
    directory.partition("orders").data(1, at=OLD)
    audit = run(directory)
    assert audit.as_of is None
    assert audit.findings[0].verdict == "unknown"
    assert "no clock: no broker-side time was found, and none was given" in audit.read.gaps


# Coverage ------------------------------------------------------------------------------------------------------------


def test_reports_what_was_read(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    read = run(logs).read
    assert read.paths == (str(logs.root),)
    assert read.brokers == (1,)
    assert (read.partitions, read.segments, read.batches) == (4, 4, 1)
    assert read.bytes == len(orders.segments[0][1])
    assert (read.transaction_state, read.transaction_state_missing) == ((0, 1, 2), ())


def test_fifty_partitions_of_the_coordinators_log_are_expected(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    audit = read(logs.write())
    assert audit.read.transaction_state_missing == tuple(range(3, 50))
    assert audit.read.gaps[0] == "47 of 50 partitions of __transaction_state were not read: 3-49"
    assert not audit.read.complete
    (needs,) = [one.needs for finding in audit.findings for one in finding.premises if "3-49" in one.what]
    assert needs == (
        "give a copy of these partitions of __transaction_state, or of __cluster_metadata-0, which shows how many it "
        "has (50 is the default)"
    )


def test_more_than_fifty_are_expected_where_more_are_there(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs", ids=51)
    directory.partition("orders").data(1)
    directory.id("pay", "Ongoing", 1, 0, ("orders", 0))
    audit = read(directory.write())
    assert audit.read.transaction_state == tuple(range(51))
    assert audit.read.complete


def test_takes_the_number_of_partitions_from_the_metadata_log(logs: LogDirectory, orders: PartitionLog) -> None:
    topic_id = UUID(int=5)
    listed = [
        (2, TopicRecord(name="other", topic_id=UUID(int=4)).encode(version=0)),
        (3, PartitionRecord(partition_id=40, topic_id=UUID(int=4)).encode(version=0)),
        (2, TopicRecord(name="__transaction_state", topic_id=topic_id).encode(version=0)),
        *((3, PartitionRecord(partition_id=i, topic_id=topic_id).encode(version=0)) for i in range(4)),
    ]
    metadata = logs.partition("__cluster_metadata")
    metadata.records([Record(value=uvarint(1) + uvarint(key) + uvarint(0) + body) for key, body in listed])
    orders.data(1)
    audit = read(logs.write())
    assert audit.read.transaction_state_missing == (3,)
    (needs,) = [one.needs for one in audit.findings[0].premises if "(3)" in one.what]
    assert needs == "give a copy of these partitions of __transaction_state"


def test_where_nothing_is_transactional_no_coordinator_is_needed(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs", ids=0)
    directory.partition("orders").plain()
    assert run(directory).read.complete


# Damage --------------------------------------------------------------------------------------------------------------


def corrupt(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def damaged(logs: LogDirectory, topic: str, position: int) -> Audit:
    path = Path(logs.write())
    corrupt(path / topic / f"{0:020}.log", position)
    return read(str(path), transaction_state_partitions=logs.ids)


def test_a_marker_in_damaged_bytes_makes_it_unknown(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    middle = len(orders.segments[0][1])
    orders.plain()
    orders.plain()
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    assert run(logs).findings[0].verdict == "hanging"
    audit = damaged(logs, "orders-0", middle + 65)
    assert audit.findings[0].verdict == "unknown"
    assert [(d.topic, d.position, d.reason) for d in audit.damage] == [("orders", middle, "crc_mismatch")]


def test_damage_before_the_transaction_changes_nothing(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.plain()
    orders.data(1, at=OLD)
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    assert damaged(logs, "orders-0", 65).findings[0].verdict == "hanging"


def test_damage_at_the_end_may_hide_a_marker(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    middle = len(orders.segments[0][1])
    orders.marker("COMMIT", 1)
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    assert damaged(logs, "orders-0", middle + 65).findings[0].verdict == "unknown"


def torn(logs: LogDirectory, topic: str) -> Audit:
    path = Path(logs.write())
    segment = path / topic / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-3])
    return read(str(path), transaction_state_partitions=logs.ids)


def test_a_torn_batch_at_the_end_may_be_the_marker(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    orders.marker("COMMIT", 1)
    logs.id("pay", "CompleteCommit", 1, 1, at=NOON)
    audit = torn(logs, "orders-0")
    assert audit.findings[0].verdict == "unknown"
    assert [d.reason for d in audit.damage] == ["truncated"]


def test_a_torn_end_of_the_coordinators_log_is_where_its_copy_ends(logs: LogDirectory, orders: PartitionLog) -> None:
    logs.compacted = False
    orders.data(1, at=OLD)
    logs.id("pay", "CompleteCommit", 1, 1, at=NOON)
    logs.id("pay", "Ongoing", 1, 1, at=NOON)
    assert torn(logs, "__transaction_state-0").findings[0].verdict == "hanging"


def test_a_missing_segment_may_hide_a_marker(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    orders.roll()
    orders.plain()
    orders.roll()
    orders.plain()
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    path = Path(logs.write())
    (path / "orders-0" / f"{1:020}.log").unlink()
    (finding,) = read(str(path), transaction_state_partitions=logs.ids).findings
    assert finding.verdict == "unknown"
    assert "Offsets from 1 to 1 could not be read: a marker may be among them." in finding.evidence


def test_a_damaged_coordinator_log_proves_no_absence(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    number = sum(b"other") % logs.ids
    logs.id("other", "CompleteCommit", 9, 2, at=NOON)
    audit = damaged(logs, f"__transaction_state-{number}", 65)
    assert audit.findings[0].verdict == "unknown"
    assert audit.read.gaps == (f"__transaction_state is damaged in partitions {number}",)


def test_a_damaged_coordinator_log_leaves_an_id_in_it_unknown(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    logs.id("pay", "Ongoing", 1, 0, ("orders", 0), begun=NOON)
    logs.id("pay", "Ongoing", 1, 0, ("orders", 0), begun=NOON)
    assert run(logs).findings[0].reason == "live"
    (finding,) = damaged(logs, "__transaction_state-0", 65).findings
    assert finding.verdict == "unknown"


def test_a_segment_that_may_not_be_read_is_damage(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1, at=OLD)
    orders.roll()
    orders.plain()
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    path = Path(logs.write())
    segment = path / "orders-0" / f"{1:020}.log"
    segment.unlink()
    segment.symlink_to(path / "gone")
    audit = read(str(path), transaction_state_partitions=logs.ids)
    assert [(d.file, d.reason) for d in audit.damage] == [(str(segment), "unreadable")]
    assert audit.findings[0].verdict == "unknown"


def test_reports_a_damaged_snapshot(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.plain()
    orders.snapshot()
    path = Path(logs.write())
    corrupt(path / "orders-0" / f"{1:020}.snapshot", 3)
    audit = read(str(path), transaction_state_partitions=logs.ids)
    assert [(d.reason, d.topic) for d in audit.damage] == [("crc_mismatch", "orders")]


def test_reports_an_unreadable_snapshot(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.plain()
    orders.snapshot()
    path = Path(logs.write()) / "orders-0" / f"{1:020}.snapshot"
    path.unlink()
    path.symlink_to(path.parent / "gone")
    audit = read(str(logs.root), transaction_state_partitions=logs.ids)
    assert [(d.file, d.reason) for d in audit.damage] == [(str(path), "unreadable")]


def test_ignores_coordinator_records_of_unknown_types(logs: LogDirectory, orders: PartitionLog) -> None:
    """A key of a type that is not known yet is passed over; a batch whose records cannot be read is a gap."""
    orders.data(1, at=OLD)
    logs.id("other", "CompleteCommit", 9, 1, at=NOON)
    log = logs.id_log("pay")
    log.records([Record(key=b"\0\x09new", value=b"", timestamp=NOON)])
    assert run(logs).findings[0].verdict == "hanging"
    start = len(log.segments[0][1])
    log.records([Record(key=b"\0\0\0\3pay", value=b"\0\0", timestamp=NOON)])
    data = log.segments[0][1]
    data[start + 61] = 0xFF  # the record's length
    data[start + 17 : start + 21] = crc32c.crc32c(bytes(data[start + 21 :])).to_bytes(4, "big")
    audit = run(logs)
    assert audit.findings[0].verdict == "unknown"
    assert audit.read.gaps == (f"__transaction_state is damaged in partitions {log.directory.name[-1]}",)


def test_reports_progress_in_bytes(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    orders.roll()
    orders.data(1)
    advances: list[int] = []
    transactions.audit(logdir.open(logs.write()), progress=advances.append)
    assert sorted(advances) == sorted(len(data) for _, data in orders.segments)


def test_a_ghost_ends_with_a_marker_above_the_log_start(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders", start=50)
    orders.plain()
    orders.snapshot(open_entry(start=10, last=12))
    audit = run(directory)
    assert [(f.reason, f.start_offset, f.blocked) for f in audit.findings] == [("ghost", 10, True)]
    orders.marker("ABORT", 1000)
    assert run(directory).findings == ()


def test_a_transaction_that_began_below_the_log_start_and_goes_on_is_no_ghost(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "logs")
    orders = directory.partition("orders", start=50)
    orders.data(1000, at=OLD)
    orders.snapshot(open_entry(start=10, last=12), offset=50)
    directory.id("other", "CompleteCommit", 9, 1, at=NOON)
    (finding,) = run(directory).findings
    assert (finding.verdict, finding.start_offset, finding.last_offset) == ("hanging", 10, 50)


def test_an_audit_of_nothing_is_incomplete(tmp_path: Path) -> None:
    audit = read(str(tmp_path))
    assert audit.read.partitions == 0
    assert audit.read.gaps == ("no partition's log was found",)
    assert audit.as_of is None
    shutil.rmtree(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path))


def test_many_violations_that_follow_from_another_leave_the_rest_of_the_audit(tmp_path: Path) -> None:
    """Each id has a record that breaks a rule, and an outcome that rests on it; a neighbour hangs."""
    count, logs = 3 * MAX_BREACHES, LogDirectory(tmp_path / "logs", compacted=False)
    orders, neighbour = logs.partition("orders"), logs.partition("payments")
    for number in range(count):
        name = f"a{number}"
        logs.id(name, "Empty", number, begun=NOON)
        logs.id(name, "Ongoing", number, 0, ("orders", 0))
        logs.id(name, "PrepareCommit", number, 0, ("orders", 0))
        logs.id(name, "CompleteCommit", number)
        orders.data(number)
        orders.marker("ABORT", number)
    logs.id("gone", "CompleteAbort", 5000, 1, at=OLD)
    neighbour.data(5000, at=OLD)
    neighbour.plain(at=NOON)
    logs.high_watermark("orders", 0, orders.end)
    logs.high_watermark("payments", 0, neighbour.end)
    found = run(logs)
    assert {finding.topic for finding in found.findings} == {"payments"}
    by_rule = {answer.check: answer for answer in found.answers}
    assert by_rule[TRANSITION_FIELDS].violated == count
    assert by_rule[ONE_OUTCOME].violated == 0
    assert TRANSITION_FIELDS in {violation.check for violation in found.violations}
