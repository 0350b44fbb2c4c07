"""Where a share group stands in its partitions (DescribeShareGroupOffsets, KIP-932; Describe on the group)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from kafkawire.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup


class ShareOffset(msgspec.Struct, frozen=True):
    """Where a share group stands. `topic_id`: of the topic. `start`: the first offset that it has not finished with.
    `lag`: offsets from there to the end of the partition that it has not finished with; None: not known."""

    start: int
    lag: int | None = None
    topic_id: UUID = UUID(int=0)


class ShareOffsets(msgspec.Struct, frozen=True):
    """By partition; `refused`: partitions that the coordinator does not describe, with the error."""

    found: dict[TopicPartition, ShareOffset]
    refused: dict[TopicPartition, ClientError] = {}


async def share_offsets(cluster: Cluster, group: str, deadline: Deadline) -> ShareOffsets:
    """Where a share group stands in all partitions in which it has started.

    Args:
        deadline: of all attempts together.

    Raises:
        ClientError: it could not be read.
    """
    body = DescribeShareGroupOffsetsRequest(
        groups=(DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None),)
    )

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, ShareOffsets | ClientError]:
        answer = await cluster.ask_broker(broker, body, deadline)
        return {group: _read(answer, group)}

    return (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline))[group]


def _read(answer: DescribeShareGroupOffsetsResponse, group: str) -> ShareOffsets | ClientError:
    of_group = next((one for one in answer.groups if one.group_id == group), None)
    if of_group is None:
        return ClientError(f"group {group}: the broker's answer to DescribeShareGroupOffsets does not contain it")
    if of_group.error_code:
        what = f"offsets of group {group}"
        return BrokerError.answering("DescribeShareGroupOffsets", of_group.error_code, what, group)
    found: dict[TopicPartition, ShareOffset] = {}
    refused: dict[TopicPartition, ClientError] = {}
    for topic in of_group.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.topic_name, one.partition_index)
            if one.error_code:
                refused[place] = BrokerError.answering(
                    "DescribeShareGroupOffsets", one.error_code, f"partition {place}", topic.topic_name
                )
            elif one.start_offset >= 0:
                found[place] = ShareOffset(one.start_offset, one.lag if one.lag >= 0 else None, topic.topic_id)
    return ShareOffsets(found, refused)
