"""A scripted coordinator of a group of any kind, beside a partition with a hanging transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from kafkawire.client import Search
from kafkawire.client.diagnosis.blocked_group import BlockedGroup, find_blocking
from kafkawire.client.diagnosis.cluster_reading import clock_ms as now_ms
from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeShareGroupOffsetsResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitKey,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    consumer_group_describe_response,
    consumer_protocol_assignment,
    describe_groups_response,
    describe_share_group_offsets_response,
    offset_fetch_response,
    share_group_describe_response,
    streams_group_describe_response,
)
from kafkawire.messages.describe_producers_response import ProducerState
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.records import Record, build
from kafkawire.rows import Audit
from tests.client.answers import admin
from tests.client.partition_script import SEARCH, START, PartitionBroker

T = TypeVar("T")
TIMEOUT_S = 60.0

GROUP = "shipments"
#: Where the group's offsets are kept.
OFFSETS, OWN = "__consumer_offsets", 1
UNSTABLE = 88
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
        unstable: partitions of `orders` whose offset is in an open transaction, as OffsetFetch answers; as of 4.4.0, a
            request for all offsets is answered without those that have no committed one, too.
        pending: partitions of `orders` in the records of a transaction that is open in the group's own partition, of
            producer id 9; None where none is open there. `behind`: how many offsets follow these records.
    """

    def __init__(self, kind: str | None = None, **fields: Any) -> None:
        super().__init__(partitions=2)
        self.logs[1].start = -1
        self.topics[OFFSETS] = dict.fromkeys(range(4), 1)
        self.versions[9] = (1, 10)
        self.described: dict[str, Any] = {} if kind is None else {kind: group_of(kind, **fields)}
        self.committed: dict[int, int] = {}
        self.offsets_code = 0
        self.unstable: set[int] = set()
        self.pending: tuple[int, ...] | None = None
        self.behind = 0
        self.on[OffsetFetchRequest] = self.fetch_offsets
        for name, (key, versions, request, _, _) in KINDS.items():
            self.versions[key] = versions
            self.on[request] = lambda _, name=name: self.describe_group(name)

    def describe_group(self, kind: str) -> Any:
        *_, response, module = KINDS[kind]
        missing = module.DescribedGroup(group_id=GROUP, error_code=NOT_FOUND)
        return response(groups=(self.described.get(kind, missing),))

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if self.offsets_code:
            return OffsetFetchResponse(error_code=self.offsets_code)
        named = request.topics
        asked = {"orders": tuple(self.committed)} if named is None else {e.name: e.partition_indexes for e in named}
        topics = (
            offset_fetch_response.OffsetFetchResponseTopic(
                name=name, partitions=tuple(self.offset(name, number) for number in numbers)
            )
            for name, numbers in asked.items()
            if numbers
        )
        return OffsetFetchResponse(topics=tuple(topics))

    def offset(self, topic: str, number: int) -> offset_fetch_response.OffsetFetchResponsePartition:
        unstable = topic == "orders" and number in self.unstable
        committed = -1 if unstable or topic != "orders" else self.committed.get(number, -1)
        return offset_fetch_response.OffsetFetchResponsePartition(
            partition_index=number, committed_offset=committed, error_code=UNSTABLE if unstable else 0
        )

    # The group's own partition ----------------------------------------------------------------------------------------

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        answer = super().describe_producers(request)
        if self.pending is None:
            return answer
        state = ProducerState(
            producer_id=9, producer_epoch=0, last_timestamp=now_ms(), coordinator_epoch=0, current_txn_start_offset=0
        )
        return replace(
            answer,
            topics=tuple(
                replace(topic, partitions=tuple(replace(one, active_producers=(state,)) for one in topic.partitions))
                if topic.name == OFFSETS
                else topic
                for topic in answer.topics
            ),
        )

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = super().list_offsets(request)
        first = any(one.timestamp == -2 for topic in request.topics for one in topic.partitions)
        high = 0 if first or request.isolation_level else len(self.pending or ()) + self.behind
        return replace(
            answer,
            topics=tuple(
                replace(topic, partitions=tuple(replace(one, error_code=0, offset=high) for one in topic.partitions))
                if topic.name == OFFSETS
                else topic
                for topic in answer.topics
            ),
        )

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        if topic.topic != OFFSETS:
            return super().fetch(request)
        keys = (b"\0\1" + OffsetCommitKey(GROUP, "orders", number).encode(version=0) for number in self.pending or ())
        records = (Record(key=key, value=b"", timestamp=now_ms()) for key in keys)
        data = build(records, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True, base_offset=0)
        one = PartitionData(partition_index=OWN, high_watermark=len(self.pending or ()), records=data)
        return FetchResponse(responses=(FetchableTopicResponse(topic=OFFSETS, partitions=(one,)),))


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


#: Of a share group with one member, which has both partitions.
SHARE_MEMBERS = group_of(
    "share", share_group_describe_response.Member(member_id="m", assignment=named(share_group_describe_response, 0, 1))
)


def share_standing(lag: int, start: int = START) -> DescribeShareGroupOffsetsResponse:
    one = describe_share_group_offsets_response.DescribeShareGroupOffsetsResponsePartition(
        partition_index=0, start_offset=start, lag=lag
    )
    topic = describe_share_group_offsets_response.DescribeShareGroupOffsetsResponseTopic(
        topic_name="orders", partitions=(one,)
    )
    group = describe_share_group_offsets_response.DescribeShareGroupOffsetsResponseGroup(
        group_id=GROUP, topics=(topic,)
    )
    return DescribeShareGroupOffsetsResponse(groups=(group,))


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


def blocking(broker: GroupBroker, search: Search = SEARCH) -> Audit:
    return blocked_by(broker, search).audit


def blocked_by(broker: GroupBroker, search: Search = SEARCH) -> BlockedGroup:
    async def scenario() -> BlockedGroup:
        broker.brokers.clear()  # it has another port each time
        async with broker.running(), admin(broker.address) as client:
            return await find_blocking(client.cluster, GROUP, search)

    return run(scenario())


def hanging(audit: Audit) -> list[tuple[str, int, str]]:
    return [(finding.topic, finding.partition, finding.verdict) for finding in audit.findings]
