"""From a message's `spec` to one Spark schema for all its versions, and from messages to rows of it and back.

Columns have the names of the Python attributes. A field that a version does not carry has its default. Integers keep
their width (unsigned ones take the next wider type), uuids are text, `bytes` and `records` binary. Unknown tagged
fields are no part of a row. Text that is no UTF-8 becomes U+FFFD, and is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql import types

from kafkawire.errors import EncodeError
from kafkawire.wire.layout import KIND_NAMES, STRUCT
from kafkawire.wire.spec import Field, StructSpec

#: Field for what is wrong with a row, by option.
ERROR = "_error"

Row = dict[str, Any]


class _Kind(NamedTuple):
    spark: types.DataType
    arrow: pa.DataType


_KINDS = {
    "bool": _Kind(types.BooleanType(), pa.bool_()),
    "int8": _Kind(types.ByteType(), pa.int8()),
    "int16": _Kind(types.ShortType(), pa.int16()),
    "int32": _Kind(types.IntegerType(), pa.int32()),
    "int64": _Kind(types.LongType(), pa.int64()),
    "uint16": _Kind(types.IntegerType(), pa.int32()),
    "uint32": _Kind(types.LongType(), pa.int64()),
    "float64": _Kind(types.DoubleType(), pa.float64()),
    "uuid": _Kind(types.StringType(), pa.string()),
    "string": _Kind(types.StringType(), pa.string()),
    "bytes": _Kind(types.BinaryType(), pa.binary()),
    "records": _Kind(types.BinaryType(), pa.binary()),
}


def spark_schema(spec: StructSpec, *, errors: bool = False) -> types.StructType:
    """The Spark type of a message, over all its versions."""
    fields = [types.StructField(field.attribute, _spark_type(field)) for field in spec.fields]
    if errors:
        fields.append(types.StructField(ERROR, types.StringType()))
    return types.StructType(fields)


def arrow_type(spec: StructSpec, *, errors: bool = False) -> pa.StructType:
    """The Arrow type that goes with `spark_schema`."""
    fields = [pa.field(field.attribute, _arrow_type(field)) for field in spec.fields]
    return pa.struct([*fields, pa.field(ERROR, pa.string())] if errors else fields)


def _spark_type(field: Field) -> types.DataType:
    kind = spark_schema(field.struct.spec) if field.kind == STRUCT else _KINDS[KIND_NAMES[field.kind]].spark
    return types.ArrayType(kind) if field.is_array else kind


def _arrow_type(field: Field) -> pa.DataType:
    kind = arrow_type(field.struct.spec) if field.kind == STRUCT else _KINDS[KIND_NAMES[field.kind]].arrow
    return pa.list_(pa.field("element", kind)) if field.is_array else kind


# Messages to rows ----------------------------------------------------------------------------------------------------


def row_maker(spec: StructSpec, problem: Callable[[str], None]) -> Callable[[Any], Row]:
    """A function from messages to rows; `problem` is told of text that is no UTF-8."""
    makers = [(field.attribute, _maker(field, problem)) for field in spec.fields]

    def make(value: Any) -> Row:
        return {name: convert(getattr(value, name)) for name, convert in makers}

    return make


def _maker(field: Field, problem: Callable[[str], None]) -> Callable[[Any], Any]:
    one = _one_maker(field, problem)
    if field.is_array:
        return lambda values: None if values is None else [one(value) for value in values]
    return lambda value: None if value is None else one(value)


def _one_maker(field: Field, problem: Callable[[str], None]) -> Callable[[Any], Any]:
    if field.kind == STRUCT:
        return row_maker(field.struct.spec, problem)
    name = KIND_NAMES[field.kind]
    if name == "string":
        return lambda text: _clean(text, field.attribute, problem)
    if name == "uuid":
        return str
    if name in ("bytes", "records"):
        return bytes
    return lambda value: value


def _clean(text: str, name: str, problem: Callable[[str], None]) -> str:
    if text.isascii():
        return text
    raw = text.encode("utf-8", "surrogateescape")
    cleaned = raw.decode("utf-8", "replace")
    if cleaned != text:
        problem(f"{name} is no UTF-8: {raw[:100]!r}")
    return cleaned


# Rows to messages ----------------------------------------------------------------------------------------------------


def message_maker(cls: Any, row_type: pa.StructType, path: str = "") -> Callable[[Row], Any]:
    """A function from rows of an Arrow struct type to messages of `cls`. Fields are found by attribute or schema name;
    those that the row does not have get their default.

    Raises:
        EncodeError: the row has a field that the message has not.
    """
    spec = cls.spec
    makers = []
    for member in row_type:
        if member.name == ERROR:
            continue
        try:
            field = spec.field(member.name)
        except KeyError:
            raise EncodeError(f"{spec.name} has no such field", path=path + member.name) from None
        makers.append((member.name, field.attribute, _value_maker(field, member.type, f"{path}{member.name}")))

    def make(row: Row) -> Any:
        return cls(**{attribute: convert(row[name]) for name, attribute, convert in makers})

    return make


def _value_maker(field: Field, row_type: pa.DataType, path: str) -> Callable[[Any], Any]:
    if field.is_array:
        if not pa.types.is_list(row_type) and not pa.types.is_large_list(row_type):
            raise EncodeError(f"needs an array, not {row_type}", path=path)
        one = _one_value_maker(field, row_type.value_type, path + "[]")
        return lambda values: None if values is None else tuple(one(value) for value in values)
    one = _one_value_maker(field, row_type, path)
    return lambda value: None if value is None else one(value)


def _one_value_maker(field: Field, row_type: pa.DataType, path: str) -> Callable[[Any], Any]:
    if field.kind == STRUCT:
        if not pa.types.is_struct(row_type):
            raise EncodeError(f"needs a struct, not {row_type}", path=path)
        return message_maker(field.struct, row_type, path + ".")
    if KIND_NAMES[field.kind] == "uuid":
        return UUID
    return lambda value: value
