"""Rows of `kafka_segment` as Arrow: columns of `records.columns` under the names of the table, without an object a row.

Only the wanted columns are made. Batches of magic 0 and 1, which are old and rare, go through objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkawire.errors import RecordError
from kafkawire.logdir import LogFile
from kafkawire.records import CONTROL_TYPES, Batch, Record
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.columns import Batches, Records
from kafkawire.records.compression import CODEC_NAMES
from kafkawire.records.control import ABORT, COMMIT, MALFORMED
from kafkawire.records.marker_columns import markers
from kafkawire.rows.arrow import arrow_text

Row = dict[str, Any]
Int32 = npt.NDArray[np.int32]

_PLACE = [("file", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("position", pa.int64())]
_PRODUCER = [
    ("leader_epoch", pa.int32()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("sequence", pa.int32()),
    ("transactional", pa.bool_()),
    ("control", pa.string()),
    ("coordinator_epoch", pa.int32()),
]
_TIME = [("timestamp", pa.int64()), ("timestamp_type", pa.string())]
#: A row a batch; `timestamp` is the newest of its records, `error` what is wrong where something is.
BATCHES = pa.schema(
    [
        *_PLACE,
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int32()),
        ("magic", pa.int8()),
        ("codec", pa.string()),
        ("crc", pa.int64()),
        ("size", pa.int32()),
        *_TIME,
        *_PRODUCER,
        ("error", pa.string()),
    ]
)
#: A row a record; `position` is its batch's.
RECORDS = pa.schema(
    [
        *_PLACE,
        ("offset", pa.int64()),
        *_TIME,
        *_PRODUCER,
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("error", pa.string()),
    ]
)

_CODECS = np.array(CODEC_NAMES, object)
_MARKER_NAMES = np.array([CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]], object)
_TIMESTAMP_TYPES = np.array(TIMESTAMP_TYPES, object)


def place_of(file: LogFile) -> Row:
    """The columns that have the same value in all rows of a file."""
    return {"file": arrow_text(file.path), "topic": None if file.topic is None else arrow_text(file.topic),
            "partition": file.partition}  # fmt: skip


def of_rows(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows that are dicts; what one does not have is null."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return _record_batch(columns, schema, len(rows))


class ControlColumns(NamedTuple):
    """The control columns, an element a batch.

    Attributes:
        names: of control batches; None for batches of data.
        epochs: of the coordinator that wrote the marker; -1 for none.
        malformed: indexes of the batches whose control record cannot be read.
    """

    names: npt.NDArray[np.object_]
    epochs: Int32
    malformed: list[int]


#: Where no control column is wanted.
NO_CONTROLS = ControlColumns(np.empty(0, object), np.empty(0, np.int32), [])


def controls(found: Batches) -> ControlColumns:
    """The names of control batches."""
    names = np.full(len(found), None, object)
    epochs = np.full(len(found), -1, np.int32)
    malformed = []
    plain = markers(found)
    names[plain.at] = _MARKER_NAMES[plain.type]
    epochs[plain.at] = plain.coordinator_epoch
    for index in plain.others.tolist():
        try:
            control = found.batch(index).control
        except RecordError:
            names[index] = MALFORMED
            malformed.append(index)
            continue
        assert control is not None
        names[index] = control.name
        epochs[index] = -1 if control.coordinator_epoch is None else control.coordinator_epoch
    return ControlColumns(names, epochs, malformed)


def of_batches(found: Batches, control: ControlColumns, place: Row, schema: pa.Schema) -> pa.RecordBatch:
    """A row a batch."""
    columns: dict[str, Callable[[], Any]] = {
        "position": lambda: found.position,
        "base_offset": lambda: found.base_offset,
        "last_offset": lambda: found.last_offset,
        "records": lambda: found.record_count,
        "magic": lambda: np.full(len(found), 2, np.int8),
        "codec": lambda: _CODECS[found.codec],
        "crc": lambda: found.crc.astype(np.int64),
        "size": lambda: found.size.astype(np.int32),
        "timestamp": lambda: found.max_timestamp,
        "sequence": lambda: found.base_sequence,
        **_shared(found, control, slice(None)),
    }
    return _filled(columns, place, schema, len(found))


def of_records(found: Records, control: ControlColumns, place: Row, schema: pa.Schema) -> pa.RecordBatch:
    """A row a record."""
    batches, batch = found.batches, found.batch
    columns: dict[str, Callable[[], Any]] = {
        "position": lambda: batches.position[batch],
        "offset": lambda: found.offset,
        "timestamp": lambda: found.timestamp,
        "sequence": lambda: found.sequence,
        "key": lambda: found.arrow_keys(),
        "value": lambda: found.arrow_values(),
        "headers": lambda: _headers(found),
        **_shared(batches, control, batch),
    }
    return _filled(columns, place, schema, len(found))


def _headers(found: Records) -> Any:
    """Headers with keys as text; bytes that are no UTF-8 become U+FFFD."""
    headers = found.arrow_headers()
    keys, values = headers.values.flatten()
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = (key.decode("utf-8", "surrogateescape") for key in keys.to_pylist())
        texts = pa.array(list(map(arrow_text, decoded)), pa.string())
    return pa.ListArray.from_arrays(headers.offsets, pa.StructArray.from_arrays([texts, values], ["key", "value"]))


def _shared(found: Batches, control: ControlColumns, index: Any) -> dict[str, Callable[[], Any]]:
    return {
        "timestamp_type": lambda: _TIMESTAMP_TYPES[found.log_append_time.astype(np.int8)[index]],
        "leader_epoch": lambda: found.leader_epoch[index],
        "producer_id": lambda: found.producer_id[index],
        "producer_epoch": lambda: found.producer_epoch[index],
        "transactional": lambda: found.transactional[index],
        "control": lambda: control.names[index],
        "coordinator_epoch": lambda: pa.array(control.epochs[index], mask=control.epochs[index] < 0),
    }


def _filled(columns: dict[str, Callable[[], Any]], place: Row, schema: pa.Schema, count: int) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        if field.name in columns:
            values = columns[field.name]()
            array = values if isinstance(values, pa.Array) else pa.array(values)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(place.get(field.name), field.type), count))
    return _record_batch(arrays, schema, count)


def _record_batch(arrays: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))  # only counted


# Magic 0 and 1, batch by batch ---------------------------------------------------------------------------------------


def row_of(batch: Batch, place: Row) -> Row:
    """The row of a batch of any magic."""
    return place | {
        "position": batch.position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "magic": batch.magic,
        "codec": batch.codec,
        "crc": batch.crc,
        "size": batch.size,
        "timestamp": batch.max_timestamp,
        "timestamp_type": batch.timestamp_type,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": batch.base_sequence,
        "transactional": batch.transactional,
    }


def record_rows(records: Iterable[Record], row: Row) -> Iterable[Row]:
    """The rows of the records of a batch whose row is `row`."""
    for record in records:
        yield row | {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": arrow_text(header.key), "value": header.value} for header in record.headers],
        }
