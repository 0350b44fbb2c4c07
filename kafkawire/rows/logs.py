"""The rows of log directories except those of segments: entries of the other files, checks of indexes, statistics."""

from __future__ import annotations

from kafkawire.rows.base import LogRow, Row
from kafkawire.rows.segments import BatchRow, DamageRow, RecordRow


class Index(LogRow, frozen=True, kw_only=True):
    """An entry of an offset index (`.index`): the batch with `offset` begins at or after byte `log_position`."""

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
    """An aborted transaction (`.txnindex`, Kafka's AbortedTxn). `last_offset` is the offset of its ABORT marker."""

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
        offset: offset of the snapshot, from the file's name. It contains the state before this offset.
        epoch: the producer epoch.
        current_txn_first_offset: first offset of the producer's open transaction; -1 if none is open.
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
    """A line of a broker's `*-checkpoint` file, for example the high watermark (`replication-offset-checkpoint`)."""

    kind: str = "checkpoint"
    position: int
    name: str
    offset: int


class PropertyRow(LogRow, frozen=True, kw_only=True):
    """A property of `meta.properties`, `partition.metadata`, `quorum-state`, `.kafka_cleanshutdown` or a tier's
    `.rsm-manifest`."""

    kind: str = "metadata"
    position: int
    name: str
    value: str


class Check(LogRow, frozen=True, kw_only=True):
    """The result of checking an index (`--verify-index-only`, `--index-sanity-check`).

    Attributes:
        check: `verify` compares each entry with the log; `sanity` is the check that a starting broker makes.
        passed: whether no error was found. Each error has a row of damage.
        entries: number of checked entries, without the preallocated zeros at the end of the file.
    """

    kind: str = "check"
    check: str
    passed: bool
    entries: int


class Stats(LogRow, frozen=True, kw_only=True):
    """Statistics of a partition (`--stats`), or of a directory of segments that belongs to no partition.

    Attributes:
        file: the log directory with the partition.
        state: `delete`, `future` or `stray` where the folder's name says so, `tiered` in a tier; else empty.
        segments: number of files read.
        batches, records, control_batches, transactional_batches: their numbers.
        bytes: total size of the batches.
        first_offset, last_offset: first offset of the first batch, last offset of the last batch.
        first_timestamp, last_timestamp: the oldest and the newest of the batches' max timestamps.
        magics, codecs: number of batches by magic and by codec.
        compressed_bytes, uncompressed_bytes: sizes of the records of compressed batches.
        compression_ratio: `uncompressed_bytes` by `compressed_bytes`; None if nothing is compressed.
        producers: number of distinct producer ids.
        gaps: number of batches that have missing offsets before or in them, from compaction or damage.
        missing_offsets: number of missing offsets.
        damaged: number of rows of damage. They precede this row.
    """

    kind: str = "stats"
    state: str = ""
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
    "batch": BatchRow,
    "record": RecordRow,
    "index": Index,
    "timeindex": TimeIndex,
    "txnindex": TxnIndex,
    "snapshot": Snapshot,
    "epoch": Epoch,
    "checkpoint": Checkpoint,
    "metadata": PropertyRow,
    "check": Check,
    "stats": Stats,
    "damage": DamageRow,
}
