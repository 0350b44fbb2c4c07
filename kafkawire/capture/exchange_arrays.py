"""`arrays`: makes Arrow arrays of the columns of exchanges that the native engine has written. Needs pyarrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from kafkawire.capture.tracker import ColumnsOfExchanges
from kafkawire.rows import Exchange, arrow

_SCHEMA = arrow.schema([Exchange])
#: Texts of a row that may contain bytes of the capture.
_FOREIGN = ("api", "client_id", "problem", "note")
_BODIES = ("request", "response")

#: Validity, offsets of texts, data; None where no element is null, and of numbers.
_Buffers = tuple[bytes | None, bytes | None, bytes]
#: Offsets of exchanges, offsets and text of names, counts.
_Errors = tuple[bytes, bytes, bytes, bytes]


def arrays(
    file: str, count: int, columns: Mapping[str, _Buffers], errors: _Errors, *, body: bool
) -> ColumnsOfExchanges:
    """The fields of `rows.Exchange`, each as an array.

    Args:
        file: name of the file.
        count: number of exchanges.
        columns: of each field but `file` and `errors`.
        errors: the errors of all exchanges.
        body: whether bodies were decoded.
    """
    made = {
        name: pa.Array.from_buffers(_SCHEMA.field(name).type, count, [_buffer(part) for part in _parts(buffers)])
        for name, buffers in columns.items()
        if body or name not in _BODIES
    }
    made["file"] = _repeated(arrow.arrow_text(file), count)
    ends, name_ends, names, counts = errors
    total = len(counts) // 8
    keys = pa.Array.from_buffers(pa.string(), total, [None, pa.py_buffer(name_ends), pa.py_buffer(names)])
    items = pa.Array.from_buffers(pa.int64(), total, [None, pa.py_buffer(counts)])
    offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(ends)])
    made["errors"] = pa.MapArray.from_arrays(offsets, keys, items)
    return ColumnsOfExchanges(count, {name: made[name] for name in _SCHEMA.names if name in made})


def cells(row: Exchange, encode: Callable[[Any], bytes]) -> tuple[Exchange, list[tuple[str, int]]]:
    """A row with texts that Arrow accepts and bodies as JSON text; and its errors.

    Args:
        row: the row.
        encode: the encoder of bodies.
    """
    changed: dict[str, Any] = {name: arrow.arrow_text(text) for name in _FOREIGN if (text := getattr(row, name))}
    for name in _BODIES:
        body = getattr(row, name)
        changed[name] = None if body in (None, msgspec.UNSET) else arrow.arrow_text(encode(body).decode())
    return msgspec.structs.replace(row, **changed), [(arrow.arrow_text(name), n) for name, n in row.errors.items()]


def _parts(buffers: _Buffers) -> tuple[bytes | None, ...]:
    validity, offsets, data = buffers
    return (validity, data) if offsets is None else (validity, offsets, data)


def _repeated(text: str, count: int) -> pa.Array:
    """A text `count` times. pyarrow imports pandas for every scalar, where it is installed: a third of a second."""
    data = text.encode()
    ends = array("i", (len(data) * place for place in range(count + 1)))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _buffer(part: bytes | None) -> pa.Buffer | None:
    return None if part is None else pa.py_buffer(part)
