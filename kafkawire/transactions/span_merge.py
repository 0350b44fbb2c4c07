"""`fused`: two spans, of which the second follows the first, as one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from kafkawire.transactions.answers import Answer
from kafkawire.transactions.endings import PACKED
from kafkawire.transactions.producer_append import BEFORE
from kafkawire.transactions.replay import newest
from kafkawire.transactions.span import Leap, Span, Step
from kafkawire.transactions.span_program import Program, SpanJudge

Items = tuple[Step | Leap, ...]


def followed_by(span: Span, intact_from: int) -> Span:
    """The span, where the run of offsets that began before it began at that offset; `BEFORE`: that is not known."""
    if intact_from == BEFORE:
        return span
    intact = np.frombuffer(span.intact, np.int64)
    return replace(
        span,
        intact_from=intact_from if span.intact_from == BEFORE else span.intact_from,
        programs=tuple(
            (producer_id, tuple(_known_from(item, intact_from) for item in items))
            for producer_id, items in span.programs
        ),
        intact=np.where(intact == BEFORE, intact_from, intact).tobytes(),
    )


def _known_from(item: Step | Leap, intact_from: int) -> Step | Leap:
    if isinstance(item, Leap) or item.append.intact_from != BEFORE:
        return item
    return replace(item, append=replace(item.append, intact_from=intact_from))


def fused(one: Span, other: Span) -> Span | None:
    """Both as one span; None where batches of the second were judged from another state than the first leaves.

    Steps of the second whose producers the first determines are judged, so that of each producer a few steps and the
    leap over all further batches are left.
    """
    by_clock = _answers(one.clock, other)
    if by_clock is None:
        return None
    judge = SpanJudge(one.expiration_ms)
    programs = dict(one.programs)
    for producer_id, items in other.programs:
        following = [_by_clock(item, one) for item in items]
        known = programs.get(producer_id)
        if known is not None:
            program = Program.of(known)
            if not _follow(program, following, judge):
                return None
            following = program.done
        programs[producer_id] = tuple(following)
    answers, oldest, newest_idle = by_clock
    for checks, several in (
        (judge.checks, (one.answers, answers)), (judge.forgotten, (one.forgotten, other.forgotten))
    ):  # fmt: skip
        for found in several:
            checks.take(found)
    idle = [time for time in (one.oldest, one.newest, oldest, newest_idle, *judge.idle) if time is not None]
    rows = [np.frombuffer(span.endings, PACKED) for span in (one, other)]
    endings, intact = judge.endings(
        *((found, np.frombuffer(span.intact, np.int64)) for found, span in zip(rows, (one, other), strict=True))
    )
    return Span(
        rows=one.rows + other.rows,
        first_offset=one.first_offset,
        last_offset=other.last_offset,
        intact_from=one.intact_from,
        programs=tuple(programs.items()),
        answers=tuple(judge.checks.answers()),
        forgotten=tuple(judge.forgotten.answers()),
        oldest=min(idle, default=None),
        newest=max(idle, default=None),
        endings=endings,
        intact=intact,
        clock=max(one.clock, other.clock),
        marker_time=newest(one.marker_time, other.marker_time),
        last_marker=other.last_marker or one.last_marker,
        joint=one.joint,
        expiration_ms=one.expiration_ms,
    )


def _answers(clock: int, span: Span) -> tuple[tuple[Answer, ...], int | None, int | None] | None:
    """The answers that hold by the clock before the span, and the idle states that an earlier clock could still drop;
    None where the clock drops some of them."""
    if span.oldest is None or span.newest is None or clock - span.oldest < span.expiration_ms:
        return span.answers, span.oldest, span.newest
    return (span.forgotten, None, None) if clock - span.newest >= span.expiration_ms else None


def _by_clock(item: Step | Leap, before: Span) -> Step | Leap:
    """The item behind a span: its clocks count that one, too."""
    if isinstance(item, Step):
        marker_time = newest(before.marker_time, item.marker_time)
        return Step(item.append, max(before.clock, item.clock), marker_time)
    if not item.in_transaction or before.marker_time is None:
        return item
    return replace(item, marker_time=newest(before.marker_time, item.marker_time))


def _follow(program: Program, items: Iterable[Step | Leap], judge: SpanJudge) -> bool:
    """Take the steps and leaps of the next span. Returns whether these hold."""
    for item in items:
        if isinstance(item, Step):
            judge.add(program, item.append, item.clock, item.marker_time)
        elif not program.leap(item):
            return False
    program.land()
    return True
