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
import time
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster
from tools.broker.kafka_tools import run_tool
from tools.polling import until

from . import clients
from . import read_committed_workload as workload
from .cluster_clients import await_in_sync, await_leader, place_topics, read_offsets, send_orders
from .log_copies import copy_logs
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
        place_topics(running.bootstrap, _TOPICS)
        load = workload.Workload(running.bootstrap, running.log_dirs[3])
        with RawCluster(running.bootstrap) as wire:
            wire.leaders(_TOPICS)
            load.mixed(wire)
            load.hanging(wire)
            _repeat(wire, load.now)
        load.compacted()
        load.deleted()
        _retain(load)
        _elect(running, folder)
        send_orders(running.bootstrap, "waiting", range(5), acks="all")
        time.sleep(3)  # brokers write their checkpoints
        truth: dict[str, Any] = {"offsets": _offsets(running.bootstrap, list(_TOPICS))}
        for level in ("read_uncommitted", "read_committed"):
            offsets = read_offsets(running.bootstrap, [(name, 0) for name in _OF_NODE_3], f"every-{level}", level)
            truth.setdefault("consumed", {})[level] = {name: offsets[f"{name}-0"] for name in _OF_NODE_3}
        running.kill_node(1)
        send_orders(running.bootstrap, "waiting", range(5, 9), acks="1")
        _copy(running, 3, folder / "node-3", _OF_NODE_3)
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


def _elect(running: RunningCluster, folder: Path) -> None:
    """An unclean election: node 2 leads, without what node 1 wrote alone."""
    service = clients.Service(running.bootstrap, "every-unclean")
    service.transaction({("unclean", 0): range(4)}, timestamp=clients.now())
    time.sleep(2)
    running.stop_node(2)
    service.transaction({("unclean", 0): range(4, 8)}, timestamp=clients.now())
    service.transaction({("unclean", 0): range(8, 10)}, timestamp=clients.now(), committed=False)
    time.sleep(2)
    running.kill_node(1)
    _copy(running, 1, folder / "old-leader", ["unclean"])
    running.start_node(2)
    await_leader(running.bootstrap, ["unclean"], 2)
    time.sleep(2)
    _copy(running, 2, folder / "new-leader", ["unclean"])
    running.start_node(1)
    send_orders(running.bootstrap, "unclean", range(20, 23), acks="all")
    await_in_sync(running.bootstrap, ["unclean", "waiting"], 2)
    time.sleep(2)
    _copy(running, 1, folder / "rejoined", ["unclean"])


def _copy(running: RunningCluster, node: int, to: Path, topics: list[str]) -> None:
    copy_logs(running.log_dirs[node], to, [*topics, "__transaction_state"])


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
