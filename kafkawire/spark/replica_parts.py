"""Replicas read in parts: a part of a segment a row, summarized by some task; one merges the summaries of a replica.

A row is what a task sees of the fleet: the part's file, and, once a replica, the names of its folder.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
from msgspec.structs import replace

from kafkawire.logdir import Partition
from kafkawire.rows import DamageRow
from kafkawire.spark.fleet_listing import OF_DRIVER, Found, Size, as_batches, found_in
from kafkawire.spark.outcome_rows import (
    SPARK_SCHEMA,
    TO_DRIVER,
    case_rows,
    decision_rows,
    digest_rows,
    ending_rows,
    id_rows,
    open_rows,
    rows_of,
    short,
)
from kafkawire.spark.task_sizing import FEWEST_TASKS, TASK_BYTES, in_folder
from kafkawire.spark.tier_listing import of_partitions, replica_at, segment_sizes, with_tiers
from kafkawire.spark.worker_tables import FOUND_SPARK, damage_cells, found_rows, violation_cells
from kafkawire.transactions.answers import Answer, Placed, every_breach
from kafkawire.transactions.checks.answer_rows import capped
from kafkawire.transactions.checks.tier_copies import tier_answers
from kafkawire.transactions.local_audit import to_read
from kafkawire.transactions.part_summary import decode, encode
from kafkawire.transactions.replica_facts import Replica, ReplicaFacts, ReplicaMerge, parts_of
from kafkawire.transactions.settings import Settings
from kafkawire.transactions.summary_processes import PartTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A summary is cut into cells of this size: Spark makes batches of a fixed number of rows, of any size.
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
    ("tiers", pa.binary()),
    ("segment", pa.int32()),
    ("number", pa.int32()),
]
_FOLDER = ("store", "path", "names", "tiers")
PARTS = pa.schema([*_PART, ("task", pa.binary())])
SUMMARIES = pa.schema([*_PART, ("cell", pa.int32()), ("summary", pa.binary())])
_PART_SPARK = "real binary, sort binary, store string, path binary, names binary, tiers binary, segment int, number int"
_PARTS_SPARK = f"{_PART_SPARK}, task binary"
_SUMMARIES_SPARK = f"{_PART_SPARK}, cell int, summary binary"

Roots = Mapping[str, tuple[int, Replica]]
Rows = Iterator[dict[str, Any]]


class PartSizing(NamedTuple):
    """Bytes of a part; how many replicas there are, and bytes of segments in them."""

    part_bytes: int
    replicas: int
    size: int

    @property
    def tasks(self) -> int:
        """That merge the summaries of replicas."""
        return max(1, min(self.replicas, self._by_size))

    @property
    def part_tasks(self) -> int:
        """That read parts, or make the rows of ended transactions."""
        return max(1, min(self.replicas + self.size // self.part_bytes, self._by_size))

    @property
    def _by_size(self) -> int:
        return max(FEWEST_TASKS, self.size // TASK_BYTES)


class Tiered(NamedTuple):
    """The listing, the number of partitions' folders in tiers, and paths of private keys for these."""

    listed: DataFrame
    tiers: int
    keys: tuple[str, ...]


class Fleet(NamedTuple):
    """A listing, and what its replicas are read with.

    Attributes:
        replicas: rows of `fleet_listing.REPLICA`.
        roots: by log directory: the number of its cluster, and what its replicas are read with.
        tiered: where the tiers are.
    """

    found: Found
    replicas: DataFrame
    sizing: PartSizing
    roots: Roots
    tiered: Tiered

    @classmethod
    def of(cls, listed: DataFrame, settings: Settings, part_bytes: int, tier_keys: tuple[str, ...] = ()) -> Fleet:
        """Take the listing's small part and its size. `tier_keys`: paths of private keys for encrypted tiers."""
        found = found_in(listed.where(OF_DRIVER).toArrow())
        count, tiers, size = Size.of(listed)
        sizing = PartSizing(part_bytes, count + tiers, size)
        tiered = Tiered(listed, tiers, tier_keys)
        return cls(found, with_tiers(*tiered), sizing, _of_roots(found, settings), tiered)

    def facts(self, *, whole: bool = False) -> DataFrame:
        """What `merged` gives of all replicas."""
        found = summaries(self.replicas, self.sizing, self.roots, whole=whole)
        return merged(found, self.sizing.tasks, self.roots, whole=whole)

    def tier_answers(self, *, whole: bool = False) -> DataFrame:
        """The answers on tiers, as rows of `worker_tables.FOUND`. `whole`: with every violation."""

        def judge(replicas: Sequence[Partition]) -> Iterator[pa.RecordBatch]:
            with every_breach(whole):
                yield from found_rows(tier_answers(replicas, given=True), whole=whole)

        return of_partitions(*self.tiered, judge, FOUND_SPARK)


def numbers(found: Found) -> dict[str | None, int]:
    """Clusters as numbers. Directories without a cluster's id belong to the only cluster, where there is only one."""
    ids = sorted(set(found.clusters.values()))
    return {None: 0} if len(ids) <= 1 else {None: 0, **{cluster: 1 + number for number, cluster in enumerate(ids)}}


def _of_roots(found: Found, settings: Settings) -> Roots:
    numbered, clusters = numbers(found), found.clusters
    paths = [broker.root for broker in found.brokers]
    placeholders = [SimpleNamespace(broker=SimpleNamespace(root=path)) for path in paths]
    replicas = to_read(cast("list[Partition]", placeholders), settings, found.metadata, clusters)
    single = len(numbered) == 1
    return {
        path: (0 if single else numbered[clusters.get(path)], replica._replace(partition=cast("Partition", None)))
        for path, replica in zip(paths, replicas, strict=True)
    }


class DriverFacts(NamedTuple):
    """The facts of a replica for the driver.

    Attributes:
        judged: how many rows workers judge. `opens`: how many of them are open transactions.
        first_start: where the earliest of these begins. `damaged`: number of damaged places.
    """

    facts: ReplicaFacts
    judged: int
    opens: int
    first_start: int | None
    damaged: int

    def order(self) -> tuple[Any, ...]:
        return self.facts.partition.place, self.facts.path


def summaries(replicas: DataFrame, sizing: PartSizing, roots: Roots, *, whole: bool = False) -> DataFrame:
    """The summaries of all parts of replicas, in cells.

    Args:
        replicas: rows of `fleet_listing.REPLICA`.
        roots: by log directory: the number of its cluster, and what its replicas are read with.
        whole: with every breach.
    """
    part_bytes = sizing.part_bytes

    def plan(listed: Rows) -> Iterator[pa.RecordBatch]:
        yield from as_batches(_parts(listed, part_bytes, roots), PARTS)

    def read(listed: Rows) -> Iterator[pa.RecordBatch]:
        with every_breach(whole):
            yield from as_batches(_cells(listed, part_bytes), SUMMARIES, _CELLS)

    planned = by_task(
        replicas.repartition(1 + sizing.replicas // _PLANNED, "real").sortWithinPartitions("sort"), plan, _PARTS_SPARK
    )
    return by_task(planned.repartition(sizing.part_tasks), read, _SUMMARIES_SPARK)


def _parts(listed: Rows, part_bytes: int, roots: Roots) -> Iterator[tuple[Any, ...]]:
    for row, partition in distinct(listed):
        replica = roots[partition.broker.root][1]._replace(partition=partition)
        for segment, task in parts_of(replica, part_bytes, segment_sizes(row, partition)):
            first = segment == task.number == 0
            folder = tuple(map(row.get, _FOLDER)) if first else (None,) * 4
            yield (row["real"], row["sort"], *folder, segment, task.number, pickle.dumps(task))


def _cells(listed: Rows, part_bytes: int) -> Iterator[tuple[Any, ...]]:
    for row in listed:
        task: PartTask = pickle.loads(row["task"])  # written by our own workers
        data = encode(task.summary(part_bytes))
        for cell, start in enumerate(range(0, len(data), _CELL_BYTES)):
            folder = tuple(map(row.get, _FOLDER)) if cell == 0 else (None,) * 4
            place = row["real"], row["sort"], *folder, row["segment"], row["number"]
            yield (*place, cell, data[start : start + _CELL_BYTES])


def merged(found: DataFrame, tasks: int, roots: Roots, *, whole: bool = False) -> DataFrame:
    """The facts of replicas, as rows of `outcome_rows.SCHEMA`.

    Args:
        found: as `summaries` gives them.
        whole: with open transactions, all columns of ended ones, and every violation.
    """

    def merge(listed: Rows) -> Iterator[pa.RecordBatch]:
        with every_breach(whole):
            yield from merge_all(listed)

    def merge_all(listed: Rows) -> Iterator[pa.RecordBatch]:
        sums: dict[int, list[Placed]] = defaultdict(list)
        for _, of_replica in groupby(listed, key=lambda row: row["real"]):
            first = next(of_replica)
            partition = replica_at(first)
            cluster, settings = roots[partition.broker.root]
            merging = ReplicaMerge(settings._replace(partition=partition), whole=whole)
            parts = chain([first], of_replica)  # noqa: B031 (once, behind the first)
            _, ended = yield from drained(cluster, _taken(merging, parts))
            facts = merging.facts()
            if whole:
                yield from rows_of(
                    {"kind": kind, "place": place, "payload": payload}
                    for kind, place, payload, _ in violation_cells(facts.answers)
                )
                facts = replace(facts, answers=tuple(map(capped, facts.answers)))
            sums[cluster] += (one for one in facts.answers if not one.answer.violated)
            yield to_driver(_of_driver(facts, ended))
            yield from id_rows(cluster, facts)
            yield from case_rows(cluster, facts)
            yield from rows_of(damage_cells(_damage(facts)))
            yield from digest_rows(first, facts)
            if whole:
                yield from open_rows(cluster, merging.open_in_log())
        for answers in sums.values():
            yield to_driver(list(short(answers)))

    ordered = found.repartition(tasks, "real").sortWithinPartitions("sort", "segment", "number", "cell")
    return by_task(ordered, merge, SPARK_SCHEMA)


def _taken(merging: ReplicaMerge, of_replica: Iterable[dict[str, Any]]) -> Iterator[ReplicaMerge]:
    """The state of a replica after each of its parts, whose summaries are put together from their cells."""
    for (segment, _), cells in groupby(of_replica, key=lambda row: (row["segment"], row["number"])):
        merging.take(segment, decode(b"".join(cell["summary"] for cell in cells)))
        yield merging


def drained(cluster: int, merges: Iterable[ReplicaMerge]) -> Generator[pa.RecordBatch, None, tuple[ReplicaMerge, int]]:
    """The rows of a replica's ended transactions and decisions, which are taken out. Returns its last state, and how
    many transactions have ended.

    Args:
        merges: the state of the replica after each part, at least once.
    """
    ended, numbers = 0, count()
    for merging in merges:
        place = merging.endings.place
        ended += len(merging.endings)
        yield from ending_rows(cluster, place, merging.endings.drain())
        yield from decision_rows(cluster, place, merging.decided(), numbers)
    yield from decision_rows(cluster, place, merging.decided(last=True), numbers)
    return merging, ended


def _damage(facts: ReplicaFacts) -> tuple[DamageRow, ...]:
    return (*facts.partition.damage, *facts.damage)


def _of_driver(facts: ReplicaFacts, ended: int) -> DriverFacts:
    """Without what is shuffled or added up; of the answers, one has to be there for the path that it brings."""
    place = facts.partition.place
    path = Placed(place, Answer(check=facts.answers[0].answer.check), facts.path)
    ids = facts.ids
    of_ids = 0 if ids is None else len(ids.uses) + len(ids.prepared) + len(ids.owners)
    less = replace(
        facts,
        partition=replace(facts.partition, damage=()),
        opens=(),
        damage=(),
        digests=b"",
        answers=(path, *(one for one in facts.answers if one.answer.violated)),
        ids=None if ids is None else replace(ids, owners={}, uses=(), decisions={}, prepared=()),
    )
    opens = len(facts.opens)
    return DriverFacts(less, ended + of_ids + opens, opens, facts.first_start, len(_damage(facts)))


def to_driver(value: Any) -> pa.RecordBatch:
    """A row with a value for the driver."""
    return next(rows_of([{"kind": TO_DRIVER, "payload": pickle.dumps(value)}]))


def distinct(listed: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Partition]]:
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
