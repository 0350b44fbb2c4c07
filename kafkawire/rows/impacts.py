"""Rows of the impact of an open transaction: what it holds back, and what an abort would hide."""

from __future__ import annotations

from kafkawire.rows.base import Row


class OffsetRange(Row, frozen=True, kw_only=True):
    """A range of offsets, and how much is in it.

    Attributes:
        start_offset, end_offset: the first offset, and the one after the last.
        records: number of data records (no markers) that are in it; None if it is not known.
        bytes: bytes of its batches, as they are stored; None if they are not known.
        estimated: whether `records` and `bytes` are estimates: not all of the range was read.
    """

    start_offset: int
    end_offset: int
    records: int | None = None
    bytes: int | None = None
    estimated: bool = False


class TransactionRecord(Row, frozen=True, kw_only=True):
    """A record of an open transaction. Bytes that are no UTF-8 are in `key_base64` and `value_base64`."""

    offset: int
    timestamp: int
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None


class TransactionData(Row, frozen=True, kw_only=True):
    """The data of an open transaction in one partition: what read_committed consumers never get after an abort.

    Attributes:
        first_offset, last_offset: of its records that were found; None if there are none.
        records, bytes: number of its records, and bytes of their batches.
        estimated: whether more of them may be where nothing was read: the numbers are the least.
        shown: the first records (`--show-records`).
    """

    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    bytes: int = 0
    estimated: bool = False
    shown: tuple[TransactionRecord, ...] = ()


class HeldCompaction(Row, frozen=True, kw_only=True):
    """How far compaction of a partition is held: the cleaner does not go beyond the last stable offset.

    Attributes:
        cleaned_offset: compaction has come so far (`cleaner-offset-checkpoint`); None if it is not known.
        held_offset: it goes no further than this one.
        bytes: bytes from there up to the active segment, which is never compacted; None if they are not known.
        freed_bytes: an estimate of what compaction would free of them: the share of records whose key occurs again.
    """

    cleaned_offset: int | None = None
    held_offset: int
    bytes: int | None = None
    freed_bytes: int | None = None


class GroupLag(Row, frozen=True, kw_only=True):
    """A consumer group at a partition whose last stable offset is held back.

    Attributes:
        waits: whether its committed offset is the last stable offset: it waits there if it reads committed.
        committed_lag, lag: offsets from the committed one to the last stable offset, and to the high watermark.
    """

    group: str
    committed_offset: int
    waits: bool
    committed_lag: int
    lag: int


class Impact(Row, frozen=True, kw_only=True):
    """What an open transaction holds back, and what an abort would hide.

    Attributes:
        held: from its start to the high watermark: read_committed consumers get none of it before it has ended.
        released: the part that they get if this transaction alone ends: up to the next open one, and empty if an
            earlier one is open.
        data: of the transaction itself; None if nothing was read.
        compaction: None if the topic is not compacted, or its settings are not known.
        retention: `held` in tiered storage, which copies no segment beyond the last stable offset, so that none is
            deleted; `not_held`: retention deletes up to the high watermark, read or not; `none`: the topic is compacted
            only; None if it is not known.
        groups: those that have committed offsets in the partition; None if they were not read.
        measured_at: when it was read, epoch milliseconds; None for copied log directories.
        unknown: sentences on what is not known, and why.
    """

    held: OffsetRange
    released: OffsetRange
    data: TransactionData | None = None
    compaction: HeldCompaction | None = None
    retention: str | None = None
    groups: tuple[GroupLag, ...] | None = None
    measured_at: int | None = None
    unknown: tuple[str, ...] = ()
