"""An archive of the classes that Spark loads (a pytest plugin: tests/conftest.py names it).

The Java processes that tests start map it: until the first job has ended they take a third less processor time.
`python -m tests.spark.class_archive`, which `make test` calls, writes it where there is none; it lies beside PySpark's
jars. It serves the PySpark that is imported; a process of another one starts without it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.broker import BrokerUnavailableError
from tools.broker.jars import java
from tools.broker.storage import ClassArchive

ROOT = Path(__file__).parents[2]
#: Options of Java processes: of drivers and Connect servers, of a standalone cluster's master and workers.
VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")


def archive() -> ClassArchive | None:
    """The archive of this environment's Java and PySpark; None where one of them is missing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    try:
        return ClassArchive(java(), Path(spec.origin).with_name("jars"), f"spark-{version('pyspark')}")
    except BrokerUnavailableError:
        return None


@cache
def options() -> str:
    """Options with which a Java process maps the archive; empty where there is none."""
    found = archive()
    return " ".join(found.options()) if found else ""


def pytest_configure() -> None:
    for name in VARIABLES:
        os.environ.setdefault(name, options())


def write() -> None:
    """A session that reads the shipped logs, as rows, as a stream and by the audit, writes the archive as it ends."""
    from pyspark import SparkContext

    from kafkawire.spark import audit, local_session, register
    from kafkawire.spark.session.sessions import QUICK_START

    found = archive()
    if found is None or found.exists:
        return
    with TemporaryDirectory(prefix="kafkawire-classes-") as folder:
        part = Path(folder) / "classes.jsa"
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(found.options(part))
        logs = str(ROOT / "examples" / "kafka-logs" / "one-node")
        with local_session("local[2]", {**QUICK_START, "spark.sql.shuffle.partitions": "2"}) as session:
            register(session)
            audit([logs], spark=session)
            records = session.read.format("kafka_segment").load(logs)
            records.groupBy("topic").count().write.parquet(f"{folder}/counts")
            assert session.read.parquet(f"{folder}/counts").count()
            stream = session.readStream.format("kafka_segment").load(logs).writeStream.format("parquet")
            stream = stream.option("checkpointLocation", f"{folder}/progress").trigger(availableNow=True)
            stream.start(f"{folder}/stream").awaitTermination()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # it ends, and writes
        gateway.proc.wait()
        found.keep(part)


if __name__ == "__main__":
    sys.exit(write())
