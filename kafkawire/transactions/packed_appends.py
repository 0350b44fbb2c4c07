"""`Appends` as bytes: about five for a batch, so that parts of logs can be read elsewhere and replayed in one place.

A column becomes differences where its values ascend, then numbers of the fewest bytes that hold all, the first bytes of
all numbers before the second ones, and all columns together are compressed (zstd).
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.records import compression
from kafkawire.records.header import HEADER
from kafkawire.transactions.appends import CONTROLS, DATA, Appends

_CODEC = "zstd"
#: Batches of a segment, which has less than 2^31 bytes.
_MOST = (1 << 31) // HEADER.size
#: Columns of which the difference to the element before is packed.
_ASCENDING = frozenset({"base_offset", "timestamp", "intact_from"})
_SIGNED = ("<i1", "<i2", "<i4", "<i8")

#: Each column's name and type.
_TYPES: dict[str, Any] = {
    "base_offset": np.int64,
    "last_offset": np.int64,
    "timestamp": np.int64,
    "producer_id": np.int64,
    "producer_epoch": np.int16,
    "control": np.int8,
    "coordinator_epoch": np.int64,
    "base_sequence": np.int32,
    "transactional": np.bool_,
    "intact_from": np.int64,
    "thinned": np.bool_,
    "problem": np.int32,
    "append_time": np.bool_,
}


class PackedAppends(msgspec.Struct, frozen=True, array_like=True):
    """Packed `Appends`.

    Attributes:
        count: of the batches.
        columns: for each column its first value, and the bytes of a number behind it; 0: all are the same.
        data: the numbers, compressed.
        problems: as in `Appends`.
    """

    count: int
    columns: tuple[tuple[int, int], ...]
    data: bytes
    problems: tuple[str, ...]


def packed(appends: Appends) -> PackedAppends:
    """The columns as bytes."""
    columns, data = [], []
    for name in _TYPES:
        values = _relative(name, appends)
        first = int(values[0]) if len(values) else 0
        with np.errstate(over="ignore"):
            numbers = np.diff(values) if name in _ASCENDING else values[1:] - first
        size = _size_of(numbers)
        columns.append((first, size))
        if size:
            narrow = numbers.astype(_SIGNED[size.bit_length() - 1])
            data.append(narrow.view(np.uint8).reshape(-1, size).T.tobytes())
    blob = compression.compress(_CODEC, b"".join(data)) if data else b""
    return PackedAppends(len(appends), tuple(columns), bytes(blob), appends.problems)


def _relative(name: str, appends: Appends) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = getattr(appends, name)
    if name == "last_offset":
        values = values - appends.base_offset
    return values.astype(np.int64)


def _size_of(numbers: npt.NDArray[np.int64]) -> int:
    """Bytes that hold each of the numbers; 0 where all are 0."""
    if not len(numbers):
        return 0
    least, most = int(numbers.min()), int(numbers.max())
    if least == most == 0:
        return 0
    return next(size for size in (1, 2, 4, 8) if -(1 << 8 * size - 1) <= least and most < 1 << 8 * size - 1)


def unpacked(found: PackedAppends) -> Appends:
    """The reverse of `packed`.

    Raises:
        ValueError: something else.
    """
    count, sizes = found.count, [size for _, size in found.columns]
    if not 0 <= count <= _MOST or len(sizes) != len(_TYPES) or not set(sizes) <= {0, 1, 2, 4, 8}:
        raise ValueError("not the columns of batches")
    behind = max(0, count - 1)
    length = behind * sum(sizes)
    data = bytes(compression.decompress(_CODEC, found.data, max(1, length))) if found.data else b""
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes for the columns of {count} batches, which have {length}")
    at, arrays = 0, dict[str, npt.NDArray[Any]]()
    for (name, kind), (first, size) in zip(_TYPES.items(), found.columns, strict=True):
        values = np.full(count, first, np.int64)
        if size:
            stop = at + size * behind
            numbers = np.frombuffer(data[at:stop], np.uint8).reshape(size, -1).T.copy()
            narrow = numbers.view(_SIGNED[size.bit_length() - 1]).reshape(-1)
            with np.errstate(over="ignore"):
                if name in _ASCENDING:
                    values[1:] = narrow
                    np.cumsum(values, out=values)
                else:
                    values[1:] += narrow
            at = stop
        if name == "last_offset":
            values += arrays["base_offset"]
        narrowed = values.astype(kind)
        if not np.array_equal(narrowed, values):
            raise ValueError(f"the {name} of a batch is out of range")
        arrays[name] = narrowed
    _check(arrays, found.problems)
    return Appends(**arrays, problems=found.problems)


def _check(arrays: dict[str, npt.NDArray[Any]], problems: tuple[str, ...]) -> None:
    """Codes and indexes are ones that there are."""
    for name, least, behind in (("control", DATA, len(CONTROLS)), ("problem", -1, len(problems))):
        values = arrays[name]
        if len(values) and not (least <= values.min() and values.max() < behind):
            raise ValueError(f"the {name} of a batch is out of range")
