"""`kafka_segment` as a stream: log directories that grow.

    spark.readStream.format("kafka_segment").load("kafka-logs/")

A stream's offset is how far each log has been read: its cluster, its topic's id, its partition, an offset, and the
leader epoch before that (`segment_positions`). Files may be cleaned, merged, rolled and removed between two batches,
and another replica may be read: what is read next follows from the offset. Of the segment that is written to, only
whole batches are read, and a torn end is damage no sooner than when a newer segment is there. Offsets that were removed
before they were read are a row with an `error`.

A broker that comes back as a follower cuts off what no other had (KIP-101), and writes what the new leader has in its
place. Where that had been read, the leader epochs show from which offset on (KIP-320): the stream goes back to it,
yields a row with an `error`, and delivers the records of the new leader. A log that ends before the position, without a
later epoch, is a copy that lags: the stream waits for it. With the option `highWatermark` only what no broker cuts
off is read: up to the high watermark, which brokers write down every 5 s.

A topic that was deleted and created again has another id: its log is read from its beginning, and a row says so.

With `isolationLevel` a stream reads up to the last stable offset, or the high watermark where a checkpoint names one;
later batches of the stream have the rest. What is open is known from what was appended since the last trigger.

A limit (`maxFilesPerTrigger`, `maxBytesPerTrigger`, `maxOffsetsPerTrigger`) is divided among logs in proportion to
what they have to be read; a batch of records is never divided.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.logdir import Outcomes, Partition, View
from kafkawire.logdir.located_file import Stamp
from kafkawire.logdir.log_files import log_file, partition_of
from kafkawire.records import Damage
from kafkawire.spark.listing.copied_logs import REPLICAS, CopiedLog, LogId, logs_of, of_replicas
from kafkawire.spark.listing.replica_listing import ReplicaListing
from kafkawire.spark.sources.log_points import NO_EPOCH, LogPoints, anchor_of
from kafkawire.spark.sources.offset_options import EARLIEST, LATEST, RequestedRange, bounds
from kafkawire.spark.sources.segment_parts import SegmentPart
from kafkawire.spark.sources.segment_positions import (
    Position,
    SegmentRange,
    advanced,
    as_offset,
    divergence,
    log_start,
    positions,
    replaced,
    segment_ranges,
)
from kafkawire.spark.sources.segment_reader import SegmentReader, narrowed
from kafkawire.spark.sources.source_base import BYTES, FILES, OFFSETS, LimitedStream, SourceOptions, limit_of
from kafkawire.spark.sources.stream_transactions import StreamTransactions, of_uncommitted

T = TypeVar("T")
Offset = dict[str, Any]
#: How many times files are listed again where some are gone.
_MOST_TRIES = 5
#: The path and the stamp of a replica's last segment, and the offset that limits what is read.
_Seen = tuple[str, Stamp | None, int | None]


class SegmentStream(LimitedStream):
    """See the module."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(options, (FILES, BYTES, OFFSETS))
        self.reader = SegmentReader(schema, options)
        self._start = bounds(options, stream=True).start
        self._up_to_high_watermark = options.flag("highWatermark")
        self._every = options.choice("replicas", REPLICAS) == "all"
        self._listing = ReplicaListing(lambda: options.paths)
        self._logs: dict[LogId, CopiedLog] = {}
        self._points = LogPoints()
        self._transactions = StreamTransactions(self._points)
        self._ends: dict[str, tuple[_Seen, Position]] = {}
        self._outcomes: dict[str, tuple[int | None, Stamp | None, int | None, Outcomes]] = {}
        self._available: dict[LogId, Position] = {}
        self._target: dict[LogId, Position] | None = None
        self._warned: set[str] = set()

    def initialOffset(self) -> Offset:
        self._list()
        if self._start is not None:
            self._start.check({id.place for id in self._logs})
        return self._settled(lambda: as_offset({id: self._first(log.replica) for id, log in self._logs.items()}))

    def prepareForTriggerAvailableNow(self) -> None:
        self._list()
        self._target = self._settled(lambda: {id: self._written(log.replica) for id, log in self._logs.items()})

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        self._list()
        return self._settled(lambda: self._latest(start, limit))

    def _latest(self, start: Offset | None, limit: object) -> Offset:
        before = self._positions(start or {})  # PySpark 4.1 passes none, and no limit
        logs = [log for id, log in self._logs.items() if self._target is None or id in self._target]
        by_path = {log.replica.path: log for log in logs}

        def end(replica: Partition) -> Position:
            log = by_path[replica.path]
            return self._end(log, before.get(log.id))

        ends = of_replicas(end, (log.replica for log in logs))
        available = before | {log.id: position for log, position in zip(logs, ends, strict=True)}
        self._available = available
        asked = limit_of(limit)
        return as_offset(available if asked is None else self._admitted(before, available, *asked))

    def reportLatestOffset(self) -> Offset | None:
        return as_offset(self._available) if self._available else None

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if not self._logs:
            self._list()
        return self._settled(lambda: self._tasks(start, end))

    def _tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = self._positions(start), self._positions(end)
        if not after.keys() <= self._logs.keys():
            self._list()
            before, after = self._positions(start), self._positions(end)
        changed = (id for id, position in after.items() if position != before.get(id))
        return self.reader.tasks(part for id in changed for part in self._parts(id, before, after[id]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(partition)

    def _list(self) -> None:
        replicas = [one for one in self._listing().values() if one.segments]
        self._logs = {log.id: log for log in logs_of(self.reader.subscribed(replicas), every=self._every)}

    def _settled(self, plan: Callable[[], T]) -> T:
        """What a plan gives. A broker may remove a file that was listed: then files are listed again."""
        for _ in range(_MOST_TRIES):
            try:
                return plan()
            except FileNotFoundError:
                self._list()
        return plan()

    def _positions(self, offset: Offset) -> dict[LogId, Position]:
        return positions(offset, self._logs.values(), self._points)

    # How far ---------------------------------------------------------------------------------------------------------

    def _first(self, replica: Partition) -> Position:
        """The position at which reading of a log starts."""
        offset = EARLIEST if self._start is None else self._start.of(replica)
        if offset == LATEST:
            return self._written(replica)
        return Position(self._log_start(replica) if offset == EARLIEST else offset)

    def _end(self, log: CopiedLog, start: Position | None) -> Position:
        """How far a log can be read: further than it was, unless leader epochs show that it was truncated."""
        replica = log.replica
        found = self._written(replica, start) if self._target is None else self._target[log.id]
        if start is None or found[:2] == start[:2]:
            return found if start is None else start
        parted = divergence(replica, start, self._points)
        if parted is not None:
            return max(found, Position(parted, start.epoch), key=lambda one: one.offset)
        if found.offset <= start.offset:
            if self._log_end(replica) < start.offset:
                if start.epoch == NO_EPOCH:
                    return found
                self._warn(
                    f"{replica.path} ends before offset {start.offset}, up to which its log has been read, and has no "
                    f"leader epoch after {start.epoch}: the stream waits for it"
                )
            return start  # the high watermark that is written down may go back
        return found

    def _log_start(self, replica: Partition) -> int:
        return log_start(replica, of_consumers=self.reader.level is not None)

    def _log_end(self, replica: Partition) -> int:
        return self._points.find(replica.segments[-1]).offset

    def _written(self, replica: Partition, start: Position | None = None) -> Position:
        """The position after the last whole batch, or after the one that ends below the limit."""
        limit, stable = self._bound(replica, start)
        last = next((one for one in reversed(replica.segments) if limit is None or (one.offset or 0) <= limit), None)
        if last is None:
            return Position(self._log_start(replica))
        seen = last.path, last.stamp, limit
        known = self._ends.get(replica.path)
        if known is not None and known[0] == seen and seen[1] is not None:
            return known[1]
        try:
            offset = self._points.find(last, before=limit).offset
            found = Position.at(replica, offset, self._points)._replace(stable=stable)
        except FileNotFoundError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            self._warn(f"{last.path} cannot be read ({why}): the stream waits for it")
            return Position(self._log_start(replica)) if known is None else known[1]
        self._ends[replica.path] = seen, found
        return found

    def _bound(self, replica: Partition, start: Position | None) -> tuple[int | None, bool]:
        """The offset from which on nothing is read yet, and whether what is before it is stable. `start`: the position
        that was reached."""
        limits = [replica.high_watermark or 0] if self._up_to_high_watermark else []
        stable = False
        if self.reader.level is not None:
            view = self._view(replica, start)
            limits += [one for one in view.offsets[1:] if one is not None]
            stable = view.committed and view.outcomes.undecided is None
        return min(limits, default=None), stable

    def _view(self, replica: Partition, start: Position | None) -> View:
        """How the transactions of a replica are seen now. Its snapshots are not in the stream's own listing."""
        committed = self.reader.level == "read_committed"
        if self.reader.level == "read_uncommitted" and not self.reader.shows_states:
            return self.reader.view(of_uncommitted(replica))
        if committed and start is not None and start.stable:
            extended = self._transactions.outcomes(replica, start.offset)
            if extended is not None:
                return self.reader.view(extended)
        # What is open at a position that is not stable is in any segment before.
        since = None if start is None or committed else start.offset
        bases = [one.offset or 0 for one in replica.segments if since is not None and (one.offset or 0) <= since]
        seen = max(bases, default=None), replica.segments[-1].stamp, replica.high_watermark
        known = self._outcomes.get(replica.path)
        if known is None or known[:3] != seen or seen[1] is None:
            listed = (one for one in logdir.open(replica.files[0].folder).partitions if one.path == replica.path)
            found = logdir.outcomes_of(next(listed, replica), since=seen[0])
            if found.undecided is not None and committed:
                path, damage = found.undecided
                self._warn(f"{path}: {damage.detail}: the stream waits for a snapshot behind them", replica.path)
            known = self._outcomes[replica.path] = *seen, found
        return self.reader.view(known[3])

    def _warn(self, text: str, key: str = "") -> None:
        """Warns of something that a stream waits for, once."""
        if (key or text) not in self._warned:
            self._warned.add(key or text)
            warnings.warn(text, RuntimeWarning)

    def _admitted(
        self, before: Mapping[LogId, Position], available: Mapping[LogId, Position], option: str, limit: int
    ) -> dict[LogId, Position]:
        """The available offsets up to the limit: a share of each log, and at least one batch of one log."""
        chosen = dict(available)
        pending: list[tuple[int, LogId, list[SegmentRange]]] = []
        for id, end in available.items():
            log = self._logs.get(id)
            found = [] if log is None else list(self._ranges(log.replica, before.get(id), end))
            if found:
                pending.append((sum(one.size(option) for one in found), id, found))
        total, left = sum(size for size, _, _ in pending), limit
        if total <= limit:
            return chosen
        for size, id, found in sorted(pending, key=lambda one: one[:2], reverse=True):
            share = min(left, max(1, limit * size // total))
            offset, taken = advanced(found, option, share, self._points) if left > 0 else (None, 0)
            replica = self._logs[id].replica
            if offset is not None and (taken <= left or left == limit):
                if offset < available[id].offset:
                    chosen[id] = Position.at(replica, offset, self._points)._replace(stable=available[id].stable)
                left -= taken
            elif id in before:
                chosen[id] = before[id]
            else:
                chosen[id] = Position(self._log_start(replica))
        return chosen

    # What to read ----------------------------------------------------------------------------------------------------

    def _ranges(self, replica: Partition, start: Position | None, end: Position) -> Iterator[SegmentRange]:
        first = self._log_start(replica) if start is None else start.offset
        if start is not None:
            parted = divergence(replica, start, self._points)
            first = first if parted is None else parted
        return segment_ranges(replica, first, end.offset, self._points)

    def _parts(self, id: LogId, before: Mapping[LogId, Position], end: Position) -> Iterator[SegmentPart]:
        log, start = self._logs.get(id), before.get(id)
        if log is None:
            read = f"{'its beginning' if start is None else f'offset {start.offset}'} to offset {end.offset}"
            later = [one.topic_id for one in self._logs if one.is_new(id) and one not in before]
            if later:  # an id that was not there before: the topic was deleted, no copy is missing
                created = f"the topic {id.topic_id} was deleted, and created again with the id {later[0]}"
                problem = Damage(0, "out_of_range", f"the log was removed before it was read from {read}: {created}")
            else:
                detail = f"no copy of the log is there any more, of which {read} were to be read"
                problem = Damage(0, "unreadable", detail)
            yield SegmentPart(_nowhere(id), problem=problem)
            return
        replica = log.replica
        for problem in self._problems(replica, start, end, [one for one in before if id.is_new(one)]):
            yield SegmentPart(replica.segments[0], problem=problem)
        seen = self.reader.level is not None or self.reader.shows_states
        view = self._view(replica, start) if seen else None
        for asked in self._ranges(replica, start, end):
            offsets = RequestedRange(asked.first, asked.after)
            if view is not None:
                offsets = narrowed(offsets, view)
            near = None if view is None else view.within(asked.first, asked.after)
            parts = list(self.reader.parts(asked.file, asked.begin, asked.end, offsets, near))
            yield from _anchored(parts, asked, end.epoch, replica.topic_id)

    def _problems(
        self, replica: Partition, start: Position | None, end: Position, former: Sequence[LogId]
    ) -> Iterator[Damage]:
        """What is wrong with what had been read, or with what follows it."""
        if start is None:
            if former:
                ids = ", ".join(one.topic_id for one in former)
                detail = (
                    f"the topic was created again: its id is {replica.topic_id}, that of the log that was read before "
                    f"is {ids}; the new log is read from offset {self._log_start(replica)} on"
                )
                yield Damage(0, "new_log", detail)
            return
        parted = divergence(replica, start, self._points)
        first = start.offset if parted is None else parted
        if parted is not None:
            yield Damage(
                0,
                "truncated",
                f"offsets {parted} to {start.offset - 1}, which had been read up to leader epoch {start.epoch}, were "
                f"cut off after a change of leader; what a later leader wrote is delivered from offset {parted} on",
            )
        elif end.offset < start.offset:
            yield Damage(
                0,
                "truncated",
                f"the log became shorter: it ends at offset {end.offset}, and had been read up to {start.offset}",
            )
        elif replaced(replica, start, self._points):
            yield Damage(
                0,
                "truncated",
                f"batches before offset {start.offset} were cut off, and others were written in their place; they have "
                "no leader epochs, which would show from which offset on",
            )
        least = self._log_start(replica)
        if first < least:
            yield Damage(0, "out_of_range", f"offsets {first} to {least - 1} were removed before they were read")
        if first < end.offset and divergence(replica, end, self._points) is None:
            log_end = self._log_end(replica)
            if log_end < end.offset:
                detail = f"offsets {max(first, log_end)} to {end.offset - 1}, which were to be read, are in no copy now"
                yield Damage(0, "out_of_range", detail)


def _anchored(
    parts: list[SegmentPart], asked: SegmentRange, epoch: int, topic_id: UUID | None
) -> Iterator[SegmentPart]:
    """Parts of a segment, with what shows whether it still is the same where they are read."""
    anchors = [anchor_of(part.file, part.start) for part in parts]
    for number, (part, anchor) in enumerate(zip(parts, anchors, strict=True)):
        following = anchors[number + 1] if number + 1 < len(parts) else None
        first = asked.first if not number or anchor is None else anchor.base_offset
        after = asked.after if following is None else following.base_offset
        low, high = part.offsets.first or first, part.offsets.end or after
        offsets = part.offsets._replace(first=max(low, first), end=min(high, after))
        yield part._replace(offsets=offsets, live=True, anchor=anchor, epoch=epoch, topic_id=topic_id)


def _nowhere(id: LogId) -> logdir.LogFile:
    directory = id.directory or f"{id.topic}-{id.partition}"
    name = f"{0:020}.log"
    return log_file(os.path.join(directory, name), partition_of(directory, [name]))
