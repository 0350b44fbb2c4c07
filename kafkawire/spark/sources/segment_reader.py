"""Segments as rows for `kafka_segment`: files cut into parts, and the batches or records of a part as Arrow batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire._java_numbers import INT64
from kafkawire.errors import RecordError
from kafkawire.logdir import LogFile, OutcomesByFile, Partition, View, remote
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.located_file import BATCHES, known_size
from kafkawire.logdir.log_files import log_file
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.segment_secrets import has_secrets, without_secret, without_secrets
from kafkawire.logdir.splits import ranges
from kafkawire.logdir.transaction_states import NONE, STATES, Outcomes
from kafkawire.records import Batch, Damage, columns
from kafkawire.records.array_types import Int64
from kafkawire.records.columns import Batches
from kafkawire.records.control_columns import controls_of, of_records
from kafkawire.records.record_table import CONTROL_COLUMNS
from kafkawire.spark.errors import SourceError
from kafkawire.spark.listing.copied_logs import REPLICAS, logs_of, of_replicas
from kafkawire.spark.session.task_sizing import FEWEST_TASKS, split_into_tasks
from kafkawire.spark.sources import segment_columns
from kafkawire.spark.sources.filter_pushdown import Pruned, pruned
from kafkawire.spark.sources.log_points import NO_EPOCH
from kafkawire.spark.sources.offset_options import ALL_OFFSETS, RequestedRange, bounds, subscription
from kafkawire.spark.sources.segment_columns import Row
from kafkawire.spark.sources.segment_parts import SegmentPart, pieces_of
from kafkawire.spark.sources.source_base import PART_BYTES, TIER_KEYS, ItemReader, SourceOptions, Task
from kafkawire.transactions.parts.part_scan import bounds as bounds_of
from kafkawire.transactions.parts.part_scan import count_parts

ROWS = ("records", "batches", "headers")
#: The tables of records, by the option `format`.
FORMATS = {"kafkawire": segment_columns.RECORDS, "kafka": segment_columns.KAFKA}
#: The option `isolationLevel`.
LEVELS = ("read_uncommitted", "read_committed")
#: Reasons of problems that records were lost for, or may have been.
LOSSES = frozenset(("out_of_range", "truncated", "new_log"))
#: A column that is read where it is named.
TRANSACTION = "transaction"
LEAST_OFFSET = -INT64 - 1


class SegmentReader(ItemReader[SegmentPart]):
    """An item is a part of a segment."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self.rows = options.choice("rows", ROWS)
        #: Spark's Kafka source reads no control records.
        self.data_only = options.choice("format", tuple(FORMATS)) == "kafka"
        self.part_bytes = options.size("maxPartBytes", PART_BYTES)
        self.subscription = subscription(options)
        self.show_secrets = options.flag("showSecrets")
        self.level: Any = None if options.text("isolationLevel") is None else options.choice("isolationLevel", LEVELS)
        self.shows_states = TRANSACTION in self.projection.source.names
        self.pruned = Pruned()
        #: Whether lost records are an error; None: as other damage.
        lossy = options.text("failOnDataLoss")
        self.fail_on_loss = None if lossy is None else options.choice("failOnDataLoss", ("true", "false")) == "true"
        self.fewest_tasks = options.number("minPartitions", 0, least=0)

    @staticmethod
    def table(options: SourceOptions) -> pa.Schema:
        rows, name = options.choice("rows", ROWS), options.choice("format", tuple(FORMATS))
        if name == "kafka" and rows != "records":
            raise ValueError(f"with format kafka, rows is records, not {rows}")
        table = FORMATS[name] if rows == "records" else segment_columns.BATCHES
        if options.choice("includeHeaders", ("true", "false")) == "false" and "headers" in table.names:
            table = table.remove(table.get_field_index("headers"))
        return table.append(pa.field(TRANSACTION, pa.string()))

    @staticmethod
    def hidden(options: SourceOptions) -> frozenset[str]:
        return frozenset((TRANSACTION,))

    def items(self) -> Iterator[SegmentPart]:
        wanted = bounds(self.options)
        paths = self.options.paths
        directory = logdir.open(*paths, tier_keys=self.options.texts(TIER_KEYS))
        for one in directory.unreadable:
            yield SegmentPart(log_file(one.path), problem=Damage(0, "unreadable", one.reason))
        named = set(map(remote.without_secrets, paths))
        every = self.options.choice("replicas", REPLICAS) == "all"
        replicas = self.subscribed(one for one in directory.partitions if one.segments)
        partitions = sorted(
            (log.replica for log in logs_of(replicas, every=every, named=named, identified=False)),
            key=directory.partitions.index,
        )
        there = {(partition.topic, partition.partition) for partition in partitions}
        self.subscription.check(there)
        wanted.check(there)
        outcomes = OutcomesByFile(directory.partitions, paths) if self.level or self.shows_states else None
        # A consumer gets each offset once: what a tier has of a replica's log comes with the replica.
        held = {tier.path for one in partitions for tier in one.copies if self.level or not every}
        reported: set[tuple[str, Damage]] = set()
        chosen = [one for one in partitions if one.path not in held and self.pruned.has(one.topic, one.partition)]
        of_replicas(lambda one: one.files[0].listed_whole and one.topic_id, chosen)
        for partition in chosen:
            parts = self._of_replica(partition, wanted.of(partition), outcomes, reported)
            yield from (_identified(part, partition) for part in parts)
        in_use = {file.path for partition in directory.partitions for file in partition.segments}
        for file in directory.files:
            if (
                file.path in named - in_use
                and file.kind in BATCHES
                and self.subscription.selects(file.topic, file.partition)
            ):
                view = None if outcomes is None else self.view(outcomes.of(file))
                yield from self.parts(file, 0, None, ALL_OFFSETS, view)

    def view(self, outcomes: Outcomes) -> View:
        """What is read of a partition, by its transactions."""
        return View(outcomes=outcomes, isolation_level=self.level, shown=self.shows_states)

    def subscribed(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The replicas that the options choose."""
        return [one for one in partitions if self.subscription.selects(one.topic, one.partition)]

    def tasks(self, items: Iterable[SegmentPart]) -> Sequence[InputPartition]:
        return [
            Task(share)
            for share in split_into_tasks(list(items), self.size_of, least=max(FEWEST_TASKS, self.fewest_tasks))
        ]

    def size_of(self, item: SegmentPart) -> int:
        return ((known_size(item.file) if item.end is None else item.end) - item.start) // item.of

    def batches(self, items: Iterable[SegmentPart], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in items:
            yield from self._part(part, schema)

    def _of_replica(
        self,
        partition: Partition,
        offsets: RequestedRange,
        outcomes: OutcomesByFile | None,
        reported: set[tuple[str, Damage]],
    ) -> Iterator[SegmentPart]:
        """The parts of a replica, after the damage of other files that an isolation level rests on: checkpoints, leader
        epochs, the first `.snapshot`.

        Args:
            reported: damage that another replica rests on, too.
        """
        if offsets.problem is not None:
            yield SegmentPart(partition.segments[0], problem=offsets.problem)
        view = None if outcomes is None else self.view(outcomes.of_partition(partition))
        offsets = offsets if view is None else narrowed(offsets, view)
        for path, damage in () if view is None else view.damage:
            if (path, damage) not in reported:
                reported.add((path, damage))
                yield SegmentPart(log_file(path), problem=damage)
        following = {one.path: after.offset for one, after in pairwise(partition.segments)}
        asked = self.pruned.selection(offsets)
        last = asked.offsets[1] if asked.offsets else None
        for file in logdir.wanted_files(partition.segments, asked):
            begin = start_position(file, asked)
            seen = view if view is None else view.within(file.offset or 0, following.get(file.path))
            if not begin and last is None:
                yield from self._unread_parts(file, offsets, seen)
                continue
            for part in self.parts(file, begin, None, offsets, seen):
                if last is None or part.start == begin or not _beyond(part, last):
                    yield part

    def _unread_parts(self, file: LogFile, offsets: RequestedRange, view: View | None) -> Iterator[SegmentPart]:
        """The parts of a segment, as many as its size makes. Tasks find where they begin: the driver reads nothing."""
        size = known_size(file)
        count = count_parts(size, self.part_bytes)
        for number in range(count):
            yield SegmentPart(file, offsets=offsets, view=view, number=number, of=count, listed=size)

    def parts(
        self, file: LogFile, start: int, end: int | None, offsets: RequestedRange, view: View | None = None
    ) -> Iterator[SegmentPart]:
        """The parts of a range of bytes of a segment.

        Args:
            start, end: byte positions; `end` None: to the end of the file.
            offsets: that are read. `view`: how transactions are seen; None: not at all.
        """
        try:
            few = end is not None and end - start <= self.part_bytes
            found = [(start, None)] if few else ranges(file, self.part_bytes)
        except OSError:
            found = [(0, None)]  # the task that reads the file reports the error
        for first, stop in found:
            begin = max(first, start)
            until = end if stop is None else stop if end is None else min(stop, end)
            if until is None or begin < until:
                yield SegmentPart(file, begin, until, offsets, view=view)

    def _part(self, part: SegmentPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part, the damage in it after what is around it."""
        if part.problem is not None:
            yield from self._problem(part, part.problem, schema)
            return
        try:
            if part.of > 1:
                if part.number + 1 == part.of and (size := part.file.size) < part.listed:
                    yield self._damage(part, Damage.of_shortened(size, size, part.listed), schema)
                between = bounds_of(part.file, part.number, part.of, self.part_bytes)
                if between is None:
                    return
                part = part._replace(start=between[0], end=between[1], of=1)
            for now, found in pieces_of(part, check_crc=self.rows != "headers"):
                if isinstance(found, Damage):
                    if not found.harmless:
                        yield from self._problem(now, found, schema)
                elif isinstance(found, Batch):
                    yield from self._old(now, found, schema)
                else:
                    yield from self._batches(now, found, segment_columns.place_of(now.file), schema)
        except OSError as error:
            if part.of == 1 or not part.number:  # once
                yield self._damage(part, Damage.unreadable(error), schema, error)

    def _batches(self, part: SegmentPart, found: Batches, place: Row, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        chosen = _within(part.offsets, found.base_offset, found.last_offset)
        chosen = chosen & ~found.is_control if self.data_only else chosen
        chosen = chosen & (found.leader_epoch <= part.epoch) if part.epoch != NO_EPOCH else chosen
        states = None
        if part.view is not None:
            seen = part.view.see(found)
            for index in (seen.lost & chosen).nonzero()[0].tolist():
                yield self._damage(part, part.view.lost(found.batch(index)), schema)
            chosen = chosen & seen.kept
            states = seen.states[chosen]
        found = found if chosen.all() else found.where(chosen)
        if not len(found):
            return
        # Damage is a row whatever the columns: Spark counts rows by one of them.
        controls = controls_of(found)
        for index, error in controls.malformed.items():
            yield self._damage(part, Damage(int(found.position[index]), "bad_records", str(error)), schema, error)
        if self.rows != "records":
            yield segment_columns.of_columns(found, controls, place, schema, states=states)
            return
        shows_controls = not {*CONTROL_COLUMNS}.isdisjoint(schema.names)
        for records in columns.records(found):
            hidden = "value" in schema.names and self._hides_secrets(part.file)
            rows = without_secrets(records) if hidden else records
            own = of_records(controls, records) if shows_controls else None
            made = segment_columns.of_columns(rows, own, place, schema, states, null_headers=self.data_only)
            yield _chosen(made, records.offset, part.offsets)
            for damage in records.damage:
                yield self._damage(part, damage, schema)

    def _hides_secrets(self, file: LogFile) -> bool:
        return not self.show_secrets and has_secrets(file)

    def _old(self, part: SegmentPart, batch: Batch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        batch = batch.measured()
        if not _within(part.offsets, batch.base_offset, batch.last_offset):
            return
        row = {TRANSACTION: STATES[NONE], **segment_columns.row_of(batch, segment_columns.place_of(part.file))}
        if self.rows != "records":
            yield segment_columns.of_rows([row], schema)
            return
        rows: list[Row] = []
        try:
            found = (without_secret(one) for one in batch.records) if self._hides_secrets(part.file) else batch.records
            wanted = (one for one in found if _within(part.offsets, one.offset, one.offset))
            rows.extend(segment_columns.record_rows(wanted, row, null_headers=self.data_only))
        except RecordError as error:
            damage = Damage(batch.position, "bad_records", str(error))
            yield self._damage(part, damage, schema, error)
        if rows:
            yield segment_columns.of_rows(rows, schema)

    def _problem(self, part: SegmentPart, damage: Damage, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The row of a problem; an error, or a warning, where the option `failOnDataLoss` says so."""
        if damage.reason in LOSSES and self.fail_on_loss is not None:
            text = f"{part.file.path}: {damage.reason}: {damage.detail}"
            if self.fail_on_loss:
                raise SourceError(text)
            if self.options.fail_fast:
                warnings.warn(text, RuntimeWarning)
                return
        yield self._damage(part, damage, schema)

    def _damage(
        self, part: SegmentPart, damage: Damage, schema: pa.Schema, cause: BaseException | None = None
    ) -> pa.RecordBatch:
        text = f"{damage.reason}: {damage.detail}"
        if self.options.fail_fast:
            raise SourceError(f"{part.file.path}: at byte {damage.position}: {text}") from cause
        return segment_columns.of_rows(
            [{**segment_columns.place_of(part.file), "position": damage.position, "error": text}], schema
        )


class PrunedSegmentReader(SegmentReader):
    """A reader that takes the filters of a query, which Spark permits by a setting (`filter_pushdown.SETTING`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        if self.rows == "records":
            self.pruned = pruned(filters, case_sensitive=self.options.case_sensitive)
        return filters


def narrowed(offsets: RequestedRange, view: View) -> RequestedRange:
    """The offsets of a range that are read."""
    first, end = view.offsets
    firsts = [one for one in (offsets.first, first) if one is not None]
    ends = [one for one in (offsets.end, end) if one is not None]
    return offsets._replace(first=max(firsts, default=None), end=min(ends, default=None))


def _identified(part: SegmentPart, replica: Partition) -> SegmentPart:
    """A part with the topic's id of its directory: the task that reads it sees whether it is another's by then."""
    if part.problem is not None or part.file.folder != replica.files[0].folder or replica.state == TIERED:
        return part
    return part._replace(topic_id=replica.topic_id)


def _within(offsets: RequestedRange, first: Any, last: Any) -> Any:
    """Whether offsets from `first` to `last` have some of the range; of arrays, an array."""
    low, high, _ = offsets
    return (last >= (LEAST_OFFSET if low is None else low)) & (first < (INT64 if high is None else high))


def _chosen(rows: pa.RecordBatch, offset: Int64, offsets: RequestedRange) -> pa.RecordBatch:
    """The rows of the records with these offsets."""
    if offsets == ALL_OFFSETS:
        return rows
    chosen = _within(offsets, offset, offset)
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def _beyond(part: SegmentPart, end: int) -> bool:
    """Whether a part begins after an offset, by two batches: the checksum of a batch does not cover its offset."""
    try:
        found = list(islice(part.file.batches(start=part.start, check_crc=False), 2))
    except OSError:
        return False
    return bool(found) and all(isinstance(one, Batch) and one.base_offset >= end for one in found)
