"""Requests of tests to a real cluster for which the client has no call: topics, users, rights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkawire.client import Admin, BrokerError, Cluster
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.errors import RETRIABLE
from kafkawire.messages import (
    AddOffsetsToTxnRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    IncrementalAlterConfigsRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)
from kafkawire.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from kafkawire.messages.create_acls_request import AclCreation
from kafkawire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kafkawire.messages.delete_acls_request import DeleteAclsFilter
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.txn_offset_commit_request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

SCRAM_256, SCRAM_512 = 1, 2
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ALL, READ, WRITE, ALTER, DESCRIBE, CLUSTER_ACTION, IDEMPOTENT_WRITE = 2, 3, 4, 7, 8, 9, 12
_ANY, _LITERAL, _PREFIXED, _DENY, _ALLOW = 1, 3, 4, 2, 3
_TOPIC_ALREADY_EXISTS = 36
_BROKER = 4  # a type of resources with configuration
_CLUSTER_NAME = "kafka-cluster"


class Acl(NamedTuple):
    """A right, or the denial of one. `name`: of the resource, or `*`."""

    resource: int
    name: str
    operation: int
    deny: bool = False
    prefixed: bool = False


async def create_topics(
    admin: Admin, topics: Mapping[str, int], replicas: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Topics with their numbers of partitions, and the settings of all."""
    settings = tuple(CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items())
    body = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=replicas, configs=settings)
            for name, count in topics.items()
        ),
        timeout_ms=30_000,
    )
    answer = await _to_controller(admin.cluster, body)
    assert {topic.error_code for topic in answer.topics} <= {0, _TOPIC_ALREADY_EXISTS}, answer


async def create_scram_user(admin: Admin, name: str, password: str) -> None:
    """A user of SCRAM-SHA-256 and -512."""
    salt, rounds = b"sixteen bytes of", 4096
    for mechanism, hash_ in ((SCRAM_256, "sha256"), (SCRAM_512, "sha512")):  # a user once in a request
        credential = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=rounds,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(hash_, password.encode(), salt, rounds),
        )
        answer = await _to_controller(admin.cluster, AlterUserScramCredentialsRequest(upsertions=(credential,)))
        assert {result.error_code for result in answer.results} == {0}, answer


async def grant(admin: Admin, user: str, *rights: tuple[int, str, int]) -> None:
    """Rights as (type of resource, its name or `*`, operation)."""
    await create_acls(admin, {user: [Acl(*right) for right in rights]})


async def create_acls(admin: Admin, users: Mapping[str, Iterable[Acl]]) -> None:
    """All at once."""
    body = CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=acl.resource,
                resource_name=_CLUSTER_NAME if acl.resource == CLUSTER else acl.name,
                resource_pattern_type=_PREFIXED if acl.prefixed else _LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=acl.operation,
                permission_type=_DENY if acl.deny else _ALLOW,
            )
            for user, acls in users.items()
            for acl in acls
        )
    )
    answer = await _to_controller(admin.cluster, body)
    assert {result.error_code for result in answer.results} == {0}, answer


async def revoke_all(admin: Admin, user: str) -> None:
    """Takes every right of a user."""
    every = DeleteAclsFilter(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await _to_controller(admin.cluster, DeleteAclsRequest(filters=(every,)))
    assert {result.error_code for result in answer.filter_results} == {0}, answer


async def commit_offsets(admin: Admin, group: str, topic: str, offsets: Mapping[int, int], metadata: str = "") -> None:
    """Offsets of a group, committed as by a consumer that assigns partitions to itself."""
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=p, committed_offset=o, committed_metadata=metadata)
        for p, o in offsets.items()
    )
    body = OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),))
    await _to_group(admin.cluster, group, body, 8)


async def commit_offsets_in_transaction(admin: Admin, group: str, producer: Any, topic: str, partition: int) -> None:
    """An offset of a group in a transaction of `producer`, which is not ended."""
    name = producer.transactional_id
    partitions = (TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1),)
    coordinator = (await admin.describe_transactions([name]))[name].coordinator
    added = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group
    )
    deadline = admin.cluster.deadline()
    while (answer := await admin.cluster.ask_broker(coordinator, added, deadline, at_most=3)).error_code in RETRIABLE:
        assert await deadline.sleep(0.05), answer
    assert answer.error_code == 0, answer
    body = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=partitions),),
    )
    await _to_group(admin.cluster, group, body, 4)


async def set_broker_config(admin: Admin, name: str, value: str) -> None:
    """A property of all brokers, while they run."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=(config,))
    answer = await _to_controller(admin.cluster, IncrementalAlterConfigsRequest(resources=(resource,)))
    assert {one.error_code for one in answer.responses} == {0}, answer


async def _to_group(cluster: Cluster, group: str, body: Any, at_most: int) -> None:
    """Offsets for a group's coordinator, which may still be loading."""
    deadline = cluster.deadline()

    async def ask(broker: int, keys: Any) -> Any:
        answer = await cluster.ask_broker(broker, body, deadline, at_most=at_most)
        code = max(one.error_code for topic in answer.topics for one in topic.partitions)
        return {group: BrokerError(code, f"offsets of {group}") if code else answer}

    (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline)).all()


async def _to_controller(cluster: Cluster, body: Any) -> Any:
    """Any broker passes it on."""
    return await cluster.ask_any(body, cluster.deadline())


async def settled(admin: Admin, user: str, rights: int) -> None:
    """Waits until every broker knows that a user has `rights` ACLs."""
    deadline = admin.cluster.deadline()
    body = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    while True:
        answer = await admin.cluster.ask_any(body, deadline)
        if sum(len(resource.acls) for resource in answer.resources) == rights:
            return
        assert await deadline.sleep(0.02)
