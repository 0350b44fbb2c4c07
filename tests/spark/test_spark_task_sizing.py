"""How segments are shared out over tasks, and what a worker keeps between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.task_sizing import FEWEST_TASKS, TASK_BYTES, Rows, by_task, split_into_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


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


@pytest.mark.spark
def test_the_first_task_of_a_worker_exempts_imported_modules_from_collection(spark: SparkSession) -> None:
    def exempt(rows: Rows) -> Iterator[pa.RecordBatch]:
        import pyarrow

        yield pyarrow.RecordBatch.from_pylist([{"objects": gc.get_freeze_count()} for _ in rows])

    # More tasks than workers: some worker runs a second one.
    found = by_task(spark.range(0, 16, 1, 16), exempt, "objects long").collect()
    assert max(row.objects for row in found) > 10_000
