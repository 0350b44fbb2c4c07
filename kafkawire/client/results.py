"""Results of calls, with the names of KIP-664."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from kafkawire.client.errors import ClientError

K = TypeVar("K")
V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, as requests have them."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


class Results(msgspec.Struct, Generic[K, V], frozen=True):
    """A value or an error for each key of a call: broker id, transactional id or partition.

    Attributes:
        values, errors: by key, in the order of the call's keys.
    """

    values: dict[K, V]
    errors: dict[K, ClientError]

    def __getitem__(self, key: K) -> V:
        """The value of a key; raises its error."""
        if key in self.errors:
            raise self.errors[key]
        return self.values[key]

    def all(self) -> dict[K, V]:
        """All values; raises the first error."""
        for error in self.errors.values():
            raise error
        return self.values


class Broker(msgspec.Struct, frozen=True, order=True):
    """A broker and its address."""

    broker_id: int
    host: str
    port: int


class PartitionInfo(msgspec.Struct, frozen=True):
    """A partition in the cluster's metadata.

    Attributes:
        leader: broker id, None where there is no leader. `leader_epoch`: -1 where the broker does not send it.
        replicas, offline, in_sync: broker ids.
        topic_id: None where the broker does not send it: a topic of the same name may be another one.
    """

    topic_partition: TopicPartition
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    offline: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    topic_id: UUID | None = None

    @property
    def generation(self) -> tuple[str, int] | None:
        """Topic id and leader epoch: while both stay, a log only gains records below its high watermark, and loses the
        oldest. None where the broker does not send them."""
        return None if self.topic_id is None or self.leader_epoch < 0 else (str(self.topic_id), self.leader_epoch)


class Metadata(msgspec.Struct, frozen=True):
    """A broker's view of the cluster. A request for all topics leaves out those that the principal may not Describe,
    without notice."""

    cluster_id: str | None
    brokers: dict[int, Broker]
    partitions: dict[TopicPartition, PartitionInfo]
    errors: dict[str, ClientError]  # by topic


class TransactionListing(msgspec.Struct, frozen=True):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as its coordinator describes it.

    Attributes:
        coordinator: broker id.
        timeout_ms: of the transaction. `start_time_ms`: epoch milliseconds, None if no transaction is in progress.
        partitions: of the transaction, without topics that the principal may not Describe.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that a replica of a partition remembers.

    Attributes:
        coordinator_epoch: of its last marker in the partition, None if there is no marker.
        last_sequence: of its last batch, None if that has none. `last_timestamp`: of its last batch or marker, epoch
            milliseconds; by the client's clock, unless the topic has LogAppendTime.
        transaction_start_offset: of its open transaction in the partition, None if none is open.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int | None
    last_timestamp: int | None
    transaction_start_offset: int | None


class ProducerIdAndEpoch(msgspec.Struct, frozen=True):
    """The new producer id and epoch of a transactional id that was fenced."""

    producer_id: int
    producer_epoch: int


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's log start offset, last stable offset and high watermark."""

    log_start: int
    last_stable_offset: int
    high_watermark: int


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """An abort marker that a leader has written."""

    topic_partition: TopicPartition
    broker_id: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
