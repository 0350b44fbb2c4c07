"""A scripted coordinator of a group of any kind, beside a partition with a hanging transaction."""

from __future__ import annotations

from typing import Any

from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    consumer_group_describe_response,
    consumer_protocol_assignment,
    describe_groups_response,
    offset_fetch_response,
    share_group_describe_response,
    streams_group_describe_response,
)
from tests.client.partition_script import PartitionBroker

GROUP = "shipments"
NOT_FOUND = 69
#: Requests that describe groups: api key, versions that 4.4.0 offers, and the response.
KINDS = {
    "classic": (15, (0, 6), DescribeGroupsRequest, DescribeGroupsResponse, describe_groups_response),
    "consumer": (
        69,
        (0, 1),
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        consumer_group_describe_response,
    ),
    "share": (77, (1, 1), ShareGroupDescribeRequest, ShareGroupDescribeResponse, share_group_describe_response),
    "streams": (89, (0, 1), StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group_describe_response),
}


class GroupBroker(PartitionBroker):
    """Coordinates one group; leads `orders`, whose first partition has a hanging transaction.

    Attributes:
        described: kind -> the group as that kind's request describes it; other kinds are answered as not found.
        committed: partition of `orders` -> offset. `offsets_code`: error of OffsetFetch.
    """

    def __init__(self, kind: str | None = None, **fields: Any) -> None:
        super().__init__(partitions=2)
        self.logs[1].start = -1
        self.topics["__consumer_offsets"] = dict.fromkeys(range(4), 1)
        self.versions[9] = (1, 10)
        self.described: dict[str, Any] = {} if kind is None else {kind: group_of(kind, **fields)}
        self.committed: dict[int, int] = {}
        self.offsets_code = 0
        self.on[OffsetFetchRequest] = self.fetch_offsets
        for name, (key, versions, request, _, _) in KINDS.items():
            self.versions[key] = versions
            self.on[request] = lambda _, name=name: self.describe_group(name)

    def describe_group(self, kind: str) -> Any:
        *_, response, module = KINDS[kind]
        missing = module.DescribedGroup(group_id=GROUP, error_code=NOT_FOUND)
        return response(groups=(self.described.get(kind, missing),))

    def fetch_offsets(self, _: OffsetFetchRequest) -> OffsetFetchResponse:
        if self.offsets_code:
            return OffsetFetchResponse(error_code=self.offsets_code)
        partitions = tuple(
            offset_fetch_response.OffsetFetchResponsePartition(partition_index=p, committed_offset=offset)
            for p, offset in self.committed.items()
        )
        topic = offset_fetch_response.OffsetFetchResponseTopic(name="orders", partitions=partitions)
        return OffsetFetchResponse(topics=(topic,) if partitions else ())


def group_of(kind: str, *members: Any, state: str = "Stable", **fields: Any) -> Any:
    module = KINDS[kind][-1]
    return module.DescribedGroup(group_id=GROUP, group_state=state, members=members, **fields)


def classic(*assignments: bytes, state: str = "Stable", protocol: str = "consumer", **fields: Any) -> Any:
    """A classic group with a member for each assignment."""
    members = (
        describe_groups_response.DescribedGroupMember(member_id=f"m{n}", member_assignment=data)
        for n, data in enumerate(assignments)
    )
    return group_of("classic", *members, state=state, protocol_type=protocol, **fields)


def assigned(*partitions: int, topic: str = "orders", version: int = 0) -> bytes:
    """An assignment of the consumer protocol, as a leader sends it."""
    part = consumer_protocol_assignment.TopicPartition(topic=topic, partitions=partitions)
    return ConsumerProtocolAssignment(assigned_partitions=(part,)).encode_prefixed(version=version)


def named(module: Any, *partitions: int, topic: str = "orders") -> Any:
    """An assignment by topic names, as coordinators describe it."""
    part = module.TopicPartitions(topic_name=topic, partitions=partitions)
    return module.Assignment(topic_partitions=(part,) if partitions else ())
