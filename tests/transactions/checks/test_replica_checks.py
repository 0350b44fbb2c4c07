"""Every rule of the log: one broken, one violation; and what could have happened legally is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Batch as RecordBatch
from kafkawire.records import Record, build, read
from kafkawire.rows import Violation
from kafkawire.transactions import Replay, append_of
from kafkawire.transactions.answers import MAX_BREACHES
from kafkawire.transactions.checks.check_names import LOG_CHECKS
from kafkawire.transactions.log.batch_rules import RULES
from tests.audit_logs import HOUR, NOON, LogDirectory, PartitionLog


def sound(log: PartitionLog) -> None:
    """Transactions of versions below 2 (producer 1) and of version 2 (producer 2), an idempotent producer (3)."""
    log.data(1, records=2)
    log.marker("COMMIT", 1)
    log.data(1, records=3)
    log.data(2, 0)
    log.data(3, records=2, transactional=False)
    log.marker("ABORT", 1)
    log.marker("COMMIT", 2, 1)
    log.data(2, 1, records=2)
    log.data(3, transactional=False)
    log.marker("ABORT", 2, 2, coordinator_epoch=1)
    log.data(1)


def violations(log: PartitionLog) -> list[Violation]:
    log.write()
    return list(transactions.audit(logdir.open(log.directory)).violations)


def checks_of(found: list[Violation]) -> list[str]:
    return [violation.check for violation in found]


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return PartitionLog(tmp_path / "orders-0")


def marker_of(
    log: PartitionLog,
    *,
    records: int = 1,
    sequence: int = -1,
    key: bytes = b"\0\0\0\1",
    transactional: bool = True,
) -> None:
    listed = [Record(key=key, value=b"\0\0\0\0\0\0", timestamp=NOON)] * records
    data = build(
        listed, base_offset=log.end, producer_id=1, producer_epoch=0, base_sequence=sequence,
        transactional=transactional, control=True,
    )  # fmt: skip
    log.segments[-1][1].extend(data)
    log.end += records


#: What is done to a sound log, the check that it breaks, and the text of the violation.
BREAKS: list[tuple[Callable[[PartitionLog], object], str, str]] = [
    (lambda log: log.data(3, transactional=False, sequence=9), "sequence_contiguous", "sequence number 9 after 2"),
    (lambda log: log.data(3, transactional=False, sequence=1), "sequence_contiguous", "sequence number 1 after 2"),
    (lambda log: log.data(3, transactional=False, sequence=2), "duplicate_batch", "sequence numbers 2 to 2 again"),
    (
        lambda log: log.data(3, 1, transactional=False, sequence=1),
        "new_epoch_from_zero",
        "epoch 1 begins with sequence number 1",
    ),
    (lambda log: log.data(2, 2, sequence=3), "new_epoch_from_zero", "epoch 2 begins with sequence number 3"),
    (lambda log: log.data(2, 1), "epoch_not_backwards", "epoch 1 after epoch 2"),
    (lambda log: log.marker("ABORT", 2, 0, coordinator_epoch=1), "epoch_not_backwards", "epoch 0 after epoch 2"),
    (
        lambda log: log.marker("COMMIT", 2, 2, coordinator_epoch=0),
        "coordinator_epoch_monotonic",
        "a marker of coordinator epoch 0 after one of 1",
    ),
    (lambda log: marker_of(log, records=2), "marker_shape", "a marker of 2 records"),
    (lambda log: marker_of(log, transactional=False), "marker_shape", "a marker without the transactional bit"),
    (lambda log: marker_of(log, sequence=4), "marker_shape", "a marker with the sequence number 4"),
    (lambda log: marker_of(log, key=b"\0\0\0\2"), "marker_shape", "a control record of type LEADER_CHANGE"),
    (lambda log: marker_of(log, key=b"\0"), "marker_shape", "an int16 version"),
    (
        lambda log: log.data(1, transactional=False),
        "mixed_batches",
        "a batch outside of transactions while the one from offset 15 on is open",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spoil", "check", "what"), BREAKS, ids=lambda case: case if isinstance(case, str) else "")
def test_names_the_broken_rule_only(
    log: PartitionLog, spoil: Callable[[PartitionLog], object], check: str, what: str
) -> None:
    sound(log)
    assert violations(log) == []
    offset = log.end
    spoil(log)
    (found,) = violations(log)
    assert (found.check, found.offset) == (check, offset)
    assert what in found.what
    assert (found.topic, found.partition) == ("orders", 0)
    assert found.place == f"orders-0, offset {offset}"


def test_sound_logs_hold_in_every_check(log: PartitionLog) -> None:
    sound(log)
    log.roll()
    log.data(1, records=2)
    log.write()
    log.derive()
    (partition,) = logdir.open(log.directory).partitions
    answers = {answer.check: answer for answer in transactions.check(partition)}
    assert tuple(answers) == LOG_CHECKS
    assert {answer.answer for answer in answers.values()} == {"holds"}
    silent = {rule.name for rule in RULES if rule.asks is not None}  # of what they do not ask for they say nothing
    assert all(answer.held for name, answer in answers.items() if name not in silent)
    assert {answer.lacked for answer in answers.values()} == {()}


def test_does_not_judge_steps_across_missing_offsets(log: PartitionLog) -> None:
    sound(log)
    log.skip(2)
    log.data(3, transactional=False, sequence=9)
    log.data(2, 3, sequence=1)
    log.write()
    (partition,) = logdir.open(log.directory).partitions
    answers = {answer.check: answer for answer in transactions.check(partition)}
    assert not any(answer.violated for answer in answers.values())
    assert answers["sequence_contiguous"].not_checkable == 1
    assert answers["new_epoch_from_zero"].not_checkable == 1
    assert answers["sequence_contiguous"].lacked == ("offsets are missing since the producer's batch before",)


def test_a_batch_outside_of_a_transaction_whose_marker_may_be_missing_is_not_judged(log: PartitionLog) -> None:
    sound(log)
    log.skip(1)
    log.data(1, transactional=False)
    log.write()
    (partition,) = logdir.open(log.directory).partitions
    mixed = next(answer for answer in transactions.check(partition) if answer.check == "mixed_batches")
    assert (mixed.violated, mixed.not_checkable) == (0, 1)


def test_idle_coordinators_which_number_no_batches_lack_no_sequence(log: PartitionLog) -> None:
    """What they append to __consumer_offsets has no sequence numbers."""
    log.data(5, sequence=-1)
    log.marker("COMMIT", 5)
    log.data(5, sequence=-1, at=NOON + 24 * HOUR)
    log.write()
    (partition,) = logdir.open(log.directory).partitions
    lacking = {answer.check for answer in transactions.check(partition) if answer.not_checkable}
    assert "epoch_not_backwards" in lacking
    assert not lacking & {"sequence_contiguous", "duplicate_batch", "new_epoch_from_zero"}


def test_a_producer_that_was_idle_for_a_day_may_begin_anew(log: PartitionLog) -> None:
    sound(log)
    log.data(3, transactional=False, sequence=9, at=NOON + 24 * HOUR)
    log.write()
    (partition,) = logdir.open(log.directory).partitions
    assert not any(answer.violated for answer in transactions.check(partition))
    sooner = transactions.check(partition, expiration_ms=25 * HOUR)
    assert [answer.check for answer in sooner if answer.violated] == ["sequence_contiguous"]


def test_the_first_batch_of_a_producer_may_have_any_sequence_number(log: PartitionLog) -> None:
    log.data(5, transactional=False, sequence=77)
    assert violations(log) == []


def test_sequence_number_0_follows_the_highest(log: PartitionLog) -> None:
    log.data(5, transactional=False, records=3, sequence=2**31 - 2)
    log.data(5, transactional=False, sequence=1)
    log.data(5, transactional=False, sequence=2)
    assert violations(log) == []
    log.data(5, transactional=False, sequence=2**31 - 1)
    assert checks_of(violations(log)) == ["sequence_contiguous"]


def test_a_retry_is_known_among_the_last_five_batches(log: PartitionLog) -> None:
    for _ in range(6):
        log.data(5, transactional=False)
    log.data(5, transactional=False, sequence=0)
    assert checks_of(violations(log)) == ["sequence_contiguous"]  # the first of six is forgotten
    log.data(5, transactional=False, sequence=2)
    assert checks_of(violations(log)) == ["sequence_contiguous", "duplicate_batch"]


@pytest.mark.parametrize(("topic", "broken"), [("orders", True), ("__consumer_offsets", False)])
def test_offsets_of_transactions_have_no_sequence_numbers_of_their_producer(
    tmp_path: Path, topic: str, broken: bool
) -> None:
    """Group coordinators begin each batch with 0 (TxnOffsetCommit), also within a transaction and within an epoch."""
    log = PartitionLog(tmp_path / f"{topic}-0")
    log.data(1, records=2, sequence=0)
    log.data(1, sequence=0)
    log.marker("COMMIT", 1)
    log.data(1, sequence=0)
    log.marker("ABORT", 1)
    assert bool(violations(log)) == broken


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", 5), ("last_sequence", 3), ("last_offset", 14), ("offset_delta", 1), ("timestamp", NOON + 1),
        ("coordinator_epoch", 3), ("current_txn_first_offset", -1),
    ],
)  # fmt: skip
def test_a_snapshot_with_another_value_is_a_violation(log: PartitionLog, field: str, value: int) -> None:
    entries = derived_snapshot(log)
    wrong = [ProducerEntry(**{**plain(e), field: value}) if e.producer_id == 1 else e for e in entries]
    log.snapshot(*wrong)
    (found,) = violations(log)
    assert (found.check, found.offset, found.producer_id) == ("snapshot_equals_replay", log.end, 1)
    assert found.what.startswith(f"{field} {value}, the log has ")
    assert found.file == str(log.directory / f"{log.end:020}.snapshot")


def test_a_snapshot_with_an_unknown_producer_is_a_violation(log: PartitionLog) -> None:
    log.snapshot(*derived_snapshot(log), ProducerEntry(producer_id=9, last_offset=3, current_txn_first_offset=-1))
    (found,) = violations(log)
    assert (found.check, found.producer_id) == ("snapshot_equals_replay", 9)


def test_a_snapshot_without_an_open_producer_is_a_violation(log: PartitionLog) -> None:
    """Who is idle may have expired; who has an open transaction has not."""
    entries = derived_snapshot(log)
    log.snapshot(*(entry for entry in entries if entry.producer_id != 3))
    assert violations(log) == []
    log.snapshot(*(entry for entry in entries if entry.producer_id != 1))
    (found,) = violations(log)
    assert (found.check, found.producer_id) == ("snapshot_equals_replay", 1)


def test_a_wrong_snapshot_is_reported_once(log: PartitionLog) -> None:
    entries = derived_snapshot(log)
    log.snapshot(*(ProducerEntry(**{**plain(e), "coordinator_epoch": 8}) for e in entries if e.producer_id == 1))
    log.roll()
    log.data(1)
    derived = [entry for entry in derived_snapshot_of(log) if entry.producer_id == 1]
    log.snapshot(*(ProducerEntry(**{**plain(e), "coordinator_epoch": 8}) for e in derived))
    assert [found.offset for found in violations(log)] == [log.end - 1]


def test_a_snapshot_that_cannot_be_read_is_no_violation(log: PartitionLog) -> None:
    derived_snapshot(log)
    (log.directory / f"{log.end:020}.snapshot").write_bytes(b"\0\1" + bytes(20))
    assert violations(log) == []


def test_a_snapshot_may_lack_the_coordinator_epoch_of_a_returned_producer(log: PartitionLog) -> None:
    """It began anew without a marker, and so without a coordinator epoch; the log still has one."""
    entries = derived_snapshot(log)
    log.snapshot(*(ProducerEntry(**{**plain(e), "coordinator_epoch": -1}) for e in entries))
    assert violations(log) == []


@pytest.mark.parametrize("suffix", ["snapshot", "txnindex"])
def test_a_file_that_cannot_be_opened_is_no_violation(log: PartitionLog, suffix: str) -> None:
    derived_snapshot(log)
    for path in sorted(log.directory.glob(f"*.{suffix}")):
        path.unlink()
        path.symlink_to(log.directory / "gone")
    (partition,) = logdir.open(log.directory).partitions
    check = {"snapshot": "snapshot_equals_replay", "txnindex": "txnindex_equals_log"}[suffix]
    answer = next(answer for answer in transactions.check(partition) if answer.check == check)
    assert (answer.answer, answer.lacked) == ("not_checkable", ("the file cannot be read",))


def write_index(log: PartitionLog, entries: list[AbortedTxn]) -> None:
    log.derive()
    data = b"".join(entry.encode_prefixed(version=0) for entry in entries)
    (log.directory / f"{0:020}.txnindex").write_bytes(data)


#: Of `sound`: producer 1's second transaction, while producer 2's is open; producer 2's second one.
FIRST = AbortedTxn(producer_id=1, first_offset=3, last_offset=9, last_stable_offset=6)
SECOND = AbortedTxn(producer_id=2, first_offset=11, last_offset=14, last_stable_offset=15)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([FIRST], "lacks the transaction from offset 11 on"),
        ([SECOND], "lacks the transaction from offset 3 on"),
        ([AbortedTxn(1, 2, 9, 6), SECOND], "first offset 2, the log has 3"),
        ([AbortedTxn(2, 3, 9, 6), SECOND], "producer id 2, the marker's is 1"),
        ([AbortedTxn(1, 3, 9, 10), SECOND], "last stable offset 10, the log has 6"),
        ([FIRST, AbortedTxn(1, 11, 12, 13), SECOND], "has an entry, and the log aborts no transaction"),
        ([SECOND, FIRST], "entries are out of order"),
    ],
)
def test_a_transaction_index_with_other_entries_is_a_violation(
    log: PartitionLog, entries: list[AbortedTxn], what: str
) -> None:
    sound(log)
    log.write()
    write_index(log, [FIRST, SECOND])
    assert violations(log) == []
    write_index(log, entries)
    (found,) = violations(log)
    assert found.check == "txnindex_equals_log"
    assert what in found.what


@pytest.mark.parametrize(("stable", "violated"), [(2, 0), (4, 1), (5, 1), (6, 0), (8, 1), (9, 1)])
def test_of_what_begins_behind_a_marker_the_first_of_another_producer_may_hold_its_offset(
    log: PartitionLog, stable: int, violated: int
) -> None:
    """As on a follower that appended all of it at once."""
    log.data(1)
    log.marker("ABORT", 1)
    log.plain(records=2)
    for producer_id in (1, 2, 3):
        log.data(producer_id)
        if producer_id < 3:
            log.marker("COMMIT", producer_id)
    log.write()
    write_index(log, [AbortedTxn(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=stable)])
    assert checks_of(violations(log)) == ["txnindex_equals_log"] * violated


def test_the_index_of_the_last_segment_may_lag_behind_in_a_running_copy(log: PartitionLog) -> None:
    sound(log)
    log.write()
    write_index(log, [FIRST])
    (log.directory / f"{log.end:020}.snapshot").unlink()
    assert violations(log) == []


def two_segments(log: PartitionLog) -> Path:
    """Each with an aborted transaction, and its index. Returns the path of the second one."""
    log.data(1)
    log.marker("ABORT", 1)
    log.roll()
    log.data(1)
    log.marker("ABORT", 1)
    log.write()
    log.derive()
    assert violations(log) == []
    return log.directory / f"{log.segments[1][0]:020}.log"


def test_the_index_of_a_segment_that_was_cut_may_go_on_behind_it(log: PartitionLog) -> None:
    """The snapshot of its base offset was written when it began, not when the broker was stopped."""
    second = two_segments(log)
    (log.directory / f"{log.end:020}.snapshot").unlink()
    second.write_bytes(b"")
    assert "txnindex_equals_log" not in checks_of(list(transactions.audit(logdir.open(log.directory)).violations))


def test_a_segment_without_indexes_of_its_own_is_not_compared(log: PartitionLog) -> None:
    """One in `.log.swap` replaces those before it, and their indexes."""
    two_segments(log)
    first = log.directory / f"{0:020}.log"
    first.rename(first.with_name(f"{first.name}.swap"))
    assert "txnindex_equals_log" not in checks_of(list(transactions.audit(logdir.open(log.directory)).violations))


def test_a_log_without_indexes_violates_nothing(log: PartitionLog) -> None:
    sound(log)
    assert violations(log) == []


def test_many_violations_are_counted(log: PartitionLog) -> None:
    log.data(3, transactional=False)
    for i in range(MAX_BREACHES + 20):
        log.data(3, transactional=False, sequence=100 + 2 * i)
    found = violations(log)
    assert len(found) == MAX_BREACHES + 1
    assert found[-1].what == f"20 more, after the first {MAX_BREACHES}"


def test_records_deleted_by_request_leave_no_false_alarm(tmp_path: Path) -> None:
    """The log begins within a transaction that only the newest snapshot still knows."""
    logs = LogDirectory(tmp_path / "logs")
    whole = PartitionLog(tmp_path / "whole-0")
    sound(whole)
    kept = logs.partition("orders", start=whole.end)
    kept.sequences = dict(whole.sequences)
    for log in (kept, whole):
        log.data(1)
    log_start = kept.end
    for log in (kept, whole):
        log.data(1, records=2)
    kept.snapshot(*derived_snapshot_of(whole))
    logs.checkpoint("log-start-offset-checkpoint", "orders", 0, log_start)
    audit = transactions.audit(logdir.open(logs.write()))
    assert audit.violations == ()
    assert [finding.start_offset for finding in audit.findings] == [15]


def derived_snapshot(log: PartitionLog) -> list[ProducerEntry]:
    """Of `sound`, written with its files; its entries."""
    sound(log)
    log.write()
    log.derive()
    assert violations(log) == []
    return derived_snapshot_of(log)


def derived_snapshot_of(log: PartitionLog) -> list[ProducerEntry]:
    replay = Replay()
    for _, data in log.segments:
        for batch in read(bytes(data)):
            assert isinstance(batch, RecordBatch)
            append = append_of(batch)
            if append is not None:
                replay.add(append)
    return replay.snapshot()


def plain(entry: ProducerEntry) -> dict[str, int]:
    return {name: getattr(entry, name) for name in (
        "producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch",
        "current_txn_first_offset",
    )}  # fmt: skip
