"""`OffsetScan`: the offsets of a log that are missing, and those that occur twice, from its batches in order. Pure.

The audit (`transactions.parts.segment_scan`), the outcomes of transactions (`transaction_states`) and the statuses of
offsets (`offsets.batch_runs`) all use this scan. Why offsets are missing (damage, compaction, a segment that is not
here) is known to these callers. A part of a log is scanned without the parts before it; parts are joined
(`LogOffsets.then`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.offset_gap import OffsetGap

#: The value of `LogOffsets.following` where the log begins.
LOG_BEGINS = -(1 << 62)
#: The value of `intact_from` where no offset of the part is missing: the intact offsets begin in a part before it.
BEFORE = -1


class Steps(NamedTuple):
    """How batches follow one another.

    Attributes:
        reached: before each batch the offset after the highest one so far, and last the one after all: an element more.
        breaks: the batches that do not begin there.
        gaps: those of them before which offsets are missing; the others go back, to offsets that come twice.
    """

    reached: Int64
    breaks: Int64
    gaps: Int64


def steps(base: Int64, after: Int64, reached: int) -> Steps:
    """How batches follow one another, and what was before them.

    Args:
        base, after: the first offset of each batch, and the one after its last.
        reached: the offset after the highest one before them.
    """
    before = np.maximum.accumulate(np.concatenate(([reached], after)))
    breaks = np.flatnonzero(base != before[:-1])
    return Steps(before, breaks, breaks[base[breaks] > before[breaks]])


def gaps_between(base: Int64, after: Int64, reached: int) -> Iterator[tuple[int, int]]:
    """The ranges of offsets that are missing before and between batches. `base`, `after`, `reached`: see `steps`."""
    ends, _, gaps = steps(base, after, reached)
    return zip(ends[gaps].tolist(), base[gaps].tolist(), strict=True)


class LogOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a part of a log, which may be known without those before it.

    Attributes:
        first_offset: of its first batch; None where the part has none.
        following: the offset after its last batch; None where it is not known, and `LOG_BEGINS` at the log's beginning.
        reached: the offset after the highest one.
        gap: the last range of offsets in it that could not be read.
        intact_from: the lowest offset from which up to its end no offset is missing; `BEFORE` where that is below the
            part.
    """

    first_offset: int | None = None
    following: int | None = None
    reached: int = 0
    gap: OffsetGap | None = None
    intact_from: int = BEFORE

    def begins_at(self, first_offset: int | None) -> int:
        """The `intact_from` of a batch at that offset, where it is the next."""
        if first_offset is None or self.following in (None, first_offset):
            return self.intact_from
        return first_offset

    def then(self, part: LogOffsets) -> LogOffsets:
        """Both as one: associative, and `LogOffsets()` is the identity. The first batch of `part` is not below
        `reached`, or the part was scanned from this state."""
        gap, first = part.gap, part.first_offset
        if gap is None and first is not None and self.first_offset is not None and first > self.reached:
            gap = OffsetGap(self.reached, first)
        moved = first is not None
        return LogOffsets(
            first_offset=first if self.first_offset is None else self.first_offset,
            following=part.following if moved else self.following,
            reached=max(self.reached, part.reached) if moved else self.reached,
            gap=gap or self.gap,
            intact_from=self.begins_at(first) if part.intact_from == BEFORE else part.intact_from,
        )


class OffsetScan:
    """Takes the batches of a part of a segment, in order, many at a time. `before`: what is known of the segment before
    the part; None: nothing."""

    def __init__(self, before: LogOffsets | None) -> None:
        self._known = before is not None
        before = before or LogOffsets()
        self._continues = before.first_offset is not None
        self._first_offset: int | None = None
        self._reached, self._following, self._intact_from = before.reached, before.following, before.intact_from
        self._gap: OffsetGap | None = None
        self._last_gap = -1

    def add(self, base: Int64, after: Int64, emptied: Bools | None = None) -> Int64:
        """Take batches: the first offset of each, and the one after its last.

        Args:
            emptied: which of them are markers that compaction emptied: offsets are intact from the one after them on.

        Returns:
            Of each batch the first of the offsets up to it of which none is missing.
        """
        if not self._known:
            self._known, self._reached, self._following = True, int(base[0]), int(base[0])
        has_emptied = emptied is not None and bool(emptied.any())
        if not has_emptied and self._reached == self._following == base[0] and bool((base[1:] == after[:-1]).all()):
            # Nearly always: no offset is missing, and none comes twice.
            self._first_offset = int(base[0]) if self._first_offset is None else self._first_offset
            self._last_gap = -1
            self._reached = max(self._reached, int(after[-1]))
            self._following = int(after[-1])
            return np.full(len(base), self._intact_from, np.int64)
        reached, _, gaps = steps(base, after, self._reached)
        if self._first_offset is None:
            self._first_offset = int(base[0])
            gaps = gaps if self._continues else gaps[gaps > 0]
        self._last_gap = -1
        if len(gaps):
            self._last_gap = int(gaps[-1])
            self._gap = OffsetGap(int(reached[self._last_gap]), int(base[self._last_gap]))
        self._reached = int(reached[-1])
        return self._intact(base, after, gaps[:0] if emptied is None else np.flatnonzero(emptied))

    def lose(self, place: int, gap: OffsetGap) -> None:
        """A batch of those that were taken last cannot be read: its offsets are the last gap, unless a later batch has
        one before it."""
        if place >= self._last_gap:
            self._gap = gap

    def _intact(self, base: Int64, after: Int64, emptied: Int64) -> Int64:
        before = np.concatenate(([base[0] - 1 if self._following is None else self._following], after[:-1]))
        broken = np.flatnonzero(base != before)
        at = np.concatenate(([-1], 2 * broken, 2 * emptied + 1))
        values = np.concatenate(([self._intact_from], base[broken], after[emptied]))
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
        found: Int64 = values[np.searchsorted(at, 2 * np.arange(len(base)), side="right") - 1]
        self._intact_from, self._following = int(values[-1]), int(after[-1])
        return found

    @property
    def found(self) -> LogOffsets:
        """The part's offsets, of what was taken so far."""
        return LogOffsets(
            first_offset=self._first_offset,
            following=self._following,
            reached=self._reached,
            gap=self._gap,
            intact_from=self._intact_from,
        )
