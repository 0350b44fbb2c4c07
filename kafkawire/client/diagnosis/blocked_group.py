"""What blocks a group: a search in the partitions that its members are assigned, in the partitions with committed
offsets, and in the partition that stores its offsets. Assignments count because a group that is blocked from the start
has committed no offset.

An open transaction blocks a group in two ways: it holds the last stable offset of a partition that the group reads, or
it holds an offset of the group itself, which a consumer cannot fetch until the transaction has ended (KIP-447).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.cluster_reading import OpenKey
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.pending_offsets import CONSUMER_OFFSETS, PendingOffsets, read_pending
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.group_assignments import SHARE, GroupAssignment, group_assignment
from kafkawire.client.rpc.group_offsets import GroupOffsets, group_offsets
from kafkawire.client.rpc.share_offsets import ShareOffsets, share_offsets
from kafkawire.transactions.blocking.blockers import GroupView, Place
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.formatting import count, some
from kafkawire.transactions.verdict.premises import with_gaps

T = TypeVar("T")

_NAMED = 20


class BlockedGroup(msgspec.Struct, frozen=True):
    """The transactions that block a group, and where the group stands.

    Attributes:
        behind: the open transactions that the group waits for, or will when it gets there.
        view: where the group stands; None where no group was asked about.
        share: whether it is a share group, whose offsets are elsewhere.
        standing: of a share group, where it stands; None: it could not be read, or it is none.
    """

    audit: rows.Audit
    behind: frozenset[OpenKey] = frozenset()
    view: GroupView | None = None
    share: bool = False
    standing: ShareOffsets | None = None

    def waits_behind(self, finding: rows.Finding) -> bool:
        return _key(finding) in self.behind


async def find_blocking(
    cluster: Cluster, group: str, search: Search, progress: Callable[[int, int], None] | None = None
) -> BlockedGroup:
    """`find_hanging` in the partitions of a group. Each finding states what the group waits for. What could not be read
    is in the audit's `read.gaps`.

    Args:
        search: how to search; its `places` become the group's partitions.
        progress: called with the number of partitions described since its last call, and the total.

    Raises:
        ClientError: nothing is known of the group, or nothing could be read.
    """
    # One after the other: a broker that closes the connection on one request would end the other, too.
    assignment = await _result_of(group_assignment(cluster, group, cluster.deadline(search.timeout_s)))
    assigned = assignment.partitions if isinstance(assignment, GroupAssignment) else frozenset()
    offsets = await _result_of(group_offsets(cluster, group, assigned, cluster.deadline(search.timeout_s)))
    if isinstance(offsets, ClientError) and (assignment is None or isinstance(assignment, ClientError)):
        raise offsets
    standing: ShareOffsets | ClientError | None = None
    if isinstance(assignment, GroupAssignment) and assignment.kind == SHARE:
        # Its partitions are those that have a state: it may have no members.
        standing = await _result_of(share_offsets(cluster, group, cluster.deadline(search.timeout_s)))
        if isinstance(standing, ShareOffsets):
            offsets = GroupOffsets({place: one.start for place, one in standing.found.items()}, (), standing.refused)
    gaps, doubts = _gaps(group, offsets, assignment), _doubts(group, assignment)
    if isinstance(standing, ClientError):
        gaps.append(f"where share group {group!r} stands could not be read: {standing}")
    unread = len(gaps)
    waiting = GroupPartitions(
        group=group,
        offsets=offsets if isinstance(offsets, GroupOffsets) else GroupOffsets({}),
        assignment=assignment if isinstance(assignment, GroupAssignment) else None,
    )
    own = None
    if waiting.keeps_offsets:
        metadata = await cluster.metadata([CONSUMER_OFFSETS], deadline=cluster.deadline(search.timeout_s))
        if metadata.partitions:
            own = TopicPartition(CONSUMER_OFFSETS, partition_of_id(group, len(metadata.partitions)))
        gaps += [f"where the group's own offsets are kept: {problem}" for problem in metadata.errors.values()]
    pending = PendingOffsets()
    if own is not None:
        pending = await read_pending(cluster, group, own, search)
    if assignment is None and not (waiting.offsets.partitions or pending.partitions):
        raise _unknown_group(group, pending)
    places = waiting.partitions | pending.partitions | ({own} if own else set())
    found = await find_hanging(cluster, replace(search, places=tuple(sorted(places))), progress)
    left: set[TopicPartition] = set()
    if own is not None and isinstance(offsets, GroupOffsets):
        waiting, left, unexplained = await _still_unstable(cluster, waiting, pending, found, own, search)
        gaps += unexplained
    view = GroupView(
        group=group,
        committed={(place.topic, place.partition): at for place, at in waiting.offsets.committed.items()},
        partitions=frozenset(waiting.partitions | pending.partitions),
        held=_held(waiting, pending, found, own),
        unexplained=frozenset(left),
        own=own,
        gaps=tuple(gaps),
    )
    gaps[unread:unread] = doubts
    read = replace(
        found.read,
        scope=_scope(waiting, own),
        gaps=(*gaps, *found.read.gaps),
        complete=found.read.complete and not gaps,
        premises=with_gaps(found.read.premises, gaps),
    )
    waits = {_key(one): _waits(waiting, one, own, pending) for one in found.findings}
    findings = tuple(replace(one, evidence=(*one.evidence, *waits[_key(one)])) for one in found.findings)
    behind = frozenset(key for key, sentences in waits.items() if sentences)
    return BlockedGroup(
        replace(found, read=read, findings=findings),
        behind,
        view,
        not waiting.keeps_offsets,
        standing if isinstance(standing, ShareOffsets) else None,
    )


def _held(
    waiting: GroupPartitions, pending: PendingOffsets, found: rows.Audit, own: TopicPartition | None
) -> dict[int, frozenset[Place]]:
    """Partitions whose offset is in an open transaction, by its producer id: where not all of it was read, those that
    cannot be fetched may be in each."""
    unsure = frozenset(waiting.offsets.unstable) if pending.problem is not None else frozenset()
    producers = {one.producer_id for one in found.findings if (one.topic, one.partition) == own}
    held = {one: frozenset(pending.by_producer.get(one, frozenset())) | unsure for one in sorted(producers)}
    return {one: frozenset(places) for one, places in held.items() if places}


async def _still_unstable(
    cluster: Cluster,
    waiting: GroupPartitions,
    pending: PendingOffsets,
    found: rows.Audit,
    own: TopicPartition,
    search: Search,
) -> tuple[GroupPartitions, set[TopicPartition], list[str]]:
    """The group's partitions, without those whose offset is committed by now; and those that no open transaction in the
    group's own partition explains, with a sentence on them."""
    holders = {one.producer_id for one in found.findings if (one.topic, one.partition) == own}
    open_ = {place for producer_id in holders for place in pending.by_producer.get(producer_id, ())}
    unsure = bool(holders) and pending.problem is not None
    lone = set() if unsure else set(waiting.offsets.unstable) - open_
    if not lone:
        return waiting, set(), []
    again = await _result_of(group_offsets(cluster, waiting.group, lone, cluster.deadline(search.timeout_s)))
    if isinstance(again, ClientError):
        left, why = lone, f" (asking for them again: {again})"
    else:
        left, why = lone & set(again.unstable), ""
    kept = tuple(place for place in waiting.offsets.unstable if place not in lone or place in left)
    waiting = replace(waiting, offsets=replace(waiting.offsets, unstable=kept))
    if not left:
        return waiting, set(), []
    names = some([str(place) for place in sorted(left)], _NAMED)
    sentence = (
        f"offsets of group {waiting.group!r} could not be fetched for {names} (UNSTABLE_OFFSET_COMMIT), and no open "
        f"transaction with them was found in {own}, where they are kept{why}: the group cannot start there, and what "
        "it waits for is not known"
    )
    return waiting, left, [sentence]


def _unknown_group(group: str, pending: PendingOffsets) -> ClientError:
    nothing = "it has no members and no committed offsets"
    if pending.problem is None:
        return ClientError(f"group {group} does not exist: {nothing}")
    return ClientError(f"group {group} is not known: {nothing}, and {pending.problem}: a transaction may hold some")


def _key(finding: rows.Finding) -> OpenKey:
    return TopicPartition(finding.topic, finding.partition), finding.producer_id


class GroupPartitions(msgspec.Struct, frozen=True):
    """The partitions of a group: with committed offsets, and assigned to its members, as far as known."""

    group: str
    offsets: GroupOffsets
    assignment: GroupAssignment | None

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset() if self.assignment is None else self.assignment.partitions

    @property
    def partitions(self) -> set[TopicPartition]:
        return {*self.offsets.partitions, *self.assigned}

    @property
    def keeps_offsets(self) -> bool:
        """Whether its offsets are in `__consumer_offsets`: those of share groups are elsewhere."""
        return self.assignment is None or self.assignment.kind != SHARE


async def _result_of(call: Awaitable[T]) -> T | ClientError:
    try:
        return await call
    except ClientError as error:
        return error


def _gaps(
    group: str, offsets: GroupOffsets | ClientError, assignment: GroupAssignment | ClientError | None
) -> list[str]:
    """Sentences on why the group may have more partitions."""
    gaps = []
    if isinstance(offsets, ClientError):
        gaps.append(f"what group {group!r} has committed could not be read: {offsets}")
    else:
        gaps += [
            f"the offset of group {group!r} in {place} could not be read: {error}"
            for place, error in sorted(offsets.refused.items())
        ]
    if isinstance(assignment, ClientError):
        gaps.append(f"what the members of group {group!r} are assigned could not be read: {assignment}")
    return gaps


def _doubts(group: str, assignment: GroupAssignment | ClientError | None) -> list[str]:
    """Sentences on why the members may be assigned more."""
    if assignment is None:
        return [f"where group {group!r} waits is not certain: its coordinator knows its offsets, and no members"]
    return [] if isinstance(assignment, ClientError) or assignment.doubt is None else [assignment.doubt]


def _scope(waiting: GroupPartitions, own: TopicPartition | None) -> str:
    """The partitions that were searched, as a sentence."""
    assignment, who = waiting.assignment, f"group {waiting.group!r}"
    parts = [f"{len(waiting.offsets.partitions)} with committed offsets"]
    if unstable := waiting.offsets.unstable:
        parts[0] += f" ({len(unstable)} of them in an open transaction)"
    if assignment is not None:
        who += f" ({assignment.kind}, {assignment.state}, {count(assignment.members, 'member')})"
        parts.insert(0, f"{len(assignment.partitions)} that its members are assigned")
    if own is not None:
        parts.append(f"{own}, where its offsets are kept")
    return f"Of {who} these partitions were looked at: {'; '.join(parts)}."


def _waits(
    waiting: GroupPartitions, finding: rows.Finding, own: TopicPartition | None, pending: PendingOffsets
) -> list[str]:
    """What the group waits for in an open transaction, as sentences; empty where it does not wait for it."""
    place = TopicPartition(finding.topic, finding.partition)
    group, offsets = waiting.group, waiting.offsets
    if place == own:
        return _holds_offsets(waiting, finding, pending)
    stable, high, committed = finding.last_stable_offset, finding.high_watermark, offsets.committed.get(place)
    if not finding.blocked or stable is None or high is None:
        return []
    behind = count(high - stable, "offset")
    who = f"Group {group!r}, if it reads committed,"
    if committed is None:
        if place not in waiting.partitions:
            return []
        none = "its offset is in an open transaction" if place in offsets.unstable else "it has no offset here"
        return [f"{who} gets no further than offset {stable}, {behind} below the high watermark; {none}."]
    if committed >= stable:
        return [f"{who} waits at offset {stable}, {behind} below the high watermark."]
    return [f"{who} gets from {committed} to offset {stable} and then waits, {behind} below the high watermark."]


def _holds_offsets(waiting: GroupPartitions, finding: rows.Finding, pending: PendingOffsets) -> list[str]:
    """Sentences on a transaction in the partition that keeps the group's offsets."""
    held = pending.by_producer.get(finding.producer_id, frozenset())
    unstable = held | (set(waiting.offsets.unstable) if pending.problem is not None else set())
    if not unstable:
        return []
    names = some([str(place) for place in sorted(unstable)], _NAMED)
    fails = f"fetching them fails for {names} (UNSTABLE_OFFSET_COMMIT) until the transaction has ended."
    if held:
        return [f"The transaction holds offsets of group {waiting.group!r}: {fails}"]
    return [f"The transaction may hold offsets of group {waiting.group!r} ({pending.problem}): {fails}"]
