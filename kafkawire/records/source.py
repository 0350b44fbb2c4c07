"""`Source`: where bytes of record batches come from, a file that is read in windows or memory."""

from __future__ import annotations

from mmap import mmap
from typing import Protocol

from kafkawire.wire.values import octets


class Source(Protocol):
    """Bytes at positions: a file read in windows, or memory."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def at(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on; fewer only where the bytes end."""


#: What batches are read from.
Data = bytes | bytearray | memoryview | mmap | Source


class Memory:
    """A `Source` over bytes in memory."""

    __slots__ = ("_view", "size")

    def __init__(self, data: bytes | bytearray | memoryview | mmap) -> None:
        self._view = memoryview(octets(data))
        self.size = len(self._view)

    def at(self, position: int, length: int) -> memoryview:
        return self._view[position : position + length]


def source_of(data: Data) -> Source:
    """Bytes as a `Source`; a `Source` as it is."""
    return Memory(data) if isinstance(data, (bytes, bytearray, memoryview, mmap)) else data
