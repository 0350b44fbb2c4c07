"""Counts the records that a consumer will get between two offsets, batch by batch. Pure.

Markers, other control records and removed records do not count. The outcome of each batch's transaction is known, or is
counted as unknown; offsets that were not read count in the highest number only. So the bounds hold, whatever was not
read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, NONE, OPEN, ended
from kafkawire.records import Batch
from kafkawire.records.array_types import Bools, Int8
from kafkawire.records.columns import Batches
from kafkawire.rows import LagCount

_GOT = (NONE, COMMITTED)


@dataclass
class Amount:
    """Records and bytes: at least, and at most. `most_bytes` is None where that is not known."""

    least: int = 0
    most: int = 0
    least_bytes: int = 0
    most_bytes: int | None = 0

    def add(self, other: Amount, *, certain: bool = True) -> None:
        """Add another amount; `certain`: also what it is at least."""
        if certain:
            self.least += other.least
            self.least_bytes += other.least_bytes
        self.most += other.most
        self.most_bytes = (
            None if self.most_bytes is None or other.most_bytes is None else self.most_bytes + other.most_bytes
        )

    def row(self) -> LagCount:
        exact = self.least == self.most
        return LagCount(
            least=self.least,
            most=self.most,
            bytes_least=self.least_bytes,
            bytes_most=self.least_bytes if exact else self.most_bytes,
            exact=exact,
        )


@dataclass
class Part:
    """Batches of one outcome: the amounts that are below the last stable offset, that may be below it, that are at it
    or after it, and all together. `first`: offset and timestamp of the first record below the last stable offset; None
    where there is none."""

    stable: Amount = field(default_factory=Amount)
    doubtful: Amount = field(default_factory=Amount)
    behind: Amount = field(default_factory=Amount)
    whole: Amount = field(default_factory=Amount)
    first: tuple[int, int | None] | None = None

    def add(self, other: Part) -> None:
        for name in ("stable", "doubtful", "behind", "whole"):
            getattr(self, name).add(getattr(other, name))
        if self.first is None or (other.first is not None and other.first < self.first):
            self.first = other.first or self.first


class LagCounter:
    """Counts batches from an offset on.

    Args:
        start: the first offset that is counted. `stable`: the last stable offset, the least that it may be.
        high: the high watermark: nothing from there on counts.
        stable_at_most: the highest that the last stable offset may be; None: `stable`.

    Attributes:
        read_to: everything from `start` up to this offset was seen.
        uncertain: sentences on what makes bounds of numbers, once each.
    """

    def __init__(self, start: int, stable: int, high: int, stable_at_most: int | None = None) -> None:
        self.start, self.high = start, max(high, start)
        self.stable = min(max(stable, start), self.high)
        self.stable_at_most = min(max(self.stable, stable if stable_at_most is None else stable_at_most), self.high)
        self._ranges = (
            ("stable", self.start, self.stable),
            ("doubtful", self.stable, self.stable_at_most),
            ("behind", self.stable_at_most, self.high),
        )
        self.read_to = start
        self.uncertain: dict[str, None] = {}
        self._committed, self._uncommitted, self._held = Amount(), Amount(), Amount()
        self._first: tuple[int, int | None] | None = None
        self._doubtful_first: int | None = None

    # What is seen ----------------------------------------------------------------------------------------------------

    def part(self, batch: Batch) -> Part:
        """A data batch, by the offsets that are counted."""
        batch = batch.measured()
        base, after = batch.base_offset, batch.last_offset + 1
        found = Part()
        low, high = max(base, self.start), min(after, self.high)
        if low >= high:
            return found
        whole = base >= self.start and after <= self.high
        inside = [(name, one, two) for name, one, two in self._ranges if low < two and high > one]
        counted = batch.record_count >= 0 and batch.magic >= 0
        if whole and len(inside) == 1 and counted:
            amount = Amount(batch.record_count, batch.record_count, batch.size, batch.size)
            getattr(found, inside[0][0]).add(amount)
            found.whole.add(amount)
        else:
            self._by_records(found, batch, inside)
        if found.stable.most and self._first is None:
            found.first = max(base, self.start), self._timestamp(batch)
        return found

    def take(self, part: Part, state: int) -> None:
        """Count batches whose transaction ended in a state (`transaction_states`)."""
        self._uncommitted.add(part.whole)
        if state == ABORTED:
            return
        certain = state in _GOT
        self._committed.add(part.stable, certain=certain)
        self._committed.add(part.doubtful, certain=False)
        self._held.add(part.doubtful, certain=False)
        self._held.add(part.behind, certain=certain)
        if part.first is not None:
            if certain:
                self._first = part.first if self._first is None else min(self._first, part.first)
            elif self._doubtful_first is None or part.first[0] < self._doubtful_first:
                self._doubtful_first = part.first[0]

    def add(self, batch: Batch, state: int) -> None:
        """Count a batch of any kind."""
        if not batch.is_control:
            self.take(self.part(batch), state)
        self.read_to = max(self.read_to, batch.last_offset + 1)

    def add_columns(self, found: Batches, states: Int8) -> None:
        """Count many batches. `states`: of each."""
        base, after = found.base_offset, found.last_offset + 1
        data: Bools = ~found.is_control & (after > self.start) & (base < self.high)
        plain = data & (base >= self.start)
        simple = np.zeros(len(found), bool)
        for name, low, high in self._ranges:
            within = plain & (base >= low) & (after <= high)
            simple |= within
            for state in np.unique(states[within]).tolist():
                chosen = within & (states == state)
                records, size = int(found.record_count[chosen].sum()), int(found.size[chosen].sum())
                part, amount = Part(), Amount(records, records, size, size)
                getattr(part, name).add(amount)
                part.whole.add(amount)
                if name == "stable" and records:
                    index = int(np.flatnonzero(chosen & (found.record_count > 0))[0])
                    known = self._first is not None or state not in _GOT
                    part.first = int(base[index]), None if known else self._timestamp(found.batch(index))
                self.take(part, state)
        for index in np.flatnonzero(data & ~simple).tolist():
            self.take(self.part(found.batch(index)), int(states[index]))
        if len(after):
            self.read_to = max(self.read_to, int(after.max()))

    def unread(self, first: int, end: int, why: str) -> None:
        """Offsets from `first` up to `end` were not seen: each may be a record of any outcome. `why`: a sentence."""
        first, end = max(first, self.start), min(end, self.high)
        if first >= end:
            return
        self.uncertain[why] = None
        for amount, low, high in (
            (self._committed, self.start, self.stable_at_most),
            (self._held, self.stable, self.high),
            (self._uncommitted, self.start, self.high),
        ):
            number = min(end, high) - max(first, low)
            if number > 0:
                amount.add(Amount(most=number, most_bytes=None))
        if first < self.stable_at_most and (self._doubtful_first is None or first < self._doubtful_first):
            self._doubtful_first = first

    def finished(self, number: int | None) -> None:
        """A share group has finished with some of the offsets that were counted: so many records may be fewer.
        `number`: of offsets; None: it is not known of how many."""
        if number == 0:
            return
        self.uncertain["members of the share group have finished with some of the records, out of order"] = None
        for amount in (self._committed, self._uncommitted, self._held):
            amount.least = 0 if number is None else max(0, amount.least - number)
            amount.least_bytes = 0

    # What follows from it --------------------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[LagCount, LagCount, LagCount]:
        """The amounts that a read_committed consumer gets, that a read_uncommitted one gets, and that are held back."""
        return self._committed.row(), self._uncommitted.row(), self._held.row()

    @property
    def oldest_timestamp(self) -> int | None:
        """The timestamp of the first record that a read_committed consumer gets; None where that is not known."""
        if self._first is None or (self._doubtful_first is not None and self._doubtful_first < self._first[0]):
            return None
        return self._first[1]

    def _by_records(self, found: Part, batch: Batch, inside: list[tuple[str, int, int]]) -> None:
        base, after = batch.base_offset, batch.last_offset + 1
        try:
            offsets = [record.offset for record in batch.records]
        except RecordError as error:
            self.uncertain[f"the records of the batch at offset {base} could not be read: {error}"] = None
            for name, low, high in inside:
                most = min(after, high) - max(base, low)
                getattr(found, name).add(Amount(0, most, 0, batch.size))
                found.whole.add(Amount(0, most, 0, 0))
            found.whole.add(Amount(0, 0, 0, batch.size))
            return
        total = 0
        for name, low, high in inside:
            number = sum(low <= offset < high for offset in offsets)
            total += number
            if number:
                getattr(found, name).add(Amount(number, number, batch.size, batch.size))
        if total:
            found.whole.add(Amount(total, total, batch.size, batch.size))

    def _timestamp(self, batch: Batch) -> int | None:
        """The timestamp of the first record of a batch that counts."""
        try:
            return next((one.timestamp for one in batch.records if one.offset >= self.start), None)
        except RecordError:
            return None


class MarkerOutcomes:
    """The outcomes of batches by the next marker of their producer, for a log that is read in order without gaps.
    `counter`: gets the batches as soon as their outcome is known."""

    def __init__(self, counter: LagCounter) -> None:
        self._counter = counter
        self._pending: dict[int, Part] = {}

    def add(self, batch: Batch) -> None:
        """Take the next batch."""
        counter = self._counter
        if batch.is_control:
            if batch.producer_id in self._pending:
                counter.take(self._pending.pop(batch.producer_id), ended(batch))
        elif batch.transactional and batch.producer_id >= 0:
            part = counter.part(batch)
            self._pending.setdefault(batch.producer_id, Part()).add(part)
        else:
            counter.take(counter.part(batch), NONE)
        counter.read_to = max(counter.read_to, batch.last_offset + 1)

    def finish(self) -> None:
        """The end of what was read: transactions without a marker are open, or end where nothing was read."""
        for part in self._pending.values():
            if part.stable.most or part.doubtful.most:
                why = "transactions below the last stable offset end where it was not read"
                self._counter.uncertain[why] = None
            self._counter.take(part, OPEN)
        self._pending.clear()
