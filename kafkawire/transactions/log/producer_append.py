"""`Append`: the fields of a batch that producer state is replayed from (KIP-98). No payload is read but a marker's."""

from __future__ import annotations

import msgspec

from kafkawire.records import Batch
from kafkawire.records.batch import readable_control
from kafkawire.records.control import ABORT, COMMIT, EMPTY, MARKERS, Control, marker_name
from kafkawire.records.header import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL

#: Outcomes of transactions by their code; EMPTY: compaction removed the marker's record.
OUTCOMES = MARKERS[:3]
#: A coordinator epoch that is not known.
NO_EPOCH = -(1 << 31)

_WRITTEN_BY_BROKERS = frozenset(OUTCOMES[:2])
_SEQUENCE_MASK = (1 << 31) - 1


class Append(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A batch of a producer that has an id.

    Attributes:
        timestamp: the newest of the batch, epoch milliseconds.
        control: None for data; COMMIT or ABORT; EMPTY (compaction removed the marker's record); MALFORMED (a control
            batch that cannot be read as a marker).
        coordinator_epoch: of the coordinator that wrote the marker, where it could be read.
        base_sequence: of its first record; -1 where there is none (markers, what coordinators append).
        transactional: whether it belongs to a transaction.
        intact_from: the lowest offset from which up to the batch no offset is missing. Below it there may have been
            more batches of the producer.
        compacted: compaction removed some or all of its records, and with them perhaps its newest timestamp.
        problem: what is wrong with the shape of a control batch.
        append_time: whether the broker has set its timestamp (LogAppendTime).
    """

    base_offset: int
    last_offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    control: str | None = None
    coordinator_epoch: int | None = None
    base_sequence: int = -1
    transactional: bool = True
    intact_from: int = 0
    compacted: bool = False
    problem: str | None = None
    append_time: bool = False

    @property
    def stamp(self) -> int | None:
        """When the broker appended it, by its own clock, epoch milliseconds: of a marker, and of data with
        LogAppendTime; None where it does not show that."""
        by_broker = self.append_time or self.control in _WRITTEN_BY_BROKERS
        return self.timestamp if by_broker else None

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; after 2^31 - 1 comes 0. -1 where there is none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & _SEQUENCE_MASK


def append_of(batch: Batch, intact_from: int = 0) -> Append | None:
    """The batch as an `Append`; None where it has no producer id. Never raises."""
    producer_id = batch.producer_id
    if producer_id < 0:
        return None
    attributes = batch.attributes
    delta = batch.last_offset_delta
    control = coordinator_epoch = problem = None
    if attributes & CONTROL:
        control, coordinator_epoch, problem = _marker(batch)
    base_offset = batch.base_offset
    return Append(
        base_offset,
        base_offset + delta,
        batch.max_timestamp,
        producer_id,
        batch.producer_epoch,
        control,
        coordinator_epoch,
        batch.base_sequence,
        attributes & TRANSACTIONAL != 0,
        intact_from,
        batch.record_count <= delta,
        problem,
        attributes & LOG_APPEND_TIME != 0,
    )


def _marker(batch: Batch) -> tuple[str, int | None, str | None]:
    """Name, coordinator epoch and what is wrong with it."""
    marker = readable_control(batch)
    assert marker is not None
    name = marker_name(marker, transactional=batch.transactional)
    return name, marker.coordinator_epoch, _shape_problem(batch, marker)


def _shape_problem(batch: Batch, marker: Control) -> str | None:
    if marker.problem is not None:
        return marker.problem
    if marker.name != EMPTY and marker.type not in (ABORT, COMMIT):
        return f"a control record of type {marker.name}, which has no producer"
    if not batch.transactional:
        return "a marker without the transactional bit"
    if batch.base_sequence != -1:
        return f"a marker with the sequence number {batch.base_sequence}"
    if batch.record_count > 1:
        return f"a marker of {batch.record_count} records"
    if batch.last_offset_delta > 0 and marker.name != EMPTY:
        return f"a marker that ends {batch.last_offset_delta} offsets behind its own"
    return None
