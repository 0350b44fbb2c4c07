"""`OffsetWalk`: batches, damage and segments of a log, in order -> runs that give each offset one status. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import Outcomes
from kafkawire.offsets.status_runs import runs_of, runs_of_old
from kafkawire.offsets.statuses import COMPACTED, NO_REASON, UNREADABLE, Runs, Why
from kafkawire.records import Batch
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.rows import DamageRow


class _Held(NamedTuple):
    """Batches, the path of their segment, and the damage in front of them."""

    item: Batches | Batch
    path: str
    damaged: Why | None


class OffsetWalk:
    """Takes a log in order. Each method yields the runs that are certain then.

    Batches are held back until it is known what follows: the base offset is under no checksum, and one that is too high
    shows where the next batch goes back. Of offsets that occur twice the first batch counts.

    Args:
        start: the offset at which the log begins.
        outcomes: of its transactions.

    Attributes:
        reached: the offset after the last one that has a status.
        damaged: the first damage since the last batch; None: none.
    """

    def __init__(self, start: int, outcomes: Outcomes) -> None:
        self.reached = start
        self.damaged: Why | None = None
        self._outcomes = outcomes
        self._held: _Held | None = None
        self._segment = ""

    def segment(self, path: str, base: int) -> Iterator[Runs]:
        """The next segment: its path, and the least offset that its batches have."""
        yield from self._release(base)
        self._segment = path

    def damage(self, damage: DamageRow) -> None:
        """Bytes that cannot be read; batches may have been there."""
        if not damage.harmless and damage.reason != "offset_backwards":
            self._note(Why(damage.reason, damage.detail, self._segment, damage.position or 0))

    def add(self, item: Batches | Batch) -> Iterator[Runs]:
        """The next batches."""
        yield from self._release(item.base_offset if isinstance(item, Batch) else int(item.base_offset[0]))
        self._held, self.damaged = _Held(item, self._segment, self.damaged), None

    def up_to(self, end: int) -> Iterator[Runs]:
        """The log has all offsets up to `end`."""
        cleaned = self._outcomes.cleaned_to
        if self.damaged is None and self.reached < cleaned < end:
            yield from self.up_to(cleaned)
        if end > self.reached:
            code, why = (UNREADABLE, self.damaged) if self.damaged is not None else self._missing(end, self._segment)
            yield Runs.one(self.reached, end, code, why)
            self.reached = end

    def finish(self) -> Iterator[Runs]:
        """The end of the log."""
        yield from self._release(None)

    def _note(self, why: Why) -> None:
        self.damaged = self.damaged or why

    def _release(self, following: int | None) -> Iterator[Runs]:
        """The runs of the batches that were held back. `following`: the offset of the next batch."""
        if self._held is None:
            return
        (item, path, damaged), self._held = self._held, None
        base, last, at = header_arrays(item, "base_offset", "last_offset", "position")
        before = int(last[-2]) + 1 if len(last) > 1 else self.reached
        wrong = following is not None and before <= following < base[-1]
        if wrong:
            detail = f"its base offset, {base[-1]}, is above that of the next batch, {following}"
        if not wrong or len(base) > 1:
            kept = item.where(np.arange(len(base)) < len(base) - wrong) if isinstance(item, Batches) else item
            if damaged is not None and base[0] > self.reached:
                yield Runs.one(self.reached, int(base[0]), UNREADABLE, damaged)
                self.reached = int(base[0])
            yield from self._runs(kept, path)
        elif damaged is not None:
            self.damaged = damaged
        if wrong:
            self._note(Why("offset_backwards", detail, path, int(at[-1])))

    def _runs(self, item: Batches | Batch, path: str) -> Iterator[Runs]:
        for part in self._apart(item):
            cleaned, base = self._outcomes.cleaned_to, int(header_arrays(part, "base_offset")[0][0])
            if self.reached < cleaned < base:
                yield from self.up_to(cleaned)
            gap = Runs.one(0, 0, *self._missing(base, path))
            if isinstance(part, Batches):
                found = runs_of(part, self.reached, self._outcomes, gap, path)
            else:
                found = runs_of_old(part, self.reached, gap, path)
            for runs in found:
                if runs:
                    self.reached = int(runs.end[-1])
                    yield runs

    def _apart(self, item: Batches | Batch) -> Iterator[Batches | Batch]:
        """Batches up to where a cleaner has been, and those after."""
        if isinstance(item, Batches):
            behind = item.base_offset > self._outcomes.cleaned_to
            first = int(behind.argmax())
            if behind[first] and first:
                yield item.where(slice(0, first))
                yield item.where(slice(first, len(item)))
                return
        yield item

    def _missing(self, end: int, path: str) -> tuple[int, Why]:
        """The status of offsets that are missing up to one where nothing is damaged, and the reason."""
        if end <= self._outcomes.cleaned_to:
            return COMPACTED, NO_REASON
        return UNREADABLE, Why("missing", "no file that was given has them", path)
