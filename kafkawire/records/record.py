"""`Record`: one key and value of a batch, and how records are read out of a batch's (decompressed) bytes.

Accepts what Kafka's `DefaultRecord.readFrom` accepts, and reports where a malformed record begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from kafkawire.errors import RecordError
from kafkawire.records.varints import INT64_MAX, INT64_MIN, read_varint, read_varlong, wrap64
from kafkawire.wire.backend import native

NO_SEQUENCE = -1
NO_TIMESTAMP = -1

#: length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each.
SMALLEST_RECORD = 7


class Header(msgspec.Struct, frozen=True, gc=False):
    """A header of a record. Bytes of the key that are no UTF-8 are kept as surrogate escapes; `value` may be null."""

    key: str
    value: bytes | None = None


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record.

    Attributes:
        key, value: bytes, or None for null (a null value in a compacted topic deletes the key).
        headers: in order; keys may repeat.
        offset: in the partition; -1 lets the builder count on.
        timestamp: epoch milliseconds; -1 is none. A value knows no clock: `build(timestamp=...)` gives records that
            are sent theirs.
        sequence: the producer's sequence number; -1 where the batch carries none.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    offset: int = -1
    timestamp: int = NO_TIMESTAMP
    sequence: int = NO_SEQUENCE


#: How many records are decoded at once.
_AT_ONCE = 256
_READER = None if native is None else native.RecordReader(Record, Header)


def read_records(
    data: bytes,
    count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int = NO_SEQUENCE,
    append_time: int | None = None,
    origin: int = 0,
) -> Iterator[Record]:
    """The `count` records that `data` holds, all of it.

    Args:
        append_time: the timestamp of every record where the broker stamped them (LogAppendTime).
        origin: what to add to positions in errors: the place of `data` in its file.

    Raises:
        RecordError: malformed bytes, fewer or more records than `count`; the records before are yielded.
    """
    done = 0
    if _READER is not None and count <= len(data) // SMALLEST_RECORD:
        position = 0
        while done < count:
            found, position = _READER.read(
                data, position, min(count - done, _AT_ONCE), base_offset, base_timestamp, base_sequence, append_time
            )
            if not found:
                break
            yield from found
            done += len(found)
        if done == count and position == len(data):
            return
    # Records that the engine refuses are read again in Python, which raises the error.
    again = _read_records(data, count, base_offset, base_timestamp, base_sequence, append_time, origin)
    yield from islice(again, done, None)


def _read_records(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int,
    append_time: int | None,
    origin: int,
) -> Iterator[Record]:
    if not 0 <= count <= len(data) // SMALLEST_RECORD:
        raise _error(f"{count} records", f"{len(data)} bytes, too few for them", origin, 0)
    position = 0
    for index in range(count):
        start = position
        try:
            # Most varints are one byte: those are read here, the others in a function.
            length = data[position]
            position += 1
            if length < 128:
                length = (length >> 1) ^ -(length & 1)
            else:
                length, position = read_varint(data, start)
            end = position + length
            if length < 0 or end > len(data):
                raise _error("a record within the batch", f"a length of {length}", origin + start, index)
            position += 1  # attributes: unused
            delta = data[position]
            position += 1
            if delta < 128:
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, position = read_varlong(data, position - 1)
            timestamp = base_timestamp + delta if append_time is None else append_time
            if not INT64_MIN <= timestamp <= INT64_MAX:
                timestamp = wrap64(timestamp)
            offset_delta = data[position]
            position += 1
            if offset_delta < 128:
                offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
            else:
                offset_delta, position = read_varint(data, position - 1)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            headers: tuple[Header, ...] = ()
            if data[position]:
                headers, position = _read_headers(data, position, end)
            else:
                position += 1
        except IndexError:
            raise _error("a whole record", "the end of the records", origin + start, index) from None
        except RecordError as error:
            if error.path:
                raise
            raise _error(error.expected, error.found, origin + error.offset, index) from None
        if position != end:
            found = f"fields of {length + position - end}"
            raise _error(f"a record of {length} bytes", found, origin + start, index)
        sequence = (base_sequence + offset_delta) % (1 << 31) if base_sequence >= 0 else NO_SEQUENCE
        offset = base_offset + offset_delta
        if not INT64_MIN <= offset <= INT64_MAX:
            offset = wrap64(offset)
        yield Record(key, value, headers, offset, timestamp, sequence)
    if position != len(data):
        raise _error(f"{count} records and no more", f"{len(data) - position} more bytes", origin + position, count)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = data[position]
    if length < 128:
        length = (length >> 1) ^ -(length & 1)
        start = position + 1
    else:
        length, start = read_varint(data, position)
    if length < 0:
        return None, start
    if length > end - start:
        raise RecordError(expected=f"at most {end - start} bytes", found=f"a length of {length}", offset=position)
    return data[start : start + length], start + length


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, start = read_varint(data, position)
    if not 0 <= count <= (end - start) // 2:
        raise RecordError(expected="a header count that fits the record", found=str(count), offset=position)
    position = start
    headers = []
    for _ in range(count):
        start = position
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise RecordError(expected="a header's key", found="null", offset=start)
        value, position = _read_bytes(data, position, end)
        headers.append(Header(key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _error(expected: str, found: str, offset: int, index: int) -> RecordError:
    return RecordError(expected=expected, found=found, offset=offset, path=f"records[{index}]")
