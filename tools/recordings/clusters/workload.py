"""What clients of three libraries do to a cluster: transactions of every outcome, hangs, and traffic during copies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol

from kafka import KafkaProducer

from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tools.broker import RunningCluster
from tools.oracle import Oracle
from tools.polling import until
from tools.recordings import RecordingError, clients
from tools.recordings.clients import Service, order
from tools.recordings.cluster_clients import orders, producer_of, write
from tools.recordings.raw_client import RawCluster
from tools.recordings.transaction_recipes import HOUR, MINUTE, TransactionScene

from . import event_time
from .configurations import Configuration

_TIMEOUT_S = 30
_TRANSACTION_TIMEOUT_MS = 900_000

__all__ = ["Application", "JavaService", "PythonService", "Service"]


class Application(Protocol):
    """What has transactions. `Service` is librdkafka."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None: ...

    def end(self, *, committed: bool) -> None: ...


class PythonService:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            client_id=transactional_id,
            transactional_id=transactional_id,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None:
        sent = [
            self._producer.send(
                topic, order(number), key=b"%d" % number, partition=partition, timestamp_ms=timestamp + 1000 * i
            )
            for i, number in enumerate(numbers)
        ]
        for one in sent:
            one.get(_TIMEOUT_S)

    def end(self, *, committed: bool) -> None:
        if committed:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def close(self) -> None:
        """Without an end of what is open."""
        self._producer.close(timeout=0)


class JavaService:
    """Kafka's Java client, which uses transaction version 2 where brokers have it. It lives as long as the oracle."""

    def __init__(self, oracle: Oracle, bootstrap: str, transactional_id: str) -> None:
        self._oracle = oracle
        self._of = {
            "op": "produce",
            "bootstrap": bootstrap,
            "transactionalId": transactional_id,
            "timeoutMs": _TRANSACTION_TIMEOUT_MS,
        }
        self._step("init")

    def begin(self) -> None:
        self._step("begin")

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None:
        records = [[str(number), order(number).decode(), timestamp + 1000 * i] for i, number in enumerate(numbers)]
        self._step("send", topic=topic, partition=partition, records=records)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """A group's offset, as part of the transaction."""
        self._step("offsets", group=group, topic=topic, partition=partition, offset=offset)

    def end(self, *, committed: bool) -> None:
        self._step("commit" if committed else "abort")

    def _step(self, step: str, **more: Any) -> None:
        answer = self._oracle.one(step=step, **self._of, **more)
        if "error" in answer:
            raise RecordingError(f"{self._of['transactionalId']}: {step}: {answer['error']}: {answer['text']}")


#: Partitions of `__transaction_state`, and of `__consumer_offsets`.
INTERNAL_PARTITIONS = 5
#: The newest version of Produce of brokers before 3.0, and of those that add no partition to a transaction.
_PRODUCE_OLD, _PRODUCE_UNVERIFIED = 9, 11
_SECONDS = 60.0

#: Topic -> its number of partitions.
TOPICS = {"orders": 2, "payments": 1, "events": 1, "compacted": 1, "hangs": 5, "live": 1, "plain": 1}
#: Topic -> its properties. Retention would delete records that are stamped long ago.
TOPIC_CONFIG = {
    **{topic: {"retention.ms": "-1"} for topic in (*TOPICS, event_time.OUTPUT)},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "10000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    },
}


def topics_of(configuration: Configuration) -> dict[str, int]:
    """Topic -> its number of partitions, with those that frameworks make."""
    return {**TOPICS, **(event_time.WRITTEN if configuration.frameworks else {})}


#: Topics that traffic writes to.
BUSY = (("orders", 0), ("orders", 1), ("events", 0))
#: Ages of the records of traffic, hours: some are ahead.
_AGES = (0.0, 3.0, 26.0, -0.8, 0.0)

BROKERS = {
    "transaction.partition.verification.enable": False,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,  # a killed broker can register again after it
    "log.index.size.max.bytes": 2048,
    "log.index.interval.bytes": 512,
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 500,
    "log.segment.delete.delay.ms": 0,
    "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
    "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
    "share.coordinator.state.topic.num.partitions": 1,
}


class Workload:
    """Args: `oracle`: of the Java client."""

    def __init__(self, configuration: Configuration, running: RunningCluster, oracle: Oracle, wire: RawCluster) -> None:
        self.oracle = oracle
        self.scene = TransactionScene(running, wire, transactions=not configuration.zookeeper)
        self.bootstrap = running.bootstrap
        self._produce = _PRODUCE_OLD if configuration.zookeeper else _PRODUCE_UNVERIFIED
        self._frameworks = configuration.frameworks
        self._disks = running.nodes[0].log_dirs

    def create(self, replicas: int) -> None:
        """Makes the topics."""
        topics = {**TOPICS, event_time.OUTPUT: 1} if self._frameworks else TOPICS
        clients.create_topics(self.bootstrap, topics, replicas=replicas, config=TOPIC_CONFIG)

    def before(self) -> None:
        """Everything that has happened when the first copy is made."""
        self._ended()
        self._offsets()
        self._plain()
        self._hangs()
        self._live()
        self._compacted()

    def _ended(self) -> None:
        """Transactions of each client that committed and aborted, interleaved, stamped hours ago."""
        then = self.scene.hours_ago(5)
        java = JavaService(self.oracle, self.bootstrap, "java-orders")
        each: list[Application] = [self._service("orders"), PythonService(self.bootstrap, "python"), java]
        for number, service in enumerate(each):
            for committed in (True, False, True):
                service.begin()
                for topic, partition in BUSY:
                    service.send(topic, partition, range(10 * number, 10 * number + 3), timestamp=then)
                service.end(committed=committed)
                then += MINUTE
        first, second = self._service("first"), self._service("second", codec="lz4")
        first.begin()
        second.begin()
        for service in (first, second, first):
            service.send("orders", 0, range(60, 62), timestamp=then)
        second.end(committed=False)
        first.end(committed=True)

    def _offsets(self) -> None:
        """Consume, transform, produce: librdkafka reads and writes; and as Kafka Streams does, with times of events."""
        reader = clients.consumer(self.bootstrap, "shipments")
        clients.copy_exactly_once(self._service("shipments"), reader, [("orders", 0)], ("payments", 0), bytes.upper)
        reader.close()
        streams = JavaService(self.oracle, self.bootstrap, "streams-app-0_0")
        for committed, offset in ((True, 3), (False, 5), (True, 6)):
            streams.begin()
            streams.send("payments", 0, range(offset, offset + 2), timestamp=self.scene.hours_ago(26))
            streams.send_offset("streams-app", "events", 0, offset)
            streams.end(committed=committed)

    def _plain(self) -> None:
        for config in ({}, {"enable.idempotence": True}):
            write(producer_of(self.bootstrap, config), "plain", orders(range(4), self.scene.hours_ago(4)))

    def _hangs(self) -> None:
        """A partition for each way to hang."""
        self.scene.late_batch("hangs", 0, "late-batch", hours=3, version=self._produce)
        self.scene.never_added("hangs", 1, "never-added", hours=3)
        self.scene.without_id("hangs", 2, hours=3)
        self.scene.bumped("hangs", 3, "bumped", hours=3)
        self.scene.never_added("hangs", 4, "ahead", hours=-0.8)  # a producer's clock that is ahead of all others
        self.behind_hangs("behind-hangs-1")

    def behind_hangs(self, transactional_id: str) -> None:
        """A committed transaction after all that hangs, whose markers have the broker's time."""
        writes = {("hangs", partition): range(3) for partition in range(TOPICS["hangs"])}
        self._service(transactional_id).transaction(writes, timestamp=self.scene.hours_ago(1))

    def _live(self) -> None:
        """A client that runs to the end in one transaction, whose records are hours old."""
        self.scene.live("live", 0, "live", hours=2)

    def _compacted(self) -> None:
        """Keys that are written over in transactions, then compaction."""
        service = self._service("compacted")
        for number in range(5):
            writes = {("compacted", 0): [1, 2, 3 + number]}
            service.transaction(writes, timestamp=self.scene.now + number * MINUTE, committed=number != 2)
        until(self._is_compacted, "compaction", seconds=_SECONDS)

    def _is_compacted(self) -> bool:
        checkpoints = (disk / "cleaner-offset-checkpoint" for disk in self._disks)
        return any(one.exists() and "compacted 0 " in one.read_text() for one in checkpoints)

    def _service(self, transactional_id: str, codec: str = "none") -> Service:
        return Service(self.bootstrap, transactional_id, codec=codec)


class Traffic:
    """Short transactions of five producers, one for each partition of `__transaction_state`; every step begins one or
    ends one, so that at each moment some are open. Every third is aborted.
    """

    def __init__(self, workload: Workload) -> None:
        bootstrap = workload.bootstrap
        ids = tuple(ids_of_partitions("traffic"))
        self._producers: Sequence[Application] = (
            Service(bootstrap, ids[0]),
            JavaService(workload.oracle, bootstrap, ids[1]),
            Service(bootstrap, ids[2], codec="lz4"),
            JavaService(workload.oracle, bootstrap, ids[3]),
            Service(bootstrap, ids[4]),
        )
        self._open: set[int] = set()
        self._steps = count()
        self._numbers = count(1000)
        self._ended = 0

    def step(self) -> None:
        """Begins a transaction, or ends one."""
        turn = next(self._steps) % len(self._producers)
        if turn in self._open:
            self._end(turn)
            return
        producer = self._producers[turn]
        now = int(time.time() * 1000) - int(_AGES[turn] * HOUR)
        producer.begin()
        self._open.add(turn)
        for topic, partition in BUSY[turn % 2 :]:
            producer.send(topic, partition, [next(self._numbers)], timestamp=now)

    def round(self) -> None:
        """As many steps as each producer needs to begin a transaction and to end it."""
        for _ in range(2 * len(self._producers)):
            self.step()

    def end(self) -> None:
        """Ends what is open."""
        for turn in sorted(self._open):
            self._end(turn)

    def _end(self, turn: int) -> None:
        self._open.discard(turn)
        self._ended += 1
        self._producers[turn].end(committed=self._ended % 3 != 0)


def ids_of_partitions(prefix: str) -> Iterator[str]:
    """A transactional id for each partition of `__transaction_state`, in their order."""
    for partition in range(INTERNAL_PARTITIONS):
        names = (f"{prefix}-{number}" for number in count())
        yield next(name for name in names if partition_of_id(name, INTERNAL_PARTITIONS) == partition)
