"""Files with damage: where reading goes on behind it.

A header that cannot be right is noticed at once (by its own values, and by what follows it); then the next place is
looked for at which several headers in a row are right. What lies between is told, byte for byte.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import msgspec

from kafkawire.capture.files import Lookahead
from kafkawire.errors import CaptureError


class Unread(msgspec.Struct):
    """A part of a file that could not be read.

    Attributes:
        position: of its first byte in the (decompressed) file; `bytes`: how many.
        error: why.
        resumed: reading went on behind it.
    """

    position: int
    bytes: int
    error: CaptureError
    resumed: bool


class Headers(Protocol):
    """What the headers of a file format look like."""

    def may_begin(self, window: bytes) -> Iterator[int]:
        """Offsets at which one may begin."""

    def begins(self, file: Lookahead, offset: int) -> bool:
        """Whether one begins there, and others follow it, or the end of the file."""


_SMALLEST_WINDOW, _LARGEST_WINDOW = 4 << 10, 64 << 10
#: Bytes of a header that `may_begin` looks at, at most.
_HEADER = 16


def skip(file: Lookahead, headers: Headers) -> tuple[int, bool]:
    """Drops bytes, one at least, up to where a header begins, or to the end; how many, and whether one was found."""
    start, offset, size = file.position, 1, _SMALLEST_WINDOW
    while True:
        window = file.at(0, size)
        for at in headers.may_begin(window):
            if at >= offset and headers.begins(file, at):
                file.read(at)
                return file.position - start, True
        last = len(window) < size
        file.read(len(window) if last else size - _HEADER)
        if last:
            return file.position - start, False
        offset, size = 0, min(2 * size, _LARGEST_WINDOW)


class PcapHeaders:
    """Headers of packets in a classic pcap: 16 bytes, and then those that it says were kept.

    Lengths that are equal and timestamps look like each other four bytes on: times tell headers from what is like one.

    Args:
        order: `<` or `>`. fractions: how many of a timestamp's second part are a second.
        most: bytes of a packet at most.
    """

    #: Headers in a row that have to be right.
    _CHAIN = 3
    #: Packets that are this far apart in time are not believed at first sight.
    FAR_S = 31 * 86_400
    #: Nor are packets before 1973, where no others are known.
    _EARLIEST_S = 100_000_000

    def __init__(self, order: str, fractions: int, most: int) -> None:
        self.recent: deque[int] = deque(maxlen=4)  # seconds of the last packets; those of one may be wrong
        self._fractions = fractions
        self._most = most
        self._unpack = struct.Struct(order + "IIII").unpack
        # Seconds may be any; of the fraction and of the bytes kept the upper bytes are small, and some are kept.
        little, kept = order == "<", rb"(?!\x00\x00)..[\x00-\x04]\x00"
        small = rb".{4}...[\x00-\x3b]" + kept if little else rb".{4}[\x00-\x3b]...\x00[\x00-\x04](?!\x00\x00).."
        self._candidate = re.compile(rb"(?=" + small + rb")", re.DOTALL)

    def right(self, file: Lookahead, head: bytes) -> bool:
        """Whether the header at hand looks right, by itself or by what follows it."""
        seconds, fraction, kept, original = self._unpack(head)
        if not self._sane(fraction, kept, original) or (self.recent and not self._near(seconds)):
            followed = kept <= self._most and self._chain(file, _HEADER + kept, self._CHAIN - 1)
            # Two packets further on there is a header too: the other length must not lead to one.
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

    def _sane(self, fraction: int, kept: int, original: int) -> bool:
        return kept <= original <= 4 * self._most and kept <= self._most and fraction < self._fractions

    def _chain(self, file: Lookahead, offset: int, count: int) -> bool:
        before = None
        for _ in range(count):
            head = file.at(offset, _HEADER)
            if not head:
                return file.at(offset - 1, 1) != b""  # the end of the file is where a packet ends
            if len(head) < _HEADER:
                return False
            seconds, fraction, kept, original = self._unpack(head)
            if not kept or not self._sane(fraction, kept, original):
                return False
            if before is None and not self._near(seconds) and seconds < self._EARLIEST_S:
                return False
            if before is not None and abs(seconds - before) > self.FAR_S:
                return False
            before = seconds
            offset += _HEADER + kept
        return True


class BlockHeaders:
    """Blocks of a pcapng: type, length, and the length again at the end.

    Args:
        most: bytes of a block at most.
    """

    _CHAIN = 2
    #: Sections, interfaces, packets of all kinds, names, statistics, secrets, custom blocks; in either byte order.
    _CANDIDATE = re.compile(rb"(?=\x0a\x0d\x0d\x0a|[\x01-\x0a]\x00\x00\x00|\x00\x00\x00[\x01-\x0a])", re.DOTALL)

    def __init__(self, most: int) -> None:
        self.order = ">"
        self._most = most

    def may_begin(self, window: bytes) -> Iterator[int]:
        return (found.start() for found in self._CANDIDATE.finditer(window))

    def begins(self, file: Lookahead, offset: int) -> bool:
        order = self.order
        for _ in range(self._CHAIN):
            head = file.at(offset, 12)
            if not head:
                return True  # the block before ended with its length: it was whole
            order = section_order(head) or order
            if len(head) < 12:
                return False
            (length,) = struct.unpack_from(order + "I", head, 4)
            if not 12 <= length <= self._most or length % 4 or file.at(offset + length - 4, 4) != head[4:8]:
                return False
            offset += length
        return True


_SECTION, _BYTE_ORDER_MAGIC = b"\x0a\x0d\x0d\x0a", b"\x1a\x2b\x3c\x4d"


def section_order(head: bytes) -> str | None:
    """The byte order of the section that begins with these 12 bytes; None where none begins, or of no known order."""
    if head[:4] != _SECTION:
        return None
    return {_BYTE_ORDER_MAGIC: ">", _BYTE_ORDER_MAGIC[::-1]: "<"}.get(head[8:12])
