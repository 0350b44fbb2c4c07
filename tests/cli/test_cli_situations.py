"""The situations that people describe in public threads, rebuilt on real brokers, each with its right answer.

- a group's only offsets are in the transaction of a dead producer (redpanda#6423): `test_group_that_never_committed`
- the same, two partitions, one of them committed before:
  `test_group_whose_offsets_are_in_the_transaction_of_a_dead_producer`
- transactions of nine ids stay open, producers dead, an hour's timeout (FLINK-23854): `test_nine_ids_that_linger`
- `__consumer_offsets` is not compacted (sentry self-hosted#3389): `test_partition_of_offsets_that_grows`
- a time index after kill -9 (strimzi#878, #441): `test_time_index_after_a_kill`
- one bit of an open transaction's only batch (KAFKA-9144, strimzi#4844): `test_open_transaction_that_is_damaged`
- folders beside that of a partition (KAFKA-16234, KAFKA-14616): `test_folders_beside_a_partition`
- a sequence number out of order (aiokafka#1017): `test_sequence_number_out_of_order`
- an id that another fenced (librdkafka#3003): `test_story_of_a_group_and_of_an_id_that_was_fenced`
- a record that the metadata log cannot replay (bitnami/containers#80381):
  `test_record_of_the_metadata_log_that_brokers_cannot_replay`
- clients that an upgrade breaks (KIP-896): `test_old_clients_of_recorded_captures`
- who blocks readers longest (kafka-streams-examples#447): `test_transactions_that_blocked_readers_longest`
- the lag of transactional and compacted topics (klag-exporter#104, kafbat#1039): test_cli_lag_oracle.py
- where a group stands on a mirror (KAFKA-12468): test_records_mirror_topics.py
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafkawire import records, versions
from kafkawire.client import Admin
from kafkawire.messages import OffsetFetchRequest, offset_fetch_request
from kafkawire.transactions.blocking.blocker_text import unwrapped
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.broker_fixture import StartCluster
from tests.cli.runner import Run
from tests.cli.test_cli_why_broker import commit, do, now, printed, send_offsets, why, with_topic
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.broker.kafka_tools import run_tool
from tools.polling import until
from tools.recordings.archive import unpacked
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.slow

OFFSETS, HOUR_MS = "__consumer_offsets", 3_600_000
STATE_PARTITIONS = 4
CONFIG = {
    "transaction.max.timeout.ms": HOUR_MS,
    "offsets.topic.num.partitions": STATE_PARTITIONS, "offsets.topic.segment.bytes": 1 << 20,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "log.cleaner.backoff.ms": 200,
}  # fmt: skip


@pytest.fixture(scope="module")
def brokers(start_cluster: StartCluster) -> Iterator[RunningCluster]:
    """Three; the tests that stop some of them are the last."""
    with start_cluster(3, config=CONFIG) as cluster:
        yield cluster


def as_process(*arguments: object) -> tuple[int, str]:
    """Exit code and output of a command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkawire", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout


def test_group_that_never_committed(brokers: RunningCluster, run: Run, state_home: Path) -> None:
    """The id, its end, and the command; brokers answer 88 for the partition, and leave it out of a list."""
    topic, group, name = "orders-6423", "group-6423", "id-6423"
    with_topic(brokers, topic, 1, replicas=3)
    with RawCluster(brokers.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=50 * 60_000)
    send_offsets(brokers, group, producer, topic, 0)

    async def fetched(*topics: offset_fetch_request.OffsetFetchRequestTopics) -> Any:
        async with Admin.connect(brokers.bootstrap) as admin:
            asked = offset_fetch_request.OffsetFetchRequestGroup(group_id=group, topics=topics or None)
            body = OffsetFetchRequest(groups=(asked,), require_stable=True)
            (coordinator,) = {node for node in (1, 2, 3) if await leads(admin, node, body)}
            answer = await admin.cluster.ask_broker(coordinator, body, admin.cluster.deadline(), at_most=8)
            return [(one.partition_index, one.error_code) for t in answer.groups[0].topics for one in t.partitions]

    async def leads(admin: Admin, node: int, body: OffsetFetchRequest) -> bool:
        answer = await admin.cluster.ask_broker(node, body, admin.cluster.deadline(), at_most=8)
        return answer.groups[0].error_code == 0

    named = offset_fetch_request.OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    assert do(fetched(named)) == [(0, 88)]
    assert do(fetched()) == []
    code, text = as_process("why", "--bootstrap-server", brokers.bootstrap, "--group", group, "--format", "table")
    assert code == 4  # the group has no members: where it waits is not certain
    assert f"transactional id '{name}'" in text
    (blocker,) = why(run, brokers, "--group", group)["blockers"]
    assert (blocker["waits"][0]["topic"], blocker["waits"][0]["partition"]) == (topic, 0)
    assert blocker["until"] - blocker["since"] == 50 * 60_000
    asked = "--bootstrap-server", brokers.bootstrap, "--group", group, "--all", "--format", "json"
    listed = json.loads(run("txn", "find-hanging", *asked).out)
    assert [one["transactional_id"] for one in listed["findings"]] == [name]
    assert "none of them is in an open transaction" not in json.dumps(listed)
    (command,) = unwrapped(text.splitlines())
    assert command.startswith("kafkawire txn force-terminate ")
    assert run(*shlex.split(command)[1:], "--yes").code == 0
    assert why(run, brokers, "--group", group)["blockers"] == []


def test_nine_ids_that_linger(brokers: RunningCluster, run: Run, state_home: Path) -> None:
    """Listed with start and end, and ended by one command."""
    topic, ids = "orders-23854", [f"flink-23854-{number}" for number in range(9)]
    with_topic(brokers, topic, 3, replicas=3)
    with RawCluster(brokers.bootstrap) as wire:
        for number, name in enumerate(ids):
            producer = wire.init_producer(name, timeout_ms=HOUR_MS)
            wire.add_partitions(producer, {topic: [number % 3]})
            wire.produce(topic, number % 3, [b"x"], producer, timestamp=now())
    reach = "--bootstrap-server", brokers.bootstrap, "--topic", topic
    code, text = as_process("why", *reach, "--blocked-after", 0, "--format", "table")
    assert code == 3
    assert [f"transactional id '{name}'" in text for name in ids] == [True] * 9
    for blocker in why(run, brokers, "--topic", topic, "--blocked-after", 0)["blockers"]:
        assert blocker["until"] - blocker["begun"] == HOUR_MS
    listed = json.loads(run("txn", "find-hanging", *reach, "--blocked-after", 0, "--format", "json").out)
    assert listed["outcome"]["blocked"] == 3
    *_, together = unwrapped(text.splitlines())
    code, done = as_process(*shlex.split(together)[1:], "--yes", "--format", "jsonl")
    assert code == 0
    assert [json.loads(line)["Outcome"] for line in done.splitlines()] == ["terminated"] * 9
    assert printed(run, brokers, "--topic", topic).text.splitlines()[0] == "Nothing blocks it."


def test_partition_of_offsets_that_grows(brokers: RunningCluster, run: Run, state_home: Path, tmp_path: Path) -> None:
    """The cleaner is held at offset 2, by which id; 11.5 MB of commits, by which group; and it is as it was said."""
    topic, name, keys = "orders-3389", "id-3389", 46
    group = next(text for n in count() if partition_of_id(text := f"group-3389-{n}", STATE_PARTITIONS) == 3)
    with_topic(brokers, topic, keys, replicas=1)
    for _ in range(2):
        commit(brokers, group, topic, {0: 0})
    with RawCluster(brokers.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=HOUR_MS)
    send_offsets(brokers, group, producer, topic, 0)

    async def fill() -> None:
        async with Admin.connect(brokers.bootstrap) as admin:
            for number in range(60):
                offsets = dict.fromkeys(range(keys), number)
                await real_cluster.commit_offsets(admin, group, topic, offsets, "m" * 4000)

    do(fill())

    def checkpointed() -> bool:
        """Whether the checkpoints of high watermarks, which brokers write each 5 s, have what was committed."""
        texts = [(root / "replication-offset-checkpoint").read_text() for root in brokers.log_dirs.values()]
        offsets = [int(found) for text in texts for found in re.findall(rf"^{OFFSETS} 3 (\d+)$", text, re.MULTILINE)]
        return bool(offsets) and min(offsets) >= 60 * keys

    until(checkpointed, "the checkpoints of high watermarks", seconds=30)
    copies = tmp_path / "copies"
    for root in brokers.log_dirs.values():
        for path in [*root.glob("__*/*"), *root.glob("*.*"), *root.glob("*-checkpoint")]:
            if path.is_file() and path.suffix not in (".index", ".timeindex", ".lock"):
                copied = copies / root.parent.name / path.relative_to(root)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copied)
    partition = "--topic", OFFSETS, "--partition", 3
    of_copy = json.loads(run("why", *copies.iterdir(), *partition, "--format", "json").out)
    live = why(run, brokers, *partition, "--fetch-bytes", 32 << 20)
    for found in (of_copy, live):
        (blocker,) = [one for one in found["blockers"] if one["transactional_id"] == name]
        (held,) = [one for one in blocker["waits"] if one["what"] == "compaction"]
        assert held["offset"] == 2
        filled = blocker["fills"][0]
        assert (filled["group"], filled["keys"]) == (group, keys)
        if found is of_copy:  # segments are known of copies alone
            freed = held["freed_bytes"]
            assert 9_500_000 < freed < held["bytes"] < 12_000_000
    shown = run("why", *copies.iterdir(), *partition, "--format", "table").text
    assert f"MB in closed segments, about {freed / 1e6:.1f} MB to free" in " ".join(shown.split())
    text = printed(run, brokers, *partition).text
    folders = [one / f"{OFFSETS}-3" for one in brokers.log_dirs.values() if (one / f"{OFFSETS}-3").exists()]

    def stored() -> int:
        return sum(path.stat().st_size for path in folders[0].glob("*.log"))

    before = stored()
    (command,) = {one for one in unwrapped(text.splitlines()) if name in one}
    assert run(*shlex.split(command)[1:], "--yes").code == 0
    commit(brokers, group, topic, {0: 61})
    until(lambda: before - stored() > 0.9 * freed, "the cleaner", seconds=60)


def test_sequence_number_out_of_order(brokers: RunningCluster, run: Run, tmp_path: Path) -> None:
    """158 after 155: the broker's words name what never arrived; the log of a copy ends with 155."""
    topic = "orders-1017"
    with_topic(brokers, topic, 1)
    with RawCluster(brokers.bootstrap) as wire:
        producer = wire.init_producer(None)
        wire.produce(topic, 0, [b"x"] * 156, producer, timestamp=now(), transactional=False)
        wire.produce(topic, 0, [b"x"], producer, timestamp=now(), sequence=158, transactional=False, expected=45)
    logged = [
        line
        for node in brokers.nodes
        for line in node.log_file.read_text("utf-8", "replace").splitlines()
        if "Out of order sequence number" in line and topic in line
    ]
    line = logged[0] if logged else (
        f"Out of order sequence number for producer {producer.producer_id} at offset 156 in partition {topic}-0: "
        "158 (incoming seq. number), 155 (current end sequence number)"
    )  # fmt: skip
    words = json.loads(run("why", line).out)
    assert words["found"] == [
        "The partition never got 2 records, sequence numbers 156 to 157: 155 is its last, 158 came."
    ]
    assert words["subject"]["producer_id"] == producer.producer_id
    (folder,) = [one for root in brokers.log_dirs.values() for one in root.glob(f"{topic}-0")]
    shutil.copytree(folder, tmp_path / folder.name)
    command = next(one for one in words["commands"] if " dump " in one).replace("LOG_DIR", str(tmp_path))
    rows = [json.loads(one) for one in run(*shlex.split(command)[1:]).text.splitlines()]
    assert max(row["last_sequence"] for row in rows if row["kind"] == "batch") == 155


def test_folders_beside_a_partition(brokers: RunningCluster, run: Run, tmp_path: Path) -> None:
    """Which is which, in every list: statistics, all columns of it, and the replicas of `explain`."""
    topic = "orders-16234"
    with_topic(brokers, topic, 1)
    with RawCluster(brokers.bootstrap) as wire:
        wire.produce(topic, 0, [b"x"], wire.init_producer(None), timestamp=now(), transactional=False)
    (folder,) = [one for root in brokers.log_dirs.values() for one in root.glob(f"{topic}-0")]
    states = ("", "delete", "future", "stray")
    for state in states:
        name = f"{topic}-0.{'0' * 32}-{state}" if state else folder.name
        shutil.copytree(folder, tmp_path / name)
    rows = [json.loads(line) for line in run("dump", tmp_path, "--stats").text.splitlines()]
    assert sorted(row["state"] for row in rows) == sorted(states)
    assert {(row["topic"], row["partition"]) for row in rows} == {(topic, 0)}
    wide = run("dump", tmp_path, "--stats", "--wide", "--format", "table").text
    assert [wide.count(f" {state} ") for state in states[1:]] == [1, 1, 1]
    spans = run("explain", tmp_path, "--topic", topic, "--partition", 0).text.splitlines()
    shown = [json.loads(line) for line in spans if '"kind":"replica"' in line]
    assert {row["state"] for row in shown} <= {*states, None}


def test_open_transaction_that_is_damaged(brokers: RunningCluster, run: Run, tmp_path: Path) -> None:
    """After a clean stop: consumers get 0 to 4, and the last stable offset is 5, by the snapshot; as of the broker."""
    confluent = pytest.importorskip("confluent_kafka")
    topic = "orders-9144"
    with_topic(brokers, topic, 1)
    with RawCluster(brokers.bootstrap) as wire:
        leader = wire.leaders([topic])[topic, 0]
        plain = wire.init_producer(None)
        for sequence in range(5):
            wire.produce(topic, 0, [b"x"], plain, timestamp=now(), sequence=sequence, transactional=False)
        open_ = wire.init_producer("id-9144", timeout_ms=HOUR_MS)
        wire.add_partitions(open_, {topic: [0]})
        assert wire.produce(topic, 0, [b"open"], open_, timestamp=now()) == 5
        for sequence in range(5, 10):
            wire.produce(topic, 0, [b"x"], plain, timestamp=now(), sequence=sequence, transactional=False)
    assert brokers.stop_node(leader)
    folder = brokers.log_dirs[leader] / f"{topic}-0"
    segment = folder / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    (place,) = [one.position for one in batches(segment) if one.base_offset == 5]
    data[place + 65] ^= 1
    segment.write_bytes(data)
    shutil.copytree(folder, tmp_path / folder.name)
    rows = [json.loads(line) for line in run(
        "dump", tmp_path, "--isolation-level", "read_committed", "--deep-iteration"
    ).text.splitlines()]  # fmt: skip
    assert [row["offset"] for row in rows if row["kind"] == "record"] == [0, 1, 2, 3, 4]
    explained = [
        json.loads(line) for line in run("explain", tmp_path, "--topic", topic, "--partition", 0).text.splitlines()
    ]
    assert [row["last_stable_offset"] for row in explained if "last_stable_offset" in row] == [5]
    brokers.start_node(leader)
    brokers.wait_ready()
    got = []
    consumer = confluent.Consumer(
        {"bootstrap.servers": brokers.bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    )
    consumer.assign([confluent.TopicPartition(topic, 0, 0)])
    quiet = time.monotonic() + 15
    while time.monotonic() < quiet:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.append(message.offset())
            quiet = time.monotonic() + 2
    consumer.close()
    assert got == [0, 1, 2, 3, 4]


def batches(segment: Path) -> list[Any]:
    return [one for one in records.read(segment.read_bytes()) if isinstance(one, records.Batch)]


def test_time_index_after_a_kill(brokers: RunningCluster, run: Run, tmp_path: Path) -> None:
    """A tail of zeros: corrupt, as Kafka's own tool says; nothing of the log is lost by it."""
    topic = "orders-878"
    with_topic(brokers, topic, 1, index_interval_bytes="0")
    with RawCluster(brokers.bootstrap) as wire:
        leader = wire.leaders([topic])[topic, 0]
        producer = wire.init_producer(None)
        for sequence in range(20):
            wire.produce(topic, 0, [b"x"], producer, timestamp=now() + sequence, sequence=sequence, transactional=False)
    brokers.kill_node(leader)
    folder = brokers.log_dirs[leader] / f"{topic}-0"
    copy = shutil.copytree(folder, tmp_path / folder.name)
    index = copy / f"{0:020}.timeindex"
    with index.open("r+b") as file:
        file.truncate(2400)  # of ten megabytes of zeros
    rows = [
        json.loads(line)
        for line in run("dump", index, "--index-sanity-check").text.splitlines()
    ]  # fmt: skip
    (check,) = [row for row in rows if row["kind"] == "check"]
    assert not check["passed"]
    assert [row["reason"] for row in rows if row["kind"] == "damage"] == ["not_ascending"]
    kafkas = run_tool("DumpLogSegments", "--files", str(index), "--index-sanity-check", statuses=(0, 1))
    assert "passed sanity check" not in kafkas
    words = json.loads(run("why", f"CorruptIndexException: Corrupt time index found, time index file ({index})").out)
    assert words["word"] == "CorruptIndexException"
    assert "--index-sanity-check" in words["commands"][-1]


def test_old_clients_of_recorded_captures(run: Run) -> None:
    """Of fifteen recorded clients, those that 4.4 refuses, with api and version: what the broker's own log says."""
    folder, release = unpacked("client-captures"), "4.4"
    speaks, truth = versions.of(release), json.loads((unpacked("client-captures") / "truth.json").read_text())
    named = 0
    for client, recorded in truth.items():
        asked = {
            (key, version)
            for requests in recorded["requests"].values()
            for key, version, _, _ in requests
            if key in speaks and version not in speaks[key]
        }
        result = run("capture", folder / f"{client}.pcap", "--breaks-at", release)
        rows = [json.loads(line) for line in result.text.splitlines()]
        assert {(row["api_key"], row["version"]) for row in rows} == asked, client
        assert (result.code == 3) == bool(asked)
        assert all(row["host"] and row["client_id"] is not None for row in rows)
        named += bool(asked)
    assert named >= 3
