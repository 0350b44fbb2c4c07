"""tools.soak.changing_logs: a stream of the directories of a cluster at work delivers what a consumer has."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.broker_fixture import StartCluster
from tools.soak.changing_logs import disagreement, main, run_beside
from tools.soak.log_changes import BROKERS


@pytest.mark.deployment
@pytest.mark.parametrize("seed", [4, 5])
def test_delivered_is_what_a_real_consumer_has(start_cluster: StartCluster, tmp_path: Path, seed: int) -> None:
    """Of both isolation levels."""
    folder = tmp_path / "cluster"
    with start_cluster(2, controllers=1, config=BROKERS, folder=folder) as running:
        found = run_beside(running, folder, seed, 15)
    assert found.batches >= 15
    assert found.records > 100
    assert found.acts.total() >= 15


# Runs fail for the harness's reasons, too: a file that retention removes while a task reads it is a row with an error,
# and a topic may take more than 90 s to be deleted.
@pytest.mark.skipif(not os.environ.get("SPARK_FULL"), reason="SPARK_FULL=1 is not set")
@pytest.mark.deployment
@pytest.mark.parametrize(("into", "seed"), [("parquet", 21), ("delta", 22), ("iceberg", 23)])
def test_a_query_that_is_killed_delivers_what_a_real_consumer_has(
    start_cluster: StartCluster, tmp_path: Path, into: str, seed: int
) -> None:
    """Its driver and its executors, by SIGKILL, within and between micro-batches."""
    folder = tmp_path / "cluster"
    with start_cluster(2, controllers=1, config=BROKERS, folder=folder) as running:
        found = run_beside(running, folder, seed, 10, into=into)
    assert found.batches >= 10
    assert found.records > 50
    assert found.kills.total() >= 2


def test_refuses_another_format() -> None:
    with pytest.raises(SystemExit, match="FORMAT is parquet, delta, iceberg, not csv"):
        list(main(["1", "2", "csv"]))


def counted(*values: int) -> Counter[bytes]:
    return Counter(b"%d" % value for value in values)


@pytest.mark.parametrize(
    ("before", "found", "after", "every", "wrong"),
    [
        ((1, 2), (1, 2), (1, 2), (1, 2), None),
        # The cleaner removes 1 between the first reading and the micro-batch, or between that and the second reading.
        ((1, 2), (2,), (2,), (2,), None),
        ((1, 2), (1, 2), (2,), (1, 2), None),
        ((1, 2), (1,), (1, 2), (1,), "not delivered: [b'2']"),
        ((1,), (1, 9), (1,), (1, 9), "delivered, and no consumer has: [b'9']"),
        ((1,), (1,), (1,), (1, 1, 2), "delivered twice: [b'1']"),
    ],
)
def test_each_disagreement_is_named(
    before: tuple[int, ...], found: tuple[int, ...], after: tuple[int, ...], every: tuple[int, ...], wrong: str | None
) -> None:
    assert disagreement(counted(*before), counted(*found), counted(*after), counted(*every)) == wrong
