"""The leader of a partition, the coordinator of an id or a group: routes for `request_driver.drive`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafkawire.client.cluster.brokers import Brokers
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import Route
from kafkawire.client.errors import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    ClientError,
    NoSuchBrokerError,
)
from kafkawire.client.results import PartitionInfo, TopicPartition
from kafkawire.messages import FindCoordinatorRequest

_GROUP, _TRANSACTION = 0, 1  # FindCoordinator's key types
_KINDS = {_GROUP: "group", _TRANSACTION: "transactional id"}
_FIND = "FindCoordinator"
_BATCHED = 4  # from this version on it takes many keys


def leaders(cluster: Brokers, deadline: Deadline) -> Route[TopicPartition]:
    """Each partition's leader."""

    async def route(keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        found = await infos(cluster, keys, deadline)
        return {key: _leader(info) if isinstance(info, PartitionInfo) else info for key, info in found.items()}

    return route


async def leader_of(cluster: Brokers, partition: TopicPartition, deadline: Deadline) -> int:
    """The leader of one partition. Raises ClientError where it has none. `deadline`: for the metadata."""
    found = (await leaders(cluster, deadline)([partition]))[partition]
    if isinstance(found, ClientError):
        raise found
    return found


def replicas_on(cluster: Brokers, broker_id: int, deadline: Deadline) -> Route[TopicPartition]:
    """One broker, for the partitions of which it has a replica. `deadline`: for the metadata, each time that the route
    is computed."""

    async def route(keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        found = await infos(cluster, keys, deadline)
        routed: dict[TopicPartition, int | ClientError] = {}
        for key, info in found.items():
            if isinstance(info, PartitionInfo):
                has = broker_id in info.replicas
                where = ", ".join(map(str, info.replicas))
                missing = NoSuchBrokerError(f"{key}: broker {broker_id} has no replica of it; brokers {where} have")
                routed[key] = broker_id if has else missing
            else:
                routed[key] = info
        return routed

    return route


async def infos(
    cluster: Brokers, keys: Sequence[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, PartitionInfo | ClientError]:
    """Each partition in the cluster's metadata. `deadline`: for the metadata, which is requested once for all keys."""
    metadata = await cluster.metadata(sorted({key.topic for key in keys}), deadline=deadline)
    counts = Counter(one.topic for one in metadata.partitions)
    found: dict[TopicPartition, PartitionInfo | ClientError] = {}
    for key in keys:
        if key in metadata.partitions:
            found[key] = metadata.partitions[key]
        elif key.topic in metadata.errors:
            found[key] = metadata.errors[key.topic]
        else:
            count = counts[key.topic]
            there = f"topic {key.topic} has {count} partition{'s' * (count != 1)}" if count else "no such topic"
            found[key] = BrokerError(UNKNOWN_TOPIC_OR_PARTITION, f"partition {key}", detail=there)
    return found


def _leader(info: PartitionInfo) -> int | ClientError:
    if info.leader is not None:
        return info.leader
    where = ", ".join(map(str, info.replicas))
    return BrokerError(
        LEADER_NOT_AVAILABLE, f"partition {info.topic_partition}", detail=f"no leader; its replicas: {where}"
    )


def coordinators(cluster: Brokers, deadline: Deadline, api: str = _FIND) -> Route[str]:
    """Each transactional id's coordinator. An id that does not exist has one, too. `api`: the request that follows. An
    authorization error names the right that it needs."""
    return _coordinators(cluster, _TRANSACTION, deadline, api)


async def coordinator_of(cluster: Brokers, transactional_id: str, deadline: Deadline) -> int:
    """The coordinator of one transactional id. Raises ClientError where it is not known. `deadline`: for the
    request."""
    return await _only(coordinators(cluster, deadline), transactional_id, "transactional id")


async def group_coordinator_of(cluster: Brokers, group: str, deadline: Deadline) -> int:
    """The coordinator of one group. Raises ClientError where it is not known."""
    return await _only(group_coordinators(cluster, deadline), group, "group")


async def _only(route: Route[str], key: str, kind: str) -> int:
    found = (await route([key])).get(key)
    if isinstance(found, int):
        return found
    raise found or ClientError(f"{kind} {key}: the broker's answer does not contain it")


def group_coordinators(cluster: Brokers, deadline: Deadline) -> Route[str]:
    """Each group's coordinator."""
    return _coordinators(cluster, _GROUP, deadline, _FIND)


def _coordinators(cluster: Brokers, kind: int, deadline: Deadline, api: str) -> Route[str]:
    def found(key: str, node_id: int, code: int, message: str | None) -> int | ClientError:
        if not code:
            return node_id
        return BrokerError.answering(api, code, f"coordinator of {_KINDS[kind]} {key}", key, message)

    async def route(keys: Sequence[str]) -> dict[str, int | ClientError]:
        many = FindCoordinatorRequest(key_type=kind, coordinator_keys=tuple(keys))
        if await cluster.highest(FindCoordinatorRequest, deadline) >= _BATCHED:
            answer = await cluster.ask_any(many, deadline)
            return {
                one.key: found(one.key, one.node_id, one.error_code, one.error_message) for one in answer.coordinators
            }
        routed: dict[str, int | ClientError] = {}
        for key in keys:
            single = FindCoordinatorRequest(key_type=kind, key=key)
            answer = await cluster.ask_any(single, deadline, at_most=_BATCHED - 1, at_least=1)
            routed[key] = found(key, answer.node_id, answer.error_code, answer.error_message)
        return routed

    return route
