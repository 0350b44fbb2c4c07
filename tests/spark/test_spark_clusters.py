"""The clusters that tests run jobs on."""

from __future__ import annotations

import pytest

from tests.spark.clusters import Cluster, call

pytestmark = pytest.mark.spark


def hosts(master: str) -> int:
    """How many executors two partitions run on, one each."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    count: int = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # type: ignore[union-attr]
    assert session.range(0, 10, 1, 2).count() == 10
    session.stop()
    return count


def total(url: str) -> int:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(url).getOrCreate()
    found: int = session.sql("SELECT sum(id) AS total FROM range(10)").collect()[0].total
    session.stop()
    return found


def test_two_workers_run_a_job(cluster: Cluster) -> None:
    assert call("tests.spark.test_spark_clusters:hosts", cluster.master) == 2


def test_a_connect_server_answers(remote: str) -> None:
    assert call("tests.spark.test_spark_clusters:total", remote) == 45


def test_a_driver_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ValueError: no such URL"):
        call("tests.spark.test_spark_clusters:failing", "no such URL")


def failing(word: str) -> None:
    raise ValueError(word)
