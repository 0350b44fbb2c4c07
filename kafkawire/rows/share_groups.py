"""Rows of share groups (KIP-932): what each offset of a partition is to a group, and the story of one."""

from __future__ import annotations

from kafkawire.rows.base import LogRow


class SharePartitionState(LogRow, frozen=True, kw_only=True):
    """A share group in a partition. `file` is the copy of `__share_group_state` that was read; None of a live cluster.

    Attributes:
        topic_id: of the topic; `topic` is None where its name is not known.
        start_offset: the first offset that the group has not finished with; None: no record has one.
        end_offset: the high watermark. The ranges cover the offsets from 0 up to it; None: not known.
        log_start_offset, last_stable_offset: of the partition.
        delivery_complete_count: offsets from the start on that are acknowledged or archived, by the partition's leader:
            more than in the records, since a leader archives aborted records in memory only. None: not known.
        snapshot_epoch, state_epoch, leader_epoch: of the coordinator.
        delivery_count_limit: None: not known; `delivery_count_limit_at_least`: by the counts in the records.
        isolation_level: of the group; None: not known.
        dead_letter_topic: None: none, or not known.
        from_start: the records reach back to the beginning of the group here: nothing before them is missing.
        records: of the state, that were read. as_of: time of the newest one, epoch milliseconds.
        deleted: the group's state here was deleted.
        unseen: what cannot be seen here, a sentence each.
        problems: what could not be read, a sentence each.
    """

    kind: str = "share_partition"
    group: str
    topic_id: str
    start_offset: int | None = None
    end_offset: int | None = None
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    delivery_complete_count: int | None = None
    snapshot_epoch: int | None = None
    state_epoch: int | None = None
    leader_epoch: int | None = None
    delivery_count_limit: int | None = None
    delivery_count_limit_at_least: int | None = None
    isolation_level: str | None = None
    dead_letter_topic: str | None = None
    from_start: bool = False
    records: int = 0
    as_of: int | None = None
    deleted: bool = False
    unseen: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ShareRange(LogRow, frozen=True, kw_only=True):
    """Consecutive offsets that are the same to a share group.

    Attributes:
        first_offset, last_offset: both included. offsets: their number.
        status: available, acknowledged, archiving, archived, no_record, before_start, skipped or unknown; `mixed` for
            ranges that were merged, whose numbers are in `of`.
        reason: why: see docs/share-groups.md.
        delivery_count: how often they were delivered, by the records of the state.
        of: name of the status -> number of offsets.
    """

    kind: str = "share_range"
    group: str
    first_offset: int
    last_offset: int
    offsets: int
    status: str
    reason: str | None = None
    delivery_count: int | None = None
    of: dict[str, int] | None = None


class ShareTotal(LogRow, frozen=True, kw_only=True):
    """The offsets of a partition with one status and reason. The sum is the number of offsets.

    Attributes:
        status, reason: as in `ShareRange`.
        offsets: their number. ranges: the number of ranges.
        deliveries: the sum of their delivery counts.
        first_offset, last_offset: the lowest and the highest of them.
    """

    kind: str = "share_total"
    group: str
    status: str
    reason: str | None = None
    offsets: int
    ranges: int
    deliveries: int
    first_offset: int
    last_offset: int


class ShareStep(LogRow, frozen=True, kw_only=True):
    """A record of `__share_group_state` that says something of an offset. `file`, `topic` and `partition` are of the
    offset; `state_offset` is the record's.

    Attributes:
        state_partition, state_offset, timestamp: of the record.
        record: snapshot, update or tombstone.
        status: name of the delivery state that it has for the offset; None: it only moves the start offset.
        delivery_count: how often it was delivered.
        start_offset, leader_epoch, snapshot_epoch: of the record.
        what: a sentence.
    """

    kind: str = "share_step"
    group: str
    offset: int
    state_partition: int
    state_offset: int
    timestamp: int
    record: str
    status: str | None = None
    delivery_count: int | None = None
    start_offset: int | None = None
    leader_epoch: int | None = None
    snapshot_epoch: int | None = None
    what: str


class DeadLetter(LogRow, frozen=True, kw_only=True):
    """A copy of a record in a dead-letter topic (KIP-1191). `topic` and `partition` are those of the original.

    Attributes:
        offset: of the original.
        copy_topic, copy_partition, copy_offset, timestamp: of the copy.
        delivery_count, cause: by its headers; None where it has none. cause: what the broker wrote.
    """

    kind: str = "dead_letter"
    group: str
    offset: int
    copy_topic: str
    copy_partition: int
    copy_offset: int
    timestamp: int
    delivery_count: int | None = None
    cause: str | None = None
