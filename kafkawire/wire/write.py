"""Writers: values -> bytes. The functions that generated encoders call.

Every writer takes a value and `out`, the `append` of the list of chunks that will be joined. Writers are fast and
do not describe errors: on a value they cannot write they raise one of `FAILURES`; the caller then runs the
interpreter, which describes the error. Values are typed `Any`: a field may be null in one version and not in another.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from kafkawire.wire.limits import MAX_STRING
from kafkawire.wire.values import BOOLS, Buffer, is_octets

#: What codecs import of it (`kafkawire.runtime`).
__all__ = [
    "BOOL_BYTES",
    "Append",
    "write_bool",
    "write_float64",
    "write_int8",
    "write_int16",
    "write_int32",
    "write_int64",
    "write_nullable_struct",
    "write_one",
    "write_struct",
    "write_tagged_nullable_struct",
    "write_uint16",
    "write_uint32",
    "write_uuid",
]

T = TypeVar("T")
Append = Callable[[Buffer], object]
Writer = Callable[[T, Append], None]
#: Writes a struct in a version.
StructWriter = Callable[[T, Append, int], None]
#: Writes the elements of an array in a version, without their count.
Items = Callable[[tuple[T, ...], Append, int], None]

#: What a writer may raise on a value that the layout cannot carry.
FAILURES = (ValueError, TypeError, AttributeError, KeyError, OverflowError, struct.error)

PRESENT = b"\x01"
NULL_STRUCT = b"\xff"
NULL_TAGGED_STRUCT = b"\x00"
_COMPACT_NULL = b"\x00"
_NULL_2, _NULL_4 = b"\xff\xff", b"\xff\xff\xff\xff"

_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack


def packer(layout: str) -> Callable[..., bytes]:
    """A writer of a run of fixed-size fields: struct codes without byte order."""
    return struct.Struct(">" + layout).pack


def _long_uvarint(n: int) -> bytes:
    if n >= 0x80000000:
        raise ValueError
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


_UVARINTS = [bytes([n]) for n in range(128)]


def uvarint(n: int) -> bytes:
    """The unsigned varint of a number from 0 to 2^31 - 1."""
    if 0 <= n < 128:
        return _UVARINTS[n]
    if n < 16384:
        return bytes((n & 127 | 128, n >> 7))  # ValueError below 0: no byte is negative
    if n < 2097152:
        return bytes((n & 127 | 128, n >> 7 & 127 | 128, n >> 14))
    return _long_uvarint(n)


def _scalar(code: str) -> Writer[Any]:
    pack = packer(code)

    def write(value: Any, out: Append) -> None:
        out(pack(value))

    return write


#: The byte of a bool, and of what is equal to one.
BOOL_BYTES = {False: b"\x00", True: b"\x01"}


def write_bool(value: Any, out: Append) -> None:
    out(BOOL_BYTES[value])


write_int8 = _scalar("b")
write_int16 = _scalar("h")
write_int32 = _scalar("i")
write_int64 = _scalar("q")
write_uint16 = _scalar("H")
write_uint32 = _scalar("I")
write_float64 = _scalar("d")


def write_uuid(value: UUID, out: Append) -> None:
    out(value.bytes)


# Strings and bytes ---------------------------------------------------------------------------------------------------


def _text(value: str) -> bytes:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > MAX_STRING:
        raise ValueError
    return raw


def write_string(value: Any, out: Append) -> None:
    raw = _text(value)
    out(_int16(len(raw)))
    out(raw)


def write_nullable_string(value: Any, out: Append) -> None:
    if value is None:
        out(_NULL_2)
    else:
        write_string(value, out)


def write_compact_string(value: Any, out: Append) -> None:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raw = value.encode("utf-8", "surrogateescape")
    n = len(raw)
    if n < 127:
        out(_UVARINTS[n + 1])
    elif n <= MAX_STRING:
        out(uvarint(n + 1))
    else:
        raise ValueError
    out(raw)


def write_compact_nullable_string(value: Any, out: Append) -> None:
    if value is None:
        out(_COMPACT_NULL)
    else:
        write_compact_string(value, out)


def check_bytes(value: Any) -> None:
    # Anything else that has a length would be joined or refused far from here.
    if value.__class__ is not bytes and not is_octets(value):
        raise TypeError


def write_bytes(value: Any, out: Append) -> None:
    check_bytes(value)
    out(_int32(len(value)))
    out(value)


def write_nullable_bytes(value: Any, out: Append) -> None:
    if value is None:
        out(_NULL_4)
    else:
        write_bytes(value, out)


def write_compact_bytes(value: Any, out: Append) -> None:
    check_bytes(value)
    out(uvarint(len(value) + 1))
    out(value)


def write_compact_nullable_bytes(value: Any, out: Append) -> None:
    if value is None:
        out(_COMPACT_NULL)
    else:
        write_compact_bytes(value, out)


# Arrays --------------------------------------------------------------------------------------------------------------


def check_array(values: Any) -> None:
    # A str is a sequence of str, bytes one of ints, a set one in no order.
    if not isinstance(values, (tuple, list)):
        raise TypeError


def write_array(items: Items[T], values: Any, out: Append, version: int = 0) -> None:
    """An array.

    Args:
        items: writes the elements.
        values: the elements.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if values.__class__ is not tuple:
        check_array(values)
    out(_int32(len(values)))
    items(values, out, version)


def write_nullable_array(items: Items[T], values: Any, out: Append, version: int = 0) -> None:
    """An array, or null.

    Args:
        items: writes the elements.
        values: the elements.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if values is None:
        out(_NULL_4)
    else:
        write_array(items, values, out, version)


def write_compact_array(items: Items[T], values: Any, out: Append, version: int = 0) -> None:
    """An array with a compact length.

    Args:
        items: writes the elements.
        values: the elements.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if values.__class__ is not tuple:
        check_array(values)
    out(uvarint(len(values) + 1))
    items(values, out, version)


def write_compact_nullable_array(items: Items[T], values: Any, out: Append, version: int = 0) -> None:
    """An array with a compact length, or null.

    Args:
        items: writes the elements.
        values: the elements.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if values is None:
        out(_COMPACT_NULL)
    else:
        write_compact_array(items, values, out, version)


def _arrays(item: Writer[Any], compact_item: Writer[Any]) -> tuple[Writer[Any], ...]:
    """Writers of an array of what `item` writes: plain, nullable, compact, compact and nullable."""
    items, compact_items = each(item), each(compact_item)
    return (
        partial(write_array, items),
        partial(write_nullable_array, items),
        partial(write_compact_array, compact_items),
        partial(write_compact_nullable_array, compact_items),
    )


def each(item: Writer[T]) -> Items[T]:
    """Writes elements one by one."""

    def items(values: tuple[T, ...], out: Append, version: int) -> None:
        for value in values:
            item(value, out)

    return items


write_strings, write_nullable_strings, write_compact_strings, write_compact_nullable_strings = _arrays(
    write_string, write_compact_string
)
write_blobs, write_nullable_blobs, write_compact_blobs, write_compact_nullable_blobs = _arrays(
    write_bytes, write_compact_bytes
)
write_uuids, write_nullable_uuids, write_compact_uuids, write_compact_nullable_uuids = _arrays(write_uuid, write_uuid)


class _NumberWriters(dict[int, Callable[..., bytes]]):
    """Count -> the function that packs it, as `prefix`, and this many numbers of one code; small counts are kept."""

    def __init__(self, prefix: str, code: str) -> None:
        self.prefix, self.code = prefix, code

    def __missing__(self, n: int) -> Callable[..., bytes]:
        pack = packer(f"{self.prefix}{n}{self.code}")
        if n <= 64:
            self[n] = pack
        return pack


def _number_arrays(code: str) -> tuple[Writer[Any], Writer[Any], Writer[Any], Writer[Any]]:
    """Writers of an array of numbers of one struct code: plain, nullable, compact, compact and nullable."""
    numbers, compact_numbers = _NumberWriters("i", code), _NumberWriters("B", code)

    def plain(values: Any, out: Append) -> None:
        if values.__class__ is not tuple:
            check_array(values)
        if code == "?":
            values = [BOOLS[value] for value in values]
        n = len(values)
        out(numbers[n](n, *values))

    def nullable(values: Any, out: Append) -> None:
        if values is None:
            out(_NULL_4)
        else:
            plain(values, out)

    def compact(values: Any, out: Append) -> None:
        if values.__class__ is not tuple:
            check_array(values)
        if code == "?":
            values = [BOOLS[value] for value in values]
        n = len(values)
        if n < 127:
            out(compact_numbers[n](n + 1, *values))
        else:
            out(_long_uvarint(n + 1))
            out(struct.pack(f">{n}{code}", *values))

    def compact_nullable(values: Any, out: Append) -> None:
        if values is None:
            out(_COMPACT_NULL)
        else:
            compact(values, out)

    return plain, nullable, compact, compact_nullable


write_bools, write_nullable_bools, write_compact_bools, write_compact_nullable_bools = _number_arrays("?")
write_int8s, write_nullable_int8s, write_compact_int8s, write_compact_nullable_int8s = _number_arrays("b")
write_int16s, write_nullable_int16s, write_compact_int16s, write_compact_nullable_int16s = _number_arrays("h")
write_int32s, write_nullable_int32s, write_compact_int32s, write_compact_nullable_int32s = _number_arrays("i")
write_int64s, write_nullable_int64s, write_compact_int64s, write_compact_nullable_int64s = _number_arrays("q")
write_uint16s, write_nullable_uint16s, write_compact_uint16s, write_compact_nullable_uint16s = _number_arrays("H")
write_uint32s, write_nullable_uint32s, write_compact_uint32s, write_compact_nullable_uint32s = _number_arrays("I")
write_float64s, write_nullable_float64s, write_compact_float64s, write_compact_nullable_float64s = _number_arrays("d")


# Structs -------------------------------------------------------------------------------------------------------------


def write_one(items: Items[T]) -> StructWriter[T]:
    """The writer of a single struct that is otherwise written in arrays."""

    def item(value: T, out: Append, version: int) -> None:
        items((value,), out, version)

    return item


def write_struct(item: StructWriter[T], value: Any, out: Append, version: int) -> None:
    """A struct that may be null in other versions.

    Args:
        item: writes the struct.
        value: the struct.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    item(value, out, version)


def write_nullable_struct(item: StructWriter[T], value: Any, out: Append, version: int) -> None:
    """A struct that may be null: an int8, negative for null.

    Args:
        item: writes the struct.
        value: the struct.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if value is None:
        out(NULL_STRUCT)
    else:
        out(PRESENT)
        item(value, out, version)


def write_tagged_nullable_struct(item: StructWriter[T], value: Any, out: Append, version: int) -> None:
    """A nullable struct as a tagged field has it: an unsigned varint, 0 for null.

    Args:
        item: writes the struct.
        value: the struct.
        out, version: the `append` of the list of chunks, and the version of the message.
    """
    if value is None:
        out(NULL_TAGGED_STRUCT)
    else:
        out(PRESENT)
        item(value, out, version)
