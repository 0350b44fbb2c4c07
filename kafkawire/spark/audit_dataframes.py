"""The audit as tables: `audit_tables` of an answer that is here; `TableOutput`, where an audit writes its tables to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import rows
from kafkawire.rows import arrow
from kafkawire.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.rows import Row

#: The tables of an audit.
TABLES = ("findings", "violations", "damage", "transactions")


class TableOutput(NamedTuple):
    """Where tables are written, in the words of Spark's `DataFrameWriter`.

    Attributes:
        path: of a folder, in which each table has a folder (`save`). `schema`: of a catalog, `catalog.schema`, in which
            each is a table (`saveAsTable`). One of the two.
        format: parquet, delta, iceberg, or another that the session has; None: the session's, or the catalog's.
        mode: errorifexists, append, overwrite, or ignore.
    """

    path: str | None = None
    schema: str | None = None
    format: str | None = None
    mode: str = "errorifexists"

    def check(self, spark: SparkSession) -> None:
        """Fail before the work where a table exists that may not.

        Raises:
            SparkError: a table exists.
        """
        for name in TABLES if self.mode in ("error", "errorifexists") else ():
            if self._exists(spark, name):
                raise SparkError(f"{self._name(name)} exists: choose another place, or the mode append or overwrite")

    def write(self, tables: Mapping[str, DataFrame]) -> None:
        """Write the tables."""
        for name, table in tables.items():
            writer = table.write.mode(self.mode)
            writer = writer if self.format is None else writer.format(self.format)
            if self.schema is None:
                writer.save(self._name(name))
            else:
                writer.saveAsTable(self._name(name))

    def _name(self, table: str) -> str:
        return f"{self.schema}.{table}" if self.schema is not None else f"{(self.path or '').rstrip('/')}/{table}"

    def _exists(self, spark: SparkSession, table: str) -> bool:
        if self.schema is not None:
            return spark.catalog.tableExists(self._name(table))
        reader = spark.read if self.format is None else spark.read.format(self.format)
        try:
            return bool(reader.load(self._name(table)).columns)
        except AnalysisException as error:
            # A folder without a file of rows, as a run that was killed leaves it: Spark writes to none that is there.
            return error.getCondition() == "UNABLE_TO_INFER_SCHEMA"


def audit_tables(spark: SparkSession, audit: rows.Audit) -> dict[str, DataFrame]:
    """Tables by name: `findings`, `violations` and `damage`, with the rows of the answer, in the columns of
    `kafkawire.rows`; `audit(save=...)` writes tables of all."""
    kinds: dict[str, tuple[type[Row], Sequence[Row]]] = {
        "findings": (rows.Finding, audit.findings),
        "violations": (rows.Violation, audit.violations),
        "damage": (rows.DamageRow, audit.damage),
    }
    return {name: table_of(spark, kind, found) for name, (kind, found) in kinds.items()}


def table_of(spark: SparkSession, kind: type[Row], found: Iterable[Row]) -> DataFrame:
    """Rows as a table.

    Args:
        kind: their class, whose fields are the columns. `found`: the rows.
    """
    schema = arrow.schema([kind])
    table = pa.Table.from_batches(arrow.batches(found, schema), schema)
    # PySpark makes no column of an array without a chunk.
    return spark.createDataFrame(table if len(table) else schema.empty_table(), from_arrow_schema(schema))
