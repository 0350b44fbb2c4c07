"""`LogFile`: one file of a broker's log directory: kind and content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.logdir.file_names import (
    PARTITION_KINDS,
    REMOTE_INDEXES,
    FileName,
    PartitionName,
    file_name,
    is_tiered,
    partition_name,
    tiered_partition_name,
)
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.located_file import UNKNOWN, LocatedFile

if TYPE_CHECKING:
    from kafkawire.rows import Row


class LogFile(LocatedFile, frozen=True):
    """A file. Iterating over it yields its rows (`rows_of`).

    Attributes:
        path: where it is, as it was reached. `root`: the broker's log directory that it belongs to.
        kind: `log`, `index`, `timeindex`, `txnindex`, `snapshot`, `epochs` (leader-epoch-checkpoint),
            `partition-metadata`, `meta-properties`, `checkpoint`, `quorum-state`, `kraft-snapshot`, `clean-shutdown`,
            `lock`; `unknown` for a name that Kafka does not give.
        topic, partition: from the directory's name; None for a file of the broker as a whole.
        offset: in the file's name: the first offset of a segment, the one before which a snapshot's state holds.
        state: `deleted`, `cleaned`, `swap`, `future`, `part`, `tmp` while the file is written, removed or replaced;
            `delete`, `future`, `stray` when its partition is; `tiered` in a tier; empty for a file in use.
    """

    def __iter__(self) -> Iterator[Row]:
        return rows_of(self)


def log_file(path: str, partition: PartitionName | None = None) -> LogFile:
    """The file at `path`, in the directory of that partition, or of a broker as a whole."""
    directory, name = os.path.split(path)
    found = file_name(name) or FileName(UNKNOWN, None, "")
    if partition is None:
        if os.path.basename(directory) == REMOTE_INDEXES:
            directory = os.path.dirname(directory)
        return LogFile(path, directory, found.kind, None, None, found.offset, found.state)
    named = os.path.basename(directory) == os.path.basename(os.path.abspath(directory))
    root = os.path.dirname(directory) if named else os.path.join(directory, os.pardir)  # "." has no parent in it
    state = found.state or partition.state
    return LogFile(path, root, found.kind, partition.topic, partition.partition, found.offset, state)


def partition_of(directory: str, names: Iterable[str]) -> PartitionName | None:
    """The partition whose directory this is, judged by its name and by the files in it: a broker's log directory may be
    named alike (`broker-1`), and a topic's id in a tier may end as a partition does."""
    names = list(names)
    named = tiered_partition_name if any(map(is_tiered, names)) else partition_name
    partition = named(os.path.basename(os.path.abspath(directory)))
    kinds = {found.kind for found in map(file_name, names) if found}
    return partition if kinds & PARTITION_KINDS else None
