"""From a message's `spec` to one Spark schema for all its versions.

The types are those of `kafkawire.wire.columns`, but that uuids are text, everything may be null, and unknown tagged
fields are no part of a row.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type

from kafkawire.wire.columns.schema import SPARK, shape_of, struct_type
from kafkawire.wire.spec import MessageSpec, StructSpec

#: Field for what is wrong with a row, by option.
ERROR = "_error"


def spark_schema(spec: MessageSpec, *, errors: bool = False) -> types.StructType:
    """The Spark type of a message, over all its versions."""
    schema = from_arrow_type(arrow_type(spec, errors=errors))
    assert isinstance(schema, types.StructType)
    return schema


def commented(type_: types.StructType, spec: StructSpec) -> types.StructType:
    """That type with the meaning of each field as its comment, which tables keep.

    Values become one of it by a cast: Spark compares what a function returns with its type, comments included.
    """
    stated = {field.attribute: field for field in spec.fields}
    fields = []
    for one in type_.fields:
        field = stated.get(one.name)  # None: `_error`, and columns that are kept
        nested: Any = one.dataType
        if field is not None and field.struct is not None:
            if isinstance(nested, types.ArrayType):
                element: Any = nested.elementType
                nested = types.ArrayType(commented(element, field.struct.spec), nested.containsNull)
            else:
                nested = commented(nested, field.struct.spec)
        comment = {"comment": field.about} if field is not None and field.about else one.metadata
        fields.append(types.StructField(one.name, nested, one.nullable, comment))
    return types.StructType(fields)


def arrow_type(spec: MessageSpec, *, errors: bool = False) -> pa.StructType:
    """The Arrow type that goes with `spark_schema`."""
    type_ = struct_type(shape_of(spec, unknown_tags=False), SPARK)
    return pa.struct([*type_, pa.field(ERROR, pa.string())]) if errors else type_
