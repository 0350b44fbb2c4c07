"""Whatever answers at the address, every `kafkawire txn` command reports it in one line, exits 1, and ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListTransactionsRequest,
    MetadataRequest,
)
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.testing.server import reset
from tests.cli.runner import Run
from tests.client.answers import describing, listing, producers
from tests.client.partition_script import in_thread
from tests.client.scripted import RESET, ScriptedBroker

pytestmark = pytest.mark.slow

COMMANDS = {
    "list": ("list",),
    "describe": ("describe", "--transactional-id", "a"),
    "describe-producers": ("describe-producers", "--topic", "orders", "--partition", "0"),
    "find-hanging": ("find-hanging", "--topic", "orders"),
    "abort": ("abort", "--topic", "orders", "--partition", "0", "--start-offset", "40", "--dry-run"),
    "force-terminate": ("force-terminate", "--transactional-id", "a", "--dry-run"),
}
HASTE = {"request.timeout.ms": 200, "default.api.timeout.ms": 600, "socket.connection.setup.timeout.ms": 200}


class Stranger(ScriptedBroker):
    """Sends the same bytes to every client, and closes the connection."""

    def __init__(self, reply: bytes | str) -> None:
        super().__init__()
        self.reply = reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        if isinstance(self.reply, str):
            reset(writer)
            return
        writer.write(self.reply)
        writer.close()


STRANGERS = {
    "an HTTP server": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers here"),
    "a TLS listener": (bytes.fromhex("15030300020250"), "set security.protocol to SSL or SASL_SSL"),
    "an SSH server": (b"SSH-2.0-OpenSSH_9.2\r\n", "an SSH server answers here"),
    "closes the connection": (b"", "no Kafka listener, or one that requires TLS"),
    "one who resets": (RESET, "closed the connection"),
    "one who writes to terminals": (b"\x1b[2J\x1b]0;owned\x07\r\n", ""),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in HASTE.items()))
    return file


def error_line(run: Run, broker: ScriptedBroker, command: str, config: Path) -> str:
    """The one line on standard error."""
    result = run("txn", *COMMANDS[command], "--bootstrap-server", broker.address, "--command-config", config)
    assert (result.code, result.text) == (1, "")
    (line,) = (line for line in result.err.splitlines() if not line.startswith("note: "))
    assert line.startswith("error: ")
    assert line.isprintable()
    return line


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("stranger", STRANGERS)
def test_servers_that_are_no_brokers_are_reported(run: Run, config: Path, stranger: str, command: str) -> None:
    reply, text = STRANGERS[stranger]
    with in_thread(Stranger(reply)) as broker:
        line = error_line(run, broker, command, config)
        assert broker.address in line
        assert text in line


# A broker that knows Kafka --------------------------------------------------------------------------------------------


@pytest.fixture(params=["closes", "resets", "says nothing", "says nonsense", "denies"])
def failing(request: pytest.FixtureRequest) -> Iterator[tuple[ScriptedBroker, str]]:
    """Fails at whatever comes after its metadata."""
    broker = ScriptedBroker({"orders": {0: 1}, "__transaction_state": {0: 1}})

    def found(body: Any) -> FindCoordinatorResponse:
        denied = (Coordinator(key=key, node_id=-1, error_code=53) for key in body.coordinator_keys)
        return FindCoordinatorResponse(coordinators=tuple(denied))

    nonsense = bytes.fromhex("00000007 00000000 ffffff")
    reply: Any = {"closes": None, "resets": RESET, "says nothing": ..., "says nonsense": nonsense}.get(request.param)
    for kind in (
        ListTransactionsRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        FindCoordinatorRequest,
    ):
        broker.on[kind] = lambda _: reply
    if request.param == "denies":
        broker.on |= {FindCoordinatorRequest: found, DescribeProducersRequest: producers(29)}
        broker.on |= {DescribeTransactionsRequest: describing(53), MetadataRequest: broker.metadata}
    with in_thread(broker) as running:
        yield running, request.param


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "list"])
def test_failing_brokers_are_reported(
    run: Run, config: Path, failing: tuple[ScriptedBroker, str], command: str
) -> None:
    broker, how = failing
    line = error_line(run, broker, command, config)
    if how == "denies":
        assert "the principal needs " in line
    else:
        assert broker.address in line


def test_commands_report_on_standard_error_and_refuse_before_they_connect(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: listing("a")
    with in_thread(broker):
        given = ("txn", "list", "--bootstrap-server", broker.address, "--command-config", file)
        file.write_text("reqest.timeout.ms=1\n")
        result = run(*given)
        sentence = f"warning: {file}: reqest.timeout.ms: no such client property; request.timeout.ms?\n"
        assert (result.code, result.err) == (0, sentence)
        connected = broker.connections
        file.write_text("security.protocl=SSL\n")
        result = run(*given)
        assert (result.code, result.text) == (1, "")
        assert result.err == "error: security.protocl: no such client property; security.protocol?\n"
        assert broker.connections == connected


@pytest.mark.parametrize("command", ["find-hanging", "watch", "abort", "force-terminate"])
def test_rejects_a_limit_that_no_broker_can_have(run: Run, command: str) -> None:
    given = COMMANDS.get(command, (command,))
    result = run("txn", *given, "--bootstrap-server", "127.0.0.1:1", "--max-transaction-timeout", 900_000)
    assert (result.code, result.text) == (2, "")
    sentence = (
        "900000 minutes are more than a broker can have (35791; an int32 of milliseconds); 900000 milliseconds are 15"
    )
    assert sentence in result.err


@pytest.mark.parametrize(("minutes", "warned"), [(30, False), (61, True), (35_791, True)])
def test_warns_of_a_limit_above_the_brokers(run: Run, minutes: int, warned: bool) -> None:
    broker = ScriptedBroker({"orders": {0: 1}, "__transaction_state": {0: 1}})
    broker.versions[32] = (1, 4)
    broker.on[DescribeProducersRequest] = producers(start=-1)
    config = DescribeConfigsResourceResult(name="transaction.max.timeout.ms", value="3600000")
    broker.on[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
        results=(DescribeConfigsResult(configs=(config,)),)
    )
    with in_thread(broker):
        for command in (("find-hanging",), ("watch", "--once")):
            given = ("--topic", "orders", "--bootstrap-server", broker.address, "--max-transaction-timeout", minutes)
            result = run("txn", *command, *given)
            assert result.code == 0
            assert result.err.startswith("warning: --max-transaction-timeout is ") is warned
            assert ("the transaction.max.timeout.ms of broker 1 is 1 h" in result.err) is warned
