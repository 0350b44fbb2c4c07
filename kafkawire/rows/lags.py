"""Rows of `kafkawire lag`: how far a group is behind, in records that it will really get."""

from __future__ import annotations

from kafkawire.rows.base import Row


class LagCount(Row, frozen=True, kw_only=True):
    """A number of records, or bounds of it.

    Attributes:
        least, most: of data records: no markers, nothing that compaction has removed.
        bytes_least: of the batches that hold the least number, as they are stored. bytes_most: of all that may hold
            some; None where that is not known.
        exact: whether both bounds are one.
    """

    least: int
    most: int
    bytes_least: int
    bytes_most: int | None
    exact: bool


class Lag(Row, frozen=True, kw_only=True):
    """A group in one partition.

    Attributes:
        committed_offset: None: the group has none there.
        from_offset: the offset from which is counted: the committed one, or where that is none or no longer there, the
            log start offset (`auto.offset.reset=earliest`).
        log_start_offset, last_stable_offset, high_watermark: of the partition; None where they are not known.
        read_committed: what a consumer of that level gets now, up to the last stable offset: without aborted records.
        read_uncommitted: what a consumer of that level gets now, up to the high watermark: with aborted records, and
            those of open transactions.
        held: what a read_committed consumer does not get yet, from the last stable offset on; the most counts records
            of open transactions, which may still be aborted.
        oldest_timestamp: of the first record that it gets, epoch milliseconds; None where there is none, or it is not
            known. age_ms: `as_of` minus that.
        lost_offsets: offsets from the committed one up to the log start offset: what was in them is deleted.
        beyond: offsets from the high watermark up to the committed one: the partition was truncated or created again.
        deleted_after: retention deletes the first unread record at this time at the earliest, epoch milliseconds; None
            where time deletes nothing, or it is not known. `retention`: a sentence on that.
        held_by: what holds the last stable offset back, a sentence each.
        unstable: whether the committed offset is in an open transaction: it cannot be fetched now.
        bounds: why bounds are no exact numbers, a sentence each; empty where they are.
        problems: what could not be read, a sentence each.
        archived: of a share group: offsets that it has finished with and no consumer acknowledged, by reason (rejected,
            delivery_limit, ...): a lag of 0 does not count them. None: of other groups.
    """

    kind: str = "lag"
    group: str
    topic: str
    partition: int
    as_of: int | None = None
    committed_offset: int | None = None
    from_offset: int | None = None
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    read_committed: LagCount | None = None
    read_uncommitted: LagCount | None = None
    held: LagCount | None = None
    oldest_timestamp: int | None = None
    age_ms: int | None = None
    lost_offsets: int = 0
    beyond: int = 0
    deleted_after: int | None = None
    retention: str | None = None
    held_by: tuple[str, ...] = ()
    unstable: bool = False
    bounds: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    archived: dict[str, int] | None = None
