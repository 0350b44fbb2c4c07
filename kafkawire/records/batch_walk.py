"""`BatchWalk`: reads the batch at a position of a source; where there is none, it gives the reason and the next
batch."""

from __future__ import annotations

import msgspec

from kafkawire.errors import ended_at
from kafkawire.records import legacy
from kafkawire.records.batch import Batch
from kafkawire.records.candidates import REACH, candidates
from kafkawire.records.damage import Damage
from kafkawire.records.header import (
    HEADER,
    HIGHEST_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SHORTEST,
    checksum,
    length_of,
    stored_checksum,
)
from kafkawire.records.legacy import KEY_AT
from kafkawire.records.source import Source, WatchedSource

#: How many bytes are checksummed for proofs, at most, per byte that was walked over.
_PROOF_FACTOR = 16
#: How many bytes are searched for a batch, or compared with zeros, in one go: few at first, since the next batch may be
#: close and more damage after it, then twice as many each time.
_SMALLEST = 1 << 10
_SEARCHED = 1 << 18
_WINDOW = 1 << 20
_ZEROS = bytes(_WINDOW)


class BatchFault(msgspec.Struct, frozen=True):
    """Why there is no batch at a position (see `Damage`); `next` is where the next one begins by the length that is
    stored there, if all of its bytes are present. `shortened`: the file became shorter while it was read."""

    reason: str
    detail: str
    next: int | None = None
    shortened: bool = False


class BatchWalk:
    """Reads batches at positions of a source.

    A batch is proven by a checksum over its claimed length, and crafted bytes could claim a long one at every position.
    So the bytes that are checksummed for proofs (`proved`) are limited to one batch of the largest size and a multiple
    of the bytes that were walked over.

    Args:
        check_crc, max_batch_bytes, check_offsets: see `read`.
        start: where the walk begins.
    """

    def __init__(
        self, source: Source, check_crc: bool, max_batch_bytes: int, start: int, check_offsets: bool = True
    ) -> None:
        self.size = source.size
        self.at = source.at
        self._watched = WatchedSource(source)
        self.check_crc = check_crc
        self.check_offsets = check_offsets
        self.max_batch_bytes = max_batch_bytes
        self.longest = max_batch_bytes + LOG_OVERHEAD
        self.start = start
        self.proved = 0

    def batch_at(self, position: int) -> Batch | BatchFault:
        """The batch that begins there, or why there is none."""
        head = self.at(position, HEADER.size)
        magic = head[MAGIC_AT] if len(head) > MAGIC_AT else -1
        if magic == MAGIC and len(head) == HEADER.size:
            fields = HEADER.unpack(head)
        elif magic in KEY_AT and len(head) > KEY_AT[magic]:
            fields = legacy.header(head)
        else:
            return self._fault(position, head)
        length = fields[1]
        if not SHORTEST[magic] <= length <= self.max_batch_bytes:
            return self._fault(position, head)
        size = length + LOG_OVERHEAD
        if size > self.size - position:
            return BatchFault("truncated", f"{self.size - position} of a batch's {size} bytes")
        data = self.at(position, size)
        if len(data) < size:
            return self._shortened(position + len(data))
        if data.obj is not head.obj and data[: len(head)] != head[: len(data)]:
            return BatchFault("bad_header", "the bytes changed while they were read")
        batch = Batch(position, data, self.max_batch_bytes, *fields)
        if self.check_crc and (computed := checksum(data)) != batch.crc:
            detail = f"the checksum is {batch.crc:#010x}, that of the bytes {computed:#010x}"
            return BatchFault("crc_mismatch", detail, position + size)
        if magic == MAGIC:
            if batch.record_count >= 0 and batch.last_offset_delta >= 0 and self._may_have(batch.base_offset):
                return batch
            detail = (
                f"base offset {batch.base_offset}, last offset delta {batch.last_offset_delta}, "
                f"{batch.record_count} records"
            )
            return BatchFault("bad_header", detail, position + size)
        if not self._may_have(batch.base_offset):
            return BatchFault("bad_header", f"offset {batch.base_offset}", position + size)
        return batch.measured() if self.check_crc else batch

    def _may_have(self, offset: int) -> bool:
        return not self.check_offsets or 0 <= offset <= HIGHEST_OFFSET

    def _fault(self, position: int, head: memoryview) -> BatchFault:
        """The reason why bytes are not the beginning of a header."""
        if len(head) < min(HEADER.size, self.size - position):
            return self._shortened(position + len(head))
        if not any(head):
            return BatchFault("zeros", "a batch header of zeros")
        if len(head) > MAGIC_AT:
            shortest, length = SHORTEST.get(head[MAGIC_AT]), length_of(head)
            if shortest is None:
                magic = int.from_bytes(head[MAGIC_AT : MAGIC_AT + 1], "big", signed=True)
                return BatchFault("unknown_magic", f"magic {magic}")
            if length > self.max_batch_bytes:
                return BatchFault("too_large", f"a batch of {length} bytes, above the limit of {self.max_batch_bytes}")
            if length < shortest:
                return BatchFault("bad_length", f"a batch length of {length}, below {shortest}")
        return BatchFault("truncated", f"{self.size - position} of a batch header's {HEADER.size} bytes")

    def _shortened(self, reached: int) -> BatchFault:
        return BatchFault("truncated", ended_at(self._watched.short(reached), self.size), shortened=True)

    def damage(self, position: int, fault: BatchFault, stop: int) -> Damage:
        """The damage that begins at `position`, and how far it reaches.

        Args:
            position: byte offset in the source.
            fault: why no batch begins there.
            stop: byte offset up to which the next batch is searched.
        """
        if fault.shortened:  # bytes written there later do not continue what was read
            return Damage(position, fault.reason, fault.detail, shortened=True)
        if fault.reason == "zeros" and self._zeros_to_end(position):
            return Damage(position, "preallocated", f"{self.size - position} zero bytes up to the end")
        if fault.next is not None and self._proven(fault.next):
            return Damage(position, fault.reason, fault.detail, fault.next)
        resumed_at = self.find(position + 1, stop)
        ended = self._watched.ended
        if resumed_at is None and ended is not None:
            return Damage(position, "truncated", f"{fault.detail}; {ended_at(ended, self.size)}", shortened=True)
        reason = "bad_length" if fault.reason == "truncated" and resumed_at is not None else fault.reason
        return Damage(position, reason, fault.detail, resumed_at)

    def find(self, start: int, stop: int) -> int | None:
        """Position of the first proven batch that begins in `[start, stop)`."""
        stop = min(stop, self.size)
        most = _SMALLEST
        while start < stop:
            # The window reaches over the header of a batch that begins at its end.
            count = min(most, stop - start)
            window = bytes(self._watched.at(start, count + REACH - 1))
            for place, size in candidates(window, count, self.size - start, self.longest):
                if size <= self._affordable(start + place) and self._proven(start + place):
                    return start + place
            if len(window) < REACH:
                return None
            start += count
            most = min(2 * most, _SEARCHED)
        return None

    def _proven(self, position: int) -> bool:
        """Whether a batch of a known magic, a sane length and the right checksum is there."""
        head = self._watched.at(position, MAGIC_AT + 1)
        if len(head) <= MAGIC_AT or head[MAGIC_AT] not in SHORTEST:
            return False
        length = length_of(head)
        size = length + LOG_OVERHEAD
        longest = min(self.size - position, self.longest, self._affordable(position))
        if length < SHORTEST[head[MAGIC_AT]] or size > longest:
            return False
        self.proved += size
        data = self._watched.at(position, size)
        return len(data) == size and checksum(data) == stored_checksum(data)

    def _affordable(self, position: int) -> int:
        """How many bytes may still be checksummed to prove a batch."""
        return self.longest + _PROOF_FACTOR * (position - self.start) - self.proved

    def _zeros_to_end(self, position: int) -> bool:
        most = _SMALLEST
        while position < self.size:
            window = self._watched.at(position, most)
            if not window or bytes(window) != _ZEROS[: len(window)]:  # a view would be compared byte by byte
                return False
            position += len(window)
            most = min(2 * most, _WINDOW)
        return True
