"""Column functions: `from_kafka_message`, `to_kafka_message`, in the manner of Spark's `from_protobuf`.

    df.select(from_kafka_message("value", "TransactionLogValue", version="prefix").alias("state")).select("state.*")

Options, case-insensitive:

- `mode`: FAILFAST, the default: malformed data fails the job; or PERMISSIVE: it becomes null
- `errors`: "true" adds a field `_error` at the end of the struct, with the error text of the row; in PERMISSIVE
  mode the struct is then not null
- `schemaDirectory`: a folder of message schemas of one's own, which is read here; workers need not have it

`message_table`: a table of messages from a table of bytes; the way for whole tables.

    state = message_table(records, "value", "TransactionLogValue", version="prefix", keep=["partition", "offset"])
    state.where("transaction_status = 1").select("offset", "producer_id")

The fields of the struct that `from_kafka_message` returns become columns, beside those that are kept. Only the bytes
and the kept columns go through Python, batch by batch (`mapInArrow`), and only the requested fields are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kafkawire.errors import KafkaWireError, UnsupportedVersionError
from kafkawire.rows.arrow import json_text
from kafkawire.spark.functions.column_codec import (
    ERROR,
    FAILFAST,
    PREFIX,
    FunctionOptions,
    check_version,
    commented,
    decoded,
    encoded,
    message_named,
    read_options,
    spark_schema,
)
from kafkawire.spark.session.task_sizing import by_batches

arrow_udf: Any
try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError:  # PySpark 3.5 and 4.0
    from kafkawire.spark.functions.pandas_functions import decoding, encoding

    arrow_udf = None

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import VariantVal

#: A column by its name, as text.
_SHOWN = re.compile(r"Column<'([\w.`]+)'>")


def from_kafka_message(
    data: Column | str,
    messageName: str,
    version: int | str | Column,
    options: Mapping[str, str] | None = None,
) -> Column:
    """A struct column from a binary column of messages; null where the bytes are null.

    Args:
        data: bytes of whole messages.
        messageName: such as TransactionLogValue.
        version: of all values, or a column with that of each, or "prefix".

    Raises:
        LookupError: an unknown message. UnsupportedVersionError: an unknown version of it. ValueError: unknown options.
    """
    chosen = read_options(options)
    message = message_named(messageName, chosen.schemas)
    check_version(message, version)
    returned = spark_schema(message.spec, errors=chosen.errors)
    decode = partial(decoded, messageName, chosen)
    found = (
        decoding(decode, data, version, returned) if arrow_udf is None else _applied(decode, data, version, returned)
    )
    return found.cast(commented(returned, message.spec)).alias(_call("from_kafka_message", data, messageName, version))


def to_kafka_message(
    struct: Column | str,
    messageName: str,
    version: int | str | Column,
    options: Mapping[str, str] | None = None,
) -> Column:
    """A binary column of messages from a struct column; null where the struct is null.

    Args:
        struct: its fields are found by the names that `from_kafka_message` gives, or the schema's; what it does not
            have gets its default.
        version: as in `from_kafka_message`; "prefix" writes the newest released version, its int16 in front.

    Raises:
        LookupError: an unknown message. UnsupportedVersionError: an unknown version of it. ValueError: unknown options.
    """
    chosen = read_options(options)
    if chosen.errors:
        raise ValueError("to_kafka_message has no option 'errors': its column is binary")
    message = message_named(messageName, chosen.schemas)
    check_version(message, version)
    if arrow_udf is None:
        found = encoding(messageName, chosen, struct, version)
    else:
        found = _applied(partial(encoded, messageName, chosen), struct, version, BinaryType())
    return found.alias(_call("to_kafka_message", struct, messageName, version))


def register_functions(spark: SparkSession) -> None:
    """Register both functions for SQL, where a function has one type: `from_kafka_message` returns a VARIANT.

    SELECT from_kafka_message(value, 'TransactionLogValue'):producer_id::bigint FROM records

    Their arguments: the data, a message's name, the version ("prefix" by default), for the first one a mode.
    """
    from pyspark.sql.types import VariantType

    spark.udf.register("from_kafka_message", udf(_variant, VariantType(), useArrow=False))
    spark.udf.register("to_kafka_message", arrow_udf(_bytes, BinaryType()))


def _variant(
    data: bytes | None, messageName: str, version: int | str | None = PREFIX, mode: str = FAILFAST
) -> VariantVal | None:
    """A message as a VARIANT with the names that the columns have; bytes are base64."""
    options = read_options({"mode": mode})
    message: Any = message_named(messageName, None)
    check_version(message, version)
    if data is None:
        return None
    try:
        if version == PREFIX:
            found, _ = message.decode_prefixed(data)
        elif isinstance(version, int):
            found = message.decode(data, version)
        else:
            raise UnsupportedVersionError(messageName, version, message.spec.valid_versions)
    except KafkaWireError:
        if options.mode == FAILFAST:
            raise
        return None
    from pyspark.sql.types import VariantVal as Variant

    return Variant.parseJson(json_text(_fields(msgspec.to_builtins(found))).decode())


def _fields(value: Any) -> Any:
    """The fields that columns have: without unknown tagged ones."""
    if isinstance(value, dict):
        return {name: _fields(field) for name, field in value.items() if name != "unknown_tagged_fields"}
    return [_fields(element) for element in value] if isinstance(value, (list, tuple)) else value


def _bytes(struct: pa.Array, messageName: pa.Array, version: pa.Array) -> pa.Array:
    """Messages of the name and the version that each row has."""
    rows: dict[tuple[str, int | str | None], list[int]] = {}
    for row, kind in enumerate(zip(messageName.to_pylist(), version.to_pylist(), strict=True)):
        rows.setdefault(kind, []).append(row)
    made: list[pa.Array] = []
    for (name, of_kind), places in rows.items():
        check_version(message_named(name, None), of_kind)
        at = pa.array(places, pa.int64())
        made.append(
            encoded(name, FunctionOptions(), struct.take(at), PREFIX if of_kind == PREFIX else version.take(at))
        )
    if not made:
        return pa.array([], pa.binary())
    order = pa.array([row for places in rows.values() for row in places], pa.int64())
    return pa.concat_arrays(made).take(pc.array_sort_indices(order))


def _applied(
    function: Callable[[pa.Array, Any], pa.Array], column: Column | str, version: int | str | Column, returned: DataType
) -> Column:
    """A function of a column and a version, of all values or of each, as a column."""

    def fixed(values: pa.Array) -> pa.Array:
        return function(values, version)

    def each(values: pa.Array, versions: pa.Array) -> pa.Array:
        return function(values, versions)

    is_fixed = isinstance(version, (int, str))
    wrapped: Callable[..., Column] = arrow_udf(fixed if is_fixed else each, returned)
    return wrapped(column) if is_fixed else wrapped(column, version)


def _call(function: str, *arguments: object) -> str:
    """A call, as the name of its column: other columns by their names, and expressions as `...`."""
    texts = [str(one) for one in arguments]
    names = [found[1] if (found := _SHOWN.fullmatch(text)) else text for text in texts]
    shown = ("..." if name.startswith("Column<") else name for name in names)
    return f"{function}({', '.join(shown)})"


_DATA, _VERSION = "_data", "_version"


def message_table(
    frame: DataFrame,
    data: Column | str,
    messageName: str,
    version: int | str | Column,
    options: Mapping[str, str] | None = None,
    *,
    keep: Sequence[str] = (),
    columns: Iterable[str] | None = None,
) -> DataFrame:
    """The messages in a binary column, a column for each field; null where the bytes are null.

    Args:
        frame: the table that the column `data` is in.
        messageName: as in `from_kafka_message`.
        version: of all values, or a column with that of each, or "prefix".
        options: `mode`, `errors` and `schemaDirectory`, see the module; with `errors`, `_error` is the last column.
        keep: columns of `frame`, which come first.
        columns: the fields that are wanted, in the message's order; all by default.

    Raises:
        LookupError: an unknown message, or an unknown field of it. UnsupportedVersionError: an unknown version of it.
        ValueError: unknown options, or a name that two columns would have.
    """
    chosen = read_options(options)
    message = message_named(messageName, chosen.schemas)
    check_version(message, version)
    wanted = None if columns is None else frozenset(columns)
    fields = [field for field in spark_schema(message.spec).fields if wanted is None or field.name in wanted]
    if wanted is not None and len(fields) < len(wanted):
        missing = sorted(wanted - {field.name for field in fields})
        raise LookupError(f"{messageName} has no field {', '.join(missing)}")
    if chosen.errors:
        fields.append(StructField(ERROR, StringType()))
    kept = [frame.schema[name] for name in keep]
    if twice := {field.name for field in kept} & {field.name for field in fields}:
        raise ValueError(f"columns that are kept and fields of {messageName}: {', '.join(sorted(twice))}")
    fixed = version if isinstance(version, (int, str)) else None
    names = [field.name for field in fields]
    count = len(kept)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            each = batch.column(count + 1) if fixed is None else fixed
            struct = decoded(messageName, chosen, batch.column(count), each, names)
            yield pa.RecordBatch.from_arrays([*batch.columns[:count], *struct.flatten()], [*keep, *names])

    bytes_of = F.col(data) if isinstance(data, str) else data
    inputs = [frame[name] for name in keep] + [bytes_of.alias(_DATA)]
    if fixed is None:
        inputs.append(F.lit(version).alias(_VERSION))
    table = by_batches(frame.select(*inputs), decode, StructType(kept + fields))
    typed = [*kept, *commented(StructType(fields), message.spec)]
    quoted = ((field, F.col(f"`{field.name.replace('`', '``')}`")) for field in typed)
    return table.select(*(one.cast(field.dataType).alias(field.name, metadata=field.metadata) for field, one in quoted))
