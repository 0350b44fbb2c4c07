"""`Stream`: reassembly of one direction of a TCP connection, from segments to bytes in order (sans-IO).

The first copy of a byte counts. Retransmissions and overlaps are dropped; where their content differs from the last
`RECENT_BYTES` in order, a `Conflict` is reported. Segments ahead of the order are held until the bytes before them
arrive. A hole is given up, and reported as a `Loss`, in three cases:

- the receiver has acknowledged bytes after it: the receiver had the bytes that the capture lacks. `PATIENCE` more
  segments are waited for, since captures may swap packets;
- more than `max_held_bytes` are held;
- the stream ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import msgspec

#: Segments of the connection that are waited for before a hole that was acknowledged is given up.
PATIENCE = 16
#: Most bytes held ahead of the order, in one direction.
MAX_HELD_BYTES = 4 << 20
#: Bytes in order that are kept, to compare retransmissions with them.
RECENT_BYTES = 2 << 10


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Bytes in order, with the number and time of their packet."""

    data: bytes
    packet: int
    time_ns: int


class Loss(msgspec.Struct, frozen=True, gc=False):
    """Bytes that the capture lacks, before the next ones in order. `packet` is the one that showed the loss."""

    missing: int
    packet: int
    time_ns: int


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """Bytes that were retransmitted with other content. The first copy was kept."""

    bytes: int
    packet: int
    time_ns: int


Event = Chunk | Loss | Conflict


class Stream:
    """One direction of a connection.

    Positions count bytes from the first one seen. They do not wrap, unlike sequence numbers.

    Attributes:
        repeated: bytes that were dropped as retransmissions.
        early: bytes that were dropped because they precede the first one seen.
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
        self._acknowledged = 0  # position up to which the receiver has acknowledged
        self._waited = 0
        self._last = (0, 0)  # packet and time of the newest segment
        self._recent = b""  # the bytes before `_next`
        self._end: int | None = None  # position of the FIN
        self._reached = 0  # position of the end of a segment that was cut off

    @property
    def complete(self) -> bool:
        """Whether all bytes up to the sender's FIN are in order."""
        return self._end is not None and self._next >= self._end

    @property
    def started(self) -> bool:
        """Whether a SYN or data was seen."""
        return self._first is not None

    @property
    def held_since(self) -> int | None:
        """Number of the first packet whose bytes may still be held; None where no bytes are held."""
        return self._held_since if self._held else None

    @property
    def held(self) -> int:
        """Number of bytes that wait for those before them."""
        return self._held_bytes

    @property
    def following(self) -> int:
        """The sequence number of the next byte in order."""
        return ((self._first or 0) + self._next) & 0xFFFFFFFF

    def begins_at(self, sequence: int) -> bool:
        """Whether the stream began with a SYN of that sequence number."""
        return self._first == (sequence + 1) & 0xFFFFFFFF

    def awaits(self, sequence: int) -> bool:
        """Whether the receiver expects that sequence number next, by the bytes captured or by its acknowledgments."""
        ended = self._end is not None and self._next == self._end  # a FIN counts as a byte
        return self._first is not None and self._position(sequence) in (self._next + ended, self._acknowledged or -1)

    def ahead(self, sequence: int) -> int:
        """The distance in bytes from the next byte in order to a sequence number; negative where that lies before."""
        return self._position(sequence) - self._next

    def open(self, sequence: int) -> None:
        """Handles a SYN: data begins after its sequence number."""
        if self._first is None:
            self._first = (sequence + 1) & 0xFFFFFFFF

    def close(self, sequence: int) -> None:
        """Handles a FIN: data ends before its sequence number."""
        if self._first is None:
            self._first = sequence
        self._end = self._position(sequence)

    def reach(self, sequence: int) -> None:
        """Records where a segment ended whose payload was only partly captured."""
        if self._first is not None:
            self._reached = max(self._reached, self._position(sequence))

    def segment(self, sequence: int, data: bytes, packet: int, time_ns: int) -> Iterator[Event]:
        """Takes one segment; yields the bytes that are in order now, losses and conflicts.

        Args:
            sequence: of the first byte of `data`.
            data: the captured payload.
            packet: number of the packet, from 1; `time_ns`: its time, epoch nanoseconds.
        """
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
        """Handles an acknowledgment: the receiver has all bytes before that sequence number."""
        if self._first is not None:
            self._acknowledged = max(self._acknowledged, self._position(sequence))

    def tick(self) -> Iterator[Event]:
        """Gives up a hole that will not be filled. Call it once for each segment of the connection."""
        if not self._held:
            self._waited = 0
            return
        if self._acknowledged > self._next:
            self._waited += 1
            if self._waited > PATIENCE:
                self._waited = 0
                yield from self._give_up()

    def finish(self) -> Iterator[Event]:
        """Ends the stream: releases held bytes, and reports holes and bytes that were acknowledged but not captured."""
        while self._held:
            yield from self._give_up()
        # A FIN counts as one acknowledged byte. `_reached` is the end of a payload that was cut off.
        end = max(self._acknowledged - 1, self._reached)
        missing = end - self._next
        if missing > 0:
            self._next = end
            yield Loss(missing, *self._last)

    def _position(self, sequence: int) -> int:
        """The position of a sequence number: the one nearest to the next byte in order."""
        assert self._first is not None
        expected = (self._first + self._next) & 0xFFFFFFFF
        return self._next + ((sequence - expected + 0x80000000) & 0xFFFFFFFF) - 0x80000000

    def _in_order(self, chunk: Chunk) -> Chunk:
        self._next += len(chunk.data)
        self._recent = (self._recent + chunk.data if len(chunk.data) < RECENT_BYTES else chunk.data)[-RECENT_BYTES:]
        return chunk

    def _dropped(self, position: int, size: int) -> None:
        """Counts the bytes of a segment that precede the next one in order."""
        known = min(size, self._next - position)
        # A keep-alive repeats the byte before (RFC 9293), which may not have been captured.
        early = 0 if size == 1 and position == self._next - 1 else min(size, max(0, -position))
        self.early += early
        self.repeated += known - early

    def _compared(self, position: int, chunk: Chunk) -> Iterator[Conflict]:
        """Compares retransmitted bytes with their first copies, where those are still kept."""
        first = self._next - len(self._recent)
        again = chunk.data[max(0, first - position) : self._next - position]
        there = self._recent[max(0, position - first) :][: len(again)]
        # A keep-alive has the last byte's sequence number and any content (RFC 9293).
        if again != there and not (len(chunk.data) == 1 and position == self._next - 1):
            yield Conflict(_differing(again, there), chunk.packet, chunk.time_ns)

    def _hold(self, position: int, chunk: Chunk) -> Iterator[Conflict]:
        if not self._held:
            self._held_since = chunk.packet
        there = self._held.get(position)
        if there is None:
            heappush(self._positions, position)
        else:
            # Of two segments at one position the longer is held. Where both have bytes, those of the first count.
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
        """Releases held segments that are in order now."""
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
