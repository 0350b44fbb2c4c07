"""Two copies of a partition compared range by range of offsets: first digests, then the batches of ranges that differ.

A batch is of the range in which it begins. What it is in the other copy may depend on the status of its last offset
there, in a later range: a `Window` reaches up to the last offset of its batches in both copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED
from kafkawire.offsets import Replica
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.records.columns import Batches
from kafkawire.transactions.log.range_digests import RANGE_OFFSETS, Digests, digests_of, joined
from kafkawire.witness.contents import UInt64, mixed
from kafkawire.witness.grouping import identity
from kafkawire.witness.held import HELD, CopyOfPartition, Held, data_of, in_order, viewed
from kafkawire.witness.packed_rows import PackedRows

#: Digests of parts that are kept before they are added up.
_PENDING = 256
#: The state of a transaction that has not ended.
_NOT_ENDED = -1


def digests(replica: Replica, salt: int) -> Digests:
    """The digests of a copy's batches, by all that `comparison.by_offsets` compares: equal ones are the same batches.
    Of a damaged log whose offsets do not grow no digest equals that of another copy.

    Args:
        salt: a number of the copy.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[Digests] = []
    reached, grows = -1, True

    def look(batches: Batches) -> None:
        nonlocal reached, grows
        rows = data_of(replica, batches)
        if len(rows):
            grows = grows and bool(rows["base"][0] > reached) and bool((np.diff(rows["base"]) > 0).all())
            reached = int(rows["base"][-1])
            found.append(digests_of(rows["base"], rows["last"], _compared(rows)))
        if len(found) >= _PENDING:
            found[:] = [joined(found)]

    for _ in replica.runs(look=look):
        pass
    whole = joined(found)
    if not grows:
        whole["digest"] += mixed(np.full(len(whole), salt + 1))
    return whole


def _compared(rows: Held) -> UInt64:
    """A number a batch, of what is compared beside its offsets."""
    content, state = rows["content"], rows["state"].astype(np.int64)
    ended = np.where(np.isin(state, (COMMITTED, ABORTED)), state, _NOT_ENDED)
    return mixed(identity(rows["producer_id"], rows["epoch"], rows["sequence"], content), content, ended)


class Windows(NamedTuple):
    """Ranges whose batches are wanted. `number`: in order. `end`: the offset after the last one of its batches, in both
    copies."""

    number: Int64
    end: Int64

    def have(self, offsets: Int64) -> tuple[Bools, Int64]:
        """Whether the range of each offset is wanted; and its place."""
        number = offsets // RANGE_OFFSETS
        at = np.minimum(np.searchsorted(self.number, number), len(self.number) - 1)
        return self.number[at] == number, at

    def meet(self, first: Int64, end: Int64) -> Bools:
        """Whether each run of offsets has some of a window."""
        open_ = np.searchsorted(self.number * RANGE_OFFSETS, end, side="left")
        done = np.searchsorted(np.maximum.accumulate(self.end), first, side="right")
        return open_ > done


class RangePart(NamedTuple):
    """What a copy has of a range: some of its batches (`HELD`), or, once all were given, the rest of it, without
    batches."""

    number: int
    batches: Held | None = None
    copy: CopyOfPartition | None = None


def parts(replica: Replica, windows: Windows) -> Iterator[RangePart]:
    """What a copy has of ranges.

    Raises:
        OSError: a file cannot be read.
    """
    pending: list[Held] = []

    def look(batches: Batches) -> None:
        rows = data_of(replica, batches)
        wanted, _ = windows.have(rows["base"])
        if wanted.any():
            pending.append(rows[wanted])

    first: list[Int64] = []
    code: list[Int8] = []
    end = 0
    for runs in replica.runs(look=look):
        kept = windows.meet(runs.first, runs.end)
        kept[0] |= not first  # the status of what is before the first run
        first.append(runs.first[kept])
        code.append(runs.code[kept])
        end = int(runs.end[-1])
        yield from _by_range(pending, windows)
    yield from _by_range(pending, windows)
    statuses = np.concatenate([np.empty(0, np.int64), *first]), np.concatenate([np.empty(0, np.int8), *code])
    whole = viewed(replica, np.empty(0, HELD), *statuses, end, same=True)._replace(segments=())
    for number, last in zip(windows.number.tolist(), windows.end.tolist(), strict=True):
        runs_of_window = _within(*statuses, number * RANGE_OFFSETS, last)
        yield RangePart(number, copy=whole._replace(first=runs_of_window[0], code=runs_of_window[1]))


def _by_range(pending: list[Held], windows: Windows) -> Iterator[RangePart]:
    for rows in pending:
        _, at = windows.have(rows["base"])
        bounds = [0, *(np.flatnonzero(np.diff(at)) + 1).tolist(), len(rows)]
        for first, end in itertools.pairwise(bounds):
            yield RangePart(int(windows.number[at[first]]), batches=rows[first:end])
    pending.clear()


def _within(first: Int64, code: Int8, low: int, end: int) -> tuple[Int64, Int8]:
    """The runs that have offsets from `low` up to `end`."""
    begin = max(int(np.searchsorted(first, low, side="right")) - 1, 0)
    stop = max(int(np.searchsorted(first, end, side="left")), begin + 1)
    return first[begin:stop], code[begin:stop]


def window(batches: list[Held], copy: CopyOfPartition) -> CopyOfPartition:
    """The copy of a range, of its parts."""
    return copy._replace(batches=PackedRows.of(in_order(np.concatenate([np.empty(0, HELD), *batches]))))
