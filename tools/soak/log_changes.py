"""What happens to the logs of a cluster of two brokers, for a stream that is read beside it (`changing_logs`)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafkawire.client import Cluster, Config
from kafkawire.logdir import BrokerDirectory
from kafkawire.logdir.log_files import log_file
from kafkawire.messages import AlterPartitionReassignmentsRequest
from kafkawire.messages.alter_partition_reassignments_request import ReassignablePartition, ReassignableTopic
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings.clients import create_topics
from tools.recordings.cluster_clients import admin_of, delete_records, delete_topic, producer_of, set_topic_config

from .child_process import SoakError

KEPT, COMPACTED = "kept", "compacted"
TOPICS = (KEPT, COMPACTED)
#: Brokers that clean, roll, check retention and write their checkpoints at once, and elect any replica that is there. A
#: producer that asks for the metadata of a deleted topic does not create it.
BROKERS = {
    "auto.create.topics.enable": "false",
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
WAIT_S = 90.0


class Changes:
    """What happens to the logs of a cluster of two brokers."""

    def __init__(self, running: RunningCluster, random: Random) -> None:
        self.running, self.random = running, random
        self.admin = admin_of(running.bootstrap)
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
        """Until both brokers have all, and say so in their checkpoints.

        A follower applies retention to its own segments: its log may begin later than the leader's, for good.
        """
        unlike: dict[str, object] = {}

        def same() -> bool:
            unlike.clear()
            for topic in TOPICS:
                bounds = self._watermarks(topic)
                nodes = [node for node in self.running.nodes if node.running]
                there = {node.node_id: node.log_dir for node in nodes if (node.log_dir / f"{topic}-0").exists()}
                held = {number: self._bounds(topic, folder) for number, folder in there.items()}
                leader = self._leader(topic)
                late = any(low < bounds[0] or high != bounds[1] for low, high in held.values())
                if late or held.get(leader) != bounds:
                    unlike[topic] = {"leader": leader, "bounds": bounds, "in checkpoints": held}
            return not unlike

        try:
            until(same, "the high watermark in the brokers' checkpoints", seconds=WAIT_S)
        except TimeoutError as error:
            raise SoakError(f"{error}: {unlike}") from None

    def write(self) -> None:
        for topic in TOPICS:
            self._send(self._producer, topic, self.random.randint(1, 12))
        if self._producer.flush(WAIT_S):
            raise SoakError("records are not written")

    def transaction(self) -> None:
        """An unclean election may have lost what a leader knew of the producer: then it is started anew."""
        counts = [self.random.randint(1, 6) for _ in TOPICS]
        aborts = self.random.random() < 0.3
        try:
            self._writer.begin_transaction()
            for topic, count in zip(TOPICS, counts, strict=True):
                self._send(self._writer, topic, count)
            (self._writer.abort_transaction if aborts else self._writer.commit_transaction)(WAIT_S)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._start_producers()

    def roll(self) -> None:
        """A segment ends where the time of a record is later by `segment.ms`."""
        self._clock += 5_000
        self.write()

    def clean(self) -> None:
        self.write()
        self.roll()
        self.roll()
        until(self._is_cleaned, "the cleaner", seconds=WAIT_S)
        time.sleep(self.random.random())

    def retain(self) -> None:
        self.roll()
        low, _ = self._watermarks(KEPT)
        set_topic_config(self.running.bootstrap, KEPT, "retention.ms", "1")
        until(lambda: self._watermarks(KEPT)[0] > low, "retention", seconds=WAIT_S)
        set_topic_config(self.running.bootstrap, KEPT, "retention.ms", "-1")
        time.sleep(0.5)
        self.write()

    def delete_records(self) -> None:
        low, high = self._watermarks(KEPT)
        delete_records(self.running.bootstrap, KEPT, self.random.randint(low, high))

    def move_leader(self) -> None:
        """By a clean stop of the leader."""
        leader = self._leader(KEPT)
        self.running.stop_node(leader)
        until(lambda: self._leader(KEPT) not in (leader, -1), "another leader", seconds=WAIT_S)
        self.write()
        self.running.start_node(leader)
        self._whole()

    def lose_leader(self) -> None:
        """A follower is killed, the leader goes on and is killed, the follower is elected: an unclean election, and the
        former leader truncates its log when it comes back."""
        leader = self._leader(KEPT)
        (other,) = (node.node_id for node in self.running.nodes if node.node_id != leader)
        until(lambda: self._leader(COMPACTED) in (leader, other), "a leader", seconds=WAIT_S)
        self.running.kill_node(other)
        until(lambda: all(self._isr(topic) == [leader] for topic in TOPICS), "a leader alone", seconds=WAIT_S)
        self.write()
        self.between()
        self.running.kill_node(leader)
        self.running.start_node(other)
        until(lambda: all(self._leader(topic) == other for topic in TOPICS), "an unclean election", seconds=WAIT_S)
        if self.random.random() < 0.7:
            self.write()
        self.running.start_node(leader)
        self._whole()

    def create_again(self) -> None:
        topic = self.random.choice(TOPICS)
        delete_topic(self.running.bootstrap, topic)
        until(lambda: (there := self._topics()) and topic not in there, "a deleted topic", seconds=WAIT_S)
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
            return set(topics) <= set(self._topics())

        until(created, "topics", seconds=WAIT_S)
        until(lambda: all(self._isr(topic) for topic in topics), "leaders", seconds=WAIT_S)

    def _start_producers(self) -> None:
        usual = {"acks": "all", "linger.ms": 2}
        self._producer = producer_of(self.running.bootstrap, usual)
        self._writer = producer_of(self.running.bootstrap, {**usual, "transactional.id": "soak"})
        self._writer.init_transactions(WAIT_S)

    def _send(self, producer: Producer, topic: str, count: int) -> None:
        for _ in range(count):
            self._number += 1
            self._clock += 1
            key = b"%d" % self.random.randrange(6)
            producer.produce(topic, b"%d" % self._number, key=key, partition=0, timestamp=self._clock)

    def _watermarks(self, topic: str) -> tuple[int, int]:
        specs = (OffsetSpec.earliest(), OffsetSpec.latest())
        asked = [self.admin.list_offsets({TopicPartition(topic, 0): spec}).values() for spec in specs]
        low, high = (done.result(WAIT_S).offset for (done,) in asked)
        return low, high

    def _bounds(self, topic: str, folder: Path) -> tuple[int, int]:
        """The log start and the high watermark that a broker has written down."""
        broker, place = _broker(folder), (topic, 0)
        first = min((int(file.stem) for file in (folder / f"{topic}-0").glob("*.log")), default=0)
        return max(first, broker.log_starts.get(place, 0)), broker.high_watermarks.get(place, 0)

    def _is_cleaned(self) -> bool:
        return any(_broker(node.log_dir).cleaned.get((COMPACTED, 0), -1) >= 0 for node in self.running.nodes)

    def _topics(self) -> dict[str, Any]:
        """The topics with their partitions; none where no broker answers yet: who waits for something asks again."""
        try:
            return dict(self.admin.list_topics(timeout=10).topics)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise
            return {}

    def _partition(self, topic: str) -> Any:
        found = self._topics().get(topic)
        return None if found is None else found.partitions.get(0)

    def _leader(self, topic: str) -> int:
        found = self._partition(topic)
        return -1 if found is None else int(found.leader)

    def _isr(self, topic: str) -> list[int]:
        found = self._partition(topic)
        return [] if found is None or found.leader < 0 else list(found.isrs)

    def _whole(self) -> None:
        """Until both brokers have all partitions."""
        until(lambda: all(len(self._isr(topic)) == 2 for topic in TOPICS), "replicas in sync", seconds=WAIT_S)

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

        until(done, "a reassignment", seconds=WAIT_S)


def _broker(folder: Path) -> BrokerDirectory:
    return BrokerDirectory(str(folder), log_file(str(folder / "meta.properties")))
