"""`RingBuffer`: capture files that a program rotates over (`dumpcap -b`, `tcpdump -C -W` or `-G`), as one capture.

Files are read in the order of their first packets' times. A file counts as ended when a later file has a packet and its
own end has been read after that. So nothing is lost or read twice where one file continues another. A file that is
overwritten while it is read, or that disappears before, is reported as unread.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from glob import escape, glob, has_magic
from typing import Any, NamedTuple

from kafkawire.capture.file_damage import UnreadPart
from kafkawire.capture.files import POLL_S
from kafkawire.capture.packet import Packet, PacketRun
from kafkawire.capture.packets import NO_CAPTURE, read_packets, read_runs
from kafkawire.errors import CaptureError

#: A file's beginning, with its first packet's time: another one means that it was overwritten.
_HEAD_BYTES = 64
_PIECE = 1 << 20
#: Suffixes of files that are compressed after their end: the content is the same.
_COMPRESSED = re.compile(r"\.(gz|zst|lz4)\Z")
#: The number in names of `dumpcap -b`.
_NUMBERED = re.compile(r"_(\d{5,})_\d{14}\b")
_DIGITS = re.compile(r"(\d+)")

#: Time of the first packet, and the name with its numbers as numbers.
_Key = tuple[int, tuple[tuple[int, str], ...]]


class _Found(NamedTuple):
    """A file as it was at the last look."""

    path: str
    size: int


def is_ring(path: str) -> bool:
    """Whether a path names several files: a directory, or a pattern that is no file's name."""
    return os.path.isdir(path) or (has_magic(path) and not os.path.exists(path))


def files_of(path: str) -> list[str]:
    """The files that a directory or pattern names now."""
    paths = glob(os.path.join(escape(path), "*") if os.path.isdir(path) else path)
    return sorted(each for each in paths if os.path.isfile(each))


class RingBuffer:
    """The packets of files that are rotated over, numbered across them.

    Args:
        pattern: a directory, or a shell pattern.
        goes_on: whether more is waited for when all files are read.
    """

    def __init__(self, pattern: str, goes_on: Callable[[], bool]) -> None:
        self._pattern = pattern
        self._goes_on = goes_on
        self._known: dict[str, tuple[tuple[int, int, int], _Key | None]] = {}
        self._read: set[_Key] = set()
        self._pending: dict[_Key, _Found] = {}
        self._foreign: set[str] = set()
        self._number: int | None = None  # of the last file, in its name

    def packets(
        self, unread: Callable[[UnreadPart], None], engine: Any, keys: Callable[[bytes], None]
    ) -> Iterator[Packet | PacketRun]:
        """The packets of all files.

        Args:
            unread: called with each part that cannot be read, and each file that is gone.
            engine: the native tracker, which takes consecutive packets, or None.
            keys: called with each TLS key log in a file.

        Raises:
            FileNotFoundError: there is no file, and none is waited for.
        """
        count = 0
        while (found := self._next(unread)) is not None:
            try:
                file = _RingFile(found.path, self._has_ended)
            except FileNotFoundError:
                _gone(found, unread)
                continue
            with file:
                try:
                    for taken in read_runs(file, unread, engine, keys, count):
                        count = taken.number if isinstance(taken, Packet) else count + taken.packets
                        yield taken
                except CaptureError as error:
                    unread(UnreadPart(error.offset, 0, error, True))
                if file.lost is not None:
                    unread(file.lost)

    def _next(self, unread: Callable[[UnreadPart], None]) -> _Found | None:
        """The next file; None at the end."""
        while True:
            before = self._pending
            self._look(unread)
            for key, found in before.items():
                if key not in self._pending:
                    _gone(found, unread)
                    self._number = _number(found) or self._number
            if self._pending:
                key = min(self._pending)
                self._read.add(key)
                found = self._pending.pop(key)
                self._check_number(found, unread)
                return found
            if not self._goes_on():
                if not self._known:
                    reason = "the directory has no files" if os.path.isdir(self._pattern) else "no file matches"
                    raise FileNotFoundError(errno.ENOENT, reason, self._pattern)
                return None
            time.sleep(POLL_S)

    def _has_ended(self) -> bool:
        """Whether the file that is being read gains no more: a later one has a packet, or no more is waited for."""
        if not self._goes_on():
            return True
        return any(key not in self._read for _, key in self._signed().values() if key is not None)

    def _signed(self) -> dict[str, tuple[tuple[int, int, int], _Key | None]]:
        """The files that exist, with their signatures and keys; unchanged ones are not opened again."""
        found = {}
        for path in files_of(self._pattern):
            try:
                status = os.stat(path)
                signature = (status.st_ino, status.st_size, status.st_mtime_ns)
                known = self._known.get(path)
                found[path] = known if known is not None and known[0] == signature else (signature, _key(path))
            except FileNotFoundError:
                continue
        self._known = found
        return found

    def _look(self, unread: Callable[[UnreadPart], None]) -> None:
        """Looks for files that were not read."""
        # Of a file and its compressed copy the former counts.
        listed = reversed(self._signed().items())
        present = {key: _Found(path, signature[1]) for path, (signature, key) in listed if key}
        self._pending = {key: found for key, found in present.items() if key not in self._read}
        self._read &= present.keys()
        for path, (signature, key) in self._known.items():
            if key is None and path not in self._foreign and (error := _foreign(path)) is not None:
                self._foreign.add(path)
                unread(UnreadPart(0, signature[1], error, True))

    def _check_number(self, found: _Found, unread: Callable[[UnreadPart], None]) -> None:
        """Reports files whose numbers were passed over: they came and went between two looks."""
        number, before = _number(found), self._number
        if number is None:
            return
        self._number = number
        if before is not None and number > before + 1:
            expected = f"file number {before + 1}" + (f" to {number - 1}" if number > before + 2 else "")
            unread(UnreadPart(0, 0, CaptureError(expected=expected, found=f"number {number} only", offset=0), True))


class _RingFile:
    """A file of the ring that may grow. `lost`: what was overwritten before it was read.

    Args:
        ended: whether it gains no more.
    """

    def __init__(self, path: str, ended: Callable[[], bool]) -> None:
        self.lost: UnreadPart | None = None
        self._path = path
        self._ended = ended
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed by `__exit__`
        self._position = self._size = 0
        self._head = b""
        self._over = False

    def __enter__(self) -> _RingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int, /) -> bytes:
        data = b""
        while len(data) < size and self.lost is None:
            if piece := self.read1(min(size - len(data), _PIECE)):
                data += piece
            elif self._over or self.lost is not None:
                break
            elif self._ended():
                self._over = True  # once more: bytes may have come before the next file's
            else:
                time.sleep(POLL_S)
        return data

    def read1(self, size: int, /) -> bytes:
        """Bytes that the file has now; none at its end."""
        if self.lost is not None:
            return b""
        self._file.seek(self._position)
        piece = self._file.read(size) or b""
        if not self._is_same():
            return b""
        self._position += len(piece)
        return piece

    def _is_same(self) -> bool:
        """Whether the bytes that were read are those of the file that was opened."""
        self._file.seek(0)
        head = self._file.read(_HEAD_BYTES) or b""
        if head.startswith(self._head):
            self._head = head
            self._size = max(self._size, os.fstat(self._file.fileno()).st_size)
            return True
        error = CaptureError(
            expected=f"the rest of {self._path}", found="a file that was overwritten", offset=self._position
        )
        self.lost = UnreadPart(self._position, self._size - self._position, error, True)
        return False


def _number(found: _Found) -> int | None:
    match = _NUMBERED.search(os.path.basename(found.path))
    return None if match is None else int(match[1])


def _gone(found: _Found, unread: Callable[[UnreadPart], None]) -> None:
    error = CaptureError(expected=found.path, found="that it was deleted or overwritten before it was read", offset=0)
    unread(UnreadPart(0, found.size, error, True))


def _key(path: str) -> _Key | None:
    """The place of a file in the order; None while it has no packet."""
    try:
        with open(path, "rb") as file:
            first = next(read_packets(file), None)
    except CaptureError:
        return None
    name = _COMPRESSED.sub("", os.path.basename(path))
    natural = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name))
    return None if first is None else (first.time_ns, natural)


def _foreign(path: str) -> CaptureError | None:
    """Why a file is no capture; None for one that may become one."""
    try:
        with open(path, "rb") as file:
            if len(file.read(4)) < 4:
                return None
            file.seek(0)
            next(read_packets(file), None)
    except FileNotFoundError:
        return None
    except CaptureError as error:
        if error.offset == 0 and error.expected == NO_CAPTURE:
            return CaptureError(expected=error.expected, found=f"{path}, {error.found}", offset=0)
    return None
