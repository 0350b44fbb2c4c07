"""Walking over record batches, one after the other, through whatever damage lies between them.

`read` yields what it meets in order of position: each `Batch`, and a `Damage` for each stretch of bytes that holds
none. After damage it goes on at the next batch that is proven by its magic, a sane length and its checksum. The work is
linear in the size of the data, whatever the bytes claim.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import NoReturn, Protocol

import crc32c
import msgspec

from kafkawire.errors import RecordError
from kafkawire.records import legacy
from kafkawire.records.batch import CHECKSUMMED, HEADER, LOG_OVERHEAD, MAGIC, Batch
from kafkawire.records.candidates import HIGHEST_OFFSET, REACH, SHORTEST_BATCH, candidates
from kafkawire.records.compression import MAX_BATCH_BYTES

#: Least length of a batch by its magic, which stands at the same place in all of them.
_SHORTEST = {**legacy.SHORTEST, MAGIC: SHORTEST_BATCH}
_MAGIC_AT = 16
_MAGIC = struct.Struct(">b")
_LENGTH = struct.Struct(">i")
_PROOF_FACTOR = 16
_WINDOW = 1 << 20
_SEARCHED = 1 << 18
_ZEROS = bytes(_WINDOW)


class Source(Protocol):
    """Bytes at positions: a file read in windows, or memory."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def at(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on; fewer only where the bytes end."""


class Memory:
    """A `Source` over bytes in memory."""

    __slots__ = ("_view", "size")

    def __init__(self, data: bytes | bytearray | memoryview | mmap) -> None:
        self._view = memoryview(data).cast("B")
        self.size = len(self._view)

    def at(self, position: int, length: int) -> memoryview:
        return self._view[position : position + length]


class Damage(msgspec.Struct, frozen=True, gc=False):
    """A stretch of bytes that holds no batch which could be read.

    Attributes:
        position: where it begins.
        reason: `truncated`, `bad_length`, `bad_header`, `unknown_magic`, `crc_mismatch`, `too_large`, `zeros`, or
            `preallocated` (zeros up to the end, as of a log that is preallocated).
        detail: what was found, in words.
        resumed_at: position of the next batch that was proven; None where none follows in the range that is read.
    """

    position: int
    reason: str
    detail: str
    resumed_at: int | None = None

    @property
    def harmless(self) -> bool:
        """Whether nothing can be missing: the unused end of a preallocated file."""
        return self.reason == "preallocated"

    @property
    def records(self) -> NoReturn:
        """Raises the damage as an error: whoever takes it for a batch is told."""
        raise self.error()

    @property
    def control(self) -> NoReturn:
        """Raises the damage as an error: whoever takes it for a batch is told."""
        raise self.error()

    def error(self) -> RecordError:
        return RecordError(expected="a record batch", found=f"{self.reason}: {self.detail}", offset=self.position)


def read(
    data: bytes | bytearray | memoryview | mmap | Source,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[Batch | Damage]:
    """The batches in `data`, and the damage between them, in order of position.

    Args:
        start: the beginning of a batch (see `find_batch`).
        end: only what begins before it; a batch may end behind it.
        check_crc: compare every batch's checksum. Without it, a batch is believed by its length, nothing but headers is
            looked at, and wrappers of magic 0 and 1 are not `measured`.
        max_batch_bytes: most bytes of a batch, in the file and decompressed; a longer one is damage.
    """
    source = data if not isinstance(data, (bytes, bytearray, memoryview, mmap)) else Memory(data)
    walk = _Walk(source, check_crc, max_batch_bytes, start)
    stop = source.size if end is None else min(end, source.size)
    position: int | None = start
    while position is not None and position < stop:
        found = walk.batch_at(position)
        if isinstance(found, Batch):
            yield found
            position += found.batch_length + LOG_OVERHEAD
        else:
            damage = walk.damage(position, found, stop)
            yield damage
            position = damage.resumed_at


def find_batch(
    data: bytes | bytearray | memoryview | mmap | Source,
    start: int = 0,
    end: int | None = None,
    *,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> int | None:
    """Position of the first batch that begins in `[start, end)` and is proven by its checksum; None where none does.

    Lets a file be split anywhere: whoever owns a range reads the batches that begin in it.
    """
    source = data if not isinstance(data, (bytes, bytearray, memoryview, mmap)) else Memory(data)
    stop = source.size if end is None else min(end, source.size)
    return _Walk(source, True, max_batch_bytes, start).find(start, stop)


class _Fault(msgspec.Struct, frozen=True):
    """Why there is no batch at a position; `next` is where the bytes there say that the next one begins."""

    reason: str
    detail: str
    next: int | None = None


class _Walk:
    """Reads batches at positions of a source.

    Proving a batch means a checksum over its claimed length, and crafted bytes could claim a long one at every
    position. So what is checksummed for proofs (`proved`, in bytes) may not exceed a multiple of what was walked over,
    beyond one batch of the largest size.
    """

    def __init__(self, source: Source, check_crc: bool, max_batch_bytes: int, start: int) -> None:
        self.source = source
        self.size = source.size
        self.at = source.at
        self.check_crc = check_crc
        self.max_batch_bytes = max_batch_bytes
        self.start = start
        self.proved = 0

    def batch_at(self, position: int) -> Batch | _Fault:
        """The batch that begins there, or why there is none."""
        head = self.at(position, HEADER.size)
        if len(head) > _MAGIC_AT and head[_MAGIC_AT] < MAGIC:
            return self._message_at(position, head)
        if len(head) < HEADER.size:
            return self._fault(position, head)
        fields = HEADER.unpack(head)
        length = fields[1]
        if fields[3] != MAGIC or not SHORTEST_BATCH <= length <= self.max_batch_bytes:
            return self._fault(position, head)
        data = self._whole(position, length + LOG_OVERHEAD)
        if not isinstance(data, memoryview):
            return data
        if self.check_crc:
            computed = crc32c.crc32c(data[CHECKSUMMED:])
            if computed != fields[4]:
                return _crc_mismatch(fields[4], computed, position + len(data))
        batch = Batch(position, data, self.max_batch_bytes, *fields)
        if batch.record_count < 0 or batch.last_offset_delta < 0 or not 0 <= batch.base_offset <= HIGHEST_OFFSET:
            detail = (
                f"base offset {batch.base_offset}, last offset delta {batch.last_offset_delta}, "
                f"{batch.record_count} records"
            )
            return _Fault("bad_header", detail, position + len(data))
        return batch

    def _message_at(self, position: int, head: memoryview) -> Batch | _Fault:
        """The message of magic 0 or 1 that begins there, or why there is none."""
        length = _LENGTH.unpack_from(head, 8)[0]
        if not legacy.SHORTEST[head[_MAGIC_AT]] <= length <= self.max_batch_bytes:
            return self._fault(position, head)
        data = self._whole(position, length + LOG_OVERHEAD)
        if not isinstance(data, memoryview):
            return data
        fields = legacy.header(data)
        if self.check_crc:
            computed = legacy.checksum(data)
            if computed != fields[4]:
                return _crc_mismatch(fields[4], computed, position + len(data))
        batch = Batch(position, data, self.max_batch_bytes, *fields)
        if not 0 <= batch.base_offset <= HIGHEST_OFFSET:
            return _Fault("bad_header", f"offset {batch.base_offset}", position + len(data))
        return batch.measured() if self.check_crc else batch

    def _whole(self, position: int, size: int) -> memoryview | _Fault:
        if size > self.size - position:
            return _Fault("truncated", f"{self.size - position} of a batch's {size} bytes")
        data = self.at(position, size)
        if len(data) < size:
            return _Fault("truncated", f"the file became shorter: {len(data)} of a batch's {size} bytes")
        return data

    def _fault(self, position: int, head: memoryview) -> _Fault:
        """Why a header's first bytes are none."""
        if not any(head):
            return _Fault("zeros", "a batch header of zeros")
        magic = _MAGIC.unpack_from(head, _MAGIC_AT)[0] if len(head) > _MAGIC_AT else None
        if magic in _SHORTEST:
            length = _LENGTH.unpack_from(head, 8)[0]
            if length > self.max_batch_bytes:
                return _Fault("too_large", f"a batch of {length} bytes, above the limit of {self.max_batch_bytes}")
            if length < _SHORTEST[magic]:
                return _Fault("bad_length", f"a batch length of {length}, below {_SHORTEST[magic]}")
        elif magic is not None:
            return _Fault("unknown_magic", f"magic {magic}")
        return _Fault("truncated", f"{self.size - position} of a batch header's {HEADER.size} bytes")

    def damage(self, position: int, fault: _Fault, stop: int) -> Damage:
        """The damage that begins at `position`: how far it reaches, looked at up to `stop`."""
        if fault.reason == "zeros" and self._zeros_to_end(position):
            return Damage(position, "preallocated", f"{self.size - position} zero bytes up to the end")
        after = fault.next
        if after is not None and self._proven(after):
            return Damage(position, fault.reason, fault.detail, after)
        resumed_at = self.find(position + 1, stop)
        reason = "bad_length" if fault.reason == "truncated" and resumed_at is not None else fault.reason
        return Damage(position, reason, fault.detail, resumed_at)

    def find(self, start: int, stop: int) -> int | None:
        """Position of the first proven batch that begins in `[start, stop)`."""
        stop = min(stop, self.size)
        while start < stop:
            # The window reaches over the header of a batch that begins at its end.
            window = bytes(self.at(start, min(_SEARCHED, stop - start) + REACH - 1))
            longest = self.max_batch_bytes + LOG_OVERHEAD
            for place, size in candidates(window, min(_SEARCHED, stop - start), self.size - start, longest):
                if size <= self._affordable(start + place) and self._proven(start + place):
                    return start + place
            if len(window) < REACH:
                return None
            start += _SEARCHED
        return None

    def _proven(self, position: int) -> bool:
        """Whether a batch of that magic, length and checksum is there."""
        head = self.at(position, _MAGIC_AT + 1)
        if len(head) <= _MAGIC_AT or head[_MAGIC_AT] not in _SHORTEST:
            return False
        magic, length = head[_MAGIC_AT], _LENGTH.unpack_from(head, 8)[0]
        size = length + LOG_OVERHEAD
        longest = min(self.size - position, self.max_batch_bytes + LOG_OVERHEAD, self._affordable(position))
        if length < _SHORTEST[magic] or size > longest:
            return False
        self.proved += size
        data = self.at(position, size)
        if len(data) < size:
            return False
        if magic == MAGIC:
            return crc32c.crc32c(data[CHECKSUMMED:]) == int.from_bytes(data[17:21], "big")
        return legacy.checksum(data) == int.from_bytes(data[12:16], "big")

    def _affordable(self, position: int) -> int:
        """How many bytes may still be checksummed to prove a batch."""
        return self.max_batch_bytes + _PROOF_FACTOR * (position - self.start) - self.proved

    def _zeros_to_end(self, position: int) -> bool:
        while position < self.size:
            window = self.at(position, _WINDOW)
            if bytes(window) != _ZEROS[: len(window)]:  # a view would be compared byte by byte
                return False
            if not window:
                break  # the file became shorter
            position += len(window)
        return True


def _crc_mismatch(stored: int, computed: int, after: int) -> _Fault:
    return _Fault("crc_mismatch", f"the checksum is {stored:#010x}, that of the bytes {computed:#010x}", after)
