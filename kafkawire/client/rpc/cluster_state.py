"""State of a cluster: its features (ApiVersions), and the quorum of its controllers (DescribeQuorum)."""

from __future__ import annotations

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.transport.api_versions import VERSIONS_REQUEST
from kafkawire.messages import DescribeQuorumRequest
from kafkawire.messages.describe_quorum_request import PartitionData, TopicData
from kafkawire.transactions.facts import CLUSTER_METADATA

_WITH_FEATURES = 3  # the version of ApiVersions that brought them


class Features(msgspec.Struct, frozen=True):
    """Features by name: the level that is in force, and the highest that the brokers support (KIP-584)."""

    finalized: dict[str, int]
    supported: dict[str, int]


class Voter(msgspec.Struct, frozen=True):
    """A voter of the controllers' quorum. `caught_up`: when it last had all of the leader's log, epoch milliseconds of
    the leader's clock, -1 where that is not known."""

    node_id: int
    caught_up: int


class Quorum(msgspec.Struct, frozen=True):
    """The controllers' quorum. `leader`: node id."""

    leader: int
    voters: tuple[Voter, ...]


async def read_features(cluster: Cluster, deadline: Deadline) -> Features:
    """The cluster's features. Raises ClientError."""
    answer = await cluster.ask_any(VERSIONS_REQUEST, deadline, at_least=_WITH_FEATURES)
    if answer.error_code:
        raise BrokerError(answer.error_code, "ApiVersions")
    return Features(
        {one.name: one.max_version_level for one in answer.finalized_features},
        {one.name: one.max_version for one in answer.supported_features},
    )


async def read_quorum(cluster: Cluster, deadline: Deadline) -> Quorum:
    """The quorum of the controllers (Describe on the cluster). Raises ClientError; ZooKeeper's brokers have none."""
    topic = TopicData(topic_name=CLUSTER_METADATA, partitions=(PartitionData(partition_index=0),))
    answer = await cluster.ask_any(DescribeQuorumRequest(topics=(topic,)), deadline)
    if answer.error_code:
        raise BrokerError.answering("DescribeQuorum", answer.error_code, "quorum of the controllers")
    for one in (one for topic in answer.topics for one in topic.partitions):
        if one.error_code:
            raise BrokerError.answering("DescribeQuorum", one.error_code, "quorum of the controllers")
        voters = (Voter(voter.replica_id, voter.last_caught_up_timestamp) for voter in one.current_voters)
        return Quorum(one.leader_id, tuple(voters))
    raise ClientError("quorum of the controllers: the broker's answer does not contain it")
