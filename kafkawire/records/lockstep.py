"""The columns of batches and records with NumPy: every field of all records at once.

Python finds where each record begins, as that follows from the length of the one before; then the records are read in
lockstep, a field at a time. A record that is not one is noticed by a flag and cuts off its batch behind the record
before it. The functions are those of `engine.Engine`, equal to the native ones.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import crc32c
import numpy as np
import numpy.typing as npt

from kafkawire.errors import RecordError
from kafkawire.records.arrays import Bools, Bytes, Columns, Int32, Int64
from kafkawire.records.compression import CompressionError, codec_name, decompress
from kafkawire.records.header import (
    CHECKSUMMED,
    CODEC_MASK,
    HEADER,
    HIGHEST_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    SHORTEST,
)
from kafkawire.records.record import NO_SEQUENCE, SMALLEST_RECORD
from kafkawire.records.varints import read_varint

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
#: The fields that are columns as they are.
_AFTER_SIZE = _HEADER.names[2:3] + _HEADER.names[4:] if _HEADER.names else ()

Heads = npt.NDArray[Any]
#: Where a batch's records lie in the bytes that positions refer to: first byte, byte behind the last, count.
Payload = tuple[int, int, int]


def scan_batches(data: Bytes, stop: int, check_crc: bool, max_batch_bytes: int) -> Columns:
    view = data.data
    positions = []
    position = 0
    while position < stop and len(view) - position >= HEADER.size:
        fields = HEADER.unpack_from(view, position)
        offset, length, _, magic, crc, _, delta, *_, count = fields
        size = length + LOG_OVERHEAD
        if (
            magic != MAGIC
            or not SHORTEST[MAGIC] <= length <= max_batch_bytes
            or size > len(view) - position
            or count < 0
            or delta < 0
            or not 0 <= offset <= HIGHEST_OFFSET
            or (check_crc and crc32c.crc32c(view[position + CHECKSUMMED : position + size]) != crc)
        ):
            break
        positions.append(position)
        position += size
    starts = np.array(positions, np.int64)
    heads = _heads(data, starts)
    size_column = heads["length"].astype(np.int64) + LOG_OVERHEAD
    rest = (np.ascontiguousarray(heads[name], heads[name].dtype.newbyteorder("=")) for name in _AFTER_SIZE)
    return (starts, heads["base_offset"].astype(np.int64), size_column, *rest)


def checksums(data: Bytes, positions: Int64) -> Bools:
    view = data.data
    heads = _heads(data, positions)
    ends = (positions + heads["length"] + LOG_OVERHEAD).tolist()
    computed = [
        crc32c.crc32c(view[start + CHECKSUMMED : end]) for start, end in zip(positions.tolist(), ends, strict=True)
    ]
    ok: Bools = np.array(computed, np.uint32) == heads["crc"]
    return ok


def record_columns(
    data: Bytes, positions: Int64, first: int, most_bytes: int, max_batch_bytes: int
) -> tuple[Columns, Bytes | None, list[int], int, bool]:
    heads = _heads(data, positions[first:])
    starts = (positions[first:] + HEADER.size).tolist()
    ends = (positions[first:] + heads["length"] + LOG_OVERHEAD).tolist()
    codecs = (heads["attributes"] & CODEC_MASK).tolist()
    counts = heads["record_count"].tolist()
    copied = bytearray() if any(codecs) else None
    payloads: list[Payload] = []
    total = 0
    refused = False
    for start, end, codec, count in zip(starts, ends, codecs, counts, strict=True):
        if total >= most_bytes:
            break
        if copied is not None:
            try:
                records = decompress(codec_name(codec), data.data[start:end], max_batch_bytes)
            except CompressionError:
                refused = True
                break
            start, end = len(copied), len(copied) + len(records)
            copied += records
        payloads.append((start, end, count))
        total += end - start
    used = data if copied is None else np.frombuffer(copied, np.uint8)
    columns, malformed = _columns(used, heads[: len(payloads)], payloads, first)
    return columns, None if copied is None else used, malformed, first + len(payloads), refused


def payload_columns(head: bytes, payload: Bytes, index: int) -> tuple[Columns, bool]:
    heads = np.frombuffer(head, _HEADER, 1)
    columns, malformed = _columns(payload, heads, [(0, len(payload), int(heads["record_count"][0]))], index)
    return columns, bool(malformed)


def gather(data: Bytes, starts: Int64, lengths: Int32) -> tuple[Int32, Bytes]:
    sizes = _sizes(data, starts, lengths)
    offsets = _offsets(sizes)
    places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    return offsets.astype(np.int32), data[places]


def gather_base64(data: Bytes, starts: Int64, lengths: Int32) -> tuple[Int32, Bytes]:
    sizes = _sizes(data, starts, lengths)
    offsets = _offsets((sizes + 2) // 3 * 4)
    view = data.data
    found = (b64encode(view[start : start + size]) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True))
    return offsets.astype(np.int32), np.frombuffer(b"".join(found), np.uint8)


def texts(data: Bytes, starts: Int64, lengths: Int32) -> Bools:
    sizes = _sizes(data, starts, lengths)
    view = data.data
    found = (_is_text(view[start : start + size]) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True))
    return np.fromiter(found, bool, len(sizes)) & (lengths >= 0)


def _is_text(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _sizes(data: Bytes, starts: Int64, lengths: Int32) -> Int64:
    sizes = np.maximum(lengths, 0).astype(np.int64)
    if ((sizes > 0) & ((starts < 0) | (starts + sizes > len(data)))).any():
        raise ValueError("spans outside of the data, or too many bytes")
    return sizes


def _offsets(sizes: Int64) -> Int64:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if offsets[-1] >= 1 << 31:
        raise ValueError("spans outside of the data, or too many bytes")
    return offsets


def _heads(data: Bytes, positions: Int64) -> Heads:
    """The headers at positions, as one structured array."""
    found: Heads = data[positions[:, None] + np.arange(HEADER.size)].view(_HEADER).reshape(len(positions))
    return found


# Records -------------------------------------------------------------------------------------------------------------


def _columns(data: Bytes, heads: Heads, payloads: list[Payload], first: int) -> tuple[Columns, list[int]]:
    """The columns of the records in `payloads`, and the numbers of the batches that hold a malformed one."""
    starts, ends, batch, whole = _record_bounds(data.data, payloads)
    fields, good = _fields(data, starts, ends)
    malformed = ~whole
    if not good.all():
        # What follows a malformed record in its batch is none.
        broken = np.flatnonzero(~good)
        malformed[batch[broken]] = True
        cut = np.full(len(payloads), len(good), np.int64)
        np.minimum.at(cut, batch[broken], broken)
        kept = np.arange(len(good)) < cut[batch]
        fields, batch = [field[kept] for field in fields], batch[kept]
    timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, header_count, headers_at = fields
    with np.errstate(over="ignore"):
        timestamp = heads["base_timestamp"].astype(np.int64)[batch] + timestamp_delta
        offset = heads["base_offset"].astype(np.int64)[batch] + offset_delta
    stamped = (heads["attributes"] & LOG_APPEND_TIME != 0)[batch]
    timestamp = np.where(stamped, heads["max_timestamp"].astype(np.int64)[batch], timestamp)
    base_sequence = heads["base_sequence"].astype(np.int64)[batch]
    sequence = np.where(base_sequence >= 0, (base_sequence + offset_delta) % (1 << 31), NO_SEQUENCE)
    columns = (
        (batch + first).astype(np.int32),
        offset,
        timestamp,
        sequence.astype(np.int32),
        key_start,
        key_length.astype(np.int32),
        value_start,
        value_length.astype(np.int32),
        header_count.astype(np.int32),
        *_header_columns(data.data, headers_at, header_count),
    )
    return columns, [first + int(index) for index in np.flatnonzero(malformed)]


def _record_bounds(data: memoryview, payloads: list[Payload]) -> tuple[Int64, Int64, Int64, Bools]:
    """Where the fields of each record begin (behind its length), where the record ends, and the index of its batch;
    and of each batch whether its records are as many as it says, and fill it."""
    starts: list[int] = []
    ends: list[int] = []
    found = []
    whole = []
    for position, stop, count in payloads:
        before = len(starts)
        if count > (stop - position) // SMALLEST_RECORD:
            found.append(0)
            whole.append(False)
            continue
        ok = True
        for _ in range(count):
            length, start = _length(data, position, stop)
            position = start + length
            if length < 0 or position > stop:
                ok = False
                break
            starts.append(start)
            ends.append(position)
        found.append(len(starts) - before)
        whole.append(ok and position == stop)
    batch = np.repeat(np.arange(len(payloads)), found)
    return np.array(starts, np.int64), np.array(ends, np.int64), batch, np.array(whole, np.bool_)


def _length(data: memoryview, position: int, stop: int) -> tuple[int, int]:
    """The varint at `position`, and where it ends; -1 where there is none before `stop`."""
    try:
        length, start = read_varint(data, position)
    except (IndexError, RecordError):
        return -1, stop
    return (length, start) if start <= stop else (-1, stop)


def _fields(data: Bytes, starts: Int64, ends: Int64) -> tuple[list[Int64], Bools]:
    """timestamp delta, offset delta, key and value (start and length), header count and where the headers begin; and
    which records are well formed, but for their headers."""
    good = np.ones(len(starts), np.bool_)
    last = max(len(data) - 1, 0)
    at = starts + 1  # attributes: unused

    def number(most: int) -> Int64:
        nonlocal at
        value, at = _varints(data, at, most, last, good)
        return value

    def span() -> tuple[Int64, Int64]:
        nonlocal at
        length = number(5)
        start = at
        np.logical_and(good, (length < 0) | (length <= ends - start), out=good)
        at = np.where(good, start + np.maximum(length, 0), start)
        return start, np.maximum(length, -1)

    timestamp_delta = number(10)
    offset_delta = number(5)
    key_start, key_length = span()
    value_start, value_length = span()
    header_count = number(5)
    np.logical_and(
        good, np.where(header_count == 0, at == ends, (header_count > 0) & (header_count <= (ends - at) // 2)), out=good
    )
    with_headers = np.flatnonzero(good & (header_count > 0))
    for index in with_headers.tolist():
        good[index] = _headers_end(data.data, int(at[index]), int(header_count[index]), int(ends[index]))
    return [timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, header_count, at], good


def _varints(data: Bytes, at: Int64, most: int, last: int, good: Bools) -> tuple[Int64, Int64]:
    """The zigzag varint at each position, and the positions behind them; clears `good` where there is none."""
    if not len(at):
        return at, at
    np.logical_and(good, at <= last, out=good)
    byte = data[np.minimum(at, last)].astype(np.uint64)
    at = at + 1
    number = byte & np.uint64(127)
    more = np.flatnonzero(byte > 127)
    for i in range(1, most):
        if not more.size:
            break
        places = at[more]
        good[more[places > last]] = False
        byte = data[np.minimum(places, last)].astype(np.uint64)
        at[more] += 1
        number[more] |= (byte & np.uint64(127)) << np.uint64(7 * i)
        more = more[byte > 127]
    good[more] = False
    if most == 5:
        number &= np.uint64(0xFFFFFFFF)
    return (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64), at


def _headers_end(data: memoryview, position: int, count: int, end: int) -> bool:
    """Whether `count` well-formed headers fill the bytes from `position` to `end`."""
    for part in range(2 * count):
        try:
            length, position = read_varint(data, position)
        except (IndexError, RecordError):
            return False
        if length > end - position or (length < 0 and part % 2 == 0):
            return False
        position += max(length, 0)
    return position == end


def _header_columns(data: memoryview, at: Int64, count: Int64) -> Columns:
    """Start and length of the keys, start and length of the values, of all records' headers."""
    starts: list[int] = []
    lengths: list[int] = []
    some = np.flatnonzero(count)
    for position, headers in zip(at[some].tolist(), count[some].tolist(), strict=True):
        for _ in range(2 * headers):
            size, position = read_varint(data, position)
            starts.append(position)
            lengths.append(max(size, -1))
            position += max(size, 0)
    places, sizes = np.array(starts, np.int64), np.array(lengths, np.int32)
    return places[::2].copy(), sizes[::2].copy(), places[1::2].copy(), sizes[1::2].copy()
