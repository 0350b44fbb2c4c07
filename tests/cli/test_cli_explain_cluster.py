"""`explain --bootstrap-server`: its rows are those that `explain` gives for the leader's own log directory."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from tests.cli.runner import Run
from tests.cli.test_cli_why_broker import with_topic
from tests.cli.test_cli_why_symptoms import segment_of
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster


def now() -> int:
    return int(time.time() * 1000)


def written(cluster: RunningCluster, topic: str, transactions: int) -> None:
    """Committed and aborted transactions, plain records, and one that stays open."""
    with RawCluster(cluster.bootstrap) as wire:
        producer, sequence = wire.init_producer(f"{topic}-id", timeout_ms=600_000), 0
        for number in range(transactions):
            wire.add_partitions(producer, {topic: [0]})
            wire.produce(topic, 0, [b"x" * 50] * (1 + number % 3), producer, timestamp=now(), sequence=sequence)
            sequence += 1 + number % 3
            assert wire.end(producer, committed=number % 3 != 0) == 0
        other = wire.init_producer(f"{topic}-open", timeout_ms=600_000)
        wire.add_partitions(other, {topic: [0]})
        wire.produce(topic, 0, [b"open"] * 2, other, timestamp=now())
        plain = wire.init_producer(None)
        wire.produce(topic, 0, [b"held"] * 3, plain, timestamp=now(), transactional=False)


def rows_of(run: Run, *args: object, code: int = 0) -> list[dict[str, Any]]:
    result = run("explain", *args, "--format", "jsonl")
    assert result.code == code, result.err
    return [json.loads(line) for line in result.text.splitlines()]


def without_places(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left_out = {"file", "segment", "broker"}
    return [{name: value for name, value in one.items() if name not in left_out} for one in found]


def test_rows_are_those_of_the_leaders_log(broker: RunningCluster, run: Run, tmp_path: Path) -> None:
    topic = "explain-live"
    with_topic(broker, topic, 1)
    written(broker, topic, 20)
    place = ("--topic", topic, "--partition", 0)
    live = rows_of(run, "--bootstrap-server", broker.bootstrap, *place, "--max-ranges", 0)
    copy = tmp_path / "copy"
    shutil.copytree(segment_of(broker, topic).parent, copy / f"{topic}-0")
    assert without_places(live) == without_places(rows_of(run, copy, *place, "--max-ranges", 0))
    assert {one["file"] for one in live} == {f"{broker.bootstrap}/{topic}-0"}
    assert "kafkawire-explain-" not in json.dumps(live)
    some = rows_of(run, "--bootstrap-server", broker.bootstrap, *place, "--from", 5, "--to", 9)
    ranges = [one for one in some if one["kind"] == "range"]
    assert (ranges[0]["first_offset"], ranges[-1]["last_offset"]) == (5, 8)


def test_story_of_an_offset_has_the_coordinators_records(broker: RunningCluster, run: Run) -> None:
    topic = "explain-story"
    with_topic(broker, topic, 1)
    written(broker, topic, 4)
    found = rows_of(run, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", 0, "--offset", 0)
    kinds = [one["kind"] for one in found]
    assert kinds[:3] == ["offset", "batch", "transaction"]
    assert found[2]["transactional_id"] == f"{topic}-id"
    states = [one["state"] for one in found if one["kind"] == "coordinator"]
    assert states[-1] == "CompleteAbort"


def test_what_is_not_fetched_is_said(broker: RunningCluster, run: Run) -> None:
    """The newest part; the transaction that holds the last stable offset began before it."""
    topic = "explain-part"
    with_topic(broker, topic, 1)
    with RawCluster(broker.bootstrap) as wire:
        first = wire.init_producer(f"{topic}-first", timeout_ms=600_000)
        wire.add_partitions(first, {topic: [0]})
        wire.produce(topic, 0, [b"first"], first, timestamp=now())
    written(broker, topic, 60)
    live = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", 0)
    result = run("explain", *live, "--fetch-bytes", 2000, "--format", "jsonl")
    assert result.code == 4
    assert f"{topic}-0: not read below offset " in result.err
    found = [json.loads(line) for line in result.text.splitlines()]
    assert found[0]["last_stable_offset"] == 0
    shown = [one for one in found if one["kind"] == "range"]
    assert shown[0]["first_offset"] > 0
    assert shown[-1]["last_offset"] == found[0]["high_watermark"] - 1
    (standing, *_) = rows_of(run, *live, "--fetch-bytes", 2000, "--offset", shown[-1]["last_offset"], code=4)
    assert standing["read_committed"] is False
    assert standing["detail"].endswith("read_committed consumers stop at the last stable offset, 0")


def test_partitions_that_are_not_there_and_options_that_do_not_fit(broker: RunningCluster, run: Run) -> None:
    topic = "explain-live"
    with_topic(broker, topic, 1)
    live = ("--bootstrap-server", broker.bootstrap)
    assert run("explain", *live, "--topic", topic, "--partition", 7).code == 1
    assert run("explain", *live, "--topic", "../x", "--partition", 0).code == 1
    for wrong in ((*live, "."), ("--fetch-bytes", 3), (".", "--command-config", "x"), (*live, "--tier-key", "k")):
        assert run("explain", *wrong, "--topic", topic, "--partition", 0).code == 2, wrong
