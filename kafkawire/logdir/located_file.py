"""`LocatedFile`: a file, the parts of its name and of its directory's name, and its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from kafkawire.logdir import tier_objects
from kafkawire.logdir.file_source import FileSource, Opened, open_file
from kafkawire.records import MAX_BATCH_BYTES, Batch, Damage, read

if TYPE_CHECKING:
    from typing import Self

    from kafkawire.rows import RowOrigin

UNKNOWN = "unknown"
#: Kinds of files that hold record batches.
BATCHES = frozenset({"log", "kraft-snapshot"})
#: Checkpoints and properties are KBs, snapshots of producers MBs; a larger file is neither.
MAX_BYTES = 256 << 20
#: What is equal while a file has not changed: its number, size, and time of the last write.
Stamp = tuple[int, int, int]


class LocatedFile(msgspec.Struct, frozen=True):
    """A file of a log directory; see `LogFile` for what the fields mean."""

    path: str
    root: str
    kind: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    state: str = ""
    #: Where the part ends that is read, in bytes; None: at the end of the file. What follows belongs to no log.
    limit: int | None = None
    #: Whether it is in objects of Aiven's plugin, and paths of the private keys for these.
    in_objects: bool = False
    tier_keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def folder(self) -> str:
        """Its directory, as `open` takes it."""
        return os.path.dirname(self.path) or os.curdir

    @property
    def size(self) -> int:
        """The current size in bytes, of the part that is read."""
        return self._limited(tier_objects.size(self) if self.in_objects else self._stored_size)

    @property
    def _stored_size(self) -> int:
        return os.stat(self.path).st_size

    def _limited(self, size: int) -> int:
        return size if self.limit is None else min(size, self.limit)

    @property
    def modified(self) -> float:
        """The time of the last write, epoch seconds, by the clock of its machine."""
        return os.stat(self._stored_path).st_mtime

    @property
    def _stored_path(self) -> str:
        return tier_objects.object_of(self.path) if self.in_objects else self.path

    @property
    def stamp(self) -> Stamp | None:
        """None where the file is gone, and in another store: to ask for the time costs as much there as to read."""
        try:
            found = os.stat(self._stored_path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    @property
    def listed_whole(self) -> bool:
        """Whether the files that its folder had are known: what was not listed then was not there."""
        return False

    @property
    def place(self) -> RowOrigin:
        """The origin of the file's rows."""
        return {"file": self.path, "topic": self.topic, "partition": self.partition}

    def opened(self) -> Opened:
        """The file, open for reading, unbuffered. Raises OSError: the file does not exist, must not be read, or is no
        regular file."""
        return tier_objects.opened(self) if self.in_objects else self.raw(self.path)

    def raw(self, path: str) -> Opened:
        """The file at a path of the same store, with the bytes that are stored there."""
        return open_file(path)

    @contextmanager
    def source(self, window: int | None = None) -> Iterator[FileSource]:
        """Its bytes, in windows, while the context lasts."""
        with self.opened() as file:
            yield FileSource(file, limit=self.limit) if window is None else FileSource(file, window, self.limit)

    def elsewhere(self, path: str) -> Self:
        """The file at another path of the same store."""
        return msgspec.structs.replace(self, path=path, limit=None, in_objects=False)

    def beside(self, kind: str) -> Self:
        """The file of another kind of the same segment, in the same state; it need not exist."""
        directory, name = os.path.split(self.path)
        parts = name.split(".")
        parts[1] = kind
        return msgspec.structs.replace(self, path=os.path.join(directory, ".".join(parts)), kind=kind, limit=None)

    def batches(
        self, *, start: int = 0, end: int | None = None, check_crc: bool = True, max_batch_bytes: int = MAX_BATCH_BYTES
    ) -> Iterator[Batch | Damage]:
        """The batches of a segment (or KRaft snapshot) and the damage between them; see `records.read`.

        Only headers are read. Offsets in a segment ascend; a batch that goes back has damage before it
        (`offset_backwards`): the base offset is not under the checksum.

        Args:
            start, end: positions in the file, in bytes: batches that begin between them.
            check_crc: compare every checksum.
            max_batch_bytes: limit of a batch, in the file and decompressed.
        """
        with self.source() as source:
            begin = max(start, self.begin)
            found = read(source, start=begin, end=end, check_crc=check_crc, max_batch_bytes=max_batch_bytes)
            yield from ascending(found, self.least_offset)

    @property
    def begin(self) -> int:
        """Where the part begins that can be read, in bytes."""
        return 0

    @property
    def least_offset(self) -> int:
        """Least offset that the batches of a segment can have: the one in its name."""
        return self.offset if self.kind == "log" and self.offset is not None else 0

    def content(self) -> bytes | Damage:
        """All bytes of a small file; or the damage, where it is larger than any that Kafka writes under its name, or
        became shorter while it was read. Raises OSError: the file cannot be read."""
        with self.source(0) as source:
            if source.size > MAX_BYTES:
                return Damage(0, "too_large", f"{source.size} bytes; at most {MAX_BYTES} are read")
            data = bytes(source.at(0, source.size))
            return data if len(data) == source.size else Damage.of_shortened(0, len(data), source.size)

    def read_bytes(self) -> bytes:
        """All bytes of a small file. Raises OSError: the file cannot be read; RecordError: `content` is
        damage."""
        found = self.content()
        if isinstance(found, Damage):
            raise found.error()
        return found


def known_size(file: LocatedFile) -> int:
    """Bytes of a file; 0 where it is gone or cannot be asked, which reading it reports."""
    try:
        return file.size
    except OSError:
        return 0


def ascending(found: Iterable[Batch | Damage], following: int) -> Iterator[Batch | Damage]:
    """The batches and the damage, with damage before a batch whose offset is below the one that should follow."""
    for item in found:
        if isinstance(item, Batch):
            if item.base_offset < following:
                detail = f"base offset {item.base_offset} where {following} or more should follow"
                yield Damage(item.position, "offset_backwards", detail, item.position)
            following = item.last_offset + 1
        yield item
