"""TLS and logins of the proxy: passed unread, ended at the proxy, or made by it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture
from kafkawire.client import Cluster, Config
from kafkawire.messages import ApiVersionsRequest, FetchRequest, MetadataRequest
from kafkawire.proxy import Fault, Proxy
from kafkawire.testing import MockBroker
from tests.client.certificates import Identity, make_identity

USERS = {"alice": "secret"}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required '
    'username="alice" password="secret";',
}  # fmt: skip


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity()


@pytest.fixture
def server(identity: Identity, tmp_path: Path) -> ssl.SSLContext:
    pem = tmp_path / "server.pem"
    pem.write_text(identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context


def trusting(identity: Identity) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": identity.certificate,
    }


def topics(address: str, given: dict[str, str] | None = None) -> list[str | None]:
    async def run() -> Any:
        async with Cluster(Config.of(address, given)) as cluster:
            return await cluster.ask(MetadataRequest(topics=None), timeout_s=10)

    return [topic.name for topic in asyncio.run(run()).topics]


def test_tls_of_clients_ends_at_the_proxy_and_that_of_brokers_begins(
    identity: Identity, server: ssl.SSLContext, tmp_path: Path
) -> None:
    path = tmp_path / "all.pcapng"
    to_broker = ssl.create_default_context(cadata=identity.certificate)
    with (
        MockBroker({"orders": 1}, tls=server) as broker,
        Proxy(broker.address, client_tls=server, broker_tls=to_broker, record=path) as proxy,
    ):
        assert topics(proxy.address, trusting(identity)) == ["orders"]
    assert "Metadata" in [row.api for row in capture.read(path)]  # without TLS


def test_tls_passes_unread(identity: Identity, server: ssl.SSLContext, tmp_path: Path) -> None:
    path = tmp_path / "all.pcapng"
    with (
        MockBroker({"orders": 1}, tls=server) as broker,
        Proxy(broker.address, pass_tls=True, record=path) as proxy,
    ):
        # What the broker advertises is its own address: the client's second connection goes there.
        assert topics(proxy.address, trusting(identity)) == ["orders"]
        assert broker.requests.of(ApiVersionsRequest)
        for refused in (
            lambda: proxy.fault(Fault(delay_s=1)),
            lambda: proxy.on_request(FetchRequest, lambda _: None),
            lambda: proxy.on_response(FetchRequest, lambda *_: None),
            lambda: proxy.hold(FetchRequest),
        ):
            with pytest.raises(ValueError, match="pass_tls"):
                refused()
    assert path.stat().st_size > 1000
    assert list(capture.read(path)) == []  # it is encrypted
    with pytest.raises(ValueError, match="pass_tls: nothing is read"):
        Proxy("127.0.0.1:1", pass_tls=True, client_tls=server)


def test_the_proxy_logs_in_for_its_clients() -> None:
    with MockBroker({"orders": 1}, users=USERS) as broker:
        with Proxy(broker.address, log_in=Config.of(broker.address, LOGIN)) as proxy:
            assert topics(proxy.address) == ["orders"]
            assert not proxy.problems
        wrong = LOGIN | {"sasl.jaas.config": LOGIN["sasl.jaas.config"].replace("secret", "guess")}
        with Proxy(broker.address, log_in=Config.of(broker.address, wrong)) as proxy:
            with pytest.raises(Exception, match="closed"):
                topics(proxy.address)
            assert "authentication" in proxy.problems[0].lower()
    with pytest.raises(ValueError, match="no credentials"):
        Proxy("127.0.0.1:1", log_in=Config.of("127.0.0.1:1"))


def test_logins_pass() -> None:
    with MockBroker({"orders": 1}, users=USERS) as broker, Proxy(broker.address) as proxy:
        assert topics(proxy.address, LOGIN) == ["orders"]


class Broken:
    """A file that takes so many bytes."""

    def __init__(self, room: int) -> None:
        self._room = room

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device")
        return len(data)

    def flush(self) -> None:
        pass


def test_a_recording_that_fails_ends_the_service() -> None:
    """What is not recorded is not served, so that a part is not taken for all."""
    told: list[str] = []
    with MockBroker({"orders": 1}) as broker:
        room: Any = Broken(600)
        with Proxy(broker.address, record=room, on_problem=told.append) as proxy:
            for _ in range(2):
                with pytest.raises(Exception, match=r"closed|reset"):
                    topics(proxy.address)
            assert proxy.recording_error is not None
        assert any("No space left on device" in text for text in told)


def test_a_filter_that_raises_ends_its_connection_and_is_named(broker_address: str) -> None:
    def wrong(_: MetadataRequest) -> None:
        raise RuntimeError("mine")

    with Proxy(broker_address) as proxy:
        proxy.on_request(MetadataRequest, wrong)
        with pytest.raises(Exception, match=r"closed|reset"):
            topics(proxy.address)
        assert any("a filter raised RuntimeError: mine" in text for text in proxy.problems)


@pytest.fixture
def broker_address() -> Iterator[str]:
    with MockBroker({"orders": 1}) as broker:
        yield broker.address


@pytest.mark.slow
def test_recording_to_standard_output(broker_address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkawire", "proxy", "--bootstrap-server", broker_address, "--listen", "0"]
    path = tmp_path / "out.pcapng"
    with (
        path.open("wb") as out,
        subprocess.Popen([*command, "--record", "-"], stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        line = process.stderr.readline()
        assert topics(line.removeprefix("listening on ").partition(" ")[0]) == ["orders"]
        process.terminate()
        assert process.wait(30) == 143
    assert "Metadata" in [row.api for row in capture.read(path)]
    assert not Path("-").exists()


@pytest.mark.slow
def test_problems_are_printed_and_a_full_disk_ends_the_command(broker_address: str) -> None:
    command = [sys.executable, "-m", "kafkawire", "proxy", "--bootstrap-server", broker_address, "--listen", "0"]
    with subprocess.Popen(
        [*command, "--record", "/dev/full"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert err == "error: /dev/full: No space left on device\n"
    command[command.index(broker_address)] = "127.0.0.1:1"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().removeprefix("listening on ").partition(" ")[0]
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            assert client.recv(1) == b""
        assert process.stderr.readline().startswith("note: 127.0.0.1:1: ")
        process.terminate()
        assert process.wait(30) == 143
