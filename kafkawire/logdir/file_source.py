"""`FileSource`: a file's bytes in windows, for walking over batches.

Not a memory map: a broker may truncate or remove the file during the walk, and an access beyond the end of a mapped
file kills the process. A read then returns fewer bytes.
"""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from types import TracebackType
from typing import Protocol, Self

_WINDOW = 4 << 20


class Opened(Protocol):
    """An open file. Reads return fewer bytes only at its end."""

    def seek(self, position: int, whence: int = 0, /) -> int: ...

    def read(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


def open_file(path: str) -> FileIO:
    """Open a regular file for reading, unbuffered. Pipes and devices, which could block or never end, are refused.
    Raises OSError: the file does not exist, must not be read, or is no regular file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return FileIO(path)


class FileSource:
    """Bytes of an open, unbuffered file at positions.

    Args:
        window: bytes that are read at once, at least.
        limit: where the bytes end at the latest, as if the file did.

    Attributes:
        size: when it was opened; the file may grow.
        needed: the position up to which the window is filled; bytes after it are read only where they are asked for.
    """

    def __init__(self, file: Opened, window: int = _WINDOW, limit: int | None = None) -> None:
        self._file = file
        self._limit = limit
        self._window_size = window
        self._start = 0
        self._window = memoryview(b"")
        self.size = self.needed = self.end()

    def at(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on; fewer only where the file ends."""
        offset = position - self._start
        if offset < 0 or offset + length > len(self._window):
            self._window = memoryview(self._ahead(position, length))
            self._start, offset = position, 0
        return self._window[offset : offset + length]

    @property
    def descriptor(self) -> int | None:
        """Of a file of this machine."""
        return self._file.fileno() if isinstance(self._file, FileIO) else None

    def end(self) -> int:
        """The position at which the file ends now."""
        end = self._file.seek(0, os.SEEK_END)
        return end if self._limit is None else min(end, self._limit)

    def _ahead(self, position: int, length: int) -> bytes:
        try:
            return self._read(position, max(length, min(self._window_size, self.needed - position)))
        except OSError:  # bytes after those asked for may be unreadable: without these, or the error is raised
            if length >= self._window_size:
                raise
            return self._read(position, length)

    def _read(self, position: int, length: int) -> bytes:
        self._file.seek(position)
        parts: list[bytes] = []
        left = min(length, max(0, self.size - position))
        while left > 0:
            part = self._file.read(left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
