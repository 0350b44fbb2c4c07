"""What recordings do to topics of a cluster, through librdkafka, and copies of brokers' log directories."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tools.polling import until

from . import RecordingError, clients
from .raw_client import TRANSIENT

#: Key, value and timestamp (epoch milliseconds; 0: now) of a record.
Item = tuple[bytes | str | None, bytes | None, int]

_SECONDS = 90.0
#: What brokers derive from a log, but for transaction indexes; and what they are about to delete.
_DERIVED = ("*.index", "*.timeindex", "*.deleted", ".lock")


# Topics --------------------------------------------------------------------------------------------------------------


def admin_of(bootstrap: str) -> AdminClient:
    """A client of administrators: keep it until what it asked is answered, which ends with it otherwise."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def place_topics(bootstrap: str, topics: Mapping[str, tuple[Sequence[int], Mapping[str, str]]]) -> None:
    """Creates topics of one partition: name -> the nodes of its replicas, and its properties."""
    new = [NewTopic(name, 1, replica_assignment=[list(on)], config=dict(of)) for name, (on, of) in topics.items()]
    admin = admin_of(bootstrap)
    for created in admin.create_topics(new).values():
        created.result(_SECONDS)


def await_partitions(bootstrap: str, topics: Iterable[str], wanted: Callable[[Any], bool], what: str) -> None:
    """Waits until the metadata of partition 0 of each topic (`leader`, `isrs`) is as wanted."""
    admin, names = admin_of(bootstrap), tuple(topics)

    def there() -> bool:
        found = admin.list_topics(timeout=_SECONDS).topics
        return all(name in found and wanted(found[name].partitions[0]) for name in names)

    until(there, what, seconds=2 * _SECONDS)


def await_leader(bootstrap: str, topics: Iterable[str], node: int) -> None:
    """Waits until a node leads partition 0 of each topic."""
    await_partitions(bootstrap, topics, lambda partition: partition.leader == node, "an election")


def await_in_sync(bootstrap: str, topics: Iterable[str], count: int) -> None:
    """Waits until so many replicas of partition 0 of each topic are in sync."""
    await_partitions(bootstrap, topics, lambda partition: len(partition.isrs) >= count, "replicas in sync")


def set_topic_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Sets a property of a topic, and waits until a broker has confirmed it."""
    _set_config(bootstrap, ResourceType.TOPIC, topic, name, value)


def set_broker_config(bootstrap: str, node: int, name: str, value: str) -> None:
    """Sets a property of a broker, likewise."""
    _set_config(bootstrap, ResourceType.BROKER, str(node), name, value)


def _set_config(bootstrap: str, kind: ResourceType, resource: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    admin = admin_of(bootstrap)
    for done in admin.incremental_alter_configs([ConfigResource(kind, resource, incremental_configs=[entry])]).values():
        done.result(_SECONDS)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Deletes the records of partition 0 below an offset (DeleteRecords)."""
    admin = admin_of(bootstrap)
    for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        done.result(_SECONDS)


# Records -------------------------------------------------------------------------------------------------------------


def producer_of(bootstrap: str, settings: Mapping[str, Any]) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2, **settings})


def orders(numbers: Iterable[int], timestamp: int = 0) -> Iterator[Item]:
    """Orders, with their numbers as keys."""
    return ((str(number), clients.order(number), timestamp) for number in numbers)


def write(
    producer: Producer, topic: str, items: Iterable[Item], *, partition: int = 0, one_by_one: bool = False
) -> list[int]:
    """Writes records; their offsets, of those with acks=0 none.

    Args:
        one_by_one: each is in a batch of its own, and the next is taken when it is acknowledged.

    Raises:
        RecordingError: one is not written.
    """
    offsets: list[int] = []
    failed: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            offsets.append(int(message.offset() or 0))

    def flush() -> None:
        if producer.flush(_SECONDS) or failed:
            raise RecordingError(f"records for {topic}-{partition} are not written: {failed[:1]}")

    for key, value, timestamp in items:
        producer.produce(topic, value, key=key, partition=partition, timestamp=timestamp, on_delivery=delivered)
        if one_by_one:
            flush()
    flush()
    return offsets


def send_orders(
    bootstrap: str, topic: str, numbers: Iterable[int], *, acks: str, codec: str = "none", idempotent: bool = False
) -> list[int]:
    """Writes orders by a producer of their own, each in a batch; the offsets that are acknowledged."""
    settings = {
        "acks": acks,
        "linger.ms": 0,
        "compression.type": codec,
        "enable.idempotence": idempotent,
        "client.id": f"{topic}-{codec}",
        "log_level": 0,
    }
    return write(producer_of(bootstrap, settings), topic, orders(numbers), one_by_one=True)


def kafka_python_orders(bootstrap: str, topic: str, count: int) -> None:
    """Writes orders with kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0, client_id="kafka-python")
    for number in range(count):
        producer.send(topic, clients.order(number), partition=0).get(_SECONDS)
    producer.close()


def read(bootstrap: str, places: Sequence[tuple[str, int]], group: str, isolation: str) -> list[Message]:
    """All that a consumer gets of partitions, from their log start offsets.

    Args:
        group: its group, and its client id. `isolation`: "read_committed" or "read_uncommitted".
    """
    reader = clients.consumer(bootstrap, group, isolation)
    try:
        starts = [reader.get_watermark_offsets(TopicPartition(*place), timeout=_SECONDS)[0] for place in places]
        reader.assign([TopicPartition(*place, start) for place, start in zip(places, starts, strict=True)])
        return clients.consume(reader, places)
    finally:
        reader.close()


def end_of(bootstrap: str, topic: str, isolation: str) -> int:
    """The last stable offset of partition 0 (read_uncommitted: the high watermark); of a topic that is not there 0."""
    reader = clients.consumer(bootstrap, "ends", isolation)

    def asked() -> int | None:
        try:
            if topic not in reader.list_topics(timeout=_SECONDS).topics:
                return 0
            end: int = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)[1]
        except KafkaException as error:
            if error.args[0].code() in TRANSIENT:
                return None
            raise
        return end

    try:
        return until(asked, f"the end of {topic}", seconds=_SECONDS)
    finally:
        reader.close()


# Copies --------------------------------------------------------------------------------------------------------------


def copy_logs(log_dir: Path, to: Path, topics: Iterable[str], *files: str) -> None:
    """Copies the partitions of topics, without indexes of offsets and times, and files of the log directory itself.

    Args:
        to: is made. `topics`: those that are not there are left out. `files`: patterns;
            by default checkpoints, and who the broker is.
    """
    to.mkdir(parents=True)
    for path in {path for pattern in files or ("meta.properties", "*-checkpoint") for path in log_dir.glob(pattern)}:
        if path.is_file() and path.name != ".lock":
            shutil.copy(path, to / path.name)
    names = frozenset(topics)
    for path in log_dir.iterdir():
        name, _, number = path.name.rpartition("-")
        if path.is_dir() and name in names and number.isdecimal():
            shutil.copytree(path, to / path.name, ignore=shutil.ignore_patterns(*_DERIVED))


def copy_log_directory(log_dir: Path, to: Path) -> None:
    """Copies a whole log directory, likewise."""
    shutil.copytree(log_dir, to, ignore=shutil.ignore_patterns(*_DERIVED))
