"""The decoding of values one by one through `decode`: its messages as rows, its errors, and text that is no UTF-8.

Without the native engine all values are decoded here. Otherwise only those that the engine refuses: it accepts nothing
that `decode` refuses, and leaves rare cases to this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.wire.columns.inputs import ValueBytes, ValueVersions
from kafkawire.wire.columns.schema import ARROW, UNKNOWN_TAGS, ArrowStyle, FieldShape, Shape
from kafkawire.wire.layout import BYTES, RECORDS, STRING
from kafkawire.wire.layout import UUID as UUID_KIND

if TYPE_CHECKING:
    from kafkawire.wire.message import Message, Struct

#: Limit of texts of one value that are reported as no UTF-8.
MOST_TOLD = 10

Row = dict[str, Any]


def decode_one(message: type[Message], values: ValueBytes, versions: ValueVersions, row: int) -> Message:
    """One value, decoded.

    Args:
        message: its class.
        values, versions: all values, and their versions.
        row: number of the value.

    Raises:
        DecodeError: its bytes are malformed.
        UnsupportedVersionError: its own version is none of the message's.
    """
    data = bytes(values.octets(row))
    if versions.skip:
        return message.decode_prefixed(data)[0]
    version = versions.of(row)
    if version is None:
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)
    return message.decode(data, version)


def decode_each(
    message: type[Message], values: ValueBytes, versions: ValueVersions, rows: list[int]
) -> tuple[dict[int, Message], dict[int, DecodeError | UnsupportedVersionError]]:
    """Messages and errors by row.

    Args:
        message, values, versions: see `decode_one`.
        rows: numbers of values.
    """
    messages: dict[int, Message] = {}
    errors: dict[int, DecodeError | UnsupportedVersionError] = {}
    for row in rows:
        try:
            messages[row] = decode_one(message, values, versions, row)
        except (DecodeError, UnsupportedVersionError) as error:
            errors[row] = error.with_traceback(None)
    return messages, errors


# Messages to rows ----------------------------------------------------------------------------------------------------


def row_maker(shape: Shape, style: ArrowStyle = ARROW) -> Callable[[Any], Row]:
    """A function from structs to rows that pyarrow makes columns of; what is no UTF-8 becomes U+FFFD."""
    makers = [(part.field.attribute, _maker(part, style)) for part in shape.fields]

    def make(value: Struct) -> Row:
        row = {name: convert(getattr(value, name)) for name, convert in makers}
        if shape.unknown_tags:
            row[UNKNOWN_TAGS] = [{"tag": field.tag, "data": field.data} for field in value.unknown_tagged_fields]
        return row

    return make


def _maker(part: FieldShape, style: ArrowStyle) -> Callable[[Any], Any]:
    one = _one_maker(part, style)
    if part.field.is_array:
        return lambda values: None if values is None else [one(value) for value in values]
    return lambda value: None if value is None else one(value)


def _one_maker(part: FieldShape, style: ArrowStyle) -> Callable[[Any], Any]:
    if part.struct is not None:
        return row_maker(part.struct, style)
    kind = part.field.kind
    if kind == STRING:
        return clean
    if kind == UUID_KIND:
        return str if style.text_uuids else _uuid_bytes
    if kind in (BYTES, RECORDS):
        return bytes
    return lambda value: value


def _uuid_bytes(value: UUID) -> bytes:
    return value.bytes


def clean(text: str) -> str:
    """Text as Arrow can hold it: with U+FFFD for bytes that are no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# Text that is no UTF-8 -----------------------------------------------------------------------------------------------


def utf8_problem(value: Struct, shape: Shape) -> str | None:
    """The error text for the texts of a value that are no UTF-8; None where all are."""
    found = [f"{path} is no UTF-8: {raw[:100]!r}" for path, raw in _broken(value, shape, "")]
    if len(found) > MOST_TOLD:
        found[MOST_TOLD:] = [f"and {len(found) - MOST_TOLD} more"]
    return "; ".join(found) or None


@lru_cache(maxsize=4096)
def _with_text(shape: Shape) -> tuple[FieldShape, ...]:
    """The fields of a struct that are strings or structs."""
    return tuple(part for part in shape.fields if part.struct is not None or part.field.kind == STRING)


def _broken(value: Struct, shape: Shape, place: str) -> Iterator[tuple[str, bytes]]:
    for part in _with_text(shape):
        held = getattr(value, part.field.attribute)
        if held is None:
            continue
        path = place + part.field.attribute
        items = enumerate(held) if part.field.is_array else [(None, held)]
        for number, item in items:
            where = path if number is None else f"{path}[{number}]"
            if part.struct is not None:
                yield from _broken(item, part.struct, where + ".")
            elif clean(item) != item:
                yield where, item.encode("utf-8", "surrogateescape")
