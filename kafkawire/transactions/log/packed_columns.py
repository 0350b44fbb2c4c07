"""Columns of whole numbers as bytes.

A column becomes differences where its values ascend, then numbers of the fewest bytes that hold all, the first bytes of
all numbers before the second ones, and all columns together are compressed (zstd).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.records import compression

_CODEC = "zstd"
#: Elements of a column: a segment has less than 2^31 bytes, and a record 7 at least.
_MOST = (1 << 31) // 7
_SIGNED = ("<i1", "<i2", "<i4", "<i8")

Int64s = npt.NDArray[np.int64]


class PackedColumns(msgspec.Struct, frozen=True, array_like=True):
    """Packed columns.

    Attributes:
        count: of the elements of each.
        columns: for each its first value, and the bytes of a number after it; 0: all are the same.
        data: the numbers, compressed.
    """

    count: int
    columns: tuple[tuple[int, int], ...]
    data: bytes


def packed_columns(given: Iterable[tuple[bool, Int64s]]) -> PackedColumns:
    """The columns as bytes. `given`: of each whether its values ascend, and the values; all of one length."""
    columns, data, count = [], [], 0
    for ascends, values in given:
        count = len(values)
        first = int(values[0]) if count else 0
        with np.errstate(over="ignore"):
            numbers = np.diff(values) if ascends else values[1:] - first
        size = _size_of(numbers)
        columns.append((first, size))
        if size:
            narrow = numbers.astype(_SIGNED[size.bit_length() - 1])
            data.append(narrow.view(np.uint8).reshape(-1, size).T.tobytes())
    blob = b"".join(data)
    return PackedColumns(count, tuple(columns), bytes(compression.compress(_CODEC, blob)) if blob else blob)


def _size_of(numbers: Int64s) -> int:
    """Bytes that hold each of the numbers; 0 where all are 0."""
    if not len(numbers):
        return 0
    least, most = int(numbers.min()), int(numbers.max())
    if least == most == 0:
        return 0
    return next(size for size in (1, 2, 4, 8) if -(1 << 8 * size - 1) <= least and most < 1 << 8 * size - 1)


def unpacked_columns(found: PackedColumns, ascending: Sequence[bool]) -> list[Int64s]:
    """The reverse of `packed_columns`.

    Args:
        ascending: of each column whether its values ascend.

    Raises:
        ValueError: something else.
    """
    count, sizes = found.count, [size for _, size in found.columns]
    if not 0 <= count <= _MOST or len(sizes) != len(ascending) or not set(sizes) <= {0, 1, 2, 4, 8}:
        raise ValueError("not the columns of batches")
    behind = max(0, count - 1)
    length = behind * sum(sizes)
    data = found.data
    if data:
        data = bytes(compression.decompress(_CODEC, data, max(1, length)))
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes for the columns of {count} batches, which have {length}")
    at, arrays = 0, []
    for ascends, (first, size) in zip(ascending, found.columns, strict=True):
        values = np.full(count, first, np.int64)
        if size:
            stop = at + size * behind
            numbers = np.frombuffer(data[at:stop], np.uint8).reshape(size, -1).T.copy()
            narrow = numbers.view(_SIGNED[size.bit_length() - 1]).reshape(-1)
            with np.errstate(over="ignore"):
                if ascends:
                    values[1:] = narrow
                    np.cumsum(values, out=values)
                else:
                    values[1:] += narrow
            at = stop
        arrays.append(values)
    return arrays


def narrowed(name: str, values: Int64s, kind: Any) -> npt.NDArray[Any]:
    """The values in a type that is narrower.

    Raises:
        ValueError: one is out of its range. name: of the column.
    """
    found: npt.NDArray[Any] = values.astype(kind)
    if not np.array_equal(found, values):
        raise ValueError(f"the {name} of a batch is out of range")
    return found
