"""The offsets that consumer groups have committed in some partitions (ListGroups, OffsetFetch)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive, every
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.errors import BrokerError, ClientError, UnsupportedApiError
from kafkawire.client.results import TopicPartition, by_topic
from kafkawire.client.rpc.group_assignments import SHARE
from kafkawire.messages import ListGroupsRequest, OffsetFetchRequest
from kafkawire.messages.offset_fetch_request import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

#: Most groups whose offsets are read.
MOST_GROUPS = 10_000
_ONE_GROUP, _GROUPS, _LAST_BY_NAME = 7, 8, 9  # versions: one group up to 7, ids of topics from 10 on
_ALL_TOPICS = 2


class CommittedOffsets(msgspec.Struct, frozen=True):
    """Committed offsets by partition and group, and sentences on what could not be read."""

    offsets: dict[TopicPartition, dict[str, int]]
    unread: tuple[str, ...] = ()


async def committed_offsets(
    cluster: Cluster, brokers: Collection[int], partitions: Collection[TopicPartition], deadline: Deadline
) -> CommittedOffsets:
    """The offsets of all groups that the principal may Describe. A group that it may not is left out by the brokers.
    `brokers`: all of the cluster: each lists the groups that it coordinates. `deadline`: of the whole call."""
    listed, unread = await listed_groups(cluster, brokers, deadline)
    names = sorted(name for name, kind in listed.items() if kind != SHARE)
    if len(names) > MOST_GROUPS:
        unread.append(f"offsets of {len(names) - MOST_GROUPS} of {len(names)} groups: {MOST_GROUPS} are read at most")

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, dict[TopicPartition, int] | ClientError]:
        try:
            return await _many(cluster, broker, keys, partitions, deadline)
        except UnsupportedApiError:
            return {key: await _one(cluster, broker, key, partitions, deadline) for key in keys}

    found = await drive(cluster, names[:MOST_GROUPS], group_coordinators(cluster, deadline), ask, deadline)
    if found.errors:
        unread.append(f"offsets of {len(found.errors)} groups: {next(iter(found.errors.values()))}")
    offsets: dict[TopicPartition, dict[str, int]] = {place: {} for place in partitions}
    for group, committed in found.values.items():
        for place, offset in committed.items():
            if place in offsets:
                offsets[place][group] = offset
    return CommittedOffsets(offsets, tuple(unread))


async def listed_groups(
    cluster: Cluster, brokers: Collection[int], deadline: Deadline
) -> tuple[dict[str, str], list[str]]:
    """The groups that the principal may Describe, with their types (empty before KIP-848); and sentences on brokers
    that did not list theirs.

    Args:
        brokers: all of the cluster: each lists the groups that it coordinates.
        deadline: of the whole call.
    """

    async def ask(broker: int) -> dict[str, str]:
        answer = await cluster.ask_broker(broker, ListGroupsRequest(), deadline)
        if answer.error_code:
            raise BrokerError.answering("ListGroups", answer.error_code, "ListGroups")
        return {group.group_id: group.group_type.lower() for group in answer.groups}

    listed = await every(cluster, brokers, ask, deadline)
    found = {name: kind for groups in listed.values.values() for name, kind in groups.items()}
    return found, [f"groups of broker {broker}: {error}" for broker, error in listed.errors.items()]


async def _many(
    cluster: Cluster, broker: int, groups: Sequence[str], partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[str, dict[TopicPartition, int] | ClientError]:
    topics = tuple(
        OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(numbers))
        for topic, numbers in by_topic(partitions).items()
    )
    body = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups))
    answer = await cluster.ask_broker(broker, body, deadline, at_least=_GROUPS, at_most=_LAST_BY_NAME)
    return {one.group_id: _offsets(one.group_id, one.error_code, one.topics) for one in answer.groups}


async def _one(
    cluster: Cluster, broker: int, group: str, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int] | ClientError:
    topics = tuple(
        OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(numbers))
        for topic, numbers in by_topic(partitions).items()
    )
    body = OffsetFetchRequest(group_id=group, topics=topics)
    answer = await cluster.ask_broker(broker, body, deadline, at_least=_ALL_TOPICS, at_most=_ONE_GROUP)
    return _offsets(group, answer.error_code, answer.topics)


def _offsets(group: str, code: int, topics: Iterable[Any]) -> dict[TopicPartition, int] | ClientError:
    if code:
        return BrokerError.answering("OffsetFetch", code, f"offsets of group {group}", group)
    return {
        TopicPartition(topic.name, one.partition_index): one.committed_offset
        for topic in topics
        for one in topic.partitions
        if not one.error_code and one.committed_offset >= 0
    }
