"""The log directory of one broker, the same after a recovery, and the records that a read_committed consumer got.

`stopped/` is the log directory of a broker that was shut down cleanly; `recovered/` is what the same broker made of
some of its logs, and of made-up ones, without their snapshots and indexes; `consumed.json` holds, of both, the last
stable offsets and what a read_committed consumer got.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster

from . import clients
from . import read_committed_recovery as recovery
from . import read_committed_workload as workload
from .cluster_clients import copy_logs
from .raw_client import RawCluster

_MADE_UP = [f"made-up-{seed}" for seed in range(3)]
_RECOVERED = ["compacted", "deleted", *_MADE_UP]
CHECKPOINTS = ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint")


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `stopped/`, `recovered/` and `consumed.json` in `folder`."""
    consumed = {}
    with cluster(1, config=dict(workload.CONFIG), cache=cache) as running:
        load = workload.Workload(running.bootstrap, running.log_dirs[1])
        load.create()
        load.act()
        clients.create_topics(running.bootstrap, dict.fromkeys(_MADE_UP, 1), replicas=1, config={})
        consumed["stopped"] = _consumed(running, list(workload.TOPICS))
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "stopped", workload.TOPICS, *CHECKPOINTS)
        recovery.forget(running.log_dirs[1], [f"{topic}-0" for topic in _RECOVERED])
        for seed, topic in enumerate(_MADE_UP):
            recovery.write_log(running.log_dirs[1] / f"{topic}-0", recovery.made_up(seed, load.now))
        running.start_node(1)
        consumed["recovered"] = _consumed(running, _RECOVERED)
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / "recovered", _RECOVERED, *CHECKPOINTS)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _consumed(running: RunningCluster, topics: list[str]) -> dict[str, Any]:
    with RawCluster(running.bootstrap) as wire:
        wire.leaders(topics)
    return {
        "last_stable_offset": workload.stable_offsets(running.bootstrap, topics),
        "records": workload.committed(running.bootstrap, topics),
    }
