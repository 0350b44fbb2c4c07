"""Segments -> facts, many batches at a time, in columns without an object for each batch.

for found in read_part(file, None):
    if isinstance(found, Appends): ...       # the producers of batches
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kafkawire import rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.offset_scan import LOG_BEGINS, LogOffsets, OffsetScan
from kafkawire.logdir.splits import batches_of
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Bools, Int8, Int32, Int64
from kafkawire.records.columns import Batches
from kafkawire.records.control import DATA_CODE, EMPTY_CODE, MALFORMED_CODE, MARKER_CODES
from kafkawire.records.header import CONTROL, LOG_APPEND_TIME
from kafkawire.records.marker_columns import markers
from kafkawire.records.offset_gap import OffsetGap
from kafkawire.transactions.facts import (
    BROKER_WRITTEN,
    TRANSACTION_STATE,
    Segment,
)
from kafkawire.transactions.log.appends import NO_COORDINATOR, Appends
from kafkawire.transactions.log.producer_append import append_of
from kafkawire.transactions.log.range_digests import DIGEST, Digests, PackedDigests, digests_of, joined
from kafkawire.transactions.parts.coordinator_walk import CoordinatorWalk, RecordWalk, Walked
from kafkawire.transactions.parts.producer_walk import ENGINE, ProducerWalk, ScannedLog

#: Where `intact_from` is among the columns of `Appends`.
_INTACT_AT = Appends.__struct_fields__.index("intact_from")


class PartScan(LogOffsets, frozen=True, kw_only=True):
    """The offsets and counts of a part of a segment, made without the parts before it; fields as in `Segment`.

    Attributes:
        digests: of its batches (`range_digests.DIGEST`).
    """

    leader_epoch: int = -1
    batches: int = 0
    transactional: int = 0
    bytes: int = 0
    broker_time: int | None = None
    leader_time: tuple[int, int] | None = None
    damage: tuple[rows.DamageRow, ...] = ()
    shortened: bool = False
    zeros_at: int | None = None
    digests: PackedDigests = b""

    def joined(self, part: PartScan) -> PartScan:
        """Both parts as one, as `then` joins their offsets."""
        times = [time for time in (self.broker_time, part.broker_time) if time is not None]
        of_leaders = [time for time in (self.leader_time, part.leader_time) if time is not None]
        return PartScan(
            **_fields_of(self.then(part)),
            leader_epoch=max(self.leader_epoch, part.leader_epoch),
            batches=self.batches + part.batches,
            transactional=self.transactional + part.transactional,
            bytes=self.bytes + part.bytes,
            broker_time=max(times, default=None),
            leader_time=max(of_leaders, default=None),
            damage=self.damage + part.damage,
            shortened=self.shortened or part.shortened,
            zeros_at=part.zeros_at,
            digests=joined(np.frombuffer(scan.digests, DIGEST) for scan in (self, part)).tobytes(),
        )


def read_part(
    file: LogFile,
    state: SegmentState | None,
    *,
    start: int = 0,
    end: int | None = None,
    size: int = 0,
    seen: Callable[[int], None] | None = None,
    records: RecordWalk | None = None,
) -> Iterator[Appends | Batches | Batch | PartScan]:
    """The content of a part of a segment: the producers' batches, and those of `__transaction_state` as they are, for
    their records; last its `PartScan`.

    Args:
        state: of the segment before the part; None where it is not known.
        size: see `batches_of`.
        seen: called with the bytes of batches, many at a time.
        records: takes batches of `__transaction_state`, which are then not given.
    """
    scan = BatchScan(file.topic or "", state)
    of_records = None if records is None else CoordinatorWalk(scan, records, seen)
    of_producers = ProducerWalk(scan, seen) if ENGINE and file.topic != TRANSACTION_STATE else None
    taker = of_records or of_producers
    damage: list[rows.DamageRow] = []
    shortened, zeros_at = False, None
    try:
        for item in batches_of(file, start, end, size=size, taker=taker):
            yield from of_producers.drain() if of_producers is not None else ()
            if isinstance(item, Damage):
                shortened = shortened or item.shortened
                if item.harmless:
                    zeros_at = item.position
                else:
                    damage.append(rows.DamageRow.of(item, **file.place))
                continue
            if isinstance(item, Batch):
                scan.add_old(item)
            elif not len(item):
                continue
            else:
                appends = scan.add(item)
                if appends is not None:
                    yield appends
            if file.topic == TRANSACTION_STATE:
                yield item
            if seen is not None:
                seen(int(np.sum(item.size)))
    except OSError as error:
        damage.append(rows.DamageRow.of(Damage.unreadable(error), **file.place))
    yield from of_producers.drain() if of_producers is not None else ()
    yield scan.result(tuple(damage), shortened=shortened, zeros_at=zeros_at)


class SegmentState:
    """The state of a segment that is read part by part, between two parts.

    Attributes:
        scan: of the parts so far, and what is known of the log before.

    Args:
        after: the segment before; None for the first of the log.
    """

    def __init__(self, base_offset: int, after: Segment | None = None) -> None:
        self._base_offset = base_offset
        self.scan = PartScan(
            following=LOG_BEGINS if after is None else after.end_offset,
            reached=base_offset,
            intact_from=base_offset if after is None else after.intact_from,
        )

    def take(self, part: PartScan) -> None:
        """Take the next part. Its first batch is not below `scan.reached`, or it was read from this state."""
        self.scan = self.scan.joined(part)

    def segment(self) -> Segment:
        """The facts, once all parts were taken."""
        scan, base_offset = self.scan, self._base_offset
        ends_damaged = bool(scan.damage) and scan.damage[-1].resumed_at is None
        emptied = scan.first_offset is None and (scan.following or 0) < base_offset
        return Segment(
            base_offset=base_offset,
            first_offset=base_offset if scan.first_offset is None else scan.first_offset,
            end_offset=scan.reached,
            leader_epoch=scan.leader_epoch,
            batches=scan.batches,
            transactional=scan.transactional,
            bytes=scan.bytes,
            broker_time=scan.broker_time,
            leader_time=scan.leader_time,
            gap=OffsetGap(scan.reached) if ends_damaged else scan.gap,
            damage=scan.damage,
            # What compaction left of the segment before ends below an empty one.
            intact_from=base_offset if emptied else scan.intact_from,
            shortened=scan.shortened,
            zeros_at=scan.zeros_at,
        )


class BatchScan:
    """Reduces the batches of a part of a segment, in order, to a `PartScan`. `add` returns the batches of producers.

    Args:
        state: of the segment before the part; None where it is not known.

    Attributes:
        broker_written: all timestamps are those of brokers.
    """

    def __init__(self, topic: str, state: SegmentState | None) -> None:
        self.broker_written = topic in BROKER_WRITTEN
        self._offsets = OffsetScan(None if state is None else state.scan)
        self._leader_epoch = -1
        self._batches = self._transactional = self._bytes = 0
        self._broker_time: int | None = None
        self._leader_time: tuple[int, int] | None = None
        self._digests: list[Digests] = []

    def add(self, found: Batches) -> Appends | None:
        """Count batches. Returns those of producers with ids; None where none has one."""
        base, ends = found.base_offset, found.last_offset + 1
        self._count(found)
        self._digests.append(digests_of(base, ends - 1, found.crc))
        asked = found.producer_id >= 0
        if not asked.any():
            self._offsets.add(base, ends)
            return None
        control, coordinator_epoch, problem, problems = _controls(found, asked)
        appends = Appends(
            base,
            ends - 1,
            found.max_timestamp,
            found.producer_id,
            found.producer_epoch,
            control,
            coordinator_epoch,
            found.base_sequence,
            found.transactional,
            self._offsets.add(base, ends, control == EMPTY_CODE),
            found.record_count <= found.last_offset_delta,
            problem,
            (found.attributes & LOG_APPEND_TIME) != 0,
            problems,
        )
        self._transactional += int((asked & appends.transactional).sum())
        # A malformed one may be the marker of an open transaction.
        lost = np.flatnonzero((control == MALFORMED_CODE) & appends.transactional)
        if len(lost):
            self._offsets.lose(int(lost[-1]), OffsetGap(int(base[lost[-1]]), int(ends[lost[-1]])))
        return appends if asked.all() else appends.where(asked)

    def add_old(self, batch: Batch) -> None:
        """Count a batch of magic 0 or 1, which has no producer."""
        base, ends = np.array([batch.base_offset]), np.array([batch.last_offset + 1])
        self._count(batch)
        self._digests.append(digests_of(base, ends - 1, np.array([batch.crc])))
        self._offsets.add(base, ends)

    def add_scanned(self, found: ScannedLog) -> Appends | None:
        """What `add` does, for batches that were scanned already."""
        self._batches += found.batches
        self._transactional += found.transactional
        self._bytes += found.size
        self._leader_epoch = max(self._leader_epoch, found.leader_epoch)
        if found.times is not None:
            self._note_time(*found.times)
        self._digests.append(found.digests.view(DIGEST))
        runs = found.runs
        intact_from = self._offsets.add(runs.bases, runs.ends)
        base, *others = found.columns
        if not len(base):
            return None
        others.insert(_INTACT_AT - 1, np.repeat(intact_from, runs.counts))
        return Appends(base, *others)

    def add_walked(self, found: Walked) -> None:
        """Count batches of a topic that brokers write, which have no producer."""
        self._batches += found.batches
        self._bytes += found.size
        self._leader_epoch = max(self._leader_epoch, found.leader_epoch)
        self._note_time(found.leader_epoch, found.leader_time, found.newest)
        self._digests.append(found.digests.view(DIGEST))
        self._offsets.add(found.bases, found.ends)

    def _count(self, found: Batches | Batch) -> None:
        self._batches += 1 if isinstance(found, Batch) else len(found)
        self._bytes += int(np.sum(found.size))
        epochs = found.partition_leader_epoch if isinstance(found, Batch) else found.leader_epoch
        self._leader_epoch = max(self._leader_epoch, int(np.max(epochs)))
        by_broker, epochs = np.atleast_1d(found.max_timestamp), np.atleast_1d(epochs)
        if not self.broker_written:
            chosen = (np.atleast_1d(found.attributes) & (CONTROL | LOG_APPEND_TIME)) != 0
            by_broker, epochs = by_broker[chosen], epochs[chosen]
        if len(by_broker):
            epoch = int(epochs.max())
            of_leader = by_broker if epochs.min() == epoch else by_broker[epochs == epoch]
            self._note_time(epoch, int(of_leader.max()), int(by_broker.max()))

    def _note_time(self, leader_epoch: int, of_leader: int, newest: int) -> None:
        """See `BrokerTimes`."""
        self._broker_time = max(self._broker_time or 0, newest)
        latest = leader_epoch, max(0, of_leader)
        self._leader_time = latest if self._leader_time is None else max(self._leader_time, latest)

    def result(
        self, damage: tuple[rows.DamageRow, ...] = (), *, shortened: bool = False, zeros_at: int | None = None
    ) -> PartScan:
        """The facts, once all batches were added.

        Args:
            damage: what was found between them, without harmless rows.
            shortened: the file became shorter while it was read. zeros_at: as in `Segment`.
        """
        return PartScan(
            **_fields_of(self._offsets.found),
            leader_epoch=self._leader_epoch,
            batches=self._batches,
            transactional=self._transactional,
            bytes=self._bytes,
            broker_time=self._broker_time,
            leader_time=self._leader_time,
            damage=damage,
            shortened=shortened,
            zeros_at=zeros_at,
            digests=joined(self._digests).tobytes(),
        )


def _fields_of(offsets: LogOffsets) -> dict[str, Any]:
    """The offsets as arguments of a `PartScan`."""
    return {name: getattr(offsets, name) for name in LogOffsets.__struct_fields__}


def _controls(found: Batches, asked: Bools) -> tuple[Int8, Int64, Int32, tuple[str, ...]]:
    """The last columns of `Appends` for control batches; those that are not `asked` get the values of data."""
    count = len(found)
    control, coordinator_epoch = np.full(count, DATA_CODE, np.int8), np.full(count, NO_COORDINATOR)
    problem, problems = np.full(count, -1, np.int32), list[str]()
    of_control = found.is_control
    if of_control.any():
        plain = markers(found)
        # Only markers in which `append_of` finds no problem.
        right = (found.transactional & asked & (found.base_sequence == -1) & (found.last_offset_delta == 0))[plain.at]
        index = plain.at[right]
        control[index] = plain.type[right]
        coordinator_epoch[index] = plain.coordinator_epoch[right]
        of_control[index] = False
        for i in np.flatnonzero(of_control & asked).tolist():
            append = append_of(found.batch(i))
            assert append is not None
            assert append.control is not None
            control[i] = MARKER_CODES[append.control]
            if append.coordinator_epoch is not None:
                coordinator_epoch[i] = append.coordinator_epoch
            if append.problem is not None:
                problem[i] = len(problems)
                problems.append(append.problem)
    return control, coordinator_epoch, problem, tuple(problems)
