"""What the tests of the lake run in a process of its own, on a PySpark for which there are Delta and Iceberg.

    python -m tests.spark.lake_jobs JOB < arguments.json

A job takes a session and keyword arguments, and its result is the last line, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from crc32c import crc32c

from kafkawire.spark import lake
from kafkawire.spark.errors import SparkError
from kafkawire.spark.lake.lake_parts import TABLE_SPARK
from kafkawire.spark.lake.lake_tables import Progress, lake_table
from kafkawire.spark.session.sessions import QUICK_START, local_session, session_on
from tests.spark.clusters import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(jars: str, folder: str) -> Iterator[SparkSession]:
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    settings = {
        **QUICK_START,
        "spark.jars": ",".join(map(str, sorted(Path(jars).glob("*.jar")))),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"{folder}/ice",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    os.chdir(folder)
    if "LAKE_CONNECT" not in os.environ:
        with local_session("local[2]", settings) as spark:
            yield spark
        return
    with connect("local[2]", settings) as url, session_on(url) as spark:
        yield spark


def rows(spark: SparkSession, table: str, format: str) -> list[list[Any]]:
    """Topic, partition, offset, key, value, headers and time in epoch milliseconds of all rows, in order."""
    read = spark.read.format(format).load(table) if "/" in table else spark.table(table)
    found = read.selectExpr(
        "topic", "partition", "offset", "CAST(key AS STRING)", "CAST(value AS STRING)", "size(headers)",
        "unix_millis(timestamp)",
    )  # fmt: skip
    return sorted(map(list, found.collect()))


def tables(spark: SparkSession, *, files: str, folder: str) -> None:
    """Tables of both formats with the rows of Parquet files, of which some were deleted afterwards, and a table of
    Delta to which rows were appended once more."""
    rows = spark.read.parquet(files)
    for name in ("delta", "again"):
        rows.write.format("delta").save(f"{folder}/{name}")
    rows.where("offset < 5").write.format("delta").mode("append").save(f"{folder}/again")
    spark.sql(f"DELETE FROM delta.`{folder}/delta` WHERE offset = 7")
    options = "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    spark.sql(f"CREATE TABLE ice.db.events USING iceberg {options} AS SELECT * FROM parquet.`{files}`")
    spark.sql("DELETE FROM ice.db.events WHERE offset BETWEEN 40 AND 44")


def append(spark: SparkSession, *, steps: list[dict[str, Any]]) -> list[Any]:
    """Each step is a call of `lake.append` in this session, or the rows of a table: `{"rows": ..., "format": ...}`, or
    `{"conflict": ..., "format": ...}`. The results, an error as text."""
    found: list[Any] = []
    for step in steps:
        kill = step.pop("kill", None)
        try:
            if "rows" in step:
                found.append(rows(spark, step["rows"], step["format"]))
            elif "conflict" in step:
                found.append(conflict(spark, step["conflict"], step["format"]))
            else:
                with _killed(spark, kill):
                    done = lake.append(spark, **step)
                offsets = {f"{topic}-{number}": end for (topic, number), end in done.offsets.items()}
                found.append({"run": done.run, "offsets": offsets, "held": done.held, "unreadable": done.unreadable})
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def conflict(spark: SparkSession, name: str, format: str) -> tuple[str, int]:
    """What the later of two runs that began from the same progress raises, and how many rows there are then."""
    row = (b"k", b"v", "orders", 0, 7, None, 0, None)
    rows = spark.createDataFrame([row], TABLE_SPARK)  # type: ignore[list-item]
    first, second = (lake_table(spark, name, format) for _ in range(2))
    first.create(TABLE_SPARK)
    assert first.progress() is second.progress() is None
    first.append(rows, Progress("first", {"orders": {0: 8}}))
    try:
        second.append(rows, Progress("second", {"orders": {0: 8}}))
    except SparkError as error:
        return f"SparkError: {error}", spark.table(first.name).count()
    return "", 0


@contextmanager
def _killed(spark: SparkSession, at: str | None) -> Iterator[None]:
    """Kill this process and its Java process, as a machine that ends: when the first file is written ("data"), or when
    Spark has committed, before anything is done with that ("commit")."""
    if at is None:
        yield
        return
    from pyspark.sql import DataFrameWriterV2

    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def end() -> None:
        os.kill(java, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    if at == "data":
        watch_for(Path(os.environ["LAKE_TABLE"]), end)
        yield
        return
    writes = {name: getattr(DataFrameWriterV2, name) for name in ("append", "overwrite")}

    def ending(name: str) -> Any:
        def write(*args: Any) -> None:
            writes[name](*args)
            end()

        return write

    with mock.patch.multiple(DataFrameWriterV2, append=ending("append"), overwrite=ending("overwrite")):
        yield


def undecodable(batch: bytes) -> bytes:
    """The batch with the right checksum of bytes that are no records."""
    garbled = bytearray(batch[:21] + batch[21:61] + b"\xff" * (len(batch) - 61))
    garbled[17:21] = crc32c(bytes(garbled[21:])).to_bytes(4)
    return bytes(garbled)


def watch_for(table: Path, end: Any) -> None:
    """Call `end` as soon as a Parquet file is below the table's folder that was not there."""
    import threading
    import time

    before = set(table.rglob("*.parquet"))

    def watch() -> None:
        while not set(table.rglob("*.parquet")) - before:
            time.sleep(0.001)
        end()

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    job, jars, folder = sys.argv[1:]
    with session(jars, folder) as started:
        print(json.dumps(globals()[job](started, **json.load(sys.stdin))))
