"""The content of a log directory's `__cluster_metadata` that an audit uses: settings, the partitions of
`__transaction_state`, and the producer ids that were handed out (KIP-730)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple, TypeVar

from kafkawire.errors import KafkaWireError
from kafkawire.logdir import LogFile, Partition
from kafkawire.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from kafkawire.records import CONTROL_TYPES, Batch, Damage, decode_value
from kafkawire.transactions.facts import (
    CLUSTER_METADATA,
    TRANSACTION_STATE,
    AssignedProducerIds,
    ClusterMetadata,
    ProducerIdsBlock,
)
from kafkawire.transactions.impact import TOPIC_SETTINGS, TopicPolicy
from kafkawire.transactions.replica_files import place_of

K = TypeVar("K")

#: ConfigResource.Type. The broker "" has the default of all brokers.
_TOPIC, _BROKER = 2, 4

_HEADER: str = CONTROL_TYPES[3]

#: No `__transaction_state` has more. Higher numbers, of a record or of a directory's name, are ignored.
MOST_PARTITIONS = 100_000

_WANTED = frozenset(
    message.spec.api_key
    for message in (ConfigRecord, FeatureLevelRecord, PartitionRecord, ProducerIdsRecord, TopicRecord)
)


def read_metadata(partitions: Iterable[Partition]) -> dict[str, ClusterMetadata]:
    """By log directory, of those that hold a metadata log."""
    found = {}
    for partition in partitions:
        if partition.topic == CLUSTER_METADATA:
            found[partition.broker.root] = _read(partition)
    return found


def newest_of(metadata: Iterable[ClusterMetadata]) -> ClusterMetadata | None:
    """Of the copies of a cluster's metadata log the one that was made last."""
    return max(metadata, key=lambda one: (one.newest or 0, one.place), default=None)


def topic_policies(metadata: Iterable[ClusterMetadata]) -> dict[str, TopicPolicy] | None:
    """The topics with settings of their own, from the newest copy of a cluster's metadata log; None where there is
    none."""
    newest = newest_of(metadata)
    if newest is None:
        return None
    return {topic: TopicPolicy.of(topic, settings) for topic, settings in newest.topic_configs.items()}


def handed_out(metadata: Iterable[ClusterMetadata]) -> int | None:
    """The first producer id that was not handed out yet; None where it is not known."""
    known = [copy.next_producer_id for copy in metadata if copy.next_producer_id is not None]
    return max(known, default=None)


def distinct_assignments(metadata: Iterable[ClusterMetadata]) -> tuple[AssignedProducerIds, ...]:
    """What copies of a cluster's metadata log show of producer ids: of those with the same blocks the oldest and the
    newest. Those between them show nothing else, and a cluster has a copy a broker."""
    alike: dict[tuple[object, ...], list[AssignedProducerIds]] = {}
    for copy in metadata:
        assigned = copy.handed_out
        if assigned.newest is not None:
            alike.setdefault((assigned.blocks, assigned.checkpointed), []).append(assigned)
    found: list[AssignedProducerIds] = []
    for copies in alike.values():
        ordered = sorted(copies, key=lambda assigned: assigned.newest or 0)
        found += ordered[:1] if ordered[0] == ordered[-1] else (ordered[0], ordered[-1])
    return tuple(found)


def _read(partition: Partition) -> ClusterMetadata:
    topics = set()
    numbers: set[int] = set()
    configs: dict[tuple[str, str], str] = {}
    of_topics: dict[str, dict[str, str]] = {}
    features: dict[str, int] = {}
    blocks: list[ProducerIdsBlock] = []
    checkpointed: int | None = None
    newest: int | None = None
    log = _MetadataLog()
    for entry in log.entries(partition):
        newest = max(entry.timestamp, newest or 0)
        match entry.message:
            case TopicRecord() as topic if topic.name == TRANSACTION_STATE:
                topics.add(topic.topic_id)
            case PartitionRecord() as record if record.topic_id in topics and record.partition_id < MOST_PARTITIONS:
                numbers.add(record.partition_id)
            case ConfigRecord() as config if config.resource_type == _BROKER:
                _set(configs, (config.resource_name, config.name), config.value)
            case ConfigRecord() as config if config.resource_type == _TOPIC and config.name in TOPIC_SETTINGS:
                _set(of_topics.setdefault(config.resource_name, {}), config.name, config.value)
            case FeatureLevelRecord() as feature:
                features[feature.name] = feature.feature_level
            case ProducerIdsRecord() as ids:
                if entry.snapshot:
                    checkpointed = max(checkpointed or 0, ids.next_producer_id)
                else:
                    blocks.append(ProducerIdsBlock(entry.offset, ids.next_producer_id, entry.timestamp))
    known = [block.next_producer_id for block in blocks] + ([] if checkpointed is None else [checkpointed])
    until = log.until if log.complete else None
    return ClusterMetadata(
        place=place_of(partition),
        path=partition.path,
        transaction_state_partitions=max(numbers) + 1 if numbers else None,
        configs=configs,
        features=features,
        topic_configs=of_topics,
        handed_out=AssignedProducerIds(blocks=tuple(blocks), checkpointed=checkpointed, newest=until),
        next_producer_id=max(known, default=None),
        newest=newest,
        complete=log.complete,
    )


def _set(settings: dict[K, str], key: K, value: str | None) -> None:
    """Set what a ConfigRecord sets; None deletes it."""
    settings.pop(key, None)
    if value is not None:
        settings[key] = value


class _MetadataRecord(NamedTuple):
    """A record of the metadata log; `message` None for one of no interest. `snapshot`: it is of a `.checkpoint`."""

    offset: int
    timestamp: int
    snapshot: bool
    message: object


class _MetadataLog:
    """The records of a metadata log: of its newest checkpoint, and of its segments.

    Attributes:
        complete: no record was missing so far: offsets follow, and nothing but the end of the last segment is damaged.
        until: the newest time of a record of the log, or of the log that a checkpoint replaces, from its header. A
            checkpoint's own records have the time when it is written, which is later.
    """

    def __init__(self) -> None:
        self.complete = True
        self.until: int | None = None

    def entries(self, partition: Partition) -> Iterator[_MetadataRecord]:
        checkpoints = [file for file in partition.files if file.kind == "kraft-snapshot" and not file.state]
        following: int | None = None
        for file in sorted(checkpoints, key=lambda file: file.offset or 0)[-1:]:
            yield from self._read(file, None)
            following = file.offset or 0
        segments = partition.segments
        if not segments or (segments[0].offset or 0) > (following or 0):
            self.complete = False  # neither begins where the other ends
        following = None
        for number, file in enumerate(segments):
            if following is not None and (file.offset or 0) > following:
                self.complete = False
            following = yield from self._read(file, file.offset or 0, last=number + 1 == len(segments))

    def _read(
        self, file: LogFile, following: int | None, *, last: bool = False
    ) -> Generator[_MetadataRecord, None, int]:
        """The records of a file; returns the offset behind its last. `following`: the first offset that a segment must
        have; None for a checkpoint, whose offsets are its own."""
        snapshot, end = following is None, following or 0
        try:
            for item in file.batches():
                if isinstance(item, Damage):
                    if not item.harmless and (snapshot or not last or item.resumed_at is not None):
                        self.complete = False
                    continue
                if not snapshot and item.base_offset > end:
                    self.complete = False
                end = item.last_offset + 1
                if item.is_control:
                    self._header(item)
                    continue
                if not snapshot:
                    self.until = max(self.until or 0, item.max_timestamp)
                for record in item.records:
                    # Frame version and api key are varints of one byte; most records are about something else.
                    message = None
                    if record.value is not None and len(record.value) > 1 and record.value[1] in _WANTED:
                        decoded = decode_value(CLUSTER_METADATA, record.key, record.value)
                        message = None if decoded is None else decoded.message
                    yield _MetadataRecord(record.offset, record.timestamp, snapshot, message)
        except (OSError, KafkaWireError):
            self.complete = False  # reading the partition reports the damage
        return end

    def _header(self, batch: Batch) -> None:
        """Takes from the first record of a checkpoint how new the log is that it replaces."""
        control = batch.control
        for record in batch.records if control is not None and control.name == _HEADER else ():
            header = SnapshotHeaderRecord.decode(record.value or b"", version=0)
            self.until = max(self.until or 0, header.last_contained_log_timestamp)
