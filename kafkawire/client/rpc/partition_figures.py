"""Sizes and settings of partitions: bytes on disk (DescribeLogDirs) and settings of topics (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results, TopicPartition, by_topic
from kafkawire.messages import DescribeConfigsRequest, DescribeLogDirsRequest
from kafkawire.messages.describe_configs_request import DescribeConfigsResource
from kafkawire.messages.describe_log_dirs_request import DescribableLogDirTopic

_TOPIC = 2  # ConfigResource.Type
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


async def topic_settings(
    cluster: Cluster, topics: Collection[str], names: Collection[str], deadline: Deadline
) -> dict[str, dict[str, str] | ClientError]:
    """Settings of topics as they are in force, by topic and name (DescribeConfigs on each topic).

    Args:
        names: of the settings.
        deadline: of all attempts together.
    """
    resources = tuple(
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=tuple(sorted(names)))
        for topic in topics
    )
    try:
        answer = await cluster.ask_any(DescribeConfigsRequest(resources=resources), deadline)
    except ClientError as error:
        return dict.fromkeys(topics, error)
    found: dict[str, dict[str, str] | ClientError] = {}
    for result in answer.results:
        topic = result.resource_name
        if result.error_code:
            what = f"settings of topic {topic}"
            found[topic] = BrokerError.answering("DescribeConfigs", result.error_code, what, topic)
        else:
            found[topic] = {one.name: one.value for one in result.configs if one.value is not None}
    return found
