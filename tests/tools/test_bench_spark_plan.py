"""What planning costs by generated listings: requests, tasks and parts of docs/spark.md."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.session.task_sizing import MOST_TASKS, tasks_for
from tools.bench.spark_plan import BROKERS, FLEETS, REPLICAS, SEGMENTS, Plan, plan

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "size"), [(300, 100), (3_000, 100), (300, 10**9)])
def test_a_plan_by_a_generated_listing(replicas: int, size: int) -> None:
    found = plan(replicas, size)
    segments = replicas * SEGMENTS // REPLICAS
    assert found.lists == -(-(replicas * (4 * SEGMENTS + 2) + BROKERS) // 1000)
    # meta.properties and the high watermarks of each log directory; topic id and epochs of each replica.
    assert found.opened == 2 * BROKERS + 2 * replicas
    assert found.tasks == min(found.parts, tasks_for(segments * size, found.parts, MOST_TASKS))
    assert found.parts == segments * -(-size // (32 << 20))


def test_the_page_has_the_numbers_of_all_fleets() -> None:
    """Those that follow from the fleet."""
    text = PAGE.read_text()
    for replicas, _ in FLEETS:
        keys, opened = replicas * (4 * SEGMENTS + 2) + BROKERS, 2 * BROKERS + 2 * replicas
        assert f"| {Plan(keys, opened, 0, 0).lists:,} | {2 * opened:,} |" in text
