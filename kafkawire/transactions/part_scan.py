"""`summarize`: a part of a segment -> its `PartSummary`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kafkawire.logdir import LogFile
from kafkawire.logdir.splits import ranges
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, EMPTY, MALFORMED
from kafkawire.transactions.checks.log_checks import LogChecks
from kafkawire.transactions.coordinator_log import UnreadableRecord
from kafkawire.transactions.endings import ABORT_CODE, OUTCOMES, packed
from kafkawire.transactions.facts import CoordinatorRecord
from kafkawire.transactions.part_summary import PartSummary
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.producer_state import BATCHES_TO_RETAIN, Producer, ProducerState
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS, Ended
from kafkawire.transactions.segment_scan import Appends, PartScan, read_part
from kafkawire.transactions.span import Leap, Span, Step

#: Bytes of a part, where nothing else was asked for.
PART_BYTES = 64 << 20

MARKERS = frozenset({CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT]})

#: Later than any timestamp: by this clock every idle producer may have been forgotten.
_END_OF_TIME = 1 << 64


def count_parts(size: int, part_bytes: int = PART_BYTES) -> int:
    """The number of parts of a segment of that many bytes."""
    return max(1, -(-size // part_bytes))


def bounds(file: LogFile, number: int, count: int, part_bytes: int) -> tuple[int, int | None] | None:
    """The first byte of a part and the one behind its last, both where a batch begins; None: the end of the file.

    Returns:
        None for a part without any batch: batches are large, or the segment is damaged and not split behind that.

    Raises:
        OSError: the file cannot be read.
    """
    if count == 1:
        return 0, None
    found = ranges(file, part_bytes)
    if number >= len(found):
        return None
    start, end = found[number]
    return start, None if number + 1 == count else end


def summarize(
    file: LogFile,
    number: int = 0,
    count: int = 1,
    *,
    part_bytes: int = PART_BYTES,
    joints: Iterable[int] = (),
    expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
) -> PartSummary:
    """Read one of the parts of a segment.

    Args:
        number: of the part, from 0 on, of `count` (`count_parts` of the file's size).
        joints: offsets in the names of the partition's `.snapshot` files.
        expiration_ms: producer.id.expiration.ms of the brokers.
    """
    try:
        found = bounds(file, number, count, part_bytes)
    except OSError:
        found = (0, None) if number == 0 else None  # reading the first part reports the damage
    if found is None:
        return PartSummary(start=0, end=0, scan=PartScan())
    return summarize_range(file, *found, joints=joints, expiration_ms=expiration_ms)


def summarize_range(
    file: LogFile,
    start: int = 0,
    end: int | None = None,
    *,
    joints: Iterable[int] = (),
    expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
) -> PartSummary:
    """Read the bytes from `start` to `end`, both where a batch begins; `end` None: to the end of the file."""
    records: list[CoordinatorRecord | UnreadableRecord] = []
    scan = PartScan()
    found: list[Appends] = []
    for fact in read_part(file, None, start=start, end=end):
        if isinstance(fact, Appends):
            found.append(fact)
        elif isinstance(fact, PartScan):
            scan = fact
        else:
            records.append(fact)
    spans = tuple(summarize_batches(stretch, expiration_ms) for stretch in _stretches(found, sorted(joints)))
    return PartSummary(start=start, end=end, scan=scan, spans=spans, records=tuple(records))


def _stretches(found: list[Appends], joints: Sequence[int]) -> Iterator[Appends]:
    """The batches up to the first that is not below a joint, and so on."""
    if not found:
        return
    appends = Appends.joined(found)
    at = [0]
    for joint in joints:
        behind = np.flatnonzero(appends.base_offset >= joint)
        if len(behind) and behind[0] > at[-1]:
            at.append(int(behind[0]))
    for begin, stop in zip(at, [*at[1:], len(appends)], strict=True):
        yield appends.between(begin, stop)


def summarize_batches(appends: Appends, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> Span:
    """Summarize batches of producers in the order of the log."""
    base, last = appends.base_offset, appends.last_offset
    if bool((base > last).any()) or bool((base[1:] <= last[:-1]).any()):
        return Span(rows=len(appends), regular=False)
    return _Summary(expiration_ms).of(list(appends))


class _Program:
    """The steps and leaps of one producer.

    Attributes:
        producer: its state where nothing was known of it at first.
        inherited: its open transaction may have begun before the span.
        determined: its state does not depend on what was before the span, but for where an open transaction began and
            for the coordinator epoch, which `coordinator_known` says.
    """

    __slots__ = (
        "coordinator_known",
        "determined",
        "done",
        "in_transaction",
        "inherited",
        "leaps_from",
        "marked",
        "marker_time",
        "producer",
        "was_ended",
    )  # fmt: skip

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.done: list[Step | Leap] = []
        self.inherited = self.determined = self.coordinator_known = self.was_ended = False
        self.leaps_from: ProducerState | None = None
        self.in_transaction = self.marked = False
        self.marker_time: int | None = None

    def needs_before(self, append: Append) -> bool:
        """Whether a batch cannot be judged without the state before the span."""
        if not self.determined:
            return True
        if append.control is not None:
            return self.inherited or not self.coordinator_known
        return self.inherited and not append.transactional

    def step(self, append: Append, clock: int, marker_time: int | None) -> None:
        self.land()
        self.done.append(Step(append, clock, marker_time))
        producer = self.producer
        if producer is None:
            if append.control == MALFORMED:
                return
            producer = self.producer = Producer(append.producer_id)
        before, was_open = producer.epoch, producer.first_offset >= 0
        producer.add(append, marker_time)
        if not was_open and producer.first_offset >= 0:
            self.inherited = not self.was_ended
        if append.control is not None and append.control != MALFORMED:
            self.inherited, self.was_ended = False, True
            self.coordinator_known = self.coordinator_known or append.coordinator_epoch is not None
        if before not in (-1, producer.epoch) or len(producer.batches) == BATCHES_TO_RETAIN:
            self.determined = True

    def land(self) -> None:
        """End the leap, where there is one."""
        producer = self.producer
        if self.leaps_from is None or producer is None:
            return
        self.done.append(
            Leap(
                self.leaps_from,
                producer.state,
                None if self.inherited or producer.first_offset < 0 else producer.first_offset,
                producer.coordinator_epoch if self.marked else None,
                self.in_transaction,
                self.marker_time,
            )
        )
        self.leaps_from = None
        self.in_transaction = self.marked = False


class _Summary:
    """Takes the batches of a span in order."""

    def __init__(self, expiration_ms: int) -> None:
        self._checks = LogChecks(expiration_ms)
        self._forgotten = LogChecks(expiration_ms)
        self._programs: dict[int, _Program] = {}
        self._idle: list[int] = []
        self._ended: list[tuple[int, ...]] = []
        self._intact: list[int] = []

    def of(self, appends: list[Append]) -> Span:
        clock, marker_time, last_marker = -1, None, None
        oldest: int | None = None
        newest: int | None = None
        checks, programs = self._checks, self._programs
        for append in appends:
            clock = max(clock, append.timestamp)
            control = append.control
            program = programs.get(append.producer_id)
            if program is None:
                program = programs[append.producer_id] = _Program()
            if program.needs_before(append):
                program.step(append, clock, marker_time)
            else:
                producer = program.producer
                assert producer is not None
                if program.leaps_from is None:
                    program.leaps_from = producer.state
                if (
                    producer.first_offset < 0
                    and control not in (MALFORMED, EMPTY)
                    and not checks.may_be_forgotten(producer, clock)
                ):
                    oldest = producer.timestamp if oldest is None else min(oldest, producer.timestamp)
                    newest = producer.timestamp if newest is None else max(newest, producer.timestamp)
                self._leap(program, producer, append, clock, marker_time)
            if control is not None and control != MALFORMED:
                marker_time = append.timestamp if marker_time is None else max(marker_time, append.timestamp)
                if control in MARKERS:
                    last_marker = append.timestamp, append.last_offset
        for program in programs.values():
            program.land()
        return Span(
            rows=len(appends),
            first_offset=appends[0].base_offset,
            last_offset=appends[-1].base_offset,
            intact_from=appends[0].intact_from,
            programs=tuple((producer_id, tuple(program.done)) for producer_id, program in programs.items()),
            answers=tuple(checks.answers()),
            forgotten=tuple(self._forgotten.answers()),
            oldest=oldest,
            newest=newest,
            endings=packed(self._ended).tobytes(),
            intact=np.array(self._intact, np.int64).tobytes(),
            clock=clock,
            marker_time=marker_time,
            last_marker=last_marker,
        )

    def _leap(self, program: _Program, producer: Producer, append: Append, clock: int, marker_time: int | None) -> None:
        self._checks.see(producer, append, clock)
        self._forgotten.see(producer, append, _END_OF_TIME)
        first_offset, epoch, control = producer.first_offset, producer.epoch, append.control
        if producer.add(append, marker_time) and control is not None:
            ended = Ended(
                append.producer_id, control, first_offset, append.base_offset, -1, epoch, append.producer_epoch,
                append.timestamp,
            )  # fmt: skip
            self._ended.append(ended.packed)
            if control == OUTCOMES[ABORT_CODE]:
                self._intact.append(append.intact_from)
        if control is None and append.transactional:
            program.in_transaction, program.marker_time = True, marker_time
        program.marked = program.marked or (control is not None and append.coordinator_epoch is not None)
