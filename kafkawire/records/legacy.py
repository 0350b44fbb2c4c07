"""Messages of magic 0 and 1 (before Kafka 0.11; Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch`).

A message set is message after message. Where they are compressed, they are the value of one message, the wrapper, whose
offset is that of the last message in it. Offsets in a wrapper of magic 0 are absolute; in one of magic 1 they are
relative, counted so that the last one falls on the wrapper's. A message that stands alone is a batch of one record. A
wrapper is a batch of the messages in it; its header contains neither their number nor their first offset.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from kafkawire.errors import RecordError
from kafkawire.records.compression import CODECS, CompressionError, codec_name, decompress
from kafkawire.records.header import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_AT, SHORTEST
from kafkawire.records.record import NO_SEQUENCE, NO_TIMESTAMP, Record
from kafkawire.wire.values import Buffer

#: offset, size (of what follows it), crc, magic, attributes; then of magic 1 the timestamp
PREFIX = struct.Struct(">qiIbb")
TIMESTAMP = struct.Struct(">q")
#: Where the key's length stands, by magic.
KEY_AT = {0: 18, 1: 26}
_LOG_OVERHEAD = struct.Struct(">qi")
_LENGTH = struct.Struct(">i")

#: The bits of the attributes that mean something, by magic.
_ATTRIBUTES = {0: CODEC_MASK, 1: CODEC_MASK | LOG_APPEND_TIME}
#: zstd came with magic 2.
LEGACY_CODECS = CODECS[:4]


def header(data: Buffer) -> tuple[int, ...]:
    """A message's header as the fields of a batch's (`header.HEADER`); fields that the format does not have are -1.

    The offsets are the wrapper's own; its number of records is -1, which is unknown (see `contents`).
    """
    offset, size, crc, magic, attributes = PREFIX.unpack_from(data)
    timestamp = TIMESTAMP.unpack_from(data, PREFIX.size)[0] if magic else NO_TIMESTAMP
    attributes &= _ATTRIBUTES[magic]
    count = -1 if attributes & CODEC_MASK else 1
    return (offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, NO_SEQUENCE, count)


class _FieldError(ValueError):
    """A key or a value that reaches over its message's end."""


class WrapperContents(msgspec.Struct, frozen=True, gc=False):
    """The messages in a wrapper.

    Attributes:
        count: how many whole messages. first, last: the offsets of the first and the last of them.
        shift: what to add to a message's offset in the wrapper.
        payload: all bytes. problem: what follows the whole messages, if anything does.
    """

    count: int
    first: int
    last: int
    shift: int
    payload: bytes
    problem: str | None


def contents(data: memoryview, *, position: int, limit: int) -> WrapperContents:
    """Decompresses a wrapper and walks over its messages' sizes.

    Args:
        data: the wrapper.
        position: its byte offset, for errors.
        limit: most bytes of its content.

    Raises:
        RecordError: it is damaged, holds more than `limit` bytes, or no message.
    """
    offset, _, _, magic, attributes = PREFIX.unpack_from(data)
    codec = codec_name(attributes & CODEC_MASK)
    try:
        _, value = _key_and_value(data, 0, len(data))
        if value is None:
            raise CompressionError("a value of null")
        if codec not in LEGACY_CODECS:
            raise CompressionError(f"a codec that magic {magic} does not have: {codec}")
        payload = bytes(decompress(codec, value, limit, any_header_checksum=magic == 0))
    except (CompressionError, _FieldError) as error:
        raise _error(f"messages compressed with {codec}", str(error), position, "records") from None
    count, at, first, last = 0, 0, 0, 0
    problem: str | None = None
    while at < len(payload):
        if len(payload) - at < LOG_OVERHEAD:
            problem = f"{len(payload) - at} bytes"
            break
        last_offset, size = _LOG_OVERHEAD.unpack_from(payload, at)
        if not SHORTEST[0] <= size <= len(payload) - at - LOG_OVERHEAD:
            problem = f"a size of {size} with {len(payload) - at - LOG_OVERHEAD} bytes left"
            break
        last = last_offset
        first = first if count else last
        count += 1
        at += LOG_OVERHEAD + size
    if not count:
        raise _error("messages in a wrapper", problem or "none", position, "records")
    shift = 0
    if magic == 1 and offset:  # 0: some versions of librdkafka produce so
        shift = offset - last
        if shift < 0:
            found = f"a wrapper's offset of {offset} below that of the last message in it, {last}"
            raise _error("a wrapper's offset", found, position, "records")
    return WrapperContents(count, first + shift, last + shift, shift, payload, problem)


def read_messages(data: memoryview, *, position: int, limit: int) -> Iterator[Record]:
    """The message that `data` is, or the messages in it if it is a wrapper.

    Args:
        data, position, limit: see `contents`.

    Raises:
        RecordError: as `contents`; also a message in a wrapper that is compressed, of another magic than 0 and 1, or
            has a wrong checksum. The messages before it are yielded.
    """
    offset, _, _, magic, attributes = PREFIX.unpack_from(data)
    if not attributes & CODEC_MASK:
        key, value = _fields(data, 0, len(data), position, 0)
        timestamp = TIMESTAMP.unpack_from(data, PREFIX.size)[0] if magic else NO_TIMESTAMP
        yield Record(key, value, (), offset, timestamp)
        return
    inside = contents(data, position=position, limit=limit)
    payload = inside.payload
    append_time = None
    if magic == 1 and attributes & LOG_APPEND_TIME:
        (append_time,) = TIMESTAMP.unpack_from(data, PREFIX.size)
    at = 0
    for index in range(inside.count):
        path = f"records[{index}]"
        inner_offset, size, crc, inner_magic, inner_attributes = PREFIX.unpack_from(payload, at)
        end = at + LOG_OVERHEAD + size
        if inner_magic not in _ATTRIBUTES or size < SHORTEST[inner_magic]:
            raise _error("a message of magic 0 or 1", f"magic {inner_magic}, size {size}", position, path)
        if inner_attributes & CODEC_MASK:
            raise _error("a message that is not compressed", codec_name(inner_attributes & CODEC_MASK), position, path)
        computed = zlib.crc32(payload[at + MAGIC_AT : end])
        if computed != crc:
            raise _error(f"a message with the checksum {crc:#010x}", f"{computed:#010x}", position, path)
        key, value = _fields(payload, at, end, position, index)
        timestamp = NO_TIMESTAMP
        if inner_magic:
            (timestamp,) = TIMESTAMP.unpack_from(payload, at + PREFIX.size)
            if append_time is not None:
                timestamp = append_time
        yield Record(key, value, (), inner_offset + inside.shift, timestamp)
        at = end
    if inside.problem:
        raise _error("a whole message", inside.problem, position, f"records[{inside.count}]")


def _fields(data: Buffer, at: int, end: int, position: int, index: int) -> tuple[bytes | None, bytes | None]:
    try:
        key, value = _key_and_value(memoryview(data), at, end)
    except _FieldError as error:
        raise _error("a message's key and value", str(error), position, f"records[{index}]") from None
    return None if key is None else bytes(key), None if value is None else bytes(value)


def _key_and_value(data: memoryview, at: int, end: int) -> tuple[memoryview | None, memoryview | None]:
    """Bytes after the value are ignored, as by Kafka."""
    fields: list[memoryview | None] = []
    start = at + KEY_AT[data[at + MAGIC_AT]]
    for name in ("key", "value"):
        if end - start < 4:
            raise _FieldError(f"the end before the {name}'s length")
        (length,) = _LENGTH.unpack_from(data, start)
        start += 4
        if length > end - start:
            raise _FieldError(f"a {name} of {length} bytes with {end - start} left")
        fields.append(None if length < 0 else data[start : start + length])
        start += max(0, length)
    return fields[0], fields[1]


def _error(expected: str, found: str, position: int, path: str) -> RecordError:
    return RecordError(expected=expected, found=found, offset=position, path=path)
