"""Rows of segments: batches, records, and damage."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec import UNSET, UnsetType

from kafkawire import records as _records
from kafkawire.records.internal_topics import CLUSTER_METADATA
from kafkawire.records.secrets import REDACTED
from kafkawire.rows.base import Json, LogRow, Row, RowOrigin, field_names, text_or_base64


class BatchRow(LogRow, frozen=True, kw_only=True):
    """A record batch.

    Attributes:
        position: byte offset in the file.
        base_offset, last_offset: the first and the last offset of the batch, both included.
        records: number of records. Compaction may leave fewer records than offsets, or none.
        size: bytes of the whole batch.
        timestamp: the newest timestamp of its records.
        producer_id, producer_epoch, sequence, last_sequence: -1 for a producer that is not idempotent.
        leader_epoch: leader epoch of the partition when the batch was appended.
        control: None for data; COMMIT, ABORT, LEADER_CHANGE, ... of its first record; EMPTY if compaction removed the
            marker's record.
        coordinator_epoch: of the transaction coordinator, for COMMIT and ABORT.
        delete_horizon: time from which compaction may remove the batch's tombstones and markers.
        transaction: none, committed, aborted, open or unknown: what became of the batch's transaction, and how a marker
            ended its own.
    """

    kind: str = "batch"
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
    transaction: str | UnsetType = UNSET

    @classmethod
    def fields(cls, *, transaction: bool = False) -> tuple[str, ...]:
        """The names of the fields that are set, in order. `transaction`: whether it has a state."""
        return tuple(name for name in field_names(cls) if transaction or name != "transaction")

    @classmethod
    def of(
        cls,
        batch: _records.Batch,
        control: _records.Control | None,
        transaction: str | UnsetType = UNSET,
        **origin: Unpack[RowOrigin],
    ) -> BatchRow:
        """The row of a batch.

        Args:
            batch: the batch.
            control: its control type, `batch.control`; None for data. Finding it reads the payload.
            transaction: the state of its transaction.
        """
        return cls(
            **origin,
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
            transaction=transaction,
        )


class HeaderRow(Row, frozen=True, kw_only=True):
    """A record's header. A value that is no UTF-8 is in `value_base64`. Both are None for null."""

    key: str
    value: str | None = None
    value_base64: str | None = None


#: Optional fields of `RecordRow`: its metadata, and its payload.
_METADATA = ("timestamp", "timestamp_type", "producer_id", "producer_epoch", "sequence", "transactional", "control",
             "coordinator_epoch", "key_size", "value_size")  # fmt: skip
_PAYLOAD = ("key", "key_base64", "value", "value_base64", "headers", "decoded")


class RecordRow(LogRow, frozen=True, kw_only=True):
    """A record. Metadata and payload are optional.

    Attributes:
        position: byte offset of its batch in the file.
        control, coordinator_epoch: as in `BatchRow`, of this record. `transaction`: of its batch.
        key_size, value_size: sizes in bytes; None for null.
        key, value: the bytes as text, if they are UTF-8.
        key_base64, value_base64: the bytes, if they are no UTF-8.
        decoded: key and value of a record of an internal topic or a control batch, {"key": {"name", "version", "data"},
            "value": ...}. `data` is the JSON form, or None beside a `problem`. Secrets in it are replaced by
            `[redacted]`, and so is the `value` of a record with secrets.
    """

    kind: str = "record"
    position: int
    offset: int
    timestamp: int | UnsetType = UNSET
    timestamp_type: str | UnsetType = UNSET
    producer_id: int | UnsetType = UNSET
    producer_epoch: int | UnsetType = UNSET
    sequence: int | UnsetType = UNSET
    transactional: bool | UnsetType = UNSET
    control: str | UnsetType | None = UNSET
    coordinator_epoch: int | UnsetType | None = UNSET
    transaction: str | UnsetType = UNSET
    key_size: int | UnsetType | None = UNSET
    value_size: int | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    key_base64: str | UnsetType | None = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType | None = UNSET
    headers: tuple[HeaderRow, ...] | UnsetType = UNSET
    decoded: Json | UnsetType | None = UNSET

    @classmethod
    def fields(cls, *, payload: bool = False, metadata: bool = True, transaction: bool = False) -> tuple[str, ...]:
        """The names of the fields that are set, in order.

        Args:
            payload, metadata: see `of`.
            transaction: whether the transaction has a state.
        """
        absent = {
            *(() if metadata else _METADATA),
            *(() if payload else _PAYLOAD),
            *(() if transaction else ("transaction",)),
        }
        return tuple(name for name in field_names(cls) if name not in absent)

    @classmethod
    def of(
        cls,
        record: _records.Record,
        batch: _records.Batch,
        control: _records.Control | None,
        *,
        payload: bool = False,
        metadata: bool = True,
        transaction: str | UnsetType = UNSET,
        decode_as: str | _records.RecordMessages | None = None,
        show_secrets: bool = False,
        topic_names: _records.TopicNames | None = None,
        **origin: Unpack[RowOrigin],
    ) -> RecordRow:
        """The row of a record.

        Args:
            record, batch: the record and its batch.
            control: the record's control type; None for data.
            payload: whether key, value and headers are set. `metadata`: whether timestamp, producer and sizes are.
            transaction: the state of its transaction.
            decode_as: name of the internal topic whose schemas decode the record, by default its own topic; or the
                messages that its key and value are.
            show_secrets: whether credentials, tokens and passwords of `__cluster_metadata` are shown.
            topic_names: puts names beside the ids of topics.
        """
        shown: dict[str, Any] = {}
        if metadata:
            shown = {
                "timestamp": record.timestamp,
                "timestamp_type": batch.timestamp_type,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "sequence": record.sequence,
                "transactional": batch.transactional,
                "control": control.name if control else None,
                "coordinator_epoch": control.coordinator_epoch if control else None,
                "key_size": None if record.key is None else len(record.key),
                "value_size": None if record.value is None else len(record.value),
            }
        if payload:
            topic = origin.get("topic")
            shown |= _content(record)
            if control:
                from kafkawire.records.control_json import decoded_control

                shown["decoded"] = decoded_control(record.key, record.value)
            else:
                shown["decoded"] = _records.decoded(
                    decode_as or topic, record.key, record.value, show_secrets=show_secrets, topic_names=topic_names
                )
                if not show_secrets and CLUSTER_METADATA in (decode_as, topic) and _secret(record):
                    shown |= {"value": REDACTED, "value_base64": None}
        return cls(**origin, position=batch.position, offset=record.offset, transaction=transaction, **shown)


def _content(record: _records.Record) -> dict[str, Any]:
    key, key_base64 = text_or_base64(record.key)
    value, value_base64 = text_or_base64(record.value)
    headers: list[HeaderRow] = []
    for header in record.headers:
        header_value, header_base64 = text_or_base64(header.value)
        headers.append(HeaderRow(key=header.key, value=header_value, value_base64=header_base64))
    return {
        "key": key,
        "key_base64": key_base64,
        "value": value,
        "value_base64": value_base64,
        "headers": tuple(headers),
    }


def _secret(record: _records.Record) -> bool:
    found = _records.decode_value(CLUSTER_METADATA, record.key, record.value)
    return found is not None and found.secret


class DamageRow(LogRow, frozen=True, kw_only=True):
    """Bytes that hold no valid batch or entry.

    Attributes:
        position: byte offset in the file at which the damage begins.
        reason: truncated, crc_mismatch, bad_length, ...
        detail: a sentence with the details.
        resumed_at: byte offset at which reading resumed; None if nothing readable follows.
        harmless: whether nothing can be missing, as at the preallocated end of a file.
    """

    kind: str = "damage"
    position: int | None = None
    reason: str
    detail: str | None = None
    resumed_at: int | None = None
    harmless: bool = False

    @classmethod
    def of(cls, damage: _records.Damage, **origin: Unpack[RowOrigin]) -> DamageRow:
        """The row of damage in a segment or in another file of a log directory."""
        return cls(
            **origin,
            position=damage.position,
            reason=damage.reason,
            detail=damage.detail,
            resumed_at=damage.resumed_at,
            harmless=damage.harmless,
        )
