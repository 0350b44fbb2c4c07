"""The structures that rules read, as rows of fields: files -> rows, and rows -> files with right checksums."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import crc32c
from msgspec.structs import asdict

from kafkawire.messages import ProducerIdsRecord, TransactionLogKey, TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Batch, Record, build, read
from kafkawire.records.header import CHECKSUMMED, CONTROL, HEADER, LOG_APPEND_TIME, LOG_OVERHEAD, TRANSACTIONAL

#: The fields of one element of a file, by name; those with an underscore are carried along.
Row = dict[str, Any]
#: Of a field its lowest and highest value; None: it has other changes than numbers have.
Bounds = tuple[int, int] | None


class FieldLayout(NamedTuple):
    """How a file holds rows. `fields`: those that are changed."""

    read: Callable[[bytes], list[Row]]
    write: Callable[[list[Row]], bytes]
    fields: dict[str, Bounds]


def _bounds(codes: str) -> list[Bounds]:
    """Of integers by their letters in `struct`."""
    sizes = [8 * struct.calcsize(">" + code) for code in codes]
    return [
        (0, (1 << size) - 1) if code.isupper() else (-(1 << (size - 1)), (1 << (size - 1)) - 1)
        for code, size in zip(codes, sizes, strict=True)
    ]


_BIT = (0, 1)

# Batches --------------------------------------------------------------------------------------------------------------

_HEADER = (
    "baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc", "attributes", "lastOffsetDelta",
    "baseTimestamp", "maxTimestamp", "producerId", "producerEpoch", "baseSequence", "recordsCount",
)  # fmt: skip
_BITS = {"timestampType": LOG_APPEND_TIME, "isTransactional": TRANSACTIONAL, "isControl": CONTROL}
#: A marker's key and value in its record, as brokers write it.
_MARKER = {"keyVersion": (5, "h"), "type": (7, "h"), "valueVersion": (10, "h"), "coordinatorEpoch": (12, "i")}
_MARKER_SIZE = 17


def _read_batches(data: bytes) -> list[Row]:
    rows, at = [], 0
    while at < len(data):
        row: Row = dict(zip(_HEADER, HEADER.unpack_from(data, at), strict=True))
        end = at + LOG_OVERHEAD + row["batchLength"]
        row["_body"] = body = data[at + HEADER.size : end]
        row["_intact"] = row["batchLength"], row["crc"]
        row |= {name: int(row["attributes"] & bit != 0) for name, bit in _BITS.items()}
        row["_marker"] = bool(row["isControl"] and row["producerId"] >= 0 and len(body) == _MARKER_SIZE)
        if row["_marker"]:
            row |= {name: struct.unpack_from(">" + code, body, place)[0] for name, (place, code) in _MARKER.items()}
        rows.append(row)
        at = end
    return rows


def _write_batches(rows: list[Row]) -> bytes:
    return b"".join(map(_batch, rows))


def _batch(row: Row) -> bytes:
    body = bytearray(row["_body"])
    attributes = row["attributes"]
    for name, bit in _BITS.items():
        attributes = attributes & ~bit | bit * row[name]
    for name, (place, code) in _MARKER.items() if row["_marker"] else ():
        struct.pack_into(">" + code, body, place, row[name])
    data = bytearray(HEADER.pack(*(row[name] for name in _HEADER)) + body)
    struct.pack_into(">h", data, CHECKSUMMED, attributes)
    if row["crc"] == row["_intact"][1]:  # otherwise it is the fault
        data[CHECKSUMMED - 4 : CHECKSUMMED] = crc32c.crc32c(bytes(data[CHECKSUMMED:])).to_bytes(4, "big")
    return bytes(data)


_OF_HEADERS = dict(zip(_HEADER, _bounds("qiibIhiqqqhii"), strict=True)) | dict.fromkeys(_BITS, _BIT)
del _OF_HEADERS["attributes"]
_OF_MARKERS = _OF_HEADERS | {name: _bounds(code)[0] for name, (_, code) in _MARKER.items()}

# Records of coordinators and controllers ------------------------------------------------------------------------------

_VALUE = {
    "producer_id": "q", "previous_producer_id": "q", "next_producer_id": "q", "producer_epoch": "h",
    "next_producer_epoch": "h", "transaction_timeout_ms": "i", "transaction_status": "b",
    "transaction_last_update_timestamp_ms": "q", "transaction_start_timestamp_ms": "q",
    "client_transaction_version": "h",
}  # fmt: skip


def _read_values(data: bytes) -> list[Row]:
    rows = []
    for batch in read(data):
        assert isinstance(batch, Batch)
        (record,) = batch.records
        key, _ = TransactionLogKey.decode_prefixed(record.key or b"")
        row: Row = {
            "_offset": batch.base_offset, "timestamp": record.timestamp, "_leader_epoch": batch.partition_leader_epoch,
            "transactional_id": key.transactional_id, "_tombstone": record.value is None,
        }  # fmt: skip
        if record.value is not None:
            value, _ = TransactionLogValue.decode_prefixed(record.value)
            row |= {name: field for name, field in asdict(value).items() if name in _VALUE}
            listed = value.transaction_partitions
            row["_value"] = record.value
            row["partitions"] = None if listed is None else tuple((p.topic, *p.partition_ids) for p in listed)
        rows.append(row)
    return rows


def _write_values(rows: list[Row]) -> bytes:
    return b"".join(map(_value, rows))


def _value(row: Row) -> bytes:
    value = None
    if not row["_tombstone"]:
        listed = row["partitions"]
        partitions = (
            None if listed is None else tuple(PartitionsSchema(topic=t, partition_ids=ids) for t, *ids in listed)
        )
        message = TransactionLogValue(**{name: row[name] for name in _VALUE}, transaction_partitions=partitions)
        value = message.encode_prefixed(version=1)
    key = TransactionLogKey(transactional_id=row["transactional_id"]).encode_prefixed(version=0)
    record = Record(key=key, value=value, timestamp=row["timestamp"])
    return build([record], base_offset=row["_offset"], partition_leader_epoch=row["_leader_epoch"])


_OF_BLOCKS = {"broker_id": "i", "broker_epoch": "q", "next_producer_id": "q"}
_KEY = bytes((1, ProducerIdsRecord.spec.api_key or 0, 0))


def _read_blocks(data: bytes) -> list[Row]:
    rows: list[Row] = []
    for batch in read(data):
        assert isinstance(batch, Batch)
        (record,) = batch.records
        row: Row = {"_offset": batch.base_offset, "timestamp": record.timestamp, "_other": record.value}
        row["_leader_epoch"] = batch.partition_leader_epoch
        if (record.value or b"").startswith(_KEY):
            row |= asdict(ProducerIdsRecord.decode((record.value or b"")[len(_KEY) :], version=0))
            row["_other"] = None
        rows.append(row)
    return rows


def _write_blocks(rows: list[Row]) -> bytes:
    found = b""
    for row in rows:
        value = row["_other"]
        if value is None:
            value = _KEY + ProducerIdsRecord(**{name: row[name] for name in _OF_BLOCKS}).encode(version=0)
        found += build(
            [Record(value=value, timestamp=row["timestamp"])],
            base_offset=row["_offset"],
            partition_leader_epoch=row["_leader_epoch"],
        )
    return found


# Files beside the log -------------------------------------------------------------------------------------------------

_ABORTED = {"version": "h", "producer_id": "q", "first_offset": "q", "last_offset": "q", "last_stable_offset": "q"}
_PRODUCER = {
    "producer_id": "q", "epoch": "h", "last_sequence": "i", "last_offset": "q", "offset_delta": "i", "timestamp": "q",
    "coordinator_epoch": "i", "current_txn_first_offset": "q",
}  # fmt: skip
_SNAPSHOT_HEAD = struct.Struct(">hIi")


def _fixed(fields: dict[str, str]) -> struct.Struct:
    return struct.Struct(">" + "".join(fields.values()))


def _read_fixed(data: bytes, fields: dict[str, str], start: int = 0) -> list[Row]:
    return [dict(zip(fields, values, strict=True)) for values in _fixed(fields).iter_unpack(data[start:])]


def _write_fixed(rows: list[Row], fields: dict[str, str]) -> bytes:
    return b"".join(_fixed(fields).pack(*(row[name] for name in fields)) for row in rows)


def _write_snapshot(rows: list[Row]) -> bytes:
    entries = _write_fixed(rows, _PRODUCER)
    count = len(rows).to_bytes(4, "big")
    return _SNAPSHOT_HEAD.pack(1, crc32c.crc32c(count + entries), len(rows)) + entries


def _read_head(data: bytes) -> list[Row]:
    return [dict(zip(_HEAD, _SNAPSHOT_HEAD.unpack_from(data), strict=True)) | {"_rest": data[_SNAPSHOT_HEAD.size :]}]


def _write_head(rows: list[Row]) -> bytes:
    return b"".join(_SNAPSHOT_HEAD.pack(*(row[name] for name in _HEAD)) + row["_rest"] for row in rows)


_HEAD = {"version": "h", "crc": "I", "count": "i"}


def _read_lines(data: bytes, fields: Mapping[str, type]) -> list[Row]:
    """Of a checkpoint: a version, the number of lines, and the lines."""
    return [
        {name: type_(text) for (name, type_), text in zip(fields.items(), line.split(), strict=True)}
        for line in data.decode().splitlines()[2:]
    ]


def _write_lines(rows: list[Row]) -> bytes:
    return "".join([f"0\n{len(rows)}\n", *(" ".join(map(str, row.values())) + "\n" for row in rows)]).encode()


_CHECKPOINT = {"topic": str, "partition": int, "offset": int}
_EPOCHS = {"epoch": int, "start_offset": int}


def _read_counted(data: bytes) -> list[Row]:
    version, count, *lines = data.decode().splitlines(keepends=True)
    return [{"version": int(version), "count": int(count), "_rest": "".join(lines)}]


def _write_counted(rows: list[Row]) -> bytes:
    return "".join(f"{row['version']}\n{row['count']}\n{row['_rest']}" for row in rows).encode()


def _numbers(fields: dict[str, str]) -> dict[str, Bounds]:
    return dict(zip(fields, _bounds("".join(fields.values())), strict=True))


#: By the structure's name.
LAYOUTS = {
    "batch": FieldLayout(_read_batches, _write_batches, _OF_HEADERS),
    "marker": FieldLayout(_read_batches, _write_batches, _OF_MARKERS),
    "TransactionLogValue": FieldLayout(
        _read_values, _write_values,
        {"transactional_id": None, "timestamp": _bounds("q")[0], **_numbers(_VALUE), "partitions": None},
    ),
    "ProducerIdsRecord": FieldLayout(
        _read_blocks, _write_blocks, {"timestamp": _bounds("q")[0], **_numbers(_OF_BLOCKS)}
    ),
    ".txnindex": FieldLayout(
        partial(_read_fixed, fields=_ABORTED), partial(_write_fixed, fields=_ABORTED), _numbers(_ABORTED)
    ),
    ".snapshot": FieldLayout(
        partial(_read_fixed, fields=_PRODUCER, start=_SNAPSHOT_HEAD.size), _write_snapshot, _numbers(_PRODUCER)
    ),
    ".snapshot header": FieldLayout(_read_head, _write_head, _numbers(_HEAD)),
    "checkpoint": FieldLayout(
        partial(_read_lines, fields=_CHECKPOINT), _write_lines,
        {"topic": None, "partition": _bounds("i")[0], "offset": _bounds("q")[0]},
    ),
    "leader-epoch-checkpoint": FieldLayout(
        partial(_read_lines, fields=_EPOCHS), _write_lines, _numbers({"epoch": "i", "start_offset": "q"})
    ),
    "leader-epoch-checkpoint header": FieldLayout(
        _read_counted, _write_counted, _numbers({"version": "i", "count": "i"})
    ),
}  # fmt: skip
