"""`Table.cover` against each range looked at alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir.data_ranges import DataRange, table_of

STRETCHES = st.builds(
    lambda producer_id, first, count: DataRange(producer_id, first, first + count),
    st.integers(0, 4), st.integers(0, 50), st.integers(0, 9) | st.just(2**62),
)  # fmt: skip


@given(st.lists(STRETCHES, max_size=12), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=12))
def test_a_table_covers_what_one_of_its_ranges_covers(ranges: list[DataRange], asked: list[tuple[int, int]]) -> None:
    """Also where those of a producer overlap, and where offsets go back."""
    producers, offsets = (np.array([one[i] for one in asked], np.int64) for i in (0, 1))
    expected = [any(p == s.producer_id and s.first <= o < s.end for s in ranges) for p, o in asked]
    table = table_of(ranges)
    assert table.cover(producers, offsets).tolist() == expected
    if asked:
        low, high = int(offsets.min()), int(offsets.max()) + 1
        assert table.within(low, high).cover(producers, offsets).tolist() == expected
