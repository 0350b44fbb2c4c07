"""Rows of Python values as record batches, without pandas.

`pa.array` imports pandas for a list, wherever that is installed: a quarter of a second of each Python worker, and tens
of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

from kafkawire.records.record_table import bitmap

_ROWS = 64
_MOST_BYTES = (1 << 31) - 1
_NUMBERS = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}


def array_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Values, some of which may be None. `type`: of bytes, text, flags, or integers of up to 64 bits.

    Raises:
        pa.ArrowCapacityError: bytes or text of more than 2 GiB.
    """
    present = np.array([value is not None for value in values], bool)
    validity = None if present.all() else bitmap(present)
    if pa.types.is_boolean(type):
        return pa.Array.from_buffers(type, len(values), [validity, bitmap(np.array(values, bool))])
    if (number := _NUMBERS.get(type)) is not None:
        numbers = np.array([0 if value is None else index(value) for value in values], number)
        return pa.Array.from_buffers(type, len(values), [validity, pa.py_buffer(numbers)])
    if type not in (pa.binary(), pa.string()):
        raise TypeError(f"a column of {type}")
    content = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    offsets = np.cumsum([0, *map(len, content)])
    if offsets[-1] > _MOST_BYTES:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes in one array")
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(content))]
    return pa.Array.from_buffers(type, len(values), buffers)


def as_batches(found: Iterable[tuple[Any, ...]], schema: pa.Schema, size: int = _ROWS) -> Iterator[pa.RecordBatch]:
    """Rows as batches.

    Args:
        found: a value a field of `schema`, of a type that `array_of` takes. `size`: number of rows of a batch, at most.
    """
    left = iter(found)
    while rows := list(islice(left, size)):
        columns = zip(zip(*rows, strict=True), schema, strict=True)
        yield pa.RecordBatch.from_arrays([array_of(values, field.type) for values, field in columns], schema=schema)
