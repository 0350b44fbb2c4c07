"""The audit of log directories as Parquet, partitioned by topic.

    python examples/spark/audit_to_lake.py examples/kafka-logs/one-node lake
    python examples/spark/audit_to_lake.py 's3://fleet/logs?region=eu-west-1' lake     # by URI as well

`lake/findings` has every open transaction with its verdict, `lake/violations` the rules that the logs break,
`lake/damage` what could not be read.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkawire.spark import audit, audit_tables, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_audit(spark: SparkSession, logs: list[str], lake: str) -> None:
    """Audit, and put the tables of an earlier audit out of date."""
    found = audit(logs, spark=spark)
    for name, table in audit_tables(spark, found).items():
        table.write.mode("overwrite").partitionBy("topic").parquet(f"{lake}/{name}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The audit of log directories as Parquet, partitioned by topic.")
    parser.add_argument("logs", nargs="+", help="log directories, or URIs of them")
    parser.add_argument("lake", help="where the tables go")
    given = parser.parse_args(arguments)
    with local_session() as spark:
        write_audit(spark, given.logs, given.lake)


if __name__ == "__main__":
    main()
