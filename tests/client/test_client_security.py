"""Logins and certificates against small servers: token endpoints, client certificates, sessions that end."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client import Admin, AuthenticationError, TlsError
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import TokenSource
from kafkawire.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.client.answers import FAST, scenario
from tests.client.certificates import Identity, make_identity
from tests.client.scripted import ScriptedBroker, served

SASL = {17: (0, 1), 36: (0, 2)}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


# Tokens ---------------------------------------------------------------------------------------------------------------


def endpoint(status: str, answer: bytes, asked: list[bytes]) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        asked.append(head + await reader.readexactly(length))
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(answer), answer))
        writer.close()

    return handle


@scenario
async def test_gets_tokens_from_an_endpoint() -> None:
    """RFC 6749, 4.4: the client's id and secret as Basic authentication, the grant and scope in the form."""
    asked: list[bytes] = []
    broker = ScriptedBroker()
    broker.versions |= SASL
    broker.on[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(mechanisms=("OAUTHBEARER",))
    broker.on[SaslAuthenticateRequest] = lambda _: SaslAuthenticateResponse()
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse()
    answer = json.dumps({"access_token": "a.b.c", "expires_in": 60}).encode()
    async with served(endpoint("200 OK", answer, asked)) as port, broker.running():
        properties = FAST | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE} required clientId="me" clientSecret="s" scope="kafka all";',
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token",
        }
        async with Admin.connect(broker.address, properties) as client:
            assert (await client.list_transactions()).all() == {1: ()}
    head, _, form = asked[0].partition(b"\r\n\r\n")
    assert b"Basic " + base64.b64encode(b"me:s") in head
    assert urllib.parse.parse_qs(form.decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka all"]}
    tokens = [body.auth_bytes for body in broker.requests if isinstance(body, SaslAuthenticateRequest)]
    assert tokens[0] == b"n,,\x01auth=Bearer a.b.c\x01\x01"


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        ("401 Unauthorized", b"", "answers 401 Unauthorized"),
        ("200 OK", b"<html>", "answer is not JSON"),
        ("200 OK", b'{"error": "x"}', "has no access_token"),
        ("200 OK", b"[1]", "has no access_token"),
        ("200 OK", b"[" * 100_000, "answer is not JSON"),
        ("2OO OK", b"", r"cannot be used \(BadStatusLine"),
    ],
)
@scenario
async def test_token_endpoints_without_a_token_are_an_error(status: str, answer: bytes, reason: str) -> None:
    async with served(endpoint(status, answer, [])) as port:
        source = TokenSource(url=f"http://127.0.0.1:{port}/", client_id="me", client_secret="hunter2")
        with pytest.raises(AuthenticationError, match=reason) as caught:
            await asyncio.to_thread(get_token, source, 5)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"])
@scenario
async def test_a_redirect_does_not_take_the_secret_elsewhere(status: str) -> None:
    elsewhere: list[bytes] = []
    async with served(endpoint("200 OK", b'{"access_token": "a.b.c"}', elsewhere)) as other:
        answer = f"{status}\r\nLocation: http://127.0.0.1:{other}/".encode()
        async with served(endpoint(answer.decode(), b"", [])) as port:
            source = TokenSource(url=f"http://127.0.0.1:{port}/", client_id="me", client_secret="hunter2")
            with pytest.raises(AuthenticationError, match=f"the token endpoint answers {status}$"):
                await asyncio.to_thread(get_token, source, 5)
    assert elsewhere == []


@pytest.mark.slow
@scenario
async def test_a_token_endpoint_that_never_ends_its_answer_is_left() -> None:
    """Each byte comes in time for the socket; all of it has a limit."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        try:
            for _ in range(100):
                writer.write(b"x")
                await asyncio.sleep(0.02)
        finally:
            writer.close()

    async with served(drip) as port:
        properties = FAST | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE} required clientId="me" clientSecret="s";',
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token",
            "socket.connection.setup.timeout.ms": "200",
        }
        async with Admin.connect("127.0.0.1:1", properties) as client:
            began = time.monotonic()
            with pytest.raises(AuthenticationError, match=r"/token: no token came in 0\.2 s$"):
                await client.list_transactions()
            assert time.monotonic() - began < 1


# Sessions -------------------------------------------------------------------------------------------------------------


@scenario
async def test_a_session_that_ends_is_replaced() -> None:
    """KIP-368: the broker closes a connection whose session is over; a new one is made before."""
    broker = ScriptedBroker()
    broker.versions |= SASL
    broker.on[SaslHandshakeRequest] = lambda _: SaslHandshakeResponse(mechanisms=("PLAIN",))
    broker.on[SaslAuthenticateRequest] = lambda _: SaslAuthenticateResponse(session_lifetime_ms=100)
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse()
    properties = FAST | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="p";',
    }
    async with broker.running(), Admin.connect(broker.address, properties) as client:
        await client.list_transactions()
        assert broker.connections == 1
        while broker.connections == 1:
            await asyncio.sleep(0.01)
            assert (await client.list_transactions()).all() == {1: ()}


# Client certificates --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity()


@pytest.mark.parametrize("store", ["pem", "p12", "none"])
@scenario
async def test_sends_its_client_certificate(identity: Identity, store: str, tmp_path: Path) -> None:
    """A server that asks for a certificate gets ours, from PEM or PKCS#12; without one it refuses."""
    pem = tmp_path / "server.pem"
    pem.write_text(identity.key + identity.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=identity.certificate)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pem)
    properties = FAST | {"security.protocol": "SSL", "ssl.truststore.certificates": identity.certificate}
    if store == "pem":
        properties["ssl.keystore.location"] = str(pem)
    elif store == "p12":
        keys = tmp_path / "keys.p12"
        keys.write_bytes(identity.keystore("changeit"))
        properties |= {"ssl.keystore.location": str(keys), "ssl.keystore.password": "changeit"}
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse()
    async with served(broker.serve, ssl=context) as port:
        broker.brokers = {1: port}
        async with Admin.connect(f"127.0.0.1:{port}", properties) as client:
            if store == "none":
                with pytest.raises(TlsError, match=r"requires a client certificate|refuses our certificate"):
                    await client.list_transactions()
            else:
                assert (await client.list_transactions()).all() == {1: ()}
