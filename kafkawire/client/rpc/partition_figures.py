"""Sizes of partitions: bytes of their logs on disk (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results, TopicPartition, by_topic
from kafkawire.messages import DescribeLogDirsRequest
from kafkawire.messages.describe_log_dirs_request import DescribableLogDirTopic

_NO_SIZE = "its size is not in the broker's answer (DescribeLogDirs needs Describe on the cluster)"


async def log_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Results[TopicPartition, int]:
    """Bytes of each partition's log at its leader (Describe on the cluster). Each has a size or an error.

    Args:
        deadline: of all attempts together.
    """

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        topics = tuple(DescribableLogDirTopic(topic=t, partitions=tuple(p)) for t, p in by_topic(keys).items())
        answer = await cluster.ask(broker, DescribeLogDirsRequest(topics=topics), deadline)
        if answer.error_code:
            raise BrokerError.answering("DescribeLogDirs", answer.error_code, f"log directories of broker {broker}")
        found: dict[TopicPartition, int | ClientError] = {key: ClientError(f"{key}: {_NO_SIZE}") for key in keys}
        for directory in answer.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        found[TopicPartition(topic.name, one.partition_index)] = one.partition_size
        return found

    return await drive(cluster, partitions, leaders(cluster, deadline), ask, deadline)
