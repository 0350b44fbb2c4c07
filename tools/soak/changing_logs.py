"""`python -m tools.soak.changing_logs SEED STEPS`: a cluster that works on its logs, and a stream of its directories.

Between every two micro-batches something happens to the logs, chosen by the seed: records, transactions, a roll, the
cleaner, retention, DeleteRecords, another leader, a leader that is lost with what its follower did not have (an unclean
election, and truncation), a topic that is deleted and created again, a reassignment. A trigger may be computed twice,
by a stream that is started anew from its checkpoint, as after a driver was killed; and a task twice, as after an
executor was.

Delivered has to be what a real consumer has, once each: librdkafka, with the check of leader epochs that Kafka's own
consumer makes. It reads before and after each micro-batch, as brokers work at any time: each record of the later
reading has been delivered, and nothing that the earlier one did not have.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.client import Cluster, Config
from kafkawire.logdir import BrokerDirectory
from kafkawire.logdir.log_files import log_file
from kafkawire.messages import AlterPartitionReassignmentsRequest, OffsetForLeaderEpochRequest
from kafkawire.messages.alter_partition_reassignments_request import ReassignablePartition, ReassignableTopic
from kafkawire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition, OffsetForLeaderTopic
from kafkawire.spark.segment_columns import RECORDS
from kafkawire.spark.segment_streams import SegmentStream
from kafkawire.spark.sources import SourceOptions
from tools.broker import RunningCluster, cluster
from tools.polling import until
from tools.recordings.clients import create_topics

from .errors import SoakError

KEPT, COMPACTED = "kept", "compacted"
TOPICS = (KEPT, COMPACTED)
#: Brokers that clean, roll, check retention and write their checkpoints at once, and elect whoever is there.
BROKERS = {
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 2_000,
    "file.delete.delay.ms": 300,
    "initial.broker.registration.timeout.ms": 60_000,
    "leader.imbalance.check.interval.seconds": 3_600,
    "log.cleaner.backoff.ms": 200,
    "log.flush.start.offset.checkpoint.interval.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 300,
    "replica.fetch.wait.max.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 100,
    "replica.lag.time.max.ms": 2_000,
    "unclean.leader.election.enable": "true",
}
_TOPIC = {"segment.ms": "1000", "min.insync.replicas": "1", "message.timestamp.after.max.ms": str(1 << 60)}
_CONFIG = {
    KEPT: {**_TOPIC, "cleanup.policy": "delete", "retention.ms": "-1"},
    COMPACTED: {
        **_TOPIC,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "1000",
        "delete.retention.ms": "0",
    },
}
_WAIT_S = 90.0
#: The reasons of rows that are no records.
_EXPECTED = frozenset(("truncated", "out_of_range", "new_log"))


class Position(NamedTuple):
    """Where a consumer is."""

    offset: int = 0
    epoch: int = -1


class Reading:
    """A consumer with a position in each topic, which goes back where a later leader has less (KIP-320).

    A position is the offset after the last record that it got, with that record's epoch; markers do not move it.
    """

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self.bootstrap, self.isolation = bootstrap, isolation
        self.at: dict[str, Position] = {}

    def forget(self, topic: str) -> None:
        """Of a topic that was created again all is new."""
        self.at.pop(topic, None)

    def read(self) -> tuple[Counter[bytes], dict[str, Position]]:
        """All that is behind the positions, and the positions then."""
        found: Counter[bytes] = Counter()
        after = {}
        for topic in TOPICS:
            values, after[topic] = self._of(topic, self.at.get(topic, Position()))
            found += Counter(values)
        return found, after

    def _of(self, topic: str, position: Position) -> tuple[list[bytes], Position]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "soak",
                "isolation.level": self.isolation,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "log_level": 2,
            }
        )
        values: list[bytes] = []
        try:
            position = self._validated(topic, position)
            consumer.assign([TopicPartition(topic, 0, position.offset)])
            deadline = time.monotonic() + _WAIT_S
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                    offset, epoch = message.offset(), message.leader_epoch()
                    assert offset is not None
                    position = Position(offset + 1, -1 if epoch is None else epoch)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values, position
                elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
                    position = Position(low if position.offset < low else high)
                    consumer.assign([TopicPartition(topic, 0, position.offset)])
                elif error.fatal():
                    raise SoakError(f"the consumer of {topic} at {position}: {error}")
        finally:
            consumer.close()
        raise SoakError(f"the consumer of {topic} at {position} does not come to the end")

    def _validated(self, topic: str, position: Position) -> Position:
        """The position, or where the epoch of its record ends by the leader's answer, as Kafka's own consumer does.
        (librdkafka validates where the leader changes while it runs, and a new one is made for each reading.)"""
        if position.epoch < 0:
            return position
        end = asyncio.run(_end_of_epoch(self.bootstrap, topic, position.epoch))
        return position if end < 0 or end >= position.offset else Position(end)


async def _end_of_epoch(bootstrap: str, topic: str, epoch: int) -> int:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),)
    )
    async with Cluster(Config.of(bootstrap)) as connected:
        answer = await connected.ask(request, topic=topic, partition=0)
    found: int = answer.topics[0].partitions[0].end_offset
    return found


class Changes:
    """What happens to the logs of a cluster of two brokers."""

    def __init__(self, running: RunningCluster, random: Random) -> None:
        self.running, self.random = running, random
        self.admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 2})
        self._number = 0
        self._clock = int(time.time() * 1000) - 10_000_000
        self._create(TOPICS)
        self._start_producers()
        self.write()

    def acts(self) -> dict[Callable[[], None], int]:
        """With their weights."""
        return {
            self.write: 6, self.transaction: 4, self.roll: 4, self.clean: 4, self.retain: 2, self.delete_records: 2,
            self.move_leader: 2, self.lose_leader: 1, self.create_again: 1, self.reassign: 1,
        }  # fmt: skip

    def act(self) -> str:
        """Something."""
        weighed = self.acts()
        (chosen,) = self.random.choices(list(weighed), weights=list(weighed.values()))
        chosen()
        return chosen.__name__

    def settle(self) -> None:
        """Until both brokers have all, and say so in their checkpoints."""

        def same() -> bool:
            for topic in TOPICS:
                bounds = self._watermarks(topic)
                nodes = [node for node in self.running.nodes if node.running]
                there = [node.log_dir for node in nodes if (node.log_dir / f"{topic}-0").exists()]
                if not there or any(self._bounds(topic, folder) != bounds for folder in there):
                    return False
            return True

        until(same, "the high watermark in the brokers' checkpoints", seconds=_WAIT_S)

    def write(self) -> None:
        for topic in TOPICS:
            self._send(self._producer, topic, self.random.randint(1, 12))
        self._flush(self._producer)

    def transaction(self) -> None:
        self._writer.begin_transaction()
        for topic in TOPICS:
            self._send(self._writer, topic, self.random.randint(1, 6))
        if self.random.random() < 0.3:
            self._writer.abort_transaction(_WAIT_S)
        else:
            self._writer.commit_transaction(_WAIT_S)

    def roll(self) -> None:
        """A segment ends where the time of a record is later by `segment.ms`."""
        self._clock += 5_000
        self.write()

    def clean(self) -> None:
        self.write()
        self.roll()
        self.roll()
        until(lambda: self._cleaned(COMPACTED) >= 0, "the cleaner", seconds=_WAIT_S)
        time.sleep(self.random.random())

    def retain(self) -> None:
        self.roll()
        low, _ = self._watermarks(KEPT)
        self._set(KEPT, "retention.ms", "1")
        until(lambda: self._watermarks(KEPT)[0] > low, "retention", seconds=_WAIT_S)
        self._set(KEPT, "retention.ms", "-1")
        time.sleep(0.5)
        self.write()

    def delete_records(self) -> None:
        low, high = self._watermarks(KEPT)
        at = TopicPartition(KEPT, 0, self.random.randint(low, high))
        for done in self.admin.delete_records([at]).values():
            done.result(_WAIT_S)

    def move_leader(self) -> None:
        """By a clean stop of the leader."""
        leader = self._leader(KEPT)
        self.running.stop_node(leader)
        until(lambda: self._leader(KEPT) not in (leader, -1), "another leader", seconds=_WAIT_S)
        self.write()
        self.running.start_node(leader)
        self._whole()

    def lose_leader(self) -> None:
        """A follower is killed, the leader goes on and is killed, the follower is elected: an unclean election, and the
        former leader truncates its log when it comes back."""
        leader = self._leader(KEPT)
        (other,) = (node.node_id for node in self.running.nodes if node.node_id != leader)
        until(lambda: self._leader(COMPACTED) in (leader, other), "a leader", seconds=_WAIT_S)
        self.running.kill_node(other)
        until(lambda: all(self._isr(topic) == [leader] for topic in TOPICS), "a leader alone", seconds=_WAIT_S)
        self.write()
        self.between()
        self.running.kill_node(leader)
        self.running.start_node(other)
        until(lambda: all(self._leader(topic) == other for topic in TOPICS), "an unclean election", seconds=_WAIT_S)
        if self.random.random() < 0.7:
            self.write()
        self.running.start_node(leader)
        self._whole()

    def create_again(self) -> None:
        topic = self.random.choice(TOPICS)
        for done in self.admin.delete_topics([topic]).values():
            done.result(_WAIT_S)
        until(lambda: topic not in self.admin.list_topics(timeout=10).topics, "a deleted topic", seconds=_WAIT_S)
        self._create((topic,))
        self._start_producers()  # their sequence numbers are of the deleted one
        self.recreated(topic)
        self.write()

    def reassign(self) -> None:
        topic = self.random.choice(TOPICS)
        ids = [node.node_id for node in self.running.nodes]
        self.random.shuffle(ids)
        self._reassigned(topic, ids[:1])
        self.write()
        self._reassigned(topic, ids)
        self._whole()

    def between(self) -> None:
        """Called while the leader is alone, with records that will be lost."""

    def recreated(self, topic: str) -> None:
        """Called when a topic was created again."""

    # ------------------------------------------------------------------------------------------------------------------

    def _create(self, topics: tuple[str, ...]) -> None:
        def created() -> bool:
            with contextlib.suppress(Exception):  # the folder of the deleted one is still there
                create_topics(self.running.bootstrap, dict.fromkeys(topics, 1), replicas=2, config=_CONFIG)
            return set(topics) <= set(self.admin.list_topics(timeout=10).topics)

        until(created, "topics", seconds=_WAIT_S)
        until(lambda: all(self._isr(topic) for topic in topics), "leaders", seconds=_WAIT_S)

    def _start_producers(self) -> None:
        self._producer = self._new_producer()
        self._writer = self._new_producer(**{"transactional.id": "soak"})
        self._writer.init_transactions(_WAIT_S)

    def _new_producer(self, **more: str) -> Producer:
        usual = {"bootstrap.servers": self.running.bootstrap, "acks": "all", "linger.ms": "2", "log_level": "2"}
        return Producer({**usual, **more})

    def _send(self, producer: Producer, topic: str, count: int) -> None:
        for _ in range(count):
            self._number += 1
            self._clock += 1
            key = b"%d" % self.random.randrange(6)
            producer.produce(topic, b"%d" % self._number, key=key, partition=0, timestamp=self._clock)

    def _flush(self, producer: Producer) -> None:
        if producer.flush(_WAIT_S):
            raise SoakError("records are not written")

    def _watermarks(self, topic: str) -> tuple[int, int]:
        from confluent_kafka.admin import OffsetSpec

        found = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            (done,) = self.admin.list_offsets({TopicPartition(topic, 0): spec}).values()
            found.append(done.result(_WAIT_S).offset)
        return found[0], found[1]

    def _bounds(self, topic: str, folder: Path) -> tuple[int, int]:
        """The log start and the high watermark that a broker has written down."""
        broker, place = _broker(folder), (topic, 0)
        first = min((int(file.stem) for file in (folder / f"{topic}-0").glob("*.log")), default=0)
        return max(first, broker.log_starts.get(place, 0)), broker.high_watermarks.get(place, 0)

    def _cleaned(self, topic: str) -> int:
        return max(_broker(node.log_dir).cleaned.get((topic, 0), -1) for node in self.running.nodes)

    def _partition(self, topic: str) -> Any:
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return found.get(0)

    def _leader(self, topic: str) -> int:
        found = self._partition(topic)
        return -1 if found is None else int(found.leader)

    def _isr(self, topic: str) -> list[int]:
        found = self._partition(topic)
        return [] if found is None or found.leader < 0 else list(found.isrs)

    def _whole(self) -> None:
        """Until both brokers have all partitions."""
        until(lambda: all(len(self._isr(topic)) == 2 for topic in TOPICS), "replicas in sync", seconds=_WAIT_S)

    def _set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(_WAIT_S)

    def _reassigned(self, topic: str, replicas: list[int]) -> None:
        partition = ReassignablePartition(partition_index=0, replicas=tuple(replicas))
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=(partition,)),))

        async def ask() -> None:
            async with Cluster(Config.of(self.running.bootstrap)) as connected:
                answer = await connected.ask(request)
                if answer.error_code or any(one.error_code for t in answer.responses for one in t.partitions):
                    raise SoakError(f"{topic} cannot be reassigned: {answer}")

        asyncio.run(ask())

        def done() -> bool:
            found = self._partition(topic)
            return found is not None and sorted(found.replicas) == sorted(replicas) == sorted(found.isrs)

        until(done, "a reassignment", seconds=_WAIT_S)


def _broker(folder: Path) -> BrokerDirectory:
    return BrokerDirectory(str(folder), log_file(str(folder / "meta.properties")))


class Stream:
    """A query without Spark: its source, with a checkpoint that is JSON."""

    def __init__(self, root: Path, random: Random, isolation: str) -> None:
        self.options = {"path": f"{root}/node-*/data", "isolationLevel": isolation, "subscribe": ",".join(TOPICS)}
        self.random = random
        self.offset: Any = None
        self.errors: Counter[str] = Counter()
        self._stream = self._started()

    def _started(self) -> SegmentStream:
        return SegmentStream(from_arrow_schema(RECORDS), SourceOptions(self.options))

    def trigger(self) -> Counter[bytes]:
        """A micro-batch: what it delivers."""
        if self.random.random() < 0.3:
            self._stream = self._started()  # the driver was killed
        if self.offset is None:
            self.offset = json.loads(json.dumps(self._stream.initialOffset()))
        end = json.loads(json.dumps(self._stream.latestOffset(self.offset, self._stream.getDefaultReadLimit())))
        if self.random.random() < 0.3:
            self._stream = self._started()
        found: Counter[bytes] = Counter()
        for task in self._stream.partitions(self.offset, end) if end != self.offset else ():
            if self.random.random() < 0.2:
                next(iter(self._stream.read(task)), None)  # the executor was killed: the task runs again
            for batch in self._stream.read(task):
                for row in batch.to_pylist():
                    if row["error"]:
                        self.errors[row["error"].split(":")[0]] += 1
                    else:
                        found[row["value"]] += 1
        self.offset = end
        return found


def disagreement(
    before: Counter[bytes], found: Counter[bytes], after: Counter[bytes], every: Counter[bytes]
) -> str | None:
    """What is wrong with a micro-batch, with the first twenty records; None: nothing.

    Args:
        before, after: what the consumer got from the same position before and after it. `found`: what it delivered.
        every: what all micro-batches delivered.
    """
    wrong = {
        "not delivered": after - found,
        "delivered, and no consumer has": found - before,
        "delivered twice": [value for value, count in every.items() if count > 1],
    }
    texts = (f"{what}: {sorted(values, key=int)[:20]}" for what, values in wrong.items() if values)
    return "; ".join(texts) or None


class Outcome(NamedTuple):
    """What a run found: micro-batches, records that were delivered, what was done, and rows with errors, by reason."""

    batches: int
    records: int
    acts: Counter[str]
    errors: Counter[str]


def run_beside(
    running: RunningCluster, folder: Path, seed: int, steps: int, announce: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Micro-batches beside a cluster of two brokers with the properties `BROKERS`.

    Args:
        folder: of the cluster. `seed`: of what happens. `steps`: micro-batches.

    Raises:
        SoakError: something was delivered twice, or is missing.
    """
    random = Random(seed)
    isolation = ("read_uncommitted", "read_committed")[seed % 2]
    changes = Changes(running, random)
    reading = Reading(running.bootstrap, isolation)
    stream = Stream(folder.resolve(), random, isolation)
    done: Counter[str] = Counter()
    every: Counter[bytes] = Counter()
    batches = 0

    def batch() -> None:
        nonlocal batches, every
        changes.settle()
        before, _ = reading.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = stream.trigger()
        after, reading.at = reading.read()
        batches += 1
        every += found
        if wrong := disagreement(before, found, after, every):
            raise SoakError(f"seed {seed}, micro-batch {batches}, {recent[-8:]}: {wrong}; {stream.offset}")

    changes.between = batch  # type: ignore[method-assign]
    changes.recreated = reading.forget  # type: ignore[method-assign]
    recent: list[str] = []
    batch()
    while batches < steps:
        for _ in range(random.randint(1, 3)):
            recent.append(changes.act())
            done[recent[-1]] += 1
        batch()
        announce(f"seed {seed}: micro-batch {batches}, {sum(every.values())} records, {recent[-1]}")
    if unexpected := stream.errors.keys() - _EXPECTED:
        raise SoakError(f"seed {seed}: rows with errors {unexpected}")
    return Outcome(batches, sum(every.values()), done, stream.errors)


def main(words: list[str]) -> Iterator[str]:
    seed, steps = map(int, words)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "cluster")
        with cluster(2, controllers=1, config=BROKERS, folder=place) as running:
            found = run_beside(running, place, seed, steps, lambda text: print(text, flush=True))
    yield f"{found.batches} micro-batches, {found.records} records, {dict(found.acts)}, rows {dict(found.errors)}"


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line)
