"""What the `__cluster_metadata` of a log directory says that an audit counts with: settings, the partitions of
`__transaction_state`, and the producer ids that were handed out (KIP-730)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.errors import KafkaWireError
from kafkawire.logdir import Partition
from kafkawire.messages import ConfigRecord, PartitionRecord, ProducerIdsRecord, TopicRecord
from kafkawire.records import Batch, decode_value
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE, Block, Metadata, Place

#: ConfigResource.Type.BROKER. The resource "" has the default of all brokers.
_BROKER = 4

#: No `__transaction_state` has more. Higher numbers, of a record or of a directory's name, are not counted with.
MOST_PARTITIONS = 100_000

_WANTED = frozenset(message.spec.api_key for message in (ConfigRecord, PartitionRecord, ProducerIdsRecord, TopicRecord))


def read_metadata(partitions: Iterable[Partition]) -> dict[str, Metadata]:
    """By log directory, of those that hold a metadata log."""
    found = {}
    for partition in partitions:
        if partition.topic == CLUSTER_METADATA:
            found[partition.broker.root] = _read(partition)
    return found


def newest_of(metadata: Iterable[Metadata]) -> Metadata | None:
    """Of the copies of a cluster's metadata log the one that was made last."""
    return max(metadata, key=lambda one: (one.newest or 0, one.place), default=None)


def handed_out(metadata: Iterable[Metadata]) -> int | None:
    """The first producer id that was not handed out yet; None where it is not known."""
    known = [said.next_producer_id for said in metadata if said.next_producer_id is not None]
    return max(known, default=None)


def _read(partition: Partition) -> Metadata:
    topics = set()
    numbers: set[int] = set()
    configs: dict[tuple[str, str], str] = {}
    blocks: list[Block] = []
    handed_out: int | None = None
    newest: int | None = None
    for entry in _entries(partition):
        newest = max(entry.timestamp, newest or 0)
        match entry.message:
            case TopicRecord() as topic if topic.name == TRANSACTION_STATE:
                topics.add(topic.topic_id)
            case PartitionRecord() as record if record.topic_id in topics and record.partition_id < MOST_PARTITIONS:
                numbers.add(record.partition_id)
            case ConfigRecord() as config if config.resource_type == _BROKER:
                key = config.resource_name, config.name
                if config.value is None:
                    configs.pop(key, None)
                else:
                    configs[key] = config.value
            case ProducerIdsRecord() as ids:
                if not entry.snapshot:
                    blocks.append(Block(entry.offset, ids.next_producer_id))
                handed_out = max(handed_out or 0, ids.next_producer_id)
    return Metadata(
        place=Place(partition.broker.root, partition.topic, partition.partition),
        path=partition.path,
        transaction_state_partitions=max(numbers) + 1 if numbers else None,
        configs=configs,
        blocks=tuple(blocks),
        next_producer_id=handed_out,
        newest=newest,
    )


class _Entry(NamedTuple):
    """A record of the metadata log; `message` None for one of no interest. `snapshot`: it is of a `.checkpoint`."""

    offset: int
    timestamp: int
    snapshot: bool
    message: object


def _entries(partition: Partition) -> Iterator[_Entry]:
    """The records of the newest snapshot and of the log."""
    snapshots = [file for file in partition.files if file.kind == "kraft-snapshot" and not file.state]
    newest = sorted(snapshots, key=lambda file: file.offset or 0)[-1:]
    for file in (*newest, *partition.segments):
        try:
            for item in file.batches(check_crc=False):
                if not isinstance(item, Batch) or item.is_control:
                    continue
                for record in item.records:
                    # Frame version and api key are varints of one byte; most records are about something else.
                    message = None
                    if record.value is not None and len(record.value) > 1 and record.value[1] in _WANTED:
                        decoded = decode_value(CLUSTER_METADATA, record.key, record.value)
                        message = None if decoded is None else decoded.message
                    yield _Entry(record.offset, record.timestamp, file in newest, message)
        except (OSError, KafkaWireError):
            continue  # what is damaged is told where the partition is read
