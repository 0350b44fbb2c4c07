"""What brokers acknowledged and what they hold: runs without a fault, and one whose leader lost acknowledged batches.

`lost/` has the capture of all brokers' ports, and the log directories of both replicas after an unclean election:
batches with acks=1 were acknowledged by a leader that failed before its follower had them. `aborted-read/` has those of
one broker whose transaction index was emptied while it was stopped, so that it names no aborted transaction to
consumers. `sound-VERSION/` has the capture and the log directory of one broker, without a fault, for clients of several
libraries.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.broker import cluster
from tools.broker.jars import BROKER_VERSION
from tools.polling import until

from . import clients
from .errors import RecordingError
from .tcpdump import recorded

CAPTURE = "brokers.pcap"
TOPIC = "ledger"
#: Releases of brokers that sound runs are recorded with.
SOUND = (BROKER_VERSION, "3.9.1")
#: The numbers of the records that only the old leader had.
LOST = range(5, 9)
_SECONDS = 60.0
_CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "replica.high.watermark.checkpoint.interval.ms": 500,
}
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_TOPICS = {"plain": 1, "idempotent": 2, "transactions": 2, "stamped": 1}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `lost/`, `sound-*/` and `truth.json` in `folder`."""
    truth: dict[str, Any] = {"lost": _lost(folder / "lost", cache)}
    truth["aborted-read"] = _aborted_read(folder / "aborted-read", cache)
    for version in SOUND:
        truth[f"sound-{version}"] = _sound(folder / f"sound-{version}", version, cache)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def _lost(folder: Path, cache: Path | None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with cluster(3, config=_CONFIG, cache=cache) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]], config=_UNCLEAN)]).values():
            created.result(_SECONDS)
        ports = [running.node(number).port for number in (3, 1, 2)]
        with recorded(folder / CAPTURE, *ports):
            _send(running.bootstrap, TOPIC, range(5), acks="all")
            time.sleep(2)
            running.stop_node(2)
            offsets = _send(running.bootstrap, TOPIC, LOST, acks="1")
            time.sleep(2)
            running.kill_node(1)
            running.start_node(2)
            until(lambda: _partition(admin).leader == 2 or None, "an unclean election", seconds=_SECONDS)
            _send(running.bootstrap, TOPIC, range(20, 28), acks="all")
            running.start_node(1)
            until(lambda: len(_partition(admin).isrs) == 2 or None, "replicas in sync", seconds=2 * _SECONDS)
            time.sleep(2)
        for number in (1, 2):
            running.stop_node(number)
            _copy(running.log_dirs[number], folder / f"node-{number}", [f"{TOPIC}-0"])
    return {"topic": TOPIC, "partition": 0, "lost_offsets": offsets}


def _aborted_read(folder: Path, cache: Path | None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with cluster(1, config=_CONFIG, cache=cache) as running:
        clients.create_topics(running.bootstrap, {TOPIC: 1}, replicas=1, config={})
        with recorded(folder / CAPTURE, running.node(1).port):
            service = clients.Service(running.bootstrap, "ledger-service")
            for number in range(6):
                writes = {(TOPIC, 0): range(10 * number, 10 * number + 3)}
                service.transaction(writes, timestamp=_now(), committed=number not in (2, 4))
            before = _consumed(running.bootstrap, [(TOPIC, 0)], "before", "read_committed")
            running.stop_node(1)
            for path in (running.log_dirs[1] / f"{TOPIC}-0").glob("*.txnindex"):
                path.write_bytes(b"")
            running.start_node(1)
            after = _consumed(running.bootstrap, [(TOPIC, 0)], "after", "read_committed")
        running.stop_node(1)
        _copy(running.log_dirs[1], folder / "node-1", [f"{TOPIC}-0"])
    return {"topic": TOPIC, "partition": 0, "before": before, "after": after}


def _consumed(bootstrap: str, partitions: list[tuple[str, int]], group: str, isolation: str) -> list[int]:
    """The offsets of the records that a consumer delivers, of all partitions from their beginning."""
    reader = clients.consumer(bootstrap, group, isolation)
    try:
        reader.assign([TopicPartition(topic, number, 0) for topic, number in partitions])
        return [int(message.offset() or 0) for message in clients.consume(reader, partitions)]
    finally:
        reader.close()


def _sound(folder: Path, version: str, cache: Path | None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with cluster(1, config=_CONFIG, version=version, cache=cache) as running:
        config = {"stamped": {"message.timestamp.type": "LogAppendTime"}}
        clients.create_topics(running.bootstrap, _TOPICS, replicas=1, config=config)
        with recorded(folder / CAPTURE, running.node(1).port):
            for codec in ("none", "gzip", "lz4", "zstd"):
                _send(running.bootstrap, "plain", range(6), acks="1", codec=codec)
                _send(running.bootstrap, "stamped", range(4), acks="all", codec=codec)
                _send(running.bootstrap, "idempotent", range(6), acks="all", codec=codec, idempotent=True)
            _send(running.bootstrap, "plain", range(6), acks="0")
            _kafka_python(running.bootstrap)
            service = clients.Service(running.bootstrap, "transactions-service", codec="lz4")
            for number in range(5):
                writes = {("transactions", each): range(10 * number, 10 * number + 3) for each in (0, 1)}
                service.transaction(writes, timestamp=_now(), committed=number != 2)
            clients.java_transactions(
                running.bootstrap, "transactions", "java-service", records=60, per_second=200, duration_ms=60
            )
            everything = [(name, number) for name, count in _TOPICS.items() for number in range(count)]
            for isolation in ("read_committed", "read_uncommitted"):
                _consumed(running.bootstrap, everything, f"reader-{isolation}", isolation)
            clients.java_consumer(running.bootstrap, "transactions", "java-reader", records=60)
        running.stop_node(1)
        _copy(
            running.log_dirs[1],
            folder / "node-1",
            [f"{name}-{n}" for name, count in _TOPICS.items() for n in range(count)],
        )
    return {"topics": _TOPICS}


def _send(
    bootstrap: str, topic: str, numbers: range, *, acks: str, codec: str = "none", idempotent: bool = False
) -> list[int]:
    """Writes records, each in a batch of its own; the offsets that are acknowledged."""
    offsets: list[int] = []
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 0,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "client.id": f"{topic}-{codec}",
            "log_level": 0,
        }
    )
    for number in numbers:
        producer.produce(
            topic,
            clients.order(number),
            key=str(number),
            partition=0,
            on_delivery=lambda error, message: (
                failed.append(str(error)) if error is not None else offsets.append(int(message.offset() or 0))
            ),
        )
        if producer.flush(_SECONDS) or failed:
            raise RecordingError(f"record {number} for {topic} is not written: {failed}")
    return offsets


def _kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0, client_id="kafka-python")
    for number in range(12):
        producer.send("plain", clients.order(number), partition=0).get(_SECONDS)
    producer.close()


def _partition(admin: AdminClient) -> Any:
    return admin.list_topics(TOPIC, timeout=_SECONDS).topics[TOPIC].partitions[0]


def _copy(log_dir: Path, to: Path, partitions: list[str]) -> None:
    """Partitions and the coordinator's log, and the checkpoints, without indexes of offsets and times."""
    to.mkdir(parents=True)
    for path in (log_dir / "meta.properties", *log_dir.glob("*-checkpoint")):
        shutil.copy(path, to / path.name)
    for name in (*partitions, "__transaction_state-0"):
        if (log_dir / name).exists():
            ignored = shutil.ignore_patterns("*.index", "*.timeindex", "*.deleted")
            shutil.copytree(log_dir / name, to / name, ignore=ignored)


def _now() -> int:
    return int(time.time() * 1000)
