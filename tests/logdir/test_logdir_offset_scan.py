"""Which offsets are missing: parts joined are the whole, and both are what a walk over single batches finds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir.offset_scan import BEFORE, LOG_BEGINS, LogOffsets, OffsetScan, steps
from kafkawire.records.offset_gap import OffsetGap


class Range(NamedTuple):
    """The offsets of a batch, and whether it is a marker that compaction emptied."""

    base: int
    after: int
    emptied: bool


@st.composite
def logs(draw: st.DrawFn) -> list[Range]:
    """Batches that mostly follow one another, with gaps and offsets that go back."""
    found, at = [], draw(st.integers(0, 5))
    for length in draw(st.lists(st.integers(1, 3), min_size=1, max_size=12)):
        at = max(0, at + draw(st.sampled_from([0, 0, 0, 2, -2])))
        found.append(Range(at, at + length, draw(st.sampled_from([False, False, True]))))
        at += length
    return found


def scanned(batches: list[Range], before: LogOffsets | None, at_once: int) -> tuple[LogOffsets, list[int]]:
    scan, intact = OffsetScan(before), list[int]()
    for first in range(0, len(batches), at_once):
        base, after, emptied = (np.array(column) for column in zip(*batches[first : first + at_once], strict=True))
        intact += scan.add(base, after, emptied).tolist()
    return scan.found, intact


def walked(batches: list[Range]) -> tuple[LogOffsets, list[int]]:
    """The same, batch by batch, from the beginning of a log."""
    reached, following, intact, gap, first = 0, LOG_BEGINS, 0, None, None
    each = []
    for base, after, emptied in batches:
        intact = intact if base == following else base
        gap = OffsetGap(reached, base) if first is not None and base > reached else gap
        first = base if first is None else first
        each.append(intact)
        reached, following = max(reached, after), after
        intact = after if emptied else intact
    return LogOffsets(first_offset=first, following=following, reached=reached, gap=gap, intact_from=intact), each


BEGINNING = LogOffsets(following=LOG_BEGINS, intact_from=0)


@given(batches=logs(), at_once=st.integers(1, 5))
def test_many_at_a_time_are_one_after_the_other(batches: list[Range], at_once: int) -> None:
    assert scanned(batches, BEGINNING, at_once) == walked(batches)


@given(batches=logs(), cut=st.integers(0, 12), at_once=st.integers(1, 5))
def test_parts_joined_are_the_whole(batches: list[Range], cut: int, at_once: int) -> None:
    """A part whose offsets go back is scanned from the state before it; others without it."""
    head, tail = batches[:cut], batches[cut:]
    before = BEGINNING.then(scanned(head, None, at_once)[0])
    back = bool(tail) and tail[0].base < before.reached
    part, intact = scanned(tail, before if back else None, at_once)
    found, each = walked(batches)
    assert before.then(part) == found
    if tail:
        began = before.begins_at(tail[0].base)
        assert [began if one == BEFORE else one for one in intact] == each[len(head) :]


@given(batches=logs())
def test_breaks_are_gaps_and_steps_back(batches: list[Range]) -> None:
    base, after, _ = (np.array(column) for column in zip(*batches, strict=True))
    reached, breaks, gaps = steps(base, after, 3)
    assert set(gaps) == {at for at in range(len(base)) if base[at] > reached[at]}
    assert set(breaks) - set(gaps) == {at for at in range(len(base)) if base[at] < reached[at]}
    assert reached.tolist() == [max(3, *after[:at]) if at else 3 for at in range(len(base) + 1)]


def test_a_batch_that_cannot_be_read_is_a_gap_unless_one_is_behind() -> None:
    scan = OffsetScan(BEGINNING)
    scan.add(np.array([0, 1, 5]), np.array([1, 2, 6]))
    scan.lose(1, OffsetGap(1, 2))
    assert scan.found.gap == OffsetGap(2, 5)
    scan.lose(2, OffsetGap(5, 6))
    assert scan.found.gap == OffsetGap(5, 6)
