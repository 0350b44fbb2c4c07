"""The columns of batches and records without the native engine: a `ColumnEngine` that reads one object after the other.

The columns contain the values of the objects of `batch_walk` and `batch`, so there is no second reader. Keys, values
and headers are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkawire.errors import RecordError
from kafkawire.records.array_types import Bools, Bytes, Columns, Int32, Int64
from kafkawire.records.batch import Batch
from kafkawire.records.batch_walk import BatchWalk
from kafkawire.records.header import HEADER, LOG_OVERHEAD, MAGIC, MAGIC_AT, length_of
from kafkawire.records.record import SMALLEST_RECORD
from kafkawire.records.source import Memory

#: The types of the columns, in their order in `columns.Batches` and in `columns.Records`.
_BATCH = ["i8", "i8", "i8", "i4", "u4", "i2", "i4", "i8", "i8", "i8", "i2", "i4", "i4"]
_RECORD = ["i4", "i8", "i8", "i4", "i8", "i4", "i8", "i4", "i4"]
_HEADER = ["i8", "i4", "i8", "i4"]


def scan_batches(data: Bytes, stop: int, check_crc: bool, max_batch_bytes: int) -> Columns:
    """`ColumnEngine.scan_batches`.

    Args:
        data, stop, check_crc, max_batch_bytes: see `ColumnEngine.scan_batches`.
    """
    view = data.data
    walk = BatchWalk(Memory(view), check_crc, max_batch_bytes, 0)
    found: list[tuple[int, ...]] = []
    position = 0
    while position < stop and view[position + MAGIC_AT : position + MAGIC_AT + 1] == bytes([MAGIC]):
        batch = walk.batch_at(position)
        if not isinstance(batch, Batch):
            break
        found.append(
            (
                position,
                batch.base_offset,
                batch.size,
                batch.partition_leader_epoch,
                batch.crc,
                batch.attributes,
                batch.last_offset_delta,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.record_count,
            )
        )
        position += batch.size
    return _columns(found, _BATCH)


def checksums(data: Bytes, positions: Int64) -> Bools:
    return np.array([_batch(data, position, 0).crc_ok for position in positions.tolist()], bool)


def record_columns(
    data: Bytes, positions: Int64, first: int, most_bytes: int, max_batch_bytes: int
) -> tuple[Columns, Bytes | None, list[int], int, bool]:
    """`ColumnEngine.record_columns`.

    Args:
        data, positions, first, most_bytes, max_batch_bytes: see `ColumnEngine.record_columns`.
    """
    content = bytearray()
    records: list[tuple[int, ...]] = []
    headers: list[tuple[int, ...]] = []
    malformed = []
    following = first

    def span(part: bytes | None) -> tuple[int, int]:
        start = len(content)
        if part is None:
            return start, -1
        content.extend(part)
        return start, len(part)

    for position in positions[first:].tolist():
        if len(content) + len(records) * SMALLEST_RECORD >= most_bytes:
            break
        try:
            for record in _batch(data, position, max_batch_bytes).records:
                numbers = following, record.offset, record.timestamp, record.sequence
                records.append((*numbers, *span(record.key), *span(record.value), len(record.headers)))
                for header in record.headers:
                    headers.append((*span(header.key.encode("utf-8", "surrogateescape")), *span(header.value)))
        except RecordError:
            malformed.append(following)
        following += 1
    columns = _columns(records, _RECORD) + _columns(headers, _HEADER)
    return columns, np.frombuffer(content, np.uint8), malformed, following, False


def gather(data: Bytes, starts: Int64, lengths: Int32) -> tuple[Int32, Bytes]:
    """`ColumnEngine.gather`.

    Args:
        data, starts, lengths: see `ColumnEngine.gather`.
    """
    sizes = np.maximum(lengths, 0).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if ((sizes > 0) & ((starts < 0) | (starts > len(data) - sizes))).any() or offsets[-1] >= 1 << 31:
        raise ValueError("spans outside of the data, or too many bytes")
    view = data.data
    parts = [view[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return offsets.astype(np.int32), np.frombuffer(b"".join(parts), np.uint8)


def _batch(data: Bytes, position: int, max_batch_bytes: int) -> Batch:
    """The batch whose header is at `position`."""
    view = data.data[position:]
    whole = view[: length_of(view) + LOG_OVERHEAD]
    return Batch(position, whole, max_batch_bytes, *HEADER.unpack_from(whole))


def _columns(rows: Sequence[tuple[int, ...]], types: list[str]) -> Columns:
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays: list[npt.NDArray[Any]] = [np.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return tuple(arrays)
