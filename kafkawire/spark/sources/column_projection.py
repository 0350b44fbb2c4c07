"""The columns that a query asks of a data source, by the option `columns` or by a schema, in the types of that schema.

Names are matched as Spark matches them. Types are converted without loss: integers to integers (a value that does not
fit fails the job), text to bytes and back as `CAST` does it, times to TIMESTAMP and TIMESTAMP_NTZ. A time that these
cannot hold is null, or fails the job in FAILFAST mode. What is unknown or cannot be converted is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from kafkawire.spark.errors import SourceError

#: Columns with times, and their units since the epoch.
_TIME_UNITS = {"timestamp": "ms", "time_ns": "ns", "response_time_ns": "ns"}
#: PySpark 4.1 has no such parameter: its times are in UTC.
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
_INTEGERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_TIMES = (types.TimestampType, types.TimestampNTZType)
_TEXTS = (types.StringType, types.BinaryType)
#: The range of milliseconds that microseconds in an int64 can hold.
_LATEST_MS = (2**63 - 1) // 1000


class Projection(NamedTuple):
    """The columns of a reader.

    Attributes:
        source: the columns that the source builds, under its own names.
        target: the columns that Spark expects, made of those in `source` at the same places.
        fail_fast: whether a time that does not fit fails the job.
    """

    source: pa.Schema
    target: pa.Schema
    fail_fast: bool

    def batch(self, built: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that the source built, as Spark expects them.

        Raises:
            SourceError: a value does not fit.
        """
        if self.source == self.target:
            return built
        fields = zip(built.columns, self.source, self.target, strict=True)
        return pa.RecordBatch.from_arrays([self._converted(*field) for field in fields], schema=self.target)

    def _converted(self, array: pa.Array, source: pa.Field, target: pa.Field) -> pa.Array:
        try:
            if pa.types.is_timestamp(target.type):
                return self._times(array, source, target.type)
            # Unsafe casts of integers drop bits; those to text leave bytes that are not UTF-8 as they are.
            return array.cast(target.type, safe=pa.types.is_integer(target.type))
        except pa.ArrowInvalid as error:
            raise SourceError(f"column {target.name}: {error}") from None

    def _times(self, array: pa.Array, source: pa.Field, wanted: pa.TimestampType) -> pa.Array:
        unit = source.type.unit if pa.types.is_timestamp(source.type) else _TIME_UNITS[source.name]
        if unit == "ms" and not self.fail_fast:
            numbers = array.cast(pa.int64())
            fits = pc.and_(pc.greater_equal(numbers, -_LATEST_MS), pc.less_equal(numbers, _LATEST_MS))
            array = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
        # Nanoseconds lose digits that Spark's types do not have.
        return array.cast(pa.timestamp(unit, wanted.tz)).cast(wanted, safe=unit != "ns")


def table_schema(table: pa.Schema, columns: Iterable[str], *, case_sensitive: bool) -> types.StructType:
    """The schema of some columns of a table.

    Args:
        columns: names. `case_sensitive`: whether names of another case are unknown.

    Raises:
        ValueError: a column is unknown.
    """
    found = from_arrow_schema(pa.schema([table.field(_place(table.names, name, case_sensitive)) for name in columns]))
    assert isinstance(found, types.StructType)
    return found


def projection(wanted: types.StructType, table: pa.Schema, *, case_sensitive: bool, fail_fast: bool) -> Projection:
    """The columns of a schema from those of a table.

    Args:
        wanted: what Spark expects. `table`: all that the source has.
        case_sensitive: see `table_schema`. `fail_fast`: see `Projection`.

    Raises:
        ValueError: a column is unknown, cannot have that type, or is NOT NULL.
    """
    source, known = [], from_arrow_schema(table)
    for field in wanted:
        place = _place(table.names, field.name, case_sensitive)
        given = known[place].dataType
        if not _convertible(given, field.dataType, table.names[place]):
            raise ValueError(f"column {field.name} is {given.simpleString()}, not {field.dataType.simpleString()}")
        if not field.nullable:
            raise ValueError(f"column {field.name} may be null: the schema has to leave out NOT NULL")
        source.append(table.field(place))
    return Projection(pa.schema(source), to_arrow_schema(wanted, **IN_UTC), fail_fast)


def _place(names: list[str], name: str, case_sensitive: bool) -> int:
    """The place of a column, by its name."""
    if name in names:
        return names.index(name)
    folded = [known.lower() for known in names]
    if case_sensitive or name.lower() not in folded:
        raise ValueError(f"no column {name}: the columns are {', '.join(names)}")
    return folded.index(name.lower())


def _convertible(given: types.DataType, wanted: types.DataType, name: str = "") -> bool:
    """Whether a type can become another without loss, or with values that are tested. `name`: of a column."""
    if isinstance(given, types.ArrayType) and isinstance(wanted, types.ArrayType):
        return _convertible(given.elementType, wanted.elementType)
    if isinstance(given, types.StructType) and isinstance(wanted, types.StructType):
        pairs = zip(given, wanted, strict=False)
        same = given.names == wanted.names and all(field.nullable for field in wanted)
        return same and all(_convertible(one.dataType, other.dataType) for one, other in pairs)
    if isinstance(given, _TEXTS) and isinstance(wanted, _TEXTS):
        return True
    if name and isinstance(given, _INTEGERS):
        return isinstance(wanted, _INTEGERS) or (name in _TIME_UNITS and isinstance(wanted, _TIMES))
    return given == wanted
