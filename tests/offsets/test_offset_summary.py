"""Ranges are merged until they fit on a page; sums stay exact, and memory is bounded."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.offsets.offset_summary import OffsetSummary, ranges
from kafkawire.offsets.statuses import CODES, DELETED, NAMES, NO_REASON, OPEN_RECORD, UNREADABLE, Runs, Why
from tests.offsets.naive import name_of

PLACE = {"topic": "orders", "partition": 0}


def runs_of(widths: list[tuple[int, int]], start: int = 0, why: Why = NO_REASON) -> Runs:
    """Runs of these codes and widths."""
    ends = start + np.cumsum([width for _, width in widths])
    codes = np.array([code for code, _ in widths], np.int8)
    return Runs(np.concatenate(([start], ends[:-1])), ends, codes, np.full(len(widths), -1), why).collapsed()


pieces = st.lists(
    st.lists(st.tuples(st.integers(0, CODES - 1), st.integers(1, 9)), min_size=1, max_size=30), max_size=8
)


@given(pieces, st.integers(1, 6))
def test_merged_ranges_and_totals_have_the_sums_of_all_runs(found: list[list[tuple[int, int]]], most: int) -> None:
    summary, runs, start = OffsetSummary(most), [], 0
    for piece in found:
        runs.append(runs_of(piece, start))
        start = int(runs[-1].end[-1])
        summary.add(runs[-1])
    expected = dict.fromkeys(NAMES, 0)
    for piece in found:
        for code, width in piece:
            expected[NAMES[code]] += width
    merged = list(summary.ranges(PLACE))
    assert len(merged) <= most
    counted = dict.fromkeys(NAMES, 0)
    reached = 0
    for row in merged:
        assert row.first_offset == reached
        reached = row.last_offset + 1
        of = row.of if row.status == "mixed" else {name_of(row): row.offsets}
        assert sum(of.values()) == row.offsets
        for name, number in of.items():
            counted[name] += number
    assert counted == expected
    totals = {name_of(row): (row.offsets, row.ranges) for row in summary.totals(PLACE)}
    exact = list(ranges(iter(runs), PLACE))
    assert totals == {
        name: (number, sum(name_of(row) == name for row in exact)) for name, number in expected.items() if number
    }


def test_the_shortest_neighbours_are_merged_first() -> None:
    summary = OffsetSummary(3)
    summary.add(runs_of([(1, 10), (5, 1000), (1, 20), (5, 1)]))
    assert [row.last_offset + 1 for row in summary.ranges(PLACE)] == [10, 1010, 1031]


def test_what_is_not_settled_stays_apart() -> None:
    summary = OffsetSummary(5)
    summary.add(Runs.one(0, 100, DELETED))
    for at in range(100, 1100, 4):
        summary.add(runs_of([(1, 3), (5, 1)], at))
    summary.add(Runs.one(1100, 1101, OPEN_RECORD))
    summary.add(Runs.one(1101, 1103, UNREADABLE, Why("crc_mismatch", "wrong", "a.log", 7)))
    listed = [(row.first_offset, row.status, row.reason) for row in summary.ranges(PLACE)]
    assert listed[0] == (0, "deleted", None)
    assert listed[-2:] == [(1100, "record", None), (1101, "unreadable", "crc_mismatch")]
    assert {status for _, status, _ in listed[1:-2]} == {"mixed"}


def test_memory_is_that_of_the_page_however_long_the_log_is() -> None:
    summary = OffsetSummary(10)
    sizes = []
    for number in range(300):
        summary.add(runs_of([(1, 1), (2, 1)] * 50, 100 * number, Why("crc_mismatch", f"{number:03}")))
        sizes.append(len(pickle.dumps(summary)))
    # 40 ranges of 152 bytes, 41 reasons.
    assert max(sizes[30:]) <= max(sizes[:30]) <= 7_000
    (total, _) = summary.totals(PLACE)
    assert (total.offsets, total.ranges) == (300 * 50, 300 * 50)
