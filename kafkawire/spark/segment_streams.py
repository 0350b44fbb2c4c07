"""`kafka_segment` as a stream: log directories that grow.

    spark.readStream.format("kafka_segment").load("kafka-logs/")

A stream's offset is how far each replica has been read (`segment_positions`). Of the segment that is written to, only
whole batches are read, and a torn end is damage no sooner than when a newer segment is there. Nothing is read twice,
whatever is restarted; offsets that were removed before they were read, and a segment that became shorter, are a row
with an `error`.

A broker that comes back as a follower cuts off what no other had (KIP-101), and writes what the new leader has in its
place. Where that had been read, the stream yields a row with an `error` and continues behind it. With the option
`highWatermark` only what no broker cuts off is read: up to the high watermark, which brokers write down every 5 s.

With `isolationLevel` a stream reads up to the last stable offset, or the high watermark where a checkpoint names one;
later batches of the stream have the rest. For each batch the headers of the segments behind its beginning are read.

A limit (`maxFilesPerTrigger`, `maxBytesPerTrigger`, `maxOffsetsPerTrigger`) is divided among replicas in proportion to
what they have to be read; a batch of records is never divided.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.logdir import LogFile, Outcomes, Partition, View
from kafkawire.logdir.located_file import Stamp
from kafkawire.logdir.log_files import log_file, partition_of
from kafkawire.logdir.splits import written
from kafkawire.records import Batch
from kafkawire.spark.admission import BYTES, FILES, OFFSETS, LimitedStream, limit_of
from kafkawire.spark.offset_options import ALL_OFFSETS, EARLIEST, LATEST, RequestedRange, bounds
from kafkawire.spark.replica_listing import ReplicaListing
from kafkawire.spark.segment_positions import (
    Position,
    SegmentStretch,
    advanced,
    as_offset,
    beginning,
    position_at,
    positions,
    problem_at,
    still_there,
    stretches,
)
from kafkawire.spark.segment_reader import SegmentPart, SegmentReader, narrowed
from kafkawire.spark.sources import SourceOptions

Offset = dict[str, Any]
#: The stamp of a segment, and the offset that limits what is read of it.
_Seen = tuple[Stamp | None, int | None]


class SegmentStream(LimitedStream):
    """See the module."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(options, (FILES, BYTES, OFFSETS))
        self.reader = SegmentReader(schema, options)
        self._start = bounds(options, stream=True).start
        self._up_to_high_watermark = options.flag("highWatermark")
        self._listing = ReplicaListing(lambda: options.paths)
        self._replicas: dict[str, Partition] = {}
        self._ends: dict[str, tuple[_Seen, Position]] = {}
        self._outcomes: dict[str, tuple[int | None, _Seen, Outcomes]] = {}
        self._target: dict[str, Position] | None = None
        self._held: set[str] = set()

    def initialOffset(self) -> Offset:
        self._list()
        if self._start is not None:
            self._start.check({(one.topic, one.partition) for one in self._replicas.values()})
        return as_offset({path: self._first(replica) for path, replica in self._replicas.items()})

    def prepareForTriggerAvailableNow(self) -> None:
        self._list()
        self._target = {path: self._written(replica) for path, replica in self._replicas.items()}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        before = {} if start is None else positions(start)  # PySpark 4.1 passes none, and no limit
        self._list()
        available = before | {
            path: self._end(replica, before.get(path))
            for path, replica in self._replicas.items()
            if self._target is None or path in self._target
        }
        asked = limit_of(limit)
        return as_offset(available if asked is None else self._admitted(before, available, *asked))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, after = positions(start), positions(end)
        if not after.keys() <= self._replicas.keys():
            self._list()
        changed = (path for path, position in after.items() if position != before.get(path))
        return self.reader.tasks(part for path in changed for part in self._parts(path, before.get(path), after[path]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(partition)

    def _list(self) -> None:
        self._replicas = {
            path: one for path, one in self._listing().items() if one.segments and self.reader.subscribed([one])
        }

    # How far ---------------------------------------------------------------------------------------------------------

    def _first(self, replica: Partition) -> Position:
        """Where a replica is begun to be read."""
        offset = EARLIEST if self._start is None else self._start.of(replica)
        if offset == LATEST:
            return self._written(replica)
        before = [one for one in replica.segments if (one.offset or 0) <= offset]
        if offset == EARLIEST or not before:
            return beginning(replica)
        return position_at(before[-1], written(before[-1], before=offset).position, offset)

    def _end(self, replica: Partition, start: Position | None) -> Position:
        """How far a replica can be read. Not less than was read, unless that is gone."""
        since = None if start is None else start.segment
        found = self._written(replica, since) if self._target is None else self._target[replica.path]
        if start is not None and found[:2] <= start[:2] and still_there(replica, start):
            # The high watermark that is written down may go back; a mark shows whether the same bytes are there.
            last = next(one for one in replica.segments if one.offset == start.segment)
            return found if found[:2] == start[:2] else position_at(last, start.end, start.offset)
        return found

    def _written(self, replica: Partition, since: int | None = None) -> Position:
        """The position after the last whole batch, or after the one that ends below the limit."""
        limit = self._bound(replica, since)
        last = next((one for one in reversed(replica.segments) if limit is None or (one.offset or 0) <= limit), None)
        if last is None:
            return beginning(replica)
        seen = last.stamp, limit
        known = self._ends.get(last.path)
        if known is not None and known[0] == seen:
            return known[1]
        had = position_at(last, 0, last.offset) if known is None else known[1]
        try:
            end, offset = written(last, had.end if had.end <= last.size else 0, before=limit)
        except OSError as error:
            if last.path not in self._held:
                self._held.add(last.path)
                why = error.strerror or str(error)
                warnings.warn(f"{last.path} cannot be read ({why}): the stream waits for it", RuntimeWarning)
            return had
        found = position_at(last, end, had.offset if offset is None else offset)
        if seen[0] is not None:
            self._ends[last.path] = seen, found
        return found

    def _bound(self, replica: Partition, since: int | None) -> int | None:
        """The offset from which on nothing is read yet. `since`: the first offset of the segment that was reached."""
        limits = [replica.high_watermark or 0] if self._up_to_high_watermark else []
        if self.reader.level is not None:
            limits += [one for one in self._view(replica, since).offsets[1:] if one is not None]
        return min(limits, default=None)

    def _view(self, replica: Partition, since: int | None) -> View:
        """How the transactions of a replica are seen now. Its snapshots are not in the stream's own listing."""
        seen = replica.segments[-1].stamp if replica.segments else None, replica.high_watermark
        known = self._outcomes.get(replica.path)
        if known is None or known[:2] != (since, seen):
            listed = (one for one in logdir.open(replica.files[0].folder).partitions if one.path == replica.path)
            found = logdir.outcomes_of(next(listed, replica), since=since)
            self._warn_of_held(replica, found)
            if seen[0] is None:
                return self.reader.view(found)
            known = self._outcomes[replica.path] = since, seen, found
        return self.reader.view(known[2])

    def _warn_of_held(self, replica: Partition, outcomes: Outcomes) -> None:
        """Of a stream that waits because it is not known what is open."""
        if outcomes.undecided is None or replica.path in self._held:
            return
        if self.reader.level == "read_committed":
            self._held.add(replica.path)
            path, damage = outcomes.undecided
            warnings.warn(f"{path}: {damage.detail}: the stream waits for a snapshot behind them", RuntimeWarning)

    def _admitted(
        self, before: Mapping[str, Position], available: Mapping[str, Position], option: str, limit: int
    ) -> dict[str, Position]:
        """As much of what is available as the limit permits: of each replica its share, of one of them a batch."""
        chosen = dict(available)
        pending: list[tuple[int, str, list[SegmentStretch]]] = []
        for path, end in available.items():
            found = list(stretches(self._replicas[path], before.get(path), end)) if path in self._replicas else []
            if found:
                pending.append((sum(one.size(option) for one in found), path, found))
        total, left = sum(size for size, _, _ in pending), limit
        if total <= limit:
            return chosen
        for size, path, found in sorted(pending, reverse=True):
            position, taken = (
                advanced(found, option, min(left, max(1, limit * size // total))) if left > 0 else (None, 0)
            )
            if position is not None and (taken <= left or left == limit):
                chosen[path], left = position, left - taken
            elif path in before:
                chosen[path] = before[path]
            else:
                chosen[path] = beginning(self._replicas[path])
        return chosen

    # What to read ----------------------------------------------------------------------------------------------------

    def _parts(self, path: str, start: Position | None, end: Position) -> Iterator[SegmentPart]:
        replica = self._replicas.get(path)
        last = _file_of(path, end.segment)
        if replica is None:
            yield SegmentPart(last, 0, end.end)  # the task that reads the file reports that it is gone
            return
        problem = None if start is None else problem_at(replica, start)
        if problem is not None and start is not None:
            yield SegmentPart(_file_of(path, start.segment), problem=problem)
        seen = self.reader.level is not None or self.reader.shows_states
        view = self._view(replica, None if start is None else start.segment) if seen else None
        for stretch in stretches(replica, start, end):
            offsets = self._offsets(stretch)
            if view is None:
                yield from self.reader.parts(stretch.file, stretch.begin, stretch.end, offsets)
            else:
                near = view.within(stretch.first, stretch.after)
                yield from self.reader.parts(stretch.file, stretch.begin, stretch.end, narrowed(offsets, view), near)
        if end.end and not any(one.offset == end.segment for one in replica.segments):
            yield SegmentPart(last, 0, end.end)

    def _offsets(self, stretch: SegmentStretch) -> RequestedRange:
        """The offsets of a stretch: all, unless the requested beginning is within a batch."""
        if self._start is None:
            return ALL_OFFSETS
        batch = next(stretch.file.batches(start=stretch.begin, check_crc=False), None)
        inside = isinstance(batch, Batch) and batch.measured().base_offset < stretch.first <= batch.last_offset
        return RequestedRange(first=stretch.first) if inside else ALL_OFFSETS


def _file_of(path: str, segment: int) -> LogFile:
    name = f"{segment:020}.log"
    return log_file(os.path.join(path, name), partition_of(path, [name]))
