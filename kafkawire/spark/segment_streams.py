"""`kafka_segment` as a stream: log directories that grow.

    spark.readStream.format("kafka_segment").load("kafka-logs/")

A stream's offset is how far each segment has been read: {path: [byte behind its last whole batch, checksum of what
stands right before it]}. Of the segment that is written to, only whole batches are read, and a torn end is damage no
sooner than when a newer segment is there. Nothing is read twice, whatever is restarted; a segment that vanished before
it was read, or became shorter, is a row with an `error`.

A broker that comes back as a follower cuts off what no other had (KIP-101), and writes what the new leader has in its
place. Where that had been read, the stream yields a row with an `error` and goes on behind it. With the option
`highWatermark` only what no broker cuts off is read: up to the high watermark, which brokers write down every 5 s.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.logdir import LogFile
from kafkawire.logdir.log_files import log_file, partition_of
from kafkawire.logdir.splits import written
from kafkawire.records import Damage
from kafkawire.spark.offset_options import ALL_OFFSETS
from kafkawire.spark.segment_reader import SegmentPart, SegmentReader
from kafkawire.spark.sources import SourceOptions

#: path -> [end, checksum]; the end alone in checkpoints that knew no checksums yet.
Offset = dict[str, list[int] | int]
#: What was read is known again by so many bytes before its end: the checksums of batches are among them.
_MARK_BYTES = 4096
_UNREADABLE = -1


class SegmentStream(DataSourceStreamReader):
    """See the module."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self.reader = SegmentReader(schema, options)
        self._up_to_high_watermark = options.flag("highWatermark")
        self._files: dict[str, LogFile] = {}
        self._ends: Offset = {}

    def initialOffset(self) -> Offset:
        return {}

    def latestOffset(self) -> Offset:  # type: ignore[override]  # the signature that all releases know
        self._list()
        return dict(self._ends)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if not self._files:
            self._list()
        return self.reader.tasks(
            part for path, until in end.items() for part in self._parts(path, start.get(path, 0), until)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(partition)

    def _list(self) -> None:
        """List the segments that exist now, and how far each can be read."""
        before, self._ends, self._files = self._ends, {}, {}

        def note(file: LogFile, end: int, *, closed: bool) -> None:
            self._files[file.path] = file
            known = before.get(file.path)
            same = closed and known is not None and _end(known) == end
            self._ends[file.path] = known if known is not None and same else [end, _mark(file, end)]

        for partition in logdir.open(*self.reader.options.paths).partitions:
            limit = (partition.high_watermark or 0) if self._up_to_high_watermark else None
            segments = partition.segments
            for file, following in zip_longest(segments, segments[1:]):
                closed = following is not None and (limit is None or (following.offset or 0) <= limit)
                read = _end(before.get(file.path, 0))
                end = file.size if closed else written(file, read if read <= file.size else 0, before=limit).position
                note(file, end, closed=closed)

    def _parts(self, path: str, before: list[int] | int, after: list[int] | int) -> Iterator[SegmentPart]:
        file = self._files.get(path) or log_file(path, partition_of(os.path.dirname(path), [os.path.basename(path)]))
        start, until = _end(before), _end(after)
        if until < start:
            problem = f"the file became shorter: {until} bytes, of which {start} had been read"
            yield SegmentPart(file, until, problem=Damage(until, "truncated", problem))
            return
        if before == after:
            return
        if isinstance(before, list) and start and _mark(file, start) not in (before[1], _UNREADABLE):
            problem = f"what was read, up to byte {start}, was cut off, and other batches were written in its place"
            yield SegmentPart(file, start, problem=Damage(start, "truncated", problem))
        yield from self.reader.parts(file, start, until, ALL_OFFSETS)


def _end(known: list[int] | int) -> int:
    return known[0] if isinstance(known, list) else known


def _mark(file: LogFile, end: int) -> int:
    """A checksum of the bytes right before that one."""
    size = min(end, _MARK_BYTES)
    try:
        with file.source(_MARK_BYTES) as source:
            return zlib.crc32(source.at(end - size, size))
    except OSError:
        return _UNREADABLE
