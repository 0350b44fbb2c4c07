"""The committed records of log directories as a table, made by workers: plan, read headers, decide, read records.

One replica of each partition is read. Headers of all parts are read first (`lake_outcomes`): a part alone does not show
how its transactions ended.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.logdir import LogFile, Partition, Selection, View
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.records.internal_topics import INTERNAL_TOPICS
from kafkawire.spark import segment_columns
from kafkawire.spark.errors import SourceError
from kafkawire.spark.fleet_listing import as_batches
from kafkawire.spark.lake_outcomes import Scanned, decide, scan_part
from kafkawire.spark.offset_options import RequestedRange, Subscription
from kafkawire.spark.segment_parts import SegmentPart
from kafkawire.spark.segment_reader import SegmentReader
from kafkawire.spark.sources import SourceOptions
from kafkawire.spark.task_sizing import Rows, by_task
from kafkawire.spark.tier_listing import once, replica_at, segment_sizes
from kafkawire.transactions.facts import CLUSTER_METADATA
from kafkawire.transactions.part_scan import bounds, count_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of partitions, and of their parts.
PARTITION, PART = 0, 1
_PARTS = pa.schema([("partition", pa.binary()), ("base", pa.int64()), ("number", pa.int32()), ("payload", pa.binary())])
#: `end`: what is read ends there. `held`: why it ends before the log does.
_DECIDED = pa.schema(
    [
        ("kind", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("bytes", pa.int64()),
        ("held", pa.string()),
        ("payload", pa.binary()),
    ]
)
TABLE = from_arrow_schema(segment_columns.KAFKA)
TABLE_SPARK = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in TABLE)


class Wanted(NamedTuple):
    """What is read. `high_watermark`: no further than to it. `decode`: nor to records that cannot be decoded."""

    subscription: Subscription
    high_watermark: bool
    part_bytes: int
    decode: bool = False

    def of(self, topic: str, partition: int) -> bool:
        """Whether a partition is read: as of a consumer's pattern, internal topics only where they are named."""
        named = self.subscription.option in ("subscribe", "assign")
        return (
            topic != CLUSTER_METADATA
            and (named or topic not in INTERNAL_TOPICS)
            and self.subscription.selects(topic, partition)
        )


class _PartitionStart(NamedTuple):
    """A partition before its parts are read. `held`: why none is."""

    start: int
    limit: int | None
    compacted: bool
    held: str = ""


class _SegmentPart(NamedTuple):
    """A part of a segment.

    Attributes:
        number, of: which of how many parts of the segment.
        begin, end: its first byte, and the one behind its last, once they are known.
    """

    file: LogFile
    number: int
    of: int
    begun: _PartitionStart
    begin: int = 0
    end: int | None = None


class _ViewedPart(NamedTuple):
    part: _SegmentPart
    view: View


def decided(replicas: DataFrame, wanted: Wanted, count: int, tasks: int) -> DataFrame:
    """What can be read of each partition, and its parts.

    Args:
        replicas: rows of `fleet_listing.REPLICA` with a column `begin`: the offset to read from, null for the earliest.
        count: number of replicas. `tasks`: in which parts are read.
    """

    def plan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_planned(listed, wanted), _PARTS)

    def scan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_scanned(listed, wanted), _PARTS, 1)

    def merge(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_decided(listed), _DECIDED, 16)

    few = 1 + count // 256
    planned = by_task(
        replicas.repartition(few, "partition").sortWithinPartitions("partition", "sort"),
        plan,
        from_arrow_schema(_PARTS),
    )
    scanned = by_task(planned.repartition(tasks), scan, from_arrow_schema(_PARTS))
    ordered = scanned.repartition(min(few, tasks), "partition").sortWithinPartitions("partition", "base", "number")
    return by_task(ordered, merge, from_arrow_schema(_DECIDED))


def records(parts: DataFrame) -> DataFrame:
    """The records of parts, in the columns of Spark's Kafka source.

    Args:
        parts: rows of `decided` of the kind `PART`, with a column `until`: the end that was decided on.
    """

    def read(listed: Rows) -> Iterator[pa.RecordBatch]:
        reader = SegmentReader(TABLE, SourceOptions({"format": "kafka"}))
        for row in listed:
            if row["end"] < row["until"]:
                raise SourceError(f"{row['topic']}-{row['partition']} changed while it was read")
            found: _ViewedPart = pickle.loads(row["payload"])  # written by our own workers
            part = found.part
            offsets = RequestedRange(row["start"], row["until"])
            item = SegmentPart(part.file, part.begin, part.end, offsets, view=found.view)
            yield from map(reader.projection.batch, reader.batches([item], reader.projection.source))

    return by_task(parts, read, TABLE_SPARK)


# Plan ----------------------------------------------------------------------------------------------------------------


def _planned(listed: Rows, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    brokers: dict[str, Any] = {}  # their checkpoints are read once
    for key, of_partition in groupby(listed, key=itemgetter("partition")):
        replicas: dict[bytes, tuple[dict[str, Any], Partition]] = {}
        for row in once(of_partition):
            found = replica_at(row)
            found.broker = brokers.setdefault(found.broker.root, found.broker)
            if not found.state and found.segments and wanted.of(found.topic, found.partition):
                replicas.setdefault(row["real"], (row, found))
        if replicas:
            row, replica = max(replicas.values(), key=_furthest)
            begun = _begun(replica, row["begin"], wanted)
            yield key, -1, -1, pickle.dumps(begun)
            if not begun.held:
                paths = (file.path for file in replica.segments)
                sizes = dict(zip(paths, segment_sizes(row, replica), strict=True))
                asked = Selection(offsets=(begun.start, begun.limit))
                for file in logdir.wanted_files(replica.segments, asked):
                    count = count_parts(sizes[file.path], wanted.part_bytes)
                    for number in range(count):
                        part = _SegmentPart(file, number, count, begun)
                        yield key, file.offset, number, pickle.dumps(part)


def _furthest(found: tuple[dict[str, Any], Partition]) -> tuple[int, int, int]:
    """The replica with the highest high watermark; of several, the one with most segments."""
    _, replica = found
    mark = replica.high_watermark
    return (-1 if mark is None else mark), replica.segments[-1].offset or 0, -(replica.local_start_offset or 0)


def _begun(replica: Partition, begin: int | None, wanted: Wanted) -> _PartitionStart:
    limit = replica.high_watermark if wanted.high_watermark else None
    first = replica.local_start_offset or 0
    start = first if begin is None else begin
    held = ""
    if wanted.high_watermark and limit is None:
        held = "no replica has a high watermark (replication-offset-checkpoint); highWatermark=false reads without it"
    elif start < first:
        held = f"offsets {start} to {first - 1} are gone"
    elif limit is not None and limit < start:
        held = f"the high watermark is {limit}, before offset {start}, up to which records have been read"
    compacted = (replica.topic, replica.partition) in replica.broker.cleaned
    return _PartitionStart(start, limit, compacted, held)


# Read headers --------------------------------------------------------------------------------------------------------


def _scanned(listed: Rows, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    for row in listed:
        payload = row["payload"]
        if row["number"] >= 0:
            part: _SegmentPart = pickle.loads(payload)  # written by our own workers
            begun = part.begun
            try:
                found = bounds(part.file, part.number, part.of, wanted.part_bytes)
                if found is None:
                    continue
                begin = max(found[0], start_position(part.file, Selection(offsets=(begun.start, None))))
                if found[1] is not None and found[1] <= begin:
                    continue
                part = part._replace(begin=begin, end=found[1])
                scanned = scan_part(
                    part.file,
                    begin,
                    found[1],
                    begun.start,
                    begun.limit,
                    decode=wanted.decode,
                    compacted=begun.compacted,
                )
            except OSError as error:
                scanned = Scanned(TransactionScan())
                scanned.scan.damage(f"{part.file.path}: {error.strerror or error}")
            payload = pickle.dumps((part, scanned))
        yield row["partition"], row["base"], row["number"], payload


# Decide --------------------------------------------------------------------------------------------------------------


def _decided(listed: Rows) -> Iterator[tuple[Any, ...]]:
    for key, of_partition in groupby(listed, key=itemgetter("partition")):
        topic, partition = key.rsplit(b"\0", 1)
        place = topic.decode(errors="replace"), int(partition)
        first, *others = [pickle.loads(row["payload"]) for row in of_partition]  # written by our own workers
        begun: _PartitionStart = first
        parts: list[tuple[_SegmentPart, Scanned]] = others
        found = decide((scanned for _, scanned in parts), begun.start, begun.limit, compacted=begun.compacted)
        held, size = begun.held or found.held, 0
        view = View(outcomes=found.outcomes, isolation_level="read_committed")
        for part, (scan, stop, *_) in parts:
            if scan.first is None or scan.end is None or found.end <= begun.start:
                continue
            if scan.first < found.end and scan.end > begun.start:
                # Behind the last batch may be damage, or what is being written.
                payload = pickle.dumps(_ViewedPart(part._replace(end=stop), view.within(scan.first, scan.end)))
                part_size = stop - part.begin
                size += part_size
                yield (PART, *place, begun.start, found.end, part_size, None, payload)
        yield (PARTITION, *place, begun.start, found.end, size, held or None, None)
