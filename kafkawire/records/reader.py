"""Walking over record batches, one after the other, through whatever damage lies between them.

`read` yields what it meets in order of position: each `Batch`, and a `Damage` for each stretch of bytes that holds
none. After damage it goes on at the next batch that is proven by its magic, a sane length and its checksum. The work is
linear in the size of the data, whatever the bytes claim.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from mmap import mmap
from typing import NoReturn, Protocol

import crc32c
import msgspec

from kafkawire.errors import RecordError
from kafkawire.records.batch import CHECKSUMMED, HEADER, KNOWN_ATTRIBUTES, LOG_OVERHEAD, MAGIC, Batch
from kafkawire.records.compression import CODECS, MAX_BATCH_BYTES

_SHORTEST = HEADER.size - LOG_OVERHEAD
#: A base offset above this is not believed: the offsets after it would overflow.
_HIGHEST_OFFSET = (1 << 63) - (1 << 32)
#: crc, magic, attributes, (timestamp from magic 1 on), key and value length of a message of magic 0 and 1.
_LEGACY_SHORTEST = {0: 14, 1: 22}
_LEGACY_CHECKSUMMED = 16
_PROOF_FACTOR = 16
_WINDOW = 1 << 20
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
        reason: `truncated`, `bad_length`, `bad_header`, `unknown_magic`, `unsupported_magic` (0 and 1), `crc_mismatch`,
            `too_large`, `zeros`, or `preallocated` (zeros up to the end, as of a log that is preallocated).
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
        start, end: only what begins in `[start, end)`; a batch may end behind `end`. `start` is the beginning of a
            batch (see `find_batch`).
        check_crc: compare every batch's checksum. Without it, a batch is believed by its length.
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
        if len(head) < HEADER.size:
            return self._fault(position, head)
        fields = HEADER.unpack(head)
        length = fields[1]
        if fields[3] != MAGIC or not _SHORTEST <= length <= self.max_batch_bytes:
            return self._fault(position, head)
        size = length + LOG_OVERHEAD
        if size > self.size - position:
            return _Fault("truncated", f"{self.size - position} of a batch's {size} bytes")
        data = self.at(position, size)
        if len(data) < size:
            return _Fault("truncated", f"the file became shorter: {len(data)} of a batch's {size} bytes")
        batch = Batch(position, data, self.max_batch_bytes, *fields)
        if self.check_crc:
            computed = crc32c.crc32c(data[CHECKSUMMED:])
            if computed != batch.crc:
                detail = f"the checksum is {batch.crc:#010x}, that of the bytes {computed:#010x}"
                return _Fault("crc_mismatch", detail, position + size)
        if batch.record_count < 0 or batch.last_offset_delta < 0 or not 0 <= batch.base_offset <= _HIGHEST_OFFSET:
            detail = (
                f"base offset {batch.base_offset}, last offset delta {batch.last_offset_delta}, "
                f"{batch.record_count} records"
            )
            return _Fault("bad_header", detail, position + size)
        return batch

    def _fault(self, position: int, head: memoryview) -> _Fault:
        """Why a header's first bytes are none."""
        left = self.size - position
        if len(head) > LOG_OVERHEAD + 4:
            length = int.from_bytes(head[8:12], "big", signed=True)
            magic = int.from_bytes(head[16:17], "big", signed=True)
            if magic in _LEGACY_SHORTEST and self._legacy_size(position):
                end, count = self._legacy_run(position)
                return _Fault(
                    "unsupported_magic", f"{count} message{'s' * (count > 1)} of magic {magic}, not read yet", end
                )
            if magic == MAGIC and length > self.max_batch_bytes:
                return _Fault("too_large", f"a batch of {length} bytes, above the limit of {self.max_batch_bytes}")
            if len(head) == HEADER.size and any(head):
                if magic != MAGIC:
                    return _Fault("unknown_magic", f"magic {magic}")
                return _Fault("bad_length", f"a batch length of {length}, below {_SHORTEST}")
        if not any(head):
            return _Fault("zeros", "a batch header of zeros")
        return _Fault("truncated", f"{left} of a batch header's {HEADER.size} bytes")

    def damage(self, position: int, fault: _Fault, stop: int) -> Damage:
        """The damage that begins at `position`: how far it reaches, looked at up to `stop`."""
        if fault.reason == "zeros" and self._zeros_to_end(position):
            return Damage(position, "preallocated", f"{self.size - position} zero bytes up to the end")
        after = fault.next
        if after is not None and (fault.reason == "unsupported_magic" or self._proven(after)):
            return Damage(position, fault.reason, fault.detail, after if after < self.size else None)
        resumed_at = self.find(position + 1, stop)
        reason = "bad_length" if fault.reason == "truncated" and resumed_at is not None else fault.reason
        return Damage(position, reason, fault.detail, resumed_at)

    def find(self, start: int, stop: int) -> int | None:
        """Position of the first proven batch that begins in `[start, stop)`."""
        while start < stop:
            # The window reaches over the header of a batch that begins at its end.
            window = bytes(self.at(start, min(_WINDOW, stop - start) + HEADER.size - 1))
            magic_at = window.find(MAGIC, 16)
            while magic_at >= 0 and magic_at - 16 < min(_WINDOW, stop - start):
                if _plausible(window, magic_at - 16) and self._proven(start + magic_at - 16):
                    return start + magic_at - 16
                magic_at = window.find(MAGIC, magic_at + 1)
            if len(window) < HEADER.size:
                return None
            start += _WINDOW
        return None

    def _proven(self, position: int) -> bool:
        head = self.at(position, HEADER.size)
        if len(head) < HEADER.size or not _plausible(head, 0):
            return False
        size = int.from_bytes(head[8:12], "big") + LOG_OVERHEAD
        affordable = self.max_batch_bytes + _PROOF_FACTOR * (position - self.start) - self.proved
        if size > min(self.size - position, self.max_batch_bytes + LOG_OVERHEAD, affordable):
            return False
        self.proved += size
        data = self.at(position, size)
        return len(data) == size and crc32c.crc32c(data[CHECKSUMMED:]) == int.from_bytes(head[17:21], "big")

    def _zeros_to_end(self, position: int) -> bool:
        while position < self.size:
            window = self.at(position, _WINDOW)
            if window != _ZEROS[: len(window)]:
                return False
            if not window:
                break  # the file became shorter
            position += len(window)
        return True

    def _legacy_size(self, position: int) -> int:
        """Bytes of the message of magic 0 or 1 that begins there, 0 where none does that its checksum proves."""
        head = self.at(position, LOG_OVERHEAD + 5)
        if len(head) < LOG_OVERHEAD + 5:
            return 0
        length = int.from_bytes(head[8:12], "big", signed=True)
        shortest = _LEGACY_SHORTEST.get(head[16], self.max_batch_bytes)
        if not shortest <= length <= min(self.size - position - LOG_OVERHEAD, self.max_batch_bytes):
            return 0
        data = self.at(position, length + LOG_OVERHEAD)
        stored = int.from_bytes(data[12:16], "big")
        return len(data) if zlib.crc32(data[_LEGACY_CHECKSUMMED:]) == stored else 0

    def _legacy_run(self, position: int) -> tuple[int, int]:
        """Where a run of messages of magic 0 and 1 ends, and how many they are."""
        count = 0
        while size := self._legacy_size(position):
            position += size
            count += 1
        return position, count


def _plausible(data: bytes | memoryview, position: int) -> bool:
    """Whether a header of sane values begins there. Cheap; a checksum has the last word."""
    if len(data) - position < HEADER.size:
        return False
    offset, length, epoch, magic, _, attributes, delta, *_, count = HEADER.unpack_from(data, position)
    return bool(
        magic == MAGIC
        and length >= _SHORTEST
        and 0 <= offset <= _HIGHEST_OFFSET
        and epoch >= -1
        and 0 <= attributes <= KNOWN_ATTRIBUTES
        and attributes & 7 < len(CODECS)
        and delta >= 0
        and 0 <= count <= delta + 1
    )
