"""What blocks a group: a search in the partitions that its members are assigned (a group that is blocked from the start
has committed no offset), in those with committed offsets, and in the one that stores its offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import UNSTABLE_OFFSET_COMMIT, BrokerError, ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.group_assignments import SHARE, GroupAssignment, group_assignment
from kafkawire.messages import OffsetFetchRequest
from kafkawire.transactions.coordinator_rules import partition_of_id
from kafkawire.transactions.formatting import count

T = TypeVar("T")

CONSUMER_OFFSETS = "__consumer_offsets"
_STABLE, _LAST_OF_ONE_GROUP = 7, 7  # versions: "require stable" came, and from 8 on there are many groups


class GroupOffsets(msgspec.Struct, frozen=True):
    """A group's committed offsets.

    Attributes:
        committed: by partition.
        unstable: partitions whose offset is in an open transaction (KIP-447): fetching it fails, and a consumer of the
            group cannot start there.
        refused: partitions whose offset the coordinator does not return for another reason.
    """

    committed: dict[TopicPartition, int]
    unstable: tuple[TopicPartition, ...]
    refused: tuple[TopicPartition, ...] = ()

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted({*self.committed, *self.unstable, *self.refused})


async def group_offsets(cluster: Cluster, group: str, deadline: Deadline) -> GroupOffsets:
    """The offsets that a group has committed, of all topics that the principal may Describe.

    Args:
        group: its id.
        deadline: of all attempts together.

    Raises:
        ClientError: they could not be read (it needs Describe on the group).
    """
    body = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, GroupOffsets | ClientError]:
        answer = await cluster.ask(broker, body, deadline, at_least=_STABLE, at_most=_LAST_OF_ONE_GROUP)
        if answer.error_code:
            return {group: BrokerError.answering("OffsetFetch", answer.error_code, f"offsets of group {group}", group)}
        committed, unstable, refused = {}, [], []
        for topic in answer.topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                if one.error_code == UNSTABLE_OFFSET_COMMIT:
                    unstable.append(place)
                elif one.error_code:
                    refused.append(place)
                elif one.committed_offset >= 0:
                    committed[place] = one.committed_offset
        return {group: GroupOffsets(committed, tuple(unstable), tuple(refused))}

    return (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline))[group]


async def find_blocking(
    cluster: Cluster, group: str, search: Search, progress: Callable[[int, int], None] | None = None
) -> rows.Audit:
    """`find_hanging` in the partitions of a group. Each finding states what the group waits for. What could not be read
    is in the audit's `read.gaps`.

    Args:
        search: how to search; its `places` become the group's partitions.
        progress: as for `find_hanging`.

    Raises:
        ClientError: nothing is known of the group, or nothing could be read.
    """
    # One after the other: a broker that closes the connection on one request would end the other, too.
    offsets = await _result_of(group_offsets(cluster, group, cluster.deadline(search.timeout_s)))
    assignment = await _result_of(group_assignment(cluster, group, cluster.deadline(search.timeout_s)))
    if isinstance(offsets, ClientError) and (assignment is None or isinstance(assignment, ClientError)):
        raise offsets
    if assignment is None and not (isinstance(offsets, GroupOffsets) and offsets.partitions):
        raise ClientError(f"group {group} does not exist: it has no members and no committed offsets")
    gaps = _gaps(group, offsets, assignment)
    waiting = GroupPartitions(
        group=group,
        offsets=offsets if isinstance(offsets, GroupOffsets) else GroupOffsets({}, ()),
        assignment=assignment if isinstance(assignment, GroupAssignment) else None,
    )
    own = None
    if waiting.keeps_offsets:
        metadata = await cluster.metadata([CONSUMER_OFFSETS], deadline=cluster.deadline(search.timeout_s))
        if metadata.partitions:
            own = TopicPartition(CONSUMER_OFFSETS, partition_of_id(group, len(metadata.partitions)))
        gaps += [f"where the group's own offsets are kept: {problem}" for problem in metadata.errors.values()]
    places = waiting.partitions | ({own} if own else set())
    found = await find_hanging(cluster, replace(search, places=tuple(sorted(places))), progress)
    read = replace(
        found.read,
        scope=_scope(waiting, own),
        gaps=(*gaps, *found.read.gaps),
        complete=found.read.complete and not gaps,
    )
    findings = tuple(
        replace(finding, evidence=(*finding.evidence, *_waits(waiting, finding, own))) for finding in found.findings
    )
    return replace(found, read=read, findings=findings)


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
    if isinstance(assignment, ClientError):
        gaps.append(f"what the members of group {group!r} are assigned could not be read: {assignment}")
    elif assignment is None:
        gaps.append(f"where group {group!r} waits is not certain: its coordinator knows its offsets, and no members")
    elif assignment.doubt is not None:
        gaps.append(assignment.doubt)
    return gaps


def _scope(waiting: GroupPartitions, own: TopicPartition | None) -> str:
    """The partitions that were searched, as a sentence."""
    assignment, who = waiting.assignment, f"group {waiting.group!r}"
    parts = [f"{len(waiting.offsets.partitions)} with committed offsets"]
    if assignment is not None:
        who += f" ({assignment.kind}, {assignment.state}, {count(assignment.members, 'member')})"
        parts.insert(0, f"{len(assignment.partitions)} that its members are assigned")
    if own is not None:
        parts.append(f"{own}, where its offsets are kept")
    return f"Of {who} these partitions were looked at: {'; '.join(parts)}."


def _waits(waiting: GroupPartitions, finding: rows.Finding, own: TopicPartition | None) -> list[str]:
    place = TopicPartition(finding.topic, finding.partition)
    group, offsets = waiting.group, waiting.offsets
    if place == own:
        if not offsets.unstable:
            return [f"Group {group!r} keeps its offsets here; none of them is in an open transaction."]
        names = ", ".join(map(str, offsets.unstable))
        return [
            f"Group {group!r} keeps its offsets here: fetching them fails for {names} (UNSTABLE_OFFSET_COMMIT) until "
            "their transaction has ended."
        ]
    stable, high, committed = finding.last_stable_offset, finding.high_watermark, offsets.committed.get(place)
    if not finding.blocked or stable is None or high is None:
        return []
    behind = count(high - stable, "offset")
    who = f"Group {group!r}, if it reads committed,"
    if committed is None:
        if place not in waiting.assigned:
            return []
        return [
            f"{who} gets no further than offset {stable}, {behind} below the high watermark; it has no offset here."
        ]
    if committed >= stable:
        return [f"{who} waits at offset {stable}, {behind} below the high watermark."]
    return [f"{who} gets from {committed} to offset {stable} and then waits, {behind} below the high watermark."]
