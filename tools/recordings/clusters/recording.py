"""The recording of one cluster, from its start to the copy after its clean stop, and what operators do meanwhile: an
upgrade, and replicas that move to another disk.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path

from kafkawire import messages
from kafkawire.messages.alter_replica_log_dirs_request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kafkawire.messages.update_features_request import FeatureUpdateKey
from tools.broker import RunningCluster, cluster
from tools.broker.java_process import BrokerNode
from tools.oracle import Oracle
from tools.polling import until
from tools.recordings import RecordingError
from tools.recordings.cluster_clients import set_broker_config
from tools.recordings.log_copies import copy_all
from tools.recordings.raw_client import RawCluster, expect

from .cluster_truth import as_text, asked
from .configurations import NEWEST, Configuration
from .event_time import event_time, wait_written
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
        frameworks = stack.enter_context(event_time(running.bootstrap)) if configuration.frameworks else ()
        traffic.round()
        if frameworks:
            wait_written(running.bootstrap)
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
        for framework in frameworks:
            framework.stop()
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


# What operators do ----------------------------------------------------------------------------------------------------

_SECONDS = 60.0
_THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
#: The replicas that move.
MOVED = (("orders", 0), ("hangs", 1))


def upgrade(configuration: Configuration, running: RunningCluster) -> None:
    """Stops all brokers cleanly, starts them with the newer release, and raises the features."""
    if not running.stop():
        raise RecordingError(f"{configuration.archive}: a broker did not stop by itself before the upgrade")
    running.start(configuration.upgraded)
    # One by one: a level of one feature may be required by another.
    for feature, level in configuration.raised.items():
        with RawCluster(running.bootstrap) as wire:
            update = FeatureUpdateKey(feature=feature, max_version_level=level)
            answer = wire.connection(-1).ask(
                messages.UpdateFeaturesRequest(feature_updates=(update,)), 1, messages.UpdateFeaturesResponse
            )
        codes = {answer.error_code, *(result.error_code for result in answer.results)}
        expect(codes, {0}, f"UpdateFeatures of {feature} to {level}")


def begin_to_move(running: RunningCluster) -> None:
    """Moves replicas to another disk, so slowly that they do not arrive until `arrive`."""
    _throttle(running, 1)
    for node in running.nodes:
        with RawCluster(running.bootstrap) as wire:
            for topic, partition in MOVED:
                target = next(disk for disk in node.log_dirs if not (disk / f"{topic}-{partition}").exists())
                moved = AlterReplicaLogDir(
                    path=str(target), topics=(AlterReplicaLogDirTopic(name=topic, partitions=(partition,)),)
                )
                answer = wire.connection(node.node_id).ask(
                    messages.AlterReplicaLogDirsRequest(dirs=(moved,)), 2, messages.AlterReplicaLogDirsResponse
                )
                expect(answer.results[0].partitions[0].error_code, 0, "AlterReplicaLogDirs")
        until(partial(_on_the_way, node, len(MOVED)), "replicas on their way", seconds=_SECONDS)


def arrive(running: RunningCluster) -> None:
    """Lets the replicas arrive."""
    _throttle(running, 1_000_000_000)
    for node in running.nodes:
        until(partial(_on_the_way, node, 0), "replicas at their places", seconds=_SECONDS)


def _on_the_way(node: BrokerNode, count: int) -> bool:
    """Whether so many replicas are copied to another disk now."""
    return sum(1 for disk in node.log_dirs for _ in disk.glob("*-future")) == count


def _throttle(running: RunningCluster, bytes_a_second: int) -> None:
    for node in running.nodes:
        set_broker_config(running.bootstrap, node.node_id, _THROTTLE, str(bytes_a_second))
