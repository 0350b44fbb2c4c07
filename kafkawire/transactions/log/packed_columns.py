"""Columns of whole numbers as bytes: of a column that ascends the differences, the first bytes of all numbers before
the second ones, and all columns together compressed (zstd)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.records import compression

_CODEC = "zstd"
#: Elements of a column: a segment has less than 2^31 bytes, and a record 7 at least.
_MOST = (1 << 31) // 7

#: By name the type of a column, and whether its values ascend; those are int64.
Kinds = Mapping[str, tuple[np.dtype[Any], bool]]


class PackedColumns(msgspec.Struct, frozen=True, array_like=True):
    """Packed columns. `count`: of the elements of each. `data`: the numbers, compressed."""

    count: int
    data: bytes


def packed_columns(columns: Mapping[str, npt.NDArray[Any]], kinds: Kinds) -> PackedColumns:
    """The columns as bytes; all are of one length."""
    data, count = [], 0
    for name, (kind, ascends) in kinds.items():
        values, count = columns[name], len(columns[name])
        if ascends:
            steps = np.diff(values, prepend=np.int64(0))
            values = (steps << 1) ^ (steps >> 63)  # small ones, of either sign, have zeros as their last bytes
        numbers = np.ascontiguousarray(values, kind).view(np.uint8)
        data.append(numbers.reshape(count, kind.itemsize).T.tobytes())
    return PackedColumns(count, bytes(compression.compress(_CODEC, b"".join(data))))


def unpacked_columns(found: PackedColumns, kinds: Kinds) -> dict[str, npt.NDArray[Any]]:
    """The reverse of `packed_columns`. Raises ValueError: something else."""
    count, arrays = found.count, dict[str, npt.NDArray[Any]]()
    if not 0 <= count <= _MOST:
        raise ValueError("not the columns of batches")
    length = count * sum(kind.itemsize for kind, _ in kinds.values())
    data = np.frombuffer(compression.decompress(_CODEC, found.data, max(1, length)), np.uint8)
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes for the columns of {count} batches, which have {length}")
    at = 0
    for name, (kind, ascends) in kinds.items():
        stop = at + count * kind.itemsize
        numbers = data[at:stop].reshape(kind.itemsize, count).T.copy().reshape(-1)
        values = numbers != 0 if kind == np.bool_ else numbers.view(kind)
        arrays[name] = np.cumsum((values >> 1) ^ -(values & 1)) if ascends else values
        at = stop
    return arrays


def check_range(name: str, values: npt.NDArray[Any], least: int, behind: int) -> None:
    """Raises ValueError: codes or indexes of a column are not from `least` up to `behind`, without it."""
    if len(values) and not (least <= values.min() and values.max() < behind):
        raise ValueError(f"the {name} of a row is out of range")
