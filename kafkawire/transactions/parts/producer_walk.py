"""Batches that the native engine takes as they lie in the log: columns of those of producers, and what is counted.

walk = ProducerWalk(scan, None)
for item in batches_of(file, taker=walk):
    appends = walk.drain()    # of those before the item, which is one of the others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from kafkawire.logdir.file_source import FileSource
from kafkawire.records.array_types import Bytes, Int64
from kafkawire.records.columns import WINDOW
from kafkawire.records.compression import MAX_BATCH_BYTES
from kafkawire.transactions.log.appends import Appends
from kafkawire.wire.backend import native

#: Whether the native engine takes them.
ENGINE = native is not None
#: Bytes after which no more are taken at once; and that are read from a file at once, few, so that they are in a near
#: cache until their batches are taken.
AT_ONCE, CHUNK = 1 << 20, 256 << 10

#: What the engine takes batches from: bytes; or an open file's descriptor, two positions, and `AT_ONCE` and `CHUNK`.
Content: TypeAlias = Bytes | tuple[int, tuple[int, int], tuple[int, int]]


def contents(source: FileSource, position: int, stop: int) -> Iterator[Content]:
    """What lies between two positions, from the first on: of a file of this machine as one that the engine reads
    itself, where the system lets it; then as bytes."""
    if source.descriptor is not None:
        yield source.descriptor, (position, stop), (AT_ONCE, CHUNK)
    yield np.frombuffer(source.at(position, min(WINDOW, stop - position)), np.uint8)


class BrokerTimes(NamedTuple):
    """Of batches whose timestamp is a broker's.

    Attributes:
        leader_epoch: the highest. `of_leader`: the newest timestamp of this epoch. `newest`: of all.
    """

    leader_epoch: int
    of_leader: int
    newest: int


class Runs(NamedTuple):
    """Batches that follow one another, an element a run of them.

    Attributes:
        bases: the first offset. ends: the offset after the last. counts: how many batches are of producers with ids.
    """

    bases: Int64
    ends: Int64
    counts: Int64


class ScannedLog(NamedTuple):
    """Some batches, one after the other.

    Attributes:
        size: bytes. `batches`: their number; of none the rest says nothing.
        transactional: how many of producers with ids are.
        leader_epoch: the highest.
        times: None where no batch has a broker's.
        digests: see `range_digests.DIGEST`.
        columns: of `Appends`, in its order, without `intact_from`.
    """

    size: int
    batches: int
    transactional: int
    leader_epoch: int
    times: BrokerTimes | None
    runs: Runs
    digests: Bytes
    columns: tuple[Any, ...]

    @classmethod
    def of(cls, found: tuple[Any, ...]) -> ScannedLog:
        """What the engine returns."""
        size, batches, transactional, leader_epoch, times, runs, digests, columns = found
        of_brokers = None if times is None else BrokerTimes(*times)
        return cls(size, batches, transactional, leader_epoch, of_brokers, Runs(*runs), digests, columns)


class LogScan(Protocol):
    """What counts batches.

    Attributes:
        broker_written: all timestamps are those of brokers.
    """

    broker_written: bool

    def add_scanned(self, found: ScannedLog) -> Appends | None:
        """Count batches. Returns those of producers with ids; None where none has one."""


class ProducerWalk:
    """A `splits.BatchTaker`.

    Args:
        seen: called with the bytes of batches, many at a time.
    """

    def __init__(self, scan: LogScan, seen: Callable[[int], None] | None) -> None:
        self._scan = scan
        self._seen = seen
        self._found: list[Appends] = []
        self.following: int | None = None

    def take(self, source: FileSource, position: int, stop: int) -> int:
        """See `BatchTaker.take`."""
        tried = (self._scanned(content) for content in contents(source, position, stop))
        found = next((one for one in tried if one.batches), None)
        if found is None:
            return 0
        self.following = int(found.runs.ends[-1])
        appends = self._scan.add_scanned(found)
        if appends is not None:
            self._found.append(appends)
        if self._seen is not None:
            self._seen(found.size)
        return found.size

    def _scanned(self, content: Content) -> ScannedLog:
        assert native is not None
        return ScannedLog.of(native.scan_log(content, self.following, MAX_BATCH_BYTES, self._scan.broker_written))

    def drain(self) -> list[Appends]:
        """Take out the batches of producers so far."""
        found, self._found = self._found, []
        return found
