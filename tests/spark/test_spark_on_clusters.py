"""Tables, column functions and the audit on a standalone cluster, whose executors die, and through Spark Connect: the
same rows and answers as on one machine.

Each of the two has one driver, a process of its own, which does all the work in one session.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir, transactions
from kafkawire.spark import capture_reader, segment_columns
from kafkawire.spark.capture_reader import CaptureReader
from kafkawire.spark.segment_reader import SegmentReader
from kafkawire.spark.sources import SourceOptions
from tests.audit_logs import NOON, LogDirectory
from tests.random_logs import PRODUCERS, damage, fill, register
from tests.spark.clusters import Cluster, call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
LOGS = str(EXAMPLES / "kafka-logs" / "one-node")
PCAP = str(EXAMPLES / "capture" / "transactions.pcap")
RECORDS = ("file", "position", "offset", "producer_id", "control", "value", "error")
EXCHANGES = ("file", "connection", "packet", "api", "latency_ms", "response", "problem")
AUDITED = transactions.Settings(as_of=NOON)
PATIENCE_S = 120
#: What is going on when an executor is killed.
READING, AUDITING = "reading", "auditing"


# In the drivers, and on the workers ----------------------------------------------------------------------------------


def on_two_workers(url: str, folder: str, paths: list[str]) -> dict[str, Any]:
    """Tables, and then a table and an audit while an executor is killed."""
    from kafkawire import spark as room
    from kafkawire.spark import replica_parts
    from kafkawire.spark.session import QUICK_START

    with room.session_on(url, {**QUICK_START, "spark.sql.shuffle.partitions": "2"}) as session:
        said: dict[str, Any] = {"tables": tables(session)}
        records = segments(session).select(*RECORDS)
        said[READING] = digest(records.mapInArrow(waiting(folder, READING), records.schema), RECORDS)
        wait, read = waiting(folder, AUDITING), replica_parts._cells
        replica_parts._cells = lambda *parts: wait(read(*parts))
        said[AUDITING] = audited(session, paths)
    return said


def through_connect(url: str, paths: list[str]) -> dict[str, Any]:
    """Tables, and then with this package shipped an audit and transactions, and where workers have the package from."""
    from kafkawire import spark as room

    def package(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        import kafkawire

        for _ in batches:
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([kafkawire.__file__])], ["file"])

    with room.session_on(url) as session:
        said: dict[str, Any] = {"tables": tables(session), "missing": missing(session)}
    with room.session_on(url) as session:
        room.ship(session)
        said["audit"] = audited(session, paths)
        said["transactions"] = room.transactions(logdir.open(*paths), session).count()
        (file,) = session.range(0, 1, 1, 1).mapInArrow(package, "file string").collect()
        said["package"] = file.file
    return said


def segments(spark: SparkSession) -> DataFrame:
    from kafkawire.spark import register

    register(spark)
    return spark.read.format("kafka_segment").option("maxPartBytes", "1001").load(LOGS)


def missing(spark: SparkSession) -> str:
    """The error of a path that does not exist."""
    from pyspark.errors import PySparkException

    try:
        spark.read.format("kafka_segment").load("/no/such/path").count()
    except PySparkException as error:
        return str(error)
    return ""


def audited(spark: SparkSession, paths: list[str]) -> Any:
    from kafkawire import spark as room

    return msgspec.to_builtins(room.audit(paths, AUDITED, spark=spark))


def tables(spark: SparkSession) -> dict[str, list[Any]]:
    """Digests of tables, and how often a message's bytes came back as they were."""
    from pyspark.sql import functions as F

    from kafkawire.spark import from_kafka_message, message_table, to_kafka_message

    records = segments(spark)
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


def waiting(folder: str, stage: str) -> Any:
    """A function that gives what it is given, once an executor is gone: tasks have begun, and are done anew. (A worker
    does not know this module: the function brings along what it needs.)"""
    patience_s = PATIENCE_S

    def wait(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            Path(folder, stage).touch()
            deadline = time.monotonic() + patience_s
            while not Path(folder, f"{stage}-gone").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield batch

    return wait


def digest(frame: DataFrame, columns: tuple[str, ...]) -> list[Any]:
    return digest_of([row.asDict(recursive=True) for row in frame.select(*columns).collect()], columns)


def digest_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[Any]:
    def shown(value: Any) -> str:
        return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)

    texts = sorted("|".join(shown(row[name]) for name in columns) for row in rows)
    return [len(texts), hashlib.sha256("\n".join(texts).encode()).hexdigest()]


# Without Spark -------------------------------------------------------------------------------------------------------


def read(reader: Any) -> list[dict[str, Any]]:
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def chosen(schema: pa.Schema, columns: tuple[str, ...]) -> Any:
    return from_arrow_schema(pa.schema([field for field in schema if field.name in columns]))


@pytest.fixture(scope="module")
def records() -> list[Any]:
    return digest_of(
        read(SegmentReader(chosen(segment_columns.RECORDS, RECORDS), SourceOptions({"path": LOGS}))), RECORDS
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Copies of two brokers, one of them damaged."""
    random_ = random.Random(7)
    folder = tmp_path_factory.mktemp("fleet")
    found = []
    for broker in range(2):
        logs = LogDirectory(folder / f"broker-{broker}", ids=2)
        register(random_, logs)
        for number in range(6):
            fill(random_, logs.partition(f"topic{number}"), range(PRODUCERS))
        found.append(logs.write())
    damage(random_, folder / "broker-1")
    return found


@pytest.fixture(scope="module")
def audit(paths: list[str]) -> dict[str, Any]:
    answer = transactions.audit(logdir.open(*paths), AUDITED, paths=tuple(paths))
    assert answer.findings
    assert answer.violations
    assert answer.damage
    as_json: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(answer)))
    return as_json


def check_tables(said: dict[str, list[Any]], records: list[Any]) -> None:
    assert said["records"] == records
    found = read(CaptureReader(chosen(capture_reader.EXCHANGES, EXCHANGES), SourceOptions({"path": PCAP})))
    assert said["exchanges"] == digest_of(found, EXCHANGES)
    assert len(said["same"]) == len(said["ids"]) > 10
    assert all(same == [True, True] for same in said["same"])


# The answers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_workers(cluster: Cluster, paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("two-workers")
    killed = dict.fromkeys((READING, AUDITING), 0)

    def kill_one() -> None:
        for stage, pid in killed.items():
            if not pid and (folder / stage).exists():
                for executor in cluster.executors(busy=True)[:1]:
                    os.kill(executor, signal.SIGKILL)
                    killed[stage] = executor
                    (folder / f"{stage}-gone").touch()

    driver = "tests.spark.test_spark_on_clusters:on_two_workers"
    said: dict[str, Any] = call(driver, cluster.master, str(folder), paths, watch=kill_one)
    assert all(killed.values())
    return said


@pytest.fixture(scope="module")
def connect(remote: str, paths: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = call("tests.spark.test_spark_on_clusters:through_connect", remote, paths)
    return said


def test_two_workers(two_workers: dict[str, Any], records: list[Any]) -> None:
    check_tables(two_workers["tables"], records)


def test_an_executor_that_is_killed_changes_no_table(two_workers: dict[str, Any], records: list[Any]) -> None:
    assert two_workers[READING] == records


def test_an_executor_that_is_killed_changes_no_audit(two_workers: dict[str, Any], audit: dict[str, Any]) -> None:
    assert two_workers[AUDITING] == audit


def test_connect(connect: dict[str, Any], records: list[Any]) -> None:
    check_tables(connect["tables"], records)
    sentence, *other = connect["missing"].splitlines()
    assert sentence.endswith("FileNotFoundError: [Errno 2] the path does not exist: '/no/such/path'")
    assert all("SQLSTATE" in line for line in other)


def test_connect_with_the_package_shipped(connect: dict[str, Any], audit: dict[str, Any]) -> None:
    assert connect["audit"] == audit
    assert connect["transactions"] > 50
    assert ".zip" in Path(connect["package"]).parent.parent.name
