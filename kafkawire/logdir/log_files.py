"""`LogFile`: one file of a broker's log directory: kind and content."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.logdir import file_names
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.located_file import UNKNOWN, LocatedFile
from kafkawire.logdir.tier_objects import INDEXES, SLICES

if TYPE_CHECKING:
    from kafkawire.rows import Row


class LogFile(LocatedFile, frozen=True):
    """A file. Iterating over it yields its rows (`rows_of`).

    Attributes:
        path: where it is, as it was reached. `root`: the broker's log directory that it belongs to.
        kind: `log`, `index`, `timeindex`, `txnindex`, `snapshot`, `epochs` (leader-epoch-checkpoint),
            `partition-metadata`, `meta-properties`, `checkpoint`, `quorum-state`, `kraft-snapshot`, `clean-shutdown`,
            `lock`; `rsm-manifest` in a tier of Aiven's plugin; `unknown` for a name that Kafka does not give.
        topic, partition: from the directory's name; None for a file of the broker as a whole.
        offset: in the file's name: the first offset of a segment, the one before which a snapshot's state holds.
        state: `deleted`, `cleaned`, `swap`, `future`, `part`, `tmp` while the file is written, removed or replaced;
            `delete`, `future`, `stray` when its partition is; `tiered` in a tier; empty for a file in use.
    """

    def __iter__(self) -> Iterator[Row]:
        return rows_of(self)


def log_file(path: str, partition: file_names.PartitionName | None = None, tier_keys: tuple[str, ...] = ()) -> LogFile:
    """The file at `path`, in the directory of that partition, or of a broker as a whole. `tier_keys`: paths of private
    keys for encrypted tiers."""
    directory, name = os.path.split(path)
    found = file_names.file_name(name) or file_names.FileName(UNKNOWN, None, "")
    if partition is None:
        if os.path.basename(directory) == file_names.REMOTE_INDEXES:
            directory = os.path.dirname(directory)
        return LogFile(path, directory, found.kind, None, None, found.offset, found.state)
    in_tier = partition.state == file_names.TIERED
    in_objects = in_tier and file_names.tiered_partition_name(os.path.basename(directory)) is None
    if in_objects:
        directory = os.path.dirname(directory)
    root, state = _root(directory), found.state or partition.state
    if in_tier and not file_names.is_tiered(name):  # it is no part of the tier
        in_objects, state = False, found.state
    kind, keys = found.kind, tier_keys if in_objects else ()
    return LogFile(path, root, kind, partition.topic, partition.partition, found.offset, state, None, in_objects, keys)


def _root(directory: str) -> str:
    """The log directory that a partition's directory is in."""
    if os.path.basename(directory) in ("", os.curdir, os.pardir):  # there is no parent in it
        return os.path.join(directory, os.pardir)
    return sys.intern(os.path.dirname(directory))  # the files of a directory share one text


def partition_of(directory: str, names: Iterable[str]) -> file_names.PartitionName | None:
    """The partition whose directory this is, judged by its name and by the files in it: a broker's log directory may be
    named alike (`broker-1`), and a topic's id in a tier may end as a partition does."""
    names = list(names)
    topic, name = os.path.split(os.path.abspath(directory))
    if any(map(file_names.is_tiered, names)):
        partition = file_names.tiered_partition_name(name) or file_names.objects_partition_name(
            os.path.basename(topic), name
        )
    else:
        partition = file_names.partition_name(name)
    found = filter(None, map(file_names.file_name, segment_names(names)))
    # A KRaft snapshot without an offset is the broker's `bootstrap.checkpoint`.
    known = (
        one.kind in file_names.PARTITION_KINDS and (one.kind, one.offset) != ("kraft-snapshot", None) for one in found
    )
    return partition if partition is not None and any(known) else None


def segment_names(names: Iterable[str]) -> Iterator[str]:
    """The names of files, with those of the indexes that are in one object of a tier."""
    for name in names:
        stem, _, suffix = name.rpartition(".")
        if suffix != INDEXES or not file_names.is_tiered(name):
            yield name
        else:
            yield from (f"{stem}.{one}" for one in SLICES)
