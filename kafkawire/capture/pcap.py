"""Classic pcap files: a file header, then packets, each with a header before it."""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any

from kafkawire.capture.files import Lookahead
from kafkawire.capture.packet import MAX_PACKET_BYTES, Packet, PacketRun, cut_off
from kafkawire.errors import CaptureError

_HEADER = 16  # length of the header before a packet


#: The head of a classic pcap file, after its magic: version (major, minor), time zone and accuracy (0 in practice:
#: timestamps are UTC), most bytes captured of a packet, and the link type in the lower 28 bits.
_FILE_HEADER = "4xHHiIII"

#: first four bytes -> byte order, unit of a timestamp's fraction in nanoseconds
MAGIC = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}


class Pcap:
    """Reads a classic pcap from its header on. An incomplete or damaged packet is not consumed from the file."""

    def __init__(self, file: Lookahead, engine: Any, before: int = 0) -> None:
        self.file = file
        self._engine = engine
        self._before = before  # number of packets before those of the file
        self.number = 0  # of the last packet in the file
        order, self._unit_ns = MAGIC[file.at(0, 4)]
        layout = struct.Struct(order + _FILE_HEADER)
        head = file.at(0, layout.size)
        if len(head) < layout.size:
            raise cut_off("a pcap file's header", 0, len(head))
        file.read(len(head))
        self._link_type = layout.unpack(head)[-1] & 0x0FFFFFFF
        # Seconds, fraction, bytes kept, bytes of the packet.
        self._unpack = struct.Struct(order + "IIII").unpack
        self.headers = PcapHeaders(order, 1_000_000_000 // self._unit_ns)
        self._format = (order == "<", self._unit_ns, self._link_type, MAX_PACKET_BYTES, self.headers.FAR_S)

    def packets(self) -> Iterator[Packet | PacketRun]:
        file, headers = self.file, self.headers
        while head := file.at(0, _HEADER):
            number = self.number + 1
            if len(head) < _HEADER:
                raise cut_off(f"packet {number}", file.position, len(head))
            seconds, fraction, kept, original = self._unpack(head)
            if kept > MAX_PACKET_BYTES:
                raise CaptureError(
                    expected=f"at most {MAX_PACKET_BYTES} bytes in packet {number}",
                    found=str(kept),
                    offset=file.position,
                )
            if not headers.right(file, head):
                raise CaptureError(
                    expected=f"the header of packet {number}",
                    found=f"one with {kept} of {original} bytes at {seconds}.{fraction}",
                    offset=file.position,
                )
            data = file.at(_HEADER, kept)
            if len(data) < kept:
                raise cut_off(f"packet {number}", file.position, len(head) + len(data))
            file.read(_HEADER + kept)
            self.number = number
            yield Packet(
                self._before + number, seconds * 1_000_000_000 + fraction * self._unit_ns, self._link_type, data
            )
            if self._engine is not None:
                run = self._run()
                if run.packets:
                    yield run

    def _run(self) -> PacketRun:
        """Passes to the native tracker what is available, up to the first packet that it does not parse."""
        window, start = self.file.ready()
        number = self._before + self.number
        end, count, recent = self._engine.run(window, start, self._format, number, list(self.headers.recent))
        self.file.pass_over(end)
        self.number += count
        self.headers.recent.clear()
        self.headers.recent.extend(recent)
        return PacketRun(count)


class PcapHeaders:
    """Recognizes the headers of packets in a classic pcap: 16 bytes, before the captured bytes of the packet.

    Shifted by four bytes, a header with two equal lengths can look like another one. Timestamps distinguish them.

    Args:
        order: `<` or `>`.
        fractions: units of a timestamp's fraction in a second.
    """

    #: Consecutive headers that have to be plausible.
    _CHAIN = 3
    #: Packets further apart in time than this are believed only if other headers follow.
    FAR_S = 31 * 86_400
    #: Packets before 1973 are believed only near the time of the last packets.
    _EARLIEST_S = 100_000_000

    def __init__(self, order: str, fractions: int) -> None:
        self.recent: deque[int] = deque(maxlen=4)  # seconds of the last packets, of which one may be wrong
        self._fractions = fractions
        self._unpack = struct.Struct(order + "IIII").unpack
        # Any seconds; small upper bytes of the fraction and the captured length, which is not 0.
        little, kept = order == "<", rb"(?!\x00\x00)..[\x00-\x04]\x00"
        small = rb".{4}...[\x00-\x3b]" + kept if little else rb".{4}[\x00-\x3b]...\x00[\x00-\x04](?!\x00\x00).."
        self._candidate = re.compile(rb"(?=" + small + rb")", re.DOTALL)

    def right(self, file: Lookahead, head: bytes) -> bool:
        """Whether the header at the file's position is plausible, by its values or by the headers that follow."""
        seconds, fraction, kept, original = self._unpack(head)
        if not self._plausible(fraction, kept, original) or (self.recent and not self._near(seconds)):
            followed = kept <= MAX_PACKET_BYTES and self._chain(file, _HEADER + kept, self._CHAIN - 1)
            # The original length must not lead to headers as well.
            if not followed or (original < kept and self._chain(file, _HEADER + original, self._CHAIN - 1)):
                return False
        self.recent.append(seconds)
        return True

    def may_begin(self, window: bytes) -> Iterator[int]:
        return (found.start() for found in self._candidate.finditer(window))

    def begins(self, file: Lookahead, offset: int) -> bool:
        return self._chain(file, offset, self._CHAIN)

    def _near(self, seconds: int) -> bool:
        return any(abs(seconds - recent) <= self.FAR_S for recent in self.recent)

    def _plausible(self, fraction: int, kept: int, original: int) -> bool:
        return kept <= original <= 4 * MAX_PACKET_BYTES and kept <= MAX_PACKET_BYTES and fraction < self._fractions

    def _chain(self, file: Lookahead, offset: int, count: int) -> bool:
        before = None
        for _ in range(count):
            head = file.at(offset, _HEADER)
            if not head:
                return file.at(offset - 1, 1) != b""  # a packet ends where the file ends
            if len(head) < _HEADER:
                return False
            seconds, fraction, kept, original = self._unpack(head)
            if not kept or not self._plausible(fraction, kept, original):
                return False
            if before is None and not self._near(seconds) and seconds < self._EARLIEST_S:
                return False
            if before is not None and abs(seconds - before) > self.FAR_S:
                return False
            before = seconds
            offset += _HEADER + kept
        return True
