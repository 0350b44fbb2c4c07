"""`from_kafka_message` and `to_kafka_message` in a Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import Window
from pyspark.sql import functions as F

from kafkawire.errors import UnsupportedVersionError
from kafkawire.messages import EndTxnMarker, FetchRequest, GroupMetadataKey, OffsetCommitKey, TransactionLogValue
from kafkawire.messages.fetch_request import FetchTopic
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.spark import from_kafka_message, message_table, register, to_kafka_message

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark

VALUE = TransactionLogValue(
    producer_id=5,
    producer_epoch=6,
    transaction_status=1,
    transaction_partitions=(PartitionsSchema("orders", (0, 2)), PartitionsSchema("ünï", ())),
)
SCHEMAS = {"Note.json": '{"type": "data", "name": "Note", "validVersions": "0-1", "flexibleVersions": "none", '
           '"fields": [{"name": "Text", "type": "string", "versions": "0+"}, '
           '{"name": "Count", "type": "int32", "versions": "1+"}]}'}  # fmt: skip


def frame(spark: SparkSession, *rows: tuple[bytes | None, int]) -> DataFrame:
    return spark.createDataFrame(list(rows), "data binary, version short")


def column(frame: DataFrame, column: Column) -> list[Any]:
    return [row["x"] for row in frame.select(column.alias("x")).collect()]


def test_values_by_prefix_by_number_and_by_column(spark: SparkSession) -> None:
    prefixed = frame(spark, (VALUE.encode_prefixed(0), 0), (VALUE.encode_prefixed(1), 1), (None, 0))
    bare = frame(spark, (VALUE.encode(0), 0), (VALUE.encode(1), 1), (None, 1))
    by_prefix = column(prefixed, from_kafka_message("data", "TransactionLogValue", "prefix"))
    by_column = column(bare, from_kafka_message(F.col("data"), "TransactionLogValue", F.col("version")))
    by_number = column(bare.where("version = 0"), from_kafka_message("data", "TransactionLogValue", 0))
    decoded = prefixed.select(from_kafka_message("data", "TransactionLogValue", "prefix").alias("v"))
    comment = TransactionLogValue.spec.field("producer_id").about
    assert decoded.schema["v"].dataType["producer_id"].metadata == {"comment": comment}
    first, second, null = by_prefix
    assert null is None
    assert by_column == by_prefix
    assert by_number == [first]
    assert first == second
    assert (first.producer_id, first.producer_epoch, first.previous_producer_id) == (5, 6, -1)
    assert [(p.topic, p.partition_ids) for p in first.transaction_partitions] == [("orders", [0, 2]), ("ünï", [])]


def test_round_trip_gives_the_same_bytes(spark: SparkSession) -> None:
    rows = frame(spark, (VALUE.encode(0), 0), (VALUE.encode(1), 1), (None, 1))
    struct = from_kafka_message("data", "TransactionLogValue", F.col("version"))
    assert column(rows, to_kafka_message(struct, "TransactionLogValue", F.col("version"))) == [
        VALUE.encode(0), VALUE.encode(1), None,
    ]  # fmt: skip
    assert column(rows, to_kafka_message(struct, "TransactionLogValue", "prefix")) == [
        VALUE.encode_prefixed(1), VALUE.encode_prefixed(1), None,
    ]  # fmt: skip


def test_missing_fields_get_their_defaults(spark: SparkSession) -> None:
    struct = F.struct(F.lit(7).cast("int").alias("CoordinatorEpoch"))
    made = column(spark.range(1), to_kafka_message(struct, "EndTxnMarker", 0))
    assert made == [EndTxnMarker(coordinator_epoch=7).encode(0)]


def test_malformed_data_fails_the_job_or_becomes_null(spark: SparkSession) -> None:
    rows = frame(spark, (VALUE.encode(1)[:-1], 1), (VALUE.encode(1), 1))
    with pytest.raises(PythonException, match="TransactionLogValue v1"):
        column(rows, from_kafka_message("data", "TransactionLogValue", 1))
    bad, good = column(rows, from_kafka_message("data", "TransactionLogValue", 1, {"mode": "permissive"}))
    assert bad is None
    assert good.producer_id == 5
    options = {"mode": "PERMISSIVE", "errors": "true"}
    bad, good = column(rows, from_kafka_message("data", "TransactionLogValue", 1, options))
    assert bad._error.startswith("TransactionLogValue v1")
    assert bad.producer_id is None
    assert good._error is None


def test_invalid_utf8_is_replaced_and_reported(spark: SparkSession) -> None:
    value = TransactionLogValue(transaction_partitions=(PartitionsSchema("a\udcffü", (0,)),))
    rows = frame(spark, (value.encode(1), 1), (None, 1))
    options = {"errors": "true"}
    row, null = column(rows, from_kafka_message("data", "TransactionLogValue", 1, options))
    assert null is None
    assert row.transaction_partitions[0].topic == "a\ufffdü"
    assert row._error == "transaction_partitions[0].topic is no UTF-8: b'a\\xff\\xc3\\xbc'"


def test_uuids_are_text(spark: SparkSession) -> None:
    value = FetchRequest(topics=(FetchTopic(topic_id=UUID(int=7 << 100)),))
    (row,) = column(frame(spark, (value.encode(17), 17)), from_kafka_message("data", "FetchRequest", 17))
    assert row.topics[0].topic_id == str(UUID(int=7 << 100))


def test_rejects_a_version_that_the_message_lacks(spark: SparkSession) -> None:
    rows = frame(spark, (VALUE.encode(1), 9))
    options = {"mode": "PERMISSIVE", "errors": "true"}
    (row,) = column(rows, from_kafka_message("data", "TransactionLogValue", F.col("version"), options))
    assert row._error == "TransactionLogValue has no version 9; it has 0-1"


def test_rejects_a_value_that_the_version_cannot_carry(spark: SparkSession) -> None:
    struct = F.struct(F.lit(40_000).alias("producer_epoch"))
    with pytest.raises(PythonException, match="producer_epoch"):
        column(spark.range(1), to_kafka_message(struct, "TransactionLogValue", 1))
    permissive = to_kafka_message(struct, "TransactionLogValue", 1, {"mode": "PERMISSIVE"})
    assert column(spark.range(1), permissive) == [None]


def test_rejects_text_that_is_no_uuid(spark: SparkSession) -> None:
    struct = F.expr("named_struct('topics', array(named_struct('topic_id', text)))")
    rows = spark.createDataFrame([(str(UUID(int=5)),), ("no uuid",)], "text string")
    with pytest.raises(PythonException, match="topic_id"):
        column(rows, to_kafka_message(struct, "FetchRequest", 17))
    good, bad = column(rows, to_kafka_message(struct, "FetchRequest", 17, {"mode": "PERMISSIVE"}))
    assert good == FetchRequest(topics=(FetchTopic(topic_id=UUID(int=5)),)).encode(17)
    assert bad is None


def test_accepts_messages_of_a_schema_directory(spark: SparkSession, tmp_path: Path) -> None:
    for name, text in SCHEMAS.items():
        (tmp_path / name).write_text(text)
    rows = frame(spark, (b"\0\x02hi\0\0\0\x05", 1), (b"\0\x02ho", 0))
    options = {"schemaDirectory": str(tmp_path)}
    decoded = from_kafka_message("data", "Note", F.col("version"), options)
    encoded = to_kafka_message("x", "Note", F.col("version"), options)
    table = message_table(rows, "data", "Note", F.col("version"), options)
    with pytest.raises(LookupError, match="no message is named 'Other'"):
        from_kafka_message("data", "Other", 0, options)
    for name in SCHEMAS:  # workers do not need the directory
        (tmp_path / name).unlink()
    found = column(rows, decoded)
    assert [(row.text, row["count"]) for row in found] == [("hi", 5), ("ho", 0)]
    assert [tuple(row) for row in table.collect()] == [("hi", 5), ("ho", 0)]
    assert column(rows.select("version", decoded.alias("x")), encoded) == [b"\0\x02hi\0\0\0\x05", b"\0\x02ho"]


def test_functions_in_sql(spark: SparkSession) -> None:
    register(spark)
    values = frame(spark, (VALUE.encode_prefixed(1), 1), (None, 1))
    row, null = spark.sql(
        """
        SELECT from_kafka_message(data, 'TransactionLogValue') AS v,
               from_kafka_message(substring(data, 3), 'TransactionLogValue', 1):producer_id::bigint AS id,
               to_kafka_message(named_struct('producer_id', 7L), 'TransactionLogValue', 'prefix') AS encoded
        FROM {values}
        """,
        values=values,
    ).collect()
    assert (row.id, null.id, null.v) == (5, None, None)
    found = row.v.toPython()
    assert (found["producer_id"], found["transaction_status"]) == (5, 1)
    assert found["transaction_partitions"][0] == {"topic": "orders", "partition_ids": [0, 2]}
    assert TransactionLogValue.decode_prefixed(bytes(row.encoded))[0] == TransactionLogValue(producer_id=7)


def test_functions_in_sql_reject_what_they_cannot_decode(spark: SparkSession) -> None:
    register(spark)
    wrong = frame(spark, (b"\0\1\xff", 1))
    for name in ("TransactionLogValue", "NoMessage"):
        with pytest.raises(PythonException, match=name):
            spark.sql(f"SELECT from_kafka_message(data, '{name}') AS v FROM {{wrong}}", wrong=wrong).collect()
    lenient = "SELECT from_kafka_message(data, 'TransactionLogValue', 'prefix', 'permissive') AS v FROM {wrong}"
    assert spark.sql(lenient, wrong=wrong).collect()[0].v is None


def test_functions_are_deterministic_and_named_as_the_call(spark: SparkSession) -> None:
    """Spark refuses others in aggregates, in conditions of joins, and in the grouping of a window."""
    values = frame(spark, (VALUE.encode_prefixed(1), 1), (VALUE.encode_prefixed(0), 0))
    decoded = from_kafka_message("data", "TransactionLogValue", "prefix")
    by_id = values.groupBy(decoded.producer_id.alias("id")).agg(F.max(decoded.producer_epoch).alias("epoch"))
    assert by_id.collect() == [(5, 6)]
    assert values.alias("a").join(values.alias("b"), F.col("a.version") == F.col("b.version")).where(
        from_kafka_message("a.data", "TransactionLogValue", "prefix").producer_id == 5
    ).count() == 2  # fmt: skip
    assert values.orderBy(decoded.producer_id).count() == 2
    register(spark)
    in_sql = "SELECT max(from_kafka_message(data, 'TransactionLogValue'):producer_id::bigint) AS id FROM {values}"
    assert spark.sql(in_sql, values=values).collect() == [(5,)]
    by_column = from_kafka_message(F.col("data"), "TransactionLogValue", F.col("version"))
    encoded = to_kafka_message(decoded, "TransactionLogValue", 1)
    assert values.select(decoded, by_column, encoded).columns == [
        "from_kafka_message(data, TransactionLogValue, prefix)",
        "from_kafka_message(data, TransactionLogValue, version)",
        "to_kafka_message(..., TransactionLogValue, 1)",
    ]


def test_functions_in_conditions_of_joins_and_in_windows(spark: SparkSession) -> None:
    values = frame(spark, (VALUE.encode_prefixed(1), 1), (VALUE.encode_prefixed(0), 0))
    ids = spark.createDataFrame([(5, "five"), (6, "six")], "id long, name string")
    decoded = from_kafka_message("data", "TransactionLogValue", "prefix")
    assert [row.name for row in values.join(ids, decoded.producer_id == F.col("id")).collect()] == ["five", "five"]
    left = ids.join(values, decoded.producer_id == F.col("id"), "left")
    assert sorted((row.name, row.version) for row in left.where("version IS NOT NULL").collect()) == [
        ("five", 0), ("five", 1),
    ]  # fmt: skip
    by_id = Window.partitionBy(decoded.producer_id).orderBy("version")
    assert [row.n for row in values.select(F.row_number().over(by_id).alias("n")).collect()] == [1, 2]


def test_spark_takes_no_python_function_in_a_lambda(spark: SparkSession) -> None:
    """As documented: arrays are exploded first."""
    arrays = frame(spark, (VALUE.encode_prefixed(1), 1), (VALUE.encode_prefixed(0), 0)).agg(
        F.collect_list("data").alias("all")
    )
    with pytest.raises(AnalysisException, match="LAMBDA_FUNCTION_WITH_PYTHON_UDF"):
        arrays.select(
            F.transform("all", lambda one: from_kafka_message(one, "TransactionLogValue", "prefix"))
        ).collect()
    one_each = arrays.select(F.explode("all").alias("data"))
    decoded = one_each.select(from_kafka_message("data", "TransactionLogValue", "prefix").alias("x"))
    assert [row.x.producer_id for row in decoded.collect()] == [5, 5]


def test_to_kafka_message_in_sql_takes_name_and_version_of_each_row(spark: SparkSession) -> None:
    register(spark)
    rows = spark.createDataFrame(
        [(1, "OffsetCommitKey", 0), (2, "GroupMetadataKey", 0), (3, "OffsetCommitKey", 0), (4, "GroupMetadataKey", 0)],
        "number int, name string, version int",
    ).coalesce(1)
    encoded = "to_kafka_message(named_struct('group', 'g'), name, version)"
    found = spark.sql(f"SELECT number, {encoded} AS x FROM {{rows}} ORDER BY number", rows=rows).collect()
    commit, group = OffsetCommitKey(group="g"), GroupMetadataKey(group="g")
    assert [bytes(row.x) for row in found] == [commit.encode(0), group.encode(0), commit.encode(0), group.encode(0)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("function", [from_kafka_message, to_kafka_message])
def test_rejects_wrong_arguments_before_the_job(function: Any) -> None:
    with pytest.raises(LookupError, match="TransactionLogValue"):
        function("data", "TransactionLogValu", 0)
    with pytest.raises(UnsupportedVersionError):
        function("data", "TransactionLogValue", 2)
    with pytest.raises(ValueError, match="version is a number, a column or"):
        function("data", "TransactionLogValue", "newest")
    with pytest.raises(ValueError, match="unknown options: moode"):
        function("data", "TransactionLogValue", 0, {"moode": "FAILFAST"})
    with pytest.raises(ValueError, match="mode is FAILFAST or PERMISSIVE"):
        function("data", "TransactionLogValue", 0, {"mode": "careless"})
    with pytest.raises(ValueError, match="errors"):
        function("data", "TransactionLogValue", 0, {"errors": "yes" if function is from_kafka_message else "true"})
