"""A table whose rows are of several classes.

A task yields rows of one schema, whatever it finds. A class of rows is a NamedTuple: its fields are the columns, with
the Arrow types of their annotations. The table has the columns of all its classes, and `type`, the name of a row's
class; what a class does not have is null. Null values cost less than a struct for each class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.session.row_batches import array_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Integers of a row that have fewer than 64 bits.
Int8 = Annotated[int, pa.int8()]
Int32 = Annotated[int, pa.int32()]
_TYPES = {bool: pa.bool_(), bytes: pa.binary(), int: pa.int64(), str: pa.string()}
#: Rows of a batch, at most.
_ROWS = 1 << 12

RowT = TypeVar("RowT", bound=tuple[Any, ...])


def schema_of(kind: type[tuple[Any, ...]]) -> pa.Schema:
    """The Arrow schema of a class of rows. Each field may be null."""
    hints = get_type_hints(kind, include_extras=True)
    return pa.schema([(name, _type_of(hint)) for name, hint in hints.items()])


def _type_of(hint: Any) -> pa.DataType:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (one,) = (option for option in options if option is not NoneType)
    return one.__metadata__[0] if get_origin(one) is Annotated else _TYPES[one]


class TypedTable:
    """The classes of a table's rows. A name that several have is one column, of one type.

    Attributes:
        arrow, spark: the schema.
    """

    def __init__(self, *kinds: type[tuple[Any, ...]]) -> None:
        self.arrow = pa.unify_schemas([pa.schema([("type", pa.string())]), *map(schema_of, kinds)])
        self.spark = from_arrow_schema(self.arrow)

    def batches(self, kind: type[RowT], rows: Iterable[RowT]) -> Iterator[pa.RecordBatch]:
        """Rows of one class as batches of the table."""
        fields, left = schema_of(kind), iter(rows)
        while chunk := list(islice(left, _ROWS)):
            count = len(chunk)
            columns = zip(zip(*chunk, strict=True), fields, strict=True)
            found = {"type": array_of([kind.__name__] * count, pa.string())}
            found |= {field.name: array_of(values, field.type) for values, field in columns}
            arrays = [found[of.name] if of.name in found else pa.nulls(count, of.type) for of in self.arrow]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def only(table: DataFrame, kind: type[tuple[Any, ...]]) -> DataFrame:
    """The rows of one class, with its columns."""
    return table.where(f"type = '{kind.__name__}'").select(*schema_of(kind).names)
