"""Columns of bytes to columns of messages, and back: what workers do for the column functions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from kafkawire.errors import EncodeError, KafkaWireError, UnsupportedVersionError
from kafkawire.spark.function_options import FAILFAST, PREFIX, FunctionOptions, message_named
from kafkawire.spark.schema import ERROR
from kafkawire.wire import columns
from kafkawire.wire.columns.schema import SPARK
from kafkawire.wire.layout import KIND_NAMES, STRUCT

if TYPE_CHECKING:
    from kafkawire.wire.message import Message
    from kafkawire.wire.spec import Field


def decoded(
    name: str, options: FunctionOptions, data: pa.Array, version: int | str | pa.Array, fields: list[str] | None = None
) -> pa.StructArray:
    """Messages as structs, of all fields or of some; with `options.errors`, the last one is the error text.

    Args:
        name: of the message. `data`: binary, an element a message.
        version: of all, or an array with that of each; or "prefix".
        fields: names of those that are wanted; None: all.

    Raises:
        KafkaWireError: malformed data, in mode FAILFAST.
    """
    message = message_named(name, options.schemas)
    chosen = None if fields is None else [field for field in fields if field != ERROR]
    asked = columns.shape(message, chosen, unknown_tags=False)
    found = columns.decode_structs(message, data, version, asked=asked, style=SPARK)
    if found.errors and options.mode == FAILFAST:
        raise found.errors[min(found.errors)]
    if not options.errors:
        return found.array
    # A row with an error is not null: its last field is the error text.
    values = [*found.array.flatten(), found.problems()]
    types = [*found.array.type, pa.field(ERROR, pa.string())]
    return pa.StructArray.from_arrays(values, fields=types, mask=data.is_null() if data.null_count else None)


def encoded(name: str, options: FunctionOptions, struct: pa.Array, version: int | str | pa.Array) -> pa.Array:
    """Structs as messages, null where the struct is null.

    Args:
        name, version: as of `decoded`. `struct`: an element a message.

    Raises:
        KafkaWireError: a struct that is none of the message's version, in mode FAILFAST.
    """
    message = message_named(name, options.schemas)
    versions = repeat(version) if isinstance(version, (int, str)) else version.to_pylist()
    return pa.array(encoded_values(message, messages_of(message, struct), versions, options), pa.binary())


def encoded_values(
    message: type[Message],
    values: Iterable[Message | None],
    versions: Iterable[int | str | None],
    options: FunctionOptions,
) -> list[bytes | None]:
    """Messages as bytes, each in its version.

    Raises:
        KafkaWireError: as of `encoded`.
    """
    made: list[bytes | None] = []
    for value, number in zip(values, versions, strict=False):
        try:
            made.append(None if value is None else _encode(message, value, number))
        except KafkaWireError:
            if options.mode == FAILFAST:
                raise
            made.append(None)
    return made


def _encode(message: type[Message], value: Message, version: int | str | None) -> bytes:
    if version == PREFIX:
        spec = message.spec
        return value.encode_prefixed(spec.valid_versions[-2 if spec.latest_version_unstable else -1])
    if not isinstance(version, int):
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)
    return value.encode(version)


# Rows to messages ----------------------------------------------------------------------------------------------------


def messages_of(cls: Any, rows: pa.StructArray, path: str = "") -> list[Any]:
    """Messages of `cls` from rows, field by field for all rows; None for null. Fields are found by attribute or
    schema name; those that the rows do not have get their default. Text that is no uuid is left to the encoder.

    Raises:
        EncodeError: the rows have a field that the message has not, or one of another shape.
    """
    spec, default = cls.spec, cls()
    given: dict[str, list[Any]] = {}
    for number, member in enumerate(rows.type):
        if member.name == ERROR:
            continue
        try:
            field = spec.field(member.name)
        except KeyError:
            raise EncodeError(f"{spec.name} has no such field", path=path + member.name) from None
        given[field.attribute] = _values(field, rows.field(number), f"{path}{member.name}")
    attributes = [field.attribute for field in spec.fields]
    columns = [given.get(name) or repeat(getattr(default, name), len(rows)) for name in attributes]
    # A few messages have no field.
    return _masked(list(map(cls, *columns)) if columns else [default] * len(rows), rows)


def _values(field: Field, column: pa.Array, path: str) -> list[Any]:
    if not field.is_array:
        return _elements(field, column, path)
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        raise EncodeError(f"needs an array, not {column.type}", path=path)
    ends = column.offsets.to_pylist() if len(column) else [0]
    elements = _elements(field, column.values.slice(ends[0], ends[-1] - ends[0]), path + "[]")
    lists = [tuple(elements[start - ends[0] : end - ends[0]]) for start, end in pairwise(ends)]
    return _masked(lists, column)


def _elements(field: Field, column: pa.Array, path: str) -> list[Any]:
    if field.kind == STRUCT:
        if not pa.types.is_struct(column.type):
            raise EncodeError(f"needs a struct, not {column.type}", path=path)
        return messages_of(field.struct, column, path + ".")
    if KIND_NAMES[field.kind] == "uuid":
        return [uuid_of(value) for value in column.to_pylist()]
    if not column.null_count and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        numbers: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return numbers
    values: list[Any] = column.to_pylist()
    return values


def _masked(values: list[Any], column: pa.Array) -> list[Any]:
    """The values, with None where the column is null."""
    if not column.null_count:
        return values
    return [value if there else None for value, there in zip(values, column.is_valid().to_pylist(), strict=True)]


def uuid_of(value: Any) -> Any:
    """Text as a uuid; what is none is left to the encoder."""
    try:
        return value if value is None else UUID(value)
    except ValueError:
        return value
