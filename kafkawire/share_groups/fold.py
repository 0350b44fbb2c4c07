"""`ShareFold`: the records of one partition of `__share_group_state`, in order -> the state of each share partition.

As Kafka's `ShareCoordinatorShard` replays them: a snapshot replaces the state, an update is combined with it, a
tombstone ends it.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import msgspec

from kafkawire.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from kafkawire.share_groups.state_runs import Run, combined
from kafkawire.wire.message import Message

#: In an update: the one before stays.
_SAME = -1


class SharePartition(NamedTuple):
    """What a state is of: a group in a partition of a topic, by the topic's id."""

    group: str
    topic_id: UUID
    partition: int


class ShareRecord(NamedTuple):
    """A record of `__share_group_state`.

    Attributes:
        offset, timestamp: of the record.
        snapshot: a snapshot or its tombstone; otherwise an update.
        value: None for a tombstone.
    """

    offset: int
    timestamp: int
    key: SharePartition
    snapshot: bool
    value: ShareSnapshotValue | ShareUpdateValue | None

    @classmethod
    def of(cls, offset: int, timestamp: int, key: Message, value: Message | None) -> ShareRecord | None:
        """A decoded record; None for one with another key, and for an update without a value, which Kafka never
        writes."""
        if not isinstance(key, ShareSnapshotKey | ShareUpdateKey):
            return None
        snapshot = isinstance(key, ShareSnapshotKey)
        if not isinstance(value, (ShareSnapshotValue if snapshot else ShareUpdateValue) | None) or not (
            snapshot or value is not None
        ):
            return None
        return cls(offset, timestamp, SharePartition(key.group_id, key.topic_id, key.partition), snapshot, value)

    @property
    def runs(self) -> list[Run]:
        """What it says of offsets."""
        batches = () if self.value is None else self.value.state_batches
        return [Run(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches]


class ShareState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a group in a partition.

    Attributes:
        snapshot_epoch, state_epoch, leader_epoch: of the coordinator's records.
        start_offset: the first offset that the group has not finished with; -1: the partition's leader has yet to
            choose it.
        complete: offsets from there on that are acknowledged or archived, by the partition's leader (KIP-1226); -1: not
            known.
        runs: of the offsets from the start on, in order and without overlaps. Others were never delivered, as far as
            records show.
        updates: since the snapshot.
        written: time of the record, epoch milliseconds. offset: of the record.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete: int = -1
    runs: tuple[Run, ...] = ()
    updates: int = 0
    written: int = -1
    offset: int = -1


class Step(NamedTuple):
    """What a record changed.

    Attributes:
        before: None: the first record of its key here, or of one whose state was deleted.
        after: None: the state was deleted.
        first_seen: nothing before this record is known: earlier ones may have been removed from the front of the log.
    """

    record: ShareRecord
    before: ShareState | None
    after: ShareState | None
    first_seen: bool

    @property
    def restarted(self) -> bool:
        """Whether the state was initialised anew: a group that begins, or whose offsets were set by an
        administrator."""
        value = self.record.value
        if not isinstance(value, ShareSnapshotValue):
            return False
        anew = not value.leader_epoch and not value.state_batches
        return anew and (
            self.before is None or value.state_epoch > self.before.state_epoch or value.snapshot_epoch == 0
        )

    @property
    def dropped(self) -> tuple[Run, ...]:
        """What the state before has of offsets below the start offset now: these have left the state."""
        if self.before is None:
            return ()
        if self.after is None or self.restarted:
            return self.before.runs
        start = self.after.start_offset
        return tuple(run.cut(run.first, start - 1) for run in self.before.runs if run.first < start)


class ShareFold:
    """The states that records lead to. Memory grows with the share partitions, and with what is in flight in them.

    Args:
        from_start: no record was ever removed from the front of this log.
    """

    def __init__(self, *, from_start: bool = False) -> None:
        self.states: dict[SharePartition, ShareState] = {}
        self._seen: set[SharePartition] = set()
        self._from_start = from_start

    def take(self, record: ShareRecord) -> Step:
        """Take the next record, in the order of the log."""
        key = record.key
        before = self.states.get(key)
        after = _after(before, record)
        first = key not in self._seen and not self._from_start
        self._seen.add(key)
        if after is None:
            self.states.pop(key, None)
        else:
            self.states[key] = after
        return Step(record, before, after, first)


def _after(before: ShareState | None, record: ShareRecord) -> ShareState | None:
    value = record.value
    if isinstance(value, ShareSnapshotValue):
        return ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            complete=value.delivery_complete_count,
            runs=tuple(combined((), record.runs, value.start_offset)),
            written=record.timestamp,
            offset=record.offset,
        )
    if not isinstance(value, ShareUpdateValue):
        return None
    if before is None:
        before = ShareState(snapshot_epoch=value.snapshot_epoch, state_epoch=0, leader_epoch=_SAME, start_offset=_SAME)
    start = before.start_offset if value.start_offset == _SAME else value.start_offset
    return ShareState(
        snapshot_epoch=before.snapshot_epoch,
        state_epoch=before.state_epoch,
        leader_epoch=before.leader_epoch if value.leader_epoch == _SAME else value.leader_epoch,
        start_offset=start,
        complete=value.delivery_complete_count,
        runs=tuple(combined(before.runs, record.runs, start)),
        updates=before.updates + 1,
        written=record.timestamp,
        offset=record.offset,
    )
