"""`why` and `lag` on a real broker: situations that people describe (redpanda#6423, FLINK-23854, sentry#3389), each
with its answer; and the commands of answers, run as they are printed."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client import Admin
from kafkawire.transactions.blocking.blocker_text import LINES, WIDTH, unwrapped
from tests.cli.runner import Result, Run
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster

OFFSETS = "__consumer_offsets"


def do(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


def with_topic(cluster: RunningCluster, name: str, partitions: int = 2, *, replicas: int = 1, **configs: str) -> None:
    async def make() -> None:
        async with Admin.connect(cluster.bootstrap) as admin:
            named = {key.replace("_", "."): value for key, value in configs.items()}
            await real_cluster.create_topics(admin, {name: partitions}, replicas, configs=named)

    do(make())


def send_offsets(cluster: RunningCluster, group: str, producer: Any, topic: str, *partitions: int) -> None:
    async def send() -> None:
        async with Admin.connect(cluster.bootstrap) as admin:
            for partition in partitions:
                await real_cluster.commit_offsets_in_transaction(admin, group, producer, topic, partition)

    do(send())


def commit(cluster: RunningCluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    async def send() -> None:
        async with Admin.connect(cluster.bootstrap) as admin:
            await real_cluster.commit_offsets(admin, group, topic, offsets)

    do(send())


def now() -> int:
    return int(time.time() * 1000)


def why(run: Run, cluster: RunningCluster, *args: object) -> dict[str, Any]:
    result = run("why", "--bootstrap-server", cluster.bootstrap, *args, "--format", "json")
    found: dict[str, Any] = json.loads(result.out)
    found["code"] = result.code
    return found


def printed(run: Run, cluster: RunningCluster, *args: object) -> Result:
    result = run("why", "--bootstrap-server", cluster.bootstrap, *args, "--format", "table")
    blocks = [block for block in result.text.split("\n\n") if block[:1].isdigit()]
    assert all(len(block.splitlines()) <= LINES for block in blocks), result.text
    assert all(len(line) <= WIDTH for line in result.text.splitlines()), result.text
    return result


def test_group_whose_offsets_are_in_the_transaction_of_a_dead_producer(
    broker: RunningCluster, run: Run, state_home: Path
) -> None:
    """redpanda#6423: one partition was committed before, the other never outside of a transaction."""
    topic, group, name = "why-unstable", "why-unstable-group", "why-unstable-id"
    with_topic(broker, topic)
    commit(broker, group, topic, {0: 0})
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=600_000)
    send_offsets(broker, group, producer, topic, 0, 1)
    found = why(run, broker, "--group", group)
    (blocker,) = found["blockers"]
    assert (blocker["cause"], blocker["transactional_id"], blocker["who"]) == ("live", name, "owner")
    assert [(one["what"], one["topic"], one["partition"]) for one in blocker["waits"]] == [
        ("offset", topic, 0), ("offset", topic, 1),
    ]  # fmt: skip
    assert blocker["until"] - blocker["since"] == 600_000
    shown = printed(run, broker, "--group", group, "--blocked-after", 0)
    assert "UNSTABLE_OFFSET_COMMIT" in shown.text
    (command,) = unwrapped(shown.text.splitlines())
    assert command == (f"kafkawire txn force-terminate --bootstrap-server {broker.bootstrap} --transactional-id {name}")
    assert run(*shlex.split(command)[1:], "--yes").code == 0
    after = why(run, broker, "--group", group)
    assert after["blockers"] == []
    story = run("why", "--bootstrap-server", broker.bootstrap, "--transactional-id", name, "--history")
    told = [json.loads(line)["what"] for line in story.text.splitlines()]
    assert told[-1] == "aborted: all markers are written"
    assert any("fenced" in one or "became" in one for one in told)


def test_producer_id_that_no_broker_remembers(broker: RunningCluster, run: Run) -> None:
    """An answer about a producer that there is not would be no answer; one that wrote is known, and blocks nothing."""
    result = run("why", "--bootstrap-server", broker.bootstrap, "--producer-id", 987_654_321)
    assert (result.code, result.out) == (1, b"")
    assert result.err == "error: producer id 987654321: no coordinator and no partition's leader remembers it\n"
    with_topic(broker, "why-remembered", 1)
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer(None)
        wire.produce("why-remembered", 0, [b"x"], producer, timestamp=now(), transactional=False)
    found = why(run, broker, "--producer-id", producer.producer_id)
    assert (found["blockers"], found["code"]) == ([], 0)


def test_id_with_control_characters_is_ended_as_printed(
    broker: RunningCluster, run: Run, state_home: Path, tmp_path: Path
) -> None:
    """The shell gives the command the id that the broker knows."""
    topic, name = "why-control", "why\x1b[31m\tid"
    with_topic(broker, topic, 1)
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=600_000)
        wire.add_partitions(producer, {topic: [0]})
        wire.produce(topic, 0, [b"x"], producer, timestamp=now())
    (blocker,) = why(run, broker, "--topic", topic)["blockers"]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {blocker['command']}"], capture_output=True, check=True
    ).stdout.decode()
    done = run(*words.split("\0")[1:-1], "--yes")
    assert (done.code, json.loads(done.text)["Outcome"]) == (0, "terminated"), done.err


def test_ids_that_linger_are_listed_and_ended_in_one_command(
    broker: RunningCluster, run: Run, state_home: Path
) -> None:
    """FLINK-23854: nine ids, all Ongoing, whose producers are dead, over three partitions."""
    topic, ids = "why-flink", [f"why-flink-{number}" for number in range(9)]
    with_topic(broker, topic, 3)
    with RawCluster(broker.bootstrap) as wire:
        for number, name in enumerate(ids):
            producer = wire.init_producer(name, timeout_ms=600_000)
            wire.add_partitions(producer, {topic: [number % 3]})
            wire.produce(topic, number % 3, [b"x"], producer, timestamp=now())
    found = why(run, broker, "--topic", topic, "--max-transaction-timeout", 60, "--blocked-after", 0)
    assert [one["transactional_id"] for one in found["blockers"]] == ids
    assert all(one["until"] - one["begun"] == 600_000 for one in found["blockers"])
    assert sum(one["waits"][0]["now"] for one in found["blockers"]) == 3
    shown = printed(run, broker, "--topic", topic, "--max-transaction-timeout", 60, "--blocked-after", 0)
    assert shown.code == 3
    *_, together = unwrapped(shown.text.splitlines())
    assert "--max-transaction-timeout 60" in together
    ended = run(*shlex.split(together)[1:], "--yes", "--format", "jsonl")
    assert ended.code == 0, ended.err
    assert [json.loads(line)["Outcome"] for line in ended.text.splitlines()] == ["terminated"] * 9
    clear = printed(run, broker, "--topic", topic)
    assert (clear.code, clear.text.splitlines()[0]) == (0, "Nothing blocks it.")


def test_partition_of_offsets_that_is_not_compacted(broker: RunningCluster, run: Run) -> None:
    """sentry self-hosted#3389: a group's commits fill a partition whose last stable offset a transaction holds."""
    topic, group, name = "why-cleaner", "why-cleaner-group", "why-cleaner-id"
    with_topic(broker, topic, 1)
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=600_000)
    send_offsets(broker, group, producer, topic, 0)
    for offset in range(60):
        commit(broker, group, topic, {0: offset})
    of_group = why(run, broker, "--group", group)
    (evidence,) = [one for one in of_group["blockers"] if one["transactional_id"] == name]
    number = int(
        next(text for text in evidence["evidence"] if f"{OFFSETS}-" in text).split(f"{OFFSETS}-")[1].split(":")[0]
    )
    found = why(run, broker, "--topic", OFFSETS, "--partition", number)
    (blocker,) = [one for one in found["blockers"] if one["transactional_id"] == name]
    (held,) = [one for one in blocker["waits"] if one["what"] == "compaction"]
    assert held["offset"] == blocker["waits"][0]["offset"]
    filled = {one["group"]: one for one in blocker["fills"]}
    assert filled[group]["records"] >= 61
    assert filled[group]["keys"] == 1
    text = printed(run, broker, "--topic", OFFSETS, "--partition", number).text
    assert "cleaner held at offset" in " ".join(text.split())
    assert repr(group) in text


def test_lag_is_what_a_consumer_then_reads(broker: RunningCluster, run: Run) -> None:
    """Committed, aborted and open transactions, and plain records: consumers of both levels read exactly as many."""
    confluent = pytest.importorskip("confluent_kafka")
    topic, group = "why-lag", "why-lag-group"
    with_topic(broker, topic, 1)
    with RawCluster(broker.bootstrap) as wire:
        producer, sequence = wire.init_producer("why-lag-id", timeout_ms=600_000), 0
        for number in range(40):
            wire.add_partitions(producer, {topic: [0]})
            wire.produce(topic, 0, [b"x"] * (1 + number % 5), producer, timestamp=now(), sequence=sequence)
            sequence += 1 + number % 5
            assert wire.end(producer, committed=number % 3 != 0) == 0
        other = wire.init_producer("why-lag-open", timeout_ms=600_000)
        wire.add_partitions(other, {topic: [0]})
        wire.produce(topic, 0, [b"open"] * 3, other, timestamp=now())
        plain = wire.init_producer(None)
        wire.produce(topic, 0, [b"held"] * 2, plain, timestamp=now(), transactional=False)
    commit(broker, group, topic, {0: 17})
    (lag,) = json.loads(run("lag", "--bootstrap-server", broker.bootstrap, "--group", group, "--format", "json").out)
    read = {level: consumed(confluent, broker, topic, 17, level) for level in ("read_committed", "read_uncommitted")}
    assert lag["read_committed"]["exact"]
    assert {level: lag[level]["least"] for level in read} == read
    assert (lag["held"]["least"], lag["held"]["most"]) == (2, 5)
    assert ["'why-lag-open' (live)" in one for one in lag["held_by"]] == [True]
    bounded = json.loads(
        run(
            "lag", "--bootstrap-server", broker.bootstrap, "--group", group, "--fetch-bytes", 400, "--format", "json"
        ).out
    )[0]["read_committed"]
    assert not bounded["exact"]
    assert bounded["least"] <= read["read_committed"] <= bounded["most"]
    table = run("lag", "--bootstrap-server", broker.bootstrap, "--group", group, "--format", "table")
    assert table.code == 0
    assert group in table.text
    every = [
        json.loads(line)
        for line in run("lag", "--bootstrap-server", broker.bootstrap, "--format", "jsonl").text.splitlines()
    ]
    (listed,) = [row for row in every if row["group"] == group]
    assert (listed["read_committed"], listed["held"]) == (lag["read_committed"], lag["held"])
    assert [row["group"] for row in every] == sorted(row["group"] for row in every)


def consumed(confluent: Any, cluster: RunningCluster, topic: str, start: int, level: str) -> int:
    """The number of records that a real consumer reads from an offset on."""
    consumer = confluent.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "why-oracle", "isolation.level": level,
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([confluent.TopicPartition(topic, 0, start)])
    count, quiet = 0, time.monotonic() + 3
    while time.monotonic() < quiet:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            count, quiet = count + 1, time.monotonic() + 1
    consumer.close()
    return count


def test_command_of_a_hanging_transaction_runs_as_it_is_printed(
    broker: RunningCluster, run: Run, state_home: Path
) -> None:
    """With a limit that was given: `txn abort` judges by the same one, and does what was printed."""
    topic = "why-hanging"
    with_topic(broker, topic, 1)
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer("why-hanging-id")
        wire.produce(topic, 0, [b"x"], producer, timestamp=now() - 2 * 3_600_000)
    limit = ("--max-transaction-timeout", 60)
    shown = printed(run, broker, "--topic", topic, *limit)
    assert shown.code == 3
    (command,) = unwrapped(shown.text.splitlines())
    assert command.startswith("kafkawire txn abort ")
    assert "--max-transaction-timeout 60" in command
    done = run(*shlex.split(command)[1:], "--yes")
    assert (done.code, json.loads(done.text)["Outcome"]) == (0, "aborted"), done.err
    assert printed(run, broker, "--topic", topic, *limit).text.splitlines()[0] == "Nothing blocks it."


def test_three_brokers_with_a_dead_leader(three_brokers: RunningCluster, run: Run) -> None:
    """A partition whose only replica is on a broker that is dead has no leader; the answer comes within three seconds
    where all brokers are there."""
    cluster = three_brokers
    with_topic(cluster, "single", 6)
    with_topic(cluster, "needs-three", 1, replicas=3, min_insync_replicas="3")
    with_topic(cluster, "needs-one", 1, replicas=3, min_insync_replicas="1")
    with RawCluster(cluster.bootstrap) as wire:
        leaders = wire.leaders(["single"])
        producer = wire.init_producer("why-three", timeout_ms=600_000)
        wire.add_partitions(producer, {"single": [0]})
        wire.produce("single", 0, [b"x"], producer, timestamp=now())
    began = time.monotonic()
    shown = printed(run, cluster, "--topic", "single")
    took = time.monotonic() - began
    assert "kafkawire txn force-terminate" in shown.text
    assert took < 3, took
    dead = next(
        leaders["single", number] for number in range(1, 6) if leaders["single", number] != leaders["single", 0]
    )
    lost = sorted(number for (_, number), leader in leaders.items() if leader == dead)
    cluster.kill_node(dead)
    living = ",".join(node.address for node in cluster.nodes if node.node_id != dead)
    deadline = time.monotonic() + 60
    while True:
        result = run("why", "--bootstrap-server", living, "--topic", "single", "--format", "json")
        found = json.loads(result.out)
        gone = [one for one in found["blockers"] if one["cause"] == "no_leader"]
        if gone or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert [sorted(wait["partition"] for wait in one["waits"]) for one in gone] == [lost]
    assert result.code == 5
    # Their replicas on the dead broker: writes with acks=all are refused where all three are needed.
    for topic, attention in (("needs-three", "offline_replicas"), ("needs-one", None)):
        while True:
            result = run("why", "--bootstrap-server", living, "--topic", topic, "--format", "json")
            offline = [one for one in json.loads(result.out)["blockers"] if one["cause"] == "offline_replicas"]
            if offline or time.monotonic() > deadline:
                break
            time.sleep(1)
        assert [one["attention"] for one in offline] == [attention]
        assert offline[0]["on"].startswith(f"2 of 3 replicas in sync; broker {dead} offline")
