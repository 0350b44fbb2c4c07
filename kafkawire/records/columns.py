"""Batches and records as NumPy columns: where keys, values and headers lie, without an object for each record.

    for item in columns.read(data):                       # or a `Source`, such as a file's
        if isinstance(item, columns.Records):
            item.offset, item.timestamp, item.value_start, item.value_length
            item.to_arrow()                               # with pyarrow

`batches` reads headers alone; `records` reads the records of these batches. Both report what `records.read` reports:
damage is the same `Damage`, at the same position; a batch that is not of magic 2 is the same `Batch`.
The native engine fills the columns and copies no payload that is not compressed. Without it they are made of the
objects that `records.read` gives (`object_columns`): the same values, 8 to 60 times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.errors import MissingExtraError, RecordError

try:
    import numpy as np
    import numpy.typing as npt
except ImportError:
    raise MissingExtraError("kafkawire.records.columns", "arrow") from None

from kafkawire.records.array_types import Bools, Bytes, Int16, Int32, Int64
from kafkawire.records.batch import Batch
from kafkawire.records.batch_walk import BatchWalk
from kafkawire.records.column_engine import engine
from kafkawire.records.compression import MAX_BATCH_BYTES, CompressionError, decompress
from kafkawire.records.damage import Damage
from kafkawire.records.header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)
from kafkawire.records.record import NO_SEQUENCE
from kafkawire.records.source import Data, source_of
from kafkawire.wire.backend import native

if TYPE_CHECKING:
    import pyarrow as pa

#: How much of a source is looked at in one go (little enough to be in a processor's cache still when its records are
#: read, after its checksums), and how many bytes of records `records` puts into one piece.
WINDOW = 2 << 20
PIECE = 16 << 20
#: Bytes that are looked at in one go for headers alone.
HEADERS_WINDOW = 8 << 20
#: Bytes that are looked at where a part ends: no batch of it is expected there.
_BEYOND = 1 << 14
#: glibc keeps freed blocks up to the size of the largest that was freed once, but not more than 32 MiB (mallopt(3)).
_KEPT = 31 << 20


class Batches(msgspec.Struct, frozen=True, eq=False):
    """Batches of magic 2 that lie one after the other: an array a header field, an element a batch.

    Attributes:
        origin: byte offset in the source at which `data` begins. `data`: all bytes of the batches.
        max_batch_bytes: most bytes that the records of a batch may have when decompressed.
        start: byte offset of each batch in `data`; `position` in the source.
        size: bytes of the whole batch.
        leader_epoch, crc, ..., record_count: as in `Batch`, of which these are the fields.
    """

    origin: int
    data: memoryview
    max_batch_bytes: int
    start: Int64
    base_offset: Int64
    size: Int64
    leader_epoch: Int32
    crc: npt.NDArray[np.uint32]
    attributes: Int16
    last_offset_delta: Int32
    base_timestamp: Int64
    max_timestamp: Int64
    producer_id: Int64
    producer_epoch: Int16
    base_sequence: Int32
    record_count: Int32

    def __len__(self) -> int:
        return len(self.start)

    @property
    def position(self) -> Int64:
        return self.start + self.origin

    @property
    def last_offset(self) -> Int64:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> Int64:
        """`Batch.last_sequence`."""
        base = self.base_sequence.astype(np.int64)
        return np.where(base >= 0, (base + self.last_offset_delta) % (1 << 31), NO_SEQUENCE)

    @property
    def magic(self) -> npt.NDArray[np.int8]:
        return np.full(len(self), MAGIC, np.int8)

    @property
    def codec(self) -> Int16:
        """The codecs' numbers: places in `CODECS`."""
        return self.attributes & np.int16(CODEC_MASK)

    @property
    def log_append_time(self) -> Bools:
        return self._flag(LOG_APPEND_TIME)

    @property
    def transactional(self) -> Bools:
        return self._flag(TRANSACTIONAL)

    @property
    def is_control(self) -> Bools:
        return self._flag(CONTROL)

    @property
    def delete_horizon(self) -> Bools:
        """Whether `base_timestamp` is the time when compaction may drop tombstones and markers."""
        return self._flag(DELETE_HORIZON)

    @property
    def crc_ok(self) -> Bools:
        """Whether the checksum is that of the bytes; computed at each access."""
        return engine.checksums(np.frombuffer(self.data, np.uint8), self.start)

    def _flag(self, bit: int) -> Bools:
        found: Bools = (self.attributes & np.int16(bit)) != 0
        return found

    def where(self, chosen: Bools | slice) -> Batches:
        """The batches for which `chosen` is true, with the same `data`."""
        arrays = {name: getattr(self, name)[chosen] for name in self.__struct_fields__[3:]}
        return msgspec.structs.replace(self, **arrays)

    def batch(self, index: int) -> Batch:
        """One of the batches as an object."""
        start = int(self.start[index])
        data = self.data[start : start + int(self.size[index])]
        return Batch(self.origin + start, data, self.max_batch_bytes, *HEADER.unpack_from(data))


class Records(msgspec.Struct, frozen=True, eq=False):
    """Records of some of the batches in `batches`: an array a field, an element a record.

    Positions are places in `data`: the batches' own bytes, or, where some of them are compressed, their records one
    after the other; without the native engine, copies of keys, values and headers. A length of -1 is null.

    Attributes:
        damage: the batches whose records could not be read (`bad_records`); the records before the malformed one are
            there.
        batch: index of each record's batch in `batches`.
        timestamp: epoch milliseconds. sequence: -1 where the batch carries none.
        header_count: of each record. The header arrays hold all headers, record after record.
    """

    batches: Batches
    data: Bytes
    damage: tuple[Damage, ...]
    batch: Int32
    offset: Int64
    timestamp: Int64
    sequence: Int32
    key_start: Int64
    key_length: Int32
    value_start: Int64
    value_length: Int32
    header_count: Int32
    header_key_start: Int64
    header_key_length: Int32
    header_value_start: Int64
    header_value_length: Int32

    def __len__(self) -> int:
        return len(self.offset)

    def to_arrow(self) -> pa.RecordBatch:
        """The records as an Arrow RecordBatch: offset, timestamp, sequence, key, value, headers (a list of key and
        value; keys are bytes, as on the wire), and of each record's batch producer_id, producer_epoch, leader_epoch,
        transactional and control. Copies keys and values. Needs pyarrow (`kafkawire[arrow]`).

        Raises:
            ValueError: keys or values of more than 2^31 bytes in one piece.
        """
        from kafkawire.records.record_arrays import record_batch

        return record_batch(self)

    def arrow_keys(self) -> Any:
        """The keys as an Arrow binary array."""
        from kafkawire.records.record_arrays import binary

        return binary(self.data, self.key_start, self.key_length)

    def arrow_values(self) -> Any:
        """The values as an Arrow binary array."""
        from kafkawire.records.record_arrays import binary

        return binary(self.data, self.value_start, self.value_length)

    def arrow_headers(self) -> Any:
        """The headers as an Arrow list a record; their keys are bytes."""
        from kafkawire.records.record_arrays import binary, headers

        keys = binary(self.data, self.header_key_start, self.header_key_length)
        values = binary(self.data, self.header_value_start, self.header_value_length)
        return headers(self.header_count, keys, values)


def _keep_freed_memory() -> None:
    """Frees a block that was never touched, so that the C library keeps the memory of earlier pieces for the next ones.

    Otherwise the kernel clears fresh pages for every piece, which takes as long as reading its records.
    """
    np.empty(_KEPT, np.uint8)


_keep_freed_memory()


def header_arrays(item: Batches | Batch, *names: str) -> list[Int64]:
    """Fields of headers as arrays, also of one batch."""
    return [np.atleast_1d(getattr(item, name)).astype(np.int64, copy=False) for name in names]


def batches(
    data: Data,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    window: int = WINDOW,
    take: Callable[[int], int] | None = None,
) -> Iterator[Batches | Batch | Damage]:
    """The batches in `data` in order of position, as many at a time as lie whole in a window.

    Args:
        data, start, end, check_crc, max_batch_bytes: see `records.read`.
        window: bytes.
        take: called with the position of the next batch; returns the bytes of batches from there on that are not to be
            given. In their place there are `Batches` of none.
    """
    source = source_of(data)
    walk = BatchWalk(source, check_crc, max_batch_bytes, start)
    stop = source.size if end is None else min(end, source.size)
    position: int | None = start
    while position is not None and position < stop:
        taken = 0 if take is None else take(position)
        if taken:
            yield _scan(memoryview(b""), position, walk, stop)
            position += taken
            continue
        ahead = source.at(position, min(window, source.size - position, max(stop - position, _BEYOND)))
        found = _scan(ahead, position, walk, stop)
        if not len(found):
            item = walk.batch_at(position)
            if not isinstance(item, Batch):
                damage = walk.damage(position, item, stop)
                yield damage
                position = damage.resumed_at
                continue
            if item.magic != MAGIC:
                yield item
                position += item.size
                continue
            found = _scan(item.data, position, walk, stop)  # longer than the window
        yield found
        position += len(found.data)


def records(found: Batches, *, piece: int = PIECE) -> Iterator[Records]:
    """The records of batches, some batches at a time: until their records have `piece` bytes, decompressed."""
    data = np.frombuffer(found.data, np.uint8)
    first = 0
    while first < len(found):
        columns, copied, malformed, following, refused = engine.record_columns(
            data, found.start, first, piece, found.max_batch_bytes
        )
        if following > first:
            damage = tuple(_damage(found.batch(index)) for index in malformed)
            yield Records(found, data if copied is None else copied, damage, *columns)
        first = following
        if refused:
            yield _one(found, first)
            first += 1


def read(
    data: Data,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[Records | Batch | Damage]:
    """The records in `data`: `batches` and `records` in one.

    Args:
        data, start, end, check_crc, max_batch_bytes: see `records.read`.
    """
    for item in batches(data, start=start, end=end, check_crc=check_crc, max_batch_bytes=max_batch_bytes):
        if isinstance(item, Batches):
            yield from records(item)
        else:
            yield item


def _scan(data: memoryview, position: int, walk: BatchWalk, stop: int) -> Batches:
    """The batches at the beginning of `data`, which lies at `position`."""
    columns = engine.scan_batches(np.frombuffer(data, np.uint8), stop - position, walk.check_crc, walk.max_batch_bytes)
    end = int(columns[0][-1] + columns[2][-1]) if len(columns[0]) else 0
    return Batches(position, data[:end], walk.max_batch_bytes, *columns)


def _one(found: Batches, index: int) -> Records:
    """The records of a batch that the native engine did not decompress."""
    assert native is not None
    batch = found.batch(index)
    head = bytes(batch.data[: HEADER.size])
    try:
        payload = np.frombuffer(decompress(batch.codec, batch.data[HEADER.size :], batch.max_batch_bytes), np.uint8)
    except CompressionError:
        empty = np.empty(0, np.uint8)
        nothing: Any = native.payload_columns(head, empty, index)[0]
        return Records(found, empty, (_damage(batch),), *nothing)
    columns, malformed = native.payload_columns(head, payload, index)
    return Records(found, payload, (_damage(batch),) if malformed else (), *columns)


def _damage(batch: Batch) -> Damage:
    """The damage in the records of a batch, with the error text of `Batch.records`."""
    try:
        for _ in batch.records:
            pass
    except RecordError as error:
        return Damage(batch.position, "bad_records", str(error), batch.position + batch.size)
    raise AssertionError("the engines disagree on a batch's records")
