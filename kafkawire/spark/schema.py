"""From a message's `spec` to one Spark schema for all its versions.

The types are those of `kafkawire.wire.columns`, but that uuids are text, everything may be null, and unknown tagged
fields are no part of a row.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type

from kafkawire.wire.columns.schema import SPARK, shape_of, struct_type
from kafkawire.wire.spec import MessageSpec

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
