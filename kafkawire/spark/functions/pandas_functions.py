"""The column functions where PySpark has no functions of Arrow arrays (3.5 and 4.0): as pandas UDFs.

A pandas UDF knows no null struct: what it returns has a field `_there`. What it takes is JSON: pandas would make floats
of integers beside a null.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from msgspec import json
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType, BooleanType, DataType, StructField, StructType

from kafkawire.errors import EncodeError
from kafkawire.spark.functions.column_codec import ERROR, FunctionOptions, encoded_values, message_named, uuid_of
from kafkawire.wire.layout import KIND_NAMES, STRUCT

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkawire.wire.spec import Field

_THERE = "_there"


def decoding(
    function: Callable[[pa.Array, Any], pa.Array], column: Column | str, version: int | str | Column, returned: DataType
) -> Column:
    """Messages as a struct column.

    Args:
        function: of an array of bytes, and a version or an array of versions. `returned`: the type that it returns.
    """

    def fixed(values: pd.Series) -> pd.DataFrame:
        return _frame(function(_array(values, pa.binary()), version))

    def each(values: pd.Series, versions: pd.Series) -> pd.DataFrame:
        return _frame(function(_array(values, pa.binary()), _array(versions, pa.int32())))

    assert isinstance(returned, StructType)
    type_ = StructType([*returned.fields, StructField(_THERE, BooleanType())])
    is_fixed = isinstance(version, (int, str))
    wrap: Any = pandas_udf
    wrapped = wrap(fixed if is_fixed else each, type_)
    found = wrapped(column) if is_fixed else wrapped(column, version)
    fields = (found.getField(field.name).alias(field.name) for field in returned.fields)
    return F.when(found.getField(_THERE), F.struct(*fields))


def encoding(name: str, options: FunctionOptions, column: Column | str, version: int | str | Column) -> Column:
    """Structs as a column of messages.

    Args:
        name: of the message.
    """

    def fixed(values: pd.Series) -> pd.Series:
        return bytes_of(values, repeat(version))

    def each(values: pd.Series, versions: pd.Series) -> pd.Series:
        return bytes_of(values, _array(versions, pa.int32()).to_pylist())

    def bytes_of(values: pd.Series, versions: Iterable[Any]) -> pd.Series:
        message = message_named(name, options.schemas)
        messages = [None if one is None else _message(message, json.decode(one), "") for one in _texts(values)]
        return pd.Series(encoded_values(message, messages, versions, options), dtype=object)

    is_fixed = isinstance(version, (int, str))
    wrap: Any = pandas_udf
    wrapped = wrap(fixed if is_fixed else each, BinaryType())
    text = F.to_json(column, {"ignoreNullFields": "false"})
    made: Column = wrapped(text) if is_fixed else wrapped(text, version)
    return made


def _array(values: pd.Series, type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_, from_pandas=True)


def _frame(found: pa.StructArray) -> pd.DataFrame:
    names = [field.name for field in found.type]
    columns = {name: _series(one) for name, one in zip(names, found.flatten(), strict=True)}
    return pd.DataFrame({**columns, _THERE: _series(found.is_valid())})


def _series(values: pa.Array) -> pd.Series:
    """Arrow's own values where Spark takes them; objects where it converts what is nested."""
    if pa.types.is_nested(values.type):
        return pd.Series(values.to_pylist(), dtype=object)
    return pd.Series(values, dtype=pd.ArrowDtype(values.type))


def _texts(values: pd.Series) -> list[str | None]:
    found: list[str | None] = _array(values, pa.string()).to_pylist()
    return found


def _message(cls: Any, row: Any, path: str) -> Any:
    """A message of `cls` from an object of JSON, as Spark writes a struct; what it does not have gets its default."""
    if not isinstance(row, dict):
        raise EncodeError(f"needs a struct, not {type(row).__name__}", path=path.removesuffix("."))
    given: dict[str, Any] = {}
    for name, value in row.items():
        if name == ERROR:
            continue
        try:
            field = cls.spec.field(name)
        except KeyError:
            raise EncodeError(f"{cls.spec.name} has no such field", path=path + name) from None
        given[field.attribute] = _value(field, value, path + name)
    return cls(**given)


def _value(field: Field, value: Any, path: str) -> Any:
    if value is None or not field.is_array:
        return _element(field, value, path)
    if not isinstance(value, list):
        raise EncodeError(f"needs an array, not {type(value).__name__}", path=path)
    return tuple(_element(field, one, path + "[]") for one in value)


def _element(field: Field, value: Any, path: str) -> Any:
    if value is None:
        return None
    if field.kind == STRUCT:
        return _message(field.struct, value, path + ".")
    kind = KIND_NAMES[field.kind]
    if kind in ("bytes", "records") and isinstance(value, str):
        return base64.b64decode(value)
    if kind == "float64" and isinstance(value, str):
        return float(value)  # NaN, Infinity
    return uuid_of(value) if kind == "uuid" else value
