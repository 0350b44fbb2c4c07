"""The lag of groups against a real consumer, partition by partition, over committed, aborted, open, plain, deleted and
compacted data: a consumer reads exactly as many, or a number within the bounds.

`LAG_PARTITIONS` partitions, and ten groups in each; 100 make 1,000 group-partitions.
"""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

import pytest

from kafkawire.client import Admin, TopicPartition
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.messages import DeleteRecordsRequest
from kafkawire.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from tests.broker_fixture import StartCluster
from tests.cli.runner import Run
from tests.cli.test_cli_why_broker import do, with_topic
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings.raw_client import RawCluster, RawProducer

PARTITIONS, GROUPS = int(os.environ.get("LAG_PARTITIONS", "12")), 10
#: A consumer that has got nothing for so long is at its end.
QUIET_S = 3
LEVELS = ("read_committed", "read_uncommitted")
PLAIN, COMPACTED = "lag-plain", "lag-compacted"
CLEANER = {"log.cleaner.backoff.ms": 200, "log.initial.task.delay.ms": 200, "log.retention.check.interval.ms": 300,
           "offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}  # fmt: skip


class Writer:
    """Writes what a random number generator says into one partition."""

    def __init__(self, wire: RawCluster, rng: random.Random, topic: str, partition: int) -> None:
        self._wire, self._rng, self._place = wire, rng, (topic, partition)
        self._sequences: dict[int, int] = {}

    def batch(self, producer: RawProducer, *, transactional: bool) -> None:
        topic, partition = self._place
        count = self._rng.randint(1, 4)
        sequence = self._sequences.get(producer.producer_id, 0)
        self._wire.produce(
            topic, partition, [b"x" * self._rng.randint(1, 80)] * count, producer, sequence=sequence,
            timestamp=int(time.time() * 1000), transactional=transactional,
        )  # fmt: skip
        self._sequences[producer.producer_id] = sequence + count

    def steps(self, count: int, ids: list[RawProducer], plain: RawProducer) -> None:
        topic, partition = self._place
        opened: list[RawProducer] = []
        for _ in range(count):
            kind = self._rng.random()
            if kind < 0.3:
                self.batch(plain, transactional=False)
            elif kind < 0.75 or not opened:
                producer = self._rng.choice(ids)
                if producer not in opened:
                    self._wire.add_partitions(producer, {topic: [partition]})
                    opened.append(producer)
                self.batch(producer, transactional=True)
            else:
                producer = opened.pop(self._rng.randrange(len(opened)))
                assert self._wire.end(producer, committed=self._rng.random() < 0.6) == 0
        for producer in opened[: len(opened) if self._rng.random() < 0.7 else 0]:
            assert self._wire.end(producer, committed=self._rng.random() < 0.6) == 0


def deleted(cluster: RunningCluster, topic: str, offsets: dict[int, int]) -> None:
    async def delete() -> None:
        async with Admin.connect(cluster.bootstrap) as admin:
            partitions = tuple(DeleteRecordsPartition(partition_index=p, offset=o) for p, o in offsets.items())
            body = DeleteRecordsRequest(
                topics=(DeleteRecordsTopic(name=topic, partitions=partitions),), timeout_ms=9000
            )
            answer = await admin.cluster.ask_broker(1, body, admin.cluster.deadline())
            assert {one.error_code for found in answer.topics for one in found.partitions} == {0}, answer

    do(delete())


def consumed(cluster: RunningCluster, level: str) -> dict[tuple[str, int], list[int]]:
    """The offsets of all records that a real consumer gets, by topic and partition."""
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "lag-oracle", "isolation.level": level,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    found: dict[tuple[str, int], list[int]] = {
        (topic, number): [] for topic in (PLAIN, COMPACTED) for number in range(PARTITIONS)
    }
    consumer.assign([confluent.TopicPartition(*place, confluent.OFFSET_BEGINNING) for place in found])
    quiet = time.monotonic() + 15
    while time.monotonic() < quiet:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found[message.topic(), message.partition()].append(message.offset())
            quiet = time.monotonic() + QUIET_S
    consumer.close()
    return found


def high_watermarks(cluster: RunningCluster, topic: str) -> dict[int, int]:
    async def ask() -> dict[int, int]:
        async with Admin.connect(cluster.bootstrap) as admin:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            found = await list_offsets(admin.cluster, places, admin.cluster.deadline())
            return {place.partition: one.high_watermark for place, one in found.values.items()}

    return do(ask())  # type: ignore[no-any-return]


def compacted(cluster: RunningCluster, topic: str) -> bool | None:
    """Whether the cleaner has been in most partitions: in others a transaction that is open holds it."""
    lines = [
        line.split()
        for path in cluster.log_dirs[1].glob("cleaner-offset-checkpoint")
        for line in path.read_text().splitlines()[2:]
    ]
    return sum(name == topic and int(at) > 0 for name, _, at in lines) > PARTITIONS // 3 or None


@pytest.fixture(scope="module")
def groups_of(start_cluster: StartCluster) -> Any:
    """A cluster with the data, and what a consumer gets of each topic at each level."""
    rng = random.Random(20261127)
    with start_cluster(1, config=CLEANER) as cluster:
        with_topic(cluster, PLAIN, PARTITIONS)
        with_topic(
            cluster, COMPACTED, PARTITIONS, cleanup_policy="compact", segment_ms="300",
            min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="0",
        )  # fmt: skip
        with RawCluster(cluster.bootstrap) as wire:
            for topic in (PLAIN, COMPACTED):
                for number in range(PARTITIONS):
                    ids = [wire.init_producer(f"{topic}-{number}-{one}", timeout_ms=600_000) for one in range(3)]
                    plain = wire.init_producer(None)
                    Writer(wire, rng, topic, number).steps(30, ids, plain)
            time.sleep(0.5)  # segments roll with the next batch
            for number in range(PARTITIONS):
                Writer(wire, rng, COMPACTED, number).batch(wire.init_producer(None), transactional=False)
        until(lambda: compacted(cluster, COMPACTED), "the cleaner in a third of the partitions", seconds=60)
        ends = {topic: high_watermarks(cluster, topic) for topic in (PLAIN, COMPACTED)}
        cuts = {number: rng.randrange(end // 2) for number, end in ends[PLAIN].items() if number % 2}
        for group in range(GROUPS):
            topic = (PLAIN, COMPACTED)[group % 2]
            offsets = {number: rng.randrange(end + 1) for number, end in ends[topic].items()}

            async def commit(name: str = f"oracle-{group}", topic: str = topic, offsets: Any = offsets) -> None:
                async with Admin.connect(cluster.bootstrap) as admin:
                    await real_cluster.commit_offsets(admin, name, topic, offsets)

            do(commit())
        deleted(cluster, PLAIN, cuts)
        yield cluster


def lags(run: Run, cluster: RunningCluster, *options: object) -> list[dict[str, Any]]:
    result = run("lag", "--bootstrap-server", cluster.bootstrap, *options, "--format", "jsonl")
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.text.splitlines()]
    return [row for row in rows if row["group"].startswith("oracle-")]


def test_no_bound_is_wrong(groups_of: RunningCluster, run: Run) -> None:
    cluster = groups_of
    exact = lags(run, cluster)
    read = {level: consumed(cluster, level) for level in LEVELS}
    again = lags(run, cluster)
    assert len(exact) == PARTITIONS * GROUPS
    judged = inexact = 0
    for before, row in zip(exact, again, strict=True):
        if before["read_uncommitted"] != row["read_uncommitted"]:  # the cleaner has been there in between
            continue
        for level in LEVELS:
            offsets = read[level][row["topic"], row["partition"]]
            count = sum(offset >= row["from_offset"] for offset in offsets)
            assert row[level]["least"] <= count <= row[level]["most"], row
            judged += 1
            inexact += not row[level]["exact"]
    assert judged >= PARTITIONS * GROUPS
    assert inexact <= judged // 10, inexact
    for budget in (0, 700):
        for row in lags(run, cluster, "--fetch-bytes", budget):
            for level in LEVELS:
                offsets = read[level][row["topic"], row["partition"]]
                count = sum(offset >= row["from_offset"] for offset in offsets)
                assert row[level]["least"] <= count <= row[level]["most"], row
