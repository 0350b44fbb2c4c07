"""docs/share-groups: a share group with a dead-letter topic, and what became of each of its records."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster, jars

from . import clients
from .cluster_clients import ONE_PARTITION
from .log_copies import copy_logs
from .share_groups import ShareRun

TOPIC, GROUP, DEAD_LETTERS = "orders", "workers", "dlq.workers"
LIMIT = 3
CONFIG = {
    "group.share.delivery.count.limit": LIMIT,
    "share.coordinator.state.topic.num.partitions": 1,
    **ONE_PARTITION,
}
#: What the group does with the records of the topic, in order; after them are some that it has not got yet.
FATES = (*("accept",) * 4, "reject", "accept", "release", "accept", "retry", *("accept",) * 3, "reject", "release")
WAITING = 4
_COPIED = (TOPIC, DEAD_LETTERS, "__share_group_state", "__cluster_metadata")


def record(folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Makes the log directory in `folder`; what was done, as JSON values."""
    folder.mkdir(parents=True)
    scratch = folder / "scratch"
    with cluster(1, config=CONFIG, cache=cache) as running:
        told = workload(running, scratch, jars.broker_jars(cache=cache))
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "broker-1", _COPIED, "*")
    shutil.rmtree(scratch)
    return {"topic": TOPIC, "group": GROUP, "limit": LIMIT, "deliveries": told}


def workload(running: RunningCluster, scratch: Path, libraries: Path) -> list[list[Any]]:
    """The records and what a consumer does with them; its deliveries: partition, offset, number, and what was done."""
    scratch.mkdir()
    clients.create_topics(
        running.bootstrap,
        {TOPIC: 1, DEAD_LETTERS: 1},
        replicas=1,
        config={DEAD_LETTERS: {"errors.deadletterqueue.group.enable": "true"}},
    )
    run = ShareRun(running, scratch, libraries, scratch / "classes")
    properties = [
        "share.auto.offset.reset=earliest",
        f"share.delivery.count.limit={LIMIT}",
        f"errors.deadletterqueue.topic.name={DEAD_LETTERS}",
        "errors.deadletterqueue.copy.record.enable=true",
    ]
    run.configure(GROUP, *properties)
    run.produce(TOPIC, 0, list(FATES))
    run.read("run", GROUP, TOPIC, seconds=5)
    run.produce(TOPIC, 0, ["accept"] * WAITING)
    time.sleep(1)
    (told,) = run.deliveries()
    rows: list[list[Any]] = told["rows"]
    return rows
