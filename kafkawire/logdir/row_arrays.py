"""Rows of a range of a segment's batches as Arrow arrays, one for each field. The row of a batch comes before those of
its records.

Fields are columns of `records.record_table`. Keys, values and headers are text or base64, as in `rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkawire import rows
from kafkawire.logdir.batch_runs import Fields
from kafkawire.logdir.transaction_states import STATES
from kafkawire.records.array_types import Bools, Bytes, Int8, Int32, Int64
from kafkawire.records.columns import Batches, Records
from kafkawire.records.control_columns import Controls
from kafkawire.records.control_json import decoded_control
from kafkawire.records.record_table import COLUMNS, CONTROL_COLUMNS, OF_BATCH, Validity, Values
from kafkawire.rows import arrow
from kafkawire.wire.backend import native

#: Writes a value that has no Arrow type.
Encode = Callable[[Any], bytes]

_HEADER = pa.struct(list(arrow.schema([rows.HeaderRow])))
_TYPES = {field.name: field.type for field in arrow.schema([rows.BatchRow, rows.RecordRow])}


class Piece:
    """Batches `first` to `stop`, without it, of some batches, and their records (None: not wanted). `states`: of the
    transactions of all batches. `length`: how many rows. is_record: whose rows they are."""

    def __init__(
        self,
        batches: Batches,
        first: int,
        stop: int,
        records: Records | None,
        controls: Controls,
        states: Int8 | None = None,
    ) -> None:
        self.batches, self.first, self.stop = batches, first, stop
        self.records, self.controls, self.states = records, controls, states
        index = np.arange(stop - first)
        counts = 0 * index if records is None else np.bincount(records.batch - first, minlength=len(index))
        self._rows_of = counts + 1
        self.length = int(self._rows_of.sum())
        self._batch_rows = index + np.cumsum(counts) - counts
        self.is_record = np.ones(self.length, bool)
        self.is_record[self._batch_rows] = False
        self._records, self._batches = Validity(self.is_record), Validity(~self.is_record)

    def array(self, name: str, fields: Fields, encode: Encode) -> pa.Array | None:
        """The array of a field; None where all rows lack it. `fields`: how values of fields are made from batches and
        records. `encode`: a JSON value -> its bytes."""
        if name in _RENDERED:
            return _RENDERED[name](self, encode)
        values = self._values(name, fields)
        return None if values.present is not None and values.present.none else values.array(_TYPES[name])

    def repeated(self, value: str | int) -> pa.Array:
        """The same value in all rows."""
        if isinstance(value, int):
            return Values(np.full(self.length, value, np.int64)).array(pa.int64())
        return Values(np.zeros(self.length, np.int32), texts=(arrow.arrow_text(value),)).array(pa.string())

    def _values(self, name: str, fields: Fields) -> Values:
        column = COLUMNS[name]
        if name not in fields.batch:
            assert self.records is not None
            return self._placed(column.of_records(self.records), self.is_record, self._records)
        values = column.of_batches(self.batches, self.controls).map(lambda values: values[self.first : self.stop])
        if self.records is None:
            return values
        if name in fields.record and (column.record == OF_BATCH or name in CONTROL_COLUMNS):
            return values.map(lambda values: np.repeat(values, self._rows_of))
        placed = self._placed(values, self._batch_rows, self._batches)
        if name not in fields.record:
            return placed
        placed.numbers[self.is_record] = column.of_records(self.records).numbers
        return placed._replace(present=None)

    def _placed(self, values: Values, places: Any, there: Validity) -> Values:
        """Values in their rows; the others are null. `there`: which rows these are."""
        numbers = np.zeros(self.length, np.int32 if values.texts else np.int64)
        numbers[places] = values.numbers
        if values.present is None:
            return Values(numbers, there, values.texts)
        present = np.zeros(self.length, bool)
        present[places] = values.present.flags
        return Values(numbers, Validity(present), values.texts)

    @property
    def transaction(self) -> pa.Array:
        """The names of the states."""
        assert self.states is not None
        states = np.repeat(self.states[self.first : self.stop], self._rows_of)
        return Values(states, texts=STATES).array(pa.string())

    # What records hold -----------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> _Content:
        return self._content("key")

    @cached_property
    def value(self) -> _Content:
        return self._content("value")

    def _content(self, part: str) -> _Content:
        assert self.records is not None
        starts = self._of_records(getattr(self.records, f"{part}_start"), 0)
        return _content(self.records.data, starts, self._of_records(getattr(self.records, f"{part}_length"), -1))

    def _of_records(self, values: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
        """Values of records in their rows, and `missing` in those of batches."""
        out = np.full(self.length, missing, values.dtype)
        out[self.is_record] = values
        return out

    @property
    def headers(self) -> pa.Array:
        """A list of them for each record."""
        found = self.records
        assert found is not None
        offsets = np.zeros(self.length + 1, np.int32)
        np.cumsum(self._of_records(found.header_count, 0), out=offsets[1:])
        value = _content(found.data, found.header_value_start, found.header_value_length)
        parts = {"key": _header_keys(found), "value": value.text, "value_base64": value.base64}
        count = len(found.header_key_start)
        arrays = [pa.nulls(count, pa.string()) if parts[part.name] is None else parts[part.name] for part in _HEADER]
        headers = pa.StructArray.from_arrays(arrays, fields=list(_HEADER))
        buffers = [self._records.buffer, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(pa.list_(_HEADER), self.length, buffers, children=[headers])

    def decoded(self, encode: Encode) -> pa.Array | None:
        """The records of control batches, as JSON."""
        found = self.records
        assert found is not None
        of_control = np.flatnonzero(self.batches.is_control[found.batch])
        if not len(of_control):
            return None
        out: list[str | None] = [None] * self.length
        places = np.flatnonzero(self.is_record)[of_control].tolist()
        for place, index in zip(places, of_control.tolist(), strict=True):
            key = _bytes(found.data, found.key_start[index], found.key_length[index])
            value = _bytes(found.data, found.value_start[index], found.value_length[index])
            out[place] = encode(decoded_control(key, value)).decode()
        return pa.array(out, pa.string())


#: Fields that `rows` has in another form than `COLUMNS`.
_RENDERED: dict[str, Callable[[Piece, Encode], pa.Array | None]] = {
    "kind": lambda piece, _: Values(piece.is_record, texts=("batch", "record")).array(pa.string()),
    "key": lambda piece, _: piece.key.text,
    "key_base64": lambda piece, _: piece.key.base64,
    "value": lambda piece, _: piece.value.text,
    "value_base64": lambda piece, _: piece.value.base64,
    "headers": lambda piece, _: piece.headers,
    "transaction": lambda piece, _: piece.transaction,
    "decoded": lambda piece, encode: piece.decoded(encode),
}
#: The fields that have arrays.
KNOWN = _RENDERED.keys() | COLUMNS.keys()


class _Content(NamedTuple):
    """Bytes as rows show them: text where they are UTF-8, otherwise base64 (None where no row has it)."""

    text: pa.Array
    base64: pa.Array | None


def _content(data: Bytes, starts: Int64, lengths: Int32) -> _Content:
    assert native is not None
    is_text = native.texts(data, starts, lengths)
    binary = (lengths >= 0) & ~is_text
    text = lengths
    base64 = None
    if binary.any():
        text = np.where(is_text, lengths, np.int32(-1))
        base64 = _strings(native.gather_base64(data, starts, np.where(binary, lengths, np.int32(-1))), binary)
    return _Content(_strings(native.gather(data, starts, text), is_text), base64)


def _header_keys(found: Records) -> pa.Array:
    starts, lengths = found.header_key_start, found.header_key_length
    assert native is not None
    is_text = native.texts(found.data, starts, lengths)
    if is_text.all():
        return _strings(native.gather(found.data, starts, lengths), is_text)
    keys = (_bytes(found.data, *span) or b"" for span in zip(starts.tolist(), lengths.tolist(), strict=True))
    return pa.array([arrow.arrow_text(key.decode("utf-8", "surrogateescape")) for key in keys], pa.string())


def _bytes(data: Bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(data.data[start : start + length])


def _strings(gathered: tuple[Int32, Bytes], present: Bools) -> pa.Array:
    offsets, content = gathered
    buffers = [Validity(present).buffer, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(pa.string(), len(present), buffers)
