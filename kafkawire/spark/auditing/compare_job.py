"""The comparison of copies as a Spark job: digests of ranges of offsets first, and batches only of ranges that differ.

    read copies        a task reads copies -> a digest a range
    find differences   digests are shuffled by partition and range: which of them differ
    read ranges        the copies are read again -> batches of the ranges that differ
    compare ranges     batches are shuffled by partition and range -> runs of neighbours that are alike
    add up             runs are shuffled by partition, in order -> rows

A task keeps one range of two copies, and of a copy that it reads the statuses of wanted ranges. The driver has the rows
of partitions, and differences up to a limit. Copies that are compared by order, and lake tables, are compared whole by
the task that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sql

from kafkawire import logdir
from kafkawire.rows import CopyDifference, Row
from kafkawire.spark.session.jobs import Progress, job, kept
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.sessions import QUICK_START, session_on
from kafkawire.spark.session.task_sizing import TaskLimits, by_task
from kafkawire.witness.compared_rows import ComparedRows, CopyNote
from kafkawire.witness.copies import CopyComparison, both_ways
from kafkawire.witness.copy_comparison import SAME, Run, Side
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import HELD, CopyOfPartition
from kafkawire.witness.lake_copies import LakeTable
from kafkawire.witness.range_comparison import Windows, digests, parts, window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A digest of a range; or, without one, what a task found out of a copy as a whole, or the rows of a partition.
_READ = "place int, side int, number bigint, first bigint, last bigint, batches bigint, digest bigint, payload binary"
#: Batches of a copy in a range (`HELD`); as the last chunk the rest of the copy.
_PARTS = "place int, number bigint, side int, chunk int, payload binary"
#: What a range is: the runs of both copies.
_RUNS = "place int, number bigint, payload binary"
_RESULT = "payload binary"
#: Batches of a payload: bytes of one cell are limited.
_CHUNK = 1 << 16
_REST = (1 << 31) - 1
_SIDES = (0, 1)
#: The number of notes, which come before all ranges.
_NOTES = -1


def compare(
    a: str,
    b: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = {},
    progress: Progress | None = None,
    offset_columns: tuple[str, str, str] | None = None,
    tier_keys: Sequence[str] = (),
    most: int,
    **options: Any,
) -> tuple[list[Row], int, list[str]]:
    """The rows of `witness.CopyComparison`, the number of what breaks a promise, and what was not compared.

    Args:
        a, b: paths; workers read them under the same paths. offset_columns: `b` is a lake table with these columns.
        spark, master, conf, progress, tier_keys: see `spark.witness_job.witness`.
        most: differences that are listed, at most. options: see `CopyComparison`.

    Raises:
        OSError: a path that is not there or may not be read.
        SparkError: Spark did not start, or a job failed.
    """

    def made() -> CopyComparison:
        other = LakeTable(b, offset_columns) if offset_columns else logdir.open(b, tier_keys=tier_keys)
        return CopyComparison(logdir.open(a, tier_keys=tier_keys), other, most=most, **options)

    planned = made()
    planned.begin()
    places = planned.places()
    if not places:
        return [], 0, planned.incomplete
    with session_on(master, settings=QUICK_START, conf=conf) if spark is None else nullcontext(spark) as session:
        results = _compared(session, places, made, planned, progress)
    rows: list[Row] = []
    differences = 0
    for _, of_place, _, _ in results:
        for one in of_place:
            differences += isinstance(one, CopyDifference)
            if not isinstance(one, CopyDifference) or differences <= most:
                rows.append(one)
    missing = [*planned.incomplete, *(sentence for _, _, _, sentences in results for sentence in sentences)]
    return rows, sum(number for _, _, number, _ in results), missing


#: Number of a partition, its rows, the number of what breaks a promise, what was not compared.
_Result = tuple[int, list[Row], int, list[str]]


def _compared(
    session: SparkSession,
    places: list[Place],
    made: Callable[[], CopyComparison],
    planned: CopyComparison,
    progress: Progress | None,
) -> list[_Result]:
    limits = TaskLimits.of(session)
    most, named = planned.most, [(place, planned.topic_b(place[0])) for place in places]
    copies = [(number, side, *place) for number, place in enumerate(places) for side in _SIDES]
    readers, reducers = min(len(copies), limits.tasks), min(len(places), limits.reducers)
    listed = session.createDataFrame(copies, "place int, side int, topic string, partition int")
    listed = listed.repartition(readers, "place", "side")
    with (
        kept(by_task(listed, lambda rows: _read(rows, made()), _READ)) as found,
        kept(_ranges(found)) as ranges,
    ):
        with job(session, "read copies", progress):
            found.count()
        with job(session, "find differences", progress):
            ranges.count()
        differ = ranges.where("NOT same").select("place", "number", "last")
        wanted = differ.crossJoin(session.createDataFrame([(side,) for side in _SIDES], "side int"))
        wanted = wanted.join(listed, ["place", "side"]).repartition(readers, "place", "side")
        wanted = wanted.sortWithinPartitions("place", "side", "number")
        read = by_task(wanted, lambda rows: _read_ranges(rows, made()), _PARTS)
        read = read.repartition(limits.reducers if len(places) > limits.reducers else readers, "place", "number")
        read = read.sortWithinPartitions("place", "number", "side", "chunk")
        runs = by_task(read, _compare_ranges, _RUNS)
        notes = found.where("number IS NULL").select("place", sql.lit(_NOTES).cast("bigint").alias("number"), "payload")
        everything = _with_span(runs).unionByName(_with_span(notes)).unionByName(_same(ranges))
        ordered = everything.repartition(reducers, "place").sortWithinPartitions("place", "number")
        with job(session, "compare ranges", progress):
            found_rows = by_task(ordered, lambda rows: _added_up(rows, named, most), _RESULT).toLocalIterator()
            return sorted((received(row.payload) for row in found_rows), key=lambda one: int(one[0]))


def _read(rows: Iterator[dict[str, Any]], of_task: CopyComparison) -> Iterator[pa.RecordBatch]:
    """The digests of copies; or, by the task that has the first copy, what cannot be compared by ranges."""
    of_task.begin()
    for row in rows:
        place, side = (row["topic"], row["partition"]), row["side"]
        pair = of_task.pair(place)
        if of_task.by_offsets(pair):
            replica = (pair.a, pair.b)[side]
            assert replica is not None
            found = digests(replica, side)
            columns = [found[name].astype(np.int64, copy=False) for name in ("number", "first", "last", "batches")]
            yield _table(_READ, row["place"], side, *columns, found["digest"].view(np.int64), None)
            note = sent((side, CopyNote.of(replica)))
        elif side == 0:
            before = of_task.found, len(of_task.incomplete)
            listed = list(of_task.partition(place))
            result = row["place"], listed, of_task.found - before[0], of_task.incomplete[before[1] :]
            note = sent((None, result))
        else:
            continue
        yield _table(_READ, row["place"], side, None, None, None, None, None, note)


def _ranges(found: DataFrame) -> DataFrame:
    """A row for each range: whether the digests of both copies are the same, how many batches it has in a copy, and its
    last offset in both."""
    alike = " AND ".join(f"min({name}) = max({name})" for name in ("first", "last", "batches", "digest"))
    return (
        found.where("number IS NOT NULL")
        .groupBy("place", "number")
        .agg(
            sql.expr(f"count(*) = {len(_SIDES)} AND {alike}").alias("same"),
            sql.min("first").alias("first"),
            sql.max("last").alias("last"),
            sql.max("batches").alias("batches"),
        )
    )


def _read_ranges(rows: Iterator[dict[str, Any]], of_task: CopyComparison) -> Iterator[pa.RecordBatch]:
    """What copies have of ranges that differ."""
    for (place, side), of_copy in groupby(rows, lambda row: (row["place"], row["side"])):
        named = [(row["topic"], row["partition"], row["number"], row["last"]) for row in of_copy]
        number, last = np.array([one[2:] for one in named], np.int64).T
        pair = of_task.pair(named[0][:2])
        replica = (pair.a, pair.b)[side]
        assert replica is not None
        chunk = 0
        for part in parts(replica, Windows(number, last + 1)):
            if part.copy is not None:
                yield _table(_PARTS, place, part.number, side, _REST, sent(part.copy))
                continue
            assert part.batches is not None
            for begin in range(0, len(part.batches), _CHUNK):
                payload = part.batches[begin : begin + _CHUNK].tobytes()
                yield _table(_PARTS, place, part.number, side, chunk, payload)
                chunk += 1


def _compare_ranges(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """The runs of each range: a task has one of them at a time."""
    for (place, number), of_range in groupby(rows, lambda row: (row["place"], row["number"])):
        copies: dict[int, CopyOfPartition] = {}
        batches: list[np.ndarray[Any, np.dtype[np.void]]] = []
        for row in of_range:
            if row["chunk"] == _REST:
                copies[row["side"]] = window(batches, received(row["payload"]))
                batches = []
            else:
                batches.append(np.frombuffer(row["payload"], HELD))
        runs = both_ways(copies[0], copies[1])
        yield _table(_RUNS, place, number, sent(tuple(map(list, runs))))


def _with_span(frame: DataFrame) -> DataFrame:
    nothing = {name: sql.lit(None).cast("bigint") for name in ("first", "last", "batches")}
    return frame.withColumns(nothing)


def _same(ranges: DataFrame) -> DataFrame:
    columns = "place", "number", sql.lit(None).cast("binary").alias("payload"), "first", "last", "batches"
    return ranges.where("same").select(*columns)


def _added_up(
    rows: Iterator[dict[str, Any]], places: list[tuple[Place, str | None]], most: int
) -> Iterator[pa.RecordBatch]:
    """The rows of each partition."""
    for number, of_place in groupby(rows, lambda row: int(row["place"])):
        notes: dict[int | None, Any] = {}
        sides = Side(most), Side(most)
        for row in of_place:
            if row["number"] == _NOTES:
                side, note = received(row["payload"])
                notes[side] = note
                continue
            runs: Iterable[Iterable[Run]]
            if row["payload"] is None:
                runs = [[Run(SAME, row["first"], row["last"], row["batches"])]] * len(_SIDES)
            else:
                runs = received(row["payload"])
            for side, of_side in zip(sides, runs, strict=True):
                side.add(of_side)
        result: _Result
        if None in notes:
            result = notes[None]
        else:
            stated = ComparedRows(most)
            place, topic_b = places[number]
            listed = list(stated.partition(place, topic_b, "offsets", (notes[0], notes[1]), sides))
            result = number, listed, stated.found, stated.incomplete
        yield _table(_RESULT, sent(result))


def _table(schema: str, *values: Any) -> pa.RecordBatch:
    """Rows of columns, of which those that are given as one value have it in each row."""
    types = {"int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    named = [column.split(" ") for column in schema.split(", ")]
    length = max((len(value) for value in values if isinstance(value, np.ndarray)), default=1)
    arrays = [
        pa.array(value if isinstance(value, np.ndarray) else [value] * length, types[kind])
        for value, (_, kind) in zip(values, named, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in named])
