"""Records as Arrow: columns of `kafkawire.records.columns` in the form that other tools read. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkawire.records.engine import engine

if TYPE_CHECKING:
    from kafkawire.records.columns import Bytes, Int32, Int64, Records

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
        _binary(records.data, records.key_start, records.key_length),
        _binary(records.data, records.value_start, records.value_length),
        _headers(records),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _headers(records: Records) -> Any:
    offsets = np.zeros(len(records) + 1, np.int32)
    np.cumsum(records.header_count, out=offsets[1:])
    keys = _binary(records.data, records.header_key_start, records.header_key_length)
    values = _binary(records.data, records.header_value_start, records.header_value_length)
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), headers, type=HEADERS)


def _binary(data: Bytes, starts: Int64, lengths: Int32) -> Any:
    offsets, content = engine.gather(data, starts, lengths)
    present = lengths >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
