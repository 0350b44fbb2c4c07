"""`audit_tables`: what an audit found as tables, to be kept in a lake.

for name, table in audit_tables(spark, audit).items():
    table.write.mode("overwrite").partitionBy("topic").parquet(f"lake/{name}")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import rows
from kafkawire.rows import arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.rows import Row


def audit_tables(spark: SparkSession, audit: rows.Audit) -> dict[str, DataFrame]:
    """Tables by name: `findings`, `violations` and `damage`, a row each, in the columns of `kafkawire.rows`."""
    kinds: dict[str, tuple[type[Row], Sequence[Row]]] = {
        "findings": (rows.Finding, audit.findings),
        "violations": (rows.Violation, audit.violations),
        "damage": (rows.Damage, audit.damage),
    }
    return {name: _table(spark, kind, found) for name, (kind, found) in kinds.items()}


def _table(spark: SparkSession, kind: type[Row], found: Sequence[Row]) -> DataFrame:
    schema = arrow.schema([kind])
    table = pa.Table.from_batches(arrow.batches(found, schema), schema)
    return spark.createDataFrame(table, from_arrow_schema(schema))
