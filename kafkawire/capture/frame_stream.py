"""`FrameStream`: one direction of a connection, from segments to frames, each with the packet in which it began."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from kafkawire.capture.recognition import SearchResult
from kafkawire.capture.tcp_stream import Chunk, Stream
from kafkawire.errors import DecodeError
from kafkawire.frames import FrameReader

#: Bytes of a frame's size.
SIZE = 4
#: What a connection may carry before its first frame is found, if it is not to be taken for something else than Kafka.
MAX_LOOSE_BYTES = 256 << 10


#: What is handed over of a frame that is not whole yet: copying it back and forth must not cost more than the packets.
_MOST_HANDED_OVER = 64 << 10

#: See `Stream.state` and `Stream.resume`; then the beginning of a frame that is not whole yet, and of the packets that
#: it came in the place in it and when that was.
DirectionState = tuple[int, int, tuple[int, int], bytes, bytes, list[tuple[int, tuple[int, int]]]]
#: The same of a side that comes back, and whether its sender has said all.
ResumedState = tuple[int, int, tuple[int, int], bytes, bytes, list[tuple[int, tuple[int, int]]], bool]


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame (without its size), and where its first byte was.

    Attributes:
        data: all of it; of one with a hole, what stands before that.
        missing: bytes that the capture lacks.
        left_out: of a frame with a hole, bytes behind the first one.
    """

    data: bytes
    packet: int
    time_ns: int
    missing: int = 0
    left_out: int = 0

    @property
    def size(self) -> int:
        return len(self.data) + self.missing + self.left_out


class _Holed(msgspec.Struct):
    """A frame with a hole, until its end: `left` bytes more. The rest as in `Frame`."""

    data: bytes
    packet: int
    time_ns: int
    missing: int
    left_out: int
    left: int


class FrameStream:
    """Cuts the ordered bytes of one direction into frames, once it is known where one begins.

    Attributes:
        stream: puts the segments in order.
        from_start: nothing before the first byte is missing: a frame begins there.
        lost: once it was known where frames begin, or bytes were missing, and it is not known any longer.
        loose: bytes, from `position` of the stream on, that are in no frame since no beginning is known.
        skipped: bytes that were given up since the last frame.
    """

    def __init__(self) -> None:
        self.stream = Stream()
        self.from_start = False
        self.lost = False
        self.loose = bytearray()
        self.skipped = 0
        self._wanted = 0  # loose bytes that it takes to find a frame in them
        self._reader: FrameReader | None = None
        self._reader_start = 0  # position of the reader's first byte
        self._position = 0  # of the end of what was taken
        self._holed: _Holed | None = None
        self._chunks: deque[tuple[int, int, int]] = deque()  # position, packet, time

    @property
    def synchronized(self) -> bool:
        """Whether it is known where frames begin."""
        return self._reader is not None or self._holed is not None

    @property
    def unframed(self) -> int:
        """Bytes that are not in a frame (yet)."""
        if self._holed is not None:
            return SIZE + len(self._holed.data) + self._holed.left_out
        return self._reader.pending if self._reader else len(self.loose)

    @property
    def held(self) -> int:
        """Of those, the ones that are in memory."""
        return self.unframed - (0 if self._holed is None else self._holed.left_out)

    @property
    def missing(self) -> int:
        """Bytes that the capture lacks of the current frame."""
        return 0 if self._holed is None else self._holed.missing

    @property
    def head(self) -> bytes:
        """What is there of the current frame, from its size on, if it has no hole yet."""
        return b"" if self._reader is None else self._reader.peek()

    @property
    def first_unframed(self) -> tuple[int, int] | None:
        """Packet and time of the first of those; None where there is none."""
        if self._holed is not None:
            return self._holed.packet, self._holed.time_ns
        if not self.unframed:
            return None
        return self._packet_at(self._position - self.unframed)

    def take(self, chunk: Chunk) -> Iterator[Frame]:
        """Bytes in order; the frames that they complete.

        Raises:
            DecodeError: a size that no frame has; the frames before it come first. Then call `lose`.
        """
        if self._holed is not None:
            return self._behind_hole(self._holed, chunk)
        self._chunks.append((self._position, chunk.packet, chunk.time_ns))
        self._position += len(chunk.data)
        if self._reader is not None:
            return self._frames(self._reader, chunk.data)
        self.loose += chunk.data
        return iter(())

    def begin(self, offset: int) -> Iterator[Frame]:
        """A frame begins at `offset` of the loose bytes: the frames from there on. Raises as `take` does."""
        self.skipped = 0
        self._reader = FrameReader()
        self._reader_start = self._position - len(self.loose) + offset
        data = bytes(memoryview(self.loose)[offset:])
        self.loose.clear()
        return self._frames(self._reader, data)

    def bridges(self, missing: int) -> bool:
        """Whether so many bytes, which are not there, are all of the current frame's."""
        if self._holed is not None:
            return missing <= self._holed.left
        head = self.head
        if len(head) < SIZE:
            return False
        return len(head) + missing <= SIZE + int.from_bytes(head[:SIZE], "big")

    def bridge(self, missing: int) -> Iterator[Frame]:
        """Passes over a hole that it `bridges`; the frame, if it ends there."""
        if self._holed is None:
            assert self._reader is not None
            packet, time_ns = self._packet_at(self._position - self.unframed)
            head = self._reader.release()
            size = int.from_bytes(head[:SIZE], "big")
            self._holed = _Holed(head[SIZE:], packet, time_ns, 0, 0, SIZE + size - len(head))
            self._reader = None
        self._holed.missing += missing
        self._holed.left -= missing
        return self._ended(self._holed) if not self._holed.left else iter(())

    def _behind_hole(self, holed: _Holed, chunk: Chunk) -> Iterator[Frame]:
        """Bytes of a frame whose beginning is known: what is missing of it says nothing of where they belong."""
        passed = min(holed.left, len(chunk.data))
        holed.left -= passed
        holed.left_out += passed
        self._position += passed
        if holed.left:
            return iter(())
        rest = Chunk(chunk.data[passed:], chunk.packet, chunk.time_ns)
        return itertools.chain(self._ended(holed), self.take(rest) if rest.data else ())

    def _ended(self, holed: _Holed) -> Iterator[Frame]:
        self._holed = None
        self._reader = FrameReader()
        self._reader_start = self._position
        self._chunks.clear()
        return iter([Frame(holed.data, holed.packet, holed.time_ns, holed.missing, holed.left_out)])

    def lose(self) -> None:
        """It is no longer known where frames begin: bytes of the current one are looked through for another, if it has
        no hole."""
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
        """Give up loose bytes but the last `keep`."""
        count = max(0, len(self.loose) - keep)
        del self.loose[:count]
        self.skipped += count
        self._forget_before(self._position - len(self.loose))

    def find(self, look: Callable[[bytes, set[int]], SearchResult]) -> int | None:
        """Offset of the next frame in the loose bytes, as `look` finds it; bytes that cannot begin one are given up."""
        if len(self.loose) < self._wanted:
            return None
        found = look(bytes(self.loose), self._starts())
        self._wanted = found.wanted
        if found.offset is None:
            self.drop(len(self.loose) - found.settled)
        return found.offset

    @property
    def in_order(self) -> bool:
        """Whether all that is left to do is to cut what comes next into frames (and little of one is there yet)."""
        return self._reader is not None and self.stream.in_order and self.unframed <= _MOST_HANDED_OVER

    def hand_over(self) -> DirectionState:
        """What the native `Lanes` needs to go on with a side that is in order; to be followed by `resume`."""
        assert self._reader is not None
        pending = self._reader.release()
        start = self._position - len(pending)
        self._forget_before(start)
        chunks = [(position - start, (packet, time_ns)) for position, packet, time_ns in self._chunks]
        return (*self.stream.state(), pending, chunks if pending else [])

    def resume(self, state: ResumedState) -> None:
        """Goes on with what the native `Lanes` has made of it."""
        advanced, acknowledged, last, recent, pending, chunks, closed = state
        self.stream.resume(advanced, acknowledged, last, recent, closed)
        self._position += advanced
        start = self._position - len(pending)
        self._chunks = deque((start + place, *moment) for place, moment in chunks)
        self._reader = FrameReader()
        self._reader_start = start
        unfinished = list(self._reader.feed(pending))
        assert not unfinished

    def look_again(self) -> None:
        """The next `find` looks, however few bytes came."""
        self._wanted = 0

    def _starts(self) -> set[int]:
        """Offsets in the loose bytes at which packets begin."""
        start = self._position - len(self.loose)
        return {position - start for position, _, _ in self._chunks if position >= start}

    def _frames(self, reader: FrameReader, data: bytes) -> Iterator[Frame]:
        start = reader.position
        try:
            for frame in reader.feed(data):
                yield Frame(frame, *self._packet_at(self._reader_start + start))
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
