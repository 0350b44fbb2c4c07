"""The second pass in NumPy: from positions to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns.inputs import MOST_BYTES, Bytes, Ints
from kafkawire.wire.layout import BOOL, FIXED_SIZES, FLOAT64, UINT16, UINT32, UUID

#: Positions of what is not there: it has its column's default; and of null.
ABSENT, NULL = -1, -2

#: Arrow's types of numbers: unsigned ones take the next wider type, a bool a byte (1 for true).
_WIDER = {UINT16: "i4", UINT32: "i8"}

#: NumPy's letters of the kinds that are no signed integers.
_LETTERS = {FLOAT64: "f", UINT16: "u", UINT32: "u", BOOL: "u", UUID: "V"}


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """`starts[0]`, `starts[0] + 1`, ... `sizes[0]` of them, then those from `starts[1]` on."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    shifts: Ints = np.repeat(starts - (ends - sizes), sizes)
    return shifts + np.arange(total)


def offsets_of(sizes: Ints) -> NDArray[np.int32]:
    """Arrow's offsets of lists of these sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > MOST_BYTES:
        raise ValueError(
            f"one column would hold {offsets[-1]} items or bytes, more than Arrow counts: give fewer values"
        )
    return offsets.astype(np.int32)


def validity_of(nulls: NDArray[np.bool_]) -> Bytes | None:
    """Arrow's bits of what is not null."""
    return np.packbits(~nulls, bitorder="little") if nulls.any() else None


def _wire_type(kind: int) -> np.dtype[Any]:
    return np.dtype(f">{_LETTERS.get(kind, 'i')}{FIXED_SIZES[kind]}")


def _converted(read: NDArray[Any], kind: int) -> NDArray[Any]:
    """Numbers as they stand on the wire -> in Arrow's type, in the machine's byte order."""
    if kind == BOOL:
        truth: NDArray[np.uint8] = (read != 0).view(np.uint8)
        return truth
    if kind == UUID:
        return read
    own: np.dtype[Any] = np.dtype(_WIDER.get(kind) or _LETTERS.get(kind, "i") + str(FIXED_SIZES[kind]))
    return read.astype(own)


class Runs:
    """Runs of fixed-size fields, cut out of the data."""

    def __init__(self, data: Bytes, at: Ints, size: int) -> None:
        self.absent = at < 0
        self.any_absent = bool(self.absent.any())
        if self.any_absent:
            at = np.where(self.absent, 0, at)
        if self.any_absent and len(data) < size:  # then all are absent
            self.cut = np.zeros((len(at), size), np.uint8)
        else:
            self.cut = _windows(data, size)[at] if len(at) else np.zeros((0, size), np.uint8)

    def numbers(self, offset: int, kind: int, default: Any) -> NDArray[Any]:
        size = FIXED_SIZES[kind]
        read = np.ascontiguousarray(self.cut[:, offset : offset + size]).view(_wire_type(kind))[:, 0]
        numbers = _converted(read, kind)
        if self.any_absent:
            numbers[self.absent] = np.frombuffer(default, "V16")[0] if kind == UUID else default
        return numbers


def _windows(data: Bytes, size: int) -> NDArray[np.uint8]:
    """All slices of that size, as a view."""
    return np.lib.stride_tricks.sliding_window_view(data, size)


def slices(data: Bytes, at: Ints, sizes: Ints) -> Bytes:
    """Slices of the data, one behind the other."""
    found: Bytes = data[ranges(at, sizes)]
    return found


def arrays(data: Bytes, at: Ints, sizes: Ints, kind: int) -> NDArray[Any]:
    """The values of arrays of fixed-size values, one array behind the other."""
    return _converted(slices(data, at, sizes * FIXED_SIZES[kind]).view(_wire_type(kind)), kind)


def blobs(data: Bytes, at: Ints, sizes: Ints, default: bytes) -> tuple[NDArray[np.int32], Bytes]:
    """Offsets and bytes of strings; those that are absent have the default."""
    if default and (at == ABSENT).any():
        data = np.concatenate((data, np.frombuffer(default, np.uint8)))
        absent = at == ABSENT
        at = np.where(absent, len(data) - len(default), at)
        sizes = np.where(absent, len(default), sizes)
    offsets = offsets_of(sizes)
    return offsets, slices(data, at, sizes)


def clean_texts(offsets: NDArray[np.int32], octets: Bytes) -> tuple[NDArray[np.int32], Bytes, Ints]:
    """Strings with U+FFFD for what is no UTF-8, and the numbers of those that have it."""
    import pyarrow as pa

    none = np.zeros(0, np.int64)
    if not (octets & 128).any():
        return offsets, octets, none
    count = len(offsets) - 1
    array = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return offsets, octets, none
    high = np.concatenate((np.zeros(1, np.int64), np.cumsum(octets >> 7, dtype=np.int64)))
    suspects = np.flatnonzero(high[offsets[1:]] > high[offsets[:-1]])
    whole = octets.tobytes()
    impure, pieces, done = [], [], 0
    sizes = np.diff(offsets).astype(np.int64)
    for number in suspects.tolist():
        raw = whole[offsets[number] : offsets[number + 1]]
        try:
            raw.decode()
        except UnicodeDecodeError:
            replaced = raw.decode("utf-8", "replace").encode()
            pieces += [whole[done : offsets[number]], replaced]
            done = int(offsets[number + 1])
            sizes[number] = len(replaced)
            impure.append(number)
    pieces.append(whole[done:])
    return offsets_of(sizes), np.frombuffer(b"".join(pieces), np.uint8), np.array(impure, np.int64)
