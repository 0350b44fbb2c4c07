"""Tables, column functions and the audit on a standalone cluster, whose executors die, and through Spark Connect: the
same rows and answers as on one machine. `spark-submit --archives` with a packed environment and its native engine.

Each of the two has one driver, a process of its own, which does all the work in one session. By default that is one
audit each; with `SPARK_FULL=1` all recorded directories, and one for each injected violation, are audited in parts of
64 KiB and of 256 MiB, in local mode, on the cluster with and without executors that are killed, and through Connect.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

import kafkawire
from kafkawire import load_schemas, logdir, transactions
from kafkawire.records import Batch
from kafkawire.spark.sources import capture_reader, segment_columns
from kafkawire.spark.sources.capture_reader import CaptureReader
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions
from tests.audit_logs import NOON, LogDirectory
from tests.injected.cases import SEEDS, write_clusters
from tests.own_schemas import ORDER, write
from tests.random_logs import PRODUCERS, damage, fill, register
from tests.spark.clusters import QUICK, Cluster, call
from tools.recordings.archive import ARCHIVES, SUFFIX, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

EXAMPLES = Path(__file__).parents[2] / "examples"
LOGS = str(EXAMPLES / "kafka-logs" / "one-node")
PCAP = str(EXAMPLES / "capture" / "transactions.pcap")
RECORDS = ("file", "position", "offset", "producer_id", "control", "value", "error")
EXCHANGES = ("file", "connection", "packet", "api", "latency_ms", "response", "problem")
AUDITED = transactions.Settings(as_of=NOON)
PATIENCE_S = 120
SUBMIT_PATIENCE_S = 600
#: What is going on when an executor is killed; audits have a number.
READING, AUDITING = "reading", "auditing-{}"

FULL = bool(os.environ.get("SPARK_FULL"))
#: Replicas are read in parts, and whole.
PART_BYTES = [4 << 10 if FULL else 64, 256 << 20]
RECORDED = tuple(sorted(path.name.removesuffix(SUFFIX) for path in ARCHIVES.glob("*" + SUFFIX)))
#: Paths of log directories, and bytes of a part.
Audited = tuple[list[str], int]


# In the drivers, and on the workers ----------------------------------------------------------------------------------


def on_two_workers(url: str, folder: str, audits: list[Audited], full: bool) -> dict[str, Any]:
    """Tables and audits, these while executors are killed; all of them without, too, if `full`."""
    from kafkawire import spark as kafkawire_spark
    from kafkawire.spark.auditing import replica_parts

    with kafkawire_spark.session_on(url, {**QUICK, "spark.sql.shuffle.partitions": "2"}) as session:
        results: dict[str, Any] = {"tables": tables(session), "audits": []}
        if full:
            results["undisturbed"] = [audited(session, *one) for one in audits]
            records = segments(session).select(*RECORDS)
            results[READING] = digest(records.mapInArrow(waiting(folder, READING), records.schema), RECORDS)
        read, replayed = replica_parts._cells, replica_parts._replayed
        for number, one in enumerate(audits):
            wait = waiting(folder, AUDITING.format(number))
            if one[1] == PART_BYTES[0]:
                replica_parts._cells = lambda *parts, wait=wait: wait(read(*parts))
            else:
                replica_parts._replayed = lambda listed, *args, wait=wait, **options: replayed(
                    wait(listed), *args, **options
                )
            results["audits"].append(audited(session, *one))
            replica_parts._cells, replica_parts._replayed = read, replayed
    return results


def through_connect(url: str, audits: list[Audited]) -> dict[str, Any]:
    """With this package shipped: tables, audits and transactions, and where workers have the package from."""
    from kafkawire import spark as kafkawire_spark
    from tests.spark.test_spark_wire_audit import but_when, of_both

    def package(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        import kafkawire

        for _ in batches:
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([kafkawire.__file__])], ["file"])

    with kafkawire_spark.session_on(url) as session:
        kafkawire_spark.ship(session)
        results: dict[str, Any] = {"tables": tables(session), "missing": missing(session)}
        results["audits"] = [audited(session, *one) for one in audits]
        one_process, by_tasks = of_both(session)
        results["wire"] = but_when(by_tasks) == but_when(one_process) and len(by_tasks.findings)
        results["transactions"] = kafkawire_spark.transactions(logdir.open(*audits[0][0]), session).count()
        (file,) = session.range(0, 1, 1, 1).mapInArrow(package, "file string").collect()
        results["package"] = file.file
    return results


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


def audited(spark: SparkSession, paths: list[str], part_bytes: int) -> Any:
    from kafkawire import spark as kafkawire_spark

    return msgspec.to_builtins(kafkawire_spark.audit(paths, AUDITED, spark=spark, part_bytes=part_bytes))


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
    with tempfile.TemporaryDirectory() as folder:  # gone before a worker decodes
        schemas = write(Path(folder, "schemas"), ORDER)
        data = load_schemas(schemas).OrderValue(customer="me", amount=7).encode(1)
        order = from_kafka_message("value", "OrderValue", 1, {"schemaDirectory": str(schemas)})
    orders = spark.createDataFrame([(data,)], "value binary").select(order.alias("order"))
    return {
        "orders": [[row.order.customer, row.order.amount] for row in orders.collect()],
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
def audits(tmp_path_factory: pytest.TempPathFactory) -> list[Audited]:
    """Of copies of two brokers, one of them damaged, and of recorded directories."""
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
    paths = [found]
    if FULL:
        paths += [[str(unpacked(name))] for name in RECORDED]
        paths.append(write_clusters(tmp_path_factory.mktemp("injected"), SEEDS[0])[1])
        paths += [[str(one)] for one in sorted((EXAMPLES / "kafka-logs").iterdir()) if one.is_dir()]
    return [(one, part_bytes) for part_bytes in PART_BYTES for one in paths]


@pytest.fixture(scope="module")
def answers(audits: list[Audited]) -> list[dict[str, Any]]:
    found = [transactions.audit(logdir.open(*paths), AUDITED, paths=tuple(paths)) for paths, _ in audits]
    assert found[0].findings
    assert found[0].violations
    assert found[0].damage
    as_json: list[dict[str, Any]] = json.loads(json.dumps(msgspec.to_builtins(found)))
    return as_json


def check_tables(results: dict[str, list[Any]], records: list[Any]) -> None:
    assert results["records"] == records
    found = read(CaptureReader(chosen(capture_reader.EXCHANGES, EXCHANGES), SourceOptions({"path": PCAP})))
    assert results["exchanges"] == digest_of(found, EXCHANGES)
    assert len(results["same"]) == len(results["ids"]) > 10
    assert all(same == [True, True] for same in results["same"])
    assert results["orders"] == [["me", 7]]


# The answers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_workers(cluster: Cluster, audits: list[Audited], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("two-workers")
    killed = dict.fromkeys([*([READING] if FULL else []), *map(AUDITING.format, range(len(audits)))], 0)

    def kill_one() -> None:
        for stage, pid in killed.items():
            if not pid and (folder / stage).exists():
                for executor in cluster.executors(busy=True)[:1]:
                    os.kill(executor, signal.SIGKILL)
                    killed[stage] = executor
                    (folder / f"{stage}-gone").touch()

    driver = "tests.spark.test_spark_on_clusters:on_two_workers"
    results: dict[str, Any] = call(driver, cluster.master, str(folder), audits, FULL, watch=kill_one)
    assert all(killed.values())
    return results


@pytest.fixture(scope="module")
def connect(remote: str, audits: list[Audited]) -> dict[str, Any]:
    results: dict[str, Any] = call("tests.spark.test_spark_on_clusters:through_connect", remote, audits)
    return results


def test_two_workers(two_workers: dict[str, Any], records: list[Any]) -> None:
    check_tables(two_workers["tables"], records)


def test_executors_that_are_killed_change_no_audit(two_workers: dict[str, Any], answers: list[dict[str, Any]]) -> None:
    assert two_workers["audits"] == answers


@pytest.mark.skipif(not FULL, reason="SPARK_FULL=1 is not set")
def test_two_workers_audit_all_recorded_directories(
    two_workers: dict[str, Any], answers: list[dict[str, Any]], records: list[Any]
) -> None:
    assert two_workers["undisturbed"] == answers
    assert two_workers[READING] == records


@pytest.mark.skipif(not FULL, reason="SPARK_FULL=1 is not set")
def test_local_mode_audits_all_recorded_directories(
    spark: SparkSession, audits: list[Audited], answers: list[dict[str, Any]]
) -> None:
    assert json.loads(json.dumps([audited(spark, *one) for one in audits])) == answers


def packed(folder: Path) -> Path:
    """An environment with this package, as an installation has it, in the folder and as an archive in it: the driver
    plans with the one. The large packages that it needs are where they are: on this machine, workers have them, too."""
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(kafkawire.__file__).parent, packages / "kafkawire", ignore=ignored)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        for path in environment.iterdir():
            archive.add(path, path.name)
    return folder / "environment.tar.gz"


def test_workers_run_the_environment_that_is_submitted(cluster: Cluster, tmp_path: Path) -> None:
    if kafkawire.backend != "native":
        pytest.skip("the native engine is not built")
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = {
        **QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both workers
        "spark.executorEnv.PYTHONPATH": "",  # the cluster's, which would come before the environment, is the tests' own
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            str(submit), "--master", cluster.master, *conf, "--archives", f"{packed(tmp_path)}#environment",
            str(Path(__file__).with_name("deployed.py")), str(LOGS),
        ],
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SUBMIT_PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {worker["backend"] for worker in found["workers"]} == {"native"}
    elsewhere = [one for one in found["workers"] if not one["file"].startswith(f"{one['worker']}/environment/")]
    assert elsewhere == []
    batches = [one for partition in logdir.open(str(LOGS)).partitions for one in partition if isinstance(one, Batch)]
    assert found["records"] == sum(1 for batch in batches for _ in batch.records)


def test_connect(connect: dict[str, Any], records: list[Any]) -> None:
    check_tables(connect["tables"], records)
    sentence, *other = connect["missing"].splitlines()
    assert sentence.endswith("FileNotFoundError: [Errno 2] the path does not exist: '/no/such/path'")
    assert all("SQLSTATE" in line for line in other)


def test_connect_with_the_package_shipped(connect: dict[str, Any], answers: list[dict[str, Any]]) -> None:
    assert connect["audits"] == answers
    assert connect["wire"] > 10  # findings of a live cluster, as of one process
    assert connect["transactions"] > 50
    assert ".zip" in Path(connect["package"]).parent.parent.name
