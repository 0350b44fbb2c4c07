"""What recordings do to a cluster and its topics, through librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kafkawire.messages import ProduceRequest
from kafkawire.proxy import Fault, Proxy
from tools.broker import RunningCluster, cluster
from tools.broker.jars import BROKER_VERSION
from tools.polling import until

from . import RecordingError, clients
from .log_copies import copy_logs
from .raw_client import TRANSIENT

#: Key, value and timestamp (epoch milliseconds; 0: now) of a record.
Item = tuple[bytes | str | None, bytes | None, int]

_SECONDS = 90.0


#: Of clusters whose internal topics need one partition.
ONE_PARTITION: Mapping[str, object] = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@contextmanager
def one_broker(
    folder: Path,
    topics: Mapping[str, int],
    copied: Iterable[str],
    *files: str,
    config: Mapping[str, object] = ONE_PARTITION,
    topic_config: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    version: str = BROKER_VERSION,
    name: str = "node-1",
    cache: Path | None = None,
) -> Iterator[RunningCluster]:
    """A broker with topics, which is stopped cleanly at the end, and then copied.

    Args:
        folder: is made, if it is not there, before the broker starts; the copy of its logs is `name` in it.
        topics: name -> number of partitions. `copied`, `files`: as of `copy_logs`.
        config: properties of the broker. `topic_config`: of topics. `version`: the release.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(1, config=config, version=version, cache=cache) as running:
        clients.create_topics(running.bootstrap, topics, config=topic_config)
        yield running
        running.stop_node(1)
        copy_logs(running.log_dirs[1], folder / name, copied, *files)


# Topics --------------------------------------------------------------------------------------------------------------


def admin_of(bootstrap: str) -> AdminClient:
    """A client of administrators: keep it until what it asked is answered, which ends with it otherwise."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def answered(asked: Mapping[Any, Any]) -> None:
    """Waits until each of an administrator's requests is answered; raises the error of one that fails."""
    for one in asked.values():
        one.result(_SECONDS)


def place_topics(bootstrap: str, topics: Mapping[str, tuple[Sequence[int], Mapping[str, str]]]) -> None:
    """Creates topics of one partition: name -> the nodes of its replicas, and its properties."""
    new = [NewTopic(name, 1, replica_assignment=[list(on)], config=dict(of)) for name, (on, of) in topics.items()]
    admin = admin_of(bootstrap)
    answered(admin.create_topics(new))


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
    answered(admin.incremental_alter_configs([ConfigResource(kind, resource, incremental_configs=[entry])]))


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Deletes the records of partition 0 below an offset (DeleteRecords)."""
    admin = admin_of(bootstrap)
    answered(admin.delete_records([TopicPartition(topic, 0, before)]))


def delete_topic(bootstrap: str, topic: str) -> None:
    """Removes a topic."""
    admin = admin_of(bootstrap)
    answered(admin.delete_topics([topic]))


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


def lose_response(proxy: Proxy, topic: str, *, idempotent: bool) -> dict[str, Any]:
    """Writes 12 batches, and loses the response to the seventh."""
    settings = {
        "client.id": f"{topic}-service",
        "enable.idempotence": idempotent,
        "acks": "all",
        "max.in.flight": 1,
        "linger.ms": 0,
        "retry.backoff.ms": 200,
        "log_level": 0,  # a connection is closed: expected
    }

    def numbers() -> Iterator[int]:
        for number in range(12):
            if number == 6:
                proxy.fault(Fault(ProduceRequest, drop="response", times=1))
            yield number

    write(producer_of(proxy.address, settings), topic, orders(numbers()), one_by_one=True)
    return {"topic": topic, "partition": 0, "record": 6, "idempotent": idempotent}


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


def read_offsets(bootstrap: str, places: Sequence[tuple[str, int]], group: str, isolation: str) -> dict[str, list[int]]:
    """The offsets of the records that a consumer gets, by topic-partition. Args: as of `read`."""
    got: dict[str, list[int]] = {f"{topic}-{partition}": [] for topic, partition in places}
    for message in read(bootstrap, places, group, isolation):
        got[f"{message.topic()}-{message.partition()}"].append(int(message.offset() or 0))
    return got


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
