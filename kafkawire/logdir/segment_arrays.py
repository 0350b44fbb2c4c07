"""Segments as Arrow columns, many batches at a time: the values of the rows of `rows_of`, without an object for each.
Where the native engine is absent, the columns are made of those rows.

Each batch has a row, and its records have theirs after it, as in `rows_of`. Refused (see `batch_runs`) are batches
that cannot be read, and those whose records are too large to be held twice. The types of the rows define the fields;
one that is not known here leaves all of the work to `rows_of`. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kafkawire import rows
from kafkawire.logdir.batch_runs import fields_of, runs_of
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.row_arrays import KNOWN, Piece
from kafkawire.records.array_types import Int8
from kafkawire.records.columns import Batches, Records
from kafkawire.records.control_columns import controls_of
from kafkawire.wire.backend import native

#: Bytes of the records that are made into arrays at once, roughly.
_PIECE = 2 << 20
#: Batches whose records have more bytes than this, decompressed, are refused.
_MOST_BYTES = 16 << 20


def columns_of(
    file: LocatedFile, options: Options, *, encode: Callable[[Any], bytes]
) -> Iterator[rows.Row | rows.Columns]:
    """`rows_of`, with runs of batches and records as columns. `encode`: writes a value that has no Arrow type as JSON.
    Raises OSError: the file cannot be read."""
    fields = None if native is None else fields_of(file, options)
    if fields is None:
        yield from rows_of(file, options)
        return
    constants: dict[str, Any] = {**file.place}
    names = [name for name in dict.fromkeys([*fields.batch, *fields.record]) if name not in constants]
    if not set(names) <= KNOWN:
        yield from rows_of(file, options)
        return

    def write(found: Batches, first: int, last: int, states: Int8 | None) -> tuple[rows.Columns | None, int, bool]:
        piece = _piece(found, first, last, states, deep=options.deep)
        if piece is None:
            return None, first, True
        arrays = {name: piece.repeated(value) for name, value in constants.items() if value is not None}
        arrays |= {name: array for name in names if (array := piece.array(name, fields, encode)) is not None}
        return rows.Columns(found.origin + int(found.start[first]), piece.length, arrays), piece.stop, False

    yield from runs_of(file, options, write)


def _piece(found: Batches, first: int, last: int, states: Int8 | None, *, deep: bool) -> Piece | None:
    """The batches from `first` on, at most up to `last`, that can be one piece; None where the first is refused."""
    controls = controls_of(found)
    refused = [index for index in controls.malformed if index >= first]
    if deep:
        refused += (first + np.flatnonzero(found.size[first:last] > _MOST_BYTES)).tolist()
    last = min(last, *refused) if refused else last
    if not deep:
        return Piece(found, first, last, None, controls, states) if last > first else None
    data = np.frombuffer(found.data, np.uint8)
    limit = min(found.max_batch_bytes, _MOST_BYTES)
    while last > first:
        assert native is not None
        columns, copied, malformed, stop, _ = native.record_columns(data, found.start[:last], first, _PIECE, limit)
        if not malformed:
            records = Records(found, data if copied is None else copied, (), *columns)
            return Piece(found, first, stop, records, controls, states) if stop > first else None
        last = int(malformed[0])
    return None
