"""Writers: values -> bytes. The words that generated encoders are written in.

Every writer takes a value and `out`, the `append` of the list of chunks that will be joined. Writers are fast and say
nothing about what is wrong: on a value they cannot write they raise one of `FAILURES`; the caller then asks the
interpreter, which knows how to explain. Values are typed `Any`: a field may be null in one version and not in another.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar
from uuid import UUID

from kafkawire.wire.values import BOOLS, MAX_STRING, MAX_TAGS, Buffer, is_octets

T = TypeVar("T")
Append = Callable[[Buffer], object]
Writer = Callable[[T, Append], None]

#: What a writer may raise on a value that the layout cannot carry.
FAILURES = (ValueError, TypeError, AttributeError, KeyError, OverflowError, struct.error)

NO_TAGS = b"\x00"
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
    if not 0 <= n < 0x80000000:
        raise ValueError
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


_UVARINTS = [_long_uvarint(n) for n in range(16384)]


def uvarint(n: int) -> bytes:
    """The unsigned varint of a number from 0 to 2^31 - 1."""
    return _UVARINTS[n] if 0 <= n < 16384 else _long_uvarint(n)


def _scalar(code: str) -> Writer[Any]:
    pack = packer(code)

    def write(value: Any, out: Append) -> None:
        out(pack(value))

    return write


def write_bool(value: Any, out: Append) -> None:
    out(PRESENT if BOOLS[value] else b"\x00")


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
    raw = value.encode("utf-8", "surrogateescape")
    n = len(raw)
    if n > MAX_STRING:
        raise ValueError
    out(uvarint(n + 1))
    out(raw)


def write_compact_nullable_string(value: Any, out: Append) -> None:
    if value is None:
        out(_COMPACT_NULL)
    else:
        write_compact_string(value, out)


def _check_bytes(value: Any) -> None:
    # Anything else that has a length would be joined or refused far from here.
    if value.__class__ is not bytes and not is_octets(value):
        raise TypeError


def write_bytes(value: Any, out: Append) -> None:
    _check_bytes(value)
    out(_int32(len(value)))
    out(value)


def write_nullable_bytes(value: Any, out: Append) -> None:
    if value is None:
        out(_NULL_4)
    else:
        write_bytes(value, out)


def write_compact_bytes(value: Any, out: Append) -> None:
    _check_bytes(value)
    out(uvarint(len(value) + 1))
    out(value)


def write_compact_nullable_bytes(value: Any, out: Append) -> None:
    if value is None:
        out(_COMPACT_NULL)
    else:
        write_compact_bytes(value, out)


# Arrays --------------------------------------------------------------------------------------------------------------


def _check_array(values: Any) -> None:
    # A str is a sequence of str, bytes one of ints, a set one in no order.
    if not isinstance(values, (tuple, list)):
        raise TypeError


def write_array(item: Writer[T], values: Any, out: Append) -> None:
    if values.__class__ is not tuple:
        _check_array(values)
    out(_int32(len(values)))
    for value in values:
        item(value, out)


def write_nullable_array(item: Writer[T], values: Any, out: Append) -> None:
    if values is None:
        out(_NULL_4)
    else:
        write_array(item, values, out)


def write_compact_array(item: Writer[T], values: Any, out: Append) -> None:
    if values.__class__ is not tuple:
        _check_array(values)
    out(uvarint(len(values) + 1))
    for value in values:
        item(value, out)


def write_compact_nullable_array(item: Writer[T], values: Any, out: Append) -> None:
    if values is None:
        out(_COMPACT_NULL)
    else:
        write_compact_array(item, values, out)


#: For each struct code, the packers of 0 to 64 numbers.
_FEW = {code: [struct.Struct(f">{n}{code}").pack for n in range(65)] for code in "?bhiqHId"}


def _numbers(code: str, n: int, values: Any) -> bytes:
    if values.__class__ is not tuple:
        _check_array(values)
    if code == "?":
        values = [BOOLS[value] for value in values]
    return _FEW[code][n](*values) if n <= 64 else struct.pack(f">{n}{code}", *values)


def write_numbers(code: str, values: Any, out: Append) -> None:
    """An array of fixed-size numbers, by their struct code."""
    n = len(values)
    out(_int32(n))
    out(_numbers(code, n, values))


def write_nullable_numbers(code: str, values: Any, out: Append) -> None:
    if values is None:
        out(_NULL_4)
    else:
        write_numbers(code, values, out)


def write_compact_numbers(code: str, values: Any, out: Append) -> None:
    n = len(values)
    out(uvarint(n + 1))
    out(_numbers(code, n, values))


def write_compact_nullable_numbers(code: str, values: Any, out: Append) -> None:
    if values is None:
        out(_COMPACT_NULL)
    else:
        write_compact_numbers(code, values, out)


# Structs -------------------------------------------------------------------------------------------------------------


def write_struct(item: Writer[T], value: Any, out: Append) -> None:
    """A struct that may be null in other versions."""
    item(value, out)


def write_nullable_struct(item: Writer[T], value: Any, out: Append) -> None:
    if value is None:
        out(NULL_STRUCT)
    else:
        out(PRESENT)
        item(value, out)


def write_tagged_nullable_struct(item: Writer[T], value: Any, out: Append) -> None:
    """A nullable struct as a tagged field has it: an unsigned varint, 0 for null."""
    if value is None:
        out(NULL_TAGGED_STRUCT)
    else:
        out(PRESENT)
        item(value, out)


#: The tagged fields of one layout in ascending order: (tag, attribute, default, writer).
WriteTags = tuple[tuple[int, str, Any, Writer[Any]], ...]


def write_tags(tags: WriteTags, known: Container[int], value: Any, out: Append) -> None:
    """The tagged fields in ascending order: those that are not at their default, then the unknown ones (the tags that a
    schema knows count from 0 without gaps).

    `known` are the tags that no unknown field may have: those of the version, and those that the schema has in others.
    """
    fields: list[tuple[int, Buffer]] = []
    for tag, attribute, default, write in tags:
        field = getattr(value, attribute)
        if field is not default and field != default:
            written = bytearray()
            write(field, written.extend)
            fields.append((tag, written))
    unknown = value.unknown_tagged_fields
    if unknown != ():
        _check_unknown(unknown, known)
        for field in unknown:
            _check_bytes(field.data)
        fields.extend((field.tag, field.data) for field in unknown)
    if len(fields) > MAX_TAGS:
        raise ValueError
    out(uvarint(len(fields)))
    for tag, data in fields:
        out(uvarint(tag))
        out(uvarint(len(data)))
        out(data)


def _check_unknown(unknown: Sequence[Any], known: Container[int]) -> None:
    """Unknown tags must ascend, be none that the schema knows, and stay below 2^31 - 1 (RawTaggedFieldWriter)."""
    _check_array(unknown)
    last = -1
    for field in unknown:
        if not last < field.tag < 0x7FFFFFFF or field.tag in known:
            raise ValueError(field.tag)
        last = field.tag
