"""`LogFile`: one file of a broker's log directory; what it is, and its content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import TYPE_CHECKING

import msgspec

from kafkawire.errors import RecordError
from kafkawire.logdir.names import PARTITION_KINDS, FileName, PartitionName, file_name, partition_name
from kafkawire.logdir.small_files import MAX_BYTES
from kafkawire.logdir.source import FileSource
from kafkawire.records import MAX_BATCH_BYTES, Batch, Damage, read

if TYPE_CHECKING:
    from kafkawire.rows import Place, Row

UNKNOWN = "unknown"


class LogFile(msgspec.Struct, frozen=True):
    """A file. Iterating over it yields its rows (`rows_of`).

    Attributes:
        path: where it is, as it was reached. `root`: the broker's log directory that it belongs to.
        kind: `log`, `index`, `timeindex`, `txnindex`, `snapshot`, `epochs` (leader-epoch-checkpoint),
            `partition-metadata`, `meta-properties`, `checkpoint`, `quorum-state`, `kraft-snapshot`, `clean-shutdown`,
            `lock`; `unknown` for a name that Kafka does not give.
        topic, partition: from the directory's name; None for a file of the broker as a whole.
        offset: in the file's name: the first offset of a segment, the one before which a snapshot's state holds.
        state: `deleted`, `cleaned`, `swap`, `part` while the file is removed or replaced; `delete`, `future`, `stray`
            when its partition is; empty for a file in use.
    """

    path: str
    root: str
    kind: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    state: str = ""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def size(self) -> int:
        """Bytes, now."""
        return os.stat(self.path).st_size

    @property
    def place(self) -> Place:
        """What the file's rows say of where they come from."""
        return {"file": self.path, "topic": self.topic, "partition": self.partition}

    def batches(
        self,
        *,
        start: int = 0,
        end: int | None = None,
        check_crc: bool = True,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> Iterator[Batch | Damage]:
        """The batches of a segment (or KRaft snapshot) and the damage between them; see `records.read`.

        Only headers are read. Offsets in a segment ascend; a batch that goes back has damage before it
        (`offset_backwards`): the base offset is not under the checksum.
        """
        with FileIO(self.path) as file:
            following = self.offset if self.kind == "log" and self.offset is not None else 0
            for item in read(
                FileSource(file), start=start, end=end, check_crc=check_crc, max_batch_bytes=max_batch_bytes
            ):
                if isinstance(item, Batch):
                    if item.base_offset < following:
                        detail = f"base offset {item.base_offset} where {following} or more should follow"
                        yield Damage(item.position, "offset_backwards", detail, item.position)
                    following = item.last_offset + 1
                yield item

    def read_bytes(self) -> bytes:
        """All bytes of a small file.

        Raises:
            RecordError: the file is larger than any that Kafka writes under such a name.
        """
        with FileIO(self.path) as file:
            source = FileSource(file, 0)
            if source.size > MAX_BYTES:
                raise RecordError(expected=f"at most {MAX_BYTES} bytes", found=str(source.size), offset=0)
            return bytes(source.at(0, source.size))

    def __iter__(self) -> Iterator[Row]:
        from kafkawire.logdir.rows_of import rows_of

        return rows_of(self)


def log_file(path: str, partition: PartitionName | None = None) -> LogFile:
    """The file at `path`, in the directory of that partition, or of a broker as a whole."""
    directory, name = os.path.split(path)
    found = file_name(name) or FileName(UNKNOWN, None, "")
    if partition is None:
        return LogFile(path, directory, found.kind, None, None, found.offset, found.state)
    named = os.path.basename(directory) == os.path.basename(os.path.abspath(directory))
    root = os.path.dirname(directory) if named else os.path.join(directory, os.pardir)  # "." has no parent in it
    state = found.state or partition.state
    return LogFile(path, root, found.kind, partition.topic, partition.partition, found.offset, state)


def partition_of(directory: str, names: Iterable[str]) -> PartitionName | None:
    """The partition whose directory this is, judged by its name and by the files in it: a broker's log directory may be
    named alike (`broker-1`)."""
    partition = partition_name(os.path.basename(os.path.abspath(directory)))
    kinds = {found.kind for found in map(file_name, names) if found}
    return partition if kinds & PARTITION_KINDS else None
