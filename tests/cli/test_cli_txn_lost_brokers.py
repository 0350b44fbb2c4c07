"""Three real brokers, of which one is killed and one is paused: what is waited for is named, what can be read is read,
and all is well when they are back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from kafkawire.client import Admin
from tests.broker_fixture import MAX_TIMEOUT_MS
from tests.cli.runner import Run
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = pytest.mark.broker

TOPIC = "lost"
INVENTED = RawProducer(765_432_109, 0)
LEFT, KILLED, PAUSED = 1, 2, 3
HOUR_MS = 3_600_000
TIMEOUT_S = 90.0
PROPERTIES = "socket.connection.setup.timeout.ms=3000\nrequest.timeout.ms=5000\ndefault.api.timeout.ms=10000\n"


@pytest.fixture(scope="module")
def three(three_voters: RunningCluster) -> RunningCluster:
    """Each broker leads one partition; in that of the first one a transaction hangs."""
    cluster = three_voters

    async def topics() -> None:
        async with Admin.connect(cluster.bootstrap) as admin:
            await real_cluster.create_topics(admin, {TOPIC: 3}, replicas=1)

    asyncio.run(topics())
    with RawCluster(cluster.bootstrap) as wire:
        leads = {leader: partition for (_, partition), leader in wire.leaders([TOPIC]).items()}
        assert sorted(leads) == [LEFT, KILLED, PAUSED]
        old = int(time.time() * 1000) - 3 * HOUR_MS
        wire.produce(TOPIC, leads[LEFT], [b"x"], INVENTED, timestamp=old)
        producer = wire.init_producer("lost-live")  # so that __transaction_state is there
        wire.add_partitions(producer, {TOPIC: [leads[LEFT]]})
    return cluster


@pytest.fixture
def lost(three: RunningCluster) -> Iterator[RunningCluster]:
    """One broker is killed, and one is paused. They are back afterwards."""
    paused = next(node.process for node in three.nodes if node.node_id == PAUSED)
    assert paused is not None
    three.kill_node(KILLED)
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        yield three
    finally:
        os.kill(paused.pid, signal.SIGCONT)
        three.start_node(KILLED)


def address(cluster: RunningCluster, node_id: int) -> str:
    return next(node.address for node in cluster.nodes if node.node_id == node_id)


def given(cluster: RunningCluster, folder: Path) -> tuple[str, ...]:
    file = folder / "client.properties"
    file.write_text(PROPERTIES)
    return "--bootstrap-server", address(cluster, LEFT), "--command-config", str(file)


def waits(err: str) -> list[str]:
    """What is waited for."""
    return re.findall(r"^note: waiting since .+?, for [0-9.]+ s at most: (.*)$", err, re.MULTILINE)


def test_commands_name_what_they_wait_for_and_read_the_rest(run: Run, lost: RunningCluster, tmp_path: Path) -> None:
    paused = f"broker {PAUSED} ({address(lost, PAUSED)})"
    result = run("txn", "list", *given(lost, tmp_path), "--format", "jsonl")
    assert result.code == 4
    assert f"{paused}: no connection yet, or no answer on it" in waits(result.err)
    assert f"broker {KILLED}: {address(lost, KILLED)}: connection refused: nothing listens there" in waits(result.err)
    result = run("txn", "find-hanging", "--topic", TOPIC, *given(lost, tmp_path), "--format", "json")
    assert result.code != 0
    assert f"{paused}: no connection yet, or no answer on it" in waits(result.err)
    assert len(waits(result.err)) == len(set(waits(result.err)))
    audit = json.loads(result.out)
    assert (audit["read"]["partitions"], audit["read"]["complete"]) == (1, False)
    assert [one["producer_id"] for one in audit["findings"]] == [INVENTED.producer_id]
    limit = {"name": "transaction.max.timeout.ms", "value": MAX_TIMEOUT_MS, "source": f"broker {LEFT}"}
    assert audit["read"]["settings"] == [limit]


def test_watch_shows_lost_brokers_and_continues_when_they_return(three: RunningCluster, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    command = [sys.executable, "-m", "kafkawire", "txn", "watch", "--topic", TOPIC, *given(three, tmp_path)]
    command += ["--interval", "5", "--confirm-after", "0.1", "--listen", "0", "--every-poll"]
    paused = next(node.process for node in three.nodes if node.node_id == PAUSED)
    assert paused is not None
    with (tmp_path / "err").open("wb") as err:
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err)
    assert watching.stdout is not None
    rows: list[dict[str, object]] = []

    def until(outcome: str, count: int = 1) -> None:
        """Waits for this many polls with this outcome."""
        assert watching.stdout is not None
        deadline = time.monotonic() + TIMEOUT_S
        while count:
            assert time.monotonic() < deadline, rows
            rows.append(json.loads(watching.stdout.readline()))
            count -= rows[-1].get("outcome") == outcome

    def metrics() -> dict[str, float]:
        url = re.search(r"note: metrics are at (\S+)", (tmp_path / "err").read_text())
        assert url is not None
        with urlopen(url[1], timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def brokers() -> tuple[float, float]:
        found = metrics()
        return found["kafkawire_brokers_expected"], found["kafkawire_brokers_answered"]

    try:
        until("complete")
        assert brokers() == (3, 3)
        assert metrics()[f'kafkawire_hanging{{partition="{_hung(rows)}",topic="{TOPIC}"}}'] == 1
        three.kill_node(KILLED)
        os.kill(paused.pid, signal.SIGSTOP)
        try:
            until("incomplete", 3)
            assert brokers() == (3, 1)
            assert metrics()["kafkawire_last_complete_timestamp_seconds"] < time.time() - 5
        finally:
            os.kill(paused.pid, signal.SIGCONT)
            three.start_node(KILLED)
        until("complete")
        assert brokers() == (3, 3)
        assert metrics()["kafkawire_stale"] == 0
    finally:
        watching.terminate()
        watching.communicate(timeout=30)
    errors = (tmp_path / "err").read_text()
    assert f"broker {PAUSED} ({address(three, PAUSED)})" in errors
    assert len(waits(errors)) == len(set(waits(errors))), "each wait is reported once, however many polls it takes"


def _hung(rows: list[dict[str, object]]) -> int:
    (finding,) = (row["finding"] for row in rows if row.get("change") == "appeared")
    assert isinstance(finding, dict)
    partition = finding["partition"]
    assert isinstance(partition, int)
    return partition
