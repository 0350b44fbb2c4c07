"""Replicas read in parts: a part of a segment a row, summarized by some task; one merges the summaries of a replica.

A row is what a task sees of the fleet: the part's file, and, once a replica, the names of its folder.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from kafkawire.logdir import Partition
from kafkawire.spark.fleet_listing import as_batches, replica_at, segment_sizes
from kafkawire.spark.outcome_rows import SCHEMA, SPARK_SCHEMA, TO_DRIVER, short, shuffled_rows
from kafkawire.spark.task_sizing import FEWEST_TASKS, TASK_BYTES, in_folder
from kafkawire.transactions.answers import Answer, Placed
from kafkawire.transactions.endings import Endings
from kafkawire.transactions.part_summary import decode, encode
from kafkawire.transactions.replica_facts import Replica, ReplicaFacts, ReplicaMerge, parts_of
from kafkawire.transactions.summary_processes import PartTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A summary is cut into cells of this size: Spark makes batches of so many rows, whatever is in them.
_CELL_BYTES = 1 << 20
_CELLS = 16
#: Replicas whose parts a task plans.
_PLANNED = 256

_PART = [
    ("real", pa.binary()),
    ("sort", pa.binary()),
    ("store", pa.string()),
    ("path", pa.binary()),
    ("names", pa.binary()),
    ("segment", pa.int32()),
    ("number", pa.int32()),
]
PARTS = pa.schema([*_PART, ("task", pa.binary())])
SUMMARIES = pa.schema([*_PART, ("cell", pa.int32()), ("summary", pa.binary())])
_PART_SPARK = "real binary, sort binary, store string, path binary, names binary, segment int, number int"
_PARTS_SPARK = f"{_PART_SPARK}, task binary"
_SUMMARIES_SPARK = f"{_PART_SPARK}, cell int, summary binary"

Roots = Mapping[str, tuple[int, Replica]]
Rows = Iterator[dict[str, Any]]


class PartSizing(NamedTuple):
    """Bytes of a part; how many replicas there are, and bytes of segments in them."""

    part_bytes: int
    replicas: int
    size: int


class DriverFacts(NamedTuple):
    """The facts of a replica for the driver; `endings`: how many transactions have ended in it."""

    facts: ReplicaFacts
    endings: int

    def order(self) -> tuple[Any, ...]:
        return self.facts.partition.place, self.facts.path


def summaries(replicas: DataFrame, sizing: PartSizing, roots: Roots) -> DataFrame:
    """The summaries of all parts of replicas, in cells.

    Args:
        replicas: rows of `fleet_listing.REPLICA`.
        roots: by log directory: the number of its cluster, and what its replicas are read with.
    """
    part_bytes = sizing.part_bytes

    def plan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_parts(listed, part_bytes, roots), PARTS)

    def read(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_cells(listed, part_bytes), SUMMARIES, _CELLS)

    planned = by_task(
        replicas.repartition(1 + sizing.replicas // _PLANNED, "real").sortWithinPartitions("sort"), plan, _PARTS_SPARK
    )
    parts = sizing.replicas + sizing.size // part_bytes
    tasks = max(1, min(parts, max(FEWEST_TASKS, sizing.size // TASK_BYTES)))
    return by_task(planned.repartition(tasks), read, _SUMMARIES_SPARK)


def _parts(listed: Rows, part_bytes: int, roots: Roots) -> Iterator[tuple[Any, ...]]:
    for row, partition in _distinct(listed):
        replica = roots[partition.broker.root][1]._replace(partition=partition)
        for segment, task in parts_of(replica, part_bytes, segment_sizes(row, partition)):
            first = segment == task.number == 0
            folder = (row["store"], row["path"], row["names"]) if first else (None, None, None)
            yield (row["real"], row["sort"], *folder, segment, task.number, pickle.dumps(task))


def _cells(listed: Rows, part_bytes: int) -> Iterator[tuple[Any, ...]]:
    for row in listed:
        task: PartTask = pickle.loads(row["task"])  # written by our own workers
        data = encode(task.summary(part_bytes))
        for cell, start in enumerate(range(0, len(data), _CELL_BYTES)):
            folder = (row["store"], row["path"], row["names"]) if cell == 0 else (None, None, None)
            place = row["real"], row["sort"], *folder, row["segment"], row["number"]
            yield (*place, cell, data[start : start + _CELL_BYTES])


def merged(found: DataFrame, tasks: int, roots: Roots) -> DataFrame:
    """What replicas say, as rows of `outcome_rows.SCHEMA`.

    Args:
        found: as `summaries` gives them.
    """

    def merge(listed: Rows) -> Iterator[pa.RecordBatch]:
        sums: dict[int, list[Placed]] = defaultdict(list)
        for _, of_replica in groupby(listed, key=lambda row: row["real"]):
            cluster, facts = _merged(of_replica, roots)
            sums[cluster] += (one for one in facts.answers if not one.answer.violated)
            yield _to_driver(_told(facts))
            yield from shuffled_rows(cluster, facts)
        for answers in sums.values():
            yield _to_driver(list(short(answers)))

    ordered = found.repartition(tasks, "real").sortWithinPartitions("sort", "segment", "number", "cell")
    return by_task(ordered, merge, SPARK_SCHEMA)


def _merged(of_replica: Rows, roots: Roots) -> tuple[int, ReplicaFacts]:
    first = next(of_replica)
    partition = replica_at(first)
    cluster, settings = roots[partition.broker.root]
    merge = ReplicaMerge(settings._replace(partition=partition))
    data = [first["summary"]]
    segment = first["segment"]
    for row in of_replica:
        if row["cell"] == 0:
            merge.take(segment, decode(b"".join(data)))
            data.clear()
            segment = row["segment"]
        data.append(row["summary"])
    merge.take(segment, decode(b"".join(data)))
    return cluster, merge.facts()


def _told(facts: ReplicaFacts) -> DriverFacts:
    """Without what is shuffled or added up; of the answers, one has to be there for the path that it brings."""
    place = facts.partition.place
    path = Placed(place, Answer(check=facts.answers[0].answer.check), facts.path)
    kept = replace(
        facts,
        answers=(path, *(one for one in facts.answers if one.answer.violated)),
        endings=Endings(place),
        ids=None if facts.ids is None else replace(facts.ids, decisions={}),
    )
    return DriverFacts(kept, len(facts.endings))


def _to_driver(value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": TO_DRIVER, "payload": pickle.dumps(value)}], schema=SCHEMA)


def distinct(listed: Iterable[dict[str, Any]]) -> Iterator[Partition]:
    """The replicas of rows in order, each folder once."""
    return (partition for _, partition in _distinct(listed))


def _distinct(listed: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Partition]]:
    seen = set()
    for row in listed:
        if row["real"] not in seen:
            seen.add(row["real"])
            partition = replica_at(row)
            if partition.segments:
                yield row, partition


def by_task(frame: DataFrame, read: Callable[[Rows], Iterable[pa.RecordBatch]], schema: str) -> DataFrame:
    """The batches that `read` yields for the rows of each task, in the folder that relative paths count from."""
    folder = os.getcwd()

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_folder(folder):
            yield from read(row for batch in batches for row in batch.to_pylist())

    return frame.mapInArrow(of_task, schema)
