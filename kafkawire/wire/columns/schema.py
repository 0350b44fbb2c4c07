"""A message's `spec` -> one Arrow schema for all its versions. No other module chooses Arrow types.

A `Shape` is the selection of fields; types, plans and constants are all made from it. Columns have the names of the
Python attributes. Integers keep their width, unsigned ones take the next wider type (Spark has none); uuids are 16
bytes, `bytes` and `records` binary, strings UTF-8. A field is nullable where it is in any version.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.wire.layout import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
)
from kafkawire.wire.spec import Field, MessageSpec, StructSpec

if TYPE_CHECKING:
    import pyarrow as pa

#: Column of the tagged fields that a struct's schema does not know: list<struct<tag: int32, data: binary>>.
UNKNOWN_TAGS = "unknown_tagged_fields"

#: Name of a list's elements, which Spark and Parquet give them.
ELEMENT = "element"


class ArrowStyle(NamedTuple):
    """The differences between users of Arrow data: Spark has uuids as text only, and no column that is never null."""

    text_uuids: bool = False
    all_nullable: bool = False


ARROW = ArrowStyle()
SPARK = ArrowStyle(text_uuids=True, all_nullable=True)


class FieldShape(NamedTuple):
    """A selected field: its slot in the class, and the shape of its structs."""

    slot: int
    field: Field
    struct: Shape | None

    @property
    def nullable(self) -> bool:
        return bool(self.field.nullable_versions) or self.field.default is None


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """The selected fields of a struct, in the schema's order, and whether its unknown tags are selected.

    It is equal only to itself, which makes it a cheap key of caches.
    """

    fields: tuple[FieldShape, ...]
    unknown_tags: bool


def shape_of(spec: MessageSpec, columns: Iterable[str] | None = None, *, unknown_tags: bool = True) -> Shape:
    """The shape of a message: of all its fields, or of those that are named.

    Args:
        spec: of the message.
        columns: fields: a name (any that `spec.field` knows), or a path with dots, `topics.partitions.error_code`; a
            struct's name selects all of its fields. None: all.
        unknown_tags: keep unknown tags, where a version is flexible.

    Raises:
        LookupError: the field does not exist.
    """
    unknown_tags = unknown_tags and bool(spec.flexible_versions)
    if columns is None:
        return _whole(spec, unknown_tags)
    return _part(spec, [name.split(".") for name in columns], unknown_tags, spec.name)


def _whole(spec: StructSpec, unknown_tags: bool) -> Shape:
    fields = (
        FieldShape(slot, field, None if field.struct is None else _whole(field.struct.spec, unknown_tags))
        for slot, field in enumerate(spec.fields)
    )
    return Shape(tuple(fields), unknown_tags)


def _part(spec: StructSpec, paths: list[list[str]], unknown_tags: bool, place: str) -> Shape:
    asked: dict[str, list[list[str]]] = {}
    for name, *rest in paths:
        if name == UNKNOWN_TAGS and not rest and unknown_tags:
            asked.setdefault(name, [])
            continue
        try:
            field = spec.field(name)
        except KeyError:
            raise LookupError(f"{place} has no field {name!r}") from None
        if rest and field.struct is None:
            raise LookupError(f"{place}.{name} is no struct and has no field {rest[0]!r}")
        asked.setdefault(field.attribute, []).append(rest)
    fields = []
    for slot, field in enumerate(spec.fields):
        if field.attribute not in asked:
            continue
        struct = None
        if field.struct is not None:
            inner = asked[field.attribute]
            whole = [] in inner
            struct = (
                _whole(field.struct.spec, unknown_tags)
                if whole
                else _part(field.struct.spec, inner, unknown_tags, f"{place}.{field.attribute}")
            )
        fields.append(FieldShape(slot, field, struct))
    return Shape(tuple(fields), UNKNOWN_TAGS in asked)


@lru_cache(maxsize=4096)
def struct_type(shape: Shape, style: ArrowStyle = ARROW) -> pa.StructType:
    """The Arrow type of a struct."""
    import pyarrow as pa

    fields = [
        pa.field(part.field.attribute, type_, nullable=part.nullable or style.all_nullable)
        for part, type_ in zip(shape.fields, field_types(shape, style), strict=True)
    ]
    if shape.unknown_tags:
        fields.append(pa.field(UNKNOWN_TAGS, unknown_tags_type(style), nullable=style.all_nullable))
    return pa.struct(fields)


@lru_cache(maxsize=4096)
def field_types(shape: Shape, style: ArrowStyle = ARROW) -> tuple[pa.DataType, ...]:
    """The Arrow types of a struct's fields."""
    return tuple(field_type(part, style) for part in shape.fields)


def field_type(part: FieldShape, style: ArrowStyle = ARROW) -> pa.DataType:
    """The Arrow type of a field."""
    one = value_type(part.field.kind, style) if part.struct is None else struct_type(part.struct, style)
    return _list_of(one, style) if part.field.is_array else one


def _list_of(one: pa.DataType, style: ArrowStyle) -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.field(ELEMENT, one, nullable=style.all_nullable))


@cache
def unknown_tags_type(style: ArrowStyle = ARROW) -> pa.DataType:
    import pyarrow as pa

    nullable = style.all_nullable
    fields = [pa.field("tag", pa.int32(), nullable=nullable), pa.field("data", pa.binary(), nullable=nullable)]
    return _list_of(pa.struct(fields), style)


def value_type(kind: int, style: ArrowStyle = ARROW) -> pa.DataType:
    """The Arrow type of the values of a kind (see `wire.layout`) that is no struct."""
    if kind == UUID and style.text_uuids:
        return _types()[STRING]
    return _types()[kind]


@cache
def _types() -> dict[int, pa.DataType]:
    import pyarrow as pa

    return {
        BOOL: pa.bool_(),
        INT8: pa.int8(),
        INT16: pa.int16(),
        INT32: pa.int32(),
        INT64: pa.int64(),
        UINT16: pa.int32(),
        UINT32: pa.int64(),
        FLOAT64: pa.float64(),
        UUID: pa.binary(16),
        STRING: pa.string(),
        BYTES: pa.binary(),
        RECORDS: pa.binary(),
    }
