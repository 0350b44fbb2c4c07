"""The committed records of log directories as a table, made by workers: plan, read headers, decide, read records.

One replica of each partition is read. Headers of all parts are read first (`lake_outcomes`): a part alone does not show
how its transactions ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.logdir import LogFile, Partition, Selection, View
from kafkawire.logdir.cleaning import NOT_CLEANED, Cleaned
from kafkawire.logdir.isolation import cleaned
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.records.internal_topics import INTERNAL_TOPICS
from kafkawire.spark.errors import SourceError
from kafkawire.spark.lake.lake_outcomes import Scanned, decide, scan_part
from kafkawire.spark.listing.copied_logs import ordered
from kafkawire.spark.listing.tier_listing import once, replica_at, segment_sizes
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import MOST_PLANNERS, Rows, by_task
from kafkawire.spark.sources import segment_columns
from kafkawire.spark.sources.log_points import NO_EPOCH, Header, LogPoints, anchor_of
from kafkawire.spark.sources.offset_options import RequestedRange, Subscription
from kafkawire.spark.sources.segment_parts import SegmentPart
from kafkawire.spark.sources.segment_positions import Position, divergence
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions
from kafkawire.transactions.facts import CLUSTER_METADATA
from kafkawire.transactions.parts.part_scan import bounds, count_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of partitions, of their parts, and of partitions that were to be read from an offset that a table has.
PARTITION, PART, REFUSED = 0, 1, 2
_PARTS = pa.schema([("partition", pa.binary()), ("base", pa.int64()), ("number", pa.int32()), ("payload", pa.binary())])
#: `end`: what is read ends there, after a batch of leader epoch `epoch`. `held`: why it ends before the log does.
_DECIDED = pa.schema(
    [
        ("kind", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("bytes", pa.int64()),
        ("held", pa.string()),
        ("topic_id", pa.string()),
        ("epoch", pa.int32()),
        ("payload", pa.binary()),
    ]
)
#: What a table has of a partition, and where it is to go on. `begin`: null for the earliest offset; `given`: the caller
#: named it. `recorded`: the table has the offsets below. `topic_id`, `epoch`: of these, null where not known.
KNOWN = "partition binary, begin bigint, given boolean, recorded bigint, topic_id string, epoch int"
TABLE = from_arrow_schema(segment_columns.KAFKA)
TABLE_SPARK = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in TABLE)


class Wanted(NamedTuple):
    """What is read. `high_watermark`: no further than to it. `decode`: nor to records that cannot be decoded."""

    subscription: Subscription
    high_watermark: bool
    part_bytes: int
    decode: bool = False

    def of(self, topic: str, partition: int) -> bool:
        """Whether a partition is read. As for a consumer with a pattern, internal topics are read only where they are
        named."""
        named = self.subscription.option in ("subscribe", "assign")
        return (
            topic != CLUSTER_METADATA
            and (named or topic not in INTERNAL_TOPICS)
            and self.subscription.selects(topic, partition)
        )


class _PartitionStart(NamedTuple):
    """A partition before its parts are read.

    Attributes:
        held: why none is. `beside`: what else is there, and not read. `refused`: the table has it up to there.
        topic_id, epoch: of the log, and of the batch before `start`, where they are known.
    """

    start: int
    limit: int | None = None
    cleaned: Cleaned = NOT_CLEANED
    held: str = ""
    beside: str = ""
    refused: int | None = None
    topic_id: str | None = None
    epoch: int | None = None


class _SegmentPart(NamedTuple):
    """A part of a segment.

    Attributes:
        number, of: which of how many parts of the segment.
        begin, end: its first byte, and the one after its last, once they are known; `anchor`: the batch at `begin`.
        last, after: the last batch whose header was read, and the offset after it.
    """

    file: LogFile
    number: int
    of: int
    begun: _PartitionStart
    begin: int = 0
    end: int | None = None
    anchor: Header | None = None
    last: Header | None = None
    after: int = 0


class _ViewedPart(NamedTuple):
    part: _SegmentPart
    view: View


def decided(replicas: DataFrame, wanted: Wanted, count: int, tasks: int) -> DataFrame:
    """What can be read of each partition, and its parts.

    Args:
        replicas: rows of `fleet_listing.REPLICA` with the columns `KNOWN`.
        count: number of replicas. `tasks`: in which parts are read.
    """

    def plan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_planned(listed, wanted), _PARTS)

    def scan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_scanned(listed, wanted), _PARTS, 1)

    def merge(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_decided(listed), _DECIDED, 16)

    few = min(MOST_PLANNERS, 1 + count // 256)
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
            found: _ViewedPart = received(row["payload"])
            part = found.part
            offsets = RequestedRange(row["start"], row["until"])
            item = SegmentPart(part.file, part.begin, part.end, offsets, view=found.view)
            yield from map(reader.projection.batch, reader.batches([item], reader.projection.source))
            if _was_replaced(part, row["until"]):
                raise SourceError(f"{row['topic']}-{row['partition']} changed while it was read")

    return by_task(parts, read, TABLE_SPARK)


def _was_replaced(part: _SegmentPart, until: int) -> bool:
    """Whether its headers may have been of other batches than the records: the topic was deleted and created again
    between, or a leader without them was elected. Truncation cuts off the end of a log: where the last batch is the
    same, all before are. Cleaning writes batches anew, too, and keeps the topic's id and leader epochs.

    Args:
        until: offsets below are read.
    """
    known = [(part.begin, part.anchor)] + ([] if part.last is None else [(part.last.position, part.last)])
    if all(anchor_of(part.file, position) == header for position, header in known):
        return False
    try:
        listed = logdir.open(part.file.folder).partitions
    except FileNotFoundError:
        return True  # the topic is deleted, and may have been created again before
    replica = next((one for one in listed if one.path == part.file.folder), None)
    if replica is None or replica.topic_id is None or str(replica.topic_id) != part.begun.topic_id:
        return True
    if part.last is None or part.last.epoch == NO_EPOCH:
        return True
    return divergence(replica, Position(min(part.after, until), part.last.epoch), LogPoints()) is not None


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
            row, replica, begun = _begun(list(replicas.values()), wanted)
            yield key, -1, -1, sent(begun)
            if not begun.held and begun.refused is None:
                paths = (file.path for file in replica.segments)
                sizes = dict(zip(paths, segment_sizes(row, replica), strict=True))
                asked = Selection(offsets=(begun.start, begun.limit))
                for file in logdir.wanted_files(replica.segments, asked):
                    count = count_parts(sizes[file.path], wanted.part_bytes)
                    for number in range(count):
                        part = _SegmentPart(file, number, count, begun)
                        yield key, file.offset, number, sent(part)


_Found = tuple[dict[str, Any], Partition]


def _begun(found: list[_Found], wanted: Wanted) -> tuple[dict[str, Any], Partition, _PartitionStart]:
    """The replica of a partition that is read, its row, and where it is read from."""
    first, _ = found[0]
    recorded: str | None = None if first["given"] else first["topic_id"]
    names = {str(one.topic_id) for _, one in found if one.topic_id is not None}
    chosen, beside = found, ""
    if recorded in names:
        chosen = [one for one in found if one[1].topic_id is None or str(one[1].topic_id) == recorded]
        if len(names) > 1:
            others = ", ".join(sorted(names - {recorded}))
            beside = (
                f"a topic of the same name and another id ({others}) is there, too; the table has that of {recorded}"
            )
    rows = {replica.path: row for row, replica in chosen}
    replica = ordered([replica for _, replica in chosen])[0]
    begun = _started(replica, rows[replica.path], wanted, recorded)._replace(beside=beside)
    if recorded and names and recorded not in names:
        begun = begun._replace(
            held=f"the topic was created again: its id is {', '.join(sorted(names))}, the table has that of {recorded} "
            f"up to offset {first['recorded']}; startingOffsets names where the new one begins"
        )
    elif not recorded and len(names) > 1:
        begun = begun._replace(held=f"topics of several ids have this name: {', '.join(sorted(names))}")
    elif first["given"] and first["topic_id"] in {None, *names} and first["begin"] < (first["recorded"] or 0):
        begun = begun._replace(refused=first["recorded"])
    return rows[replica.path], replica, begun


def _started(replica: Partition, row: dict[str, Any], wanted: Wanted, recorded: str | None) -> _PartitionStart:
    limit = replica.high_watermark if wanted.high_watermark else None
    first, begin = replica.local_start_offset or 0, row["begin"]
    start = first if begin is None else begin
    epoch = None if row["given"] else row["epoch"]
    held = ""
    if wanted.high_watermark and limit is None:
        held = "no replica has a high watermark (replication-offset-checkpoint); highWatermark=false reads without it"
    elif start < first:
        held = f"offsets {start} to {first - 1} are gone"
    elif limit is not None and limit < start:
        held = f"the high watermark is {limit}, before offset {start}, up to which records have been read"
    if epoch is not None:
        held = _cut_off(replica, Position(start, epoch)) or held
    topic_id = recorded if replica.topic_id is None else str(replica.topic_id)
    return _PartitionStart(start, limit, cleaned(replica), held, topic_id=topic_id, epoch=epoch)


def _cut_off(replica: Partition, position: Position) -> str:
    """What a later leader cut off of the offsets that a table has."""
    try:
        parted = divergence(replica, position, LogPoints())
    except OSError as error:
        return f"{replica.path}: {error.strerror or error}"
    if parted is None:
        return ""
    return (
        f"offsets {parted} to {position.offset - 1}, which the table has up to leader epoch {position.epoch}, were cut "
        "off after a change of leader; startingOffsets names where to go on"
    )


# Read headers --------------------------------------------------------------------------------------------------------


def _scanned(listed: Rows, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    for row in listed:
        payload = row["payload"]
        if row["number"] >= 0:
            part: _SegmentPart = received(payload)
            begun = part.begun
            try:
                found = bounds(part.file, part.number, part.of, wanted.part_bytes)
                if found is None:
                    continue
                begin = max(found[0], start_position(part.file, Selection(offsets=(begun.start, None))))
                if found[1] is not None and found[1] <= begin:
                    continue
                part = part._replace(begin=begin, end=found[1], anchor=anchor_of(part.file, begin))
                scanned = scan_part(
                    part.file,
                    begin,
                    found[1],
                    begun.start,
                    begun.limit,
                    decode=wanted.decode,
                    cleaned=begun.cleaned,
                )
            except OSError as error:
                scanned = Scanned(TransactionScan())
                scanned.scan.damage(f"{part.file.path}: {error.strerror or error}")
            payload = sent((part, scanned))
        yield row["partition"], row["base"], row["number"], payload


# Decide --------------------------------------------------------------------------------------------------------------


def _decided(listed: Rows) -> Iterator[tuple[Any, ...]]:
    for key, of_partition in groupby(listed, key=itemgetter("partition")):
        topic, partition = key.rsplit(b"\0", 1)
        place = topic.decode(errors="replace"), int(partition)
        first, *others = [received(row["payload"]) for row in of_partition]
        begun: _PartitionStart = first
        parts: list[tuple[_SegmentPart, Scanned]] = others
        found = decide((scanned for _, scanned in parts), begun.start, begun.limit, cleaned=begun.cleaned)
        if begun.refused is not None:
            yield (REFUSED, *place, begun.start, begun.refused, 0, None, begun.topic_id, None, None)
            continue
        held, size = begun.held or found.held or begun.beside, 0
        epochs = [(epoch, base) for _, scanned in parts for epoch, base in scanned.epochs if base < found.end]
        epoch = max((epoch for epoch, _ in epochs), default=begun.epoch)
        view = View(outcomes=found.outcomes, isolation_level="read_committed")
        for part, scanned in parts:
            scan = scanned.scan
            if scan.first is None or scan.end is None or found.end <= begun.start:
                continue
            if scan.first < found.end and scan.end > begun.start:
                # After the last batch may be damage, or what is being written.
                known = part._replace(end=scanned.stop, last=scanned.last, after=scan.end)
                payload = sent(_ViewedPart(known, view.within(scan.first, scan.end)))
                part_size = scanned.stop - part.begin
                size += part_size
                yield (PART, *place, begun.start, found.end, part_size, None, None, None, payload)
        yield (PARTITION, *place, begun.start, found.end, size, held or None, begun.topic_id, epoch, None)
