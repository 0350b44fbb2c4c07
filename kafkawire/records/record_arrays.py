"""Keys, values and headers of records as Arrow arrays, and `Records.to_arrow`. Needs pyarrow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkawire.records.column_engine import engine
from kafkawire.records.record_table import COLUMNS, HEADERS, bitmap

if TYPE_CHECKING:
    from kafkawire.records.array_types import Bytes, Int32, Int64

_SURROGATE = re.compile("[\ud800-\udfff]")
#: The columns of `Records.to_arrow`; its `control` is the flag.
_COLUMNS = ("offset", "timestamp", "sequence", "producer_id", "producer_epoch", "leader_epoch", "transactional",
            "control", "key", "value", "headers")  # fmt: skip
_CONTENT = {"key": lambda records: records.arrow_keys(), "value": lambda records: records.arrow_values(),
            "headers": lambda records: records.arrow_headers()}  # fmt: skip


def record_batch(records: Any) -> pa.RecordBatch:
    """`Records.to_arrow`."""
    columns = {name: COLUMNS["is_control" if name == "control" else name] for name in _COLUMNS}
    fields = [pa.field(name, column.type, nullable=name in ("key", "value")) for name, column in columns.items()]
    arrays = [
        _CONTENT[name](records) if name in _CONTENT else column.of_records(records).array(column.type)
        for name, column in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def binary(data: Bytes, starts: Int64, lengths: Int32) -> Any:
    """Byte strings as an Arrow binary array.

    Args:
        data: the bytes in which they lie.
        starts: the place of each one in `data`.
        lengths: the bytes of each one; -1 is null.
    """
    offsets, content = engine.gather(data, starts, lengths)
    present = lengths >= 0
    validity = None if present.all() else bitmap(present)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def headers(counts: Int32, keys: Any, values: Any) -> Any:
    """A list of headers a record.

    Args:
        counts: the number of headers of each record.
        keys, values: binary arrays of all headers, record after record.
    """
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    found = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    # Not `pa.array`, which imports pandas wherever that is installed.
    offsets = pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends)])
    return pa.ListArray.from_arrays(offsets, found, type=HEADERS)


def text_headers(found: Any, *, null_headers: bool = False) -> Any:
    """The headers of `Records` with keys as text: each byte that is no UTF-8 becomes U+FFFD.

    Args:
        null_headers: whether a record without headers has null instead of an empty list.
    """
    listed = found.arrow_headers()
    keys, values = listed.values.flatten()
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = (_SURROGATE.sub("\ufffd", key.decode("utf-8", "surrogateescape")) for key in keys.to_pylist())
        texts = pa.array(list(decoded), pa.string())
    none = None
    if null_headers:
        flags = found.header_count == 0
        none = pa.Array.from_buffers(pa.bool_(), len(flags), [None, bitmap(flags)])
    pairs = pa.StructArray.from_arrays([texts, values], ["key", "value"])
    return pa.ListArray.from_arrays(listed.offsets, pairs, mask=none)
