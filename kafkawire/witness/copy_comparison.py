"""Two copies of a partition, compared by offsets: what of each is in the other, or why it is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED
from kafkawire.offsets import statuses
from kafkawire.records.array_types import Int8, Int64
from kafkawire.witness.contents import NOT_COMPARABLE
from kafkawire.witness.grouping import identity
from kafkawire.witness.held import CopyOfPartition

#: What a batch, or a record, of a copy is in the other one. Those from LOST on break a promise.
(
    SAME, EXPIRED, COMPACTED, BEHIND, BEFORE, UNCOMMITTED, UNREADABLE, UNPROVEN, LOST, EXTRA, CHANGED, REPEATED,
    REORDERED,
) = range(13)  # fmt: skip
NAMES = (
    "same", "expired", "compacted", "behind", "before", "uncommitted", "unreadable", "compaction_not_proven", "lost",
    "extra", "changed", "repeated", "reordered",
)  # fmt: skip

#: What a batch is, by the status that its offset has in the other copy; -1: above its end.
_BY_STATUS = np.full(statuses.CODES + 1, LOST, np.int8)
for _status, _kind in (
    (statuses.COMPACTED, COMPACTED),
    (statuses.DELETED, EXPIRED),
    (statuses.ABOVE, UNCOMMITTED),
    (statuses.TRUNCATED, BEHIND),
    (statuses.UNREADABLE, UNREADABLE),
    (-1, BEHIND),
):
    _BY_STATUS[_status] = _kind


class Run(NamedTuple):
    """Neighbours that are the same thing in the other copy. `number`: of batches, or of records."""

    kind: int
    first_offset: int
    last_offset: int
    number: int


def by_offsets(one: CopyOfPartition, other: CopyOfPartition) -> Int8:
    """What each data batch of a copy is in another, by the codes of this module. Offsets are preserved. A batch that is
    committed in one and aborted in the other is changed."""
    mine, theirs = one.batches, other.batches
    base, last = mine["base"], mine["last"]
    if not len(base):
        return np.empty(0, np.int8)
    found = _BY_STATUS[_least_known(other.status(base), other.status(last))]
    # That nothing is there shows no compaction: the cleaner has to have come across.
    found[(found == COMPACTED) & (last >= other.compacted_to)] = UNPROVEN
    if len(theirs):
        place = np.minimum(np.searchsorted(theirs["base"], base), len(theirs) - 1)
        there = (theirs["base"][place] == base) & (theirs["last"][place] == last)
        mine_key, their_key = (
            identity(rows["producer_id"], rows["epoch"], rows["sequence"], rows["content"]) for rows in (mine, theirs)
        )
        content, their_content = mine["content"], theirs["content"][place]
        comparable = (content != NOT_COMPARABLE) & (their_content != NOT_COMPARABLE)
        same_producer = (mine_key == their_key[place]) | (
            (mine["producer_id"] < 0) & (theirs["producer_id"][place] < 0)
        )
        states, their_states = mine["state"], theirs["state"][place]
        ended = np.isin(states, (COMMITTED, ABORTED)) & np.isin(their_states, (COMMITTED, ABORTED))
        same = (states == their_states) | ~ended
        same = same & there & same_producer & (~comparable | (content == their_content))
        found = np.select([same, there & (found == LOST)], [np.int8(SAME), np.int8(CHANGED)], found)
    # What is not committed in the copy itself may be cut off there.
    own = one.status(last)
    return np.where((found >= LOST) & (own == statuses.ABOVE), np.int8(UNCOMMITTED), found).astype(np.int8)


def _least_known(first: Int8, last: Int8) -> Int8:
    """The status that counts, of those of a batch's first and last offset: other data at the first shows that the
    batch is not there; it is gone, or after the end, where its first offset is; what cannot be read shows nothing."""
    return np.where(_BY_STATUS[last] == UNREADABLE, last, first).astype(np.int8)


def runs_of(kinds: Int8, first: Int64, last: Int64) -> Iterator[Run]:
    """Neighbours of one kind as one.

    Args:
        kinds: of each batch or record, in order. first, last: their offsets.
    """
    starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1])[: len(kinds)])
    ends = np.append(starts[1:], len(kinds))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=False):
        yield Run(int(kinds[start]), int(first[start]), int(last[end - 1]), end - start)


class Side:
    """What the batches, or the records, of a copy are in the other one, added up in order.

    Args:
        most: differences that are kept, at most.

    Attributes:
        differences: neighbours of one kind, without those that are the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = [0] * len(NAMES)
        self._last: Run | None = None
        self.differences: list[Run] = []

    def add(self, runs: Iterable[Run]) -> Side:
        """Take what follows. A run that goes on the last one is part of it."""
        for run in runs:
            self._numbers[run.kind] += run.number
            last = self._last
            if last is not None and last.kind == run.kind:
                self._last = run._replace(first_offset=last.first_offset, number=last.number + run.number)
            else:
                self._close()
                self._last = run
        return self

    def _close(self) -> None:
        if self._last is not None and self._last.kind != SAME and len(self.differences) < self._most:
            self.differences.append(self._last)
        self._last = None

    def finish(self) -> Side:
        """Nothing follows."""
        self._close()
        return self

    @property
    def counts(self) -> dict[str, int]:
        """Number of each kind, by its name."""
        return {NAMES[kind]: number for kind, number in enumerate(self._numbers) if number}

    @property
    def broken(self) -> int:
        """Number of those that break a promise."""
        return sum(self._numbers[LOST:])
