"""Files with damage: where reading goes on behind it.

A header that cannot be right is noticed at once (by its own values, and by what follows it); then the next place is
looked for at which several headers in a row are right. What lies between is told, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from kafkawire.capture.files import Lookahead
from kafkawire.errors import CaptureError


class UnreadPart(msgspec.Struct):
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


class HeaderFinder(Protocol):
    """What the headers of a file format look like."""

    def may_begin(self, window: bytes) -> Iterator[int]:
        """Offsets at which one may begin."""

    def begins(self, file: Lookahead, offset: int) -> bool:
        """Whether one begins there, and others follow it, or the end of the file."""


_SMALLEST_WINDOW, _LARGEST_WINDOW = 4 << 10, 64 << 10
#: Bytes of a header that `may_begin` looks at, at most.
_HEADER = 16


def skip(file: Lookahead, headers: HeaderFinder) -> tuple[int, bool]:
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
