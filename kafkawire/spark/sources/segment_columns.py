"""The tables of `kafka_segment`: columns of `records.record_table`, and their rows as Arrow without an object a row.

Only the wanted columns are made. Batches of magic 0 and 1, which are old and rare, go through objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from kafkawire import rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.transaction_states import STATES
from kafkawire.records import Batch, Record
from kafkawire.records.array_types import Int8
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.columns import Batches, Records
from kafkawire.records.control_columns import Controls
from kafkawire.records.record_arrays import text_headers
from kafkawire.records.record_table import COLUMNS, Column, Values
from kafkawire.rows.arrow import arrow_text

Row = dict[str, Any]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
#: Columns that records have in another type, or under another name, than in `COLUMNS`.
_ERROR = Column(pa.string())
_TYPES = {"headers": _HEADERS, "error": _ERROR.type}
_NAMES = {"timestampType": "timestamp_type_id"}


def _table(names: str, **types: pa.DataType) -> pa.Schema:
    types = _TYPES | types
    return pa.schema([(name, types.get(name) or COLUMNS[_NAMES.get(name, name)].type) for name in names.split()])


_PRODUCER = "leader_epoch producer_id producer_epoch sequence transactional control coordinator_epoch"
#: A row a batch; `timestamp` is the newest of its records, `error` what is wrong where something is.
BATCHES = _table(
    "file topic partition position base_offset last_offset records magic codec crc size timestamp timestamp_type "
    f"{_PRODUCER} error"
)
#: A row a record; `position` is its batch's.
RECORDS = _table(f"file topic partition position offset timestamp timestamp_type {_PRODUCER} key value headers error")
#: A row a record, as Spark's Kafka source has it (`KafkaRecordToRowConverter`); `headers` is null where there are none.
KAFKA = _table("key value topic partition offset timestamp timestampType headers", timestamp=pa.timestamp("ms", "UTC"))


def place_of(file: LogFile) -> Row:
    """The columns that have the same value in all rows of a file."""
    return {"file": arrow_text(file.path), "topic": None if file.topic is None else arrow_text(file.topic),
            "partition": file.partition}  # fmt: skip


def of_rows(found: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows that are dicts; what one does not have is null."""
    columns = [pa.array([row.get(field.name) for row in found], field.type) for field in schema]
    return _record_batch(columns, schema, len(found))


def of_columns(
    found: Batches | Records,
    controls: Controls | None,
    place: Row,
    schema: pa.Schema,
    states: Int8 | None = None,
    *,
    null_headers: bool = False,
) -> pa.RecordBatch:
    """A row a batch or a record.

    Args:
        controls: of the batches or of the records, where `schema` has a column of `CONTROL_COLUMNS`.
        place: `place_of` the file.
        states: of the batches' transactions, where `schema` has them.
        null_headers: whether headers are null where there are none.
    """

    def array(name: str) -> pa.Array:
        if name == "transaction":
            assert states is not None
            places = states[found.batch] if isinstance(found, Records) else states
            return Values(places, texts=STATES).array(pa.string())
        column = COLUMNS.get(_NAMES.get(name, name), _ERROR)
        if isinstance(found, Batches) and column.batch is not None:
            return column.of_batches(found, controls).array(column.type)
        if isinstance(found, Records) and column.record is not None:
            return column.of_records(found, controls).array(column.type)
        if isinstance(found, Records) and name in ("key", "value"):
            return found.arrow_keys() if name == "key" else found.arrow_values()
        if isinstance(found, Records) and name == "headers":
            return text_headers(found, null_headers=null_headers)
        if (value := place.get(name)) is None:
            return pa.nulls(len(found), column.type)
        if isinstance(value, str):
            return Values(np.zeros(len(found), np.int32), texts=(value,)).array(column.type)
        return Values(np.full(len(found), value)).array(column.type)

    arrays = [array(field.name) for field in schema]
    return _record_batch(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema, len(found)
    )


def _record_batch(arrays: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))  # only counted


# Magic 0 and 1, batch by batch ---------------------------------------------------------------------------------------


def row_of(batch: Batch, place: Row) -> Row:
    """The row of a batch of magic 0 or 1, which is no control batch."""
    of_type = TIMESTAMP_TYPES.index(batch.timestamp_type) if batch.magic else -1
    return rows.to_dict(rows.BatchRow.of(batch, None)) | place | {"timestampType": of_type}


def record_rows(records: Iterable[Record], row: Row, *, null_headers: bool = False) -> Iterable[Row]:
    """The rows of the records of a batch.

    Args:
        row: of the batch (`row_of`). `null_headers`: whether headers are null where there are none.
    """
    for record in records:
        headers = [{"key": arrow_text(header.key), "value": header.value} for header in record.headers]
        yield row | {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "key": record.key,
            "value": record.value,
            "headers": headers or (None if null_headers else headers),
        }
