"""Runs of offsets in one state, against offsets one by one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.share_groups.state_runs import Run, combined, difference

RUNS = st.lists(
    st.builds(
        lambda first, length, state, count: Run(first, first + length, state, count),
        st.integers(0, 40),
        st.integers(-1, 12),
        st.sampled_from((0, 2, 3, 4, 9)),
        st.integers(0, 4),
    ),
    max_size=8,
)


def one_by_one(runs: list[Run], start: int) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for run in runs:
        for offset in range(max(run.first, start), run.last + 1):
            found[offset] = max(found.get(offset, (-1, -1)), run.rank)
    return found


@given(RUNS, RUNS, st.integers(-1, 30))
def test_the_higher_count_then_the_higher_state_wins(before: list[Run], written: list[Run], start: int) -> None:
    clean = combined((), before, -1)
    found = combined(clean, written, start)
    assert one_by_one(found, -1) == one_by_one([*before, *written], start)
    # In order, without overlaps, and no two neighbours alike.
    for one, after in itertools.pairwise(found):
        assert one.last < after.first
        assert one.last + 1 < after.first or one.rank != after.rank


@given(RUNS, RUNS)
def test_differences_are_the_offsets_that_differ(one: list[Run], other: list[Run]) -> None:
    left, right = combined((), one, -1), combined((), other, -1)
    found = {
        offset: (here and here.rank, there and there.rank)
        for first, last, here, there in difference(left, right)
        for offset in range(first, last + 1)
    }
    here, there = one_by_one(left, -1), one_by_one(right, -1)
    assert found == {
        offset: (here.get(offset), there.get(offset))
        for offset in here | there
        if here.get(offset) != there.get(offset)
    }
