"""The audit as tables: `audit_tables` makes them of an answer, `TableOutput` is where an audit writes them.

Findings, violations and damage are rows that stay with the workers, each kind a table of its own with all rows. The
driver gets the first rows of each, and the number of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import rows
from kafkawire.rows import arrow
from kafkawire.spark.auditing.outcome_rows import (
    FACTS,
    FOUND,
    ForDriver,
    Listed,
    ListedDamage,
    ListedFinding,
    Violations,
    packed,
    short,
)
from kafkawire.spark.errors import SparkError
from kafkawire.spark.session.jobs import kept
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import by_batches
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.auditing.audit_result import Concluded, finding_order
from kafkawire.transactions.checks.answer_rows import capped, each_violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.rows import Row
    from kafkawire.transactions.answers import Placed
    from kafkawire.transactions.facts import Place

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


#: Violations in a row.
_A_ROW = 1000


def violation_rows(answers: Iterable[Placed]) -> Iterator[Violations]:
    """The violations in answers; without `file` where it is the directory of their place."""
    for placed in answers:
        found = list(each_violation(placed))
        for start in range(0, len(found), _A_ROW):
            yield Violations(packed(placed.place), sent(found[start : start + _A_ROW]))


def found_rows(answers: Iterable[Placed], *, whole: bool) -> Iterator[pa.RecordBatch]:
    """Answers as rows of `FOUND`: for the driver, with the first breaches; and all violations, if `whole`."""
    answers = list(answers)
    if whole:
        yield from FOUND.batches(Violations, violation_rows(answers))
    for_driver = short(map(capped, answers)) if whole else short(answers)
    yield from FOUND.batches(ForDriver, (ForDriver(sent(placed)) for placed in for_driver))


def finding_rows(found: Iterable[tuple[int, rows.Finding]]) -> Iterator[pa.RecordBatch]:
    """Findings, each with the number of its cluster, as rows of `FOUND`."""
    yield from FOUND.batches(
        ListedFinding,
        (
            ListedFinding(
                sent({"verdict": one.verdict, "reason": one.reason, "blocked": one.blocked}),
                _in_order(*finding_order(one), (cluster - 1) % (1 << 32)),  # directories without a cluster come last
                sent(one),
            )
            for cluster, one in found
        ),
    )


def damage_rows(found: Iterable[rows.DamageRow]) -> Iterator[pa.RecordBatch]:
    """Damage in a replica, as rows of `FACTS`."""
    yield from FACTS.batches(
        ListedDamage,
        (
            ListedDamage(
                sent({"reason": one.reason, "harmless": one.harmless}),
                _in_order(one.file or "", one.position or 0, number),
                sent(one),
            )
            for number, one in enumerate(found)
        ),
    )


def _in_order(*values: str | int) -> bytes:
    """Bytes that have the order of the values."""
    return b"".join(
        value.encode("utf-8", "surrogateescape") + b"\0"
        if isinstance(value, str)
        else (value + (1 << 63)).to_bytes(9, "big")
        for value in values
    )


def for_driver(found: DataFrame) -> Iterator[Any]:
    """The values of `ForDriver` rows: in those of `FOUND`, answers."""
    return map(received, only(found, ForDriver).toArrow().column(0).to_pylist())


class WorkerTables:
    """Collects where findings, violations and damage are.

    Args:
        stack: kept rows are freed when it ends.
        read: rows of `FACTS`.

    Attributes:
        concluded: the answers of the driver, and the violations of workers that rest on others. `paths`: the
            directories of replicas. `damage`: in the small files of brokers.
    """

    def __init__(self, stack: ExitStack, read: DataFrame) -> None:
        self._stack = stack
        self._found = [read]
        self.concluded = Concluded([], set())
        self.paths: Mapping[Place, str] = {}
        self.damage: tuple[rows.DamageRow, ...] = ()

    def keep(self, found: DataFrame) -> DataFrame:
        """Rows of `FOUND`, computed once."""
        frame = self._stack.enter_context(kept(found))
        self._found.append(frame)
        return frame

    def first(self, kind: type[Listed], most: int) -> tuple[list[Any], tuple[rows.Omitted, ...]]:
        """The first rows of a class in their order, and how many others there are."""
        found = self._of(kind)
        ordered = found.orderBy("order").limit(most + 1).toArrow().to_pylist()
        chosen = [received(row["payload"]) for row in ordered[:most]]
        if len(ordered) <= most:
            return chosen, ()
        more = Counter({bytes(label): count for label, count in found.groupBy("label").count().collect()})
        more.subtract(row["label"] for row in ordered[:most])
        name = "finding" if kind is ListedFinding else "damage"
        omitted = (rows.Omitted(rows=name, count=count, **received(label)) for label, count in more.items() if count)
        return chosen, tuple(sorted(omitted, key=lambda one: (-one.count, repr(one))))

    def tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        """All rows, by the name of their table."""
        findings, damage = (self._of(kind).select("payload") for kind in (ListedFinding, ListedDamage))
        return {
            "findings": table_of(spark, rows.Finding, ()).union(_table(findings, rows.Finding)),
            "violations": self._violations(spark),
            "damage": table_of(spark, rows.DamageRow, self.damage).union(_table(damage, rows.DamageRow)),
        }

    def _of(self, kind: type[Violations | Listed]) -> DataFrame:
        """The rows of a class. A tier's damage is that of each replica whose log it begins."""
        found = reduce(lambda one, other: one.union(other), (only(found, kind) for found in self._found))
        return found.dropDuplicates(["payload"]) if kind is ListedDamage else found

    def _violations(self, spark: SparkSession) -> DataFrame:
        paths = {"place": list(map(packed, self.paths)), "path": list(map(arrow.arrow_text, self.paths.values()))}
        directories = spark.createDataFrame(
            pa.table(paths, pa.schema([("place", pa.binary()), ("path", pa.string())])), "place binary, path string"
        )
        table = table_of(
            spark, rows.Violation, (row for placed in self.concluded.own for row in each_violation(placed))
        )
        placed = self._of(Violations).join(directories, "place", "left").select("payload", "path")
        return table.union(_table(placed, rows.Violation, frozenset(self.concluded.explained)))


def _table(found: DataFrame, kind: type[rows.Row], without: Set[rows.Row] = frozenset()) -> DataFrame:
    """Rows of one kind: payloads, and the `path` of those without a file; but for those in `without`."""
    schema = arrow.schema([kind])

    def each(batch: pa.RecordBatch) -> Iterator[Any]:
        for row in batch.to_pylist():
            one = received(row["payload"])
            if isinstance(one, list):
                placed = (each if each.file else replace(each, file=row["path"]) for each in one)
                yield from (each for each in placed if each not in without)
            else:
                yield one

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from arrow.batches(each(batch), schema)

    return by_batches(found, decode, from_arrow_schema(schema))
