"""`World`: a small Kafka that keeps every rule of transactions and writes the log directories of its brokers.

Coordinators, producers and controller act as Kafka's do, at both generations of transaction versions; tests break one
rule at a time (`tests.injected`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kafkawire.messages import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Record
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.audit_logs import HOUR, MINUTE, NOON, STATUS, LogDirectory, PartitionLog

IDS = 4
TOPIC = "orders"
PARTITIONS = 3
TIMEOUT = 15 * MINUTE

Place = tuple[str, int]


@dataclass
class Producer:
    """A transactional producer, and what its coordinator holds of it."""

    name: str
    producer_id: int
    version: int
    epoch: int = 0
    state: str | None = None
    partitions: tuple[Place, ...] = ()
    started: int = -1
    timeout: int = TIMEOUT
    sequences: dict[tuple[Place, int], int] = field(default_factory=dict)


class World:
    """A cluster of one broker, or of two with the same partitions; the first is the one with all the rest.

    Attributes:
        now: the clock of all, epoch milliseconds; `step`: how much later each thing is than the one before.
        logs: the first broker's directory. `orders`: its partitions of data.
        spot: a batch that a test remembers, as its segment's base offset and its position there.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = NOON
        self.step = 10_000
        self.root = root
        self.logs = LogDirectory(root / "broker-2", ids=IDS, compacted=False, stopped=False)
        self.metadata = self.logs.partition("__cluster_metadata")
        self.orders = [self.logs.partition(TOPIC, number) for number in range(PARTITIONS)]
        self.next_producer_id = 1000 * self.random.randrange(1, 5)
        self.coordinator_epoch = self.random.randrange(3)
        for number in range(IDS):
            self.logs.partition("__transaction_state", number).leader_epoch = self.coordinator_epoch
        self._first = self.next_producer_id
        self.spot = (0, 0)
        topic = UUID(int=7)
        self.control(2, TopicRecord(name="__transaction_state", topic_id=topic).encode(version=0))
        for number in range(IDS):
            self.control(3, PartitionRecord(partition_id=number, topic_id=topic).encode(version=0))
        self.hand_out(self.next_producer_id + 1000)

    # The controller --------------------------------------------------------------------------------------------------

    def control(self, api_key: int, body: bytes, version: int = 0) -> int:
        """Write a record of the metadata log; returns its offset."""
        return self.metadata.records([Record(value=bytes((1, api_key, version)) + body, timestamp=self.tick())])

    def hand_out(self, next_producer_id: int) -> int:
        record = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=next_producer_id)
        return self.control(ProducerIdsRecord.spec.api_key or 0, record.encode(version=0))

    def configure(self, name: str, value: str | None, broker: str = "") -> int:
        """Set a broker's setting, or remove it."""
        record = ConfigRecord(resource_type=4, resource_name=broker, name=name, value=value)
        return self.control(ConfigRecord.spec.api_key or 0, record.encode(version=0))

    def tick(self, milliseconds: int | None = None) -> int:
        self.now += self.step if milliseconds is None else milliseconds
        return self.now

    # Coordinators ----------------------------------------------------------------------------------------------------

    def producer(self, name: str, version: int = 2, *, init: bool = True) -> Producer:
        """A new transactional id; its first record is written."""
        found = Producer(name, self.producer_id(), version)
        if init:
            self.write(found, "Empty")
        return found

    def producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def value(self, producer: Producer, state: str) -> TransactionLogValue:
        """The record that the coordinator would write now."""
        partitions: tuple[PartitionsSchema, ...] | None = tuple(
            PartitionsSchema(topic=topic, partition_ids=(number,)) for topic, number in producer.partitions
        )
        return TransactionLogValue(
            producer_id=producer.producer_id,
            previous_producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_timeout_ms=producer.timeout,
            transaction_status=STATUS[state],
            transaction_partitions=None if state == "Empty" else partitions,
            transaction_last_update_timestamp_ms=self.now,
            transaction_start_timestamp_ms=producer.started,
            client_transaction_version=producer.version,
        )

    def write(self, producer: Producer, state: str) -> int:
        """The id goes into a state."""
        self.tick()
        producer.state = state
        if state == "Empty":
            producer.started = -1
        if state in ("Empty", "CompleteCommit", "CompleteAbort"):
            producer.partitions = ()
        return self.put(producer.name, self.value(producer, state))

    def put(self, name: str, value: TransactionLogValue | None, *, partition: int | None = None) -> int:
        """Write a record of `__transaction_state`; None is a tombstone. Returns its offset."""
        number = partition_of_id(name, IDS) if partition is None else partition
        key = TransactionLogKey(transactional_id=name).encode_prefixed(version=0)
        body = None if value is None else value.encode_prefixed(version=1)
        log = self.logs.partition("__transaction_state", number)
        return log.records([Record(key=key, value=body, timestamp=self.now)])

    # Transactions ----------------------------------------------------------------------------------------------------

    def begin(self, producer: Producer, *numbers: int) -> None:
        """The id's transaction gets partitions of the topic, and data in each."""
        for number in numbers:
            if producer.state != "Ongoing":
                producer.started = self.now + self.step
            producer.partitions = (*producer.partitions, (TOPIC, number))
            self.write(producer, "Ongoing")
            self.data(producer, number)

    def data(self, producer: Producer, number: int, *, records: int = 1) -> int:
        """Append a batch of its transaction."""
        return self.orders[number].data(producer.producer_id, producer.epoch, at=self.tick(), records=records)

    def prepare(self, producer: Producer, commit: bool) -> None:
        producer.epoch += producer.version >= 2
        self.write(producer, "PrepareCommit" if commit else "PrepareAbort")

    def marker(
        self, producer: Producer, number: int, commit: bool, *, epoch: int | None = None, by: int | None = None
    ) -> int:
        """Append a marker. `epoch`: by default the coordinator's; `by`: the coordinator's epoch."""
        return self.orders[number].marker(
            "COMMIT" if commit else "ABORT",
            producer.producer_id,
            producer.epoch if epoch is None else epoch,
            at=self.tick(),
            coordinator_epoch=self.coordinator_epoch if by is None else by,
        )

    def end(self, producer: Producer, commit: bool) -> None:
        """Prepare, markers, Complete."""
        numbers = [number for _, number in producer.partitions]
        self.prepare(producer, commit)
        for number in numbers:
            self.marker(producer, number, commit)
        self.write(producer, "CompleteCommit" if commit else "CompleteAbort")

    def run(self, steps: int = 6) -> None:
        """Some transactions of either version, an idempotent producer, one that is none, and segments that roll."""
        producers = [self.producer(f"app-{version}-{self.next_producer_id}", version) for version in (0, 2)]
        idempotent = self.producer_id()
        for _ in range(steps):
            match self.random.randrange(5):
                case 0:
                    self.orders[self.random.randrange(PARTITIONS)].plain(at=self.tick())
                case 1:
                    log = self.orders[self.random.randrange(PARTITIONS)]
                    log.data(idempotent, at=self.tick(), records=self.random.randrange(1, 4), transactional=False)
                case 2 if (log := self.orders[self.random.randrange(PARTITIONS)]).end > log.segments[-1][0]:
                    log.roll()
                case _:
                    producer = self.random.choice(producers)
                    numbers = self.random.sample(range(PARTITIONS), self.random.randrange(1, PARTITIONS + 1))
                    self.begin(producer, *numbers)
                    self.end(producer, self.random.random() < 0.6)

    # Files -----------------------------------------------------------------------------------------------------------

    def finish(self, *, checkpoints: bool = True) -> None:
        """An hour passes, every log of the coordinators and the controller goes on, and the broker is stopped cleanly:
        checkpoints, snapshots and transaction indexes are written."""
        self.tick(HOUR)
        for number in range(IDS):
            name = next(n for n in map("clock-{}".format, range(10_000)) if partition_of_id(n, IDS) == number)
            self.producer(name)
        self.control(ProducerIdsRecord.spec.api_key or 0, ProducerIdsRecord(
            broker_id=1, broker_epoch=1, next_producer_id=self._first + 9000
        ).encode(version=0))  # fmt: skip
        if checkpoints:
            for (topic, number), log in self.logs.partitions.items():
                self.logs.high_watermark(topic, number, log.end)
        self.logs.write()
        (self.logs.root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        for log in self.orders:
            log.derive()

    def replicate(self) -> LogDirectory:
        """A second broker with the same partitions of data, whose files are written; the caller may have changed it."""
        other = LogDirectory(self.root / "broker-1", ids=0, stopped=False)
        for number, log in enumerate(self.orders):
            copy = PartitionLog(other.root / f"{TOPIC}-{number}")
            copy.segments = [(base, bytearray(data)) for base, data in log.segments]
            copy.end = log.end
            other.partitions[TOPIC, number] = copy
            other.high_watermark(TOPIC, number, log.end)
        return other
