"""`txn commit` on real brokers: a Flink-like job has written, recorded its checkpoint, and died before it committed
(flink-connector-kafka#296, #314, #321). Under transaction versions 1 and 2."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.broker_fixture import StartCluster
from tests.cli.runner import Result, Run
from tests.cli.test_cli_why_broker import with_topic
from tests.distribution import Shared
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

TOPIC = "commit-orders"
#: AddPartitionsToTxn and EndTxn of a client of transaction version 2.
PRODUCE_2, END_2 = 12, 5


class World(NamedTuple):
    """A cluster, and the transaction version of its clients."""

    cluster: RunningCluster
    version: int


@pytest.fixture(scope="module", params=[1, 2])
def world(request: pytest.FixtureRequest, start_cluster: StartCluster, shared: Shared) -> Iterator[World]:
    if request.param == 2:
        cluster = request.getfixturevalue("broker")
        with_topic(cluster, TOPIC, 2)
        yield World(cluster, 2)
        return
    with start_cluster(1, feature_levels={"transaction.version": 1}) as cluster:
        with_topic(cluster, TOPIC, 2)
        yield World(cluster, 1)


class Job:
    """A job with a transactional id: it writes, takes checkpoints, and dies."""

    def __init__(self, world: World, name: str, *, timeout_ms: int = 600_000) -> None:
        self.world, self.name, self.written = world, name, list[str]()
        self.wire = RawCluster(world.cluster.bootstrap)
        self.producer = self.wire.init_producer(name, timeout_ms=timeout_ms)
        self._sequence = [0, 0]

    def write(self, *values: str, partition: int = 0) -> None:
        """In its transaction, flushed."""
        if self.world.version == 1:
            self.wire.add_partitions(self.producer, {TOPIC: [partition]})
        self.wire.produce(
            TOPIC,
            partition,
            [value.encode() for value in values],
            self.producer,
            timestamp=int(time.time() * 1000),
            sequence=self._sequence[partition],
            version=9 if self.world.version == 1 else PRODUCE_2,
        )
        self._sequence[partition] += len(values)
        self.written += values

    def end(self, *, committed: bool = True) -> None:
        assert self.wire.end(self.producer, committed=committed, version=3 if self.world.version == 1 else END_2) == 0
        if self.world.version == 2:
            self.producer = RawProducer(self.producer.producer_id, self.producer.epoch + 1, self.name)
            self._sequence = [0, 0]

    def checkpoint(self) -> tuple[object, ...]:
        """What it records: options of `txn commit`."""
        return (
            "--transactional-id", self.name, "--producer-id", self.producer.producer_id,
            "--producer-epoch", self.producer.epoch,
        )  # fmt: skip

    def dies(self) -> None:
        self.wire.__exit__()


def committed(world: World, prefix: str) -> list[str]:
    """What a read_committed consumer gets of a job's values."""
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {"bootstrap.servers": world.cluster.bootstrap, "group.id": "commit-oracle", "enable.auto.commit": False,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([confluent.TopicPartition(TOPIC, number, 0) for number in range(2)])
    found, ends, deadline = list[str](), set[int](), time.monotonic() + 20
    while len(ends) < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            ends.add(message.partition())
        elif message.value().decode().startswith(prefix):
            found.append(message.value().decode())
    consumer.close()
    return found


def txn_commit(run: Run, world: World, *args: object, yes: bool = True) -> Result:
    address = ("--bootstrap-server", world.cluster.bootstrap)
    return run("txn", "commit", *address, *args, *(["--yes"] if yes else []), "--confirm-after", 0.1)


def outcome(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.text)
    return found


def test_committed_data_equals_the_checkpoint(world: World, run: Run, state_home: Path) -> None:
    job = Job(world, f"commit-{world.version}-flink")
    job.write("a0", "a1")
    job.write("a2", partition=1)
    recorded = job.checkpoint()
    job.dies()
    assert committed(world, "a") == []
    planned = outcome(txn_commit(run, world, *recorded, "--dry-run", yes=False))
    assert planned["Outcome"] == "dry_run"
    assert planned["Request"]["api"] == "EndTxn"
    assert (planned["Request"]["version"] >= END_2) == (world.version == 2)
    assert planned["Request"]["body"]["committed"] is True
    assert committed(world, "a") == []
    result = txn_commit(run, world, *recorded)
    assert result.code == 0, result.err
    done = outcome(result)
    assert (done["Outcome"], done["NewTransactionState"]) == ("committed", "CompleteCommit")
    assert sorted(committed(world, "a")) == job.written
    again = txn_commit(run, world, *recorded)  # no harm is done
    assert (again.code, outcome(again)["Outcome"]) == (0, "already_committed")
    (log,) = state_home.rglob("txn-audit.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["phase"] for one in lines if one["operation"] == "commit"][-3:] == ["before", "after", "refused"]
    assert lines[-2]["result"]["outcome"] == "committed"
    assert lines[-3]["asked"]["producer_epoch"] == job.producer.epoch


def test_later_transaction_of_the_producer_is_not_committed(world: World, run: Run, state_home: Path) -> None:
    """The recorded one was committed before the crash; the job went on, and its later records are in no checkpoint."""
    job = Job(world, f"commit-{world.version}-later")
    job.write("b0")
    recorded = job.checkpoint()
    job.end()
    job.write("b1")
    job.dies()
    result = txn_commit(run, world, *recorded)
    if world.version == 2:  # the epoch tells them apart
        assert (result.code, outcome(result)["Outcome"]) == (0, "already_committed")
    else:
        assert result.code == 1
        assert "this epoch has had other transactions (COMMIT)" in result.err
    assert committed(world, "b") == ["b0"]


def test_another_outcome_and_another_epoch_are_refused(world: World, run: Run, state_home: Path) -> None:
    aborted = Job(world, f"commit-{world.version}-aborted")
    aborted.write("c0")
    recorded = aborted.checkpoint()
    fenced = RawCluster(world.cluster.bootstrap)
    fenced.init_producer(aborted.name)  # a new instance: its coordinator aborts
    result = txn_commit(run, world, *recorded)
    assert result.code == 1
    assert "ABORT is decided for it" in result.err
    wrong = (*recorded[:-1], int(str(recorded[-1])) + 7)
    moved = txn_commit(run, world, *wrong)
    assert moved.code == 1
    assert "are no longer in force" in moved.err
    unknown = txn_commit(run, world, "--transactional-id", "nobody", "--producer-id", 1, "--producer-epoch", 0)
    assert unknown.code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.err
    assert committed(world, "c") == []
    fenced.__exit__()


def test_producer_that_still_writes_is_refused(world: World, run: Run, state_home: Path) -> None:
    from threading import Event, Thread

    job = Job(world, f"commit-{world.version}-alive")
    job.write("d0")
    stop = Event()

    def writing() -> None:
        while not stop.wait(0.02):
            job.write("d")

    thread = Thread(target=writing)
    thread.start()
    try:
        result = run(
            "txn", "commit", "--bootstrap-server", world.cluster.bootstrap, *job.checkpoint(), "--yes",
            "--confirm-after", 0.5,
        )  # fmt: skip
    finally:
        stop.set()
        thread.join()
    assert result.code == 1
    assert "its producer still writes, in commit-orders-0" in result.err
    assert committed(world, "d") == []
