"""The input of column decoding -> one buffer, the beginning and end of each value in it, and the version of each
value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkawire.errors import UnsupportedVersionError
from kafkawire.wire.spec import MessageSpec
from kafkawire.wire.values import may_change

if TYPE_CHECKING:
    import pyarrow as pa

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]

#: The version of each value is the int16 in front of it, as in coordinator keys and values.
PREFIX = "prefix"

#: The start of a value that is null, or that no layout can read.
MISSING = -1

#: Bytes of values that are decoded at once: Arrow's lists and strings count in int32.
MOST_BYTES = (1 << 31) - 16


_BUFFERS = (bytes, bytearray, memoryview)


class ValueBytes(NamedTuple):
    """Bytes of values: `data[starts[i]:ends[i]]`; `starts[i]` is MISSING where a value is null."""

    data: Bytes
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def octets(self, row: int) -> memoryview:
        return self.data[self.starts[row] : self.ends[row]].data


class ValueVersions(NamedTuple):
    """The version of each value: one for all, or one a value (`each`); `skip` bytes of prefix precede it.

    `valid`: which values have a version that the message has (None: all). `given`: which have any.
    """

    each: Ints | int
    skip: int = 0
    valid: NDArray[np.bool_] | None = None
    given: NDArray[np.bool_] | None = None

    def of(self, row: int) -> int | None:
        """The version that was given for a value."""
        if isinstance(self.each, int):
            return self.each
        return int(self.each[row]) if self.given is None or self.given[row] else None


def read_values(given: Any, offsets: Any = None) -> ValueBytes:
    """The values in a list of buffers (or None), an Arrow binary array, or one buffer with offsets.

    Raises:
        ValueError: offsets that do not ascend, or lie outside the buffer; more bytes than can be decoded at once.
        TypeError: something else was given.
    """
    if offsets is not None:
        values = _with_offsets(given, offsets)
    elif hasattr(given, "__arrow_array__") or hasattr(given, "__arrow_c_array__") or hasattr(given, "combine_chunks"):
        values = _from_arrow(given)
    elif isinstance(given, (bytes, bytearray, memoryview, str)) or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise TypeError(f"expected a list of buffers, an Arrow binary array, or a buffer with offsets, got {kind}")
    else:
        values = _from_list(list(given))
    present = values.starts != MISSING
    total = int((values.ends - values.starts)[present].sum())
    if total > MOST_BYTES:
        raise ValueError(f"{total} bytes of values are more than can be decoded at once ({MOST_BYTES}): give fewer")
    if len(values.data) > MOST_BYTES and len(values):
        # Positions count from the first value that is there.
        first = int(values.starts[present].min(initial=len(values.data)))
        last = int(values.ends[present].max(initial=first))
        starts = np.where(present, values.starts - first, MISSING)
        values = ValueBytes(values.data[first:last], starts, np.where(present, values.ends - first, MISSING))
    return values


def _from_list(buffers: list[Any]) -> ValueBytes:
    present = buffers
    if None in buffers:
        present = [b"" if buffer is None else buffer for buffer in buffers]
    try:
        joined = b"".join(present)
        sizes = np.fromiter(map(len, present), np.int64, len(present))
    except (TypeError, BufferError):
        wrong = next((i for i, buffer in enumerate(present) if not isinstance(buffer, _BUFFERS)), None)
        if wrong is None:
            return _from_list(_copied(buffers))
        raise TypeError(f"value {wrong}: expected bytes or None, got {type(present[wrong]).__name__}") from None
    ends = np.cumsum(sizes)
    if len(joined) != (ends[-1] if len(ends) else 0):
        return _from_list(_copied(buffers))
    starts = ends - sizes
    if present is not buffers:
        there = np.fromiter((buffer is not None for buffer in buffers), np.bool_, len(buffers))
        starts = np.where(there, starts, MISSING)
    return ValueBytes(np.frombuffer(joined, np.uint8), starts, ends)


def _copied(buffers: list[Any]) -> list[bytes | None]:
    """Memoryviews of wider items, or of items that are not in a row, as their bytes."""
    return [None if buffer is None else bytes(buffer) for buffer in buffers]


def _with_offsets(buffer: Any, offsets: Any) -> ValueBytes:
    try:
        data = np.frombuffer(buffer, np.uint8)
    except BufferError:  # a view of items that are not in a row
        data = np.frombuffer(bytes(buffer), np.uint8)
    if may_change(memoryview(buffer)):
        data = data.copy()
    places = np.asarray(offsets)
    if places.ndim != 1 or not len(places) or places.dtype.kind not in "iu":
        raise ValueError("offsets are a sequence of integers, one more than there are values")
    if places[0] < 0 or places.max() > len(data):
        outside = int(places[0] if places[0] < 0 else places.max())
        raise ValueError(f"offset {outside} lies outside the {len(data)} bytes given")
    places = places.astype(np.int64)
    steps = np.diff(places)
    if (steps < 0).any():
        at = int(np.argmax(steps < 0))
        raise ValueError(f"offsets must ascend: offset {at + 1} is {places[at + 1]}, after {places[at]}")
    return ValueBytes(data, places[:-1], places[1:])


def _from_arrow(given: Any) -> ValueBytes:
    import pyarrow as pa

    array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if not isinstance(array, pa.Array):
        array = pa.array(array)
    types = pa.types
    if types.is_null(array.type):
        array = array.cast(pa.binary())
    if types.is_fixed_size_binary(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    if not types.is_binary(array.type) and not types.is_large_binary(array.type):
        raise TypeError(f"expected an Arrow array of binary, got {array.type}")
    if not len(array):
        none = np.zeros(0, np.int64)
        return ValueBytes(np.zeros(0, np.uint8), none, none)
    kind = np.int64 if types.is_large_binary(array.type) else np.int32
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    # An array from elsewhere may not have been validated.
    if places[0] < 0 or (np.diff(places) < 0).any() or places[-1] > len(octets):
        raise ValueError("the Arrow array is not valid: its offsets do not ascend, or lie outside its data")
    starts, ends = places[:-1], places[1:]
    if array.null_count:
        starts = np.where(valid_rows(array), starts, MISSING)
    return ValueBytes(octets, starts, ends)


def valid_rows(array: pa.Array) -> NDArray[np.bool_]:
    """Which values of an array are not null."""
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


# Versions ------------------------------------------------------------------------------------------------------------


def read_versions(spec: MessageSpec, values: ValueBytes, version: Any) -> ValueVersions:
    """The version of each value.

    Args:
        spec: of the message.
        values: the values.
        version: see `columns.decode`.

    Raises:
        UnsupportedVersionError: the one version of all is none of the message's.
        ValueError: not as many versions as values.
        TypeError: no versions were given.
    """
    valid = spec.valid_versions
    if isinstance(version, str):
        if version != PREFIX:
            raise ValueError(f'version is a number, one for each value, or "{PREFIX}", not {version!r}')
        return _prefixes(spec, values)
    if isinstance(version, (int, np.integer)) and not isinstance(version, bool):
        if version not in valid:
            raise UnsupportedVersionError(spec.name, version, valid)
        return ValueVersions(int(version))
    each, given = _numbers(version)
    if len(each) != len(values):
        raise ValueError(f"{len(each)} versions for {len(values)} values")
    return ValueVersions(each, 0, given & (each >= valid.start) & (each < valid.stop), given)


def _numbers(versions: Any) -> tuple[Ints, NDArray[np.bool_]]:
    """Versions, and which of them are there."""
    if hasattr(versions, "is_valid"):
        there = valid_rows(versions)
        numbers = versions.fill_null(0).to_numpy(zero_copy_only=False)
    elif isinstance(versions, np.ndarray):
        numbers, there = versions, np.ones(len(versions), np.bool_)
    elif isinstance(versions, Iterable):
        listed = list(versions)
        there = np.fromiter((number is not None for number in listed), np.bool_, len(listed))
        numbers = np.array([0 if number is None else number for number in listed] or np.zeros(0, np.int64))
    else:
        raise TypeError(f"expected a version, or one for each value, got {type(versions).__name__}")
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise TypeError("versions are integers")
    return numbers.astype(np.int64), there


def _prefixes(spec: MessageSpec, values: ValueBytes) -> ValueVersions:
    """Versions as `Message.decode_prefixed` reads them."""
    long = (values.starts != MISSING) & (values.ends - values.starts >= 2)
    at = values.starts if long.all() else np.where(long, values.starts, 0)
    octets = values.data if len(values.data) >= 2 else np.zeros(2, np.uint8)
    prefixes = octets.view(np.int8)[at].astype(np.int64) << 8 | octets[at + 1]
    valid = spec.valid_versions
    if spec.kind == "coordinator-key":
        known = prefixes == spec.api_key
        return ValueVersions(np.full(len(values), valid[-1]), 2, long & known)
    return ValueVersions(prefixes, 2, long & (prefixes >= valid.start) & (prefixes < valid.stop))
