"""A piece of a segment, field by field, as Arrow arrays: an element a row, a batch's before those of its records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkawire import rows
from kafkawire.records.array_types import Int32, Int64
from kafkawire.records.batch import TIMESTAMP_TYPES
from kafkawire.records.columns import Batches, Records
from kafkawire.records.compression import CODEC_NAMES
from kafkawire.records.header import MAGIC
from kafkawire.records.record import NO_SEQUENCE
from kafkawire.rows import arrow
from kafkawire.wire.backend import native

Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

HEADER = pa.struct(list(arrow.schema([rows.Header])))
#: Writes a value that has no Arrow type.
Encode = Callable[[Any], bytes]


class ControlRows:
    """What the control batches of a piece say, and their records.

    Attributes:
        control, coordinator_epoch: by the batch's index; no epoch where it says none.
        decoded: of their records, in order.
    """

    def __init__(self) -> None:
        self.control: dict[int, str] = {}
        self.coordinator_epoch: dict[int, int] = {}
        self.decoded: list[Any] = []

    def add(self, index: int, row: rows.Row) -> None:
        """What a row of the control batch with that index says: that of the batch, or of a record in it."""
        if isinstance(row, rows.Record):
            self.decoded.append(row.decoded)
            return
        assert isinstance(row, rows.Batch)
        assert row.control is not None
        self.control[index] = row.control
        if row.coordinator_epoch is not None:
            self.coordinator_epoch[index] = row.coordinator_epoch


class Piece:
    """Batches `first` to `stop`, without it, of some batches, and their records (None: not asked for).

    Attributes:
        length: how many rows.
        batch_of: the batch of each row, counted from `first`. is_batch, is_record: whose rows they are.
    """

    def __init__(self, batches: Batches, first: int, stop: int, records: Records | None, markers: ControlRows) -> None:
        self.batches, self.first, self.stop = batches, first, stop
        self.records = records
        self.markers = markers
        count = stop - first
        counts = np.zeros(count, np.int64) if records is None else np.bincount(records.batch - first, minlength=count)
        self.batch_of = np.repeat(np.arange(count), counts + 1)
        self.length = len(self.batch_of)
        self._batch_rows = np.arange(count) + np.cumsum(counts) - counts
        self.is_batch = np.zeros(self.length, bool)
        self.is_batch[self._batch_rows] = True
        self.is_record = ~self.is_batch

    @cached_property
    def _of_batches(self) -> pa.Buffer:
        return _bitmap(self.is_batch)

    @cached_property
    def _of_records(self) -> pa.Buffer:
        return _bitmap(self.is_record)

    def repeated(self, value: str | int) -> pa.Array:
        """The same value in all rows."""
        if isinstance(value, int):
            return _numbers(np.full(self.length, value, np.int64))
        return _words(np.zeros(self.length, np.int32), [value])

    def of_batch(self, values: Numbers) -> Numbers:
        """A batch's value, in its row and in those of its records."""
        return values[self.first : self.stop][self.batch_of]

    def batch_numbers(self, values: Numbers) -> pa.Array:
        """Values that only batches have."""
        if self.records is None:
            return _numbers(values[self.first : self.stop])
        out = np.zeros(self.length, np.int64)
        out[self._batch_rows] = values[self.first : self.stop]
        return _numbers(out, self._of_batches)

    def record_rows(self, values: Numbers, missing: int) -> Numbers:
        """Values of records in their rows, and `missing` in those of batches."""
        out = np.full(self.length, missing, values.dtype)
        out[self.is_record] = values
        return out

    def both(self, of_batches: Numbers, of_records: Callable[[Records], Numbers]) -> pa.Array:
        """Values that both have, from places of their own."""
        out = np.empty(self.length, np.int64)
        out[self._batch_rows] = of_batches[self.first : self.stop]
        if self.records is not None:
            out[self.is_record] = of_records(self.records)
        return _numbers(out)

    @property
    def offset(self) -> pa.Array:
        """Only records have one."""
        assert self.records is not None
        return _numbers(self.record_rows(self.records.offset, -1), self._of_records)

    # What records hold -----------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> _Content:
        return self._content("key")

    @cached_property
    def value(self) -> _Content:
        return self._content("value")

    def _content(self, part: str) -> _Content:
        assert self.records is not None
        starts = self.record_rows(getattr(self.records, f"{part}_start"), 0)
        return _content(self.records, starts, self._lengths(part))

    def _lengths(self, part: str) -> Int32:
        return self.record_rows(getattr(self.records, f"{part}_length"), -1)

    def sizes(self, part: str) -> pa.Array:
        """Bytes of keys or values."""
        lengths = self._lengths(part)
        return _numbers(lengths, _bitmap(lengths >= 0))

    @property
    def headers(self) -> pa.Array:
        """A list of them for each record."""
        found = self.records
        assert found is not None
        offsets = np.zeros(self.length + 1, np.int32)
        np.cumsum(self.record_rows(found.header_count, 0), out=offsets[1:])
        keys = _header_keys(found)
        value = _content(found, found.header_value_start, found.header_value_length)
        parts = {"key": keys, "value": value.text, "value_base64": value.base64}
        count = len(keys)
        arrays = [pa.nulls(count, pa.string()) if parts[part.name] is None else parts[part.name] for part in HEADER]
        headers = pa.StructArray.from_arrays(arrays, fields=list(HEADER))
        buffers = [self._of_records, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(pa.list_(HEADER), self.length, buffers, children=[headers])

    # Control batches -------------------------------------------------------------------------------------------------

    @property
    def control(self) -> pa.Array | None:
        found = self.markers.control
        if not found:
            return None
        names = sorted(set(found.values()))
        places = np.full(self.stop - self.first, -1, np.int32)
        for index, name in found.items():
            places[index - self.first] = names.index(name)
        shown = places[self.batch_of]
        return _words(shown, names, shown >= 0)

    @property
    def coordinator_epoch(self) -> pa.Array | None:
        found = self.markers.coordinator_epoch
        if not found:
            return None
        values, present = np.zeros(self.stop - self.first, np.int64), np.zeros(self.stop - self.first, bool)
        at = np.array(list(found)) - self.first
        values[at], present[at] = list(found.values()), True
        return _numbers(values[self.batch_of], _bitmap(present[self.batch_of]))

    def decoded(self, encode: Encode) -> pa.Array | None:
        """The records of control batches, as JSON."""
        if not self.markers.decoded:
            return None
        out: list[str | None] = [None] * self.length
        of_markers = self.is_record & np.isin(self.batch_of + self.first, list(self.markers.control))
        for place, value in zip(np.flatnonzero(of_markers).tolist(), self.markers.decoded, strict=True):
            out[place] = None if value is None else encode(value).decode()
        return pa.array(out, pa.string())


class _Content(NamedTuple):
    """Bytes as rows show them: text where they are UTF-8, otherwise base64 (None where no row has it)."""

    text: pa.Array
    base64: pa.Array | None


def _content(records: Records, starts: Int64, lengths: Int32) -> _Content:
    assert native is not None
    is_text = native.texts(records.data, starts, lengths)
    binary = (lengths >= 0) & ~is_text
    text = lengths
    base64 = None
    if binary.any():
        text = np.where(is_text, lengths, np.int32(-1))
        offsets, content = native.gather_base64(records.data, starts, np.where(binary, lengths, np.int32(-1)))
        base64 = _strings(offsets, content, binary)
    offsets, content = native.gather(records.data, starts, text)
    return _Content(_strings(offsets, content, is_text), base64)


def _header_keys(found: Records) -> pa.Array:
    starts, lengths = found.header_key_start, found.header_key_length
    assert native is not None
    is_text = native.texts(found.data, starts, lengths)
    if is_text.all():
        offsets, content = native.gather(found.data, starts, lengths)
        return _strings(offsets, content, is_text)
    view = found.data.data
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    return pa.array([_text(bytes(view[start : start + length])) for start, length in spans], pa.string())


def _text(data: bytes) -> str:
    return arrow.arrow_text(data.decode("utf-8", "surrogateescape"))


def _numbers(values: Numbers, validity: pa.Buffer | None = None) -> pa.Array:
    content = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [validity, content])


def _flags(values: Bools) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bitmap(values)])


def _words(places: Int32, words: list[str], present: Bools | None = None) -> pa.Array:
    validity = None if present is None else _bitmap(present)
    indices = pa.Array.from_buffers(pa.int32(), len(places), [validity, pa.py_buffer(places)])
    # Not `pa.array`, which imports pandas wherever that is installed: tens of megabytes.
    texts = [arrow.arrow_text(word).encode() for word in words]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    content = np.frombuffer(b"".join(texts), np.uint8)
    return pa.DictionaryArray.from_arrays(indices, _strings(offsets, content, np.ones(len(words), bool)))


def _strings(offsets: Int32, content: npt.NDArray[np.uint8], present: Bools) -> pa.Array:
    validity = None if present.all() else _bitmap(present)
    return pa.Array.from_buffers(
        pa.string(), len(present), [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    )


def _bitmap(present: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _last_sequence(batches: Batches) -> Int64:
    """`Batch.last_sequence`."""
    base = batches.base_sequence.astype(np.int64)
    return np.where(base >= 0, (base + batches.last_offset_delta) % (1 << 31), NO_SEQUENCE)


def _codec(piece: Piece, _: Encode) -> pa.Array:
    return _words(piece.of_batch(piece.batches.codec).astype(np.int32), list(CODEC_NAMES), piece.is_batch)


def _timestamp_type(piece: Piece, _: Encode) -> pa.Array:
    places = piece.of_batch(piece.batches.log_append_time).astype(np.int32)
    return _words(places, list(TIMESTAMP_TYPES))


def _delete_horizon(piece: Piece, _: Encode) -> pa.Array | None:
    present = piece.of_batch(piece.batches.delete_horizon) & piece.is_batch
    if not present.any():
        return None
    return _numbers(piece.of_batch(piece.batches.base_timestamp), _bitmap(present))


#: Field -> the array of a piece; None where all rows lack it.
MAKERS: dict[str, Callable[[Piece, Encode], pa.Array | None]] = {
    "kind": lambda piece, _: _words(piece.is_record.astype(np.int32), ["batch", "record"]),
    "position": lambda piece, _: _numbers(piece.of_batch(piece.batches.position)),
    "base_offset": lambda piece, _: piece.batch_numbers(piece.batches.base_offset),
    "last_offset": lambda piece, _: piece.batch_numbers(piece.batches.last_offset),
    "records": lambda piece, _: piece.batch_numbers(piece.batches.record_count),
    "magic": lambda piece, _: piece.batch_numbers(np.full(len(piece.batches), MAGIC)),
    "codec": _codec,
    "crc": lambda piece, _: piece.batch_numbers(piece.batches.crc),
    "size": lambda piece, _: piece.batch_numbers(piece.batches.size),
    "timestamp": lambda piece, _: piece.both(piece.batches.max_timestamp, lambda records: records.timestamp),
    "timestamp_type": _timestamp_type,
    "producer_id": lambda piece, _: _numbers(piece.of_batch(piece.batches.producer_id)),
    "producer_epoch": lambda piece, _: _numbers(piece.of_batch(piece.batches.producer_epoch)),
    "sequence": lambda piece, _: piece.both(piece.batches.base_sequence, lambda records: records.sequence),
    "last_sequence": lambda piece, _: piece.batch_numbers(_last_sequence(piece.batches)),
    "leader_epoch": lambda piece, _: piece.batch_numbers(piece.batches.leader_epoch),
    "transactional": lambda piece, _: _flags(piece.of_batch(piece.batches.transactional)),
    "control": lambda piece, _: piece.control,
    "coordinator_epoch": lambda piece, _: piece.coordinator_epoch,
    "delete_horizon": _delete_horizon,
    "offset": lambda piece, _: piece.offset,
    "key_size": lambda piece, _: piece.sizes("key"),
    "value_size": lambda piece, _: piece.sizes("value"),
    "key": lambda piece, _: piece.key.text,
    "key_base64": lambda piece, _: piece.key.base64,
    "value": lambda piece, _: piece.value.text,
    "value_base64": lambda piece, _: piece.value.base64,
    "headers": lambda piece, _: piece.headers,
    "decoded": lambda piece, encode: piece.decoded(encode),
}
