"""`secure`: one real broker with plaintext, SASL and TLS listeners and an authorizer, for all tests of the package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from kafkawire.client import Admin, AuthenticationError
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tests.client.certificates import Identity, make_identity
from tests.client.principals import PRINCIPALS
from tests.distribution import Shared
from tools.broker import RunningCluster
from tools.broker.cluster import free_ports

HOST = "127.0.0.1"
USER, PASSWORD = "alice", "wonder land"
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


def login(
    mechanism: str = "PLAIN", password: str = PASSWORD, protocol: str = "SASL_PLAINTEXT", user: str = USER
) -> dict[str, str]:
    who = f'username="{user}" password="{password}"'
    if mechanism == "OAUTHBEARER":
        who = f'unsecuredLoginStringClaim_sub="{USER}"'
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]} required {who};"
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": module}


class Secure(NamedTuple):
    """A running broker. Everything is permitted on the plaintext listener, and to users what they are granted: `alice`,
    and each of `PRINCIPALS`, once their tests have begun.

    Attributes:
        plain, sasl, tls: addresses of the listeners. `identity`: the certificate of the TLS listener.
    """

    cluster: RunningCluster
    plain: str
    sasl: str
    tls: str
    identity: Identity


class Guarded(NamedTuple):
    """As `Secure`, with two listeners and `alice` alone."""

    plain: str
    sasl: str


_KAFKA = "org.apache.kafka.common.security"
_LISTENER = "listener.name.sasl_plaintext"


def _guards(*users: str) -> dict[str, Any]:
    """An authorizer that permits everything on the plaintext listener, and users with passwords."""
    known = " ".join(f'user_{name}="{PASSWORD}"' for name in users)
    return {
        "transaction.partition.verification.enable": False,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        f"{_LISTENER}.plain.sasl.jaas.config": f"{_KAFKA}.plain.PlainLoginModule required {known};",
    }


@pytest.fixture(scope="module")
def secure(start_cluster: StartCluster, shared: Shared) -> Secure:
    pytest.importorskip("scramp")
    made: Secure = shared.start("secure", lambda: _secure(start_cluster))
    return made


@contextmanager
def _secure(start_cluster: StartCluster) -> Iterator[Secure]:
    identity = make_identity()
    plain, sasl, tls = free_ports(3)
    config = _guards(USER, *(one.name for one in PRINCIPALS)) | {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{_LISTENER}.scram-sha-256.sasl.jaas.config": f"{_KAFKA}.scram.ScramLoginModule required;",
        f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{_KAFKA}.scram.ScramLoginModule required;",
        f"{_LISTENER}.oauthbearer.sasl.jaas.config": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.keystore.key": identity.key,
    }
    with start_cluster(1, port=plain, listeners={"SASL_PLAINTEXT": sasl, "SSL": tls}, config=config) as running:
        made = Secure(running, f"{HOST}:{plain}", f"{HOST}:{sasl}", f"{HOST}:{tls}", identity)
        asyncio.run(_furnish(made))
        yield made


@pytest.fixture(scope="module")
def kafka_3_9(start_cluster: StartCluster, shared: Shared) -> Guarded:
    """A broker of the last release before 4, that lets transactions hang."""
    made: Guarded = shared.start("kafka 3.9", lambda: _kafka_3_9(start_cluster))
    return made


@contextmanager
def _kafka_3_9(start_cluster: StartCluster) -> Iterator[Guarded]:
    plain, sasl = free_ports(2)
    with start_cluster(1, version="3.9.1", port=plain, listeners={"SASL_PLAINTEXT": sasl}, config=_guards(USER)):
        yield Guarded(f"{HOST}:{plain}", f"{HOST}:{sasl}")


async def _furnish(secure: Secure) -> None:
    async with Admin.connect(secure.plain) as admin:
        await real_cluster.create_topics(admin, {"orders": 4, "payments": 2, "hang": 6})
        await real_cluster.create_scram_user(admin, USER, PASSWORD)
        deadline = admin.cluster.deadline()
    while not await _known(secure.sasl):  # a moment after they were created
        assert await deadline.sleep(0.05)


async def _known(address: str) -> bool:
    async with Admin.connect(address, login("SCRAM-SHA-512")) as admin:
        try:
            await admin.cluster.known_brokers(admin.cluster.deadline())
        except AuthenticationError:
            return False
    return True
