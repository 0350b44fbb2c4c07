"""Replicas as rows: a task reads and replays several, one after the other. A large one is read in parts, a part of a
segment a row, by any tasks; one task replays the parts of a replica in order.

A row is what a task sees of the fleet: once a replica the names of its folder, and a part's file. A part's columns take
about five bytes a batch. What has ended leaves the task that replays as rows, step by step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.logdir import Partition, Unreadable
from kafkawire.rows import DamageRow
from kafkawire.spark.auditing.audit_tables import damage_rows, found_rows, violation_rows
from kafkawire.spark.auditing.outcome_rows import (
    FACTS,
    FOUND,
    ForDriver,
    Violations,
    case_rows,
    decision_rows,
    digest_rows,
    ending_rows,
    id_rows,
    open_rows,
    short,
)
from kafkawire.spark.listing.fleet_listing import OF_DRIVER
from kafkawire.spark.listing.found_replicas import FoundReplicas, found_in
from kafkawire.spark.listing.tier_listing import of_partitions, once, replica_at, segment_sizes, with_tiers
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import (
    FEWEST_TASKS,
    MOST_PLANNERS,
    Rows,
    TaskLimits,
    by_task,
    tasks_for,
)
from kafkawire.transactions.answers import Answer, Placed, every_breach
from kafkawire.transactions.auditing.local_audit import to_read
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge, parts_of
from kafkawire.transactions.checks.answer_rows import capped
from kafkawire.transactions.checks.tier_copies import tier_answers
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.failed_reading import ReadingError, reason_of
from kafkawire.transactions.parts.part_columns import decode, encode
from kafkawire.transactions.parts.part_scan import PartTask
from kafkawire.transactions.verdict.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A part's columns are cut into cells of this size: Spark makes batches of a fixed number of rows, of any size.
_CELL_BYTES = 1 << 20
_CELLS = 16
#: Replicas whose parts a task plans.
_PLANNED = 256
#: One task reads and replays a replica of at most as many parts: to read it takes seconds, as it would to pass the
#: columns of its batches from task to task.
_READ_BY_ONE = 16
#: Of tasks that read whole replicas each has as many times the bytes that are worth a task of their own.
_OF_WHOLE = 4
#: Ended transactions of a replica that wait for a row, at least.
_WAITING = 1 << 15

#: `part`: the `PartTask`; a replica that one task reads has a row without it.
PARTS = pa.schema(
    [
        ("real", pa.binary()),
        ("sort", pa.binary()),
        ("store", pa.string()),
        ("path", pa.binary()),
        ("names", pa.binary()),
        ("tiers", pa.binary()),
        ("segment", pa.int32()),
        ("number", pa.int32()),
        ("part", pa.binary()),
    ]
)
_FOLDER = ("store", "path", "names", "tiers")
#: A cell of a part's columns; or, `failed`, why it could not be read.
COLUMNS = pa.schema(
    [
        *PARTS.remove(PARTS.get_field_index("part")),
        ("cell", pa.int32()),
        ("failed", pa.bool_()),
        ("columns", pa.binary()),
    ]
)

Roots = Mapping[str, tuple[int, AuditedReplica]]


class PartSizing(NamedTuple):
    """Bytes of a part; how many replicas there are, bytes and number of segments in them; the most tasks; bytes of the
    largest replica, None where they are not known."""

    part_bytes: int
    replicas: int
    size: int
    files: int = 0
    limits: TaskLimits = TaskLimits()
    largest: int | None = None

    def is_read_by_one(self, size: int) -> bool:
        """Whether one task reads and replays a replica of that many bytes."""
        return size <= _READ_BY_ONE * self.part_bytes

    @property
    def whole_tasks(self) -> int:
        """The number of tasks that read whole replicas."""
        few, many = (tasks_for(self.size, self.files, most) for most in (FEWEST_TASKS, _OF_WHOLE * self.limits.tasks))
        return max(1, min(self.replicas, self.limits.tasks, max(few, many // _OF_WHOLE)))

    @property
    def tasks(self) -> int:
        """The number of tasks that merge the summaries of replicas."""
        return max(1, min(self.replicas, tasks_for(self.size, self.files, self.limits.reducers)))

    @property
    def part_tasks(self) -> int:
        """The number of tasks that read parts, or make the rows of ended transactions."""
        return max(1, min(self.parts, tasks_for(self.size, self.files, self.limits.tasks)))

    @property
    def parts(self) -> int:
        """The most parts that there can be."""
        return max(self.replicas, self.files) + self.size // self.part_bytes


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

    found: FoundReplicas
    replicas: DataFrame
    sizing: PartSizing
    roots: Roots
    tiered: Tiered

    @classmethod
    def of(cls, listed: DataFrame, settings: Settings, part_bytes: int, tier_keys: tuple[str, ...] = ()) -> Fleet:
        """Take the listing's small part and its size.

        Args:
            listed: see `fleet_listing.listing`. `part_bytes`: of a segment that a task reads.
            tier_keys: paths of private keys for encrypted tiers.
        """
        found = found_in(listed.where(OF_DRIVER).toArrow())
        count, tiers, size, files, largest, _ = found.size
        limits = TaskLimits.of(listed.sparkSession)
        sizing = PartSizing(part_bytes, count + tiers, size, files, limits, None if tiers else largest)
        tiered = Tiered(listed, tiers, tier_keys)
        return cls(found, with_tiers(*tiered), sizing, _of_roots(found, settings), tiered)

    def planned(self) -> DataFrame:
        """The rows of `PARTS`; in no order."""
        sizing, roots = self.sizing, self.roots

        def plan(listed: Rows) -> Iterator[pa.RecordBatch]:
            yield from as_batches(_parts(listed, sizing, roots), PARTS)

        few = min(MOST_PLANNERS, 1 + sizing.replicas // _PLANNED)
        ordered = self.replicas.repartition(few, "real").sortWithinPartitions("sort")
        return by_task(ordered, plan, from_arrow_schema(PARTS))

    def columns(self, planned: DataFrame) -> DataFrame:
        """The columns of all parts, in cells; in no order."""

        def read(listed: Rows) -> Iterator[pa.RecordBatch]:
            yield from as_batches(_cells(listed), COLUMNS, _CELLS)

        parts = planned.where("part IS NOT NULL").repartition(self.sizing.part_tasks)
        return by_task(parts, read, from_arrow_schema(COLUMNS))

    def facts(self, *, whole: bool, strict: bool = False) -> DataFrame:
        """The facts of replicas, as rows of `outcome_rows.FACTS`. An ended transaction of which nothing can be said has
        no row, unless `whole`: the facts for the driver count them.

        Args:
            whole: with open transactions, all columns of ended ones, and every violation.
            strict: an error in the reading of one replica ends the job; otherwise the driver gets it (`Unreadable`).
        """
        roots, sizing = self.roots, self.sizing

        def replay(listed: Rows) -> Iterator[pa.RecordBatch]:
            with every_breach(whole):
                yield from _replayed(listed, roots, whole=whole, strict=strict)

        planned = self.planned()
        found = by_task(planned.where("part IS NULL").repartition(sizing.whole_tasks), replay, FACTS.spark)
        if sizing.largest is not None and sizing.is_read_by_one(sizing.largest):
            return found
        columns = self.columns(planned).repartition(sizing.tasks, "real")
        in_order = columns.sortWithinPartitions("sort", "segment", "number", "cell")
        return found.union(by_task(in_order, replay, FACTS.spark))

    def tier_answers(self, clocks: Mapping[str, int | None], *, whole: bool = False) -> DataFrame:
        """The answers on tiers, as rows of `outcome_rows.FOUND`.

        Args:
            clocks: see `cluster_facts.clocks`. `whole`: with every violation.
        """

        def judge(replicas: Sequence[Partition]) -> Iterator[pa.RecordBatch]:
            with every_breach(whole):
                yield from found_rows(tier_answers(replicas, clocks, given=True), whole=whole)

        return of_partitions(*self.tiered, judge, FOUND.spark)


def numbers(found: FoundReplicas) -> dict[str | None, int]:
    """Clusters as numbers. Directories without a cluster's id belong to the only cluster, where there is only one."""
    ids = sorted(set(found.clusters.values()))
    return {None: 0} if len(ids) <= 1 else {None: 0, **{cluster: 1 + number for number, cluster in enumerate(ids)}}


def _of_roots(found: FoundReplicas, settings: Settings) -> Roots:
    numbered, clusters = numbers(found), found.clusters
    paths = [broker.root for broker in found.brokers]
    placeholders = [SimpleNamespace(broker=SimpleNamespace(root=path)) for path in paths]
    replicas = to_read(cast("list[Partition]", placeholders), settings, found.metadata, clusters)
    single, none, without = len(numbered) == 1, cast("Partition", None), not found.size.coordinators
    return {
        path: (
            0 if single else numbered[clusters.get(path)],
            replica._replace(partition=none, without_decisions=without),
        )
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


def _parts(listed: Rows, sizing: PartSizing, roots: Roots) -> Iterator[tuple[Any, ...]]:
    for row, partition in distinct(listed):
        sizes, key, folder = segment_sizes(row, partition), (row["real"], row["sort"]), tuple(map(row.get, _FOLDER))
        if sizing.is_read_by_one(sum(sizes)):
            yield (*key, *folder, None, None, None)
            continue
        _, replica = roots[partition.broker.root]
        parts = parts_of(replica._replace(partition=partition), sizing.part_bytes, sizes)
        for number, (segment, task) in enumerate(parts):
            yield (*key, *(folder if number == 0 else (None,) * 4), segment, task.number, sent(task))


def _cells(listed: Rows) -> Iterator[tuple[Any, ...]]:
    for row in listed:
        task: PartTask = received(row["part"])
        failed = False
        try:
            data = encode(task.read())
        except Exception as error:  # the task that replays the replica names it
            failed, data = True, reason_of(error).encode()
        for cell, start in enumerate(range(0, len(data), _CELL_BYTES)):
            folder = (None,) * 4 if cell else tuple(map(row.get, _FOLDER))
            at = (row["real"], row["sort"], *folder, row["segment"], row["number"])
            yield (*at, cell, failed, data[start : start + _CELL_BYTES])


def _replayed(listed: Rows, roots: Roots, *, whole: bool, strict: bool) -> Iterator[pa.RecordBatch]:
    sums: dict[int, list[Placed]] = defaultdict(list)
    for _, of_replica in groupby(listed, key=lambda row: row["real"]):
        first = next(of_replica)
        partition = replica_at(first)
        cluster, settings = roots[partition.broker.root]
        try:
            facts = yield from _of_replica(
                cluster,
                settings._replace(partition=partition),
                first,
                of_replica,  # noqa: B031 (once, after the first)
                whole=whole,
            )
        except Exception as error:
            if strict:
                raise ReadingError(f"{partition.path} was not read: {reason_of(error)}") from error
            yield to_driver(Unreadable(partition.path, reason_of(error)))
            continue
        sums[cluster] += (one for one in facts.answers if not one.answer.violated)
    for answers in sums.values():
        yield to_driver(list(short(answers)))


def _of_replica(
    cluster: int,
    replica: AuditedReplica,
    first: dict[str, Any],
    others: Iterable[dict[str, Any]],
    *,
    whole: bool,
) -> Generator[pa.RecordBatch, None, ReplicaFacts]:
    """The rows of a replica, from its files, or from the rows of its parts. Returns its facts.

    Rows of ended transactions count only for a replica whose facts the driver has, and it has none of a replica that
    failed.
    """
    merging = ReplicaMerge(replica, whole=whole)
    if "columns" in first:
        merges = _taken(merging, chain([first], others))
    else:
        merges = _read(merging, len(replica.partition.segments))
    _, ended = yield from drained(cluster, merges)
    facts = merging.facts()
    if whole:
        yield from FACTS.batches(Violations, violation_rows(facts.answers))
        facts = replace(facts, answers=tuple(map(capped, facts.answers)))
    of_replica = [
        to_driver(_of_driver(facts, ended)),
        *id_rows(cluster, facts),
        *case_rows(cluster, facts),
        *damage_rows(_damage(facts)),
        *digest_rows(first, facts),
        *(open_rows(cluster, merging.open_in_log()) if whole else ()),
    ]
    yield from of_replica
    return facts


def _taken(merging: ReplicaMerge, of_replica: Iterable[dict[str, Any]]) -> Iterator[ReplicaMerge]:
    """The state of a replica after each of its parts, whose columns are put together from their cells."""
    for (segment, _), cells in groupby(of_replica, key=lambda row: (row["segment"], row["number"])):
        listed = list(cells)
        data = b"".join(cell["columns"] for cell in listed)
        if listed[0]["failed"]:
            raise ReadingError(data.decode())
        merging.take(segment, decode(data))
        yield merging


def _read(merging: ReplicaMerge, segments: int) -> Iterator[ReplicaMerge]:
    """The state of a replica whose segments are read, wherever enough has ended, and at the end of each segment."""
    for segment in range(segments):
        for _ in merging.reading(segment):
            if len(merging.endings) >= _WAITING:
                yield merging
        yield merging


def drained(cluster: int, merges: Iterable[ReplicaMerge]) -> Generator[pa.RecordBatch, None, tuple[ReplicaMerge, int]]:
    """The rows of a replica's ended transactions and decisions, which are taken out. Returns its last state, and how
    many transactions have ended.

    Args:
        merges: the state of the replica again and again, at least once.
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
    """The facts of a replica that go to the driver. What is shuffled, or added up by workers, is left out. Of the
    answers the violated ones are kept, and an empty one with the replica's path, which the driver needs."""
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
        ids=None
        if ids is None
        else replace(ids, owners={}, uses=(), decisions=Decided.none(facts.partition.place), prepared=()),
    )
    opens = len(facts.opens)
    return DriverFacts(less, ended + of_ids + opens, opens, facts.first_start, len(_damage(facts)))


def to_driver(value: Any) -> pa.RecordBatch:
    """A row with a value for the driver."""
    return next(FACTS.batches(ForDriver, [ForDriver(sent(value))]))


def distinct(listed: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Partition]]:
    for row in once(listed):
        partition = replica_at(row)
        if partition.segments:
            yield row, partition
