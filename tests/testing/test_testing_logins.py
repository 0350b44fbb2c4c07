"""Logins and TLS of the mock broker, with the client of this project and with raw bytes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkawire import frames
from kafkawire.client import Cluster, Config
from kafkawire.client.errors import ClientError
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kafkawire.testing import MockBroker
from kafkawire.testing.state.call import Call
from kafkawire.testing.state.login import Login
from kafkawire.testing.state.logins import Logins
from tests.client.certificates import make_identity

USERS = {"alice": "secret", "böb": "p,=ß"}
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def properties(mechanism: str, user: str = "alice", password: str = "secret") -> dict[str, str]:
    module = MODULES[mechanism.partition("-")[0]]
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def ask(broker: MockBroker, given: dict[str, str]) -> Any:
    async def run() -> Any:
        async with Cluster(Config.of(broker.address, given)) as cluster:
            return await cluster.ask(MetadataRequest(topics=None), timeout_s=10)

    return asyncio.run(run())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_own_client_logs_in_and_a_wrong_password_does_not(mechanism: str) -> None:
    with MockBroker({"orders": 1}, users=USERS) as broker:
        assert [topic.name for topic in ask(broker, properties(mechanism)).topics] == ["orders"]
        assert ask(broker, properties(mechanism, "böb", "p,=ß")).topics
        assert not broker.refusals
        for user, password in (("alice", "guess"), ("nobody", "secret"), ("nobody", "-")):
            with pytest.raises(ClientError, match="Authentication failed"):
                ask(broker, properties(mechanism, user, password))
            assert "the login failed" in broker.refusals[-1]
        assert len(broker.requests.of(MetadataRequest)) == 2


def test_tls_and_login_together(tmp_path: Path) -> None:
    identity = make_identity()
    pem = tmp_path / "broker.pem"
    pem.write_text(identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": identity.certificate}
    with MockBroker({"orders": 1}, nodes=2, tls=context, users=USERS) as broker:
        found = ask(broker, properties("PLAIN") | trusted | {"security.protocol": "SASL_SSL"})
        assert [one.port for one in found.brokers] == [int(a.rpartition(":")[2]) for a in broker.addresses.values()]
        with pytest.raises(ClientError):
            ask(broker, properties("PLAIN"))  # without TLS


class Peer:
    """A client that sends what it likes."""

    def __init__(self, broker: MockBroker) -> None:
        host, _, port = broker.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        weakref.finalize(self, self.socket.close)
        self._reader = frames.FrameReader()

    def ask(self, body: Any, version: int) -> Any:
        """The response; None at the end of the connection."""
        with suppress(ConnectionError):
            self.socket.sendall(frames.encode_request(body, version=version, correlation_id=7))
            while data := self.socket.recv(1 << 16):
                for frame in self._reader.feed(data):
                    found = frames.decode_response(frame, api_key=type(body).spec.api_key, version=version)
                    assert isinstance(found, frames.Response)
                    return found.body
        return None


def test_nothing_is_served_before_the_login() -> None:
    with MockBroker({"orders": 1}, users=USERS, tokens=["abc"]) as broker:
        assert Peer(broker).ask(MetadataRequest(topics=None), 9) is None
        assert broker.refusals[-1] == "MetadataRequest before the login"
        peer = Peer(broker)
        assert {17, 36} <= {one.api_key for one in peer.ask(ApiVersionsRequest(), 0).api_keys}
        assert peer.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 1).error_code == 34
        assert peer.ask(MetadataRequest(topics=None), 9) is None  # it is closed
        peer = Peer(broker)
        answer = peer.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == CODES["UNSUPPORTED_SASL_MECHANISM"]
        assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
        assert peer.ask(ApiVersionsRequest(), 0) is None
        peer = Peer(broker)
        assert peer.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        assert peer.ask(SaslAuthenticateRequest(auth_bytes=b"n,,\1auth=Bearer abc\1\1"), 2).error_code == 0
        assert peer.ask(MetadataRequest(topics=None), 9).topics[0].name == "orders"
        assert peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == CODES["ILLEGAL_SASL_STATE"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"\0",
        b"\0\0\0",
        b"alice",
        b"bob\0alice\0secret",
        b"n,,",
        b"n,,n=,r=",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=" + b"x" * 9999,
        b"p=tls-unique,,n=alice,r=x",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Bearer abd\1\1",
    ],
)
def test_rubbish_does_not_log_in(mechanism: str, token: bytes) -> None:
    logins = Logins(USERS, ["abc"])
    login = Login()
    logins.handshake(Call(SaslHandshakeRequest(mechanism=mechanism), 1, login=login))
    for each in (token, b"c=biws,r=x,p=", token):
        if login.failed:
            break
        logins.authenticate(Call(SaslAuthenticateRequest(auth_bytes=each), 1, login=login))
    assert login.failed
    assert login.user is None
