"""Tables and column functions on a standalone cluster and through Spark Connect: the same rows as without Spark."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark import captures, segment_columns
from kafkawire.spark.captures import CaptureReader
from kafkawire.spark.segments import SegmentReader
from kafkawire.spark.sources import Options
from tests.spark.clusters import Cluster, call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
LOGS = str(EXAMPLES / "kafka-logs" / "one-node")
PCAP = str(EXAMPLES / "capture" / "transactions.pcap")
RECORDS = ("file", "position", "offset", "producer_id", "control", "value", "error")
EXCHANGES = ("file", "connection", "packet", "api", "latency_ms", "response", "problem")
PATIENCE_S = 120


# In the drivers, and on the workers ----------------------------------------------------------------------------------


def session(url: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if url.startswith("sc://"):
        return SparkSession.builder.remote(url).getOrCreate()
    builder = SparkSession.builder.master(url)
    for name, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tables(url: str) -> dict[str, list[Any]]:
    """Digests of tables, and how often a message's bytes came back as they were."""
    from pyspark.sql import functions as F

    from kafkawire.spark import from_kafka_message, message_table, register, to_kafka_message

    spark = session(url)
    try:
        register(spark)
        records = spark.read.format("kafka_segment").option("maxPartBytes", "1001").load(LOGS)
        exchanges = spark.read.format("kafka_pcap").options(maxPartBytes="30000", body="true").load(PCAP)
        values = records.where("topic = '__transaction_state' AND value IS NOT NULL").select("offset", "value")
        name = "TransactionLogValue"
        struct = from_kafka_message("value", name, "prefix")
        version = F.conv(F.hex(F.substring("value", 1, 2)), 16, 10).cast("short")
        bare = F.expr("substring(value, 3)")
        back = values.select(
            (to_kafka_message(struct, name, version) == bare).alias("same"),
            (from_kafka_message(bare, name, version) == struct).alias("alike"),
        )
        decoded = message_table(values, "value", name, "prefix", keep=["offset"], columns=["producer_id"])
        return {
            "records": digest(records, RECORDS),
            "exchanges": digest(exchanges, EXCHANGES),
            "same": sorted((row.same, row.alike) for row in back.collect()),
            "ids": sorted((row.offset, row.producer_id) for row in decoded.collect()),
        }
    finally:
        spark.stop()


def digest(frame: DataFrame, columns: tuple[str, ...]) -> list[Any]:
    return digest_of([row.asDict(recursive=True) for row in frame.select(*columns).collect()], columns)


def digest_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[Any]:
    def shown(value: Any) -> str:
        return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)

    texts = sorted("|".join(shown(row[name]) for name in columns) for row in rows)
    return [len(texts), hashlib.sha256("\n".join(texts).encode()).hexdigest()]


def with_a_lost_executor(url: str, folder: str) -> list[Any]:
    from kafkawire.spark import register

    patience_s = PATIENCE_S  # a worker does not know this module

    def waiting(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tasks have begun to read, and go on when an executor is gone."""
        for batch in batches:
            Path(folder, "reading").touch()
            deadline = time.monotonic() + patience_s
            while not Path(folder, "gone").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield batch

    spark = session(url)
    try:
        register(spark)
        table = spark.read.format("kafka_segment").option("maxPartBytes", "1001").load(LOGS).select(*RECORDS)
        return digest(table.mapInArrow(waiting, table.schema), RECORDS)
    finally:
        spark.stop()


# Without Spark -------------------------------------------------------------------------------------------------------


def read(reader: Any) -> list[dict[str, Any]]:
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def chosen(schema: pa.Schema, columns: tuple[str, ...]) -> Any:
    return from_arrow_schema(pa.schema([field for field in schema if field.name in columns]))


@pytest.fixture(scope="module")
def records() -> list[Any]:
    return digest_of(read(SegmentReader(chosen(segment_columns.RECORDS, RECORDS), Options({"path": LOGS}))), RECORDS)


def check(said: dict[str, list[Any]], records: list[Any]) -> None:
    assert said["records"] == records
    found = read(CaptureReader(chosen(captures.EXCHANGES, EXCHANGES), Options({"path": PCAP})))
    assert said["exchanges"] == digest_of(found, EXCHANGES)
    assert len(said["same"]) == len(said["ids"]) > 10
    assert all(same == [True, True] for same in said["same"])


def test_two_workers(cluster: Cluster, records: list[Any]) -> None:
    check(call("tests.spark.test_spark_on_clusters:tables", cluster.master), records)


def test_connect(remote: str, records: list[Any]) -> None:
    check(call("tests.spark.test_spark_on_clusters:tables", remote), records)


def test_an_executor_that_is_killed_changes_nothing(cluster: Cluster, records: list[Any], tmp_path: Path) -> None:
    killed: list[int] = []

    def watch() -> None:
        if not killed and (tmp_path / "reading").exists():
            killed.append(cluster.executors()[0])
            os.kill(killed[0], signal.SIGKILL)
            (tmp_path / "gone").touch()

    found = call("tests.spark.test_spark_on_clusters:with_a_lost_executor", cluster.master, str(tmp_path), watch=watch)
    assert killed
    assert found == records
