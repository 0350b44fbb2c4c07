"""`kafka_segment` as a stream: log directories that grow.

    spark.readStream.format("kafka_segment").load("kafka-logs/")

A stream's offset is how far each segment has been read: {path: byte behind its last whole batch}. Of the segment that
is written to, only whole batches are read, and a torn end is damage no sooner than when a newer segment is there.
Nothing is read twice, whatever is restarted; a segment that vanished before it was read, or became shorter, is a row
with an `error`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.logdir import LogFile
from kafkawire.logdir.files import log_file, partition_of
from kafkawire.logdir.splits import ranges, written
from kafkawire.spark.segments import Part, SegmentReader
from kafkawire.spark.sources import Options

Offset = dict[str, int]


class SegmentStream(DataSourceStreamReader):
    """See the module."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.reader = SegmentReader(schema, options)
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
        """What is there now, and how far it can be read."""
        before, self._ends, self._files = self._ends, {}, {}
        for partition in logdir.open(*self.reader.options.paths).partitions:
            *closed, active = partition.segments or (None,)
            for file in closed:
                if file is not None:
                    self._note(file, file.size)
            if active is not None:
                known = before.get(active.path, 0)
                self._note(active, written(active, known if known <= active.size else 0))

    def _note(self, file: LogFile, end: int) -> None:
        self._files[file.path] = file
        self._ends[file.path] = end

    def _parts(self, path: str, start: int, until: int) -> Iterator[Part]:
        file = self._files.get(path) or log_file(path, partition_of(os.path.dirname(path), [os.path.basename(path)]))
        if until < start:
            problem = f"the file became shorter: {until} bytes, of which {start} had been read"
            yield Part(file, until, until, problem)
            return
        if until == start:
            return
        try:
            found = ranges(file, self.reader.part_bytes)
        except OSError:
            found = [(0, None)]  # whoever reads it says what is wrong
        for first, end in found:
            begin, stop = max(first, start), until if end is None else min(end, until)
            if begin < stop:
                yield Part(file, begin, stop)
