"""Tables of log directories that grow, kept current by a stream.

    python examples/spark/keep_lake_current.py examples/kafka-logs/one-node lake --once

Batches that have come since are added to `lake/batches`, partitioned by topic: each once, also when the job is started
again. Then the audit is repeated, so that `lake/findings` and the other tables are current. Without `--once` it runs
until it is stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire.spark import local_session, register

sys.path.insert(0, str(Path(__file__).parent))
from audit_to_lake import write_audit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def keep_current(spark: SparkSession, logs: str, lake: str, *, once: bool) -> StreamingQuery:
    """A query that writes what has come to the lake."""
    register(spark)
    batches = spark.readStream.format("kafka_segment").option("rows", "batches").load(logs)

    def write(came: DataFrame, number: int) -> None:
        # A micro-batch that is repeated after a failure overwrites what it wrote before, so no row is there twice.
        came.write.mode("overwrite").partitionBy("topic").parquet(f"{lake}/batches/part={number}")
        write_audit(spark, [logs], lake)

    writer = batches.writeStream.foreachBatch(write).option("checkpointLocation", f"{lake}/_checkpoint")
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="30 seconds")).start()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Tables of log directories that grow, kept current by a stream.")
    parser.add_argument("logs", help="log directories")
    parser.add_argument("lake", help="where the tables go")
    parser.add_argument("--once", action="store_true", help="end when all that is there has been read")
    given = parser.parse_args(arguments)
    with local_session() as spark:
        keep_current(spark, given.logs, given.lake, once=given.once).awaitTermination()


if __name__ == "__main__":
    main()
