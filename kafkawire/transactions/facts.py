"""The facts that verdicts rest on, about segments, partitions, open transactions and the coordinator's records.

Both engines (one machine, Spark) reduce log directories to these facts, and the same code judges them. A *copy* is
one log directory that was read. Several may have the same partition, each one replica of it.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

import msgspec

from kafkawire import rows
from kafkawire.messages import TransactionLogValue
from kafkawire.records.offset_gap import OffsetGap

TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"

#: Topics in which a broker or controller sets the timestamp of every batch, whatever its timestamp type: clocks.
BROKER_WRITTEN = frozenset({TRANSACTION_STATE, CLUSTER_METADATA})

#: Reason of damage at which a segment ends in the middle of a batch.
TORN = "truncated"


class Place(msgspec.Struct, frozen=True, order=True):
    """A replica of a partition: `copy` is the log directory that it was read from."""

    copy: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def path(self) -> str:
        """The replica's folder; of a log that was fetched the address of the cluster, and the partition."""
        return f"{self.copy}/{self}" if self.copy else str(self)


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file, read to its end.

    Attributes:
        base_offset: from the file's name. `first_offset`: of its first batch. `end_offset`: one after its last offset,
            `base_offset` where it is empty.
        leader_epoch: the highest in it, -1 for none.
        transactional: number of batches of transactions, markers included.
        broker_time: the newest timestamp that a broker set, epoch milliseconds.
        leader_time: the highest leader epoch with such a timestamp, and the newest of that epoch.
        gap: the last range of offsets in it that could not be read. Earlier ones may be due to compaction and concern
            no open transaction: compaction stops at the first of these.
        shortened: it became shorter while it was read.
        zeros_at: byte offset from which it is zeros up to its end; None: it is not.
        intact_from: the lowest offset from which up to its end no offset is missing.
    """

    base_offset: int
    first_offset: int
    end_offset: int
    leader_epoch: int = -1
    batches: int = 0
    transactional: int = 0
    bytes: int = 0
    broker_time: int | None = None
    leader_time: tuple[int, int] | None = None
    gap: OffsetGap | None = None
    damage: tuple[rows.DamageRow, ...] = ()
    intact_from: int = 0
    shortened: bool = False
    zeros_at: int | None = None


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A record of `__transaction_state`, not decoded yet; see `coordinator_log.registration`."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int = -1


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction of a producer in a partition: data, and no marker after it up to the end of the log.

    Attributes:
        start_offset, last_offset: of its data. `last_timestamp`: of its last batch.
        producer_epoch: of its last batch.
        coordinator_epoch: of the producer's last marker in the partition; None where there is none.
        written_after: the newest timestamp (the broker's clock) of the markers before its last batch.
        written_by: the first time on or after its last batch at which the broker appended something (a marker, or
            data with LogAppendTime), by its clock: by then it was in the log. None where nothing shows that.
        marked_at: timestamp (the broker's clock) of the producer's last marker before it; None where none is known.
        first_timestamp, batches: of its first batch, and their number; -1 where they are not known: a `.snapshot` or a
            broker has the offset alone.
        impact: what it holds back in its replica; None where that was not counted.
    """

    place: Place
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_offset: int
    last_timestamp: int
    coordinator_epoch: int | None = None
    written_after: int | None = None
    written_by: int | None = None
    marked_at: int | None = None
    first_timestamp: int = -1
    batches: int = -1
    impact: rows.Impact | None = None


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A record of `__transaction_state`: what the coordinator last wrote about a transactional id.

    Attributes:
        place: the partition of `__transaction_state`; `offset` and `timestamp` (the broker's clock) of the record.
        value: None for a tombstone: the id has expired.
        leader_epoch: of the coordinator that wrote it (its batch's partition leader epoch), -1 where not known.
    """

    place: Place
    offset: int
    timestamp: int
    transactional_id: str
    value: TransactionLogValue | None
    leader_epoch: int = -1


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a producer id: a transactional id, with the newest record of that id.

    Attributes:
        current: a record names it as the id's producer id, not only as the one before or after it.
    """

    producer_id: int
    current: bool
    newest: Registration


class ProducerIdUse(msgspec.Struct, frozen=True):
    """The first use of a producer id by a transactional id as its own: in the record at `offset`, written at
    `timestamp` (the broker's clock)."""

    place: Place
    producer_id: int
    transactional_id: str
    offset: int
    timestamp: int = -1


class MarkerTime(NamedTuple):
    """A marker by the leader of a partition's newest leader epoch, one epoch above its data: no other transaction of
    the producer id has such a marker. `time`: by the leader's clock, epoch milliseconds."""

    producer_id: int
    epoch: int
    time: int


class DecisionTime(NamedTuple):
    """A decision whose markers carry the epoch after that of the data. `since`: when it was prepared, `until`: when it
    was completed, by the clock of the coordinator of the leader epoch, epoch milliseconds."""

    producer_id: int
    epoch: int
    since: int
    until: int
    leader_epoch: int


class MissingOffsets(msgspec.Struct, frozen=True):
    """Offsets `[start, end)` that are missing in a log. `file`: the segment that they belong to."""

    file: str
    start: int
    end: int

    def __str__(self) -> str:
        one = self.end == self.start + 1
        return f"offset {self.start} is missing" if one else f"offsets {self.start} to {self.end - 1} are missing"


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a partition, as far as it was copied.

    Attributes:
        log_start: below it the log is gone (segments deleted, or records by request). `log_end`: one after the last.
        segments_start: first offset of its segments, those in a tier included.
        high_watermark: from `replication-offset-checkpoint`; None where it is not known.
        gap: the last range of offsets that could not be read; None where nothing is missing from somewhere on.
        broker_time, leader_time: see `Segment`.
        unreplicated: first offset of the earliest transaction that has ended with a marker at or above the high
            watermark, None for none: it holds the last stable offset as an open one does.
        epoch_start: first offset of its highest leader epoch; None where it is not known. `markers`: some of those of
            that epoch.
        damaged: something in it could not be read, other than a torn end: that is only where the copy ends, and when
            it ended is judged by times. The end of a segment that became shorter while it was read counts as damage.
        checkpoint_epoch: the last leader epoch in its `leader-epoch-checkpoint`, if its log reaches the epoch's start;
            else -1.
        stopped_at: where it ended when its broker was stopped cleanly, if that is so: from
            `recovery-point-offset-checkpoint`, of `__transaction_state` else from `replication-offset-checkpoint`; None
            where it is not known.
        cleaned_to, missing: the offset from which on the cleaner of its broker has removed nothing, and the last
            offsets that are missing before its last batch: of `__transaction_state` for whatever reason, of others
            those that nothing in the replica explains.
    """

    place: Place
    log_start: int
    log_end: int
    high_watermark: int | None
    leader_epoch: int
    segments: int
    batches: int
    transactional: int
    bytes: int
    broker_time: int | None
    gap: OffsetGap | None
    damaged: bool
    damage: tuple[rows.DamageRow, ...]
    segments_start: int = 0
    unreplicated: int | None = None
    leader_time: tuple[int, int] | None = None
    epoch_start: int | None = None
    markers: tuple[MarkerTime, ...] = ()
    checkpoint_epoch: int = -1
    stopped_at: int | None = None
    cleaned_to: int = 0
    missing: MissingOffsets | None = None

    @property
    def newest_epoch(self) -> int:
        """The newest leader epoch that it knows of: a leader notes its own before it writes anything in it."""
        return max(self.leader_epoch, self.checkpoint_epoch)

    @property
    def as_left(self) -> bool:
        """Whether nothing shows that it is not as its broker left it, if that was stopped cleanly: it may have been
        copied again later, into the copy of the directory."""
        return self.stopped_at in (None, self.log_end)

    @property
    def leader_newest(self) -> int | None:
        """The newest time that the leader of its highest leader epoch with one wrote."""
        return self.broker_time if self.leader_time is None else self.leader_time[1]


def partition_of(
    place: Place, segments: list[Segment], *, log_start: int | None = None, high_watermark: int | None = None
) -> PartitionFacts:
    """A partition from its segments. `log_start`: from `log-start-offset-checkpoint`, where there is one. Offsets from
    there up to the first segment are in tiered storage: missing here."""
    segments = sorted(segments, key=lambda segment: segment.base_offset)
    first = segments[0].base_offset if segments else 0
    log_start = first if log_start is None else log_start
    gap = OffsetGap(log_start, first) if segments and log_start < first else None
    for i, segment in enumerate(segments):
        if i and segment.first_offset > segments[i - 1].end_offset:
            gap = OffsetGap(segments[i - 1].end_offset, segment.first_offset)
        if segment.gap is not None:
            gap = segment.gap
    damage = [d for segment in segments for d in segment.damage]
    last = segments[-1] if segments else None
    ends_torn = last is not None and bool(last.damage) and is_torn_end(last.damage[-1]) and not last.shortened
    return PartitionFacts(
        place=place,
        log_start=log_start,
        log_end=segments[-1].end_offset if segments else 0,
        high_watermark=high_watermark,
        leader_epoch=max((segment.leader_epoch for segment in segments), default=-1),
        segments=len(segments),
        batches=sum(segment.batches for segment in segments),
        transactional=sum(segment.transactional for segment in segments),
        bytes=sum(segment.bytes for segment in segments),
        broker_time=max((s.broker_time for s in segments if s.broker_time is not None), default=None),
        leader_time=max((s.leader_time for s in segments if s.leader_time is not None), default=None),
        gap=gap,
        damaged=len(damage) > ends_torn,
        damage=tuple(damage),
        segments_start=first,
    )


def is_torn_end(damage: rows.DamageRow) -> bool:
    """Whether it is a batch that was being written, or copied, when the copy ended."""
    return damage.reason == TORN and damage.resumed_at is None


class ProducerIdsBlock(msgspec.Struct, frozen=True):
    """A record of the metadata log, at `offset`: producer ids below `next_producer_id` have been handed out.
    `timestamp`: when it was written, by the controller's clock."""

    offset: int
    next_producer_id: int
    timestamp: int = -1


class AssignedProducerIds(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The producer ids that were handed out, from one copy of the metadata log.

    Attributes:
        blocks: of the log, in offset order.
        checkpointed: the first free producer id in its checkpoint, which replaces records of the log and does not have
            their times; None for none.
        newest: the time up to which no record is missing, by the controller's clock; None where one may be.
    """

    blocks: tuple[ProducerIdsBlock, ...] = ()
    checkpointed: int | None = None
    newest: int | None = None

    def first_free(self, time: int) -> int | None:
        """The first producer id that was not handed out at that time (epoch milliseconds); it may have been later.

        Before the first block it is what that block leaves free: blocks ascend. None where the copy does not show it,
        because it is older, or has no block and no checkpoint.
        """
        if self.newest is None or self.newest < time:
            return None
        times, first_free = self._steps
        before = bisect_right(times, time)
        if self.checkpointed is not None:
            return max(self.checkpointed, first_free[before - 1] if before else 0)
        return first_free[max(before - 1, 0)] if first_free else None

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """The times of the blocks, ascending, and the first free producer id from each on."""
        ordered = sorted((block.timestamp, block.next_producer_id) for block in self.blocks)
        return [time for time, _ in ordered], list(accumulate((number for _, number in ordered), max))


#: The replicas of a partition: of each the broker's id, and the id of its log directory, None where that is not known.
Assignment = tuple[tuple[int, UUID | None], ...]


class Leader(NamedTuple):
    """The leader of a partition: the broker's id, the last one's where none leads, and the leader epoch; and the
    brokers whose replicas have all that is below the high watermark: those in sync (`isr`), and those that may lead
    again (`elr`, KIP-966)."""

    broker: int
    epoch: int
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()


class ClusterMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, partitions and producer ids from one copy of the metadata log.

    Attributes:
        transaction_state_partitions: of the topic; None where it has none yet.
        configs: (broker's id or "" for all, name) -> value; only those that were set while brokers ran.
        features: name -> level, of those that are finalised.
        topic_configs: topic -> name -> value, of those in `impact.TOPIC_SETTINGS`.
        handed_out: the producer ids that were handed out. `next_producer_id`: the first free one; None where none was
            ever handed out.
        newest: time of its newest record, the controller's clock; None for an empty log.
        complete: no record is missing before the newest.
        assigned: the replicas of each partition.
        leaders: of each partition that has had one.
        removed: the topics that were removed, as far as the log reaches back.
        since_checkpoint: the log begins with a checkpoint that was read whole: topics that are not here do not exist.
        topic_ids: the name of each topic that there is, by its id. removed_ids: the name of each topic that was
            removed, by its id, as far as the log reaches back.
        removed_at: the times, by the controller's clock.
        group_configs: group -> name -> value, of the properties that were set for it. changed_group_configs: group and
            name of those that had another value before.
        gaps: sentences on what could not be read, with the file.
    """

    place: Place
    path: str
    transaction_state_partitions: int | None = None
    configs: dict[tuple[str, str], str] = {}
    features: dict[str, int] = {}
    topic_configs: dict[str, dict[str, str]] = {}
    handed_out: AssignedProducerIds = AssignedProducerIds()
    next_producer_id: int | None = None
    newest: int | None = None
    complete: bool = True
    assigned: dict[tuple[str, int], Assignment] = {}
    leaders: dict[tuple[str, int], Leader] = {}
    removed: frozenset[str] = frozenset()
    since_checkpoint: bool = False
    topic_ids: dict[UUID, str] = {}
    removed_ids: dict[UUID, str] = {}
    removed_at: dict[UUID, int] = {}
    group_configs: dict[str, dict[str, str]] = {}
    changed_group_configs: frozenset[tuple[str, str]] = frozenset()
    gaps: tuple[str, ...] = ()


class UnassignedProducerId(msgspec.Struct, frozen=True, gc=False):
    """A producer id that may have been in use before it was handed out.

    Attributes:
        offset, timestamp: of its last batch or marker.
        in_use_by: the time of a marker at that offset or after it, by the broker's clock: it was in use until then.
            None where no marker follows: what clients stamp proves nothing.
    """

    producer_id: int
    offset: int
    timestamp: int
    in_use_by: int | None = None


class ReplicaProducers(msgspec.Struct, frozen=True):
    """The producer ids of one replica: how many there are, and those that may not have been handed out."""

    place: Place
    count: int
    beyond: tuple[UnassignedProducerId, ...] = ()
