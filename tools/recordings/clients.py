"""Real clients: librdkafka (confluent-kafka) and Kafka's own Java tools, doing what applications and operators do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.broker.kafka_tools import run_tool

from . import RecordingError

_TIMEOUT_S = 30.0
_PRODUCTS = ("lamp", "chair", "teapot", "violin", "umbrella")


def now() -> int:
    """The time, epoch milliseconds."""
    return int(time.time() * 1000)


def order(number: int) -> bytes:
    """An order, the same for the same number."""
    product = _PRODUCTS[number % len(_PRODUCTS)]
    return json.dumps({"order": number, "product": product, "cents": 250 + 37 * (number % 101)}).encode()


def create_topics(
    bootstrap: str,
    topics: Mapping[str, int],
    *,
    replicas: int = 1,
    config: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Creates topics.

    Args:
        topics: name -> number of partitions. `replicas`: of each partition.
        config: topic -> its properties; topics without an entry have the brokers' defaults.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, count, replicas, config=dict(config.get(name, {}))) for name, count in topics.items()]
    for name, created in admin.create_topics(new).items():
        try:
            created.result(_TIMEOUT_S)
        except Exception as e:
            raise RecordingError(f"topic {name} cannot be created: {e}") from e


class Service:
    """An application with a transactional librdkafka producer."""

    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 900_000, codec: str = "none"
    ) -> None:
        self._undelivered: list[str] = []
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": transactional_id,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "compression.type": codec,
                "linger.ms": 5,
                "log_level": 2,  # some brokers go away before their client: expected; errors come back anyway
            }
        )
        self.producer.init_transactions(_TIMEOUT_S)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None:
        """Writes orders, the first at `timestamp` (epoch milliseconds), each further one a second later.

        Args:
            numbers: of the orders, which are also the keys. `timestamp`: epoch milliseconds.
        """
        for i, number in enumerate(numbers):
            self.producer.produce(
                topic,
                order(number),
                key=str(number),
                partition=partition,
                timestamp=timestamp + 1000 * i,
                headers=[("source", b"examples")],
                on_delivery=self._delivered,
            )
        self.flush()

    def flush(self) -> None:
        left = self.producer.flush(_TIMEOUT_S)
        if left or self._undelivered:
            raise RecordingError(f"{left} records are not written: {self._undelivered}")

    def end(self, *, committed: bool) -> None:
        if committed:
            self.producer.commit_transaction(_TIMEOUT_S)
        else:
            self.producer.abort_transaction(_TIMEOUT_S)

    def transaction(
        self, writes: Mapping[tuple[str, int], Sequence[int]], *, timestamp: int, committed: bool = True
    ) -> None:
        """One whole transaction: {(topic, partition): order numbers}.

        Args:
            writes: (topic, partition) -> order numbers. `timestamp`: of the first order of each partition, epoch
                milliseconds. `committed`: commit or abort.
        """
        self.begin()
        for (topic, partition), numbers in writes.items():
            self.send(topic, partition, numbers, timestamp=timestamp)
        self.end(committed=committed)

    def transactions(self, places: Sequence[tuple[str, int]], count: int, *, aborted: Container[int] = ()) -> None:
        """Transactions of three orders in each place, stamped now.

        Args:
            places: (topic, partition). `aborted`: the numbers of those that are aborted.
        """
        for number in range(count):
            writes = dict.fromkeys(places, range(10 * number, 10 * number + 3))
            self.transaction(writes, timestamp=now(), committed=number not in aborted)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._undelivered.append(f"{message.topic()}-{message.partition()}: {error}")


def consumer(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    """A consumer that commits nothing by itself.

    Args:
        group: its group, and its client id. `isolation`: "read_committed" or "read_uncommitted".
    """
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": group,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def consume(reader: Consumer, partitions: Sequence[tuple[str, int]]) -> list[Message]:
    """What can be read of the partitions now: up to the last stable offset.

    Args:
        reader: assigned or subscribed already. `partitions`: (topic, partition).
    """
    messages: list[Message] = []
    ended: set[tuple[str | None, int | None]] = set()
    while not ended.issuperset(partitions):
        message = reader.poll(_TIMEOUT_S)
        if message is None:
            raise RecordingError(f"nothing more from {partitions} in {_TIMEOUT_S:g} s")
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add((message.topic(), message.partition()))
        else:
            raise RecordingError(f"the consumer cannot read: {error}")
    return messages


def copy_exactly_once(
    service: Service,
    reader: Consumer,
    partitions: Sequence[tuple[str, int]],
    target: tuple[str, int],
    transform: Callable[[bytes], bytes],
) -> int:
    """Consume, transform, produce, with the offsets in the same transaction; how many records.

    Args:
        service: writes. `reader`: a consumer with a group; it is subscribed here.
        partitions: (topic, partition) that are read to their ends. `target`: (topic, partition) that is written.
        transform: of each record's value.
    """
    reader.subscribe(sorted({topic for topic, _ in partitions}))
    messages = consume(reader, partitions)
    service.begin()
    for message in messages:
        value: Any = message.value()
        service.producer.produce(target[0], transform(value), key=message.key(), partition=target[1])
    service.flush()
    offsets = [TopicPartition(p.topic, p.partition, p.offset) for p in reader.position(reader.assignment())]
    service.producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), _TIMEOUT_S)
    service.end(committed=True)
    return len(messages)


def java_transactions(
    bootstrap: str, topic: str, transactional_id: str, *, records: int, per_second: int, duration_ms: int
) -> None:
    """Kafka's Java producer (ProducerPerformance): a new transaction every `duration_ms`.

    Args:
        records: in all. `per_second`: their rate. `duration_ms`: of each transaction, milliseconds.
    """
    run_tool(
        "ProducerPerformance",
        "--topic", topic,
        "--num-records", str(records),
        "--record-size", "60",
        "--throughput", str(per_second),
        "--bootstrap-server", bootstrap,
        "--transactional-id", transactional_id,
        "--transaction-duration-ms", str(duration_ms),
    )  # fmt: skip


def java_consumer(bootstrap: str, topic: str, group: str, *, records: int) -> None:
    """Kafka's Java consumer (ConsoleConsumer), read_committed.

    Args:
        records: the number after which it ends.
    """
    run_tool(
        "consumer.ConsoleConsumer",
        "--bootstrap-server", bootstrap,
        "--topic", topic,
        "--group", group,
        "--from-beginning",
        "--isolation-level", "read_committed",
        "--max-messages", str(records),
        "--timeout-ms", "30000",
    )  # fmt: skip


def kafka_transactions(bootstrap: str, *arguments: str) -> str:
    """kafka-transactions.sh"""
    return run_tool("TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
