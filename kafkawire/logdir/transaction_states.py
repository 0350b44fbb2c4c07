"""`TransactionScan`: how the transactions of a partition ended, from its batches, as read_committed consumers see it
(KIP-98; Kafka's `CompletedFetch` and `UnifiedLog.fetchLastStableOffsetMetadata`). No I/O: `isolation` reads a
partition.

The outcome of a transactional batch is in the next marker of its producer, whatever began before the log or the part of
it that was read. So a `TransactionScan` of a part needs no part before it, scans are joined in the order of the log
(`take`), and its memory grows with producers, aborted transactions, and those whose outcome is unknown.

An outcome is unknown where the marker may be among offsets that are missing. Compaction leaves a marker as long as
records of its transaction are left (Kafka's `CleanedTransactionMetadata`): offsets that it removed hide none. Those
that are missing where no cleaner has been are lost (`cleaned`).

Missing offsets may also have held the beginning of a transaction that is still open. So the last stable offset is at
most the first of them, until the snapshot of a later offset shows what is open there (`settle`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kafkawire.logdir.cleaning import NOT_CLEANED, Cleaned
from kafkawire.logdir.data_ranges import DataRange, DataRanges, table_of
from kafkawire.logdir.marker_codes import code_of, control_codes, events
from kafkawire.logdir.offset_scan import steps
from kafkawire.logdir.ongoing import Ongoing
from kafkawire.logdir.transaction_doubts import NO_OFFSET, FirstMarker, StateProblem, Unstable, unseen_ending
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.records.control import ABORT_CODE, COMMIT_CODE, DATA_CODE, EMPTY_CODE, MALFORMED_CODE

#: States of a batch, and their names. A marker has the state in which it leaves its transaction.
NONE, COMMITTED, ABORTED, OPEN, UNKNOWN = range(5)
STATES = ("none", "committed", "aborted", "open", "unknown")

_STATE_OF = np.array([ABORTED, COMMITTED, UNKNOWN, UNKNOWN], np.int8)
#: `events` of a batch that has no producer.
_NO_EVENTS = np.empty(0, np.int64), np.empty(0, np.int8)
#: The number of problems that are kept.
_MOST_PROBLEMS = 100
#: Batches from which on arrays are faster than a step for each.
_MANY = 32


def ended(batch: Batch) -> int:
    """The state in which a control batch leaves the data of its producer before it."""
    return int(_STATE_OF[code_of(batch)])


class TransactionScan:
    """What a part of a log shows of its transactions.

    Attributes:
        first, end: the first offset, and the one after the highest; None: no batch.
        open: producer id -> first offset of the data whose marker has not come.
        aborted: data that an ABORT marker ended.
        unknown: data before offsets that are hidden, or ended by a marker that does not show how.
        doubtful: data before a gap, with the code of the marker after it: unknown unless compaction explains the gap.
        gap, hidden: the offset after the last missing offsets that compaction does not explain, and after the last ones
            that damage hides; -1: none.
        first_gap, first_hidden: the first one of them since the last snapshot that was taken; `NO_OFFSET`: none.
        repeated: ranges of offsets that occur twice.
        problems: the first ones, in order.
        damaged: bytes could not be read since the last batch. What could not be read before a snapshot's offset may
            reach after it.

    Args:
        end: the offset at which the part begins, where it is known.
        ongoing: the transactions that are open there, as `open`.
        cleaned: where compaction may have been.
    """

    def __init__(
        self, end: int | None = None, ongoing: dict[int, int] | None = None, cleaned: Cleaned = NOT_CLEANED
    ) -> None:
        self.first: int | None = None
        self.end = end
        self.open = Ongoing(ongoing or {})
        self.aborted: list[DataRange] = []
        self.unknown: list[DataRange] = []
        self.doubtful: list[tuple[DataRange, int]] = []
        self.gap = self.hidden = -1
        self.first_gap = self.first_hidden = NO_OFFSET
        self._cleaned = cleaned
        self.repeated: list[tuple[int, int]] = []
        self.problems: list[StateProblem] = []
        self._heads: dict[int, FirstMarker] = {}
        self._malformed: dict[int, int] = {}
        self._again: dict[int, int] = {}  # first data of each open transaction after the last missing offsets
        self.damaged = False
        self._alone: int | None = None  # offset of the last batch, if damage is directly before it and nothing after
        self._begins_damaged = False

    # A part, batch by batch ------------------------------------------------------------------------------------------

    def add(self, found: Batches | Batch) -> None:
        """Take the next batches, or one of magic 0 or 1, which has no producer."""
        base, last = header_arrays(found, "base_offset", "last_offset")
        after = last + 1
        if isinstance(found, Batches):
            self.take_cleaned(self._cleaned.seen(found))
        if self.first is None:  # the first batch may hold the offset at which the part begins
            self.first = int(base[0])
            self.end = self.first if self.end is None or self.first < self.end <= after[0] else self.end
        assert self.end is not None
        reached, jumps, _ = steps(base, after, self.end)
        if len(jumps):  # compaction explains gaps, but for one that damage may have left
            near = (base[jumps] < reached[jumps]) | (base[jumps] > self.cleaned_to)
            jumps = jumps[near | (self.damaged & (jumps == 0))]
        at, codes = events(found) if isinstance(found, Batches) else _NO_EVENTS
        done, damaged = 0, self.damaged
        if not (len(jumps) and jumps[0] == 0):
            self._alone = None
        for index in jumps.tolist():
            if index == 1 and damaged:
                self._alone = int(base[0])
            upto = int(at.searchsorted(index))
            self._follow(found, at[done:upto], codes[done:upto])
            done = upto
            self._jump(int(reached[index]), int(base[index]))
        self._follow(found, at[done:], codes[done:])
        self.end, self.damaged = int(reached[-1]), False
        self._alone = int(base[0]) if damaged and len(base) == 1 else None

    def damage(self, text: str) -> None:
        """Note that bytes at this place cannot be read; there may have been batches."""
        self.damaged = True
        self._begins_damaged = self._begins_damaged or self.first is None
        self._problem(StateProblem(-1 if self.end is None else self.end, text))

    def begin_behind(self, offset: int) -> None:
        """The log begins at an offset, and what is scanned begins after that: the offsets between are missing."""
        self.first_hidden = offset
        self._problem(StateProblem(self.end or 0, f"offsets {offset} to {(self.end or 0) - 1} are missing"))

    @property
    def in_doubt(self) -> bool:
        """Whether a snapshot of the offset that was reached would show more than the log up to there."""
        return self.damaged or min(self.first_hidden, self.first_gap) < NO_OFFSET or bool(self._malformed)

    @property
    def cleaned_to(self) -> int:
        """Compaction may have removed offsets before it, and none from it on."""
        return self._cleaned.to

    def take_cleaned(self, cleaned: Cleaned) -> None:
        """Note where compaction has been, too: that explains what is missing there."""
        self._cleaned = self._cleaned.joined(cleaned)
        if self.gap <= self.cleaned_to:
            self.gap, self.first_gap = -1, NO_OFFSET
            left = self._again.items()
            self._again = {one: offset for one, offset in left if self.open.get(one, NO_OFFSET) < self._jumped}

    def settle(self, offset: int, ongoing: dict[int, int]) -> None:
        """Take what a `.snapshot` has of an offset, up to which nothing more follows: where offsets before it are
        missing, it shows what is open after them. Other transactions that were open before them have ended.

        Args:
            offset: in the snapshot's name.
            ongoing: the transactions that are open there, as `open`.
        """
        self._follow_alone(offset if self.end is None else self.end, offset)
        jumped = offset if self.end is not None and self.end < offset else self._jumped
        left = Ongoing(ongoing)
        for producer_id, first in self.open.items():
            now = ongoing.get(producer_id, -1)
            if 0 <= now <= first:
                continue
            if max(jumped, self._malformed.get(producer_id, -1)) > first:
                self.unknown.append(DataRange(producer_id, first, now if now > first else offset))
                if jumped == offset:
                    self._problem(StateProblem(offset, f"offsets {self.end} to {offset - 1} are missing"))
            else:  # the log shows all of it, and the snapshot contradicts
                left[producer_id] = first
        self.open = left
        self.end = offset
        self.gap = self.hidden = -1
        self.first_gap = self.first_hidden = NO_OFFSET
        self._again, self._malformed = {}, {}
        self.damaged = False

    def skip(self, offset: int) -> None:
        """Pass over missing offsets that compaction does not explain. `offset`: the one after them."""
        end = self.end or 0
        self._follow_alone(end, offset)
        self._problem(StateProblem(end, f"offsets {end} to {offset - 1} are missing"))
        self.first_hidden = min(self.first_hidden, end)
        self.hidden = self.end = offset
        self.damaged = False

    def _follow_alone(self, end: int, offset: int) -> None:
        """What follows a batch directly after damage begins at an offset. Where that is not the batch's end, the batch
        may have another offset than it says: no checksum covers that, and the damage may reach into it."""
        if self._alone is not None and end < offset > self.cleaned_to:
            self.repeated.append((self._alone, end))
            self._problem(
                StateProblem(self._alone, f"the batch at offset {self._alone} follows damage and is not continued")
            )
        self._alone = None

    def _jump(self, reached: int, base: int) -> None:
        """Offsets do not follow one another."""
        self._follow_alone(reached, base)
        if base < reached:
            self.repeated.append((base, reached))
            self._problem(StateProblem(base, f"offsets go back from {reached} to {base}"))
            self.hidden = reached
        elif self.damaged:
            self.hidden = base
            self.first_hidden = min(self.first_hidden, reached)
        elif base > self.cleaned_to:
            lost = max(reached, self.cleaned_to)
            self.gap = base
            self.first_gap = min(self.first_gap, lost)
            self._problem(StateProblem(lost, f"offsets {lost} to {base - 1} are missing", gap=base))
        self.damaged = False

    def _follow(self, found: Batches | Batch, at: Int64, codes: Int8) -> None:
        """Take batches of transactions between which no offsets are missing."""
        producers, offsets = (column[at] for column in header_arrays(found, "producer_id", "base_offset"))
        first = self.open.take(producers, offsets, codes)
        if self._malformed or len(at) < _MANY or (codes >= EMPTY_CODE).any():
            chosen = np.arange(len(at))
        else:  # what began before this, in offsets that are missing or in a part before, is taken one by one
            marks = np.flatnonzero(codes != DATA_CODE)
            one_by_one = (first >= 0) & (first < self._jumped)
            new = set(producers[marks].tolist()) - self._heads.keys()
            if new:
                one_by_one[marks] |= [producer_id in new for producer_id in producers[marks].tolist()]
            chosen = np.flatnonzero(one_by_one)
            aborted = np.flatnonzero(~one_by_one & (codes == ABORT_CODE) & (first >= 0))
            self.aborted += map(
                DataRange, producers[aborted].tolist(), first[aborted].tolist(), offsets[aborted].tolist()
            )
        listed = (producers[chosen], offsets[chosen], codes[chosen], first[chosen])
        for producer_id, offset, code, begun in zip(*(column.tolist() for column in listed), strict=True):
            if code == DATA_CODE:
                if begun < self._jumped > self._again.get(producer_id, -1):
                    self._again[producer_id] = offset
            elif code == MALFORMED_CODE:
                self._malformed[producer_id] = offset
            else:
                malformed = self._forget(producer_id)
                self._mark(producer_id, FirstMarker(begun, self.gap, self.hidden, malformed, offset, code))

    @property
    def _jumped(self) -> int:
        """The offset after the last missing ones; -1: none."""
        return max(self.hidden, self.gap)

    def _forget(self, producer_id: int) -> int:
        """A transaction ends. Returns the offset of the producer's last malformed marker; -1: none."""
        self._again.pop(producer_id, None)
        return self._malformed.pop(producer_id, -1)

    def _mark(self, producer_id: int, head: FirstMarker) -> None:
        """A transaction ends; the first one of a producer may have begun in a part before."""
        if producer_id not in self._heads:
            self._heads[producer_id] = head
        elif head.first >= 0:
            self._end(producer_id, head)

    def _end(self, producer_id: int, head: FirstMarker) -> None:
        begun, _, hidden, malformed, marker, code = head
        if malformed > begun:
            hidden = max(hidden, malformed)
            self._problem(unseen_ending(producer_id, begun, malformed))
        if hidden > begun:
            self.unknown.append(DataRange(producer_id, begun, hidden))
            begun = hidden
        if head.gap > begun:
            self.doubtful.append((DataRange(producer_id, begun, head.gap), code))
            begun = head.gap
        if code == ABORT_CODE:
            self.aborted.append(DataRange(producer_id, begun, marker))
        elif code != COMMIT_CODE:
            self.unknown.append(DataRange(producer_id, begun, marker))
            self._problem(unseen_ending(producer_id, begun, marker))

    def _problem(self, problem: StateProblem) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    # Parts -----------------------------------------------------------------------------------------------------------

    def take(self, part: TransactionScan) -> None:
        """Take the next part of the log."""
        self.take_cleaned(part._cleaned)
        if part.gap <= self.cleaned_to:
            part.gap, part.first_gap = -1, NO_OFFSET
        if part.first is not None and self.end is not None:
            self.damaged = self.damaged or part._begins_damaged
            straddles = self.first is None and part.first < self.end
            if part.first != self.end and not straddles:
                self._jump(self.end, part.first)
        where = -1 if self.end is None else self.end
        for problem in part.problems:
            self._problem(problem._replace(offset=where) if problem.offset < 0 else problem)
        for producer_id, head in part._heads.items():
            begun, malformed = self.open.end(producer_id), self._forget(producer_id)
            self._mark(producer_id, head._replace(
                first=head.first if begun < 0 else begun, gap=max(head.gap, self.gap),
                hidden=max(head.hidden, self.hidden), malformed=max(head.malformed, malformed),
            ))  # fmt: skip
        self._malformed |= part._malformed
        self.aborted += part.aborted
        self.unknown += part.unknown
        self.doubtful += part.doubtful
        self.repeated += part.repeated
        self.gap, self.hidden = max(self.gap, part.gap), max(self.hidden, part.hidden)
        self.first_gap = min(self.first_gap, part.first_gap)
        self.first_hidden = min(self.first_hidden, part.first_hidden)
        for producer_id, first in part.open.items():
            found = (self._again.get(producer_id, -1), first, part._again.get(producer_id, -1))
            if self.open.begin(producer_id, first) < self._jumped:
                self._again[producer_id] = next((one for one in found if one >= self._jumped), -1)
        if part.first is not None and part.end is not None:
            self.first = part.first if self.first is None else self.first
            self.end, self.damaged = max(part.end, self.end or 0), False
        self.damaged = self.damaged or part.damaged

    def unstable(self, offset: int | None = None) -> Unstable:
        """Where the last stable offset may be, by what is open at an offset that the scan has reached, or that lies
        among missing ones after it. None: at the end."""
        gap, hidden = self.first_gap, self.first_hidden
        if self.end is not None and offset is not None and self.end < offset:
            if self.damaged:
                hidden = min(hidden, self.end)
            elif offset > self.cleaned_to:
                gap = min(gap, max(self.end, self.cleaned_to))
        alone = () if self._alone is None or self.end == offset else (self._alone,)
        least = min([*self.open.values(), hidden, *alone, *(low for low, _ in self.repeated)])
        return Unstable(least, gap, min((one.first for one in self._ongoing()), default=NO_OFFSET))

    def _ongoing(self) -> Iterator[DataRange]:
        """The transactions that are certainly open: after missing offsets, only those that have data there."""
        for producer_id, first in self.open.items():
            begun = first if first >= self._jumped else self._again.get(producer_id, -1)
            if begun >= max(0, self._jumped):
                yield DataRange(producer_id, begun, NO_OFFSET)

    @property
    def unsure(self) -> set[int]:
        """The producers of whose transactions some have no certain outcome."""
        doubtful = (one.producer_id for one, _ in self.doubtful if one.end > self.cleaned_to)
        late = [one for one, head in self._heads.items() if max(head.gap, head.hidden) > head.first >= 0]
        return {*self.open, *(one.producer_id for one in self.unknown), *doubtful, *late}

    def finish(self, *, continues: bool = False) -> Outcomes:
        """What is known of the log, once all of it was taken. The scan takes nothing after that. `continues`: whether
        the log went on after the last batch. What is open there is unknown then."""
        heads, self._heads = self._heads, {}
        for producer_id, head in heads.items():
            if head.first >= 0:
                self._end(producer_id, head)
        for one, code in self.doubtful:
            if one.end > self.cleaned_to:
                self.unknown.append(one)
            elif code == ABORT_CODE:
                self.aborted.append(one)
        for producer_id, first in self.open.items():
            malformed = self._malformed.get(producer_id, -1)
            if malformed > first:
                self.unknown.append(DataRange(producer_id, first, malformed))
                self._problem(unseen_ending(producer_id, first, malformed))
            if continues or self.damaged:
                self.unknown.append(DataRange(producer_id, first, NO_OFFSET))
            elif first < self._jumped:
                self.unknown.append(DataRange(producer_id, first, self._jumped))
        end = 0 if self.end is None else self.end
        if continues and self.open:
            self._problem(StateProblem(end, f"the log from offset {end} on is not here"))
        return Outcomes(
            end=end,
            aborted=table_of(self.aborted),
            unknown=table_of(self.unknown),
            ongoing=table_of(self._ongoing()),
            repeated=tuple(self.repeated),
            problems=tuple(one for one in self.problems if not 0 <= one.gap <= self.cleaned_to),
            cleaned_to=self.cleaned_to,
        )


_NOTHING = table_of(())


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How the transactions of a partition ended.

    Attributes:
        start: consumers get no offset before it. `end`: of what was read, the offset after the last.
        last_stable_offset: where read_committed consumers stop, or the least offset at which they may: before it no
            transaction can be open. high_watermark: where others do.
        last_stable_at_most: the highest offset at which they may stop.
        undecided: the damage that is between the two, with the path of the segment where it begins; None: they are one.
        aborted, unknown, ongoing: data of transactions that were aborted, whose outcome is unknown, that are open.
            Other transactional data is committed.
        repeated: ranges of offsets that occur twice; transactional data in them is unknown.
        problems: why outcomes are unknown, in order.
        cleaned_to: compaction may have removed offsets before it, and none from it on.
        damage: of the small files that decide what the log is and where it begins and ends, each with its file's path:
            the result would be another one with what it hides.
    """

    start: int = 0
    end: int
    last_stable_offset: int = NO_OFFSET
    last_stable_at_most: int = NO_OFFSET
    undecided: tuple[str, Damage] | None = None
    high_watermark: int = NO_OFFSET
    aborted: DataRanges
    unknown: DataRanges = _NOTHING
    ongoing: DataRanges = _NOTHING
    repeated: tuple[tuple[int, int], ...] = ()
    problems: tuple[StateProblem, ...] = ()
    cleaned_to: int = 0
    damage: tuple[tuple[str, Damage], ...] = ()

    def states(self, found: Batches) -> Int8:
        """The state of each batch."""
        states = np.full(len(found), NONE, np.int8)
        control, codes = control_codes(found)
        states[control] = np.where(found.producer_id[control] < 0, NONE, _STATE_OF[codes])
        data = np.flatnonzero(found.transactional & ~found.is_control & (found.producer_id >= 0))
        if len(data):
            states[data] = self._of(found.producer_id[data], found.base_offset[data])
        return states

    def why(self, offset: int) -> str:
        """Why the outcome of data at an offset is unknown."""
        return next((one.text for one in self.problems if one.offset >= offset), "")

    def state(self, batch: Batch) -> int:
        """The state of a batch."""
        if batch.producer_id < 0:
            return NONE
        if batch.is_control:
            return ended(batch)
        if not batch.transactional:
            return NONE
        return int(self._of(np.array([batch.producer_id]), np.array([batch.base_offset]))[0])

    def _of(self, producer_id: Int64, offset: Int64) -> Int8:
        found = np.full(len(offset), COMMITTED, np.int8)
        for state, table in ((OPEN, self.ongoing), (UNKNOWN, self.unknown), (ABORTED, self.aborted)):
            found[table.cover(producer_id, offset)] = state
        for low, high in self.repeated:
            found[(low <= offset) & (offset < high)] = UNKNOWN
        found[offset >= self.end] = OPEN  # written after the outcomes were read
        return found

    def within(self, first: int, end: int) -> Outcomes:
        """The outcomes that the offsets from `first` up to `end` need."""
        tables = {name: getattr(self, name).within(first, end) for name in ("aborted", "unknown", "ongoing")}
        return msgspec.structs.replace(self, **tables)
