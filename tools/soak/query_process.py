"""A streaming query in a process of its own, for `killed_query`, which kills it: `python -m tools.soak.query_process`.

Its argument is JSON, the fields of `Query`. A line of the input is a command: `trigger` is answered when a micro-batch
has ended, and `rows` with the rows of the table. The executors are processes, too (`local-cluster`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire.spark import register
from kafkawire.spark.session.sessions import QUICK_START, local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READY, DONE = "ready", "done"
TRIGGER, ROWS = "trigger", "rows"
_TABLE = "ice.db.records"


class Query(NamedTuple):
    """What a query reads and writes.

    Attributes:
        options: of the source. `format`: of the table. `folder`: of the table and the checkpoint. `jars`: a folder with
            those of the format.
    """

    options: dict[str, str]
    format: str
    folder: str
    jars: str | None = None


def session_settings(query: Query) -> dict[str, str]:
    """The settings of a session that has the format."""
    found = {
        **QUICK_START,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # PySpark 4.1 runs one micro-batch otherwise, which after a restart is the one that was not committed.
        "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
        "spark.sql.warehouse.dir": f"{query.folder}/warehouse",
    }
    if query.jars is None:
        return found
    return {
        **found,
        "spark.jars": ",".join(map(str, sorted(Path(query.jars).glob("*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"{query.folder}/ice",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def trigger(spark: SparkSession, query: Query) -> None:
    """Append all that is there, and return when it is committed."""
    read = spark.readStream.format("kafka_segment").options(**query.options)
    rows = read.load().selectExpr("CAST(value AS STRING) AS value", "error")
    write = rows.writeStream.option("checkpointLocation", f"{query.folder}/checkpoint").trigger(availableNow=True)
    if query.format == "iceberg":
        spark.sql(f"CREATE TABLE IF NOT EXISTS {_TABLE} (value STRING, error STRING) USING iceberg")
        running = write.toTable(_TABLE)
    else:
        running = write.format(query.format).start(f"{query.folder}/table")
    running.awaitTermination()


def rows(spark: SparkSession, query: Query) -> list[list[Any]]:
    """Value and error of all rows."""
    table: DataFrame
    if query.format == "iceberg":
        if not spark.catalog.tableExists(_TABLE):
            return []
        table = spark.table(_TABLE)
    else:
        folder = Path(query.folder, "table")
        if not any(folder.rglob("*.parquet")):
            return []
        table = spark.read.format(query.format).load(str(folder))
    return [[row.value, row.error] for row in table.select("value", "error").collect()]


def main(text: str) -> None:
    query = Query(**json.loads(text))
    with local_session("local-cluster[2,1,512]", session_settings(query)) as spark:
        register(spark)
        print(READY, flush=True)
        for line in sys.stdin:
            if line.strip() == TRIGGER:
                trigger(spark, query)
                print(DONE, flush=True)
            else:
                print(json.dumps(rows(spark, query)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
