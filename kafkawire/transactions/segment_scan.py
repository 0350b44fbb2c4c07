"""Segments as facts, many batches at a time: columns instead of an object a batch.

for found in read_pieces(file):
    if isinstance(found, Appends): ...       # what batches say of their producers
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire import rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.splits import pieces
from kafkawire.records import CONTROL_TYPES, Batch, Damage
from kafkawire.records.array_types import Bools, Int16, Int32, Int64
from kafkawire.records.columns import Batches
from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.records.header import CONTROL, LOG_APPEND_TIME
from kafkawire.records.marker_columns import markers
from kafkawire.transactions.coordinator_log import UnreadableRecord, coordinator_records
from kafkawire.transactions.facts import (
    BROKER_WRITTEN,
    TRANSACTION_STATE,
    CoordinatorRecord,
    OffsetGap,
    Segment,
)
from kafkawire.transactions.producer_append import Append, append_of

_MARKERS = np.array([CONTROL_TYPES[0], CONTROL_TYPES[1]], object)


class Appends(msgspec.Struct, frozen=True, eq=False):
    """Batches of producers that have ids, in offset order: an array a field of `Append`, an element a batch.

    Attributes:
        position: byte offset of the batch in its file.
        coordinator_epoch: None where there is none.
    """

    position: Int64
    base_offset: Int64
    last_offset: Int64
    timestamp: Int64
    producer_id: Int64
    producer_epoch: Int16
    control: npt.NDArray[np.object_]
    coordinator_epoch: npt.NDArray[np.object_]
    base_sequence: Int32
    transactional: Bools
    intact_from: Int64
    thinned: Bools
    problem: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.position)

    def __iter__(self) -> Iterator[Append]:
        """Each as an object."""
        return map(Append, *(getattr(self, name).tolist() for name in self.__struct_fields__[1:]))

    def where(self, chosen: Bools) -> Appends:
        """Those that are chosen."""
        return Appends(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


PieceFact = Appends | CoordinatorRecord | UnreadableRecord | Segment


def read_pieces(
    file: LogFile, after: Segment | None = None, *, start: int = 0, end: int | None = None
) -> Iterator[PieceFact]:
    """A segment, or a part of one: the batches of its producers and, of `__transaction_state`, its records, in offset
    order; last the `Segment` itself. What cannot be read becomes damage of the segment.

    Args:
        after: the segment before; None for the first of the log, or where it does not matter what is missing.
        start, end: the part, one of `logdir.splits.ranges`.
    """
    scan = SegmentScan(file.topic or "", file.offset or 0, after)
    damage: list[rows.Damage] = []
    shortened = False
    try:
        for item in pieces(file, start, end):
            if isinstance(item, Damage):
                shortened = shortened or item.shortened
                if not item.harmless:
                    damage.append(rows.Damage.of(item, **file.place))
                continue
            if isinstance(item, Batch):
                scan.add_old(item)
            else:
                appends = scan.add(item)
                if len(appends):
                    yield appends
            if file.topic == TRANSACTION_STATE:
                for batch in [item] if isinstance(item, Batch) else map(item.batch, range(len(item))):
                    yield from coordinator_records(batch)
    except OSError as error:
        damage.append(rows.Damage.of(Damage(0, "unreadable", error.strerror or str(error)), **file.place))
    yield scan.segment(tuple(damage), shortened=shortened)


class SegmentScan:
    """Reduces the batches of one segment, in order, to a `Segment`; `add` returns what the replay needs to see.

    Args:
        after: the segment before; None for the first of the log.
    """

    def __init__(self, topic: str, base_offset: int, after: Segment | None = None) -> None:
        self._broker_written = topic in BROKER_WRITTEN
        self._base_offset = base_offset
        self._first_offset: int | None = None
        self._next_offset = base_offset
        self._following = None if after is None else after.end_offset
        self._intact_from = base_offset if after is None else after.intact_from
        self._leader_epoch = -1
        self._batches = self._transactional = self._bytes = 0
        self._broker_time: int | None = None
        self._gap: OffsetGap | None = None

    def add(self, found: Batches) -> Appends:
        """Count batches. Returns those of producers with ids."""
        base, ends = found.base_offset, found.last_offset + 1
        holes = self._count(base, ends, found)
        asked = found.producer_id >= 0
        control, coordinator_epoch, problem = _controls(found, asked)
        appends = Appends(
            found.position,
            base,
            ends - 1,
            found.max_timestamp,
            found.producer_id,
            found.producer_epoch,
            control,
            coordinator_epoch,
            found.base_sequence,
            found.transactional,
            self._intact(base, ends, control == EMPTY),
            found.record_count <= found.last_offset_delta,
            problem,
        )
        self._transactional += int((asked & appends.transactional).sum())
        # A malformed one may be the marker that somebody waits for.
        lost = np.flatnonzero((control == MALFORMED) & appends.transactional)
        if len(lost) and lost[-1] >= holes:
            self._gap = OffsetGap(int(base[lost[-1]]), int(ends[lost[-1]]))
        return appends if asked.all() else appends.where(asked)

    def add_old(self, batch: Batch) -> None:
        """Count a batch of magic 0 or 1, which has no producer."""
        base, ends = np.array([batch.base_offset]), np.array([batch.last_offset + 1])
        self._count(base, ends, batch)
        self._intact(base, ends, np.zeros(1, bool))

    def _count(self, base: Int64, ends: Int64, found: Batches | Batch) -> int:
        """Returns the index of the last batch before which offsets are missing, -1 for none."""
        reached = np.maximum.accumulate(np.concatenate(([self._next_offset], ends)))
        holes = np.flatnonzero(base > reached[:-1])
        if self._first_offset is None:
            self._first_offset = int(base[0])
            holes = holes[holes > 0]
        if len(holes):
            self._gap = OffsetGap(int(reached[holes[-1]]), int(base[holes[-1]]))
        self._next_offset = int(reached[-1])
        self._batches += len(base)
        self._bytes += int(np.sum(found.size))
        epochs = found.partition_leader_epoch if isinstance(found, Batch) else found.leader_epoch
        self._leader_epoch = max(self._leader_epoch, int(np.max(epochs)))
        by_broker = np.atleast_1d(found.max_timestamp)
        if not self._broker_written:
            by_broker = by_broker[(np.atleast_1d(found.attributes) & (CONTROL | LOG_APPEND_TIME)) != 0]
        if len(by_broker):
            self._broker_time = max(self._broker_time or 0, int(by_broker.max()))
        return int(holes[-1]) if len(holes) else -1

    def _intact(self, base: Int64, ends: Int64, empty: Bools) -> Int64:
        """For each batch the first offset of the run without missing offsets that it stands in. Behind a marker that
        compaction emptied a new one begins."""
        before = np.concatenate(([base[0] - 1 if self._following is None else self._following], ends[:-1]))
        broken, emptied = np.flatnonzero(base != before), np.flatnonzero(empty)
        at = np.concatenate(([-1], 2 * broken, 2 * emptied + 1))
        values = np.concatenate(([self._intact_from], base[broken], ends[emptied]))
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
        found: Int64 = values[np.searchsorted(at, 2 * np.arange(len(base)), side="right") - 1]
        self._intact_from = int(values[-1])
        self._following = int(ends[-1])
        return found

    def segment(self, damage: tuple[rows.Damage, ...] = (), *, shortened: bool = False) -> Segment:
        """The facts, once all batches were added.

        Args:
            damage: what stood between them, harmless rows left out.
            shortened: the file became shorter while it was read.
        """
        if damage and damage[-1].resumed_at is None:
            self._gap = OffsetGap(self._next_offset)
        if not self._batches and self._following is not None and self._following < self._base_offset:
            self._intact_from = self._base_offset  # what compaction left of the one before ends below this one
        return Segment(
            base_offset=self._base_offset,
            first_offset=self._base_offset if self._first_offset is None else self._first_offset,
            end_offset=self._next_offset,
            leader_epoch=self._leader_epoch,
            batches=self._batches,
            transactional=self._transactional,
            bytes=self._bytes,
            broker_time=self._broker_time,
            gap=self._gap,
            damage=damage,
            intact_from=self._intact_from,
            shortened=shortened,
        )


def _controls(
    found: Batches, asked: Bools
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """What control batches say: name, coordinator's epoch, what is wrong with them; None in those of data, and in those
    that are not asked for."""
    control, coordinator_epoch, problem = (np.full(len(found), None, object) for _ in range(3))
    of_control = found.is_control
    if of_control.any():
        plain = markers(found)
        # Only markers in which `append_of` finds no problem.
        right = (found.transactional & asked & (found.base_sequence < 0))[plain.at]
        index = plain.at[right]
        control[index] = _MARKERS[plain.type[right]]
        coordinator_epoch[index] = plain.coordinator_epoch[right]
        of_control[index] = False
        for i in np.flatnonzero(of_control & asked).tolist():
            append = append_of(found.batch(i))
            assert append is not None
            control[i], coordinator_epoch[i], problem[i] = append.control, append.coordinator_epoch, append.problem
    return control, coordinator_epoch, problem
