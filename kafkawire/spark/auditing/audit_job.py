"""`audit`: the audit of `transactions` as a Spark job.

Workers list folders (`fleet_listing`), read parts of segments (`replica_parts`), and replay the parts of a replica in
order. What grows with the logs stays with them: ended transactions, decisions and uses of producer ids are shuffled and
judged there (`outcome_rows`), and so are open transactions; tallies are sums. The driver takes tallies, the first
findings, damaged places and breaches of a rule in a replica, and settings. The functions that judge are those of one
machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import Unreadable
from kafkawire.logdir.directory import is_below
from kafkawire.logdir.file_names import is_uri
from kafkawire.logdir.tier_keys import private_key
from kafkawire.offsets.share_audit import with_answers
from kafkawire.spark.auditing.audit_tables import TableOutput, WorkerTables, for_driver, found_rows
from kafkawire.spark.auditing.outcome_judge import judged, judged_with, judgements
from kafkawire.spark.auditing.outcome_rows import (
    FOUND,
    DigestCell,
    EndedCell,
    ListedDamage,
    ListedFinding,
    replica_digests,
)
from kafkawire.spark.auditing.replica_parts import DriverFacts, Fleet, numbers
from kafkawire.spark.auditing.share_groups import share_answers, state_partitions
from kafkawire.spark.auditing.transaction_table import table_of
from kafkawire.spark.listing.fleet_listing import listing
from kafkawire.spark.listing.found_replicas import FoundReplicas
from kafkawire.spark.session.jobs import Progress, job, kept
from kafkawire.spark.session.sessions import QUICK_START, session_on
from kafkawire.spark.session.task_sizing import by_task
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.answers import Placed, every_breach
from kafkawire.transactions.auditing.audit_result import conclude, damage_order, finding_order, paths_of
from kafkawire.transactions.checks.replica_agreement import alone, replicas_agree, together
from kafkawire.transactions.parts.part_scan import PART_BYTES
from kafkawire.transactions.parts.replica_files import gaps_of
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts, Facts, by_cluster, clocks
from kafkawire.transactions.verdict.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30
_LOOKED_AT = 2000

#: Findings that the answer has, and damaged places; the others are counted. A table has all.
MOST_ROWS = 10_000


def audit(
    paths: Sequence[str],
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = {},
    progress: Progress | None = None,
    part_bytes: int = PART_BYTES,
    save: TableOutput | None = None,
    most_rows: int = MOST_ROWS,
    tier_keys: Sequence[str | os.PathLike[str]] = (),
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and check the logs against the rules. The
    result is that of `transactions.audit`, with the rules of share groups (`offsets.share_audit`); of very many
    findings or damaged places it has the first ones, and the number of the others (`omitted`).

    Args:
        paths: log directories, or folders that contain some; URIs as well. Workers read them under the same paths.
        spark: the session to use; None: the running one, or one for this call. Its workers must have this package
            (`ship`).
        master: where a session that is started for this call runs: `local[N]` (by default all cores),
            `spark://HOST:PORT`, `yarn`, `k8s://HOST:PORT`, or `sc://HOST:PORT` for Spark Connect.
        conf: settings of Spark.
        progress: is called with a description of a job, and how many of its tasks are done and there are.
        part_bytes: of a segment that a task reads.
        save: where workers write the tables `findings`, `violations` and `damage`, with all rows, and `transactions`:
            all of them, open or ended.
        most_rows: findings that the result has, and damaged places.
        tier_keys: files with the RSA private keys (PEM) of encrypted tiers; workers read them under the same paths.

    Raises:
        OSError: a path that is not there or may not be read; a file without a private key.
        SparkError: Spark did not start, or the job failed.
        MissingExtraError: no Java that Spark accepts.
    """
    keys = tuple(os.fspath(key) for key in tier_keys)
    for key in keys:
        private_key(key)
    with (
        session_on(master, settings=QUICK_START if are_small(paths) else {}, conf=conf)
        if spark is None
        else nullcontext(spark)
    ) as session:
        return _AuditJob(paths, settings, session, progress, part_bytes, save, most_rows, keys).result()


class _AuditJob(NamedTuple):
    paths: Sequence[str]
    settings: Settings
    spark: SparkSession
    progress: Progress | None
    part_bytes: int
    save: TableOutput | None
    most_rows: int
    tier_keys: tuple[str, ...]

    def result(self) -> rows.Audit:
        if self.save is not None:
            self.save.check(self.spark)
        with kept(listing(self.spark, self.paths)) as listed:
            with self._job("list folders"):
                fleet = Fleet.of(listed, self.settings, self.part_bytes, self.tier_keys)
            whole = self.save is not None
            with ExitStack() as stack:
                read = stack.enter_context(kept(fleet.facts(whole=whole)))
                return self._concluded(fleet, read, WorkerTables(stack, read))

    def _concluded(self, fleet: Fleet, read: DataFrame, tables: WorkerTables) -> rows.Audit:
        found, whole = fleet.found, self.save is not None
        with self._job("read replicas"):
            found_by_workers = list(for_driver(read))
        of_replicas = sorted((one for one in found_by_workers if isinstance(one, DriverFacts)), key=DriverFacts.order)
        cells = only(read, EndedCell)
        sums = [placed for one in found_by_workers if isinstance(one, list) for placed in one]
        failed = sorted((one for one in found_by_workers if isinstance(one, Unreadable)), key=lambda one: one.path)
        facts = self._facts(found, of_replicas, sums, failed)
        with self._job("compare replicas"):
            answers = self._agreement(found, facts, read, fleet.sizing.tasks, of_replicas, tables)
        if fleet.tiered.tiers:
            with self._job("judge tiers"):
                answers += for_driver(tables.keep(fleet.tier_answers(clocks(facts, self.settings), whole=whole)))
        count, opens = sum(one.judged for one in of_replicas), any(one.opens for one in of_replicas)
        if count:
            with self._job("judge transactions"):
                answers += self._outcomes(
                    facts, read, cells, count, numbers(found), tables, opens=opens, all_read=not failed
                )
        facts = replace(facts, answers=[*facts.answers, *answers])
        tables.paths, tables.damage = paths_of(facts), facts.damage
        with self._job("take damage"):
            damage, undamaged = (
                tables.first(ListedDamage, self.most_rows) if any(one.damaged for one in of_replicas) else ([], ())
            )
        with every_breach(whole):
            hidden = sum(one.count for one in undamaged if not one.harmless)
            shown = replace(_damaged(facts, of_replicas, damage), more_damage=hidden)
            audit = conclude(shown, self.settings, tables.concluded)
        with self._job("take findings"):
            findings, more = tables.first(ListedFinding, self.most_rows) if opens else ([], ())
        places = [one.facts.partition.place for one in of_replicas]
        shared = state_partitions(places, found.clusters)
        if shared:
            with self._job("judge share groups"):
                judging = share_answers(self.spark, self.paths, shared, self.tier_keys, whole=whole)
                audit = with_answers(audit, list(for_driver(tables.keep(judging))))
        if self.save is not None:
            with self._job("write tables"):
                self.save.write({**tables.tables(self.spark), "transactions": table_of(read, fleet)})
        return replace(
            audit,
            findings=tuple(sorted(findings, key=finding_order)),
            damage=tuple(sorted([*damage, *facts.damage], key=damage_order)),
            omitted=more + undamaged,
        )

    def _facts(
        self, found: FoundReplicas, of_replicas: list[DriverFacts], sums: list[Placed], failed: list[Unreadable]
    ) -> Facts:
        replicas = [one.facts for one in of_replicas]
        return Facts(
            paths=tuple(map(os.fspath, self.paths)),
            brokers=tuple(sorted({broker.node_id for broker in found.brokers if broker.node_id is not None})),
            partitions=[replica.partition for replica in replicas],
            first_starts={
                one.facts.partition.place: one.first_start for one in of_replicas if one.first_start is not None
            },
            metadata=found.metadata,
            clusters=found.clusters,
            damage=tuple(
                rows.DamageRow.of(damage, file=path) for broker in found.brokers for path, damage in broker.damage
            ),
            gaps=(
                *gaps_of([*found.unreadable, *failed], (one.path for one in replicas)),
                *(gap for copy in found.metadata.values() for gap in copy.gaps),
            ),
            answers=[placed for replica in replicas for placed in replica.answers] + sums,
            endings=[replica.endings for replica in replicas],
            histories={replica.partition.place: replica.ids for replica in replicas if replica.ids is not None},
            producers=[replica.producers for replica in replicas],
            directories=[
                replace(one.content, whole=any(is_below(one.root, os.fspath(path)) for path in self.paths))
                for one in found.brokers
            ],
            stopped=frozenset(broker.root for broker in found.brokers if broker.stopped),
        )

    def _outcomes(
        self,
        facts: Facts,
        read: DataFrame,
        cells: DataFrame,
        count: int,
        ids: dict[str | None, int],
        tables: WorkerTables,
        *,
        opens: bool,
        all_read: bool,
    ) -> list[Placed]:
        clusters = [ClusterFacts(part, self.settings, cluster) for cluster, part in by_cluster(facts)]
        chosen = [place for cluster in clusters for place in cluster.chosen]
        using = {0 if len(clusters) == 1 else ids[cluster.cluster_id]: judged_with(cluster) for cluster in clusters}
        # Workers have rows of a replica that failed, too.
        counting = None if all_read and len(chosen) == len(facts.partitions) else chosen
        judging = judged(read, cells, counting, using, count, opens=opens, whole=self.save is not None)
        return list(judgements(tables.keep(judging)))

    def _agreement(
        self,
        found: FoundReplicas,
        facts: Facts,
        read: DataFrame,
        tasks: int,
        of_replicas: list[DriverFacts],
        tables: WorkerTables,
    ) -> list[Placed]:
        clusters = found.clusters
        seen: set[tuple[str | None, str, int]] = set()
        several = False
        for place in (partition.place for partition in facts.partitions):
            key = clusters.get(place.copy), place.topic, place.partition
            several = several or key in seen
            seen.add(key)
        if several:
            digests = only(read, DigestCell).repartition(tasks, "partition")
            ordered = digests.sortWithinPartitions("partition", "order", "offset")
            return list(for_driver(tables.keep(_compared(ordered, clusters, whole=self.save is not None))))
        if not of_replicas:
            return []
        first = of_replicas[0].facts
        return [alone(first.partition.place, first.path)]

    def _job(self, what: str) -> Any:
        return job(self.spark, f"kafkawire audit: {what}", self.progress)


# On the workers ------------------------------------------------------------------------------------------------------


def _compared(digests: DataFrame, clusters: dict[str, str], *, whole: bool) -> DataFrame:
    """The answers of replicas_agree, as rows of `outcome_rows.FOUND`. `digests`: those of `DigestCell`, in the
    order of partitions. `whole`: with every violation."""

    def compare(listed: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        for _, alike in groupby(listed, key=lambda row: row["partition"]):
            replicas = [replica_digests(one) for _, one in groupby(alike, key=lambda row: row["order"])]
            with every_breach(whole):
                answers = list(replicas_agree(together(replicas, clusters)))
            yield from found_rows(answers, whole=whole)

    return by_task(digests, compare, FOUND.spark)


def are_small(paths: Sequence[str]) -> bool:
    """Whether there are few files and bytes, by a short look."""
    size = looked_at = 0
    for path in paths:
        if is_uri(path):
            return False
        for directory, _, names in os.walk(path):
            looked_at += len(names)
            if looked_at > _LOOKED_AT:
                return False
            for name in names:
                with suppress(FileNotFoundError):  # a running broker deletes files
                    size += os.lstat(os.path.join(directory, name)).st_size
    return size < SMALL_BYTES


def _damaged(facts: Facts, of_replicas: Iterable[DriverFacts], damage: Iterable[rows.DamageRow]) -> Facts:
    """Facts with the damage that workers found, each in its replica; that in tiers is with that of other files."""
    in_folders: dict[str, list[rows.DamageRow]] = {}
    for row in damage:
        in_folders.setdefault(os.path.dirname(row.file or ""), []).append(row)
    partitions = [replace(one.facts.partition, damage=tuple(in_folders.pop(one.facts.path, ()))) for one in of_replicas]
    others = [row for listed in in_folders.values() for row in listed]
    return replace(facts, partitions=partitions, damage=(*facts.damage, *others))
