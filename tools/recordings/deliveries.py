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
    ONE_PARTITION,
    await_in_sync,
    await_leader,
    kafka_python_orders,
    one_broker,
    place_topics,
    read,
    read_offsets,
    send_orders,
)
from .log_copies import copy_logs
from .tcpdump import recorded

CAPTURE = "brokers.pcap"
TOPIC = "ledger"
#: Releases of brokers that sound runs are recorded with.
SOUND = (BROKER_VERSION, "3.9.1")
#: The numbers of the records that only the old leader had.
LOST = range(5, 9)
_COORDINATOR = "__transaction_state"
_CONFIG = {**ONE_PARTITION, "replica.high.watermark.checkpoint.interval.ms": 500}
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_TOPICS = {"plain": 1, "idempotent": 2, "transactions": 2, "stamped": 1}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `lost/`, `aborted-read/`, `sound-*/` and `truth.json` in `folder`."""
    truth = {"lost": _lost(folder / "lost", cache), "aborted-read": _aborted_read(folder / "aborted-read", cache)}
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
    with (
        one_broker(folder, {TOPIC: 1}, [TOPIC, _COORDINATOR], config=_CONFIG, cache=cache) as running,
        recorded(folder / CAPTURE, running.node(1).port),
    ):
        clients.Service(running.bootstrap, "ledger-service").transactions([(TOPIC, 0)], 6, aborted=(2, 4))
        before = _offsets(running.bootstrap, "before")
        running.stop_node(1)
        for path in (running.log_dirs[1] / f"{TOPIC}-0").glob("*.txnindex"):
            path.write_bytes(b"")
        running.start_node(1)
        after = _offsets(running.bootstrap, "after")
    return {"topic": TOPIC, "partition": 0, "before": before, "after": after}


def _offsets(bootstrap: str, group: str) -> list[int]:
    return read_offsets(bootstrap, [(TOPIC, 0)], group, "read_committed")[f"{TOPIC}-0"]


def _sound(folder: Path, version: str, cache: Path | None) -> dict[str, Any]:
    stamped = {"stamped": {"message.timestamp.type": "LogAppendTime"}}
    copied = [*_TOPICS, _COORDINATOR]
    with (
        one_broker(
            folder, _TOPICS, copied, config=_CONFIG, topic_config=stamped, version=version, cache=cache
        ) as running,
        recorded(folder / CAPTURE, running.node(1).port),
    ):
        address = running.bootstrap
        for codec in ("none", "gzip", "lz4", "zstd"):
            send_orders(address, "plain", range(6), acks="1", codec=codec)
            send_orders(address, "stamped", range(4), acks="all", codec=codec)
            send_orders(address, "idempotent", range(6), acks="all", codec=codec, idempotent=True)
        send_orders(address, "plain", range(6), acks="0")
        kafka_python_orders(address, "plain", 12)
        service = clients.Service(address, "transactions-service", codec="lz4")
        service.transactions([("transactions", 0), ("transactions", 1)], 5, aborted=(2,))
        clients.java_transactions(address, "transactions", "java-service", records=60, per_second=200, duration_ms=60)
        everything = [(name, number) for name, count in _TOPICS.items() for number in range(count)]
        for isolation in ("read_committed", "read_uncommitted"):
            read(address, everything, f"reader-{isolation}", isolation)
        clients.java_consumer(address, "transactions", "java-reader", records=60)
    return {"topics": _TOPICS}
