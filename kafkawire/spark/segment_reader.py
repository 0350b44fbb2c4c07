"""Segments as rows for `kafka_segment`: files cut into parts, and the batches or records of a part as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.errors import RecordError
from kafkawire.logdir import LogFile, Selection
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.splits import pieces, ranges
from kafkawire.records import Batch, Damage, columns
from kafkawire.records.array_types import Bools
from kafkawire.records.columns import Batches
from kafkawire.spark import segment_columns
from kafkawire.spark.errors import SourceError
from kafkawire.spark.filters import wanted_range, wanted_values
from kafkawire.spark.segment_columns import Row
from kafkawire.spark.sources import PART_BYTES, ItemReader, SourceOptions
from kafkawire.spark.task_sizing import file_size

ROWS = ("records", "batches", "headers")


class SegmentPart(NamedTuple):
    """The batches of a segment that begin in `[start, end)`; `end` is None for the last part. Or only a
    `problem`."""

    file: LogFile
    start: int = 0
    end: int | None = None
    problem: str | None = None


class SegmentReader(ItemReader[SegmentPart]):
    """An item is a part of a segment."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self.rows = options.choice("rows", ROWS)
        self.part_bytes = options.number("maxPartBytes", PART_BYTES)
        self.selection = Selection()
        self.producers: frozenset[Any] | None = None
        self.topics: frozenset[Any] | None = None
        self.numbers: frozenset[Any] | None = None

    def items(self) -> Iterator[SegmentPart]:
        return (part for file in self._files() for part in self._parts(file))

    def size_of(self, item: SegmentPart) -> int:
        return (file_size(item.file) if item.end is None else item.end) - item.start

    def batches(self, items: Iterable[SegmentPart], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in items:
            yield from self._part(part, schema)

    def _files(self) -> Iterator[LogFile]:
        for partition in logdir.open(*self.options.paths).partitions:
            topics_wanted = self.topics is None or partition.topic in self.topics
            if topics_wanted and (self.numbers is None or partition.partition in self.numbers):
                yield from logdir.wanted_files(partition.segments, self.selection)

    def _parts(self, file: LogFile) -> Iterator[SegmentPart]:
        try:
            begin = start_position(file, self.selection)
            for start, end in ranges(file, self.part_bytes):
                if end is None or end > begin:
                    yield SegmentPart(file, max(start, begin), end)
        except OSError:
            yield SegmentPart(file)  # the task that reads the file reports the error

    def _part(self, part: SegmentPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part, the damage in it behind what is around it."""
        if part.problem is not None:
            yield self._damage(part, Damage(part.start, "truncated", part.problem), schema)
            return
        place = segment_columns.place_of(part.file)
        try:
            for found in pieces(part.file, part.start, part.end, check_crc=self.rows != "headers"):
                if isinstance(found, Damage):
                    if not found.harmless:
                        yield self._damage(part, found, schema)
                elif isinstance(found, Batch):
                    yield from self._old(part, found, schema)
                else:
                    yield from self._batches(part, found, place, schema)
        except OSError as error:
            damage = Damage(0, "unreadable", error.strerror or str(error))
            yield self._damage(part, damage, schema, error)

    def _batches(self, part: SegmentPart, found: Batches, place: Row, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        chosen = self._chosen(found)
        if not chosen.all():
            found = found.where(chosen)
        if not len(found):
            return
        asked = {field.name for field in schema}
        controls = (
            segment_columns.controls(found)
            if asked & {"control", "coordinator_epoch", "error"}
            else segment_columns.NO_CONTROLS
        )
        for index in controls.malformed:
            batch = found.batch(index)
            try:
                batch.control  # noqa: B018
            except RecordError as error:
                yield self._damage(part, Damage(batch.position, "bad_records", str(error)), schema, error)
        if self.rows != "records":
            yield segment_columns.of_batches(found, controls, place, schema)
            return
        for records in columns.records(found):
            yield segment_columns.of_records(records, controls, place, schema)
            for damage in records.damage:
                yield self._damage(part, damage, schema)

    def _chosen(self, found: Batches) -> Bools:
        """The batches that may contain rows that the filters keep."""
        chosen = np.ones(len(found), bool)
        low, high = self.selection.offsets or (None, None)
        if low is not None:
            chosen &= found.last_offset >= low
        if high is not None:
            chosen &= found.base_offset < high
        oldest = self.selection.times[0] if self.selection.times else None
        if oldest is not None:
            chosen &= found.max_timestamp >= oldest
        if self.producers is not None:
            chosen &= np.isin(found.producer_id, np.array(sorted(self.producers), np.int64))
        return chosen

    def _old(self, part: SegmentPart, batch: Batch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        row = segment_columns.row_of(batch.measured(), segment_columns.place_of(part.file))
        if self.rows != "records":
            yield segment_columns.of_rows([row], schema)
            return
        rows: list[Row] = []
        try:
            rows.extend(segment_columns.record_rows(batch.records, row))
        except RecordError as error:
            damage = Damage(batch.position, "bad_records", str(error))
            yield self._damage(part, damage, schema, error)
        if rows:
            yield segment_columns.of_rows(rows, schema)

    def _damage(
        self, part: SegmentPart, damage: Damage, schema: pa.Schema, cause: BaseException | None = None
    ) -> pa.RecordBatch:
        text = f"{damage.reason}: {damage.detail}"
        if self.options.fail_fast:
            raise SourceError(f"{part.file.path}: at byte {damage.position}: {text}") from cause
        return segment_columns.of_rows(
            [{**segment_columns.place_of(part.file), "position": damage.position, "error": text}], schema
        )


class FilteringSegmentReader(SegmentReader):
    """Takes filters; see `SourceOptions.filter_pushdown`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        offsets = wanted_range(filters, "offset" if self.rows == "records" else "base_offset")
        self.selection = Selection(offsets=offsets, times=wanted_range(filters, "timestamp"))
        self.producers = wanted_values(filters, "producer_id")
        self.topics = wanted_values(filters, "topic")
        self.numbers = wanted_values(filters, "partition")
        return filters
