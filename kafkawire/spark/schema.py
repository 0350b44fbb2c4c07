"""From a message's `spec` to one Spark schema for all its versions, and from rows of it to messages.

The types are those of `kafkawire.wire.columns`, but that uuids are text, everything may be null, and unknown tagged
fields are no part of a row.
"""

from __future__ import annotations

from itertools import pairwise, repeat
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


def messages_of(cls: Any, rows: pa.StructArray, path: str = "") -> list[Any]:
    """The messages of `cls` that rows say, field by field for all rows; None for null. Fields are found by attribute or
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
    columns = [given.get(name) or repeat(getattr(default, name), len(rows)) for name in cls.__struct_fields__]
    return _masked(list(map(cls, *columns)), rows)


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
        return [_uuid(value) for value in column.to_pylist()]
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


def _uuid(value: Any) -> Any:
    try:
        return value if value is None else UUID(value)
    except ValueError:
        return value
