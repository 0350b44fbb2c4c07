"""The partitions that the members of a group are assigned, for all kinds of groups.

Each kind has a request of its own: DescribeGroups (the classic protocol), ConsumerGroupDescribe (KIP-848),
ShareGroupDescribe (KIP-932), StreamsGroupDescribe (KIP-1071). A coordinator answers GROUP_ID_NOT_FOUND, or the state
Dead, for a group of another kind; so the requests are sent one after the other, the most common kind first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from kafkawire.client import errors
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.results import TopicPartition
from kafkawire.errors import DecodeError
from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from kafkawire.records.control import read_prefixed
from kafkawire.transactions.formatting import count
from kafkawire.wire.message import Message

#: A kind of group that keeps no offsets in `__consumer_offsets`.
SHARE = "share"

_CONSUMER = "consumer"  # the protocol type of classic groups whose assignments name partitions
_DEAD = "Dead"
#: States in which the assignment is complete; in Reconciling some members have not adopted it yet.
_SETTLED = ("Stable", "Reconciling")


class GroupAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """What the members of a group are assigned.

    Attributes:
        kind: of the group: classic, consumer, share or streams. `state`: as its coordinator names it.
        members: their number.
        partitions: assigned now, or about to be.
        doubt: a sentence on why there may be more partitions; None if there are not.
    """

    kind: str
    state: str
    members: int
    partitions: frozenset[TopicPartition]
    doubt: str | None = None


async def group_assignment(cluster: Cluster, group: str, deadline: Deadline) -> GroupAssignment | None:
    """The partitions assigned to the members of a group; None where its coordinator knows no group of this name.

    Args:
        deadline: of the whole call, with its retries.

    Raises:
        ClientError: it could not be read (it needs Describe on the group; from KIP-848 on, also on each of its topics).
    """

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, GroupAssignment | errors.ClientError | None]:
        return {group: await _described(cluster, broker, group, deadline)}

    return (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline))[group]


async def _described(
    cluster: Cluster, broker: int, group: str, deadline: Deadline
) -> GroupAssignment | errors.ClientError | None:
    for kind in _GROUP_KINDS:
        try:
            answer = await cluster.ask_broker(broker, kind.request(group), deadline)
        except errors.UnsupportedApiError:
            if kind is _GROUP_KINDS[0]:
                raise
            continue  # a broker without the request has no group of the kind
        found = next((one for one in answer.groups if one.group_id == group), None)
        if found is None:
            return errors.ClientError(f"group {group}: the broker's answer to {kind.api} does not contain it")
        if found.error_code in (errors.GROUP_ID_NOT_FOUND, errors.UNSUPPORTED_VERSION) or found.group_state == _DEAD:
            continue
        if found.error_code:
            return _error(kind, group, found)
        return _assignment(kind, group, found)
    return None


def _error(kind: _GroupKind, group: str, found: Any) -> errors.BrokerError:
    code = found.error_code
    right = (
        "Describe on each of its topics" if code == errors.TOPIC_DENIED else errors.missing_right(kind.api, code, group)
    )
    return errors.BrokerError(code, f"members of group {group}", detail=found.error_message or "", right=right)


def _assignment(kind: _GroupKind, group: str, found: Any) -> GroupAssignment:
    partitions, unreadable = kind.partitions(found)
    doubts = []
    if not found.members:
        doubts.append("it has no members now")
    elif found.group_state not in _SETTLED:
        doubts.append(f"it is {found.group_state}, what its members get is not settled (ask again later)")
    doubts += unreadable
    if not doubts and not partitions:
        doubts.append("its members are assigned no partition now")
    return GroupAssignment(
        kind=kind.name,
        state=found.group_state,
        members=len(found.members),
        partitions=frozenset(partitions),
        doubt=f"where group {group!r} waits is not certain: {'; '.join(doubts)}" if doubts else None,
    )


# Kinds ----------------------------------------------------------------------------------------------------------------

#: The partitions that a group's members are assigned, and sentences on what could not be read.
_Assigned = tuple[set[TopicPartition], list[str]]


def _classic(group: Any) -> _Assigned:
    if group.members and group.protocol_type != _CONSUMER:
        return set(), [f"assignments of its protocol {group.protocol_type!r} name no partitions"]
    found: set[TopicPartition] = set()
    unreadable = []
    for member in group.members:
        if not member.member_assignment:
            continue  # the member has no assignment
        try:
            assignment = read_prefixed(ConsumerProtocolAssignment, member.member_assignment)
        except DecodeError as error:
            unreadable.append(f"member {member.member_id!r}: {error}")
        else:
            found.update(TopicPartition(one.topic, p) for one in assignment.assigned_partitions for p in one.partitions)
    if len(unreadable) > 1:
        unreadable = [f"the assignments of {count(len(unreadable), 'member')} could not be read ({unreadable[0]})"]
    return found, unreadable


def _consumer(group: Any) -> _Assigned:
    return _named(part for member in group.members for part in (member.assignment, member.target_assignment))


def _share(group: Any) -> _Assigned:
    return _named(member.assignment for member in group.members)


def _named(assignments: Iterable[Any]) -> _Assigned:
    topics = (topic for assignment in assignments for topic in assignment.topic_partitions)
    return {TopicPartition(topic.topic_name, p) for topic in topics for p in topic.partitions}, []


def _streams(group: Any) -> _Assigned:
    """A task reads its partition of all source topics of its subtopology. Its state is restored from changelogs, with
    read_committed, too. A topic with fewer partitions has none for the task."""
    subtopologies = {one.subtopology_id: one for one in (group.topology and group.topology.subtopologies) or ()}
    found: set[TopicPartition] = set()
    unknown: set[str] = set()
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            restored = (*assignment.standby_tasks, *assignment.warmup_tasks)
            for active, tasks in ((True, assignment.active_tasks), (False, restored)):
                for task in tasks:
                    if task.subtopology_id not in subtopologies:
                        unknown.add(task.subtopology_id)
                        continue
                    topics = _topics(subtopologies[task.subtopology_id], active)
                    found.update(TopicPartition(topic, p) for topic in topics for p in task.partitions)
    return found, [f"its topology has no subtopology {one!r}, of which there are tasks" for one in sorted(unknown)[:1]]


def _topics(subtopology: Any, active: bool) -> set[str]:
    changelogs = {topic.name for topic in subtopology.state_changelog_topics}
    if not active:
        return changelogs
    return {*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics), *changelogs}


class _GroupKind(NamedTuple):
    """A kind of group, the request that describes it, and how to read the description."""

    name: str
    request: Callable[[str], Message]
    partitions: Callable[[Any], _Assigned]

    @property
    def api(self) -> str:
        return self.request("").spec.name.removesuffix("Request")


_GROUP_KINDS = (
    _GroupKind("classic", lambda group: DescribeGroupsRequest(groups=(group,)), _classic),
    _GroupKind("consumer", lambda group: ConsumerGroupDescribeRequest(group_ids=(group,)), _consumer),
    _GroupKind(SHARE, lambda group: ShareGroupDescribeRequest(group_ids=(group,)), _share),
    _GroupKind("streams", lambda group: StreamsGroupDescribeRequest(group_ids=(group,)), _streams),
)
