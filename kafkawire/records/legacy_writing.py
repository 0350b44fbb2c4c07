"""Writing message sets of magic 0 and 1, as Kafka's `MemoryRecordsBuilder` does."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from kafkawire.errors import EncodeError
from kafkawire.records.compression import CODECS, compress
from kafkawire.records.header import LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_AT
from kafkawire.records.legacy import LEGACY_CODECS, PREFIX, TIMESTAMP
from kafkawire.records.record import NO_TIMESTAMP, Record

_NULL = b"\xff\xff\xff\xff"


def message_set(
    records: Sequence[Record], *, magic: int, base_offset: int, append_time: int | None, codec: str
) -> bytes:
    """Messages one after the other, or compressed, in one wrapper.

    Args:
        records: at least one; their offsets ascend from `base_offset` on, which a wrapper of magic 1 counts from.
        append_time: the broker's timestamp (LogAppendTime), of magic 1.

    Raises:
        EncodeError: what the format has no place for: headers, timestamps in magic 0, zstd.
    """
    if codec not in LEGACY_CODECS:
        raise EncodeError(f"magic {magic} has no {codec}; it has {', '.join(LEGACY_CODECS)}", path="codec")
    if not records:
        raise EncodeError(f"magic {magic} has no batch without records", path="records")
    if magic == 0 and append_time is not None:
        raise EncodeError("magic 0 has no timestamps", path="append_time")
    for i, record in enumerate(records):
        _check(record, magic, f"records[{i}]")
    stamped = LOG_APPEND_TIME if append_time is not None else 0
    inner_base = base_offset if magic == 1 and codec != "none" else 0
    messages = b"".join(
        _message(
            record.offset - inner_base,
            magic,
            stamped,
            record.timestamp if append_time is None else append_time,
            record.key,
            record.value,
            f"records[{i}]",
        )
        for i, record in enumerate(records)
    )
    if codec == "none":
        return messages
    timestamp = max(record.timestamp for record in records) if append_time is None else append_time
    body = compress(codec, messages, broken_header_checksum=magic == 0)
    attributes = CODECS.index(codec) | stamped
    return _message(records[-1].offset, magic, attributes, timestamp, None, body, "records")


def _check(record: Record, magic: int, path: str) -> None:
    if record.headers:
        raise EncodeError(f"magic {magic} has no headers", path=f"{path}.headers")
    if magic == 0 and record.timestamp != NO_TIMESTAMP:
        raise EncodeError(f"magic 0 has no timestamps, this is {record.timestamp}", path=f"{path}.timestamp")
    if record.timestamp < NO_TIMESTAMP:
        raise EncodeError(f"a timestamp of {record.timestamp}", path=f"{path}.timestamp")


def _message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None, path: str
) -> bytes:
    try:
        body = (TIMESTAMP.pack(timestamp) if magic else b"") + _sized(key) + _sized(value)
        head = PREFIX.pack(offset, PREFIX.size - LOG_OVERHEAD + len(body), 0, magic, attributes)
    except struct.error as error:
        raise EncodeError(f"a field does not fit: {error}", path=path) from None
    crc = zlib.crc32(body, zlib.crc32(head[MAGIC_AT:]))
    return head[: MAGIC_AT - 4] + crc.to_bytes(4, "big") + head[MAGIC_AT:] + body


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else struct.pack(">i", len(data)) + data
