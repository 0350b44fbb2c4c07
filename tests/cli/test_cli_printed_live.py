"""Every command that live answers print is run as it stands, over real brokers that differ: a dynamic quorum with
raised timeouts, a paused broker, a dead one, and a principal with a password on a broker that has an authorizer."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from kafkawire.client import Admin
from tests.broker_fixture import StartCluster
from tests.cli.runner import Run
from tests.cli.test_cli_printed_commands import check, printed
from tests.cli.test_cli_why_broker import commit, do, now, with_topic
from tests.client import real_cluster
from tests.client.conftest import HOST, USER, _guards, login
from tools.broker import RunningCluster
from tools.broker.cluster import free_ports
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
TOPIC, GROUP, LIVE, LOST = "matrix", "matrix-group", "matrix-live", "matrix-lost"
RAISED = {"transaction.max.timeout.ms": 2 * HOUR_MS, "transaction.partition.verification.enable": False}
#: What is not answered is given up soon.
PATIENCE = {"request.timeout.ms": "500", "default.api.timeout.ms": "1000"}
ENDING = ("abort", "force-terminate", "commit")


def planted(cluster: RunningCluster) -> int:
    """A group, an open transaction of an hour's timeout, and one that hangs; the producer id of that."""
    with_topic(cluster, TOPIC, 3)
    with RawCluster(cluster.bootstrap) as wire:
        producer = wire.init_producer(LIVE, timeout_ms=HOUR_MS)
        wire.add_partitions(producer, {TOPIC: [0]})
        wire.produce(TOPIC, 0, [b"x"], producer, timestamp=now())
        lost = wire.init_producer(LOST)
        wire.produce(TOPIC, 1, [b"x"], lost, timestamp=now() - 3 * HOUR_MS)
        plain = wire.init_producer(None)
        wire.produce(TOPIC, 2, [b"x"], plain, timestamp=now(), transactional=False)
    commit(cluster, GROUP, TOPIC, {0: 0, 1: 0, 2: 0})
    return lost.producer_id


def answers(answering: Run, reach: tuple[str, ...], producer_id: int) -> str:
    """What the commands print that name others, with and without a limit that is given."""
    quick, text = ("--confirm-after", "0.1", "--blocked-after", "0"), ""
    for limit in ((), ("--max-transaction-timeout", "60")):
        for subject in (
            ("why", "--topic", TOPIC),
            ("why", "--group", GROUP),
            ("why", "--transactional-id", LIVE),
            ("why", "--producer-id", str(producer_id)),
            ("txn", "find-hanging", "--all", "--topic", TOPIC),
        ):
            words = subject if subject[0] == "txn" else (*subject, "--evidence")
            text += answering(*words, *reach, *limit, *quick, "--format", "table").text
    return text + answering("txn", "doctor", *reach, "--format", "table").text


def of_topic(answering: Run, reach: tuple[str, ...]) -> str:
    """The answer where a broker is missing: each waits for it, up to its timeout."""
    quick = ("--confirm-after", "0.1", "--blocked-after", "0", "--max-transaction-timeout", "60")
    return answering("why", "--topic", TOPIC, *reach, *quick, "--format", "table").text


def run_each(answering: Run, text: str, *, end: bool, partly: bool = False) -> list[str]:
    """Runs the commands in a text, those that end transactions last, each with its question answered.

    Args:
        end: whether those are run; without, with --dry-run. `partly`: brokers are missing, so that a command may say
            that it cannot be certain.
    """
    commands = [one for one in dict.fromkeys(printed(text)) if one.startswith("kafkawire ")]
    for command in sorted(commands, key=lambda one: shlex.split(one)[2] in ENDING):
        check(command)
        _, *words = shlex.split(command, comments=True)
        ends = words[1] in ENDING
        if ends and partly and not end:  # each waits for the broker: where one is dead, they are run
            continue
        result = answering(*words, *(("--dry-run",) if ends and not end else ()), stdin=b"y\ny\ny\n")
        gone = ends and ("no transaction" in result.err or "not open" in result.err or "nothing" in result.err)
        assert result.code in (0, 3, 4, 5) or (gone and end) or (partly and ends), (command, result.err)
    return commands


def test_dynamic_quorum_with_a_paused_and_a_dead_broker(
    three_voters: RunningCluster, answering: Run, state_home: Path, tmp_path: Path
) -> None:
    config = tmp_path / "my client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in PATIENCE.items()))
    cluster = three_voters
    producer_id = planted(cluster)
    with RawCluster(cluster.bootstrap) as wire:
        leader = wire.leaders([TOPIC])[TOPIC, 2]
    living = ",".join(node.address for node in cluster.nodes if node.node_id != leader)
    reach = "--bootstrap-server", living, "--command-config", str(config)
    whole = answers(answering, reach, producer_id)
    commands = run_each(answering, whole, end=False)
    assert {shlex.split(one)[2] for one in commands} >= {"abort", "force-terminate"}
    assert all(f"--command-config '{config}'" in one for one in commands)
    limited = [one for one in commands if "txn abort" in one and "--max-transaction-timeout 60" in one]
    assert limited
    process = next(node.process for node in cluster.nodes if node.node_id == leader)
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        run_each(answering, of_topic(answering, reach), end=False, partly=True)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    cluster.kill_node(leader)
    text = ""
    for _ in range(60):
        text = of_topic(answering, reach)
        if "no leader" in text:
            break
        time.sleep(0.5)
    assert "no leader" in text
    run_each(answering, text, end=True, partly=True)


def test_principal_of_an_authorizer(
    start_cluster: StartCluster, answering: Run, state_home: Path, tmp_path: Path
) -> None:
    """The properties that log in are part of each command; and each is one that the principal may run."""
    config = tmp_path / "alice.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in login().items()))
    plain, sasl = free_ports(2)
    options = {"port": plain, "listeners": {"SASL_PLAINTEXT": sasl}, "config": _guards(USER) | RAISED}
    with start_cluster(1, **options) as cluster:
        producer_id = planted(cluster)
        kinds = (real_cluster.TOPIC, real_cluster.GROUP, real_cluster.CLUSTER, real_cluster.TRANSACTIONAL_ID)

        async def granted() -> None:
            async with Admin.connect(cluster.bootstrap) as admin:
                await real_cluster.grant(admin, USER, *((kind, "*", real_cluster.ALL) for kind in kinds))
                await real_cluster.settled(admin, USER, len(kinds))

        do(granted())
        reach = "--bootstrap-server", f"{HOST}:{sasl}", "--command-config", str(config)
        commands = run_each(answering, answers(answering, reach, producer_id), end=True)
        assert {shlex.split(one)[2] for one in commands} >= {"abort", "force-terminate"}
        assert all(f"--command-config {config}" in one for one in commands)
        clear = answering("why", "--topic", TOPIC, *reach, "--format", "table")
        assert clear.text.splitlines()[0] == "Nothing blocks it."
