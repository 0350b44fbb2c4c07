"""Log directories and the tier of three brokers with remote storage (KIP-405), and what a consumer got.

`node-1/` to `node-3/` are log directories, `tier/` is the folder of `LocalTieredStorage`, and `consumed.json` holds the
records of both isolation levels. The leader changed in between, DeleteRecords cut a segment, and an unclean election
dropped records that the tier keeps.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster, jars
from tools.polling import until

from . import clients
from .cluster_clients import await_in_sync, await_leader, delete_records, place_topics, read
from .log_copies import copy_log_directory
from .log_directories import SMALL

VERSION = "4.3.1"
TOPIC = "orders"
_SECONDS = 60
_STORAGE = "org.apache.kafka.server.log.remote"
#: Settings of brokers, without the folder of the tier.
CONFIG = {
    **SMALL,
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": f"{_STORAGE}.storage.LocalTieredStorage",
    "remote.log.metadata.manager.class.name": f"{_STORAGE}.metadata.storage.TopicBasedRemoteLogMetadataManager",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": 3,
    "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
    "remote.log.manager.task.interval.ms": 300,
    "log.retention.check.interval.ms": 300,
    "log.initial.task.delay.ms": 300,
    "log.segment.delete.delay.ms": 0,
    "replica.lag.time.max.ms": 3000,
}
_TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "retention.ms": "-1",
    "segment.ms": "400",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
}


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `node-1/` to `node-3/`, `tier/` and `consumed.json` in `folder`."""
    tier = folder / "tier"
    config = CONFIG | {
        "remote.log.storage.manager.class.path": str(jars.tiered_storage_jar(VERSION, cache=cache)),
        "rsm.config.dir": str(tier),
    }
    with cluster(3, version=VERSION, config=config, cache=cache) as running:
        place_topics(running.bootstrap, {TOPIC: ((1, 2), _TOPIC_CONFIG)})
        service = clients.Service(running.bootstrap, "tiered-service")
        _write(service, range(6))
        _await_tier(running, tier)
        delete_records(running.bootstrap, TOPIC, 9)
        # Leader 2, whose segments have other borders.
        running.stop_node(1)
        _write(service, range(6, 10))
        running.start_node(1)
        await_in_sync(running.bootstrap, [TOPIC], 2)
        # Leader 1 alone: what it writes now and copies to the tier is lost to node 2.
        running.stop_node(2)
        _write(service, range(10, 14))
        _await_tier(running, tier)
        running.kill_node(1)
        running.start_node(2)
        await_leader(running.bootstrap, [TOPIC], 2)
        after = clients.Service(running.bootstrap, "another-service")
        _write(after, range(20, 26))
        running.start_node(1)
        await_in_sync(running.bootstrap, [TOPIC], 2)
        _await_tier(running, tier)
        after.begin()
        after.send(TOPIC, 0, range(300, 302), timestamp=clients.now())
        after.flush()
        consumed = {level: _consumed(running, level) for level in ("read_committed", "read_uncommitted")}
        time.sleep(6)  # brokers write their checkpoints every five seconds
        for node_id, log_dir in running.log_dirs.items():
            copy_log_directory(log_dir, folder / f"node-{node_id}")
        after.end(committed=True)
    for path in (tier, *folder.glob("node-*")):
        if not any(path.rglob("*.log")):
            shutil.rmtree(path)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _write(service: clients.Service, numbers: Iterable[int]) -> None:
    """A transaction a number, every third aborted; each second one begins a segment."""
    for number in numbers:
        service.begin()
        service.send(TOPIC, 0, range(10 * number, 10 * number + 3), timestamp=clients.now())
        service.flush()
        if number % 2:
            time.sleep(0.5)
            service.send(TOPIC, 0, range(10 * number + 3, 10 * number + 5), timestamp=clients.now())
        service.end(committed=number % 3 != 1)


def _await_tier(running: RunningCluster, tier: Path) -> None:
    """Waits until the leader has removed what the tier holds: few segments are left."""

    def few() -> bool | None:
        found = [
            sum(1 for _ in (node.log_dir / f"{TOPIC}-0").glob("*.log"))
            for node in running.nodes
            if node.process is not None and (node.log_dir / f"{TOPIC}-0").exists()
        ]
        return (max(found) <= 3 and any(tier.rglob("*.log"))) or None

    until(few, "copies in the tier", seconds=_SECONDS)


def _consumed(running: RunningCluster, isolation: str) -> list[dict[str, Any]]:
    return [
        {"offset": m.offset(), "key": (m.key() or b"").decode(), "value": (m.value() or b"").decode()}
        for m in read(running.bootstrap, [(TOPIC, 0)], f"{TOPIC}-{isolation}", isolation)
    ]
