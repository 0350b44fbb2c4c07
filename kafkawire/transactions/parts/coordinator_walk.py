"""Batches of `__transaction_state` that are taken without columns of their headers: there are three for a transaction.

walk = CoordinatorWalk(scan, history, None)
for item in batches_of(file, taker=walk): ...    # the others, as usual
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from kafkawire.logdir.file_source import FileSource
from kafkawire.records.array_types import Bytes, Int64
from kafkawire.records.compression import MAX_BATCH_BYTES
from kafkawire.transactions.parts.producer_walk import Content, contents


class Walked(NamedTuple):
    """What some batches, one after the other, have in common with all others.

    Attributes:
        size: bytes. `batches`: their number; of none the rest says nothing.
        leader_epoch: the highest. `leader_time`: the newest timestamp of batches of this epoch. `newest`: of all.
        bases, ends: first offsets of batches that follow one another, and the offset after the last of these.
        digests: see `range_digests.DIGEST`.
    """

    size: int
    batches: int
    leader_epoch: int
    leader_time: int
    newest: int
    bases: Int64
    ends: Int64
    digests: Bytes


_NO_NUMBERS, _NO_BYTES = np.empty(0, np.int64), np.empty(0, np.uint8)
#: Of no batch.
NOTHING = Walked(0, 0, -1, -1, -1, _NO_NUMBERS, _NO_NUMBERS, _NO_BYTES)


class RecordWalk(Protocol):
    """What takes the records of batches in their order."""

    def walk(self, content: Content, following: int | None, max_batch_bytes: int) -> Walked:
        """Take the batches at the beginning of a content, up to one that has a producer or is a control batch, is
        damaged, begins below the offset `following`, or has records that cannot be read at once. It may stop earlier.
        """


class WalkedScan(Protocol):
    """What counts batches."""

    def add_walked(self, found: Walked) -> None:
        """Count batches that were taken."""


class CoordinatorWalk:
    """A `splits.BatchTaker`.

    Args:
        seen: called with the bytes of batches, many at a time.
    """

    def __init__(self, scan: WalkedScan, records: RecordWalk, seen: Callable[[int], None] | None) -> None:
        self._scan = scan
        self._records = records
        self._seen = seen
        self.following: int | None = None

    def take(self, source: FileSource, position: int, stop: int) -> int:
        """See `BatchTaker.take`."""
        walked = (self._records.walk(one, self.following, MAX_BATCH_BYTES) for one in contents(source, position, stop))
        found = next((one for one in walked if one.batches), None)
        if found is None:
            return 0
        self._scan.add_walked(found)
        self.following = int(found.ends[-1])
        if self._seen is not None:
            self._seen(found.size)
        return found.size
