"""Every violation as a table that workers write: theirs are rows of kind `VIOLATION`, and few are of the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import rows
from kafkawire.rows import arrow
from kafkawire.spark.audit_dataframes import table_of
from kafkawire.spark.fleet_listing import as_batches
from kafkawire.spark.jobs import kept
from kafkawire.spark.outcome_rows import TO_DRIVER, VIOLATION, packed, short
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.answer_rows import capped, each_violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.transactions.facts import Place

#: Of violations as workers find them; `file` of those without one is the directory of their place.
VIOLATIONS = arrow.schema([rows.Violation])
#: What tasks find: an answer for the driver, or violations.
FOUND = pa.schema([("kind", pa.int8()), ("place", pa.binary()), ("payload", pa.binary())])
FOUND_SPARK = "kind tinyint, place binary, payload binary"
_A_ROW = 1000


def violation_cells(answers: Iterable[Placed]) -> Iterator[tuple[int, bytes, bytes]]:
    """The violations in answers, as values of `FOUND`."""
    for placed in answers:
        found = list(each_violation(placed))
        for start in range(0, len(found), _A_ROW):
            yield VIOLATION, packed(placed.place), pickle.dumps(found[start : start + _A_ROW])


def found_rows(answers: Iterable[Placed], *, whole: bool) -> Iterator[pa.RecordBatch]:
    """Answers as rows of `FOUND`: for the driver, with the first breaches; and all violations, if `whole`."""
    answers = list(answers)
    if whole:
        yield from as_batches(violation_cells(answers), FOUND)
    for_driver = short(map(capped, answers)) if whole else short(answers)
    yield from as_batches(((TO_DRIVER, None, pickle.dumps(placed)) for placed in for_driver), FOUND)


def for_driver(found: DataFrame) -> Iterator[Any]:
    """What rows of kind `TO_DRIVER` have: of `FOUND`, answers."""
    payloads = found.where(f"kind = {TO_DRIVER}").select("payload").toArrow().column(0).to_pylist()
    return map(pickle.loads, payloads)  # written by our own workers


class Violations:
    """Collects where violations are.

    Args:
        stack: as long as it lasts, rows that were kept are there.
        read: rows of `outcome_rows.SCHEMA`.

    Attributes:
        own: the answers of the driver. `paths`: the directories of replicas.
    """

    def __init__(self, stack: ExitStack, read: DataFrame) -> None:
        self._stack = stack
        self._found = [read]
        self.own: list[Placed] = []
        self.paths: Mapping[Place, str] = {}

    def keep(self, found: DataFrame) -> DataFrame:
        """Rows with the columns of `FOUND`, computed once."""
        frame = self._stack.enter_context(kept(found))
        self._found.append(frame)
        return frame

    def table(self, spark: SparkSession) -> DataFrame:
        """The table."""
        paths = {"place": list(map(packed, self.paths)), "path": list(map(arrow.arrow_text, self.paths.values()))}
        directories = spark.createDataFrame(
            pa.table(paths, pa.schema([("place", pa.binary()), ("path", pa.string())])), "place binary, path string"
        )
        table = table_of(spark, rows.Violation, (row for placed in self.own for row in each_violation(placed)))
        for found in self._found:
            of_workers = found.where(f"kind = {VIOLATION}").select("place", "payload")
            of_workers = of_workers.join(directories, "place", "left").select("payload", "path")
            table = table.union(of_workers.mapInArrow(_violations, from_arrow_schema(VIOLATIONS)))
        return table


def _violations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def each(batch: pa.RecordBatch) -> Iterator[rows.Violation]:
        for row in batch.to_pylist():
            found: list[Any] = pickle.loads(row["payload"])  # written by our own workers
            yield from (one if one.file else replace(one, file=row["path"]) for one in found)

    for batch in batches:
        yield from arrow.batches(each(batch), VIOLATIONS)
