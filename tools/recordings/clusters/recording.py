"""The recording of one cluster, from its start to the copy after its clean stop."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tools.broker import RunningCluster, cluster
from tools.oracle import Oracle
from tools.recordings import RecordingError
from tools.recordings.log_copies import copy_all
from tools.recordings.raw_client import RawCluster

from .changes import arrive, begin_to_move, upgrade
from .cluster_truth import as_text, asked
from .configurations import NEWEST, Configuration
from .event_time import event_time
from .workload import BROKERS, Traffic, Workload

#: Brokers write their checkpoints every five seconds.
_CHECKPOINT_S = 6.0
#: Three nodes on two cores.
_STOP_S = 90.0
#: A killed broker cannot register again while ZooKeeper has its session.
_ZOOKEEPER_SESSION_S = 10.0


def record(configuration: Configuration, folder: Path, cache: Path | None = None) -> None:
    """Makes a folder for each of the configuration's copies, and `truth.json`, in `folder`."""
    with (
        Oracle(NEWEST) as oracle,
        cluster(
            configuration.nodes,
            version=configuration.version,
            controllers=configuration.controllers,
            dynamic_quorum=configuration.dynamic_quorum,
            disks=configuration.disks,
            feature_levels=configuration.features,
            config={**BROKERS, **configuration.brokers},
            cache=cache,
        ) as running,
        contextlib.ExitStack() as stack,
    ):
        with RawCluster(running.bootstrap) as wire:
            workload = Workload(configuration, running, oracle, wire)
            workload.create(replicas=min(configuration.nodes, 3))
            workload.before()
        traffic = Traffic(workload)
        frameworks = stack.enter_context(event_time(running.bootstrap)) if configuration.frameworks else None
        traffic.round()
        if frameworks:
            frameworks.wait()
        if configuration.disks > 1:
            begin_to_move(running)
        time.sleep(_CHECKPOINT_S)
        # Later than brokers' clocks may differ: it proves that no marker of what hangs is to come.
        workload.behind_hangs("behind-hangs-2")
        traffic.round()
        for name, backwards in (("forward", False), ("backward", True)):
            copy_all(running, folder / name, backwards=backwards, step=traffic.step)
        if configuration.upgraded:
            upgrade(configuration, running)
            traffic.round()
        traffic.step()
        running.kill_nodes()
        copy_all(running, folder / "killed")
        if configuration.zookeeper:
            time.sleep(_ZOOKEEPER_SESSION_S)
        running.start()
        if configuration.disks > 1:
            arrive(running)
        traffic.end()
        traffic.round()
        traffic.end()
        if frameworks:
            frameworks.stop()
        truth = asked(configuration, running, workload.scene)
        time.sleep(_CHECKPOINT_S)
        _stop(configuration, running)
        copy_all(running, folder / "stopped")
        workload.scene.left_open.clear()
    (folder / "truth.json").write_text(as_text(truth))


def _stop(configuration: Configuration, running: RunningCluster) -> None:
    stopped = running.stop(timeout=_STOP_S)
    brokers = [disk for node in running.nodes for disk in node.log_dirs]
    if not stopped or not all((disk / ".kafka_cleanshutdown").exists() for disk in brokers):
        raise RecordingError(f"{configuration.archive}: a broker was not shut down cleanly")
