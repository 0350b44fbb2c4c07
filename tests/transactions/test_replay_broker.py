"""The replay against running brokers: what they wrote, what they recover from logs alone, and what a consumer got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir
from kafkawire.transactions import check
from kafkawire.transactions.checks import CHECKS, VIOLATED
from tests.broker_fixture import StartCluster
from tests.transactions.replays import assert_replayed, view
from tools.broker import Cluster

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from tools.examples import clients
from tools.examples.wire import Wire
from tools.replay import recovery, zoo

pytestmark = pytest.mark.broker

MADE_UP = [f"made-up-{seed}" for seed in range(6)]

#: Release, finalized features, and whether Kafka's newest Java producer (transaction version 2) takes part.
BROKERS = [
    pytest.param("4.4.0", {}, True, id="4.4.0"),
    pytest.param("4.4.0", {"transaction.version": 0}, False, id="4.4.0-transaction-version-0"),
    pytest.param("3.9.1", {}, False, id="3.9.1"),
]


@pytest.mark.parametrize(("release", "features", "java"), BROKERS)
def test_replay_is_what_brokers_compute(
    start_cluster: StartCluster, release: str, features: dict[str, int], java: bool
) -> None:
    options: dict[str, Any] = {"config": dict(zoo.CONFIG), "version": release, "feature_levels": features}
    with start_cluster(1, **options) as running:
        visit = zoo.Zoo(running.bootstrap, running.log_dirs[1], java=java)
        visit.visit()
        clients.create_topics(running.bootstrap, dict.fromkeys(MADE_UP, 1), replicas=1, config={})
        topics = [topic for topic in zoo.TOPICS if java or topic != "java"]
        stable, got = _stop(running, topics)
        directory = running.log_dirs[1]
        _as_the_broker_wrote(directory, stable, got, compacted="compacted")
        _no_false_alarm(directory)

        recovery.forget(directory, [f"{topic}-0" for topic in (*topics, *MADE_UP)])
        for seed, topic in enumerate(MADE_UP):
            recovery.write_log(directory / f"{topic}-0", recovery.made_up(seed, visit.now))
        running.start_node(1)
        stable, got = _stop(running, [*topics, *MADE_UP])
        _as_the_broker_wrote(directory, stable, got)


def _stop(running: Cluster, topics: list[str]) -> tuple[dict[str, int], dict[str, list[list[Any]]]]:
    """Ask for the last stable offsets and consume, then stop the broker cleanly: it writes its snapshots."""
    with Wire(running.bootstrap) as wire:
        wire.leaders([*topics, *MADE_UP])
    stable, got = zoo.stable_offsets(running.bootstrap, topics), zoo.committed(running.bootstrap, topics)
    assert running.stop_node(1)
    return stable, got


def _as_the_broker_wrote(
    directory: Path, stable: dict[str, int], got: dict[str, list[list[Any]]], *, compacted: str | None = None
) -> None:
    compared = {}
    for partition in logdir.open(directory).partitions:
        if partition.topic != "__cluster_metadata":
            compared[partition.topic] = assert_replayed(partition, compacted=partition.topic == compacted)
        if partition.topic in got:
            assert view(partition) == (stable[partition.topic], got[partition.topic]), partition
    assert all(compared[topic] for topic in got), compared


def _no_false_alarm(directory: Path) -> None:
    held = dict.fromkeys(CHECKS, 0)
    for partition in logdir.open(directory).partitions:
        for answer in check(partition):
            assert answer.answer != VIOLATED, (partition, answer.breaches)
            held[answer.check] += answer.held
    assert all(held.values()), held
