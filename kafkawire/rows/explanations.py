"""Rows of `kafkawire explain`: what each offset of a partition is, as ranges and totals; the story of one."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from kafkawire.rows.base import LogRow


class ReplicaBounds(LogRow, frozen=True, kw_only=True):
    """The offsets of a replica. `file` is the partition's directory.

    Attributes:
        broker: the broker's id. state: delete, future, stray or tiered (`logdir.Partition`); empty for a replica in
            use.
        log_start_offset: the first offset of the log; local_start_offset: the first one that is not in a tier only.
        last_stable_offset, high_watermark: where consumers stop, read_committed and read_uncommitted.
        log_end_offset: the one after the last batch.
        end_offset: the one after the last offset that the replica, a checkpoint or another copy shows. The ranges cover
            the offsets from 0 up to it.
        compacted: whether compaction may have removed records.
        diverges_at: the first offset whose leader epoch a newer copy of the partition does not have there: the records
            from it on lost an unclean leader election.
    """

    kind: str = "replica"
    broker: int | None = None
    state: str = ""
    log_start_offset: int
    local_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    end_offset: int
    compacted: bool = False
    diverges_at: int | None = None


class StatusRange(LogRow, frozen=True, kw_only=True):
    """Consecutive offsets of a replica with one status.

    Attributes:
        first_offset, last_offset: both included. offsets: their number.
        status: record, marker, control, compacted, deleted, above_high_watermark, truncated or unreadable; `mixed` for
            ranges that were merged, whose numbers are in `of`.
        transaction: of a record: none, committed, aborted, open or unknown.
        control: of a marker or control record, its type: COMMIT, ABORT, LEADER_CHANGE, ...
        coordinator_epoch: of a marker.
        reason: why: delete_records, no_segment, missing, in_tier, crc_mismatch, ...
        detail: a sentence.
        segment, position: the file, and the byte offset in it, of what cannot be read.
        of: name of the status -> number of offsets.
    """

    kind: str = "range"
    first_offset: int
    last_offset: int
    offsets: int
    status: str
    transaction: str | None = None
    control: str | None = None
    coordinator_epoch: int | None = None
    reason: str | None = None
    detail: str | None = None
    segment: str | None = None
    position: int | None = None
    of: dict[str, int] | UnsetType = UNSET


class StatusTotal(LogRow, frozen=True, kw_only=True):
    """The offsets of a replica with one status. The sum over all statuses is the number of all offsets.

    Attributes:
        status, transaction, control, coordinator_epoch, reason: as in `StatusRange`.
        offsets: their number. ranges: the number of ranges.
        first_offset, last_offset: the lowest and the highest of them.
    """

    kind: str = "total"
    status: str
    transaction: str | None = None
    control: str | None = None
    coordinator_epoch: int | None = None
    reason: str | None = None
    offsets: int
    ranges: int
    first_offset: int
    last_offset: int


class PartialTransaction(LogRow, frozen=True, kw_only=True):
    """A transaction of which compaction has left a part.

    Attributes:
        first_offset: of the data that is left. last_offset: of its marker, or of the last data where it is open.
        transaction: committed, aborted, open or unknown.
        left: number of records. removed: number of records that its batches and sequence numbers show to be gone; those
            before the first batch that is left are not counted.
    """

    kind: str = "partial_transaction"
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    transaction: str
    left: int
    removed: int


class PartialTransactionTotal(LogRow, frozen=True, kw_only=True):
    """All transactions of a replica of which compaction has left a part: their number, and the sums of `left` and
    `removed`."""

    kind: str = "partial_transaction_total"
    transactions: int
    left: int
    removed: int


class EqualRecords(LogRow, frozen=True, kw_only=True):
    """Records that repeat earlier ones under another producer id, epoch or sequence: same key, value, headers and
    timestamp, in the same order.

    Attributes:
        first_offset, last_offset: of the repeated records. offsets: number of records.
        earlier_first_offset, earlier_last_offset: of the records that they repeat.
        producer_id, producer_epoch, sequence: of the first of them; `earlier_*`: of the one that it repeats.
        transaction: what became of the later one's transaction; `earlier_transaction`: of the earlier one's.
    """

    kind: str = "equal_records"
    first_offset: int
    last_offset: int
    offsets: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: str
    earlier_first_offset: int
    earlier_last_offset: int
    earlier_producer_id: int
    earlier_producer_epoch: int
    earlier_sequence: int
    earlier_transaction: str


class OffsetStanding(LogRow, frozen=True, kw_only=True):
    """The status of an offset on one replica, or in a tier's segment that the replica's log has left out.

    Attributes:
        broker, status, transaction, control, coordinator_epoch, reason, detail, position: as in the other rows; status
            `left_out` in a tier's segment, `none` above the replica's end.
        first_offset, last_offset: the range of this status that the offset is in.
        leader_epoch: of its batch.
        read_committed, read_uncommitted: whether a consumer of that isolation level gets a record; None: not known.
    """

    kind: str = "offset"
    broker: int | None = None
    offset: int
    status: str
    transaction: str | None = None
    control: str | None = None
    coordinator_epoch: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    leader_epoch: int | None = None
    read_committed: bool | None = False
    read_uncommitted: bool = False
    reason: str | None = None
    detail: str | None = None
    segment: str | None = None
    position: int | None = None


class TransactionStory(LogRow, frozen=True, kw_only=True):
    """The transaction that an offset is part of, in one replica.

    Attributes:
        transaction: committed, aborted, open or unknown.
        first_offset, last_offset, batches, records: of its data. marker_offset: of its marker; None: none was found.
        first_timestamp, last_timestamp, marker_timestamp: epoch milliseconds.
        transactional_id: by `__transaction_state`; None where no record of it names the producer id.
    """

    kind: str = "transaction"
    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None
    transaction: str
    first_offset: int | None = None
    last_offset: int | None = None
    batches: int = 0
    records: int = 0
    marker_offset: int | None = None
    coordinator_epoch: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    marker_timestamp: int | None = None


class CoordinatorStep(LogRow, frozen=True, kw_only=True):
    """A record of `__transaction_state` of the transaction's id.

    Attributes:
        offset, timestamp: of the record. state: Ongoing, PrepareCommit, ...; None: a tombstone, the id has expired.
        has_partition: whether the record lists the partition.
        last_update_timestamp: the time of the change, epoch milliseconds.
    """

    kind: str = "coordinator"
    offset: int
    timestamp: int
    transactional_id: str
    state: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    has_partition: bool = False
    last_update_timestamp: int | None = None
