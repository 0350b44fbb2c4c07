"""The content of brokers' log directories (DescribeLogDirs; Describe on the cluster)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive, every
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results, TopicPartition, by_topic
from kafkawire.messages import DescribeLogDirsRequest
from kafkawire.messages.describe_log_dirs_request import DescribableLogDirTopic

_WITH_ERROR = 3  # from this version on it gives a reason where it lists nothing
_NO_SIZE = "its size is not in the broker's answer (DescribeLogDirs needs Describe on the cluster)"


class LogDirs(msgspec.Struct, frozen=True):
    """The log directories of a broker. `sizes`: bytes of the replicas in them, without those that are being moved.
    `failed`: directories that are offline, each with the error."""

    sizes: dict[TopicPartition, int]
    failed: dict[str, BrokerError]


async def describe_log_dirs(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> Results[int, LogDirs]:
    """The log directories of brokers, with the topics that are hidden from the principal. `brokers`: ids. Each has a
    value or an error. `deadline`: for all brokers together."""

    async def ask(broker_id: int) -> LogDirs:
        return await _ask(cluster, broker_id, DescribeLogDirsRequest(topics=None), deadline, _WITH_ERROR)

    return await every(cluster, brokers, ask, deadline)


async def log_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Results[TopicPartition, int]:
    """Bytes of each partition's log at its leader. Each has a size or an error. `deadline`: of all attempts
    together."""

    async def ask(broker_id: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        topics = tuple(DescribableLogDirTopic(topic=t, partitions=tuple(p)) for t, p in by_topic(keys).items())
        found = await _ask(cluster, broker_id, DescribeLogDirsRequest(topics=topics), deadline)
        return {key: found.sizes[key] if key in found.sizes else ClientError(f"{key}: {_NO_SIZE}") for key in keys}

    return await drive(cluster, partitions, leaders(cluster, deadline), ask, deadline)


async def _ask(
    cluster: Cluster, broker_id: int, body: DescribeLogDirsRequest, deadline: Deadline, at_least: int = 0
) -> LogDirs:
    answer = await cluster.ask_broker(broker_id, body, deadline, at_least=at_least)
    if answer.error_code:
        what = f"log directories of broker {broker_id}"
        raise BrokerError.answering("DescribeLogDirs", answer.error_code, what)
    failed = {
        folder.log_dir: BrokerError(folder.error_code, f"broker {broker_id}, {folder.log_dir}")
        for folder in answer.results
        if folder.error_code
    }
    sizes = {
        TopicPartition(topic.name, one.partition_index): one.partition_size
        for folder in answer.results
        for topic in folder.topics
        for one in topic.partitions
        if not one.is_future_key
    }
    return LogDirs(sizes, failed)
