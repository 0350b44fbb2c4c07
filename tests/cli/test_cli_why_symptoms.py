"""`why --topic` on a real broker, where no transaction blocks: damage, and what was not verified."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from pathlib import Path

from kafkawire import records
from kafkawire.transactions.blocking.blocker_text import unwrapped
from tests.broker_fixture import StartCluster
from tests.cli.runner import Run
from tests.cli.test_cli_why_broker import commit, printed, why, with_topic
from tools.broker import RunningCluster, jars
from tools.polling import until
from tools.recordings import tiered_storage
from tools.recordings.raw_client import RawCluster


def write(cluster: RunningCluster, topic: str, batches: int, size: int = 100, partition: int = 0) -> None:
    with RawCluster(cluster.bootstrap) as wire:
        producer = wire.init_producer(None)
        for number in range(batches):
            wire.produce(
                topic, partition, [b"x" * size], producer, timestamp=int(time.time() * 1000), sequence=number,
                transactional=False,
            )  # fmt: skip


def segment_of(cluster: RunningCluster, topic: str) -> Path:
    (folder,) = [path for one in cluster.log_dirs.values() for path in one.glob(f"{topic}-0")]
    return max(folder.glob("*.log"))


def test_damage_in_the_log_of_a_leader(broker: RunningCluster, run: Run) -> None:
    """One bit of the third batch: the leader returns it as it is, and consumers fail at its offset."""
    topic, group = "why-damage", "why-damage-group"
    with_topic(broker, topic, 1)
    write(broker, topic, 5)
    commit(broker, group, topic, {0: 1})
    assert printed(run, broker, "--topic", topic).text.splitlines()[0] == "Nothing blocks it."
    path = segment_of(broker, topic)
    data = path.read_bytes()
    at = len(data) // 5 * 3 - 2  # in the records of the third of five equal batches
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))
    for subject in (("--topic", topic), ("--group", group)):
        found = why(run, broker, *subject)
        (blocker,) = [one for one in found["blockers"] if one["cause"] == "damage"]
        assert [(one["topic"], one["partition"], one["offset"]) for one in blocker["waits"]] == [(topic, 0, 2)]
        assert found["code"] == 5
    shown = printed(run, broker, "--topic", topic)
    assert "at offset 2: crc_mismatch" in " ".join(shown.text.split())
    dumped = run(*shlex.split(blocker["command"])[1:], "--format", "jsonl")
    assert dumped.code == 4
    assert json.loads(dumped.text.splitlines()[0])["reason"] == "crc_mismatch"
    none = why(run, broker, "--topic", topic, "--fetch-bytes", 0)
    assert none["blockers"] == []
    assert none["read"]["scope"] == "Damage was not looked for: --fetch-bytes is 0."


def test_what_is_not_verified_is_said(broker: RunningCluster, run: Run) -> None:
    topic = "why-verified"
    with_topic(broker, topic, 1)
    write(broker, topic, 30, size=1000)
    found = why(run, broker, "--topic", topic, "--fetch-bytes", 5_000)
    assert found["blockers"] == []
    assert found["read"]["scope"].startswith(f"Damage was not looked for in {topic}-0 below offset ")


def _markers(cluster: RunningCluster, topic: str) -> int:
    """The markers in a topic's partition 0. EndTxn is answered before they are written, and they come in any order."""
    batches = records.read(segment_of(cluster, topic).read_bytes())
    return sum(isinstance(one, records.Batch) and one.is_control for one in batches)


def test_transactions_that_blocked_readers_longest(broker: RunningCluster, run: Run, tmp_path: Path) -> None:
    """kafka-streams-examples#447: of several threads the one that held the others' records; the same of a copy."""
    topic = "why-longest"
    with_topic(broker, topic, 1)
    began = int(time.time() * 1000)
    with RawCluster(broker.bootstrap) as wire:
        producers = [wire.init_producer(f"why-longest-{number}") for number in range(4)]
        for producer in producers:
            wire.add_partitions(producer, {topic: [0]})
            wire.produce(topic, 0, [b"x"], producer, timestamp=int(time.time() * 1000))
        time.sleep(0.3)
        for ended, producer in enumerate((*producers[1:], producers[0]), 1):  # the first is the last to end
            assert wire.end(producer, committed=True) == 0
            until(lambda ended=ended: _markers(broker, topic) == ended, "the marker is written", seconds=30)
    result = run("why", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--longest", 2, "--format", "json")
    assert result.code == 0
    (hold,) = json.loads(result.out)  # none of the others ever was the first
    assert (hold["transactional_id"], hold["first_offset"], hold["outcome"]) == ("why-longest-0", 0, "COMMIT")
    assert 300 <= hold["held_ms"] <= int(time.time() * 1000) - began
    copy = tmp_path / "copy"
    shutil.copytree(segment_of(broker, topic).parent, copy / f"{topic}-0")
    copied = run("why", copy, "--topic", topic, "--longest", 2, "--format", "json")
    (same,) = json.loads(copied.out)
    assert same | {"transactional_id": "why-longest-0"} == hold
    table = run("why", copy, "--topic", topic, "--longest", 1, "--format", "table")
    assert f"{topic}-0" in table.text
    for wrong in (("--group", "g"), ("--topic", topic, "--evidence")):
        assert run("why", copy, *wrong, "--longest", 2).code == 2


def test_tier_that_takes_no_copies(start_cluster: StartCluster, run: Run, tmp_path: Path) -> None:
    """The folder of the tier is a file: every copy fails, and local retention deletes nothing."""
    tier = tmp_path / "tier"
    config = tiered_storage.CONFIG | {
        "remote.log.storage.manager.class.path": str(jars.tiered_storage_jar(tiered_storage.VERSION)),
        "rsm.config.dir": str(tier),
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
    }
    with start_cluster(1, version=tiered_storage.VERSION, config=config) as cluster:
        with_topic(cluster, "tiered", 1, remote_storage_enable="true", segment_bytes="1048576", retention_ms="-1")
        write(cluster, "tiered", 2, size=1000)
        clear = why(run, cluster, "--topic", "tiered")
        assert [one["cause"] for one in clear["blockers"]] == []
        (folder,) = tier.iterdir()
        shutil.rmtree(folder)
        folder.write_text("no folder")
        write(cluster, "tiered", 40, size=100_000)
        found = why(run, cluster, "--topic", "tiered")
        (blocker,) = found["blockers"]
        assert (blocker["cause"], blocker["attention"]) == ("tier_lag", "tier_lag")
        assert blocker["waits"][0]["offset"] == 0
        assert found["code"] == 3
        assert "the tier ends at offset -1" in " ".join(printed(run, cluster, "--topic", "tiered").text.split())


def test_every_command_that_live_answers_print_runs(broker: RunningCluster, run: Run, state_home: Path) -> None:
    """Of a topic with a live and a hanging transaction, a group that waits, damage and an id: as it is printed; those
    that end something are run with --dry-run (`test_cli_why_broker.py` runs them as they stand)."""
    topic, group, name = "why-printed", "why-printed-group", "why-printed-id"
    with_topic(broker, topic, 2)
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=600_000)
        wire.add_partitions(producer, {topic: [0]})
        wire.produce(topic, 0, [b"x"], producer, timestamp=int(time.time() * 1000))
        lost = wire.init_producer(f"{name}-lost")
        wire.produce(topic, 1, [b"x"], lost, timestamp=int(time.time() * 1000) - 3 * 3_600_000)
    commit(broker, group, topic, {0: 0, 1: 0})
    text = ""
    for subject in (
        ("--topic", topic),
        ("--group", group),
        ("--transactional-id", name),
        ("--producer-id", lost.producer_id),
    ):
        text += printed(run, broker, *subject, "--max-transaction-timeout", 60, "--blocked-after", 0).text
        text += run("why", "--bootstrap-server", broker.bootstrap, *subject, "--evidence", "--format", "table").text
    for limit in ((), ("--max-transaction-timeout", 60)):
        given = ("--bootstrap-server", broker.bootstrap, "--topic", topic, *limit)
        text += run("txn", "find-hanging", *given, "--all", "--format", "table").text
    line = f"ProducerFencedException: transactionalId={name}"
    words = json.loads(run("why", line, "--format", "jsonl").out)
    text += "\n".join(words["commands"]).replace("HOST:PORT", broker.bootstrap)
    commands = [one for one in unwrapped(text.splitlines()) if one.startswith("kafkawire ")]
    kinds = {tuple(shlex.split(one)[1:3]) for one in commands}
    assert kinds >= {("txn", "abort"), ("txn", "force-terminate")}
    for command in dict.fromkeys(commands):
        words_ = shlex.split(command)[1:]
        dry = ["--dry-run"] if words_[1] in ("abort", "force-terminate") else []
        result = run(*words_, *dry)
        assert result.code in (0, 3, 4, 5), (command, result.err)
