"""`message_table` in a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PythonException
from pyspark.sql import functions as F

from kafkawire.messages import TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.spark import from_kafka_message, message_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NAME = "TransactionLogValue"
VALUES = [
    TransactionLogValue(producer_id=n, transaction_partitions=(PartitionsSchema("orders", tuple(range(n))),))
    for n in range(5)
]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows = [(n, value.encode_prefixed(n % 2), value.encode(n % 2), n % 2) for n, value in enumerate(VALUES)]
    return spark.createDataFrame([*rows, (9, None, None, 0)], "id long, prefixed binary, bare binary, v short").cache()


def test_fields_are_those_of_the_struct(frame: DataFrame) -> None:
    structs = frame.select("id", from_kafka_message("prefixed", NAME, "prefix").alias("x")).select("id", "x.*")
    expected = sorted(structs.collect(), key=lambda row: row.id)
    table = message_table(frame, "prefixed", NAME, "prefix", keep=["id"])
    assert sorted(table.collect(), key=lambda row: row.id) == expected
    assert table.schema == structs.schema
    by_column = message_table(frame, F.col("bare"), NAME, F.col("v"), keep=["id"])
    assert sorted(by_column.collect(), key=lambda row: row.id) == expected


def test_selects_fields(frame: DataFrame) -> None:
    table = message_table(frame, "bare", NAME, F.col("v"), columns=["transaction_partitions", "producer_id"])
    assert table.columns == ["producer_id", "transaction_partitions"]
    found = {row.producer_id: row.transaction_partitions for row in table.collect()}
    assert found.pop(None) is None
    assert {n: [p.partition_ids for p in partitions] for n, partitions in found.items()} == {
        n: [list(range(n))] for n in range(5)
    }


def test_errors_are_the_last_column(frame: DataFrame) -> None:
    bad = frame.select("id", F.expr("substring(bare, 1, 5)").alias("cut"))
    with pytest.raises(PythonException, match="TransactionLogValue v1"):
        message_table(bad, "cut", NAME, 1).collect()
    assert message_table(bad, "cut", NAME, 1, {"mode": "PERMISSIVE"}, columns=["producer_id"]).distinct().count() == 1
    with_errors = message_table(bad, "cut", NAME, 1, {"mode": "PERMISSIVE", "errors": "true"}, keep=["id"], columns=[])
    assert with_errors.columns == ["id", "_error"]
    by_id = {row.id: row._error for row in with_errors.collect()}
    assert by_id.pop(9) is None
    assert all(text.startswith("TransactionLogValue v1") for text in by_id.values())


def test_rejects_wrong_arguments_before_the_job(frame: DataFrame) -> None:
    with pytest.raises(LookupError, match="has no field colour"):
        message_table(frame, "bare", NAME, 1, columns=["colour", "producer_id"])
    with pytest.raises(ValueError, match="kept and fields of TransactionLogValue: producer_id"):
        message_table(frame.withColumn("producer_id", F.col("id")), "bare", NAME, 1, keep=["producer_id"])
    with pytest.raises(ValueError, match="version is a number"):
        message_table(frame, "bare", NAME, "newest")
