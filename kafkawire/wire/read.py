"""Readers: bytes -> values. The functions that generated decoders call.

Every reader takes the buffer (`bytes`, or a `memoryview` of bytes) and a position, and returns the value and the
position after it; those of structs take the version, too. Readers are fast and do not describe
errors: on bytes they cannot read they raise one of `FAILURES`, or return a position after the buffer's end; the caller
then replays the bytes in the interpreter, which describes the error. What they accept is what Kafka's
`ByteBufferAccessor` and generated `read()` accept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from kafkawire.wire.limits import MAX_STRING
from kafkawire.wire.values import ZERO_UUID, Buffer

#: What codecs import of it (`kafkawire.runtime`).
__all__ = [
    "Elements",
    "make_uuid",
    "read_bool",
    "read_float64",
    "read_int8",
    "read_int16",
    "read_int32",
    "read_int64",
    "read_nullable_struct",
    "read_one",
    "read_struct",
    "read_tagged_nullable_struct",
    "read_uint16",
    "read_uint32",
    "read_uuid",
    "run",
]

T = TypeVar("T")
Reader = Callable[[Buffer, int], tuple[T, int]]
#: The elements of an array, and the position after them.
Elements = tuple[tuple[T, ...], int]
#: Reads structs of a version.
StructReader = Callable[[Buffer, int, int], tuple[T, int]]
#: Reads a given number of structs of a version in a row: buffer, position, number, version.
Items = Callable[[Buffer, int, int, int], Elements[T]]

#: What a reader may raise on malformed bytes.
FAILURES = (ValueError, IndexError, struct.error)

_int8 = struct.Struct(">b").unpack_from
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_int64 = struct.Struct(">q").unpack_from
_uint16 = struct.Struct(">H").unpack_from
_uint32 = struct.Struct(">I").unpack_from
_float64 = struct.Struct(">d").unpack_from
_from_bytes = int.from_bytes
_new = object.__new__
_set_int, _set_is_safe = (vars(UUID)[slot].__set__ for slot in ("int", "is_safe"))
_SAFE = ZERO_UUID.is_safe


# Fixed sizes ---------------------------------------------------------------------------------------------------------


def run(layout: str) -> tuple[Callable[[Buffer, int], tuple[Any, ...]], Callable[..., bytes]]:
    """The functions that read and write a run of fixed-size fields: `unpack(b, p)` and `pack(*values)` of struct
    codes."""
    codes = struct.Struct(">" + layout)
    return codes.unpack_from, codes.pack


def read_bool(b: Buffer, p: int) -> tuple[bool, int]:
    return b[p] != 0, p + 1


def read_int8(b: Buffer, p: int) -> tuple[int, int]:
    return _int8(b, p)[0], p + 1


def read_int16(b: Buffer, p: int) -> tuple[int, int]:
    return _int16(b, p)[0], p + 2


def read_int32(b: Buffer, p: int) -> tuple[int, int]:
    return _int32(b, p)[0], p + 4


def read_int64(b: Buffer, p: int) -> tuple[int, int]:
    return _int64(b, p)[0], p + 8


def read_uint16(b: Buffer, p: int) -> tuple[int, int]:
    return _uint16(b, p)[0], p + 2


def read_uint32(b: Buffer, p: int) -> tuple[int, int]:
    return _uint32(b, p)[0], p + 4


def read_float64(b: Buffer, p: int) -> tuple[float, int]:
    return _float64(b, p)[0], p + 8


def read_uuid(b: Buffer, p: int) -> tuple[UUID, int]:
    if len(b) - p < 16:
        raise IndexError
    return make_uuid(bytes(b[p : p + 16])), p + 16


def make_uuid(raw: bytes) -> UUID:
    """The uuid of 16 bytes; built without `UUID.__init__`, which checks what needs no check here."""
    number = _from_bytes(raw, "big")
    if not number:
        return ZERO_UUID
    value = _new(UUID)
    _set_int(value, number)
    _set_is_safe(value, _SAFE)
    return value


# Lengths -------------------------------------------------------------------------------------------------------------


def read_uvarint(b: Buffer, p: int) -> tuple[int, int]:
    """An unsigned varint as Kafka reads it: at most 5 bytes, and a Java int: bits above 32 are dropped and numbers from
    2^31 on are negative."""
    n = b[p]
    p += 1
    if n < 128:
        return n, p
    n &= 127
    for shift in (7, 14, 21, 28):
        byte = b[p]
        p += 1
        n |= (byte & 127) << shift
        if byte < 128:
            n &= 0xFFFFFFFF
            return (n if n < 0x80000000 else n - 0x100000000), p
    raise ValueError


def read_length(b: Buffer, p: int) -> tuple[int, int]:
    """The length of a compact field (an unsigned varint, one more than the length): negative means null."""
    n = b[p]
    if n < 128:
        return n - 1, p + 1
    second = b[p + 1]
    if second < 128:
        return n - 129 + (second << 7), p + 2
    third = b[p + 2]
    if third < 128:
        return n - 129 + (second - 128 << 7) + (third << 14), p + 3
    n, p = read_uvarint(b, p)
    # The smallest int minus 1 is the largest in Java.
    return (n - 1 if n != -0x80000000 else 0x7FFFFFFF), p


# Strings and bytes ---------------------------------------------------------------------------------------------------


def _text(b: Buffer, p: int, n: int) -> tuple[str, int]:
    if n > MAX_STRING:
        raise ValueError
    e = p + n
    return str(b[p:e], "utf-8", "surrogateescape"), e


def read_string(b: Buffer, p: int) -> tuple[str, int]:
    n = _int16(b, p)[0]
    if n < 0:
        raise ValueError
    e = p + 2 + n
    return str(b[p + 2 : e], "utf-8", "surrogateescape"), e


def read_nullable_string(b: Buffer, p: int) -> tuple[str | None, int]:
    n = _int16(b, p)[0]
    if n < 0:
        return None, p + 2
    e = p + 2 + n
    return str(b[p + 2 : e], "utf-8", "surrogateescape"), e


def read_compact_string(b: Buffer, p: int) -> tuple[str, int]:
    n = b[p]
    if 0 < n < 128:
        e = p + n
        return str(b[p + 1 : e], "utf-8", "surrogateescape"), e
    n, p = read_length(b, p)
    if n < 0:
        raise ValueError
    return _text(b, p, n)


def read_compact_nullable_string(b: Buffer, p: int) -> tuple[str | None, int]:
    n = b[p]
    if 0 < n < 128:
        e = p + n
        return str(b[p + 1 : e], "utf-8", "surrogateescape"), e
    n, p = read_length(b, p)
    return (None, p) if n < 0 else _text(b, p, n)


def read_bytes(b: Buffer, p: int) -> tuple[Any, int]:
    n = _int32(b, p)[0]
    if n < 0:
        raise ValueError
    e = p + 4 + n
    return b[p + 4 : e], e


def read_nullable_bytes(b: Buffer, p: int) -> tuple[Any, int]:
    n = _int32(b, p)[0]
    if n < 0:
        return None, p + 4
    e = p + 4 + n
    return b[p + 4 : e], e


def read_compact_bytes(b: Buffer, p: int) -> tuple[Any, int]:
    n, p = read_length(b, p)
    if n < 0:
        raise ValueError
    e = p + n
    return b[p:e], e


def read_compact_nullable_bytes(b: Buffer, p: int) -> tuple[Any, int]:
    n, p = read_length(b, p)
    if n < 0:
        return None, p
    e = p + n
    return b[p:e], e


# Arrays --------------------------------------------------------------------------------------------------------------
# More elements than there are bytes left are refused before anything is read.


def read_array(items: Items[T], b: Buffer, p: int, version: int = 0) -> Elements[T]:
    """An array.

    Args:
        items: reads the elements.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    n = _int32(b, p)[0]
    p += 4
    if not 0 <= n <= len(b) - p:
        raise ValueError
    return items(b, p, n, version)


def read_nullable_array(items: Items[T], b: Buffer, p: int, version: int = 0) -> tuple[tuple[T, ...] | None, int]:
    """An array, or null.

    Args:
        items: reads the elements.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    return (None, p + 4) if _int32(b, p)[0] < 0 else read_array(items, b, p, version)


def read_compact_array(items: Items[T], b: Buffer, p: int, version: int = 0) -> Elements[T]:
    """An array with a compact length.

    Args:
        items: reads the elements.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    n = b[p]
    if 0 < n < 128:
        n -= 1
        p += 1
    else:
        n, p = read_length(b, p)
    if not 0 <= n <= len(b) - p:
        raise ValueError
    return items(b, p, n, version)


def read_compact_nullable_array(
    items: Items[T], b: Buffer, p: int, version: int = 0
) -> tuple[tuple[T, ...] | None, int]:
    """An array with a compact length, or null.

    Args:
        items: reads the elements.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    n = b[p]
    if n < 128:
        n -= 1
        p += 1
    else:
        n, p = read_length(b, p)
    if n < 0:
        return None, p
    if n > len(b) - p:
        raise ValueError
    return items(b, p, n, version)


def _arrays(item: Reader[T], compact_item: Reader[T]) -> tuple[Reader[Any], ...]:
    """Readers of an array of what `item` reads: plain, nullable, compact, compact and nullable."""
    items, compact_items = each(item), each(compact_item)
    return (
        partial(read_array, items),
        partial(read_nullable_array, items),
        partial(read_compact_array, compact_items),
        partial(read_compact_nullable_array, compact_items),
    )


def each(item: Reader[T]) -> Items[T]:
    """Reads elements one by one."""

    def items(b: Buffer, p: int, n: int, version: int) -> Elements[T]:
        values = []
        for _ in range(n):
            value, p = item(b, p)
            values.append(value)
        return tuple(values), p

    return items


read_strings, read_nullable_strings, read_compact_strings, read_compact_nullable_strings = _arrays(
    read_string, read_compact_string
)
read_blobs, read_nullable_blobs, read_compact_blobs, read_compact_nullable_blobs = _arrays(
    read_bytes, read_compact_bytes
)
read_uuids, read_nullable_uuids, read_compact_uuids, read_compact_nullable_uuids = _arrays(read_uuid, read_uuid)


class _NumberReaders(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """Count -> the function that unpacks this many numbers of one struct code; small counts are kept."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, n: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        unpack = struct.Struct(f">{n}{self.code}").unpack_from
        if n <= 64:
            self[n] = unpack
        return unpack


def _number_arrays(code: str) -> tuple[Reader[Any], Reader[Any], Reader[Any], Reader[Any]]:
    """Readers of an array of numbers of one struct code: plain, nullable, compact, compact and nullable."""
    size = struct.calcsize(">" + code)
    numbers = _NumberReaders(code)

    def read(b: Buffer, p: int, n: int) -> tuple[tuple[Any, ...], int]:
        e = p + n * size
        if e > len(b):
            raise ValueError
        return numbers[n](b, p), e

    def plain(b: Buffer, p: int) -> tuple[Any, int]:
        n = _int32(b, p)[0]
        if n < 0:
            raise ValueError
        return read(b, p + 4, n)

    def nullable(b: Buffer, p: int) -> tuple[Any, int]:
        n = _int32(b, p)[0]
        return (None, p + 4) if n < 0 else read(b, p + 4, n)

    def compact(b: Buffer, p: int) -> tuple[Any, int]:
        n = b[p]
        if 0 < n <= 64:
            n -= 1
            p += 1
            return numbers[n](b, p), p + n * size
        n, p = read_length(b, p)
        if n < 0:
            raise ValueError
        return read(b, p, n)

    def compact_nullable(b: Buffer, p: int) -> tuple[Any, int]:
        if 0 < b[p] <= 64:
            return compact(b, p)
        n, p = read_length(b, p)
        return (None, p) if n < 0 else read(b, p, n)

    return plain, nullable, compact, compact_nullable


read_bools, read_nullable_bools, read_compact_bools, read_compact_nullable_bools = _number_arrays("?")
read_int8s, read_nullable_int8s, read_compact_int8s, read_compact_nullable_int8s = _number_arrays("b")
read_int16s, read_nullable_int16s, read_compact_int16s, read_compact_nullable_int16s = _number_arrays("h")
read_int32s, read_nullable_int32s, read_compact_int32s, read_compact_nullable_int32s = _number_arrays("i")
read_int64s, read_nullable_int64s, read_compact_int64s, read_compact_nullable_int64s = _number_arrays("q")
read_uint16s, read_nullable_uint16s, read_compact_uint16s, read_compact_nullable_uint16s = _number_arrays("H")
read_uint32s, read_nullable_uint32s, read_compact_uint32s, read_compact_nullable_uint32s = _number_arrays("I")
read_float64s, read_nullable_float64s, read_compact_float64s, read_compact_nullable_float64s = _number_arrays("d")


# Structs -------------------------------------------------------------------------------------------------------------


def read_one(items: Items[T]) -> StructReader[T]:
    """The reader of a single struct that is otherwise read in arrays."""

    def item(b: Buffer, p: int, version: int) -> tuple[T, int]:
        values, p = items(b, p, 1, version)
        return values[0], p

    return item


def read_struct(item: StructReader[T], b: Buffer, p: int, version: int) -> tuple[T, int]:
    """A struct that may be null in other versions.

    Args:
        item: reads the struct.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    return item(b, p, version)


def read_nullable_struct(item: StructReader[T], b: Buffer, p: int, version: int) -> tuple[T | None, int]:
    """A struct that may be null: an int8, negative for null.

    Args:
        item: reads the struct.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    return (None, p + 1) if b[p] > 127 else item(b, p + 1, version)


def read_tagged_nullable_struct(item: StructReader[T], b: Buffer, p: int, version: int) -> tuple[T | None, int]:
    """A nullable struct as a tagged field has it: an unsigned varint, 0 for null.

    Args:
        item: reads the struct.
        b, p, version: the buffer, the position in it, and the version of the message.
    """
    n, p = read_uvarint(b, p)
    return (None, p) if n <= 0 else item(b, p, version)
