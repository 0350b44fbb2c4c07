"""`Source`: the origin of the bytes of record batches: a file that is read in windows, or memory."""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Protocol, cast

from kafkawire.wire.values import may_change, octets


class Source(Protocol):
    """Bytes at positions: a file read in windows, or memory. One that can become shorter may have a method `end`, which
    returns where it ends now."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def at(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on, which do not change afterwards; fewer only where the bytes end."""


#: What batches are read from. Reads of a buffer that may change concurrently (see `may_change`) are copies.
Data = bytes | bytearray | memoryview | mmap | Source


class Memory:
    """A `Source` over bytes in memory. Reads of bytes that may change concurrently (see `may_change`) are copies.

    Of a mapped file that becomes shorter, reads end where the file ends, or before: access to mapped bytes after that
    kills the process. A mapping whose file's size cannot be asked for (it has none, or `trackfd` is false) is copied at
    once.
    """

    __slots__ = ("_copied", "_file_size", "_view", "size")

    def __init__(self, data: bytes | bytearray | memoryview | mmap) -> None:
        self._view = memoryview(octets(data))
        self._copied = may_change(self._view)
        self._file_size: int | None = None
        self.size = len(self._view)
        if isinstance(self._view.obj, mmap):
            try:
                self._file_size = max(self._view.obj.size(), len(self._view.obj))  # it may be shorter already
            except OSError:
                self._view, self._copied = memoryview(bytes(self._view)), False

    def at(self, position: int, length: int) -> memoryview:
        if not self._copied:
            return self._view[position : position + length]
        return memoryview(bytes(self._view[position : min(position + length, self.end())]))

    def end(self) -> int:
        """Where the bytes end now. Which part of the file is mapped is not known: of a file that became shorter, all
        that it has lost may be from the end of these bytes."""
        if self._file_size is None:
            return self.size
        lost = self._file_size - cast("mmap", self._view.obj).size()
        return max(0, self.size - max(0, lost))


class WatchedSource:
    """A `Source` that notes where another one ended before its size.

    Attributes:
        ended: where it ended when a read came back short; None where none has.
    """

    __slots__ = ("_source", "ended", "size")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self.ended: int | None = None

    def at(self, position: int, length: int) -> memoryview:
        data = self._source.at(position, length)
        if len(data) < min(length, self.size - position):
            self.short(position + len(data))
        return data

    def short(self, reached: int) -> int:
        """Records that a read returned too few bytes and ended at `reached`. Returns the end of the source, which may
        lie before that: bytes that were read earlier may be gone, too."""
        end: Callable[[], int] | None = getattr(self._source, "end", None)
        ends = [reached, *([] if self.ended is None else [self.ended]), *([] if end is None else [end()])]
        self.ended = min(ends)
        return self.ended


def source_of(data: Data) -> Source:
    """Bytes as a `Source`; a `Source` as it is."""
    return Memory(data) if isinstance(data, (bytes, bytearray, memoryview, mmap)) else data
