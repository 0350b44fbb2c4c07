"""The rows of log directories: batches, records, and what stands in the small files."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec import UNSET, UnsetType

from kafkawire import records as _records
from kafkawire.rows.base import Json, Place, Row, text


class Batch(Row, frozen=True, kw_only=True):
    """A record batch.

    Attributes:
        position: byte offset in the file. `size`: bytes of the whole batch.
        base_offset, last_offset: the offsets that the batch covers, both included.
        records: how many it holds (compaction may leave fewer than offsets, or none).
        timestamp: the newest of its records.
        producer_id, producer_epoch, sequence, last_sequence: -1 where the producer is not idempotent.
        leader_epoch: of the partition's leader that appended it.
        control: None for data; COMMIT, ABORT, LEADER_CHANGE, ...; EMPTY where compaction removed the marker's record.
        coordinator_epoch: of the transaction coordinator, on COMMIT and ABORT.
        delete_horizon: when compaction may drop tombstones and markers of the batch.
    """

    kind: str = "batch"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    base_offset: int
    last_offset: int
    records: int
    magic: int
    codec: str
    crc: int
    size: int
    timestamp: int
    timestamp_type: str
    producer_id: int
    producer_epoch: int
    sequence: int
    last_sequence: int
    leader_epoch: int
    transactional: bool
    control: str | None = None
    coordinator_epoch: int | None = None
    delete_horizon: int | None = None

    @classmethod
    def of(
        cls,
        batch: _records.Batch,
        control: _records.Control | None,
        **place: Unpack[Place],
    ) -> Batch:
        """The row of a batch. `control` is the batch's, which costs a look at its payload."""
        return cls(
            **place,
            position=batch.position,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            records=batch.record_count,
            magic=batch.magic,
            codec=batch.codec,
            crc=batch.crc,
            size=batch.size,
            timestamp=batch.max_timestamp,
            timestamp_type=batch.timestamp_type,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            sequence=batch.base_sequence,
            last_sequence=batch.last_sequence,
            leader_epoch=batch.partition_leader_epoch,
            transactional=batch.transactional,
            control=control.name if control else None,
            coordinator_epoch=control.coordinator_epoch if control else None,
            delete_horizon=batch.delete_horizon,
        )


class Header(Row, frozen=True, kw_only=True):
    """A record's header. `value` is None where it is null or no UTF-8; then `value_base64` tells which."""

    key: str
    value: str | None = None
    value_base64: str | None = None


class Record(Row, frozen=True, kw_only=True):
    """A record.

    Attributes:
        position: of its batch in the file.
        control, coordinator_epoch: as on the batch.
        key_size, value_size: bytes; None for null.
        key, value: text where they are UTF-8; otherwise None, and `key_base64`, `value_base64` hold them.
        decoded: in internal topics {"key": {"name", "version", "data"}, "value": ...}; `data` in JSON form, or None and
            a `problem`.
    """

    kind: str = "record"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    offset: int
    timestamp: int
    timestamp_type: str
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: str | None = None
    coordinator_epoch: int | None = None
    key_size: int | None = None
    value_size: int | None = None
    key: str | UnsetType | None = UNSET
    key_base64: str | UnsetType | None = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType | None = UNSET
    headers: tuple[Header, ...] | UnsetType = UNSET
    decoded: Json | UnsetType | None = UNSET

    @classmethod
    def of(
        cls,
        record: _records.Record,
        batch: _records.Batch,
        control: _records.Control | None,
        *,
        payload: bool = False,
        **place: Unpack[Place],
    ) -> Record:
        """The row of a record of `batch`, whose control type is `control`; with `payload`, what the record holds."""
        shown: dict[str, Any] = _payload(record, place.get("topic"), control) if payload else {}
        return cls(
            **place,
            position=batch.position,
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=batch.timestamp_type,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            sequence=record.sequence,
            transactional=batch.transactional,
            control=control.name if control else None,
            coordinator_epoch=control.coordinator_epoch if control else None,
            key_size=None if record.key is None else len(record.key),
            value_size=None if record.value is None else len(record.value),
            **shown,
        )


def _payload(record: _records.Record, topic: str | None, control: _records.Control | None) -> dict[str, Any]:
    key, key_base64 = text(record.key)
    value, value_base64 = text(record.value)
    headers: list[Header] = []
    for header in record.headers:
        header_value, header_base64 = text(header.value)
        headers.append(Header(key=header.key, value=header_value, value_base64=header_base64))
    return {
        "key": key,
        "key_base64": key_base64,
        "value": value,
        "value_base64": value_base64,
        "headers": tuple(headers),
        "decoded": None if control else _records.decoded(topic, record.key, record.value),
    }


class Index(Row, frozen=True, kw_only=True):
    """An entry of an offset index (`.index`): the batch with `offset` begins at `log_position` or later."""

    kind: str = "index"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    offset: int
    log_position: int


class TimeIndex(Row, frozen=True, kw_only=True):
    """An entry of a time index (`.timeindex`): no record before `offset` is newer than `timestamp`."""

    kind: str = "timeindex"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    timestamp: int
    offset: int


class TxnIndex(Row, frozen=True, kw_only=True):
    """An aborted transaction (`.txnindex`, Kafka's AbortedTxn); `last_offset` is the ABORT marker's."""

    kind: str = "txnindex"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Snapshot(Row, frozen=True, kw_only=True):
    """A producer in a snapshot of producer state (`.snapshot`).

    Attributes:
        offset: the state is that before this offset (the file's name).
        epoch: the producer's.
        current_txn_first_offset: first offset of its open transaction, -1 where none is open.
    """

    kind: str = "snapshot"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
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


class Epoch(Row, frozen=True, kw_only=True):
    """A line of `leader-epoch-checkpoint`: the leader epoch whose first offset is `start_offset`."""

    kind: str = "epoch"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    epoch: int
    start_offset: int


class Checkpoint(Row, frozen=True, kw_only=True):
    """A line of a broker's `*-checkpoint` file, such as the high watermark (`replication-offset-checkpoint`)."""

    kind: str = "checkpoint"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    name: str
    offset: int


class Metadata(Row, frozen=True, kw_only=True):
    """A property of `meta.properties` or `partition.metadata`."""

    kind: str = "metadata"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int
    name: str
    value: str


class Damage(Row, frozen=True, kw_only=True):
    """What could not be read.

    Attributes:
        position: byte offset in the file where the damage begins.
        reason: a word: truncated, crc_mismatch, bad_length, ...; `detail` says it in words.
        resumed_at: byte offset at which reading went on; None where nothing readable follows.
        harmless: nothing can be missing (the preallocated end of a file).
    """

    kind: str = "damage"
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    position: int | None = None
    reason: str
    detail: str | None = None
    resumed_at: int | None = None
    harmless: bool = False

    @classmethod
    def of(
        cls,
        damage: _records.Damage,
        **place: Unpack[Place],
    ) -> Damage:
        """The row of damage that was met in record batches, or in a small file."""
        return cls(
            **place,
            position=damage.position,
            reason=damage.reason,
            detail=damage.detail,
            resumed_at=damage.resumed_at,
            harmless=damage.harmless,
        )


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
    "damage": Damage,
}
