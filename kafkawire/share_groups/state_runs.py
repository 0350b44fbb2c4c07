"""Runs of offsets in one delivery state, and how a coordinator combines them (`PersisterStateBatchCombiner`).

Where two runs cover an offset, the higher delivery count wins, then the higher state: a record that is delivered again
has a higher count, and within one delivery a state only rises.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Run(NamedTuple):
    """Consecutive offsets in one state.

    Attributes:
        first, last: offsets, both included.
        state: number of the delivery state. deliveries: how often they were delivered.
    """

    first: int
    last: int
    state: int
    deliveries: int

    @property
    def rank(self) -> tuple[int, int]:
        """What decides between two runs: the higher one wins."""
        return self.deliveries, self.state

    def cut(self, first: int, last: int) -> Run:
        """The part of it between two offsets, both included."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))


def combined(before: Sequence[Run], written: Iterable[Run], start: int) -> list[Run]:
    """The runs after a change: in order, without overlaps, neighbours of one state joined.

    Args:
        before: in order and without overlaps.
        written: the change, in any order. Runs whose last offset is below their first are left out.
        start: what is below it is dropped; -1: nothing is.
    """
    found = list(before)
    for run in written:
        if run.first > run.last:
            continue
        low = bisect_left(found, run.first, key=_last)
        high = low
        while high < len(found) and found[high].first <= run.last:
            high += 1
        found[low:high] = _merged(found[low:high], run)
    return joined(run.cut(start, run.last) if start != -1 else run for run in found if run.last >= start)


def _last(run: Run) -> int:
    return run.last


def _merged(before: list[Run], run: Run) -> list[Run]:
    """Runs that all overlap one, with it."""
    made, at = [], run.first
    for one in before:
        if one.first < at:
            made.append(one.cut(one.first, at - 1))
        elif one.first > at:
            made.append(run.cut(at, one.first - 1))
        inside = one.cut(run.first, run.last)
        made.append(inside if one.rank >= run.rank else run.cut(inside.first, inside.last))
        at = inside.last + 1
        if one.last > run.last:
            made.append(one.cut(run.last + 1, one.last))
    if at <= run.last:
        made.append(run.cut(at, run.last))
    return made


def joined(runs: Iterable[Run]) -> list[Run]:
    """Runs in order, neighbours of one state and count as one."""
    found: list[Run] = []
    for run in runs:
        if found and found[-1].last + 1 == run.first and found[-1].rank == run.rank:
            found[-1] = found[-1]._replace(last=run.last)
        else:
            found.append(run)
    return found


def difference(one: Sequence[Run], other: Sequence[Run]) -> Iterator[tuple[int, int, Run | None, Run | None]]:
    """Where two sequences of runs, each in order and without overlaps, are not the same: first and last offset, and
    what each has there."""
    edges = sorted({edge for run in (*one, *other) for edge in (run.first, run.last + 1)})
    left, right = _Walk(one), _Walk(other)
    for first, end in pairwise(edges):
        here, there = left.at(first), right.at(first)
        if (here and here.rank) != (there and there.rank):
            yield first, end - 1, here, there


class _Walk:
    """Looks up offsets that rise."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs, self._place = runs, 0

    def at(self, offset: int) -> Run | None:
        while self._place < len(self._runs) and self._runs[self._place].last < offset:
            self._place += 1
        if self._place == len(self._runs) or self._runs[self._place].first > offset:
            return None
        return self._runs[self._place]
