"""How segments are shared out over tasks, and what a worker keeps between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.auditing.replica_parts import PartSizing
from kafkawire.spark.session.task_sizing import (
    FEWEST_TASKS,
    MOST_PLANNERS,
    OPEN_COST,
    TASK_BYTES,
    Rows,
    TaskLimits,
    by_task,
    split_into_tasks,
    tasks_for,
)

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


@pytest.mark.parametrize(
    ("size", "files", "tasks"), [(0, 0, 1), (100, 7, 1), (100, 8, 2), (100, 24, 4), (9 << 20, 1, 2), (160 << 20, 0, 5)]
)
def test_little_work_is_that_of_few_tasks(size: int, files: int, tasks: int) -> None:
    assert tasks_for(size, files, 1000) == tasks
    assert PartSizing(1 << 20, 1000, size, files).whole_tasks == min(tasks, FEWEST_TASKS)


def test_files_have_a_weight() -> None:
    """150,000 segments of a few bytes are more than four tasks."""
    shares = split_into_tasks(range(150_000), lambda _: 100)
    assert len(shares) == pytest.approx(150_000 * OPEN_COST / TASK_BYTES, rel=0.01)
    assert max(map(len, shares)) <= TASK_BYTES // OPEN_COST + 1


@pytest.mark.parametrize("factor", [1, 10, 100])
def test_tasks_and_shuffles_of_any_fleet_are_bounded(factor: int) -> None:
    """150 TB in 30,000 replicas of five segments, and more: under 200,000 tasks and 10 GB of shuffle indexes."""
    sizing = PartSizing(64 << 20, 30_000 * factor, 150 * 10**12 * factor, 150_000 * factor)
    parts, merges, judges = sizing.part_tasks, sizing.tasks, TaskLimits().reducers
    listed = min(MOST_PLANNERS, 1 + sizing.replicas // 256)
    assert listed + parts + merges + parts + judges < 200_000
    assert 8 * (listed * parts + parts * merges + merges * parts + parts * judges) < 10 * 10**9


@pytest.mark.spark
def test_settings_of_a_session_bound_tasks(spark: SparkSession) -> None:
    assert TaskLimits.of(spark) == TaskLimits()
    try:
        spark.conf.set("spark.kafkawire.maxTasks", "100")
        assert TaskLimits.of(spark) == TaskLimits(tasks=100)
        assert PartSizing(1 << 20, 1000, 1 << 50, 1000, TaskLimits.of(spark)).part_tasks == 100
        spark.conf.set("spark.kafkawire.maxTasks", "many")
        with pytest.raises(ValueError, match=r"spark.kafkawire.maxTasks is a positive number, not 'many'"):
            TaskLimits.of(spark)
    finally:
        spark.conf.unset("spark.kafkawire.maxTasks")


@pytest.mark.spark
def test_the_first_task_of_a_worker_exempts_imported_modules_from_collection(spark: SparkSession) -> None:
    def exempt(rows: Rows) -> Iterator[pa.RecordBatch]:
        import pyarrow

        yield pyarrow.RecordBatch.from_pylist([{"objects": gc.get_freeze_count()} for _ in rows])

    # More tasks than workers: some worker runs a second one.
    found = by_task(spark.range(0, 16, 1, 16), exempt, "objects long").collect()
    assert max(row.objects for row in found) > 10_000
