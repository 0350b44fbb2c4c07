"""What brokers acknowledged and what they hold: runs without a fault, and one whose leader lost acknowledged batches.

`lost/` has the capture of all brokers' ports, and the log directories of both replicas after an unclean election:
batches with acks=1 were acknowledged by a leader that failed before its follower had them. `aborted-read/` has those of
one broker whose transaction index was emptied while it was stopped, so that it names no aborted transaction to
consumers. `sound-VERSION/` has the capture and the log directory of one broker, without a fault, for clients of several
libraries.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tools.broker import cluster
from tools.broker.jars import BROKER_VERSION

from . import clients
from .cluster_clients import (
    await_in_sync,
    await_leader,
    copy_logs,
    kafka_python_orders,
    place_topics,
    read,
    send_orders,
)
from .tcpdump import recorded

CAPTURE = "brokers.pcap"
TOPIC = "ledger"
#: Releases of brokers that sound runs are recorded with.
SOUND = (BROKER_VERSION, "3.9.1")
#: The numbers of the records that only the old leader had.
LOST = range(5, 9)
_COORDINATOR = "__transaction_state"
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
        place_topics(running.bootstrap, {TOPIC: ((1, 2), _UNCLEAN)})
        ports = [running.node(number).port for number in (3, 1, 2)]
        with recorded(folder / CAPTURE, *ports):
            send_orders(running.bootstrap, TOPIC, range(5), acks="all")
            time.sleep(2)
            running.stop_node(2)
            offsets = send_orders(running.bootstrap, TOPIC, LOST, acks="1")
            time.sleep(2)
            running.kill_node(1)
            running.start_node(2)
            await_leader(running.bootstrap, [TOPIC], 2)
            send_orders(running.bootstrap, TOPIC, range(20, 28), acks="all")
            running.start_node(1)
            await_in_sync(running.bootstrap, [TOPIC], 2)
            time.sleep(2)
        for number in (1, 2):
            running.stop_node(number)
            copy_logs(running.log_dirs[number], folder / f"node-{number}", [TOPIC, _COORDINATOR])
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
            before = _offsets(running.bootstrap, "before")
            running.stop_node(1)
            for path in (running.log_dirs[1] / f"{TOPIC}-0").glob("*.txnindex"):
                path.write_bytes(b"")
            running.start_node(1)
            after = _offsets(running.bootstrap, "after")
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "node-1", [TOPIC, _COORDINATOR])
    return {"topic": TOPIC, "partition": 0, "before": before, "after": after}


def _offsets(bootstrap: str, group: str) -> list[int]:
    """The offsets of the records that a consumer delivers."""
    return [int(message.offset() or 0) for message in read(bootstrap, [(TOPIC, 0)], group, "read_committed")]


def _sound(folder: Path, version: str, cache: Path | None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    with cluster(1, config=_CONFIG, version=version, cache=cache) as running:
        config = {"stamped": {"message.timestamp.type": "LogAppendTime"}}
        clients.create_topics(running.bootstrap, _TOPICS, replicas=1, config=config)
        with recorded(folder / CAPTURE, running.node(1).port):
            for codec in ("none", "gzip", "lz4", "zstd"):
                send_orders(running.bootstrap, "plain", range(6), acks="1", codec=codec)
                send_orders(running.bootstrap, "stamped", range(4), acks="all", codec=codec)
                send_orders(running.bootstrap, "idempotent", range(6), acks="all", codec=codec, idempotent=True)
            send_orders(running.bootstrap, "plain", range(6), acks="0")
            kafka_python_orders(running.bootstrap, "plain", 12)
            service = clients.Service(running.bootstrap, "transactions-service", codec="lz4")
            for number in range(5):
                writes = {("transactions", each): range(10 * number, 10 * number + 3) for each in (0, 1)}
                service.transaction(writes, timestamp=_now(), committed=number != 2)
            clients.java_transactions(
                running.bootstrap, "transactions", "java-service", records=60, per_second=200, duration_ms=60
            )
            everything = [(name, number) for name, count in _TOPICS.items() for number in range(count)]
            for isolation in ("read_committed", "read_uncommitted"):
                read(running.bootstrap, everything, f"reader-{isolation}", isolation)
            clients.java_consumer(running.bootstrap, "transactions", "java-reader", records=60)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "node-1", [*_TOPICS, _COORDINATOR])
    return {"topics": _TOPICS}


def _now() -> int:
    return int(time.time() * 1000)
