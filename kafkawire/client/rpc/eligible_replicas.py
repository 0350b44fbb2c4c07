"""The replicas that may lead a partition beside those in sync (KIP-966), by DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results, TopicPartition
from kafkawire.messages import DescribeTopicPartitionsRequest
from kafkawire.messages.describe_topic_partitions_request import Cursor, TopicRequest

#: Partitions of an answer, at most, and requests for all topics.
_A_PAGE, _MOST_PAGES = 2_000, 5_000


class EligibleReplicas(msgspec.Struct, frozen=True):
    """The eligible replicas of a partition, as broker ids.

    Attributes:
        in_sync: the ISR. eligible: replicas that left it and have all that was committed; None: brokers keep none.
        last_known: those that were eligible, and came back after an unclean shutdown.
    """

    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] | None
    last_known: tuple[int, ...] = ()


async def eligible_replicas(
    cluster: Cluster, topics: Iterable[str], deadline: Deadline
) -> Results[TopicPartition, EligibleReplicas]:
    """The eligible replicas of all partitions of topics (Describe on each topic). Raises ClientError; brokers before
    3.8 have no request."""
    names = tuple(TopicRequest(name=topic) for topic in sorted(set(topics)))
    found = Results[TopicPartition, EligibleReplicas]({}, {})
    cursor: Cursor | None = None
    for _ in range(_MOST_PAGES if names else 0):
        body = DescribeTopicPartitionsRequest(topics=names, response_partition_limit=_A_PAGE, cursor=cursor)
        answer = await cluster.ask_any(body, deadline)
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code:
                error = BrokerError.answering("DescribeTopicPartitions", topic.error_code, f"topic {name}", name)
                found.errors[TopicPartition(name, -1)] = error
            for one in topic.partitions:
                eligible = one.eligible_leader_replicas
                found.values[TopicPartition(name, one.partition_index)] = EligibleReplicas(
                    one.isr_nodes, None if eligible is None else tuple(eligible), tuple(one.last_known_elr or ())
                )
        after = answer.next_cursor
        if after is None:
            return found
        if cursor is not None and (after.topic_name, after.partition_index) == (
            cursor.topic_name,
            cursor.partition_index,
        ):
            raise ClientError("DescribeTopicPartitions: the broker answers the same page again")
        cursor = Cursor(topic_name=after.topic_name, partition_index=after.partition_index)
    if names:
        raise ClientError(f"DescribeTopicPartitions: more than {_MOST_PAGES} pages")
    return found
