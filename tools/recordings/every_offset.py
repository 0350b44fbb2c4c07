"""Log directories of three brokers in which an offset can be anything, with what brokers answered and consumers got.

A topic for each status: `mixed` (committed, aborted, outside of transactions), `hanging`, `compacted`, `deleted`
(DeleteRecords), `retained` (segments that retention removed), `repeated` (records that a producer with a new id wrote
again, KIP-360), `waiting` (records above the high watermark), and `unclean`, whose leader died with records that the
next leader had not. `node-3/` has all but the last; of that one `old-leader/` is node 1 after it died, `new-leader/`
node 2 after the election, and `rejoined/` node 1 after it came back. `truth.json` has the offsets by kafka-get-offsets,
and those that consumers of both isolation levels got.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.broker import RunningCluster, cluster
from tools.broker.kafka_tools import run_tool
from tools.polling import until

from . import clients
from . import read_committed_workload as workload
from .errors import RecordingError
from .raw_client import RawCluster

_SECONDS = 60.0
_CONFIG = {
    **workload.CONFIG,
    "transaction.state.log.num.partitions": 1,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "log.flush.start.offset.checkpoint.interval.ms": 500,
    # Only what is stopped or fenced leaves the in-sync replicas: the high watermark waits for what was killed.
    "replica.lag.time.max.ms": 60_000,
}
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_OF_WORKLOAD = ("mixed", "hanging", "compacted", "deleted")
#: Topic -> its replicas, and its properties.
_TOPICS: dict[str, tuple[list[int], dict[str, str]]] = {
    **{name: ([3], dict(workload.TOPICS[name])) for name in _OF_WORKLOAD},
    "retained": ([3], {"segment.ms": str(workload.SEGMENT_MS), "retention.bytes": "300"}),
    "repeated": ([3], {}),
    "unclean": ([1, 2], _UNCLEAN),
    "waiting": ([3, 1], _UNCLEAN),
}
_OF_NODE_3 = [name for name in _TOPICS if name != "unclean"]


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `node-3/`, `old-leader/`, `new-leader/`, `rejoined/` and `truth.json` in `folder`."""
    with cluster(3, config=_CONFIG, cache=cache) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, 1, replica_assignment=[on], config=config) for name, (on, config) in _TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(_SECONDS)
        load = workload.Workload(running.bootstrap, running.log_dirs[3])
        with RawCluster(running.bootstrap) as wire:
            wire.leaders(_TOPICS)
            load.mixed(wire)
            load.hanging(wire)
            _repeat(wire, load.now)
        load.compacted()
        load.deleted()
        _retain(load)
        _elect(running, admin, folder)
        _send(running.bootstrap, "waiting", range(5), acks="all")
        time.sleep(3)  # brokers write their checkpoints
        truth: dict[str, Any] = {"offsets": _offsets(running.bootstrap, list(_TOPICS))}
        truth["consumed"] = {
            level: {name: _consumed(running.bootstrap, name, level) for name in _OF_NODE_3}
            for level in ("read_uncommitted", "read_committed")
        }
        running.kill_node(1)
        _send(running.bootstrap, "waiting", range(5, 9), acks="1")
        _copy(running.log_dirs[3], folder / "node-3", _OF_NODE_3)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def _repeat(wire: RawCluster, timestamp: int) -> None:
    """A producer that lost its state: what it had written is written once more, under a new id."""
    for again in range(2):
        producer = wire.init_producer(None)
        for sequence, values in ((0, [b"one", b"two", b"three"]), (3, [b"next %d" % again])):
            wire.produce("repeated", 0, values, producer, timestamp=timestamp, sequence=sequence, transactional=False)


def _retain(load: workload.Workload) -> None:
    service = clients.Service(load.bootstrap, "every-retained")
    for number in range(6):
        service.transaction({("retained", 0): range(3 * number, 3 * number + 3)}, timestamp=load.step())
    first = load.log_dir / "retained-0" / f"{0:020}.log"
    until(lambda: not first.exists() or None, "retention of the first segment", seconds=_SECONDS)


def _elect(running: RunningCluster, admin: AdminClient, folder: Path) -> None:
    """An unclean election: node 2 leads, without what node 1 wrote alone."""
    service = clients.Service(running.bootstrap, "every-unclean")
    service.transaction({("unclean", 0): range(4)}, timestamp=_now())
    time.sleep(2)
    running.stop_node(2)
    service.transaction({("unclean", 0): range(4, 8)}, timestamp=_now())
    service.transaction({("unclean", 0): range(8, 10)}, timestamp=_now(), committed=False)
    time.sleep(2)
    running.kill_node(1)
    _copy(running.log_dirs[1], folder / "old-leader", ["unclean"])
    running.start_node(2)
    until(lambda: _leader(admin, "unclean") == 2 or None, "an unclean election", seconds=_SECONDS)
    time.sleep(2)
    _copy(running.log_dirs[2], folder / "new-leader", ["unclean"])
    running.start_node(1)
    _send(running.bootstrap, "unclean", range(20, 23), acks="all")
    until(
        lambda: all(_in_sync(admin, topic) == 2 for topic in ("unclean", "waiting")),
        "replicas in sync",
        seconds=2 * _SECONDS,
    )
    time.sleep(2)
    _copy(running.log_dirs[1], folder / "rejoined", ["unclean"])


def _copy(log_dir: Path, to: Path, topics: list[str]) -> None:
    """The partitions of topics, `__transaction_state` and the checkpoints, without offset and time indexes."""
    to.mkdir(parents=True)
    for path in (log_dir / "meta.properties", *log_dir.glob("*-checkpoint")):
        shutil.copy(path, to / path.name)
    for topic in (*topics, "__transaction_state"):
        if (log_dir / f"{topic}-0").exists():
            ignored = shutil.ignore_patterns("*.index", "*.timeindex", "*.deleted")
            shutil.copytree(log_dir / f"{topic}-0", to / f"{topic}-0", ignore=ignored)


def _send(bootstrap: str, topic: str, numbers: range, *, acks: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 5, "log_level": 2})
    for number in numbers:
        producer.produce(topic, clients.order(number), key=str(number), partition=0, timestamp=_now())
    if producer.flush(_SECONDS):
        raise RecordingError(f"records for {topic} are not written")


def _offsets(bootstrap: str, topics: list[str]) -> dict[str, dict[str, int]]:
    """The offsets of the partitions by kafka-get-offsets: earliest and latest."""
    found: dict[str, dict[str, int]] = {}
    for when in ("earliest", "latest"):
        lines = run_tool(
            "GetOffsetShell", "--bootstrap-server", bootstrap, "--topic-partitions",
            ",".join(f"{topic}:0" for topic in topics), "--time", when,
        ).splitlines()  # fmt: skip
        for topic, _, offset in (line.split(":") for line in lines):
            found.setdefault(topic, {})[when] = int(offset)
    return found


def _consumed(bootstrap: str, topic: str, isolation: str) -> list[int]:
    """The offsets of the records that a consumer gets."""
    reader = clients.consumer(bootstrap, f"every-{isolation}", isolation)
    try:
        low, _ = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)
        reader.assign([TopicPartition(topic, 0, low)])
        return [int(message.offset() or 0) for message in clients.consume(reader, [(topic, 0)])]
    finally:
        reader.close()


def _leader(admin: AdminClient, topic: str) -> int:
    return int(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions[0].leader)


def _in_sync(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions[0].isrs)


def _now() -> int:
    return int(time.time() * 1000)
