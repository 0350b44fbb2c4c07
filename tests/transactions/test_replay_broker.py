"""The replay against running brokers: what they wrote, what they recover from logs alone, and what a consumer got."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir
from kafkawire.messages import DescribeProducersRequest, DescribeProducersResponse
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.messages.describe_producers_response import ProducerState
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.transactions import Replay, check
from kafkawire.transactions.answers import VIOLATED
from kafkawire.transactions.checks.check_names import LOG_CHECKS
from tests.broker_fixture import StartCluster
from tests.transactions.replays import assert_replayed, replayed, snapshot_entries, view
from tools.broker import RunningCluster

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from tools.recordings import clients
from tools.recordings import read_committed as recovery
from tools.recordings import read_committed_workload as workload
from tools.recordings.clients import Service
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.broker

_END = 2**62
MADE_UP = [f"made-up-{seed}" for seed in range(6)]

#: Release, and whether Kafka's newest Java producer (transaction version 2) takes part. librdkafka's transactions are
#: of version 0 on both.
BROKERS = [pytest.param("4.4.0", True, id="4.4.0"), pytest.param("3.9.1", False, id="3.9.1")]


@pytest.mark.parametrize(("release", "java"), BROKERS)
def test_replay_equals_the_state_of_brokers(start_cluster: StartCluster, release: str, java: bool) -> None:
    with start_cluster(1, config=dict(workload.CONFIG), version=release) as running:
        load = workload.Workload(running.bootstrap, running.log_dirs[1], java=java)
        load.create()
        load.act()
        clients.create_topics(running.bootstrap, dict.fromkeys(MADE_UP, 1))
        topics = [topic for topic in workload.TOPICS if java or topic != "java"]
        directory = running.log_dirs[1]
        _as_the_broker_says(running, [topic for topic in topics if topic not in ("compacted", "deleted")])
        stable, got = _stop(running, topics)
        _as_the_broker_wrote(directory, stable, got, compacted="compacted")
        _no_false_alarm(directory)

        recovery.forget(directory, [f"{topic}-0" for topic in (*topics, *MADE_UP)])
        for seed, topic in enumerate(MADE_UP):
            recovery.write_log(directory / f"{topic}-0", recovery.made_up(seed, load.now))
        running.start_node(1)
        stable, got = _stop(running, [*topics, *MADE_UP])
        _as_the_broker_wrote(directory, stable, got)


def test_producers_expire(start_cluster: StartCluster) -> None:
    """Who has written nothing for long is forgotten, but for one with an open transaction."""
    expiration_ms = 3000
    config = {
        **workload.CONFIG,
        "producer.id.expiration.ms": expiration_ms,
        "producer.id.expiration.check.interval.ms": 200,
    }
    with start_cluster(1, config=config) as running, RawCluster(running.bootstrap) as wire:
        clients.create_topics(running.bootstrap, {"idle": 1})
        lost = wire.init_producer("lost")
        wire.produce("idle", 0, [b"lost"], lost, timestamp=int(time.time() * 1000) - 3_600_000)
        service = Service(running.bootstrap, "service")
        service.transaction({("idle", 0): range(3)}, timestamp=int(time.time() * 1000))
        partition = logdir.open(running.log_dirs[1] / "idle-0").partitions[0]
        deadline = time.monotonic() + 60
        while open_at(wire, "idle") != [0]:  # EndTxn is answered before the marker is written
            assert time.monotonic() < deadline, "the transaction does not end"
            time.sleep(0.1)
        states, _ = replayed(partition, [100])
        assert len(states[100]) == 2
        while len(producers_of(wire, "idle")) > 1:
            assert time.monotonic() < deadline, "the producer does not expire"
            time.sleep(0.1)
        replay = Replay(states[100])
        replay.expire(int(time.time() * 1000), expiration_ms)
        assert producers_of(wire, "idle") == [_state(entry) for entry in replay.snapshot()]
        assert [entry.producer_id for entry in replay.snapshot()] == [lost.producer_id]
        assert running.stop_node(1)
        assert snapshot_entries(partition_at(running, "idle").snapshots[-1]) == replay.snapshot()


def producers_of(wire: RawCluster, topic: str) -> list[ProducerState]:
    """The answer to DescribeProducers for partition 0, by producer id."""
    asked = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(0,)),))
    answer = wire.connection(1).ask(asked, 0, DescribeProducersResponse).topics[0].partitions[0]
    assert answer.error_code == 0
    return sorted(answer.active_producers, key=lambda producer: producer.producer_id)


def open_at(wire: RawCluster, topic: str) -> list[int]:
    """First offsets of the transactions that are open in partition 0."""
    found = [producer.current_txn_start_offset for producer in producers_of(wire, topic)]
    return sorted(offset for offset in found if offset >= 0)


def partition_at(running: RunningCluster, topic: str) -> logdir.Partition:
    return logdir.open(running.log_dirs[1] / f"{topic}-0").partitions[0]


def _as_the_broker_says(running: RunningCluster, topics: list[str]) -> None:
    """A running broker's own state, as it answers a DescribeProducers request."""
    with RawCluster(running.bootstrap) as wire:
        for topic in topics:
            deadline = time.monotonic() + 60
            while (answered := producers_of(wire, topic)) != (expected := _states(running, topic)):
                assert time.monotonic() < deadline, (answered, expected)  # a marker may be on its way
                time.sleep(0.1)
            assert answered


def _states(running: RunningCluster, topic: str) -> list[ProducerState]:
    states, _ = replayed(partition_at(running, topic), [_END])
    return [_state(entry) for entry in states[_END]]


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )


def _stop(running: RunningCluster, topics: list[str]) -> tuple[dict[str, int], dict[str, list[list[Any]]]]:
    """Ask for the last stable offsets and consume, then stop the broker cleanly: it writes its snapshots."""
    with RawCluster(running.bootstrap) as wire:
        wire.leaders([*topics, *MADE_UP])
    stable, got = workload.stable_offsets(running.bootstrap, topics), workload.committed(running.bootstrap, topics)
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
    held = dict.fromkeys(LOG_CHECKS, 0)
    for partition in logdir.open(directory).partitions:
        for answer in check(partition):
            assert answer.answer != VIOLATED, (partition, answer.breaches)
            held[answer.check] += answer.held
    assert all(held.values()), held
