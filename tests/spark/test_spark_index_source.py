"""The data source `kafka_index`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir, rows
from kafkawire.rows import arrow
from kafkawire.spark import register
from kafkawire.spark.errors import SourceError
from kafkawire.spark.index_source import KINDS, IndexReader
from kafkawire.spark.sources.source_base import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def read(path: object, **options: str) -> list[dict[str, Any]]:
    given = SourceOptions({**options, "path": str(path)})
    schema = from_arrow_schema(arrow.schema([rows.LOG_ROWS[kind] for kind in given.several("kinds", KINDS)]))
    reader = IndexReader(schema, given)
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def test_entries_are_those_of_dump() -> None:
    expected = [
        shown(rows.to_dict(row))
        for file in logdir.open(EXAMPLES).files
        if file.kind not in ("log", "kraft-snapshot")
        for row in file
    ]
    found = [shown(row) for row in read(EXAMPLES)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert {row["kind"] for row in found} == {"index", "timeindex", "txnindex", "snapshot", "epoch", "checkpoint",
                                              "metadata"}  # fmt: skip


def test_kinds_choose_rows_and_columns() -> None:
    found = read(EXAMPLES, kinds="Snapshot, txnindex")
    assert {row["kind"] for row in found} == {"snapshot", "txnindex"}
    assert "log_position" not in found[0]
    with pytest.raises(ValueError, match=r"kinds are some of index, .*, not segment"):
        read(EXAMPLES, kinds="segment")


def test_damage_is_a_row_or_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.snapshot").write_bytes(b"\0\1\0\0\0\0\0\0\0\0")
    (row,) = read(tmp_path)
    assert (row["kind"], row["reason"], row["topic"]) == ("damage", "crc_mismatch", "t")
    assert read(tmp_path, kinds="snapshot") == []
    with pytest.raises(SourceError, match="crc_mismatch"):
        read(tmp_path, mode="failfast")


def test_reads_entries_in_a_session(spark: SparkSession) -> None:
    register(spark)
    table = spark.read.format("kafka_index").option("kinds", "snapshot").load(str(EXAMPLES))
    counted = table.where("current_txn_first_offset >= 0").count()
    assert counted == sum(row["current_txn_first_offset"] >= 0 for row in read(EXAMPLES, kinds="snapshot"))
    assert counted
