"""Partitions that were not read: named with the reason, bounded, and which to read again."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.client import ApiTimeoutError, BrokerError, ConnectError, Metadata, NoSuchBrokerError, TopicPartition
from kafkawire.client.diagnosis.unread_partitions import UnreadGap, gaps_of, readable_again, rows_of
from kafkawire.client.results import Broker, PartitionInfo
from kafkawire.rows import Unread


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
