"""Capture files as streams of bytes: compressed ones decompressed, growing ones waited for."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from kafkawire.errors import CaptureError, MissingExtraError, ended_at

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_POLL_S = 0.2


class Readable(Protocol):
    """What captures are read from: anything that gives bytes, fewer than asked for only at its end."""

    def read(self, size: int, /) -> bytes: ...


class EndOfReadableData(CaptureError):
    """Nothing more comes out of a compressed file."""


class SizedFile:
    """A file of at least `size` bytes; one that ends earlier raises `EndOfReadableData`, after the bytes that exist."""

    def __init__(self, file: Readable, size: int) -> None:
        self._file = file
        self._size = size
        self._position = 0
        read1: Callable[[int], bytes] | None = getattr(file, "read1", None)
        if read1 is not None:
            self._read1 = read1
            self.read1 = self._ready

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._position += len(data)
        if not data and size and self._position < self._size:
            raise EndOfReadableData(
                expected=f"a file of {self._size} bytes",
                found=f"one that {ended_at(self._position, self._size)}",
                offset=self._position,
            )
        return data

    def _ready(self, size: int, /) -> bytes:
        data = self._read1(size)
        self._position += len(data)
        return data


#: Bytes that are asked for at once where nothing is waited for.
_PIECE = 1 << 20


class FollowedFile:
    """A file that something else still writes: its end is waited at, not reported, for as long as `goes_on`."""

    def __init__(self, file: Readable, goes_on: Callable[[], bool]) -> None:
        self._file = file
        self._goes_on = goes_on

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        while len(data) < size:
            more = self._file.read(size - len(data))
            if not more:
                if not self._goes_on():
                    break
                time.sleep(_POLL_S)
            data += more
        return data


class Lookahead:
    """A file that can be looked at without being read; nothing is ever asked of it that is not needed.

    What was looked at is appended behind what is held, and becomes what is held when that has been read: each byte is
    moved once, however often and in however small steps it is looked at.

    Attributes:
        position: of the next byte, from where this began.
    """

    def __init__(self, file: Readable) -> None:
        self.position = 0
        self._file = file
        self._read1: Callable[[int], bytes] | None = getattr(file, "read1", None)
        self._held = b""
        self._used = 0  # of what is held
        self._behind = bytearray()  # what was looked at behind it

    def at(self, offset: int, size: int) -> bytes:
        """Bytes that lie ahead; fewer at the end of the file."""
        lacking = self._used + offset + size - len(self._held) - len(self._behind)
        if lacking > 0:
            self._behind += self._file.read(lacking)
            self._pass(0)
        start = self._used + offset
        found = self._held[start : start + size]
        if len(found) < size and self._behind:
            start = max(0, start - len(self._held))
            found += bytes(memoryview(self._behind)[start : start + size - len(found)])
        return found

    def ready(self) -> tuple[bytes, int]:
        """Bytes that are there without being waited for, and the place in them from which on they lie ahead.

        There are none where the file does not tell what is there (it has no `read1`), and at its end.
        """
        if self._used == len(self._held) and self._read1 is not None:
            self._held, self._used = self._read1(_PIECE), 0
        return self._held, self._used

    def pass_over(self, place: int) -> None:
        """What was ready has been read up to that place in it."""
        self._pass(place - self._used)

    def read(self, size: int, /) -> bytes:
        data = self.at(0, size)
        self._pass(len(data))
        return data

    def _pass(self, count: int) -> None:
        self.position += count
        self._used += count
        if self._used >= len(self._held) and self._behind:
            self._used -= len(self._held)
            self._held = bytes(self._behind)
            self._behind = bytearray()


class _Decompressed:
    """A decompressor's output. What it cannot decompress raises `EndOfReadableData` with its place in the output."""

    def __init__(self, codec: str, file: Readable) -> None:
        self._codec = codec
        self._file = file
        self._position = 0

    def read(self, size: int, /) -> bytes:
        try:
            data = self._file.read(size)
        except EndOfReadableData as error:  # the file ended
            raise EndOfReadableData(expected=error.expected, found=error.found, offset=self._position) from None
        except (EOFError, zlib.error, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the file itself
            raise EndOfReadableData(
                expected=f"a file that {self._codec} can decompress",
                found=f"{error} (after {self._position} decompressed bytes)",
                offset=self._position,
            ) from None
        self._position += len(data)
        return data


def is_compressed(first: bytes) -> bool:
    """Whether a file whose first four bytes these are is decompressed when it is read."""
    return first[:2] == _GZIP or first == _ZSTD


def decompressed(file: Lookahead) -> Readable | None:
    """The content of a gzip or zstd file; None for any other file.

    Raises:
        MissingExtraError: zstd, and nothing here can decompress it.
    """
    first = file.at(0, 4)
    if first[:2] == _GZIP:
        begun: Any = file  # a whole file object in the eyes of a type checker; only read from
        return _Decompressed("gzip", gzip.GzipFile(fileobj=begun, mode="rb"))
    return _Decompressed("zstd", _zstd(file)) if first == _ZSTD else None


def _zstd(file: Readable) -> Readable:
    try:
        from compression.zstd import ZstdFile  # type: ignore[import-not-found,unused-ignore]  # from Python 3.14 on
    except ImportError:
        pass
    else:
        opened: Readable = ZstdFile(file)
        return opened
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("a capture compressed with zstd (before Python 3.14)", "arrow") from None
    return _ArrowStream(pyarrow.CompressedInputStream(pyarrow.PythonFile(_Closable(file), mode="r"), "zstd"))


class _Closable:
    """A file as pyarrow wants it: with `closed`."""

    closed = False

    def __init__(self, file: Readable) -> None:
        self.read = file.read

    def close(self) -> None:
        self.closed = True


class _ArrowStream:
    """A stream of pyarrow, which may give fewer bytes than asked for before its end."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        return data
