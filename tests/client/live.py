"""What tests ask a real cluster to do that the client has no call for: topics, users, rights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from kafkawire.client import Admin, Cluster
from kafkawire.messages import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kafkawire.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from kafkawire.messages.create_acls_request import AclCreation
from kafkawire.messages.create_topics_request import CreatableTopic
from kafkawire.messages.delete_acls_request import DeleteAclsFilter

SCRAM_256, SCRAM_512 = 1, 2
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 7, 8, 9
_ANY, _LITERAL, _DENY, _ALLOW = 1, 3, 2, 3
_TOPIC_ALREADY_EXISTS = 36
_CLUSTER_NAME = "kafka-cluster"


async def create_topics(admin: Admin, topics: Mapping[str, int], replicas: int = 1) -> None:
    """Topics with their numbers of partitions."""
    body = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=replicas)
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


async def grant(admin: Admin, user: str, *rights: tuple[int, str, int], deny: bool = False) -> None:
    """Rights as (type of resource, its name or `*`, operation)."""
    body = CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=kind,
                resource_name=_CLUSTER_NAME if kind == CLUSTER else name,
                resource_pattern_type=_LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=_DENY if deny else _ALLOW,
            )
            for kind, name, operation in rights
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


async def _to_controller(cluster: Cluster, body: Any) -> Any:
    """Any broker passes it on."""
    return await cluster.ask_any(body, cluster.deadline())


async def settled(admin: Admin, user: str, rights: int) -> None:
    """Waits until the brokers know that a user has so many rights."""
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
