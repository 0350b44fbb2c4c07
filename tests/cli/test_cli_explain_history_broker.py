"""The metadata log of real controllers, fetched: the history of a partition is the one that copies of the log give."""

from __future__ import annotations

import json
import shlex
import time
from itertools import count
from typing import Any

import pytest

from tests.broker_fixture import StartCluster
from tests.cli.runner import Run
from tests.docs.guide import blocks, commands
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings.clients import create_topics

pytestmark = pytest.mark.broker

TOPIC = "orders"
PLACE = ("--topic", TOPIC, "--partition", "0", "--partition-history")
#: The log is cut after the last but one of its checkpoints, once a minute.
CUT = {
    "metadata.log.max.record.bytes.between.snapshots": 4000,
    "metadata.log.max.snapshot.interval.ms": 1000,
    "metadata.log.segment.ms": 1000,
    "internal.metadata.log.segment.bytes": 1024,
    "internal.metadata.max.batch.size.in.bytes": 1024,
    "metadata.max.retention.bytes": 100,
}


@pytest.fixture(scope="module")
def three(three_brokers: RunningCluster) -> RunningCluster:
    """A topic of three replicas, of which one has left the in-sync replicas and come back."""
    create_topics(three_brokers.bootstrap, {TOPIC: 1}, replicas=3, config={})
    three_brokers.stop_node(3)
    three_brokers.start_node(3)
    return three_brokers


def events(run: Run, *words: object, code: int = 0) -> list[dict[str, Any]]:
    """The rows, without where they were read."""
    found = run("explain", *words, *PLACE, "--format", "jsonl")
    assert found.code == code, found.err
    rows = [json.loads(line) for line in found.text.splitlines()]
    return [{name: value for name, value in row.items() if name != "file"} for row in rows]


def back(run: Run, *words: object) -> list[dict[str, Any]]:
    """Once all three are in sync again."""

    def whole() -> list[dict[str, Any]] | None:
        rows = events(run, *words)
        return rows if len(rows) > 2 and sorted(rows[-1]["isr"]) == [1, 2, 3] else None

    return until(whole, "three replicas in sync", seconds=60)


def test_each_controller_and_each_broker_give_the_history_that_copies_give(three: RunningCluster, run: Run) -> None:
    live = back(run, "--bootstrap-server", three.bootstrap)
    assert live[0]["what"] == "the partition is made"
    assert any(sorted(row["isr"]) == [1, 2] for row in live)
    for node in three.nodes:
        assert events(run, "--bootstrap-controller", node.controller_address) == live
        assert events(run, "--bootstrap-server", node.address) == live
    assert events(run, *three.log_dirs.values()) == live


def test_printed_commands_run(three: RunningCluster, run: Run) -> None:
    """Those of the page and of the help, with the addresses of this cluster."""
    page = (command for block in blocks("docs/explain.md") for command in commands(block.text))
    help_text = (
        shlex.split(line)[1:] for line in run("explain", "--help").text.splitlines() if "kafkawire explain" in line
    )
    printed = {
        tuple(words)
        for words in (*page, *help_text)
        if "--partition-history" in words and any(word.startswith("--bootstrap") for word in words)
    }
    assert printed
    addresses = {
        "--bootstrap-controller": three.nodes[0].controller_address,
        "--bootstrap-server": three.bootstrap,
    }
    for words in printed:
        given = [addresses.get(before, word) for before, word in zip(("", *words), words, strict=False)]
        found = run(*given, "--format", "jsonl")
        assert (found.code, found.err) == (0, ""), words
        assert '"the partition is made"' in found.text


def test_controllers_that_are_no_brokers(start_cluster: StartCluster, run: Run) -> None:
    with start_cluster(1, controllers=1) as running:
        create_topics(running.bootstrap, {TOPIC: 1}, config={})
        (controller,) = running.controllers
        live = events(run, "--bootstrap-controller", controller.controller_address)
        assert live == events(run, "--bootstrap-server", running.bootstrap)
        assert live[0]["what"] == "the partition is made"


def test_what_is_not_read_is_named(three: RunningCluster, run: Run) -> None:
    few = run("explain", "--bootstrap-server", three.bootstrap, *PLACE, "--fetch-bytes", 2000)
    assert few.code in (1, 4)
    assert "--fetch-bytes is" in few.err


@pytest.mark.parametrize("what", ["a broker's listener", "nothing listens", "unknown topic"])
def test_errors_name_what_to_give(three: RunningCluster, run: Run, what: str) -> None:
    controller = ("--bootstrap-controller", three.nodes[0].controller_address)
    words, expected = {
        "a broker's listener": (("--bootstrap-controller", three.bootstrap, *PLACE), "a broker's listener"),
        "nothing listens": (("--bootstrap-controller", "127.0.0.1:1", *PLACE), "127.0.0.1:1"),
        "unknown topic": (
            (*controller, "--topic", "no-such", "--partition", 0, "--partition-history"),
            "no-such",
        ),
    }[what]
    found = run("explain", *words)
    assert found.code == 1, found.text
    assert expected in " ".join(found.err.split())
    assert "Traceback" not in found.err


def test_history_begins_with_the_checkpoint_that_the_log_begins_at(start_cluster: StartCluster, run: Run) -> None:
    with start_cluster(1, config=CUT) as running:
        create_topics(running.bootstrap, {TOPIC: 1})
        folder, number = running.log_dirs[1] / "__cluster_metadata-0", count()

        def cut() -> bool:
            create_topics(running.bootstrap, {f"more-{next(number)}": 10})
            time.sleep(5)
            return min(int(file.stem) for file in folder.glob("*.log")) > 0

        until(lambda: any(folder.glob("*[1-9]-*.checkpoint")), "a checkpoint", seconds=60)
        # What a checkpoint replaces is still in the log: each record counts once, in order.
        for words in (("--bootstrap-server", running.bootstrap), (running.log_dirs[1],)):
            assert [row["what"] for row in events(run, *words)] == ["the partition is made"]
        until(cut, "a log that begins later", seconds=180)
        live = events(run, "--bootstrap-controller", running.nodes[0].controller_address)
        assert [row["what"] for row in live] == ["as a checkpoint has it: what was before it is not known"]
        assert live == events(run, running.log_dirs[1])
