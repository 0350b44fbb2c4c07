"""The replicas below some paths, listed again and again: a directory is read only if it has changed since."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafkawire import logdir
from kafkawire.logdir import BrokerDirectory, Partition
from kafkawire.logdir.file_names import TIERED, is_uri
from kafkawire.logdir.folders import Links, scanned
from kafkawire.logdir.located_file import Stamp
from kafkawire.logdir.log_files import log_file, partition_of

#: File systems count time in ticks: a change in the tick of a listing does not show.
_TICK_NS = 2_000_000_000


class _Folder(NamedTuple):
    """A directory: when it was modified (-1: just now), the replica that it is, the directories in it and whether each
    is a link."""

    modified: int
    replica: Partition | None
    folders: tuple[tuple[str, bool], ...]


class ReplicaListing:
    """The replicas in use below paths, with their segments only; not those that a broker deletes or moves, nor
    those in tiers, of which it warns.

    A directory's modification time changes with the names in it. Stores have no such time: there everything is listed,
    with one request for a thousand files, and only what the times and sizes show to be new is read.
    """

    def __init__(self, paths: Callable[[], Iterable[str]]) -> None:
        self._paths = paths
        self._folders: dict[str, _Folder] = {}
        self._warned: set[str] = set()
        self._stamps: dict[str, tuple[tuple[tuple[str, Stamp | None], ...], Partition]] = {}
        self._properties: dict[str, dict[str, str]] = {}

    def __call__(self) -> dict[str, Partition]:
        """The replicas, by their directories.

        Raises:
            OSError: a path is missing.
        """
        brokers: dict[str, BrokerDirectory] = {}
        before, self._folders = self._folders, {}
        found: dict[str, Partition] = {}
        for path in self._paths():
            local = not is_uri(path) and os.path.isdir(path)
            top = path.rstrip(os.sep) or os.sep
            listed = self._below(top, before, Links(top)) if local else self._in_store(path)
            for replica in listed:
                if replica.state == TIERED and replica.path not in self._warned:
                    self._warned.add(replica.path)
                    warnings.warn(f"{replica.path} is in a tier, which streams do not read", RuntimeWarning)
                if not replica.state:
                    replica.copies = ()
                    replica.broker = self._broker(brokers, replica)
                    found.setdefault(replica.path, replica)
        return found

    def _broker(self, brokers: dict[str, BrokerDirectory], replica: Partition) -> BrokerDirectory:
        """A broker's checkpoint files are read anew at each listing, its `meta.properties` once."""
        root = replica.broker.root
        if root not in brokers:
            brokers[root] = BrokerDirectory(root, replica.files[0])
            if root in self._properties:
                brokers[root].properties = self._properties[root]
            self._properties[root] = brokers[root].properties
        return brokers[root]

    def _in_store(self, path: str) -> Iterator[Partition]:
        """The replicas of a store: a replica whose files have not changed since the last listing is kept from it."""
        for replica in logdir.open(path).partitions:
            stamps = tuple((file.name, file.stamp) for file in replica.files)
            known = self._stamps.get(replica.path)
            if known is None or known[0] != stamps or any(stamp is None for _, stamp in stamps):
                known = self._stamps[replica.path] = stamps, replica
            yield known[1]

    def _below(self, path: str, before: dict[str, _Folder], links: Links) -> Iterator[Partition]:
        try:
            modified = os.stat(path).st_mtime_ns
            known = before.get(path)
            if known is None or known.modified != modified:
                known = _listed(path, modified)
        except FileNotFoundError:
            return  # removed since its parent was listed
        self._folders[path] = known
        if known.replica is not None:
            yield known.replica
        for name, is_link in known.folders:
            below = os.path.join(path, name)
            if not is_link or links.follows(below):
                yield from self._below(below, before, links)


def _listed(path: str, modified: int) -> _Folder:
    settled = time.time_ns() - modified > _TICK_NS
    files, folders = scanned(path)
    names = [entry.name for entry in files]
    partition = partition_of(path, names)
    segments = [log_file(os.path.join(path, name), partition) for name in names if partition and ".log" in name]
    replica = Partition(segments, BrokerDirectory(segments[0].root, segments[0])) if segments else None
    return _Folder(modified if settled else -1, replica, tuple((entry.name, entry.is_symlink()) for entry in folders))
