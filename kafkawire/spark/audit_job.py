"""`audit`: the audit of `transactions` as a Spark job.

Workers list folders (`fleet_listing`), read parts of segments (`replica_parts`), and merge the summaries of a replica's
parts. What grows with the logs stays with them: ended transactions, decisions and uses of producer ids are shuffled and
judged there (`outcome_rows`), tallies are sums. The driver takes open transactions with their transactional ids,
tallies, the first breaches of a rule in a replica, and settings; the same functions as on one machine judge them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import Partition
from kafkawire.logdir.file_names import is_uri
from kafkawire.spark.audit_dataframes import TableOutput, audit_tables
from kafkawire.spark.fleet_listing import Found, listing
from kafkawire.spark.jobs import Progress, job, kept
from kafkawire.spark.outcome_judge import DecidedUntil, judged, judgements, owners_of
from kafkawire.spark.outcome_rows import DIGESTS, replica_digests
from kafkawire.spark.replica_parts import DriverFacts, Fleet, by_task, numbers
from kafkawire.spark.session import QUICK_START, session_on
from kafkawire.spark.transaction_table import table_of
from kafkawire.spark.violation_table import FOUND_SPARK, Violations, for_driver, found_rows
from kafkawire.transactions.answers import Placed, every_breach
from kafkawire.transactions.audit_result import conclude, paths_of
from kafkawire.transactions.checks.cross_partition import decided_until
from kafkawire.transactions.checks.replica_agreement import replicas_agree, together
from kafkawire.transactions.cluster_facts import ClusterFacts, Facts, by_cluster
from kafkawire.transactions.facts import Owner, Place
from kafkawire.transactions.part_scan import PART_BYTES
from kafkawire.transactions.replica_facts import ReplicaFacts
from kafkawire.transactions.replica_files import gaps_of
from kafkawire.transactions.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30
_LOOKED_AT = 2000


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
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and check the logs against the rules. The
    result is that of `transactions.audit`.

    Args:
        paths: log directories, or folders that contain some; URIs as well. Workers read them under the same paths.
        spark: the session to use; None: the running one, or one for this call. Its workers must have this package
            (`ship`).
        master: where that one runs: `local[N]` (by default all cores), `spark://HOST:PORT`, `yarn`, `k8s://HOST:PORT`,
            or `sc://HOST:PORT` for Spark Connect.
        conf: settings of Spark.
        progress: is called with a description of a job, and how many of its tasks are done and there are.
        part_bytes: of a segment that a task reads.
        save: where to write the tables `findings`, `violations` and `damage` (`audit_tables`) and `transactions`: all
            of them, open or ended.

    Raises:
        OSError: a path that is not there or may not be read.
        SparkError: Spark did not start, or the job failed.
        MissingExtraError: no Java that Spark accepts.
    """
    if spark is not None:
        return _AuditJob(paths, settings, spark, progress, part_bytes, save).result()
    with session_on(master, settings=QUICK_START if _are_small(paths) else {}, conf=conf) as session:
        return _AuditJob(paths, settings, session, progress, part_bytes, save).result()


class _AuditJob(NamedTuple):
    paths: Sequence[str]
    settings: Settings
    spark: SparkSession
    progress: Progress | None
    part_bytes: int
    save: TableOutput | None

    def result(self) -> rows.Audit:
        if self.save is not None:
            self.save.check(self.spark)
        with kept(listing(self.spark, self.paths)) as listed:
            with self._job("list folders"):
                fleet = Fleet.of(listed, self.settings, self.part_bytes)
            with kept(fleet.facts(whole=self.save is not None)) as read:
                if self.save is None:
                    return self._concluded(fleet, read, None)
                with ExitStack() as stack:
                    violations = Violations(stack, read)
                    answer = self._concluded(fleet, read, violations)
                    with self._job("write tables"):
                        tables = audit_tables(self.spark, answer)
                        tables["violations"] = violations.table(self.spark)
                        self.save.write({**tables, "transactions": table_of(read, fleet)})
                    return answer

    def _concluded(self, fleet: Fleet, read: DataFrame, violations: Violations | None) -> rows.Audit:
        found = fleet.found
        with self._job("read replicas"):
            found_by_workers = list(for_driver(read))
        of_replicas = sorted((one for one in found_by_workers if isinstance(one, DriverFacts)), key=DriverFacts.order)
        sums = [placed for one in found_by_workers if not isinstance(one, DriverFacts) for placed in one]
        facts = self._facts(found, [one.facts for one in of_replicas], sums)
        with self._job("compare replicas"):
            answers = self._agreement(found, facts, read, fleet.sizing.tasks, of_replicas, violations)
        count = sum(one.judged for one in of_replicas)
        if count:
            with self._job("judge ended transactions"):
                answers += self._outcomes(facts, read, count, numbers(found), violations)
        if facts.opens and facts.histories:
            with self._job("look up transactional ids"):
                facts = self._with_owners(facts, read)
        facts = replace(facts, answers=[*facts.answers, *answers])
        if violations is None:
            return conclude(facts, self.settings)
        violations.paths = paths_of(facts)
        with every_breach():
            return conclude(facts, self.settings, violations.own)

    def _facts(self, found: Found, replicas: list[ReplicaFacts], sums: list[Placed]) -> Facts:
        damage = [rows.DamageRow.of(damage, file=path) for broker in found.brokers for path, damage in broker.damage]
        return Facts(
            paths=tuple(map(os.fspath, self.paths)),
            brokers=tuple(sorted({broker.node_id for broker in found.brokers if broker.node_id is not None})),
            partitions=[replica.partition for replica in replicas],
            opens=[open_ for replica in replicas for open_ in replica.opens],
            metadata=found.metadata,
            clusters=found.clusters,
            damage=tuple(damage + [one for replica in replicas for one in replica.damage]),
            gaps=gaps_of(found.unreadable),
            answers=[placed for replica in replicas for placed in replica.answers] + sums,
            histories={replica.partition.place: replica.ids for replica in replicas if replica.ids is not None},
            producers=[replica.producers for replica in replicas],
            stopped=frozenset(broker.root for broker in found.brokers if broker.stopped),
        )

    def _with_owners(self, facts: Facts, read: DataFrame) -> Facts:
        """With the transactional ids of open transactions."""
        owners: dict[Place, dict[int, Owner]] = defaultdict(dict)
        for place, owner in owners_of(read, (open_.producer_id for open_ in facts.opens)):
            owners[place][owner.producer_id] = owner
        histories = {place: replace(ids, owners=owners[place]) for place, ids in facts.histories.items()}
        return replace(facts, histories=histories)

    def _outcomes(
        self, facts: Facts, read: DataFrame, count: int, ids: dict[str | None, int], violations: Violations | None
    ) -> list[Placed]:
        clusters = [ClusterFacts(part, self.settings, cluster) for cluster, part in by_cluster(facts)]
        chosen = [place for cluster in clusters for place in cluster.chosen]
        until = {}
        for cluster in clusters:
            number = 0 if len(clusters) == 1 else ids[cluster.cluster_id]
            default, by_place = decided_until(cluster)
            known = {place: (number_, time) for number_, (place, time) in enumerate(by_place.items())}
            until[number] = DecidedUntil(default, known, cluster.resolved.transaction_state_partitions)
        judging = judged(read, chosen, until, count, whole=violations is not None)
        return list(judgements(judging if violations is None else violations.keep(judging)))

    def _agreement(
        self,
        found: Found,
        facts: Facts,
        read: DataFrame,
        tasks: int,
        of_replicas: list[DriverFacts],
        violations: Violations | None,
    ) -> list[Placed]:
        clusters = found.clusters
        seen: set[tuple[str | None, str, int]] = set()
        several = False
        for place in (partition.place for partition in facts.partitions):
            key = clusters.get(place.copy), place.topic, place.partition
            several = several or key in seen
            seen.add(key)
        if several:
            digests = read.where(f"kind = {DIGESTS}").select("place", "replica", "offset", "payload")
            ordered = digests.repartition(tasks, "place").sortWithinPartitions("place", "replica", "offset")
            comparing = _compared(ordered, clusters, whole=violations is not None)
            return list(for_driver(comparing if violations is None else violations.keep(comparing)))
        if not of_replicas:
            return []
        first = of_replicas[0].facts
        alone = SimpleNamespace(
            broker=SimpleNamespace(root=first.partition.place.copy),
            topic=first.partition.place.topic,
            partition=first.partition.place.partition,
            path=first.path,
        )
        return list(replicas_agree((), cast("Partition", alone)))

    def _job(self, what: str) -> Any:
        return job(self.spark, f"kafkawire audit: {what}", self.progress)


# On the workers ------------------------------------------------------------------------------------------------------


def _compared(digests: DataFrame, clusters: dict[str, str], *, whole: bool) -> DataFrame:
    """The answers of replicas_agree, as rows of `violation_table.FOUND`. `digests`: rows of `outcome_rows.DIGESTS`, in
    the order of partitions. `whole`: with every violation."""

    def compare(listed: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        for _, alike in groupby(listed, key=lambda row: row["place"]):
            replicas = [replica_digests(one) for _, one in groupby(alike, key=lambda row: row["replica"])]
            with every_breach(whole):
                answers = list(replicas_agree(together(replicas, clusters)))
            yield from found_rows(answers, whole=whole)

    return by_task(digests, compare, FOUND_SPARK)


def _are_small(paths: Sequence[str]) -> bool:
    """Whether there are few files and bytes, by a short look."""
    size = looked_at = 0
    for path in paths:
        if is_uri(path):
            return False
        for directory, _, names in os.walk(path):
            looked_at += len(names)
            if looked_at > _LOOKED_AT:
                return False
            size += sum(os.lstat(os.path.join(directory, name)).st_size for name in names)
    return size < SMALL_BYTES
