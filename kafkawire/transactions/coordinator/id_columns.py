"""`IdColumns`: records of `__transaction_state`, decoded many at a time by the native engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.messages import TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Batch
from kafkawire.records.columns import Batches
from kafkawire.transactions.coordinator.coordinator_log import UnreadableRecord, coordinator_records
from kafkawire.transactions.facts import CoordinatorRecord, Place, Registration
from kafkawire.wire.backend import native

#: Whether the native engine decodes records.
ENGINE = native is not None

#: A record: the fields of `Registration` and of `TransactionLogValue`. `id`: index of the transactional id;
#: `partitions`: of the list of partitions, -1: null. `has_value`: not of a tombstone, whose fields are defaults.
ROW = np.dtype(
    [
        ("offset", "<i8"),
        ("timestamp", "<i8"),
        ("producer_id", "<i8"),
        ("previous_producer_id", "<i8"),
        ("next_producer_id", "<i8"),
        ("updated", "<i8"),
        ("started", "<i8"),
        ("id", "<i4"),
        ("leader_epoch", "<i4"),
        ("timeout", "<i4"),
        ("partitions", "<i4"),
        ("epoch", "<i2"),
        ("next_epoch", "<i2"),
        ("version", "<i2"),
        ("status", "i1"),
        ("has_value", "?"),
    ]
)
#: Numbers of a row.
NUMBERS = len(ROW.names or ())
#: What a value of each version has in front of the list of partitions, and after it.
_AROUND = {0: (b"\0" * 15, b"\0" * 16), 1: (b"\0" * 15, b"\0" * 17)}

Rows = npt.NDArray[np.void]
Lists = Sequence[tuple[PartitionsSchema, ...]]


class IdColumns(msgspec.Struct, frozen=True, eq=False):
    """Records in offset order.

    Attributes:
        rows: packed (`ROW`). `names`: transactional ids, in UTF-8.
        lists: lists of partitions, each the version of its value in a byte, and the bytes of the field.
    """

    rows: Rows
    names: list[bytes]
    lists: list[bytes]

    def __len__(self) -> int:
        return len(self.rows)

    def registrations(self, place: Place) -> Iterator[Registration]:
        """Each as an object."""
        return registrations(place, self.rows.tolist(), texts(self.names), partition_lists(self.lists))


#: Records in the form in which a part has them: those that the engine refuses, or all where it is absent, not decoded.
CoordinatorFact = IdColumns | CoordinatorRecord | UnreadableRecord


def coordinator_facts(found: Batches | Batch) -> Iterator[CoordinatorFact]:
    """The records of batches of `__transaction_state`, in order. Never raises."""
    if isinstance(found, Batch):
        yield from coordinator_records(found)
        return
    data, at = np.frombuffer(found.data, np.uint8), 0
    while at < len(found):
        if ENGINE:
            assert native is not None
            rows, names, lists, at = native.coordinator_columns(data, found.start, at, found.max_batch_bytes)
            if len(rows):
                yield IdColumns(rows.view(ROW), names, lists)
        if at < len(found):
            yield from coordinator_records(found.batch(at))
            at += 1


def texts(names: Iterable[bytes]) -> list[str]:
    """Transactional ids, as messages have them."""
    return [name.decode("utf-8", "surrogateescape") for name in names]


def partition_lists(lists: Iterable[bytes]) -> Lists:
    """Lists of partitions, as `TransactionLogValue` has them."""
    return [_partitions(one) for one in lists]


def _partitions(one: bytes) -> tuple[PartitionsSchema, ...]:
    before, after = _AROUND[one[0]]
    value = TransactionLogValue.decode(before + one[1:] + after, version=one[0])
    return tuple(value.transaction_partitions or ())


def registrations(
    place: Place, rows: Iterable[Sequence[Any]], names: Sequence[str], lists: Lists
) -> Iterator[Registration]:
    """Rows of `ROW` as objects."""
    for row in rows:
        offset, timestamp, producer_id, previous, next_, updated, started, name, leader_epoch = row[:9]
        timeout, partitions, epoch, next_epoch, version, status, has_value = row[9:]
        value = None
        if has_value:
            value = TransactionLogValue(
                producer_id=producer_id,
                previous_producer_id=previous,
                next_producer_id=next_,
                producer_epoch=epoch,
                next_producer_epoch=next_epoch,
                transaction_timeout_ms=timeout,
                transaction_status=status,
                transaction_partitions=None if partitions < 0 else lists[partitions],
                transaction_last_update_timestamp_ms=updated,
                transaction_start_timestamp_ms=started,
                client_transaction_version=version,
            )
        yield Registration(
            place=place,
            offset=offset,
            timestamp=timestamp,
            transactional_id=names[name],
            value=value,
            leader_epoch=leader_epoch,
        )


def columns_of(found: Registration) -> IdColumns:
    """The reverse of `registrations`, of one."""
    value = found.value
    numbers = found.offset, found.timestamp
    of_value: tuple[int, ...] = (0, -1, -1, 0, 0)
    rest: tuple[int, ...] = (0, -1, 0, -1, 0, 0)
    lists: list[bytes] = []
    if value is not None:
        of_value = (
            value.producer_id, value.previous_producer_id, value.next_producer_id,
            value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms,
        )  # fmt: skip
        if value.transaction_partitions is not None:
            listed = TransactionLogValue(transaction_partitions=value.transaction_partitions).encode(version=0)
            before, after = _AROUND[0]
            lists = [b"\0" + listed[len(before) : len(listed) - len(after)]]
        rest = (
            value.transaction_timeout_ms, len(lists) - 1, value.producer_epoch, value.next_producer_epoch,
            value.client_transaction_version, value.transaction_status,
        )  # fmt: skip
    row = (*numbers, *of_value, 0, found.leader_epoch, *rest, value is not None)
    return IdColumns(np.array([row], ROW), [found.transactional_id.encode("utf-8", "surrogateescape")], lists)
