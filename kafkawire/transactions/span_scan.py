"""`summarize_batches`: batches of producers -> a `Span`.

Nearly all batches follow the one before as the rules ask for. Arrays find them (`_Columns`), so that only the first
batches of each producer, and producers with a batch that breaks a rule or that follows a gap, cost an object a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.checks.log_checks import EXPIRED, LogChecks
from kafkawire.transactions.producer_append import BEFORE, Append
from kafkawire.transactions.producer_state import BATCHES_TO_RETAIN, Producer, ProducerReplayState, Retained
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.segment_scan import DATA, MALFORMED_MARKER, Appends
from kafkawire.transactions.span import Leap, Span
from kafkawire.transactions.span_program import Program, SpanJudge

MARKERS = frozenset((CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]))

#: Earlier than any timestamp.
_NEVER = -(1 << 63)
_LAST_SEQUENCE = (1 << 31) - 1

#: Producers whose first batches are made to objects at once.
_BLOCK = 256

#: Producers with fewer batches are summarized batch by batch.
FEW = 16


def summarize_batches(appends: Appends, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> Span:
    """Summarize batches of producers in the order of the log.

    Args:
        expiration_ms: producer.id.expiration.ms of the brokers.
    """
    base, last = appends.base_offset, appends.last_offset
    ascending = bool((base <= last).all()) and bool((base[1:] > last[:-1]).all())
    if not ascending or appends.timestamp.min() == _NEVER:
        return Span(rows=len(appends), regular=False)
    return _Summary(appends, expiration_ms).span()


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
        self.order = order = _by_producer(appends.producer_id)
        self.appends = appends
        self.producer_id = appends.producer_id[order]
        new = np.concatenate(([True], self.producer_id[1:] != self.producer_id[:-1]))
        count = len(order)
        self.starts = np.append(np.flatnonzero(new), count)
        at = np.arange(count)
        first = np.maximum.accumulate(np.where(new, at, 0))
        self.base, self.last = appends.base_offset[order], appends.last_offset[order]
        self.timestamp, self.epoch = appends.timestamp[order], appends.producer_epoch[order]
        sequence, self.control = appends.base_sequence[order], appends.control[order]
        self.coordinator_epoch = appends.coordinator_epoch[order]
        self.data = self.control == DATA
        self.marker = ~self.data & (self.control <= COMMIT) & (self.coordinator_epoch >= 0)
        if appends.problems:
            self.marker &= appends.problem[order] < 0
        self.transactional = self.data & appends.transactional[order]
        last_sequence = (self.last - self.base + sequence) & _LAST_SEQUENCE
        self.last_sequence = np.where(sequence < 0, -1, last_sequence).astype(np.int32)

        def last_before(of: Bools) -> Int64:
            """Index of the last one of the same producer up to each element; below the producer's first: none."""
            found: Int64 = np.maximum.accumulate(np.where(of, at, -1))
            return found

        def shifted(array: Int64) -> Int64:
            return np.concatenate(([-1], array[:-1]))

        self.marker_before, self.data_before = last_before(self.marker), last_before(self.data)
        epoch_before = np.concatenate((self.epoch[:1], self.epoch[:-1]))
        rises = self.epoch > epoch_before
        transactional, marked, data = (
            shifted(last_before(self.transactional)),
            shifted(self.marker_before),
            shifted(self.data_before),
        )
        self.open = (transactional >= first) & (transactional > marked)
        self.begins = self.transactional & ~self.open
        self.event = self.data | rises
        follows = (data >= first) & (self.epoch[data] == self.epoch) & ~rises
        numbered = self.data & (sequence >= 0)
        expected = self.last_sequence[data]
        self.contiguous = (
            numbered & follows & ((sequence == expected + 1) | ((sequence == 0) & (expected == _LAST_SEQUENCE)))
        )
        self.from_zero = numbered & ~follows & (sequence == 0)
        self.numbered = numbered
        unnumbered = (sequence == -1) & ((data < first) | (self.last_sequence[data] < 0))
        monotonic = (marked >= first) & (self.coordinator_epoch >= self.coordinator_epoch[marked])
        self.plain = (
            ~new
            & ~(self.epoch < epoch_before)
            & (epoch_before >= 0)
            & (self.data | (self.marker & monotonic))
            & (~self.data | self.contiguous | self.from_zero | unnumbered)
            & ~(self.data & ~self.transactional & self.open)
        )
        if int(clock[-1]) - int(appends.timestamp.min()) >= expiration_ms:
            with np.errstate(over="ignore"):
                idle = clock[order] - np.concatenate((self.timestamp[:1], self.timestamp[:-1]))
            self.plain &= self.open | ((idle < expiration_ms) & (idle >= 0))
        if bool((appends.intact_from != BEFORE).any()):
            self.plain &= appends.intact_from[order] == BEFORE
        self.odd = np.concatenate(([0], np.cumsum(~self.plain)))

    def goes_on(self, producer: Producer | None, start: int, at: int) -> bool:
        """Whether the state of the producer is that of its elements from `start` to `at`."""
        if producer is None or producer.doubted:
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
        data = self._last_data(start, stop)
        retained = [
            Retained(sequence, last, last - base, timestamp)
            for sequence, base, last, timestamp in zip(
                self.last_sequence[data].tolist(), self.base[data].tolist(), self.last[data].tolist(),
                self.timestamp[data].tolist(), strict=True,
            )
        ]  # fmt: skip
        if epoch == before.epoch:
            retained = [*before.batches, *retained][-BATCHES_TO_RETAIN:]
        event = _last(self.event, start, stop)
        known_from = before.data_known_from
        if event >= 0:
            known_from = int(self.last[event]) if self.data[event] else max(int(self.last[event - 1]), 0)
        is_open = bool(self.transactional[end] or (self.open[end] and self.data[end]))
        in_transaction = _last(self.transactional, start, stop)
        begun = _last(self.begins, start, stop)
        marker = int(self.marker_before[end])
        time = int(marker_times[self.order[in_transaction]]) if in_transaction >= 0 else _NEVER
        return Leap(
            before,
            ProducerReplayState(
                epoch,
                int(self.timestamp[end]),
                int(self.last[end]),
                known_from,
                bool(self.data[end] and self.appends.thinned[self.order[end]]),
                is_open,
                tuple(retained),
            ),
            int(self.base[begun]) if is_open else None,
            int(self.coordinator_epoch[marker]) if marker >= start else None,
            in_transaction >= 0,
            None if time == _NEVER else time,
            int(self.timestamp[begun]) if is_open else -1,
            stop - begun if is_open else 0,
            int(self.timestamp[marker]) if marker >= start else -1,
        )

    def _last_data(self, start: int, stop: int) -> Int64:
        """The last batches of data in the epoch of the last element, as many as brokers remember."""
        epoch, width = self.epoch[stop - 1], 4 * BATCHES_TO_RETAIN
        while True:
            begin = max(start, stop - width)
            found = begin + np.flatnonzero(self.data[begin:stop] & (self.epoch[begin:stop] == epoch))
            # Epochs do not fall.
            if len(found) >= BATCHES_TO_RETAIN or begin == start or self.epoch[begin] != epoch:
                break
            width *= 4
        return found[-BATCHES_TO_RETAIN:]

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

    def endings(self, chosen: Bools) -> dict[str, npt.NDArray[Any]]:
        """The transactions that markers among those elements ended, a column a field of `PACKED`; in the order of the
        markers."""
        markers = np.flatnonzero(self.marker & self.open & chosen)
        in_log = np.full(len(self.order), -1, np.int32)
        in_log[self.order[markers]] = np.arange(len(markers))
        markers = markers[in_log[in_log >= 0]]
        begun = np.maximum.accumulate(np.where(self.begins, np.arange(len(self.order)), -1))[markers]
        return {
            "producer_id": self.producer_id[markers],
            "offset": self.base[markers],
            "timestamp": self.timestamp[markers],
            "first_offset": self.base[begun],
            "data_epoch": self.epoch[markers - 1],
            "marker_epoch": self.epoch[markers],
            "outcome": self.control[markers],
            "last_offset": self.last[markers - 1],
            "first_timestamp": self.timestamp[begun],
            "last_timestamp": self.timestamp[markers - 1],
            "batches": markers - begun,
            "coordinator_epoch": self.coordinator_epoch[markers],
        }


def _by_producer(producer_id: Int64) -> Int64:
    """The order in which the batches of a producer are next to each other, in their order."""
    least = int(producer_id.min())
    if int(producer_id.max()) - least < 1 << 16:  # NumPy sorts these by their digits, in linear time
        return np.argsort((producer_id - least).astype(np.uint16), kind="stable")
    return np.argsort(producer_id, kind="stable")


def _last(of: Bools, start: int, stop: int) -> int:
    """Index of the last one from `start` to `stop`; -1 for none."""
    back = int(of[start:stop][::-1].argmax())
    return stop - 1 - back if of[stop - 1 - back] else -1


class _Summary:
    """Summarizes the batches of a span, producer by producer."""

    def __init__(self, appends: Appends, expiration_ms: int) -> None:
        self._appends = appends
        self._clock = np.maximum(np.maximum.accumulate(appends.timestamp), -1)
        is_end = (appends.control != DATA) & (appends.control != MALFORMED_MARKER)
        times = np.maximum.accumulate(np.where(is_end, appends.timestamp, _NEVER))
        self._marker_time = np.concatenate(([_NEVER], times[:-1]))
        self._newest_marker = int(times[-1])
        by_broker = (appends.control == ABORT) | (appends.control == COMMIT) | appends.append_time
        self._stamps = np.flatnonzero(by_broker)
        self._columns = _Columns(appends, self._clock, expiration_ms)
        self._judge = SpanJudge(expiration_ms)
        self._leapt = np.zeros(len(appends), bool)

    def span(self) -> Span:
        appends, columns = self._appends, self._columns
        programs = list(self._programs(columns.starts))
        programs.sort(key=lambda program: program[0])
        judge = self._judge
        for checks, answers in zip((judge.checks, judge.forgotten), columns.answers(self._leapt), strict=True):
            checks.take(answers)
        resumed = columns.timestamp[np.flatnonzero(self._leapt & ~columns.open) - 1]
        idle = [*judge.idle, *([int(resumed.min()), int(resumed.max())] if len(resumed) else [])]
        endings, intact = judge.endings(columns.endings(self._leapt))
        final = _last((appends.control == ABORT) | (appends.control == COMMIT), 0, len(appends))
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
            stamp=None if not len(self._stamps) else int(appends.timestamp[self._stamps[0]]),
            written_by=tuple(self._written_by()),
            last_marker=(int(appends.timestamp[final]), int(appends.last_offset[final])) if final >= 0 else None,
        )

    def _written_by(self) -> Iterator[tuple[int, int | None]]:
        """As of `Span.written_by`."""
        columns, stamps = self._columns, self._stamps
        ends = columns.starts[1:] - 1
        last = np.maximum.accumulate(np.where(columns.transactional, np.arange(len(columns.order)), -1))[ends]
        last = last[(last >= columns.starts[:-1]) & (last > columns.marker_before[ends])]
        at = np.searchsorted(stamps, columns.order[last])
        times = [*self._appends.timestamp[stamps].tolist(), None]
        for producer_id, stamp in zip(columns.producer_id[last].tolist(), at.tolist(), strict=True):
            yield producer_id, times[stamp]

    def _programs(self, starts: Int64) -> Iterator[tuple[int, int, Program]]:
        """Of each producer its first batch's index, its id and its program."""
        columns = self._columns
        for number in range(0, len(starts) - 1, _BLOCK):
            bounds = starts[number : number + _BLOCK + 1]
            sizes = np.minimum(np.diff(bounds), FEW)
            heads = np.arange(sizes.sum()) + np.repeat(bounds[:-1] - np.cumsum(sizes) + sizes, sizes)
            found = self._objects(heads)
            for start, stop in pairwise(bounds.tolist()):
                head = islice(found, min(FEW, stop - start))
                yield int(columns.order[start]), int(columns.producer_id[start]), self._program(start, stop, head)

    def _objects(self, elements: Int64 | slice) -> Iterator[tuple[Append, int, int]]:
        """Batches, and the clock and the time of the newest marker at each."""
        chosen = self._columns.order[elements]
        return zip(
            self._appends.where(chosen), self._clock[chosen].tolist(), self._marker_time[chosen].tolist(), strict=True
        )

    def _program(self, start: int, stop: int, head: Iterator[tuple[Append, int, int]]) -> Program:
        """The steps and leaps of the producer of those elements of the columns. `head`: the first of these."""
        program, columns = Program(), self._columns
        batches = list(head)
        at = start
        while batches:
            for append, clock, time in batches:
                if self._leaps(program, start, at, stop):
                    assert program.producer is not None
                    program.leap(columns.after(program.producer, at, stop, self._marker_time))
                    program.land()
                    self._leapt[at:stop] = True
                    return program
                self._judge.add(program, append, clock, None if time == _NEVER else time)
                at += 1
            batches = list(self._objects(slice(at, min(stop, at + FEW))))
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
