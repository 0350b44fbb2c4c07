"""From a message's `spec` to one Spark schema for all its versions, and from rows of it to messages.

The types are those of `kafkawire.wire.columns`, but that uuids are text, everything may be null, and unknown tagged
fields are no part of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type

from kafkawire.errors import EncodeError
from kafkawire.wire.columns.schema import SPARK, shape_of, struct_type
from kafkawire.wire.layout import KIND_NAMES, STRUCT
from kafkawire.wire.spec import Field, MessageSpec

#: Field for what is wrong with a row, by option.
ERROR = "_error"

Row = dict[str, Any]


def spark_schema(spec: MessageSpec, *, errors: bool = False) -> types.StructType:
    """The Spark type of a message, over all its versions."""
    schema = from_arrow_type(arrow_type(spec, errors=errors))
    assert isinstance(schema, types.StructType)
    return schema


def arrow_type(spec: MessageSpec, *, errors: bool = False) -> pa.StructType:
    """The Arrow type that goes with `spark_schema`."""
    type_ = struct_type(shape_of(spec, unknown_tags=False), SPARK)
    return pa.struct([*type_, pa.field(ERROR, pa.string())]) if errors else type_


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
