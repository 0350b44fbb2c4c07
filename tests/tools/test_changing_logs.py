"""tools.soak.changing_logs: a stream of the directories of a cluster at work delivers what a consumer has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.broker_fixture import StartCluster
from tools import ROOT
from tools.broker import BrokerUnavailableError, jars
from tools.soak.changing_logs import disagreement, main, run_beside
from tools.soak.log_changes import BROKERS, KEPT, WAIT_S, Changes
from tools.soak.query_process import DONE, READY, ROWS, TRIGGER, Query

#: Each of these takes minutes; `make soak` runs longer ones of each format.
FULL = pytest.mark.skipif(not os.environ.get("SPARK_FULL"), reason="SPARK_FULL=1 is not set")


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


@pytest.mark.deployment
@pytest.mark.parametrize(
    ("into", "seed"),
    [
        pytest.param("parquet", 21, marks=FULL),
        pytest.param("delta", 22, marks=FULL),
        ("iceberg", 23),
    ],
)
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


@pytest.mark.deployment
def test_no_producer_creates_a_deleted_topic(start_cluster: StartCluster) -> None:
    """One that has records for it asks for its metadata, and brokers that create topics by themselves do so then."""
    with start_cluster(2, controllers=1, config=BROKERS) as running:
        changes = Changes(running, Random(1))
        for done in changes.admin.delete_topics([KEPT]).values():
            done.result(WAIT_S)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            changes._producer.produce(KEPT, b"1", partition=0)
            changes._producer.poll(0.05)
        assert KEPT not in changes._topics()
        changes._producer.purge()


@pytest.mark.deployment
def test_a_trigger_after_a_restart_reads_the_rest(tmp_path: Path) -> None:
    """With PySpark 4.1, too, which runs one micro-batch: the one that was not committed, without rows."""
    try:
        spark = jars.lake_spark()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    logs = tmp_path / "logs"
    examples = ROOT / "examples/kafka-logs/one-node/broker-1"
    shutil.copytree(examples / "orders-0", logs / "orders-0")
    shutil.copy(examples / "meta.properties", logs)
    query = json.dumps(Query({"path": str(logs)}, "parquet", str(tmp_path))._asdict())

    def values() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "tools.soak.query_process", query],
            input=f"{TRIGGER}\n{ROWS}\n", capture_output=True, text=True, check=True, cwd=ROOT, timeout=300,
            env={**os.environ, "PYTHONPATH": f"{spark}{os.pathsep}{ROOT}", "SPARK_HOME": str(spark / "pyspark")},
        )  # fmt: skip
        ready, answer, rows = done.stdout.splitlines()
        assert (ready, answer) == (READY, DONE)
        return [value for value, _ in json.loads(rows)]

    before = len(values())
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()  # the driver was killed before it wrote this
    shutil.copytree(examples / "orders-1", logs / "orders-1")
    assert (before, len(values())) == (23, 43)


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
