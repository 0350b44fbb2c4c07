"""What operators do to a cluster while it is recorded: an upgrade, and replicas that move to another disk."""

from __future__ import annotations

from functools import partial

from kafkawire.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkawire.messages.alter_replica_log_dirs_request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kafkawire.messages.update_features_request import FeatureUpdateKey
from tools.broker import RunningCluster
from tools.broker.java_process import BrokerNode
from tools.polling import until
from tools.recordings import RecordingError
from tools.recordings.cluster_clients import set_broker_config
from tools.recordings.raw_client import RawCluster, expect

from .configurations import Configuration

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
                UpdateFeaturesRequest(feature_updates=(update,)), 1, UpdateFeaturesResponse
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
                    AlterReplicaLogDirsRequest(dirs=(moved,)), 2, AlterReplicaLogDirsResponse
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
