"""The search for the place at which reading continues in a damaged capture file.

A header is checked by its own values and by the headers that follow it. After a damaged header, the next offset is
searched at which several consecutive headers are plausible. The bytes between are reported as an `UnreadPart`.
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
        position: offset of its first byte in the decompressed file; `bytes`: its length.
        error: the reason.
        resumed: whether reading continued after it.
    """

    position: int
    bytes: int
    error: CaptureError
    resumed: bool


class HeaderFinder(Protocol):
    """Recognizes the headers of a file format."""

    def may_begin(self, window: bytes) -> Iterator[int]:
        """Offsets in `window` at which a header may begin."""

    def begins(self, file: Lookahead, offset: int) -> bool:
        """Whether a header begins at `offset` ahead, followed by other headers or the end of the file."""


_SMALLEST_WINDOW, _LARGEST_WINDOW = 4 << 10, 64 << 10
#: Most bytes of a header that `may_begin` examines.
_HEADER = 16


def skip(file: Lookahead, headers: HeaderFinder) -> tuple[int, bool]:
    """Skips at least one byte, up to the next header or the end of the file.

    Returns:
        The number of bytes skipped, and whether a header was found.
    """
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
