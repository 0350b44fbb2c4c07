"""`message_table`: a table of messages from a table of bytes; the way for whole tables.

    state = message_table(records, "value", "TransactionLogValue", version="prefix", keep=["partition", "offset"])
    state.where("transaction_status = 1").select("offset", "producer_id")

The fields of the struct that `from_kafka_message` returns become columns, beside those that are kept. Only the bytes
and the kept columns go through Python, batch by batch (`mapInArrow`), and only the requested fields are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kafkawire.spark.column_codec import decoded
from kafkawire.spark.function_options import check_version, message_named, read_options
from kafkawire.spark.schema import ERROR, commented, spark_schema
from kafkawire.spark.task_sizing import by_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
        version: as there.
        options: as there; with `errors`, `_error` is the last column.
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
