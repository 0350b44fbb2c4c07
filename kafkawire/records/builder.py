"""Writing record batches of any magic, as producers and brokers do."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kafkawire.errors import EncodeError
from kafkawire.records.compression import CODECS, compress
from kafkawire.records.control import ABORT, COMMIT, CONTROL_MESSAGES, CONTROL_TYPES
from kafkawire.records.header import (
    CHECKSUMMED,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    crc32c,
)
from kafkawire.records.legacy_writing import message_set
from kafkawire.records.record import NO_SEQUENCE, NO_TIMESTAMP, Record
from kafkawire.records.varints import INT64_MAX, INT64_MIN, varint, wrap64

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

_NULL = varint(-1)
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VERSION = 0


def build(
    records: Iterable[Record],
    *,
    magic: int = MAGIC,
    base_offset: int = 0,
    last_offset: int | None = None,
    timestamp: int = NO_TIMESTAMP,
    base_timestamp: int | None = None,
    append_time: int | None = None,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: int | None = None,
) -> bytes:
    """The bytes of one batch. For magic 0 and 1 it is a message set: the messages one after the other, or one wrapper
    with them.

    Args:
        records: a record's offset of -1 means the one after the record before it (`base_offset` for the first).
        base_offset: where the batch begins.
        last_offset: where it ends: the last record's unless compaction removed records at the end (it must be given
            for a batch without records).
        timestamp: epoch milliseconds of the records that state none; by default none, as in Kafka's `SimpleRecord`.
            What a producer sends has one, as `KafkaProducer` gives it: without a time no audit can tell how old it is.
        base_timestamp: what the records' timestamps are counted from; by default the first record's, as producers do.
        append_time: the broker's timestamp (LogAppendTime) instead of the records' own.
        delete_horizon: KIP-534; takes the base timestamp's place.

    Raises:
        EncodeError: a value that the format cannot carry. Magic 0 and 1 have no producers, transactions, control
            batches, headers and zstd, and magic 0 no timestamps.
    """
    listed = _with_offsets(records, base_offset, timestamp)
    if codec not in CODECS:
        raise EncodeError(f"no known codec: {codec}; known are {', '.join(CODECS)}", path="codec")
    if magic != MAGIC:
        _refuse(
            magic,
            producer_id=producer_id != -1,
            producer_epoch=producer_epoch != -1,
            base_sequence=base_sequence != NO_SEQUENCE,
            partition_leader_epoch=partition_leader_epoch != -1,
            transactional=transactional,
            control=control,
            delete_horizon=delete_horizon is not None,
            base_timestamp=base_timestamp is not None,
            last_offset=last_offset is not None and (not listed or last_offset != listed[-1].offset),
        )
        return message_set(listed, magic=magic, base_offset=base_offset, append_time=append_time, codec=codec)
    if last_offset is None:
        if not listed:
            raise EncodeError("a batch without records needs its last_offset", path="last_offset")
        last_offset = listed[-1].offset
    if last_offset < (listed[-1].offset if listed else base_offset):
        raise EncodeError(f"{last_offset} lies below the offsets of the records", path="last_offset")
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    elif base_timestamp is None:
        base_timestamp = listed[0].timestamp if listed else NO_TIMESTAMP
    attributes = (
        CODECS.index(codec)
        | (LOG_APPEND_TIME if append_time is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon is not None else 0)
    )
    latest = max((record.timestamp for record in listed), default=NO_TIMESTAMP)
    payload = b"".join(
        _record(record, record.offset - base_offset, base_timestamp, index) for index, record in enumerate(listed)
    )
    body = compress(codec, payload)
    try:
        head = HEADER.pack(
            base_offset,
            HEADER.size - LOG_OVERHEAD + len(body),
            partition_leader_epoch,
            MAGIC,
            0,
            attributes,
            last_offset - base_offset,
            base_timestamp,
            latest if append_time is None else append_time,
            producer_id,
            producer_epoch,
            base_sequence,
            len(listed),
        )
    except struct.error as error:
        raise EncodeError(f"a header field does not fit: {error}") from None
    crc = crc32c(body, crc32c(head[CHECKSUMMED:]))
    return head[: CHECKSUMMED - 4] + crc.to_bytes(4, "big") + head[CHECKSUMMED:] + body


def build_marker(
    name: str,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    partition_leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction, as a broker appends it on WriteTxnMarkers.

    Args:
        name: COMMIT or ABORT.
        offset: of the marker's record.
        timestamp: of the broker, epoch milliseconds.
        producer_id, producer_epoch: of the transaction.
        coordinator_epoch: of the transaction coordinator.
        partition_leader_epoch: of the partition; -1 where it is not known.

    Raises:
        EncodeError: another name.
    """
    from kafkawire.messages import EndTxnMarker

    if name not in (CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]):
        raise EncodeError(f"a transaction ends with COMMIT or ABORT, not {name}", path="name")
    return build_control(
        name,
        EndTxnMarker(coordinator_epoch=coordinator_epoch),
        offset=offset,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        transactional=True,
    )


def build_control(
    name: str,
    message: Message,
    *,
    offset: int,
    timestamp: int,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """A control batch of one record, as brokers and controllers write it.

    Args:
        name: one of `CONTROL_TYPES`; `message` is its message: EndTxnMarker, LeaderChangeMessage, SnapshotHeaderRecord,
            SnapshotFooterRecord, KRaftVersionRecord or VotersRecord, of version 0: Kafka's `ControlRecordUtils` reads
            and writes no other, even where the schema has one.
        partition_leader_epoch: of the leader that writes it; KRaft's control records have it.
    """
    number = next((n for n, known in CONTROL_TYPES.items() if known == name), None)
    if number is None:
        raise EncodeError(f"no control type {name}; there are {', '.join(CONTROL_TYPES.values())}", path="name")
    wanted = CONTROL_MESSAGES[number]
    if message.spec.name != wanted:
        raise EncodeError(f"a {name} record holds a {wanted}, not a {message.spec.name}", path="message")
    if (version := getattr(message, "version", _CONTROL_VERSION)) != _CONTROL_VERSION:
        raise EncodeError(f"Kafka reads version {_CONTROL_VERSION}, not {version}", path="message.version")
    encode = message.encode_prefixed if number in (ABORT, COMMIT) else message.encode
    value = encode(version=_CONTROL_VERSION)
    return build(
        [Record(key=_CONTROL_KEY.pack(0, number), value=value, timestamp=timestamp)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        transactional=transactional,
        control=True,
    )


def _refuse(magic: int, **given: bool) -> None:
    """Refuses arguments for magic 0 or 1 that only magic 2 has."""
    if magic not in (0, 1):
        raise EncodeError(f"no known magic: {magic}; known are 0, 1 and {MAGIC}", path="magic")
    for name, wrong in given.items():
        if wrong:
            raise EncodeError(f"magic {magic} has no place for it", path=name)


def _with_offsets(records: Iterable[Record], base_offset: int, timestamp: int) -> Sequence[Record]:
    listed = []
    following = base_offset
    for i, record in enumerate(records):
        offset = record.offset if record.offset >= 0 else following
        if offset < following:
            raise EncodeError(f"offset {offset} after {following - 1}", path=f"records[{i}].offset")
        time = timestamp if record.timestamp == NO_TIMESTAMP else record.timestamp
        same = offset == record.offset and time == record.timestamp
        listed.append(record if same else replace(record, offset=offset, timestamp=time))
        following = offset + 1
    return listed


def _record(record: Record, offset_delta: int, base_timestamp: int, index: int) -> bytes:
    if not INT64_MIN <= record.timestamp <= INT64_MAX:
        raise EncodeError(f"a timestamp of {record.timestamp}", path=f"records[{index}].timestamp")
    headers = [varint(len(record.headers))]
    for i, header in enumerate(record.headers):
        try:
            key = header.key.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            reason = f"character {error.start} is a lone surrogate, which UTF-8 cannot carry"
            raise EncodeError(reason, path=f"records[{index}].headers[{i}].key") from None
        headers += (_sized(key), _sized(header.value))
    body = b"".join(
        (
            b"\0",  # attributes: unused
            varint(wrap64(record.timestamp - base_timestamp)),
            varint(offset_delta),
            _sized(record.key),
            _sized(record.value),
            *headers,
        )
    )
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data
