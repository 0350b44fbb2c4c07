"""How segments are shared out over tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.task_sizing import FEWEST_TASKS, TASK_BYTES, split_into_tasks


@pytest.mark.slow
@given(st.lists(st.integers(0, 4 * TASK_BYTES), max_size=50))
def test_every_item_is_in_one_task_and_no_task_is_empty(sizes: list[int]) -> None:
    shares = split_into_tasks(range(len(sizes)), sizes.__getitem__)
    assert sorted(item for share in shares for item in share) == list(range(len(sizes)))
    assert all(shares)
    assert len(shares) >= min(len(sizes), FEWEST_TASKS)


def test_tasks_are_of_similar_size() -> None:
    shares = split_into_tasks([100, 1, 100, 1, 100, 1, 100, 1], int)
    assert [sum(share) for share in shares] == [101] * FEWEST_TASKS
