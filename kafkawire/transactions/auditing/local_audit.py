"""The audit on one machine: read every replica and join their facts.

Memory grows with the producers and transactional ids, not with the batches: ended transactions and decisions that are
too many for it are in a temporary file (`Spill`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition, Unreadable
from kafkawire.logdir.located_file import known_size
from kafkawire.transactions.auditing.audit_result import conclude
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts
from kafkawire.transactions.auditing.replica_reading import Outcome, read_whole
from kafkawire.transactions.auditing.replica_workers import side_by_side
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests, alone, replicas_agree, together
from kafkawire.transactions.checks.tier_copies import tier_answers
from kafkawire.transactions.cluster.cluster_metadata import distinct_assignments, read_metadata, topic_policies
from kafkawire.transactions.facts import TRANSACTION_STATE, AssignedProducerIds, ClusterMetadata
from kafkawire.transactions.impact.held_back import TopicPolicy
from kafkawire.transactions.log.spill import Spill
from kafkawire.transactions.parts.replica_files import contents, gaps_of, outside_partitions, place_of, replicas
from kafkawire.transactions.verdict.cluster_facts import Facts, clocks
from kafkawire.transactions.verdict.settings import ResolvedSettings, Settings, resolve
from kafkawire.wire.backend import native

#: There is a thread for this many bytes; or a process, whose start takes as long as to read them.
BYTES_A_JOB = (32 if native is not None else 128) << 20
#: Whether threads read, not processes: in pure Python one of them works at a time.
THREADS = native is not None


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    progress: Callable[[int], None] | None = None,
    jobs: int = 1,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and check the logs against the rules (`CHECKS`).

    Args:
        paths: names of the log directories in the answer.
        progress: called with the number of bytes that were read, again and again.
        jobs: number of threads that read, without the native engine of processes; 1: this thread. Logs that are too
            small for several are read by fewer.
    """
    audited = replicas(directory)
    metadata = read_metadata(directory.partitions)
    clusters = cluster_ids(directory)
    shared = to_read(audited, settings, metadata, clusters)
    without = all(partition.topic != TRANSACTION_STATE for partition in audited)
    with Spill() as spill:
        shared = [
            one._replace(without_decisions=without, spill=spill if THREADS or jobs == 1 else None) for one in shared
        ]
        outcomes = [_counted(one, spill) for one in read_replicas(shared, jobs, progress)]
        if spill.is_used:
            outcomes = [_put_out(one, spill) for one in outcomes]
        read = [(one, facts) for one, facts in zip(audited, outcomes, strict=True) if isinstance(facts, ReplicaFacts)]
        failed = [one for one in outcomes if isinstance(one, Unreadable)]
        facts = facts_of(directory, [found for _, found in read], metadata, paths=paths, failed=failed)
        digests = [ReplicaDigests(partition, one.digests, one.partition.damage) for partition, one in read]
        agreement = list(replicas_agree(together(digests, clusters)))
        if audited and not agreement:
            agreement = [alone(place_of(audited[0]), audited[0].path)]
        answers = [*facts.answers, *tier_answers(audited, clocks(facts, settings)), *agreement]
        return conclude(replace(facts, answers=answers), settings, jobs=jobs if THREADS else 1)


def _counted(one: Outcome, spill: Spill) -> Outcome:
    """The facts of the next replica, of which those that are too many for memory are written."""
    if isinstance(one, ReplicaFacts):
        one.endings.share(spill)  # of another process
        spill.hold(0 if one.ids is None else one.ids.decisions.rows.nbytes)
    return _put_out(one, spill) if spill.is_full else one


def _put_out(one: Outcome, spill: Spill) -> Outcome:
    if isinstance(one, Unreadable):
        return one
    one.endings.put_out()
    if one.ids is None:
        return one
    return replace(one, ids=replace(one.ids, decisions=one.ids.decisions.put_out(spill)))


def read_replicas(
    replicas: Sequence[AuditedReplica], jobs: int = 1, progress: Callable[[int], None] | None = None
) -> Iterator[Outcome]:
    """The facts of each replica, in order; of one whose reading failed, why.

    Args:
        replicas: as `to_read` gives them.
        jobs, progress: see `audit`.
    """
    sizes = [sum(map(known_size, replica.partition.segments)) for replica in replicas]
    jobs = max(1, min(jobs, sum(sizes) // BYTES_A_JOB))
    if jobs == 1:
        yield from (read_whole(replica, progress) for replica in replicas)
    else:
        yield from side_by_side(replicas, sizes, jobs, progress, threads=THREADS)


def to_read(
    partitions: Iterable[Partition], settings: Settings, metadata: dict[str, ClusterMetadata], clusters: dict[str, str]
) -> list[AuditedReplica]:
    """The replicas to read, each with the settings and producer ids of its own cluster.

    Args:
        partitions: as `replica_files.replicas` gives them. `metadata`: as `read_metadata` gives it, of all of them.
        clusters: the cluster's id, by log directory.
    """
    single = len(set(clusters.values())) <= 1
    by_cluster: dict[str | None, list[ClusterMetadata]] = defaultdict(list)
    for copy, found_there in metadata.items():
        by_cluster[None if single else clusters.get(copy)].append(found_there)
    known: dict[
        str | None, tuple[ResolvedSettings, tuple[AssignedProducerIds, ...], dict[str, TopicPolicy] | None]
    ] = {}
    found = []
    for partition in partitions:
        own = None if single else clusters.get(partition.broker.root)
        if own not in known:
            copies = by_cluster[own]
            known[own] = resolve(settings, copies), distinct_assignments(copies), topic_policies(copies)
        resolved, handed_out, topics = known[own]
        of_ids = resolved.transactional_id_expiration
        found.append(
            AuditedReplica(
                partition,
                producer_expiration_ms=resolved.producer_id_expiration.value,
                id_expiration_ms=None if of_ids.source == rows.Setting.DEFAULT else of_ids.value,
                handed_out=handed_out,
                topics=topics,
                show_records=settings.show_records,
            )
        )
    return found


def facts_of(
    directory: LogDirectory,
    found: Sequence[ReplicaFacts],
    metadata: dict[str, ClusterMetadata],
    *,
    paths: tuple[str, ...] = (),
    failed: Sequence[Unreadable] = (),
) -> Facts:
    """The facts of all replicas, for `conclude`.

    Args:
        metadata: as `read_metadata` gives it.
        paths: names of the log directories in the answer.
        failed: the replicas whose reading failed.
    """
    return Facts(
        paths=paths,
        brokers=tuple(sorted({broker.node_id for broker in directory.brokers if broker.node_id is not None})),
        partitions=[replica.partition for replica in found],
        opens=[open_ for replica in found for open_ in replica.opens],
        first_starts={one.partition.place: one.first_start for one in found if one.first_start is not None},
        metadata=metadata,
        clusters=cluster_ids(directory),
        damage=tuple(
            [rows.DamageRow.of(damage, file=path) for broker in directory.brokers for path, damage in broker.damage]
            + [damage for replica in found for damage in replica.damage]
        ),
        gaps=(
            *gaps_of(
                [*directory.unreadable, *outside_partitions(directory.files), *failed], (one.path for one in found)
            ),
            *(gap for copy in metadata.values() for gap in copy.gaps),
        ),
        answers=[placed for replica in found for placed in replica.answers],
        histories={replica.partition.place: replica.ids for replica in found if replica.ids is not None},
        endings=[replica.endings for replica in found],
        producers=[replica.producers for replica in found],
        directories=contents(directory),
        stopped=frozenset(file.root for file in directory.files if file.kind == "clean-shutdown"),
    )


def cluster_ids(directory: LogDirectory) -> dict[str, str]:
    """The cluster id of each log directory that has one."""
    return {broker.root: broker.cluster_id for broker in directory.brokers if broker.cluster_id is not None}
