"""The audit on one machine: read every replica and join their facts.

Memory grows with the producers, transactional ids and ended transactions, not with the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition, Unreadable
from kafkawire.transactions.auditing.audit_result import conclude
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge, parts_of
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests, alone, replicas_agree, together
from kafkawire.transactions.checks.tier_copies import tier_answers
from kafkawire.transactions.cluster.cluster_metadata import distinct_assignments, read_metadata, topic_policies
from kafkawire.transactions.facts import AssignedProducerIds, ClusterMetadata
from kafkawire.transactions.failed_reading import ReadingError, reason_of
from kafkawire.transactions.impact.held_back import TopicPolicy
from kafkawire.transactions.parts.part_columns import PartColumns, decode, encode
from kafkawire.transactions.parts.part_processes import Work, in_order
from kafkawire.transactions.parts.part_scan import PartTask
from kafkawire.transactions.parts.replica_files import contents, gaps_of, outside_partitions, place_of, replicas
from kafkawire.transactions.verdict.cluster_facts import Facts, clocks
from kafkawire.transactions.verdict.settings import ResolvedSettings, Settings, resolve

#: There is a process for this many bytes: its start takes as long as to read them.
BYTES_A_JOB = 128 << 20
#: Bytes of a part: of one for each process the columns are in memory, and of one that is replayed.
_PART_BYTES = 16 << 20
#: Bytes of a replica, and replicas, that a process is given at once, at most.
_WHOLE_BYTES, _GROUP = 256 << 20, 64
#: Whether this process reads as well where there are others.
SHARES = True


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
        jobs: number of processes that read, 1: this one. Logs that are too small for several are read by fewer.
    """
    audited = replicas(directory)
    metadata = read_metadata(directory.partitions)
    clusters = cluster_ids(directory)
    outcomes = list(read_replicas(to_read(audited, settings, metadata, clusters), jobs, progress))
    read = [(one, facts) for one, facts in zip(audited, outcomes, strict=True) if isinstance(facts, ReplicaFacts)]
    failed = [one for one in outcomes if isinstance(one, Unreadable)]
    facts = facts_of(directory, [found for _, found in read], metadata, paths=paths, failed=failed)
    digests = [ReplicaDigests(partition, one.digests, one.partition.damage) for partition, one in read]
    agreement = list(replicas_agree(together(digests, clusters)))
    if audited and not agreement:
        agreement = [alone(place_of(audited[0]), audited[0].path)]
    answers = [*facts.answers, *tier_answers(audited, clocks(facts, settings)), *agreement]
    return conclude(replace(facts, answers=answers), settings)


def read_replicas(
    replicas: Sequence[AuditedReplica], jobs: int = 1, progress: Callable[[int], None] | None = None
) -> Iterator[ReplicaFacts | Unreadable]:
    """The facts of each replica, in order; of one whose reading failed, why.

    Args:
        replicas: as `to_read` gives them.
        jobs, progress: see `audit`.
    """
    plans = [_plan(replica) for replica in replicas]
    size = sum(plan.size for plan in plans)
    jobs = max(1, min(jobs, size // BYTES_A_JOB))
    if jobs == 1:
        yield from (_whole(replica, progress).facts for replica in replicas)
        return
    most = max(_PART_BYTES, min(_WHOLE_BYTES, size // (8 * jobs)))
    groups = in_order(_groups(replicas, plans, most), _WORK, jobs, shares=SHARES)
    found = (one for group in groups for one in group)
    for replica, plan in zip(replicas, plans, strict=True):
        if plan.size <= most:
            one = next(found)
            assert isinstance(one, _Whole)
            if progress is not None:
                progress(one.read)
            yield one.facts
            continue
        taking = _Taking(replica)
        for segment, _ in plan.parts:
            part = next(found)
            assert not isinstance(part, _Whole)
            taking.take(segment, part)
            if progress is not None and isinstance(part, PartColumns):
                progress(part.scan.bytes)
        yield taking.result()


class _Plan(NamedTuple):
    """The parts of a replica, and their bytes; none where its files cannot be listed: reading it gives the reason."""

    parts: list[tuple[int, PartTask]]
    size: int = 0


def _plan(replica: AuditedReplica) -> _Plan:
    try:
        found = list(parts_of(replica, _PART_BYTES))
        return _Plan(found, sum(task.size for _, task in found))
    except Exception:
        return _Plan([])


class _Whole(NamedTuple):
    """A replica that was read by one process: its facts, and the bytes that were read."""

    facts: ReplicaFacts | Unreadable
    read: int


_Task = AuditedReplica | PartTask
_Found = _Whole | PartColumns | ReadingError


def _groups(replicas: Sequence[AuditedReplica], plans: Sequence[_Plan], most: int) -> Iterator[list[_Task]]:
    """What a process is given at once: several small replicas, or a part of a large one.

    Args:
        most: bytes of a replica that one process reads whole.
    """
    group: list[_Task] = []
    size = 0
    for replica, plan in zip(replicas, plans, strict=True):
        whole = plan.size <= most
        if group and (not whole or size + plan.size > most or len(group) == _GROUP):
            yield group
            group, size = [], 0
        if whole:
            group.append(replica)
            size += plan.size
        else:
            for _, task in plan.parts:
                yield [task]
    if group:
        yield group


def _here(tasks: list[_Task]) -> list[_Found]:
    return [_read(task) if isinstance(task, PartTask) else _whole(task) for task in tasks]


def _there(tasks: list[_Task]) -> list[_Whole | bytes | str]:
    return [
        encode(one, compress=False)
        if isinstance(one, PartColumns)
        else str(one)
        if isinstance(one, ReadingError)
        else one
        for one in _here(tasks)
    ]


def _back(found: list[_Whole | bytes | str]) -> list[_Found]:
    return [
        decode(one) if isinstance(one, bytes) else ReadingError(one) if isinstance(one, str) else one for one in found
    ]


_WORK: Work[list[_Task], list[_Whole | bytes | str], list[_Found]] = Work(_here, _there, _back)


def _read(task: PartTask) -> PartColumns | ReadingError:
    try:
        return task.read()
    except Exception as error:
        return ReadingError(reason_of(error))


def _whole(replica: AuditedReplica, progress: Callable[[int], None] | None = None) -> _Whole:
    taking, read = _Taking(replica), 0

    def seen(size: int) -> None:
        nonlocal read
        read += size
        if progress is not None:
            progress(size)

    taking.read(seen)
    return _Whole(taking.result(), read)


class _Taking:
    """The merge of a replica's parts. Whatever is raised in it costs this replica only."""

    def __init__(self, replica: AuditedReplica) -> None:
        self._replica = replica
        self._failed: str | None = None
        self._merge: ReplicaMerge | None = None

    def take(self, segment: int, part: PartColumns | ReadingError) -> None:
        """Take the next part."""
        if self._failed is None:
            try:
                if isinstance(part, ReadingError):
                    raise part
                self._merging().take(segment, part)
            except Exception as error:
                self._fail(error)

    def read(self, seen: Callable[[int], None]) -> None:
        """Read all segments. `seen`: see `read_part`."""
        try:
            for segment in range(len(self._replica.partition.segments)):
                self._merging().read(segment, seen)
        except Exception as error:
            self._fail(error)

    def result(self) -> ReplicaFacts | Unreadable:
        """The facts, once all parts were taken."""
        if self._failed is None:
            try:
                return self._merging().facts()
            except Exception as error:
                self._fail(error)
        return Unreadable(self._replica.partition.path, self._failed or "")

    def _merging(self) -> ReplicaMerge:
        if self._merge is None:
            self._merge = ReplicaMerge(self._replica)
        return self._merge

    def _fail(self, error: Exception) -> None:
        self._failed, self._merge = reason_of(error), None


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
