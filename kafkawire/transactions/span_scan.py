"""`summarize_batches`: batches of producers -> a `Span`.

Nearly all batches follow the one before as the rules ask for. Arrays find them (`_Columns`), so that only the first
batches of each producer, and producers with a batch that breaks a rule or that follows a gap, cost an object a batch.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, MALFORMED
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.checks.log_checks import EXPIRED, LogChecks
from kafkawire.transactions.endings import ABORT_CODE, PACKED, Packed
from kafkawire.transactions.producer_append import BEFORE
from kafkawire.transactions.producer_state import BATCHES_TO_RETAIN, Producer, ProducerState, Retained
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.segment_scan import Appends
from kafkawire.transactions.span import Leap, Span
from kafkawire.transactions.span_program import Program, SpanJudge

_MARKERS = (CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT])
MARKERS = frozenset(_MARKERS)

#: Earlier than any timestamp.
_NEVER = -(1 << 63)
_LAST_SEQUENCE = (1 << 31) - 1

#: Producers with fewer batches are summarized batch by batch.
FEW = 16


def summarize_batches(appends: Appends, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS, joint: int = -1) -> Span:
    """Summarize batches of producers in the order of the log.

    Args:
        expiration_ms, joint: as in `Span`.
    """
    base, last = appends.base_offset, appends.last_offset
    ascending = bool((base <= last).all()) and bool((base[1:] > last[:-1]).all())
    if not ascending or appends.timestamp.min() == _NEVER:
        return Span(rows=len(appends), regular=False)
    return _Summary(appends, expiration_ms, joint).span()


class _Columns:
    """Batches by producer: an element a batch, the batches of a producer next to each other and in order.

    Attributes:
        order: index in the span. `starts`: of each producer the first element; the last is behind all.
        open: a transaction of the producer is open before it.
        plain: it follows the element before as the rules ask for, and nothing else has to be known of it.
        contiguous, from_zero: it continues the sequence numbers of the epoch, or begins an epoch with 0.
        begins: it is the first of a transaction.
        marker_before, data_before, event_before: index of the last marker, data, data or rise of the epoch up to it.
    """

    def __init__(self, appends: Appends, clock: Int64, expiration_ms: int) -> None:
        order = np.argsort(appends.producer_id, kind="stable")
        self.order = order
        self.producer_id = appends.producer_id[order]
        new = np.concatenate(([True], self.producer_id[1:] != self.producer_id[:-1]))
        count = len(order)
        self.starts = np.append(np.flatnonzero(new), count)
        at = np.arange(count)
        first = np.maximum.accumulate(np.where(new, at, 0))
        self.base, self.last, self.timestamp = (
            array[order] for array in (appends.base_offset, appends.last_offset, appends.timestamp)
        )
        self.epoch = appends.producer_epoch[order].astype(np.int64)
        sequence = appends.base_sequence[order].astype(np.int64)
        control = appends.control[order]
        self.data = control == None  # noqa: E711  # an array of them
        self.marker, self.aborts, self.coordinator_epoch = _markers(self.data, control, appends, order)
        self.transactional = self.data & appends.transactional[order]
        self.thinned = appends.thinned[order]
        self.last_sequence = np.where(sequence < 0, -1, (sequence + self.last - self.base) & _LAST_SEQUENCE)

        def last_before(of: Bools) -> Int64:
            """Index of the last one of the same producer up to each element; below the producer's first: none."""
            found: Int64 = np.maximum.accumulate(np.where(of, at, -1))
            return found

        def shifted(array: Int64) -> Int64:
            return np.concatenate(([-1], array[:-1]))

        self.marker_before, self.data_before = last_before(self.marker), last_before(self.data)
        before = np.maximum(at - 1, 0)
        rises = self.epoch > self.epoch[before]
        transactional, marked, data = (
            shifted(last_before(self.transactional)),
            shifted(self.marker_before),
            shifted(self.data_before),
        )
        self.open = (transactional >= first) & (transactional > marked)
        self.begins = self.transactional & ~self.open
        self.event_before = last_before(self.data | rises)
        follows = (data >= first) & (self.epoch[data] == self.epoch) & ~rises
        numbered = self.data & (sequence >= 0)
        expected = self.last_sequence[data]
        self.contiguous = (
            numbered & follows & ((sequence == expected + 1) | ((sequence == 0) & (expected == _LAST_SEQUENCE)))
        )
        self.from_zero = numbered & ~follows & (sequence == 0)
        self.numbered = numbered
        monotonic = (marked >= first) & (self.coordinator_epoch >= self.coordinator_epoch[marked])
        with np.errstate(over="ignore"):
            idle = clock[order] - self.timestamp[before]
        self.plain = (
            ~new
            & (self.epoch >= self.epoch[before])
            & (self.epoch[before] >= 0)
            & (appends.intact_from[order] == BEFORE)
            & (self.data | (self.marker & monotonic))
            & (~numbered | self.contiguous | self.from_zero)
            & ~(self.data & ~self.transactional & self.open)
            & (self.open | ((idle < expiration_ms) & (idle >= 0)))
        )
        self.odd = np.concatenate(([0], np.cumsum(~self.plain)))

    def goes_on(self, producer: Producer | None, start: int, at: int) -> bool:
        """Whether the state of the producer is that of its elements from `start` to `at`."""
        if producer is None:
            return False
        data, marker = int(self.data_before[at - 1]), int(self.marker_before[at - 1])
        has_data = data >= start and bool(self.epoch[data] == self.epoch[at - 1])
        last_sequence = self.last_sequence[data] if has_data else -1
        coordinator_epoch = self.coordinator_epoch[marker] if marker >= start else -1
        return (
            producer.epoch, producer.last_append, producer.timestamp, producer.first_offset >= 0,
            bool(producer.batches), producer.last_sequence, producer.coordinator_epoch,
        ) == (
            self.epoch[at - 1], self.last[at - 1], self.timestamp[at - 1], self.open[at],
            has_data, last_sequence, coordinator_epoch,
        )  # fmt: skip

    def after(self, producer: Producer, start: int, stop: int, marker_times: Int64) -> Leap:
        """The leap over the elements from `start` to `stop`, all of them plain; the producer is closed before."""
        end = stop - 1
        before = producer.state
        epoch = int(self.epoch[end])
        data = start + np.flatnonzero(self.data[start:stop] & (self.epoch[start:stop] == epoch))[-BATCHES_TO_RETAIN:]
        retained = [
            Retained(sequence, last, last - base, timestamp)
            for sequence, base, last, timestamp in zip(
                self.last_sequence[data].tolist(), self.base[data].tolist(), self.last[data].tolist(),
                self.timestamp[data].tolist(), strict=True,
            )
        ]  # fmt: skip
        if epoch == before.epoch:
            retained = [*before.batches, *retained][-BATCHES_TO_RETAIN:]
        event = int(self.event_before[end])
        known_from = before.data_known_from
        if event >= start:
            known_from = int(self.last[event]) if self.data[event] else max(int(self.last[event - 1]), 0)
        is_open = bool(self.transactional[end] or (self.open[end] and self.data[end]))
        in_transaction = np.flatnonzero(self.transactional[start:stop])
        marker = int(self.marker_before[end])
        begins = start + np.flatnonzero(self.begins[start:stop])
        time = int(marker_times[self.order[start + in_transaction[-1]]]) if len(in_transaction) else _NEVER
        return Leap(
            before,
            ProducerState(
                epoch,
                int(self.timestamp[end]),
                int(self.last[end]),
                known_from,
                bool(self.thinned[end] and self.data[end]),
                is_open,
                tuple(retained),
            ),
            int(self.base[begins[-1]]) if is_open else None,
            int(self.coordinator_epoch[marker]) if marker >= start else None,
            bool(len(in_transaction)),
            None if time == _NEVER else time,
            int(self.timestamp[begins[-1]]) if is_open else -1,
            int(stop - begins[-1]) if is_open else 0,
        )

    def answers(self, chosen: Bools) -> tuple[list[Answer], list[Answer]]:
        """The answers of `LogChecks` for those elements, and where idle producers may have been forgotten."""
        marker, data = self.marker & chosen, self.data & chosen

        def count(of: Bools) -> int:
            return int(np.count_nonzero(of))

        found = []
        for kept in (chosen, chosen & self.open):
            checks = LogChecks()
            lost = chosen & ~kept
            checks.sequence.held = checks.duplicate.held = count(self.contiguous & kept)
            checks.from_zero.held = count(self.from_zero & kept)
            checks.epoch.held = count(kept)
            checks.coordinator_epoch.held = count(marker & kept)
            checks.shape.held = count(marker)
            checks.without_data.held, checks.without_data.noted = count(marker & self.open), count(marker & ~self.open)
            checks.mixed.held = count(data & self.open)
            checks.epoch.lack(EXPIRED, count(lost))
            checks.coordinator_epoch.lack(EXPIRED, count(lost & self.marker))
            for tally in (checks.sequence, checks.duplicate, checks.from_zero):
                tally.lack(EXPIRED, count(lost & self.numbered))
            found.append(checks.answers())
        return found[0], found[1]

    def endings(self, chosen: Bools) -> Packed:
        """The transactions that markers among those elements ended."""
        markers = np.flatnonzero(self.marker & self.open & chosen)
        found = np.empty(len(markers), PACKED)
        begun = np.maximum.accumulate(np.where(self.begins, np.arange(len(self.order)), -1))[markers]
        found["producer_id"], found["offset"] = self.producer_id[markers], self.base[markers]
        found["timestamp"], found["first_offset"] = self.timestamp[markers], self.base[begun]
        found["data_epoch"], found["marker_epoch"] = self.epoch[markers - 1], self.epoch[markers]
        found["outcome"] = np.where(self.aborts[markers], ABORT_CODE, 1 - ABORT_CODE)
        found["last_offset"], found["last_timestamp"] = self.last[markers - 1], self.timestamp[markers - 1]
        found["first_timestamp"], found["batches"] = self.timestamp[begun], markers - begun
        found["coordinator_epoch"] = self.coordinator_epoch[markers]
        return found


def _markers(
    data: Bools, control: npt.NDArray[np.object_], appends: Appends, order: Int64
) -> tuple[Bools, Bools, Int64]:
    """Which batches are markers in which nothing is wrong; which of them abort; and their coordinator's epoch."""
    marker, aborts = np.zeros(len(order), bool), np.zeros(len(order), bool)
    epochs = np.full(len(order), -1)
    at = np.flatnonzero(~data)
    named = control[at]
    abort = named == _MARKERS[0]
    sound = (abort | (named == _MARKERS[1])) & (appends.problem[order[at]] == None)  # noqa: E711
    found, aborting = at[sound.astype(bool)], abort.astype(bool)[sound.astype(bool)]
    epochs[found] = [-1 if epoch is None else epoch for epoch in appends.coordinator_epoch[order[found]].tolist()]
    known = epochs[found] >= 0
    marker[found[known]] = True
    aborts[found] = aborting
    return marker, aborts, epochs


class _Summary:
    """Summarizes the batches of a span, producer by producer."""

    def __init__(self, appends: Appends, expiration_ms: int, joint: int) -> None:
        self._appends = appends
        self._clock = np.maximum(np.maximum.accumulate(appends.timestamp), -1)
        self._controls = np.flatnonzero(appends.control != None)  # noqa: E711
        ends = self._controls[appends.control[self._controls] != MALFORMED]
        times = np.full(len(appends), _NEVER)
        times[ends] = appends.timestamp[ends]
        times = np.maximum.accumulate(times)
        self._marker_time = np.concatenate(([_NEVER], times[:-1]))
        self._newest_marker = int(times[-1])
        self._columns = _Columns(appends, self._clock, expiration_ms)
        self._judge = SpanJudge(expiration_ms)
        self._expiration_ms, self._joint = expiration_ms, joint
        self._leapt = np.zeros(len(appends), bool)

    def span(self) -> Span:
        appends, columns = self._appends, self._columns
        starts = columns.starts.tolist()
        programs = [
            (int(columns.order[start]), int(columns.producer_id[start]), self._program(start, stop))
            for start, stop in pairwise(starts)
        ]
        programs.sort(key=lambda program: program[0])
        judge = self._judge
        for checks, answers in zip((judge.checks, judge.forgotten), columns.answers(self._leapt), strict=True):
            checks.take(answers)
        resumed = columns.timestamp[np.flatnonzero(self._leapt & ~columns.open) - 1]
        idle = [*judge.idle, *([int(resumed.min()), int(resumed.max())] if len(resumed) else [])]
        endings, intact = judge.endings((columns.endings(self._leapt), None))
        final = next((at for at in reversed(self._controls.tolist()) if appends.control[at] in MARKERS), -1)
        return Span(
            rows=len(appends),
            first_offset=int(appends.base_offset[0]),
            last_offset=int(appends.base_offset[-1]),
            intact_from=int(appends.intact_from[0]),
            programs=tuple((producer_id, tuple(program.done)) for _, producer_id, program in programs),
            answers=tuple(judge.checks.answers()),
            forgotten=tuple(judge.forgotten.answers()),
            oldest=min(idle, default=None),
            newest=max(idle, default=None),
            endings=endings,
            intact=intact,
            clock=int(self._clock[-1]),
            marker_time=None if self._newest_marker == _NEVER else self._newest_marker,
            last_marker=(int(appends.timestamp[final]), int(appends.last_offset[final])) if final >= 0 else None,
            joint=self._joint,
            expiration_ms=self._expiration_ms,
        )

    def _program(self, start: int, stop: int) -> Program:
        """The steps and leaps of the producer of those elements of the columns."""
        program, columns = Program(), self._columns
        at = start
        while at < stop:
            upto = stop if stop - start < FEW else min(stop, at + FEW)
            chosen = columns.order[at:upto]
            clocks, times = self._clock[chosen].tolist(), self._marker_time[chosen].tolist()
            for append, clock, time in zip(self._appends.at(chosen), clocks, times, strict=True):
                if self._leaps(program, start, at, stop):
                    assert program.producer is not None
                    program.leap(columns.after(program.producer, at, stop, self._marker_time))
                    program.land()
                    self._leapt[at:stop] = True
                    return program
                self._judge.add(program, append, clock, None if time == _NEVER else time)
                at += 1
        program.land()
        return program

    def _leaps(self, program: Program, start: int, at: int, stop: int) -> bool:
        """Whether arrays can judge all further batches of the producer."""
        columns = self._columns
        return (
            program.determined
            and stop - at >= FEW // 2
            and bool(columns.odd[stop] == columns.odd[at])
            and not columns.open[at]
            and (program.coordinator_known or bool(columns.marker_before[stop - 1] < at))
            and columns.goes_on(program.producer, start, at)
        )
