"""The state of a producer id and epoch in the coordinator's log."""

from __future__ import annotations

import pytest

from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.records import Batch, Record, build, build_marker, read
from kafkawire.transactions import IdLog, Place, registration, standing, state_name
from kafkawire.transactions.coordinator.coordinator_log import (
    AHEAD,
    BUMPED,
    CURRENT,
    ENDED,
    NOT_BEGUN,
    UnreadableRecord,
    coordinator_records,
)
from kafkawire.transactions.facts import CoordinatorRecord
from tests.audit_logs import STATUS

PLACE = Place("logs", "__transaction_state", 0)


def value(state: int, epoch: int, version: int, producer_id: int = 7, **more: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_status=state,
        transaction_partitions=None,
        client_transaction_version=version,
        **more,
    )


@pytest.mark.parametrize(
    ("state", "version", "expected"),
    [
        # the record's epoch is behind the data's by one, the same, one ahead, two ahead
        ("Empty", 0, (AHEAD, NOT_BEGUN, BUMPED, BUMPED)),
        ("Empty", 2, (AHEAD, NOT_BEGUN, BUMPED, BUMPED)),
        ("Ongoing", 0, (AHEAD, CURRENT, BUMPED, BUMPED)),
        ("Ongoing", 2, (AHEAD, CURRENT, BUMPED, BUMPED)),
        ("PrepareCommit", 0, (AHEAD, CURRENT, CURRENT, BUMPED)),
        ("PrepareCommit", 2, (AHEAD, CURRENT, CURRENT, BUMPED)),
        ("PrepareAbort", 1, (AHEAD, CURRENT, CURRENT, BUMPED)),
        ("PrepareAbort", 2, (AHEAD, CURRENT, CURRENT, BUMPED)),
        ("CompleteCommit", 0, (AHEAD, ENDED, BUMPED, BUMPED)),
        ("CompleteCommit", 2, (AHEAD, NOT_BEGUN, ENDED, BUMPED)),
        ("CompleteAbort", 1, (AHEAD, ENDED, ENDED, BUMPED)),
        ("CompleteAbort", 2, (AHEAD, NOT_BEGUN, ENDED, BUMPED)),
        ("Dead", 2, (None, None, None, None)),
    ],
)
def test_epochs_are_read_by_state_and_transaction_version(
    state: str, version: int, expected: tuple[str | None, ...]
) -> None:
    found = tuple(standing(value(STATUS[state], 10 + ahead, version), 7, 10) for ahead in (-1, 0, 1, 2))
    assert found == expected


def test_a_state_that_kafka_does_not_name_is_no_evidence() -> None:
    assert state_name(42) == "UNKNOWN_42"
    assert standing(value(42, 0, 0), 7, 0) is None


def record(transactional_id: str, body: TransactionLogValue | None, offset: int) -> CoordinatorRecord:
    key = TransactionLogKey(transactional_id=transactional_id).encode_prefixed(version=0)
    return CoordinatorRecord(offset, 1000 + offset, key, None if body is None else body.encode_prefixed(version=1))


def log_of(*records: CoordinatorRecord) -> IdLog:
    log = IdLog()
    for listed in records:
        found = registration(PLACE, listed)
        assert found is not None
        log.add(found)
    return log


def test_the_newest_record_of_an_id_counts() -> None:
    log = log_of(record("a", value(1, 3, 2), 0), record("b", value(1, 0, 2, 8), 1), record("a", value(4, 4, 2), 2))
    owner = log.owner(7)
    assert owner is not None
    assert (owner.newest.transactional_id, owner.newest.offset, owner.current) == ("a", 2, True)
    assert log.owner(9) is None


def test_producer_ids_before_and_after_are_known_too() -> None:
    log = log_of(record("a", value(2, 32767, 2, 7, previous_producer_id=6, next_producer_id=8), 0))
    for producer_id, current in ((6, False), (7, True), (8, False)):
        owner = log.owner(producer_id)
        assert owner is not None
        assert owner.current is current


def test_the_current_owner_of_a_producer_id_precedes_former_ones() -> None:
    log = log_of(record("a", value(1, 0, 2, 7), 0), record("b", value(1, 0, 2, 9, previous_producer_id=7), 1))
    owner = log.owner(7)
    assert owner is not None
    assert owner.newest.transactional_id == "a"


def test_a_tombstone_keeps_the_name_of_the_id() -> None:
    owner = log_of(record("a", value(4, 4, 2), 0), record("a", None, 1)).owner(7)
    assert owner is not None
    assert owner.newest.value is None
    assert owner.newest.transactional_id == "a"


def test_unset_producer_ids_have_no_owner() -> None:
    assert log_of(record("a", value(1, 0, 2, 7, previous_producer_id=-1), 0)).owner(-1) is None


@pytest.mark.parametrize(
    ("key", "body", "unreadable"),
    [
        (None, b"x", False),
        (b"\0\x09abc", b"\0\0", False),  # a key type that is not known yet
        (b"\0\0\0\x09a", b"\0\0", True),
        (b"\0\0\0\x01a", b"", True),
        (b"\0\0\0\x01a", b"\0\x63", True),
        (b"\0\0\0\x01a", b"\0\x01\0\0", True),
    ],
)
def test_separates_undecodable_records_from_irrelevant_ones(key: bytes | None, body: bytes, unreadable: bool) -> None:
    found = registration(PLACE, CoordinatorRecord(5, 0, key, body))
    assert isinstance(found, UnreadableRecord) if unreadable else found is None


def test_batches_of_the_coordinators_log_never_raise() -> None:
    (marker,) = read(
        build_marker("COMMIT", offset=3, timestamp=0, producer_id=1, producer_epoch=0, coordinator_epoch=0)
    )
    assert isinstance(marker, Batch)
    assert list(coordinator_records(marker)) == []
    data = bytearray(build([Record(key=b"a"), Record(key=b"b")], base_offset=5))
    data[61] = 0xFF  # the first record's length
    (torn,) = read(bytes(data), check_crc=False)
    assert isinstance(torn, Batch)
    (found,) = coordinator_records(torn)
    assert isinstance(found, UnreadableRecord)
    assert found.offset == 5
