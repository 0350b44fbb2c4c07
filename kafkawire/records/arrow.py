"""Keys, values and headers of records as Arrow arrays, and the schema of `Records.to_arrow`. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkawire.records.column_engine import engine

if TYPE_CHECKING:
    from kafkawire.records.array_types import Bytes, Int32, Int64

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


def binary(data: Bytes, starts: Int64, lengths: Int32) -> Any:
    """Byte strings as an Arrow binary array.

    Args:
        data: the bytes in which they lie.
        starts: the place of each one in `data`.
        lengths: the bytes of each one; -1 is null.
    """
    offsets, content = engine.gather(data, starts, lengths)
    present = lengths >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def headers(counts: Int32, keys: Any, values: Any) -> Any:
    """A list of headers a record.

    Args:
        counts: the number of headers of each record.
        keys, values: binary arrays of all headers, record after record.
    """
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    found = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), found, type=HEADERS)
