"""No socket stays open after a mock broker, a proxy or a client has ended, whatever its peer does."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kafkawire import frames
from kafkawire.client import Config
from kafkawire.client.transport import broker_link
from kafkawire.client.transport.broker_link import Link
from kafkawire.client.transport.connection import Connection
from kafkawire.messages import HeartbeatRequest, MetadataRequest
from kafkawire.proxy import Proxy
from kafkawire.testing import MockBroker
from tests.client.certificates import Identity, make_identity

#: More than the buffers of a connection's two ends take.
LARGE = 32 << 20
SIZE = 4


@contextmanager
def nothing_left_open() -> Iterator[None]:
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(one.message) for one in caught] == []


def connection(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity()


@pytest.fixture
def contexts(identity: Identity, tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of servers and of clients."""
    pem = tmp_path / "server.pem"
    pem.write_text(identity.certificate + identity.key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cadata=identity.certificate)


PROXIED = pytest.mark.parametrize("proxied", [False, True], ids=["broker", "proxy"])


@contextmanager
def served(proxied: bool, tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None) -> Iterator[tuple[MockBroker, str]]:
    """A broker, and the address at which clients reach it."""
    server, client = tls or (None, None)
    with MockBroker({"orders": 1}, tls=server) as broker:
        if not proxied:
            yield broker, broker.address
        else:
            with Proxy(broker.address, client_tls=server, broker_tls=client) as proxy:
                yield broker, proxy.address


@PROXIED
def test_peer_that_does_not_end_tls(contexts: tuple[ssl.SSLContext, ssl.SSLContext], proxied: bool) -> None:
    with nothing_left_open(), ExitStack() as stack:
        with served(proxied, contexts) as (_, address):
            plain = stack.enter_context(connection(address))
            peer = stack.enter_context(contexts[1].wrap_socket(plain, server_hostname="127.0.0.1"))
            peer.sendall(frames.encode_request(MetadataRequest(topics=None), version=9, correlation_id=1))
            assert len(peer.recv(SIZE)) == SIZE
            began = time.monotonic()
        assert time.monotonic() - began < 10  # asyncio would wait for 30 s


@PROXIED
def test_peer_in_the_middle_of_the_handshake(contexts: tuple[ssl.SSLContext, ssl.SSLContext], proxied: bool) -> None:
    with nothing_left_open(), ExitStack() as stack, served(proxied, contexts) as (_, address):
        stack.enter_context(connection(address)).sendall(b"\x16\x03")


@PROXIED
def test_peer_that_does_not_read(proxied: bool) -> None:
    with nothing_left_open(), ExitStack() as stack, served(proxied) as (broker, address):
        broker.answer(HeartbeatRequest, frames.with_size(bytes(LARGE)))
        peer = stack.enter_context(connection(address))
        peer.sendall(frames.encode_request(HeartbeatRequest(group_id="g"), version=4, correlation_id=0))
        assert len(peer.recv(SIZE)) == SIZE


@PROXIED
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "TLS"])
def test_connections_that_were_accepted_a_moment_ago(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], proxied: bool, tls: bool
) -> None:
    with nothing_left_open(), ExitStack() as stack:
        for _ in range(5):
            with served(proxied, contexts if tls else None) as (_, address):
                for _ in range(40):
                    stack.enter_context(connection(address))


def test_client_whose_broker_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_link, "_CLOSING_S", 0.01)

    async def run(port: int) -> None:
        streams = await asyncio.open_connection("127.0.0.1", port)
        link = Link(Connection(f"127.0.0.1:{port}"), streams, Config.of("127.0.0.1:1").max_in_flight)
        streams[1].write(bytes(LARGE))
        await link.close()

    with nothing_left_open(), socket.create_server(("127.0.0.1", 0)) as deaf:
        asyncio.run(run(deaf.getsockname()[1]))
