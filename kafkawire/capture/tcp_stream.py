"""`Stream`: one direction of a TCP connection, segments in, bytes in order out (sans-IO).

The first copy of a byte counts; retransmissions and overlaps are dropped, and reported as a `Conflict` where they say
something else (as far back as `RECENT_BYTES`). Segments ahead of the order are held until the bytes before them arrive.
A hole is given up, and reported as a `Loss`, when the receiver has acknowledged bytes behind it (then it had what the
capture lacks; a few more segments are waited for, since captures may swap packets), when more is held than is allowed,
and at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import msgspec

#: Segments of the connection that may follow before a hole that was acknowledged is given up.
PATIENCE = 16
#: Most bytes held for one direction.
MAX_HELD_BYTES = 4 << 20
#: How many of the bytes that were in order already are kept, to compare what comes again with them.
RECENT_BYTES = 2 << 10


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Bytes in order, and the packet that they came in."""

    data: bytes
    packet: int
    time_ns: int


class Loss(msgspec.Struct, frozen=True, gc=False):
    """Bytes that the capture lacks, before what comes next. The packet is the one that showed it."""

    missing: int
    packet: int
    time_ns: int


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """Bytes that came again and were others than the first time; the first copy counted."""

    bytes: int
    packet: int
    time_ns: int


Event = Chunk | Loss | Conflict

#: Sequence number of the first byte, position up to which it is acknowledged, packet and time of the newest segment.
Begun = tuple[int, int, tuple[int, int]]


class Stream:
    """One direction of a connection. Positions count bytes from the first one seen, however the sequence wraps.

    Attributes:
        repeated: bytes that were dropped since they had been there before.
        early: bytes that were dropped since they belong before the first one seen.
    """

    def __init__(self, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self.repeated = 0
        self.early = 0
        self._first: int | None = None  # sequence number of position 0
        self._next = 0
        self._held: dict[int, Chunk] = {}  # by position
        self._positions: list[int] = []  # a heap of those
        self._held_bytes = 0
        self._held_since = 0
        self._max_held_bytes = max_held_bytes
        self._acknowledged = 0  # position up to which the receiver has all
        self._waited = 0
        self._last = (0, 0)  # packet and time of the newest segment
        self._recent = b""  # the bytes before `_next`
        self._end: int | None = None  # position of the FIN
        self._reached = 0  # position of the end of a segment that was cut off

    @property
    def complete(self) -> bool:
        """Whether all is in order up to the sender's FIN."""
        return self._end is not None and self._next >= self._end

    @property
    def started(self) -> bool:
        """Whether a SYN or data was seen."""
        return self._first is not None

    @property
    def held_since(self) -> int | None:
        """The first packet whose bytes may still be held; None where none are."""
        return self._held_since if self._held else None

    @property
    def held(self) -> int:
        """Bytes that wait for others before them."""
        return self._held_bytes

    @property
    def following(self) -> int:
        """The sequence number of the byte that comes next."""
        return ((self._first or 0) + self._next) & 0xFFFFFFFF

    @property
    def silent(self) -> bool:
        """Whether it has neither data nor an end."""
        return self._next == 0 and not self._held and self._end is None

    @property
    def in_order(self) -> bool:
        """Whether it has begun, nothing is held, and its end is not known yet."""
        return self._first is not None and not self._held and self._end is None

    def state(self) -> tuple[int, int, tuple[int, int], bytes]:
        """Of a stream that is in order, what the native `Lanes` needs to go on: the sequence number that comes next,
        how far behind it the receiver has acknowledged, the newest packet, and the bytes before it."""
        recent, self._recent = self._recent, b""  # not to be held twice
        return self.following, self._acknowledged - self._next, self._last, recent

    def resume(self, advanced: int, acknowledged: int, last: tuple[int, int], recent: bytes, closed: bool) -> None:
        """So many bytes have come in order since `state`, and a FIN behind them, if it is `closed`."""
        self._acknowledged = self._next + acknowledged
        self._next += advanced
        self._last = last
        self._recent = recent
        self._end = self._next if closed else None

    def begun(self) -> Begun | None:
        """Of a stream without data, what the native `Lanes` needs to go on, if it has begun."""
        return None if self._first is None else (self._first, self._acknowledged, self._last)

    def begin(self, first: int, acknowledged: int, last: tuple[int, int]) -> None:
        """Goes on with what the native `Lanes` has made of `begun`."""
        self._first, self._acknowledged, self._last = first, acknowledged, last

    def begins_at(self, sequence: int) -> bool:
        """Whether the stream began with that SYN."""
        return self._first == (sequence + 1) & 0xFFFFFFFF

    def awaits(self, sequence: int) -> bool:
        """Whether the receiver waits for that sequence number, as the capture has it or as it has said itself."""
        ended = self._end is not None and self._next == self._end  # a FIN counts as a byte
        return self._first is not None and self._position(sequence) in (self._next + ended, self._acknowledged or -1)

    def ahead(self, sequence: int) -> int:
        """How many bytes a sequence number is ahead of what comes next; negative: it lies behind."""
        return self._position(sequence) - self._next

    def open(self, sequence: int) -> None:
        """A SYN: data begins behind its sequence number."""
        if self._first is None:
            self._first = (sequence + 1) & 0xFFFFFFFF

    def close(self, sequence: int) -> None:
        """A FIN: data ends before its sequence number."""
        if self._first is None:
            self._first = sequence
        self._end = self._position(sequence)

    def reach(self, sequence: int) -> None:
        """A segment, of which the capture has not all, went up to that sequence number."""
        if self._first is not None:
            self._reached = max(self._reached, self._position(sequence))

    def segment(self, sequence: int, data: bytes, packet: int, time_ns: int) -> Iterator[Event]:
        """What is in order once this segment has arrived."""
        if self._first is None:
            if not data:
                return
            self._first = sequence
        self._last = (packet, time_ns)
        position = self._position(sequence)
        if not data:
            return
        if position > self._next:
            yield from self._hold(position, Chunk(data, packet, time_ns))
            while self._held_bytes > self._max_held_bytes:
                yield from self._give_up()
            return
        if position < self._next:
            yield from self._compared(position, Chunk(data, packet, time_ns))
            self._dropped(position, len(data))
        if position + len(data) > self._next:
            yield self._in_order(Chunk(data[self._next - position :], packet, time_ns))
            yield from self._drain()

    def acknowledge(self, sequence: int) -> None:
        """The receiver has everything before that sequence number."""
        if self._first is not None:
            self._acknowledged = max(self._acknowledged, self._position(sequence))

    def tick(self) -> Iterator[Event]:
        """To be called for each segment of the connection: gives up a hole that will not be filled."""
        if not self._held:
            self._waited = 0
            return
        if self._acknowledged > self._next:
            self._waited += 1
            if self._waited > PATIENCE:
                self._waited = 0
                yield from self._give_up()

    def flush(self) -> Iterator[Event]:
        """What is held comes out, holes are reported."""
        while self._held:
            yield from self._give_up()

    def finish(self) -> Iterator[Event]:
        """The end of the capture or of the connection."""
        yield from self.flush()
        # What was acknowledged and never seen, but for one byte, which a FIN counts as; and what was cut off.
        end = max(self._acknowledged - 1, self._reached)
        missing = end - self._next
        if missing > 0:
            self._next = end
            yield Loss(missing, *self._last)

    def _position(self, sequence: int) -> int:
        """The position of a sequence number: the one nearest to what comes next."""
        assert self._first is not None
        expected = (self._first + self._next) & 0xFFFFFFFF
        return self._next + ((sequence - expected + 0x80000000) & 0xFFFFFFFF) - 0x80000000

    def _in_order(self, chunk: Chunk) -> Chunk:
        self._next += len(chunk.data)
        self._recent = (self._recent + chunk.data if len(chunk.data) < RECENT_BYTES else chunk.data)[-RECENT_BYTES:]
        return chunk

    def _dropped(self, position: int, size: int) -> None:
        """Counts what of a segment lies before what comes next."""
        known = min(size, self._next - position)
        # A keep-alive stands in the place of the byte before (RFC 9293), be it one that was never seen.
        early = 0 if size == 1 and position == self._next - 1 else min(size, max(0, -position))
        self.early += early
        self.repeated += known - early

    def _compared(self, position: int, chunk: Chunk) -> Iterator[Conflict]:
        """Looks at bytes that are in order already, as far as the first copies of them are still there."""
        first = self._next - len(self._recent)
        again = chunk.data[max(0, first - position) : self._next - position]
        there = self._recent[max(0, position - first) :][: len(again)]
        # A keep-alive repeats the last byte, or stands in its place with any other (RFC 9293).
        if again != there and not (len(chunk.data) == 1 and position == self._next - 1):
            yield Conflict(_differing(again, there), chunk.packet, chunk.time_ns)

    def _hold(self, position: int, chunk: Chunk) -> Iterator[Conflict]:
        if not self._held:
            self._held_since = chunk.packet
        there = self._held.get(position)
        if there is None:
            heappush(self._positions, position)
        else:
            # Of two segments at one place the longer is held, with the first's bytes where both have some.
            common = min(len(there.data), len(chunk.data))
            self.repeated += common
            if there.data[:common] != chunk.data[:common]:
                yield Conflict(_differing(there.data, chunk.data), chunk.packet, chunk.time_ns)
            if common == len(chunk.data):
                return
            chunk = Chunk(there.data + chunk.data[common:], there.packet, there.time_ns)
        self._held[position] = chunk
        self._held_bytes += len(chunk.data) - (len(there.data) if there else 0)

    def _drain(self) -> Iterator[Event]:
        """Held segments that are in order now."""
        while self._positions and self._positions[0] <= self._next:
            position = heappop(self._positions)
            chunk = self._held.pop(position)
            self._held_bytes -= len(chunk.data)
            if position < self._next:
                yield from self._compared(position, chunk)
                self._dropped(position, len(chunk.data))
            fresh = chunk.data[self._next - position :]
            if fresh:
                yield self._in_order(Chunk(fresh, chunk.packet, chunk.time_ns))

    def _give_up(self) -> Iterator[Event]:
        position = self._positions[0]
        missing, self._next = position - self._next, position
        chunk = self._held[position]
        yield Loss(missing, chunk.packet, chunk.time_ns)
        yield from self._drain()


def _differing(one: bytes, other: bytes) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False))
