"""Capture files as byte streams: compressed files are decompressed, growing files are followed."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from kafkawire.errors import CaptureError, MissingExtraError, ended_at

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Seconds between two looks at a file that grows.
POLL_S = 0.2


class Readable(Protocol):
    """A source of captures: it returns fewer bytes than requested only at its end."""

    def read(self, size: int, /) -> bytes: ...


class EndOfReadableData(CaptureError):
    """A file ended earlier than its size, or cannot be decompressed further."""


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


#: Bytes that one call of `read1` requests.
_PIECE = 1 << 20


class FollowedFile:
    """A file that another process still writes: at its end, `read` waits for more while `goes_on()` is True."""

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
                time.sleep(POLL_S)
            data += more
        return data


class Lookahead:
    """A file whose next bytes can be examined without consuming them. No byte is requested before it is needed.

    Bytes examined are appended to a second buffer, which replaces the first one once that is consumed. So each byte is
    moved once, however often it is examined.

    Attributes:
        position: of the next byte, counted from the file's position at the start.
    """

    def __init__(self, file: Readable) -> None:
        self.position = 0
        self._file = file
        self._read1: Callable[[int], bytes] | None = getattr(file, "read1", None)
        self._held = b""
        self._used = 0  # consumed bytes of `_held`
        self._behind = bytearray()  # bytes after `_held` that were examined

    def at(self, offset: int, size: int) -> bytes:
        """The `size` bytes from `offset` ahead; fewer at the end of the file."""
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
        """Bytes that are available without waiting, and the index of the first one that is not consumed.

        None are available at the end of the file, and in a file without `read1`.
        """
        if self._used == len(self._held) and self._read1 is not None:
            self._held, self._used = self._read1(_PIECE), 0
        return self._held, self._used

    def pass_over(self, place: int) -> None:
        """Consumes the bytes of `ready` up to the index `place`."""
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
    """A decompressor's output. Data that it cannot decompress raises `EndOfReadableData` with the output's position."""

    def __init__(self, codec: str, file: Readable) -> None:
        self._codec = codec
        self._file = file
        self._position = 0

    def read(self, size: int, /) -> bytes:
        try:
            data = self._file.read(size)
        except EndOfReadableData as error:  # the compressed file ended
            raise EndOfReadableData(expected=error.expected, found=error.found, offset=self._position) from None
        except (EOFError, zlib.error, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the file, not of the decompressor
            raise EndOfReadableData(
                expected=f"a file that {self._codec} can decompress",
                found=f"{error} (after {self._position} decompressed bytes)",
                offset=self._position,
            ) from None
        self._position += len(data)
        return data


def is_compressed(first: bytes) -> bool:
    """Whether a file with these first four bytes is compressed with gzip or zstd."""
    return first[:2] == _GZIP or first == _ZSTD


def decompressed(file: Lookahead) -> Readable | None:
    """The content of a gzip or zstd file; None for any other file.

    Raises:
        MissingExtraError: the file is compressed with zstd, and no installed library decompresses that.
    """
    first = file.at(0, 4)
    if first[:2] == _GZIP:
        begun: Any = file  # typed as a full file object; only `read` is used
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
    return ArrowStream(pyarrow.CompressedInputStream(pyarrow.PythonFile(_Closable(file), mode="r"), "zstd"))


class _Closable:
    """A file with the `closed` and `close` that pyarrow requires."""

    closed = False

    def __init__(self, file: Readable) -> None:
        self.read = file.read

    def close(self) -> None:
        self.closed = True


class ArrowStream:
    """A pyarrow stream, whose `read` may return fewer bytes than requested before its end."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        return data
