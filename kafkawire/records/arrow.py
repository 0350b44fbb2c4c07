"""Records as Arrow: columns of `kafkawire.records.columns` in the form that other tools read. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkawire.records.engine import engine

if TYPE_CHECKING:
    from kafkawire.records.arrays import Bytes, Int32, Int64
    from kafkawire.records.columns import Records

HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("sequence", pa.int32(), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("transactional", pa.bool_(), nullable=False),
        pa.field("control", pa.bool_(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)


def record_batch(records: Records) -> Any:
    """See `Records.to_arrow`."""
    batches, batch = records.batches, records.batch
    arrays = [
        pa.array(records.offset),
        pa.array(records.timestamp),
        pa.array(records.sequence),
        pa.array(batches.producer_id[batch]),
        pa.array(batches.producer_epoch[batch]),
        pa.array(batches.leader_epoch[batch]),
        pa.array(batches.transactional[batch]),
        pa.array(batches.is_control[batch]),
        keys(records),
        values(records),
        headers(records),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def keys(records: Records) -> Any:
    """The records' keys, as binary."""
    return _binary(records.data, records.key_start, records.key_length)


def values(records: Records) -> Any:
    """The records' values, as binary."""
    return _binary(records.data, records.value_start, records.value_length)


def headers(records: Records) -> Any:
    """A list of headers a record; their keys are bytes."""
    offsets = np.zeros(len(records) + 1, np.int32)
    np.cumsum(records.header_count, out=offsets[1:])
    names = _binary(records.data, records.header_key_start, records.header_key_length)
    contents = _binary(records.data, records.header_value_start, records.header_value_length)
    found = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), found, type=HEADERS)


def _binary(data: Bytes, starts: Int64, lengths: Int32) -> Any:
    offsets, content = engine.gather(data, starts, lengths)
    present = lengths >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
