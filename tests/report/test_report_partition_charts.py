"""Charts of partitions: positions and order of bars and lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.report.partition_charts import MOST_BARS, partition_charts
from tests.report.audits import finding

OFFSETS = st.integers(0, 2**63 - 1)


@given(st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=30), OFFSETS | st.none(), OFFSETS | st.none(),
       OFFSETS | st.none())  # fmt: skip
def test_bars_captions_and_lines_lie_within_the_chart(
    ranges: list[tuple[int, int]], stable: int | None, high: int | None, log_start: int | None
) -> None:
    (one,) = partition_charts(
        finding(
            start_offset=start,
            last_offset=last,
            last_stable_offset=stable,
            high_watermark=high,
            log_start_offset=log_start,
        )
        for start, last in ranges
    )
    for bar in one.bars:
        assert bar.x >= 0
        assert bar.width > 0
        assert bar.x + bar.width <= 100
        assert 0 <= bar.caption <= 100
        assert bar.caption >= 65 if bar.caption_ends else bar.caption <= 35
    assert all(0 <= line.x <= 100 for line in one.lines)
    assert len(one.bars) + one.hidden == len(ranges)


def test_bars_are_sorted_by_offset_and_bounded_in_number() -> None:
    (one,) = partition_charts(finding(start_offset=n, last_offset=n) for n in range(MOST_BARS + 5, 0, -1))
    assert [bar.finding.start_offset for bar in one.bars] == list(range(1, MOST_BARS + 1))
    assert one.hidden == 5


def test_shaded_range_is_from_last_stable_offset_to_high_watermark() -> None:
    (one,) = partition_charts([finding(start_offset=10, last_offset=12, last_stable_offset=10, high_watermark=90)])
    assert one.waiting == 80
    lines = {line.name: line for line in one.lines}
    assert one.stuck is not None
    assert one.stuck[0] == lines["LSO"].x
    assert sum(one.stuck) == pytest.approx(lines["high watermark"].x)
    assert one.first < 10  # some of what they do see


def test_charts_are_sorted_by_waiting_offsets_and_separate_clusters() -> None:
    found = partition_charts(
        [
            finding(cluster_id="a", high_watermark=20),
            finding(cluster_id="b", high_watermark=50),
            finding(cluster_id="b", blocked=False, start_offset=30),
        ]
    )
    assert [(one.cluster_id, one.waiting, len(one.findings)) for one in found] == [("b", 40, 2), ("a", 10, 1)]


def test_transaction_without_start_offset_has_no_bar() -> None:
    assert partition_charts([finding(start_offset=None)]) == []
    (one,) = partition_charts([finding(start_offset=None), finding()])
    assert len(one.findings) == 1
