"""The examples for Spark, and those in docs/spark.md, run unchanged."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir, records, transactions
from kafkawire.spark import register
from tests.spark.guide import examples, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LOGS = EXAMPLES / "kafka-logs" / "one-node"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function from an example's name to its module."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES / "spark"), *sys.path])
    return importlib.import_module


def expected(logs: Path) -> Counter[tuple[Any, ...]]:
    found = transactions.audit(logdir.open(str(logs))).findings
    return Counter((one.topic, one.partition, one.producer_id, one.verdict, one.reason) for one in found)


def findings(spark: SparkSession, lake: Path) -> Counter[tuple[Any, ...]]:
    table = spark.read.parquet(str(lake / "findings"))
    return Counter(map(tuple, table.select("topic", "partition", "producer_id", "verdict", "reason").collect()))


def test_audit_to_lake(spark: SparkSession, scripts: Any, tmp_path: Path) -> None:
    scripts("audit_to_lake").main([str(LOGS), str(tmp_path / "lake")])
    assert findings(spark, tmp_path / "lake") == expected(LOGS)
    assert {path.name for path in (tmp_path / "lake" / "findings").glob("topic=*")}
    assert {path.name for path in (tmp_path / "lake").iterdir()} == {"findings", "violations", "damage"}


def test_keep_lake_current(spark: SparkSession, scripts: Any, tmp_path: Path) -> None:
    logs, lake = tmp_path / "logs", tmp_path / "lake"
    shutil.copytree(LOGS, logs)
    late = sorted(logs.glob("*/orders-0"))[0]
    shutil.move(late, tmp_path / "late")
    for step in range(2):
        if step:
            shutil.move(tmp_path / "late", late)
        scripts("keep_lake_current").main([str(logs), str(lake), "--once"])
        assert findings(spark, lake) == expected(logs)
    found = spark.read.parquet(str(lake / "batches")).select("topic", "partition", "base_offset").collect()
    there = [
        (partition.topic, partition.partition, batch.base_offset)
        for partition in logdir.open(str(logs)).partitions
        for segment in partition.segments
        for batch in segment.batches()
        if isinstance(batch, records.Batch)
    ]
    assert sorted(map(tuple, found)) == sorted(there)
    assert {row.topic for row in found} >= {"orders"}


def test_the_guide(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's examples in their order; each shows with `assert` what is to be seen."""
    register(spark)
    # They run in the root; only what they write goes elsewhere.
    monkeypatch.chdir(ROOT)
    blocks = examples(tmp_path)
    assert len(blocks) > 5
    run(spark, blocks)
