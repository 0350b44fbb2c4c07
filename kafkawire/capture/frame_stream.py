"""`FrameStream`: the frames of one direction of a connection, each with the packet of its first byte."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from kafkawire.capture.recognition import SearchResult
from kafkawire.capture.tcp_stream import Chunk, Stream
from kafkawire.errors import DecodeError
from kafkawire.frames import FrameReader

#: Length in bytes of a frame's size prefix.
SIZE = 4
#: Bytes in which a first frame is looked for. A direction with more and no frame is not Kafka's.
MAX_LOOSE_BYTES = 256 << 10


class StreamFrame(msgspec.Struct, gc=False):
    """A frame without its size prefix, with number and time of the packet of its first byte.

    Attributes:
        data: the whole frame; of one with a hole, the bytes before the hole.
        missing: bytes that the capture lacks.
        left_out: captured bytes after the first hole. They are not kept.
    """

    data: bytes
    packet: int
    time_ns: int
    missing: int = 0
    left_out: int = 0

    @property
    def size(self) -> int:
        return len(self.data) + self.missing + self.left_out


class FrameStream:
    """Splits the ordered bytes of one direction into frames, once the beginning of one is known.

    Attributes:
        stream: the reassembled TCP stream.
        from_start: the first byte of the connection was captured, so that a frame begins there.
        lost: the frame boundaries are unknown after they were known, or after bytes were missing.
        loose: bytes that belong to no frame, because no boundary is known. They are the last ones of the stream.
        skipped: bytes that were dropped since the last frame.
    """

    def __init__(self) -> None:
        self.stream = Stream()
        self.from_start = False
        self.lost = False
        self.loose = bytearray()
        self.skipped = 0
        self._wanted = 0  # loose bytes that the next search needs
        self._reader: FrameReader | None = None
        self._reader_start = 0  # position of the reader's first byte
        self._position = 0  # of the end of the bytes taken
        self._holed: StreamFrame | None = None  # an incomplete frame with a hole
        self._left = 0  # bytes to its end
        self._chunks: deque[tuple[int, int, int]] = deque()  # position, packet, time

    @property
    def synchronized(self) -> bool:
        """Whether the frame boundaries are known."""
        return self._reader is not None or self._holed is not None

    @property
    def silent(self) -> bool:
        """Whether no byte of it was captured."""
        return self._position == 0 and not self.stream.held

    @property
    def unframed(self) -> int:
        """Number of bytes that are in no complete frame."""
        if self._holed is not None:
            return SIZE + len(self._holed.data) + self._holed.left_out
        return self._reader.pending if self._reader else len(self.loose)

    @property
    def held(self) -> int:
        """Number of those bytes that are in memory."""
        return self.unframed - (0 if self._holed is None else self._holed.left_out)

    @property
    def missing(self) -> int:
        """Number of bytes of the current frame that the capture lacks."""
        return 0 if self._holed is None else self._holed.missing

    @property
    def head(self) -> bytes:
        """The bytes of the current frame, size prefix included; empty for a frame with a hole."""
        return b"" if self._reader is None else self._reader.peek()

    @property
    def first_unframed(self) -> tuple[int, int] | None:
        """Packet and time of the first unframed byte; None where there is none."""
        if self._holed is not None:
            return self._holed.packet, self._holed.time_ns
        if not self.unframed:
            return None
        return self._packet_at(self._position - self.unframed)

    def take(self, chunk: Chunk) -> Iterator[StreamFrame]:
        """Takes bytes in order; yields the frames that they complete.

        Raises:
            DecodeError: a size that no frame can have, after the frames before it. Call `lose` then.
        """
        if self._holed is not None:
            return self._behind_hole(self._holed, chunk)
        self._chunks.append((self._position, chunk.packet, chunk.time_ns))
        self._position += len(chunk.data)
        if self._reader is not None:
            return self._frames(self._reader, chunk.data)
        self.loose += chunk.data
        return iter(())

    def begin(self, offset: int) -> Iterator[StreamFrame]:
        """Sets a frame's beginning at `offset` of the loose bytes; yields the frames from there. Raises like `take`."""
        self.skipped = 0
        self._reader = FrameReader()
        self._reader_start = self._position - len(self.loose) + offset
        data = bytes(memoryview(self.loose)[offset:])
        self.loose.clear()
        return self._frames(self._reader, data)

    def bridges(self, missing: int) -> bool:
        """Whether a hole of `missing` bytes lies within the current frame."""
        if self._holed is not None:
            return missing <= self._left
        head = self.head
        if len(head) < SIZE:
            return False
        return len(head) + missing <= SIZE + int.from_bytes(head[:SIZE], "big")

    def bridge(self, missing: int) -> Iterator[StreamFrame]:
        """Skips a hole that it `bridges`; yields the frame if it ends with the hole."""
        if self._holed is None:
            assert self._reader is not None
            packet, time_ns = self._packet_at(self._position - self.unframed)
            head = self._reader.release()
            size = int.from_bytes(head[:SIZE], "big")
            self._holed, self._left = StreamFrame(head[SIZE:], packet, time_ns), SIZE + size - len(head)
            self._reader = None
        self._holed.missing += missing
        self._left -= missing
        return self._ended(self._holed) if not self._left else iter(())

    def _behind_hole(self, holed: StreamFrame, chunk: Chunk) -> Iterator[StreamFrame]:
        """Counts bytes up to the end of a frame with a hole; yields that frame and the frames after it."""
        passed = min(self._left, len(chunk.data))
        self._left -= passed
        holed.left_out += passed
        self._position += passed
        if self._left:
            return iter(())
        rest = Chunk(chunk.data[passed:], chunk.packet, chunk.time_ns)
        return itertools.chain(self._ended(holed), self.take(rest) if rest.data else ())

    def _ended(self, holed: StreamFrame) -> Iterator[StreamFrame]:
        self._holed = None
        self._reader = FrameReader()
        self._reader_start = self._position
        self._chunks.clear()
        return iter([holed])

    def lose(self) -> None:
        """Forgets the frame boundaries. The bytes of the current frame become loose; those of one with a hole are
        skipped."""
        if self._holed is not None:
            self.skipped += self.unframed
            self._holed = None
            self._chunks.clear()
        if self._reader is not None:
            self.loose[:0] = self._reader.release()
            self._reader = None
        self._wanted = 0
        self.from_start = False
        self.lost = True

    def drop(self, keep: int = 0) -> None:
        """Drops all loose bytes but the last `keep`."""
        count = max(0, len(self.loose) - keep)
        del self.loose[:count]
        self.skipped += count
        self._forget_before(self._position - len(self.loose))

    def drop_before(self, packet: int) -> None:
        """Drops the loose bytes up to the first ones of a packet, or of a later one."""
        at = next((at for at, number, _ in self._chunks if number >= packet), self._position)
        if at > self._position - len(self.loose):
            self.drop(self._position - at)
            self._wanted = 0

    def find(self, look: Callable[[bytes, set[int]], SearchResult], *, keep: bool = False) -> int | None:
        """The offset of the next frame in the loose bytes; None where there is none yet.

        Bytes in which no frame can begin are dropped, except those of the newest packet: captures swap packets, so
        these may be the response to the next request.

        Args:
            look: searches bytes, given also the offsets at which packets begin in them.
            keep: drop none.
        """
        if len(self.loose) < self._wanted:
            return None
        found = look(bytes(self.loose), self.starts())
        self._wanted = found.wanted
        if self.loose and found.offset is None and not keep:
            newest = self._chunks[-1][0] - (self._position - len(self.loose))
            passed = min(found.settled, max(0, newest))
            self.drop(len(self.loose) - passed)
            self._wanted += (found.settled - passed) * (found.wanted > 0)
        return found.offset

    @property
    def waits(self) -> bool:
        """Whether the loose bytes may begin with a frame, and what follows decides."""
        return self._wanted > 0

    def withdraw(self) -> list[Chunk]:
        """Takes the loose bytes out, as chunks with their packets."""
        start = self._position - len(self.loose)
        found = [
            Chunk(bytes(self.loose[max(0, at - start) : end - start]), packet, time_ns)
            for (at, packet, time_ns), (end, *_) in itertools.pairwise((*self._chunks, (self._position,)))
            if end > start
        ]
        self.loose.clear()
        self._chunks.clear()
        return found

    def look_again(self) -> None:
        """Lets the next `find` search even if few bytes have come."""
        self._wanted = 0

    def starts(self) -> set[int]:
        """Offsets in the loose bytes at which packets begin."""
        start = self._position - len(self.loose)
        return {position - start for position, _, _ in self._chunks if position >= start}

    def _frames(self, reader: FrameReader, data: bytes) -> Iterator[StreamFrame]:
        start = reader.position
        try:
            for frame in reader.feed(data):
                yield StreamFrame(frame, *self._packet_at(self._reader_start + start))
                start = reader.position
        except DecodeError as error:
            raise DecodeError(
                expected=error.expected, found=error.found, offset=self._reader_start + error.offset
            ) from None

    def _packet_at(self, position: int) -> tuple[int, int]:
        """Packet and time of the byte at a position."""
        self._forget_before(position)
        return self._chunks[0][1:]

    def _forget_before(self, position: int) -> None:
        while len(self._chunks) > 1 and self._chunks[1][0] <= position:
            self._chunks.popleft()
