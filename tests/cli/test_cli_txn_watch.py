"""`kafkawire txn watch`: one poll with its exit codes, and the continuing process, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import typer

from kafkawire._installation import install_command
from kafkawire.cli.arguments import parse_address
from kafkawire.client import Admin
from tests.cli.runner import Run
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

pytest.importorskip("prometheus_client")

HOUR_MS = 3_600_000
TOPIC = "txn-watch"
INVENTED = RawProducer(876_543_210, 0)
HUNG = 'kafkawire_open_transactions{reason="no_transactional_id",verdict="hanging"}'


@pytest.fixture(scope="module")
def watched(broker: RunningCluster) -> str:
    """The address of a cluster where one transaction hangs in `TOPIC`-0, and nothing is in `TOPIC`-1."""
    old = int(time.time() * 1000) - 3 * HOUR_MS

    async def topics() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {TOPIC: 2, f"{TOPIC}-clear": 1})

    asyncio.run(topics())
    with RawCluster(broker.bootstrap) as wire:
        wire.produce(TOPIC, 0, [b"x"], INVENTED, timestamp=old)
    return broker.bootstrap


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kafkawire", "txn", "watch", *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def test_once_polls_once_and_exits(run: Run, watched: str, tmp_path: Path) -> None:
    """As find-hanging, for cron: 3 where one hangs; the metrics for node_exporter."""
    file = tmp_path / "kafka.prom"
    given = ("--bootstrap-server", watched, "--topic", TOPIC, "--confirm-after", "0.05")
    result = run("txn", "watch", *given, "--once", "--textfile", file)
    assert (result.code, result.err) == (3, "")
    appeared, poll = map(json.loads, result.text.splitlines())
    assert (appeared["kind"], appeared["change"]) == ("change", "appeared")
    assert (appeared["finding"]["verdict"], appeared["finding"]["partition"]) == ("hanging", 0)
    assert (poll["kind"], poll["outcome"], poll["partitions"]) == ("poll", "complete", 2)
    assert poll["transactions"] == {"hanging no_transactional_id": 1}
    assert f"{HUNG} 1.0\n" in file.read_text()
    result = run("txn", "watch", "--bootstrap-server", watched, "--topic", f"{TOPIC}-clear", "--once")
    assert (result.code, len(result.text.splitlines())) == (0, 1)


def test_lag_of_groups_is_in_the_metrics(run: Run, watched: str, tmp_path: Path) -> None:
    """Committed behind an open transaction's first record: none to read now, some held."""
    file, group = tmp_path / "kafka.prom", "txn-watch-group"

    async def commit() -> None:
        async with Admin.connect(watched) as admin:
            await real_cluster.commit_offsets(admin, group, TOPIC, {0: 0})

    asyncio.run(commit())
    given = ("--bootstrap-server", watched, "--topic", TOPIC, "--confirm-after", "0.05", "--once", "--textfile", file)
    result = run("txn", "watch", *given, "--lag", group, "--lag", "nobody")
    assert result.code == 3
    text = file.read_text()
    place = f'group="{group}",partition="0",topic="{TOPIC}"'
    assert f'kafkawire_group_lag_records{{bound="most",{place}}} 0.0' in text
    assert f'kafkawire_group_held_records{{bound="most",{place}}} 1.0' in text
    assert 'kafkawire_group_lag_unread{group="nobody"} 1.0' in text
    assert run("txn", "watch", "--bootstrap-server", watched, "--once", "--lag", group).code == 2


def test_once_exit_codes_for_unread_data(run: Run, watched: str) -> None:
    result = run("txn", "watch", "--bootstrap-server", "127.0.0.1:1", "--once")
    assert (result.code, result.err) == (1, "error: 127.0.0.1:1: connection refused: nothing listens there\n")
    (poll,) = map(json.loads, result.text.splitlines())
    assert poll["outcome"] == "failed"
    topics = ("--topic", f"{TOPIC}-clear", "--topic", "nowhere")
    result = run("txn", "watch", "--bootstrap-server", watched, *topics, "--once")
    assert result.code == 4
    assert result.err.startswith("incomplete: topic nowhere: UNKNOWN_TOPIC_OR_PARTITION")
    lost, poll = map(json.loads, result.text.splitlines())
    assert (lost["change"], lost["subject"], poll["outcome"]) == ("lost", "topic nowhere", "incomplete")


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_process_serves_metrics_until_a_signal(watched: str, signal_: signal.Signals, code: int) -> None:
    """It serves, prints, and ends at a signal without further output."""
    given = ("--bootstrap-server", watched, "--topic", TOPIC, "--confirm-after", "0.05", "--interval", "1")
    with process(*given, "--listen", "0", "--every-poll") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        note = watching.stderr.readline().decode()
        found = re.fullmatch(r"note: metrics are at (http://127\.0\.0\.1:\d+/metrics)\n", note)
        assert found, note
        rows = [json.loads(watching.stdout.readline()) for _ in range(3)]
        assert [row.get("change") or row["poll"] for row in rows] == ["appeared", 1, 2]
        with urlopen(found[1], timeout=20) as answer:
            text = answer.read().decode()
        assert f"{HUNG} 1.0\n" in text
        assert f'duration_seconds{{partition="0",topic="{TOPIC}"}}' in text
        watching.send_signal(signal_)
        out, err = watching.communicate(timeout=30)
    assert (watching.returncode, err) == (code, b"")
    assert all(json.loads(line)["kind"] == "poll" for line in out.splitlines())


def test_closed_pipe_ends_the_watch(watched: str) -> None:
    with process("--bootstrap-server", watched, "--topic", TOPIC, "--interval", "1", "--every-poll") as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.stdout.close()
        watching.stdout = None
        _, err = watching.communicate(timeout=30)
    assert (watching.returncode, err) == (141, b"")


# Without a cluster ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("metrics.example:1", ("metrics.example", 1)),
    ],
)
def test_parses_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9100", "host", "host:", "::1:9100", "[::1]", "host:65536", "host:-1", "1:²"])
def test_rejects_invalid_addresses(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not of the form \[HOST:\]PORT"):
        parse_address(text)


def test_invalid_options_are_usage_errors(run: Run) -> None:
    assert run("txn", "watch").code == 2
    there = ("txn", "watch", "--bootstrap-server", "127.0.0.1:1")
    assert run(*there, "--interval", "0").code == 2
    assert run(*there, "--listen", "nowhere").code == 2
    assert run(*there, "--listen", "0", "--once").code == 2


def test_port_in_use_is_reported(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("txn", "watch", "--bootstrap-server", "127.0.0.1:1", "--listen", port)
    assert (result.code, result.text) == (1, "")
    assert result.err == f"error: --listen 127.0.0.1:{port}: Address already in use\n"


def test_missing_prometheus_client_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = run("txn", "watch", "--bootstrap-server", "127.0.0.1:1", "--listen", "0")
    assert (result.code, result.err) == (
        1,
        f"error: metrics need prometheus-client: {install_command('net')}\n",
    )


def test_unsupported_configuration_ends_the_watch_at_once(run: Run, tmp_path: Any) -> None:
    """A mistake in the configuration ends it at once; what may come is waited for (test_client_watch)."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n")
    result = run("txn", "watch", "--bootstrap-server", "127.0.0.1:1", "--command-config", config)
    assert (result.code, result.text) == (1, "")
    assert "Kerberos (GSSAPI) is not supported" in result.err
