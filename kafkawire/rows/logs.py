"""The rows of log directories but for those of segments: what stands in the small files, and what is counted."""

from __future__ import annotations

from kafkawire.rows.base import LogRow, Row
from kafkawire.rows.segments import Batch, Damage, Record


class Index(LogRow, frozen=True, kw_only=True):
    """An entry of an offset index (`.index`): the batch with `offset` begins at `log_position` or later."""

    kind: str = "index"
    position: int
    offset: int
    log_position: int


class TimeIndex(LogRow, frozen=True, kw_only=True):
    """An entry of a time index (`.timeindex`): no record before `offset` is newer than `timestamp`."""

    kind: str = "timeindex"
    position: int
    timestamp: int
    offset: int


class TxnIndex(LogRow, frozen=True, kw_only=True):
    """An aborted transaction (`.txnindex`, Kafka's AbortedTxn); `last_offset` is the ABORT marker's."""

    kind: str = "txnindex"
    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Snapshot(LogRow, frozen=True, kw_only=True):
    """A producer in a snapshot of producer state (`.snapshot`).

    Attributes:
        offset: the state is that before this offset (the file's name).
        epoch: the producer's.
        current_txn_first_offset: first offset of its open transaction, -1 where none is open.
    """

    kind: str = "snapshot"
    position: int
    offset: int | None = None
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class Epoch(LogRow, frozen=True, kw_only=True):
    """A line of `leader-epoch-checkpoint`: the leader epoch whose first offset is `start_offset`."""

    kind: str = "epoch"
    position: int
    epoch: int
    start_offset: int


class Checkpoint(LogRow, frozen=True, kw_only=True):
    """A line of a broker's `*-checkpoint` file, such as the high watermark (`replication-offset-checkpoint`)."""

    kind: str = "checkpoint"
    position: int
    name: str
    offset: int


class Metadata(LogRow, frozen=True, kw_only=True):
    """A property of `meta.properties`, `partition.metadata`, `quorum-state` or `.kafka_cleanshutdown`."""

    kind: str = "metadata"
    position: int
    name: str
    value: str


class Check(LogRow, frozen=True, kw_only=True):
    """What checking an index came to (`--verify-index-only`, `--index-sanity-check`).

    Attributes:
        check: `verify`, each entry against the log beside it; `sanity`, what a broker looks at when it starts.
        passed: whether nothing was wrong; there is a row of damage for what was.
        entries: how many were looked at, without the preallocated zeros at the end of the file.
    """

    kind: str = "check"
    check: str
    passed: bool
    entries: int


class Stats(LogRow, frozen=True, kw_only=True):
    """A partition in numbers (`--stats`), or a directory of segments that is of none.

    Attributes:
        file: the log directory that it lies in.
        segments: files read. `bytes`: of their batches.
        batches, records, control_batches, transactional_batches: how many.
        first_offset, last_offset: of the first and the last batch. `first_timestamp`, `last_timestamp`: the oldest and
            newest of the batches' newest timestamps.
        magics, codecs: how many batches of each.
        compressed_bytes, uncompressed_bytes: of the records of compressed batches. `compression_ratio`: the second by
            the first; None where nothing is compressed.
        producers: different producer ids.
        gaps, missing_offsets: before or in how many batches offsets are missing, and how many; compaction leaves such,
            and so does what is damaged.
        damaged: rows of damage, which come before.
    """

    kind: str = "stats"
    segments: int
    batches: int
    records: int
    bytes: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    last_timestamp: int | None
    magics: dict[str, int]
    codecs: dict[str, int]
    compressed_bytes: int
    uncompressed_bytes: int
    compression_ratio: float | None
    producers: int
    control_batches: int
    transactional_batches: int
    gaps: int
    missing_offsets: int
    damaged: int


#: The rows of log directories, by kind.
LOG_ROWS: dict[str, type[Row]] = {
    "batch": Batch,
    "record": Record,
    "index": Index,
    "timeindex": TimeIndex,
    "txnindex": TxnIndex,
    "snapshot": Snapshot,
    "epoch": Epoch,
    "checkpoint": Checkpoint,
    "metadata": Metadata,
    "check": Check,
    "stats": Stats,
    "damage": Damage,
}
