"""The producers that the replicas of partitions remember (DescribeProducers)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders, replicas_on
from kafkawire.client.errors import BrokerError, ClientError, NoSuchBrokerError
from kafkawire.client.results import ProducerState, Results, TopicPartition, by_topic
from kafkawire.messages import DescribeProducersRequest, DescribeProducersResponse
from kafkawire.messages.describe_producers_request import TopicRequest


async def describe_producers(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
    *,
    broker_id: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Results[TopicPartition, tuple[ProducerState, ...]]:
    """The producers that the leader of each partition remembers, or the replica on `broker_id`. See `Admin`.

    Args:
        partitions: each has its producers, which may be none, or an error.
        deadline: of the whole call, with its retries. `broker_id`, `progress`: as for `Admin.describe_producers`.
    """

    async def ask(
        broker: int, keys: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
        answer = await cluster.ask_broker(broker, producers_request(keys), deadline)
        if progress is not None:
            progress(len(keys))
        return producers_in(answer)

    if broker_id is None:
        route = leaders(cluster, deadline)
    else:
        known = await cluster.known_brokers(deadline)
        if broker_id not in known:
            raise NoSuchBrokerError.of(broker_id, known)
        route = replicas_on(cluster, broker_id, deadline)
    return await drive(cluster, partitions, route, ask, deadline)


def producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """The request for the producers of partitions."""
    topics = by_topic(partitions).items()
    return DescribeProducersRequest(
        topics=tuple(TopicRequest(name=name, partition_indexes=tuple(numbers)) for name, numbers in topics)
    )


def producers_in(answer: DescribeProducersResponse) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
    """The producers of each partition in a response, or its error."""
    return {
        (key := TopicPartition(topic.name, one.partition_index)): _producers(key, one)
        for topic in answer.topics
        for one in topic.partitions
    }


def _producers(key: TopicPartition, one: Any) -> tuple[ProducerState, ...] | ClientError:
    if one.error_code:
        what = f"partition {key}"
        return BrokerError.answering("DescribeProducers", one.error_code, what, key.topic, one.error_message)
    return tuple(
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            coordinator_epoch=_known(state.coordinator_epoch),
            last_sequence=_known(state.last_sequence),
            last_timestamp=_known(state.last_timestamp),
            transaction_start_offset=_known(state.current_txn_start_offset),
        )
        for state in one.active_producers
    )


def _known(value: int) -> int | None:
    return value if value >= 0 else None
