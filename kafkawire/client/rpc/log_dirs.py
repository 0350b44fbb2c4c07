"""The content of brokers' log directories (DescribeLogDirs; Describe on the cluster)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.errors import BrokerError
from kafkawire.client.results import Results, TopicPartition
from kafkawire.messages import DescribeLogDirsRequest

_WITH_ERROR = 3  # from this version on it gives a reason where it lists nothing


class LogDirs(msgspec.Struct, frozen=True):
    """The log directories of a broker.

    Attributes:
        sizes: bytes of the replicas in them, without those that are being moved.
        failed: directories that are offline, each with the error.
    """

    sizes: dict[TopicPartition, int]
    failed: dict[str, BrokerError]


async def describe_log_dirs(cluster: Cluster, brokers: Collection[int], deadline: Deadline) -> Results[int, LogDirs]:
    """The log directories of brokers, with the topics that are hidden from the principal.

    Args:
        brokers: ids. Each has a value or an error.
        deadline: for all brokers together.
    """

    async def ask(broker_id: int) -> LogDirs:
        answer = await cluster.ask(broker_id, DescribeLogDirsRequest(topics=None), deadline, at_least=_WITH_ERROR)
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

    return await every(cluster, brokers, ask, deadline)
