"""Partitions that were not read: named with the reason, bounded, and which to read again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import (
    ApiTimeoutError,
    BrokerError,
    ConnectError,
    Metadata,
    NoSuchBrokerError,
    TopicPartition,
)
from kafkawire.client.diagnosis.unread_partitions import UnreadGap, gaps_of, readable_again, rows_of
from kafkawire.client.results import Broker, PartitionInfo
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.rows import Unread
from tests.client.answers import admin, producers, scenario
from tests.client.hanging_script import (
    HANGING,
    SEARCH,
    broker,
    verdicts,
)


def places(*numbers: int, topic: str = "orders") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def denied(place: TopicPartition) -> BrokerError:
    return BrokerError(29, f"partition {place}", right=f"Read on topic {place.topic}")


def refused(_: TopicPartition) -> ConnectError:
    return ConnectError("h:9094", "connection refused")


def test_each_partition_is_named_with_its_reason() -> None:
    errors = {place: refused(place) for place in places(7, 3, 11)}
    errors |= {place: denied(place) for place in places(1, topic="payments")}
    errors[TopicPartition("orders", 2)] = denied(TopicPartition("orders", 2))
    assert gaps_of(errors) == [
        UnreadGap(
            "topic orders",
            "orders-2 was not read: TOPIC_AUTHORIZATION_FAILED: the principal needs Read on topic orders",
        ),
        UnreadGap("topic orders", "orders-3, orders-7, orders-11 were not read: h:9094: connection refused"),
        UnreadGap(
            "topic payments",
            "payments-1 was not read: TOPIC_AUTHORIZATION_FAILED: the principal needs Read on topic payments",
        ),
    ]
    assert rows_of(errors, dict.fromkeys(places(7, 11), 3) | {TopicPartition("orders", 3): -1})[1:4] == [
        Unread(topic="orders", partition=3, broker_id=None, reason="h:9094: connection refused"),
        Unread(topic="orders", partition=7, broker_id=3, reason="h:9094: connection refused"),
        Unread(topic="orders", partition=11, broker_id=3, reason="h:9094: connection refused"),
    ]


def test_of_thousands_some_are_named_and_the_rest_counted() -> None:
    errors = {place: denied(place) for place in places(*range(5000))}
    (gap,) = gaps_of(errors)
    assert gap.text.startswith("orders-0, orders-1, ")
    assert " orders-19 and 4,980 more were not read: TOPIC_AUTHORIZATION_FAILED" in gap.text
    assert len(rows_of(errors, {})) == 5000


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectError("h:9094", "connection refused"), True),
        (ApiTimeoutError("h:9094: no answer (after 3 s)"), True),
        (NoSuchBrokerError("the cluster has no broker 3 now"), True),
        (BrokerError(5, "partition orders-0", detail="no leader"), True),
        (BrokerError(29, "partition orders-0"), False),
    ],
)
def test_partition_is_read_again_where_its_broker_is_back(error: Any, again: bool) -> None:
    (place,) = places(0)

    def metadata(leader: int | None, *brokers: int) -> Metadata:
        info = PartitionInfo(place, leader, 0, (1, 3))
        return Metadata("c", {one: Broker(one, "h", 9092) for one in brokers}, {place: info}, {})

    assert readable_again({place: error}, metadata(3, 1, 3)) == ([place] if again else [])
    assert readable_again({place: error}, metadata(3, 1)) == []  # metadata names a leader that is not there
    assert readable_again({place: error}, metadata(None, 1, 3)) == []
    assert readable_again({place: error}, metadata(1, 1), broker_id=3) == []
    assert readable_again({place: error}, metadata(None, 1, 3), broker_id=3) == ([place] if again else [])
    assert readable_again({place: error}, Metadata("c", {}, {}, {})) == []  # its topic is gone


@pytest.mark.slow
@scenario
async def test_partitions_that_were_not_described_are_unread() -> None:
    made = broker()
    made.topics["orders"][1] = -1
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    (gap,) = audit.read.gaps
    why = "LEADER_NOT_AVAILABLE (no leader; its replicas: -1)"
    assert gap == f"orders-1 was not read: {why}"
    assert audit.unread == (Unread(topic="orders", partition=1, broker_id=None, reason=why),)
    assert (audit.read.partitions, audit.read.partitions_chosen, audit.read.complete) == (1, 2, False)


@pytest.mark.slow
@scenario
async def test_partition_whose_leader_came_back_is_read_and_confirmed() -> None:
    """It has none in the first reading; its transaction is seen in two later ones, as that of any other partition."""
    made = broker()
    made.topics["orders"][1] = -1

    def first_reading_is_over(_: ListTransactionsRequest) -> ListTransactionsResponse:
        made.topics["orders"][1] = 1
        return ListTransactionsResponse()

    made.on[ListTransactionsRequest] = first_reading_is_over
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert [(finding.partition, finding.verdict) for finding in audit.findings] == [(0, "hanging"), (1, "hanging")]
    assert (audit.read.gaps, audit.unread) == ((), ())
    assert (audit.read.partitions, audit.read.partitions_chosen, audit.read.complete) == (2, 2, True)
    assert made.count(DescribeProducersRequest) == 3


@pytest.mark.slow
@scenario
async def test_partition_whose_leader_came_back_may_have_nothing_open() -> None:
    made = broker()
    made.topics["orders"][1] = -1

    def first_reading_is_over(_: ListTransactionsRequest) -> ListTransactionsResponse:
        made.topics["orders"][1] = 1
        return ListTransactionsResponse()

    def only_in_the_first(request: DescribeProducersRequest) -> DescribeProducersResponse:
        answer = producers()(request)
        (topic,) = answer.topics
        partitions = tuple(p if p.partition_index == 0 else replace(p, active_producers=()) for p in topic.partitions)
        return replace(answer, topics=(replace(topic, partitions=partitions),))

    made.on |= {ListTransactionsRequest: first_reading_is_over, DescribeProducersRequest: only_in_the_first}
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    assert (audit.read.partitions, audit.read.complete) == (2, True)
    assert made.count(DescribeProducersRequest) == 2
