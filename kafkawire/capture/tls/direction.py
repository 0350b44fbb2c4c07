"""`Direction`: the bytes of one direction of a TLS connection, cut into records, with what is known of their keys."""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

import msgspec

from kafkawire.capture.tls.handshake import HandshakeMessages
from kafkawire.capture.tls.negotiation import Keys

HEADER_BYTES = 5
#: Content of a record at most, with what protection adds (RFC 5246, 6.2.3; RFC 8446, 5.2).
MAX_FRAGMENT_BYTES = (1 << 14) + (1 << 11)
#: Where a record may begin: a content type, and a version.
_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x03]", re.DOTALL)


class LostRecords(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a direction that could not be decrypted, before the next decrypted ones.

    Attributes:
        bytes: of the TCP stream; `captured`: those of them that the capture contains.
        reason: why, as a sentence's end: "of TLS records that cannot be decrypted".
    """

    bytes: int
    captured: int
    reason: str
    packet: int
    time_ns: int


class TlsRecord(NamedTuple):
    kind: int
    fragment: bytes
    packet: int
    time_ns: int


class Hole(NamedTuple):
    """Bytes without records between others. `captured`: those of them that the capture contains."""

    missing: int
    captured: int


class Direction:
    """The state of one direction."""

    def __init__(self) -> None:
        self.buffer = bytearray()  # bytes that are in no record yet
        self.places: deque[tuple[int, int, int]] = deque()  # offset in the direction, packet, time of its chunks
        self.position = 0  # in the direction, of the buffer's first byte
        self.records: deque[TlsRecord | Hole] = deque()
        self.waiting = 0  # bytes of those
        self.messages = HandshakeMessages()
        self.protected = False  # ChangeCipherSpec, or ServerHello in TLS 1.3
        self.stage = 0  # of TLS 1.3: 0 handshake keys, 1 application keys
        self.keys: Keys | None = None
        self.opened = 0  # records that were decrypted with a secret of the key log
        self.seeking = False  # the sequence number of the next record is unknown
        self.unframed = False  # so is where it begins
        self.lost = self.lost_captured = 0
        self.early = 0

    @property
    def held(self) -> int:
        """Number of bytes in memory."""
        return len(self.buffer) + self.waiting

    @property
    def held_since(self) -> int | None:
        """Number of the packet of the first byte in memory; None where there is none."""
        first = self.records[0] if self.records else None
        if isinstance(first, TlsRecord):
            return first.packet
        return self.place(self.position)[0] if self.buffer else None

    def append(self, data: bytes, packet: int, time_ns: int) -> None:
        """Takes the next bytes.

        Args:
            data: the bytes.
            packet: number of their packet, from 1.
            time_ns: its time, epoch nanoseconds.
        """
        self.places.append((self.position + len(self.buffer), packet, time_ns))
        self.buffer += data

    def place(self, position: int) -> tuple[int, int]:
        """Packet and time of the byte at a position; earlier places are forgotten."""
        while len(self.places) > 1 and self.places[1][0] <= position:
            self.places.popleft()
        return self.places[0][1:]

    def cut_records(self) -> None:
        """Takes whole records from the buffer."""
        while not self.unframed and len(self.buffer) >= HEADER_BYTES:
            size = int.from_bytes(self.buffer[3:HEADER_BYTES], "big")
            if not _RECORD.match(self.buffer) or size > MAX_FRAGMENT_BYTES:
                self.records.append(Hole(0, 0))
                self.unframed = True
                return
            if len(self.buffer) < HEADER_BYTES + size:
                return
            packet, time_ns = self.place(self.position)
            data = self.cut(HEADER_BYTES + size)
            self.records.append(TlsRecord(data[0], data[HEADER_BYTES:], packet, time_ns))
            self.waiting += size

    def break_off(self, missing: int, packet: int, time_ns: int) -> None:
        """Begins a hole of `missing` bytes. The bytes of a record before it are lost with it.

        Args:
            packet, time_ns: of the packet that showed the hole.
        """
        size = len(self.buffer)
        self.cut(size)
        self.position += missing
        self.records.append(Hole(size + missing, size))
        self.unframed = True
        self.places.clear()
        self.places.append((self.position, packet, time_ns))

    def hand_over(self) -> list[tuple[bytes, int, int]]:
        """Takes all bytes of the buffer: those of each packet, with its number and time."""
        if not self.buffer:
            return []
        self.place(self.position)
        starts = [max(offset - self.position, 0) for offset, _, _ in self.places]
        ends = [*starts[1:], len(self.buffer)]
        pieces = [
            (bytes(self.buffer[start:end]), packet, time_ns)
            for (_, packet, time_ns), start, end in zip(self.places, starts, ends, strict=True)
        ]
        self.cut(len(self.buffer))
        self.places.clear()
        return pieces

    def pass_over(self, size: int, *, early: bool) -> None:
        """Counts a record of `size` bytes that is not decrypted. If it is no early data, sequence numbers are tried
        next."""
        if early:
            self.early += size
        else:
            self.lose(size, size)
            self.seeking = True

    def lose(self, size: int, captured: int) -> None:
        """Counts lost bytes, and those of them that the capture contains."""
        self.lost += size
        self.lost_captured += captured

    def drop(self, size: int) -> None:
        """Drops bytes of the buffer as lost."""
        self.lose(size, size)
        self.cut(size)

    def clear(self) -> None:
        """Drops all that waits as lost."""
        for record in self.records:
            size, captured = record if isinstance(record, Hole) else (HEADER_BYTES + len(record.fragment),) * 2
            self.lose(size, captured)
        self.records.clear()
        self.waiting = 0
        self.drop(len(self.buffer))

    def cut(self, size: int) -> bytes:
        """Takes bytes from the buffer."""
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        self.position += size
        return data
