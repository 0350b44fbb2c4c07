"""The content of a log directory's `__cluster_metadata` that an audit uses: settings, the brokers of each partition,
and the producer ids that were handed out (KIP-730)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from kafkawire.logdir import Partition
from kafkawire.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafkawire.transactions import facts
from kafkawire.transactions.cluster.metadata_log import MetadataLog
from kafkawire.transactions.impact.held_back import TOPIC_SETTINGS, TopicPolicy
from kafkawire.transactions.parts.replica_files import place_of

K = TypeVar("K")

#: ConfigResource.Type. The broker "" has the default of all brokers.
_TOPIC, _BROKER, _GROUP = 2, 4, 32
#: The leader in a PartitionChangeRecord that keeps the leader, and the recovery state in one that keeps this.
_SAME_LEADER, _SAME_STATE = -2, -1

#: No `__transaction_state` has more. Higher numbers, of a record or of a directory's name, are ignored.
MOST_PARTITIONS = 100_000


class PartitionState(msgspec.Struct, frozen=True):
    """A partition after a record. `led_by`: the last broker that led, -1 for none. `made`: a PartitionRecord was read;
    otherwise the epoch counts elections since an unknown one."""

    replicas: tuple[int, ...] = ()
    directories: tuple[UUID, ...] | None = None
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = -1
    led_by: int = -1
    epoch: int = 0
    recovery: int = 0
    made: bool = False

    def after(self, record: PartitionRecord | PartitionChangeRecord) -> PartitionState:
        """The partition after the next record. Every election raises the leader epoch by one."""
        if isinstance(record, PartitionRecord):
            return PartitionState(
                tuple(record.replicas),
                record.directories,
                tuple(record.isr),
                tuple(record.eligible_leader_replicas or ()),
                tuple(record.last_known_elr or ()),
                record.leader,
                record.leader,
                record.leader_epoch,
                record.leader_recovery_state,
                made=True,
            )
        led = record.leader != _SAME_LEADER
        leader = record.leader if led else self.leader
        elr, known_elr = record.eligible_leader_replicas, record.last_known_elr
        kept = record.leader_recovery_state == _SAME_STATE
        moved = record.replicas is not None or record.directories is not None
        return PartitionState(
            self.replicas if record.replicas is None else tuple(record.replicas),
            record.directories if moved else self.directories,
            self.isr if record.isr is None else tuple(record.isr),
            self.elr if elr is None else tuple(elr),
            self.last_known_elr if known_elr is None else tuple(known_elr),
            leader,
            self.led_by if leader < 0 else leader,
            self.epoch + led,
            self.recovery if kept else record.leader_recovery_state,
            self.made,
        )

    @property
    def assigned(self) -> facts.Assignment:
        """The brokers, each with its directory where that is known."""
        directories = self.directories or ()
        if len(directories) != len(self.replicas):
            return tuple((broker, None) for broker in self.replicas)
        return tuple(zip(self.replicas, directories, strict=True))


def read_metadata(partitions: Iterable[Partition]) -> dict[str, facts.ClusterMetadata]:
    """The content of each metadata log, by log directory."""
    found = {}
    for partition in partitions:
        if partition.topic == facts.CLUSTER_METADATA and not partition.state:
            found[partition.broker.root] = _read(partition)
    return found


def newest_of(metadata: Iterable[facts.ClusterMetadata]) -> facts.ClusterMetadata | None:
    """The copy of a cluster's metadata log that was made last."""
    return max(metadata, key=lambda one: (one.newest or 0, one.place), default=None)


def of_older_copy(copy: facts.ClusterMetadata, broker: int | None) -> facts.ClusterMetadata:
    """The facts that are kept of a copy that is not its cluster's newest. A copy may have 100,000 partitions: only
    those that are assigned to its own broker are kept."""
    own = {name: found for name, found in copy.assigned.items() if any(number == broker for number, _ in found)}
    return replace(
        copy, assigned=own, leaders={}, topic_configs={}, topic_ids={}, removed_ids={}, removed_at={}, group_configs={}
    )


def topic_policies(metadata: Iterable[facts.ClusterMetadata]) -> dict[str, TopicPolicy] | None:
    """The topics with settings of their own, from the newest copy of a cluster's metadata log; None where there is
    none."""
    newest = newest_of(metadata)
    if newest is None:
        return None
    return {topic: TopicPolicy.of(topic, settings) for topic, settings in newest.topic_configs.items()}


def handed_out(metadata: Iterable[facts.ClusterMetadata]) -> int | None:
    """The first producer id that was not handed out yet; None where it is not known."""
    known = [copy.next_producer_id for copy in metadata if copy.next_producer_id is not None]
    return max(known, default=None)


def distinct_assignments(metadata: Iterable[facts.ClusterMetadata]) -> tuple[facts.AssignedProducerIds, ...]:
    """What copies of a cluster's metadata log show of producer ids: of those with the same blocks the oldest and the
    newest. Those between them show nothing else, and a cluster has a copy a broker."""
    alike: dict[tuple[object, ...], list[facts.AssignedProducerIds]] = {}
    for copy in metadata:
        assigned = copy.handed_out
        if assigned.newest is not None:
            alike.setdefault((assigned.blocks, assigned.checkpointed), []).append(assigned)
    found: list[facts.AssignedProducerIds] = []
    for copies in alike.values():
        ordered = sorted(copies, key=lambda assigned: assigned.newest or 0)
        found += ordered[:1] if ordered[0] == ordered[-1] else (ordered[0], ordered[-1])
    return tuple(found)


def _read(partition: Partition) -> facts.ClusterMetadata:
    topics = _Topics()
    configs: dict[tuple[str, str], str] = {}
    of_topics: dict[str, dict[str, str]] = {}
    of_groups: dict[str, dict[str, str]] = {}
    changed: set[tuple[str, str]] = set()
    features: dict[str, int] = {}
    blocks: list[facts.ProducerIdsBlock] = []
    checkpointed: int | None = None
    newest: int | None = None
    log = MetadataLog()
    for entry in log.entries(partition):
        newest = max(entry.timestamp, newest or 0)
        match entry.message:
            case TopicRecord() | RemoveTopicRecord() | PartitionRecord() | PartitionChangeRecord() as record:
                topics.take(record, entry.timestamp)
            case ConfigRecord() as config if config.resource_type == _BROKER:
                _set(configs, (config.resource_name, config.name), config.value)
            case ConfigRecord() as config if config.resource_type == _TOPIC and config.name in TOPIC_SETTINGS:
                _set(of_topics.setdefault(config.resource_name, {}), config.name, config.value)
            case ConfigRecord() as config if config.resource_type == _GROUP:
                of_group = of_groups.setdefault(config.resource_name, {})
                if of_group.get(config.name, config.value) != config.value:
                    changed.add((config.resource_name, config.name))
                _set(of_group, config.name, config.value)
            case FeatureLevelRecord() as feature:
                features[feature.name] = feature.feature_level
            case ProducerIdsRecord() as ids:
                if entry.snapshot:
                    checkpointed = max(checkpointed or 0, ids.next_producer_id)
                else:
                    blocks.append(facts.ProducerIdsBlock(entry.offset, ids.next_producer_id, entry.timestamp))
    known = [block.next_producer_id for block in blocks] + ([] if checkpointed is None else [checkpointed])
    until = log.until if log.complete else None
    assigned = topics.assigned()
    of_ids = [number for topic, number in assigned if topic == facts.TRANSACTION_STATE and number < MOST_PARTITIONS]
    return facts.ClusterMetadata(
        place=place_of(partition),
        path=partition.path,
        transaction_state_partitions=max(of_ids) + 1 if of_ids else None,
        configs=configs,
        features=features,
        topic_configs=of_topics,
        handed_out=facts.AssignedProducerIds(blocks=tuple(blocks), checkpointed=checkpointed, newest=until),
        next_producer_id=max(known, default=None),
        newest=newest,
        complete=log.complete,
        assigned=assigned,
        leaders=topics.leaders(),
        removed=topics.removed(),
        since_checkpoint=log.whole_checkpoint,
        topic_ids=topics.names,
        removed_ids=topics.gone,
        removed_at=topics.removed_at,
        group_configs=of_groups,
        changed_group_configs=frozenset(changed),
        gaps=log.gaps,
    )


class _Topics:
    """The partitions of topics, record by record."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.gone: dict[UUID, str] = {}
        self.removed_at: dict[UUID, int] = {}
        self._states: dict[UUID, dict[int, PartitionState]] = {}

    def take(
        self, record: TopicRecord | RemoveTopicRecord | PartitionRecord | PartitionChangeRecord, timestamp: int
    ) -> None:
        match record:
            case TopicRecord():
                self.names[record.topic_id] = record.name
            case RemoveTopicRecord():
                name = self.names.pop(record.topic_id, None)
                if name is not None:
                    self.gone[record.topic_id] = name
                    self.removed_at[record.topic_id] = timestamp
                self._states.pop(record.topic_id, None)
            case PartitionRecord() | PartitionChangeRecord():
                of_topic = self._states.setdefault(record.topic_id, {})
                of_topic[record.partition_id] = of_topic.get(record.partition_id, PartitionState()).after(record)

    def states(self) -> Iterator[tuple[tuple[str, int], PartitionState]]:
        """The partitions of the topics that there are."""
        for id, name in self.names.items():
            for number, state in self._states.get(id, {}).items():
                yield (name, number), state

    def leaders(self) -> dict[tuple[str, int], facts.Leader]:
        """The leader of each partition that has had one. Where none is left to lead, the last leader stays known."""
        led = ((key, state) for key, state in self.states() if state.made and state.led_by >= 0)
        return {key: facts.Leader(state.led_by, state.epoch, state.isr, state.elr) for key, state in led}

    def assigned(self) -> dict[tuple[str, int], facts.Assignment]:
        """The brokers and directories of each partition."""
        return {key: state.assigned for key, state in self.states() if state.made or state.replicas}

    def removed(self) -> frozenset[str]:
        """The topics that were removed, and are not there under another id."""
        return frozenset(self.gone.values()) - frozenset(self.names.values())


def _set(settings: dict[K, str], key: K, value: str | None) -> None:
    """Set what a ConfigRecord sets; None deletes it."""
    settings.pop(key, None)
    if value is not None:
        settings[key] = value
