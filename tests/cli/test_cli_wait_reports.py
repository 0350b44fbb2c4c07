"""What a command waits for is on standard error: a line on a terminal, a line for each wait elsewhere; nothing of what
is fast."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli import wait_reports
from kafkawire.client.cluster.current_waits import CurrentWaits
from kafkawire.messages import ApiVersionsRequest, DescribeProducersRequest, ListTransactionsRequest, MetadataRequest
from tests.cli.runner import Run
from tests.client.answers import listing, producers
from tests.client.partition_script import in_thread
from tests.client.scripted import ScriptedBroker

pytestmark = pytest.mark.slow  # they wait


class Stream(io.StringIO):
    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def err(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """What waits are reported on, each of them at once."""
    monkeypatch.setattr(wait_reports, "AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Stream()


def test_a_pipe_gets_one_line_for_each_wait(err: Stream) -> None:
    waits = CurrentWaits()
    reporter = wait_reports.Reporter(waits, stream=err)
    for _ in range(3):
        with waits.on("a", "broker 2 (h:1): no answer to \x1b[2JFetch", 30), waits.on("b", "something else", 2.5):
            reporter.look()
            reporter.look()
    lines = err.getvalue().splitlines()
    assert len(lines) == 2
    pattern = r"note: waiting since .*2\d\d\d-.*, for 30 s at most: broker 2 \(h:1\): no answer to \\x1b\[2JFetch"
    assert re.fullmatch(pattern, lines[0])
    assert lines[1].endswith("for 2.5 s at most: something else")


def test_what_is_fast_again_is_reported_when_it_is_slow_again(err: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = CurrentWaits()
    reporter = wait_reports.Reporter(waits, stream=err)

    def slow() -> None:
        monkeypatch.setattr(wait_reports, "AFTER_S", 0.0)
        with waits.on("a", "it", 30):
            reporter.look()

    slow()
    slow()
    assert err.getvalue().count("note: ") == 1
    monkeypatch.setattr(wait_reports, "AFTER_S", 1000.0)
    with waits.on("a", "it", 30):
        reporter.look()
    slow()
    assert err.getvalue().count("note: ") == 2


def test_what_is_fast_is_not_reported(err: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_reports, "AFTER_S", 1000.0)
    for terminal in (False, True):
        err.terminal = terminal
        waits = CurrentWaits()
        reporter = wait_reports.Reporter(waits, stream=err)
        with waits.on("a", "it", 30):
            reporter.look()
        reporter.clear()
    assert err.getvalue() == ""


def test_a_terminal_has_a_line_that_goes_when_the_wait_ends(err: Stream) -> None:
    err.terminal = True
    waits, counting = CurrentWaits(), wait_reports.Counting()
    reporter = wait_reports.Reporter(waits, counting, err)
    counting.advance(2, 3)
    with waits.on("a", "broker 2 (h:1): no answer to \x1b[2J" + "x" * 200, 30), waits.on("b", "other", 30):
        reporter.look()
    drawn = err.getvalue()
    assert drawn.startswith("\r\x1b[K2 of 3 partitions; waiting 0 s of 30 s: broker 2 (h:1): no answer to \\x1b[2Jxx")
    assert drawn.endswith("x\r\x1b[K"), "the line is removed with the wait"
    assert len(drawn.removesuffix("\r\x1b[K")) - len("\r\x1b[K") == 79
    assert "\n" not in drawn
    counting.advance(1, 3)
    reporter.look()
    assert err.getvalue() == drawn


def test_a_terminal_that_cannot_draw_gets_lines(err: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    err.terminal = True
    monkeypatch.setenv("TERM", "dumb")
    waits = CurrentWaits()
    reporter = wait_reports.Reporter(waits, stream=err)
    with waits.on("a", "it", 30):
        reporter.look()
    assert err.getvalue().startswith("note: waiting since ")


# Commands -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(wait_reports, "AFTER_S", 0.2)
    monkeypatch.setattr(wait_reports, "_TICK_S", 0.05)
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=1500\ndefault.api.timeout.ms=6000\nsocket.connection.setup.timeout.ms=1000\n")
    return file


def hanging(kind: Any) -> tuple[ScriptedBroker, ScriptedBroker]:
    """Two brokers; the second one never answers a request."""
    first = ScriptedBroker({"orders": {0: 1, 1: 2}, "__transaction_state": {0: 1}})
    second = ScriptedBroker(node_id=2)
    for broker in (first, second):
        broker.on |= {ListTransactionsRequest: lambda _: listing("a"), DescribeProducersRequest: producers(start=-1)}
        broker.on[MetadataRequest] = first.metadata
    second.on[kind] = lambda _: ...
    return first, second


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("list",), ListTransactionsRequest),
        (("find-hanging", "--topic", "orders"), DescribeProducersRequest),
        (("watch", "--topic", "orders", "--once"), DescribeProducersRequest),
    ],
)
def test_a_broker_that_does_not_answer_is_named_with_the_request(
    run: Run, config: Path, command: tuple[str, ...], kind: Any
) -> None:
    first, second = hanging(kind)
    with in_thread(second), in_thread(first):
        first.brokers = {1: first.port, 2: second.port}
        result = run("txn", *command, "--bootstrap-server", first.address, "--command-config", config)
    assert result.code == 4
    request = kind.__name__.removesuffix("Request")
    text = rf"note: waiting since \S.*, for 1\.5 s at most: broker 2 \({second.address}\): no answer to {request}"
    assert re.search(text, result.err), result.err
    assert len(re.findall(text, result.err)) == 1
    if command[0] == "watch":
        assert json.loads(result.text.splitlines()[-1])["outcome"] == "incomplete"


def test_a_broker_that_accepts_and_never_answers_is_named(run: Run, config: Path) -> None:
    first, second = hanging(ListTransactionsRequest)
    with in_thread(second), in_thread(first):
        second.on[ApiVersionsRequest] = lambda _: ...
        first.brokers = {1: first.port, 2: second.port}
        result = run("txn", "list", "--bootstrap-server", first.address, "--command-config", config)
    assert result.code == 4
    assert f"for 1 s at most: broker 2 ({second.address}): no connection yet, or no answer on it" in result.err


def test_a_partition_without_a_leader_is_named(run: Run, config: Path) -> None:
    first, second = hanging(ListTransactionsRequest)
    with in_thread(second), in_thread(first):
        first.brokers = {1: first.port, 2: second.port}
        first.topics["orders"][1] = -1
        given = ("--topic", "orders", "--bootstrap-server", first.address, "--command-config", config)
        result = run("txn", "find-hanging", *given)
    assert result.code == 4
    assert "for 1 s at most: partition orders-1: LEADER_NOT_AVAILABLE" in result.err


def test_a_fast_cluster_leaves_standard_error_empty(run: Run, config: Path) -> None:
    first, second = hanging(MetadataRequest)
    with in_thread(second), in_thread(first):
        first.brokers = {1: first.port}
        result = run("txn", "list", "--bootstrap-server", first.address, "--command-config", config)
    assert (result.code, result.err) == (0, "")
