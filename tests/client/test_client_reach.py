"""Faults on the way to a cluster: each is one sentence, and nothing waits past its deadline."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kafkawire.client import (
    AuthenticationError,
    Cluster,
    Config,
    ConnectError,
    PeerError,
    RequestTimeoutError,
    TlsError,
)
from kafkawire.client.cluster import brokers
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.transport import broker_link
from kafkawire.client.transport.broker_link import Link
from kafkawire.messages import (
    ListTransactionsRequest,
)
from tests.client.answers import admin, listing, scenario
from tests.client.scripted import ScriptedBroker, closed_port, served, silence

pytestmark = pytest.mark.slow


@scenario
async def test_refused_connection_is_an_error() -> None:
    port = await closed_port()
    async with admin(f"127.0.0.1:{port}", default_api_timeout_ms="60000") as client:
        with pytest.raises(ConnectError, match=f"^127.0.0.1:{port}: connection refused: nothing listens there$"):
            await client.list_transactions()


@scenario
async def test_unknown_host_is_an_error() -> None:
    async with admin("no-such-host.invalid:9092") as client:
        with pytest.raises(ConnectError, match="host name cannot be found"):
            await client.list_transactions()


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "a\0b", "\udcff"])
@scenario
async def test_impossible_host_names_are_an_error(host: str) -> None:
    async with admin(f"{host}:9092") as client:
        with pytest.raises(ConnectError, match="this is no address"):
            await client.list_transactions()


@pytest.mark.parametrize("port", [-1, 0x10000, 2**31 - 1])
@scenario
async def test_an_invalid_advertised_port_is_an_error(port: int) -> None:
    broker = ScriptedBroker()
    broker.brokers = {1: port}
    async with broker.running(), admin(broker.address) as client:
        (error,) = (await client.list_transactions(timeout_s=0.2)).errors.values()
        assert f"127.0.0.1:{port}: this is no address" in str(error)


@scenario
async def test_skips_an_address_that_refuses_connections() -> None:
    dead = await closed_port()
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: listing("a")
    async with broker.running(), admin(f"127.0.0.1:{dead}", broker.address) as client:
        assert len((await client.list_transactions()).all()[1]) == 1


@scenario
async def test_an_address_that_does_not_answer_among_living_ones() -> None:
    """The second is tried while the first still keeps silent."""
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: listing("a")
    async with (
        served(silence) as silent,
        broker.running(),
        admin(f"127.0.0.1:{silent}", broker.address, default_api_timeout_ms="10000") as client,
    ):
        assert len((await client.list_transactions()).all()[1]) == 1


@scenario
async def test_all_addresses_are_named() -> None:
    ports = [await closed_port(), await closed_port()]
    async with admin(*(f"127.0.0.1:{port}" for port in ports)) as client:
        with pytest.raises(ConnectError) as caught:
            await client.list_transactions()
    assert all(str(port) in str(caught.value) for port in ports)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers here"),
        (bytes.fromhex("15030300020250"), "this is a TLS listener: set security.protocol"),
        (b"", "no Kafka listener, or one that requires TLS"),
    ],
)
@scenario
async def test_names_servers_that_are_no_brokers(sent: bytes, reason: str) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(sent)
        writer.close()

    async with served(stranger) as port, admin(f"127.0.0.1:{port}") as client:
        with pytest.raises(PeerError, match=reason):
            await client.list_transactions()


@scenario
async def test_silent_server_is_a_timeout() -> None:
    async with (
        served(silence) as port,
        admin(f"127.0.0.1:{port}", socket_connection_setup_timeout_ms="300") as client,
    ):
        with pytest.raises(RequestTimeoutError, match=r"connected, but no answer.* in 0\.3 s"):
            await client.list_transactions()


@pytest.mark.parametrize("rude", [True, False])
@scenario
async def test_tls_to_a_plaintext_port_is_an_error(rude: bool) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" if rude else b"")
        writer.close()

    async with served(stranger) as port, admin(f"127.0.0.1:{port}", security_protocol="SSL") as client:
        with pytest.raises(TlsError, match="plaintext listener"):
            await client.list_transactions()


@pytest.mark.parametrize("opening", range(4))
@scenario
async def test_a_connection_that_opens_together_with_refused_logins_is_closed(
    opening: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refusal that is looked at ends the call, and no caller gets the open connection."""
    monkeypatch.setattr(brokers, "_FIRST_GRACE_S", 0.01)
    opened: list[Link] = []
    begun: list[int] = []
    together = asyncio.Event()
    broker = ScriptedBroker()
    async with broker.running():
        client = Cluster(Config.of(",".join(f"127.0.0.1:{port}" for port in range(1, 5))))

        async def connect(host: str, port: int, deadline: Deadline) -> Link:
            if port == opening + 1:
                opened.append(await broker_link.connect("127.0.0.1", broker.port, client.config, None, 5, None))
            begun.append(port)
            if len(begun) == 4:
                together.set()
            await together.wait()
            if port == opening + 1:
                return opened[0]
            raise AuthenticationError(host, "no")

        monkeypatch.setattr(client, "_open", connect)
        async with client:
            with suppress(AuthenticationError):
                await client.known_brokers(client.deadline())
        assert [link.usable for link in opened] == [False]
