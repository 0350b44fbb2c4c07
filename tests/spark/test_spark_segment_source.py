"""The data source `kafka_segment`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.records import Batch, Header, Record
from kafkawire.spark import register
from kafkawire.spark.segment_source import KafkaSegment
from tests.audit_logs import NOON, LogDirectory
from tests.consumed import LEVELS, REPLICAS
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def load(spark: SparkSession, path: object, **options: str) -> DataFrame:
    register(spark)
    return spark.read.format("kafka_segment").options(**options).load(str(path))


def test_records_are_those_of_the_package(spark: SparkSession) -> None:
    expected: dict[tuple[str, int, str], Any] = {}
    for partition in logdir.open(str(EXAMPLES)).partitions:
        for file in partition.segments:
            for batch in file.batches():
                assert isinstance(batch, Batch)
                for record in batch.records:
                    key = (file.path, record.offset, batch.control.name if batch.control else "")
                    expected[key] = (file.topic, record.timestamp, batch.producer_id, record.key, record.value)
    found = {
        (row.file, row.offset, row.control or ""): (
            row.topic,
            row.timestamp,
            row.producer_id,
            row.key and bytes(row.key),
            None if row.value is None else bytes(row.value),
        )
        for row in load(spark, EXAMPLES, replicas="all").collect()
    }
    assert found == expected


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    orders = logs.partition("orders", 3)
    orders.data(7, 1, at=NOON, records=2, codec="gzip")
    orders.marker("ABORT", 7, 1, at=NOON + 1, coordinator_epoch=4)
    orders.records([Record(key=None, value=b"v", headers=(Header("h\udcff", None), Header("g", b"\xff")))])
    return logs


def test_batches(spark: SparkSession, logs: LogDirectory) -> None:
    path = logs.write()
    wanted = ("topic", "partition", "base_offset", "last_offset", "codec", "producer_epoch", "control",
              "coordinator_epoch", "error")  # fmt: skip
    expected = [
        ("orders", 3, 0, 1, "gzip", 1, None, None, None),
        ("orders", 3, 2, 2, "none", 1, "ABORT", 4, None),
        ("orders", 3, 3, 3, "none", -1, None, None, None),
    ]
    for rows in ("batches", "headers"):
        assert [tuple(row) for row in load(spark, path, rows=rows).select(*wanted).collect()] == expected


def test_records_with_headers_and_nulls(spark: SparkSession, logs: LogDirectory) -> None:
    *_, last = load(spark, logs.write()).collect()
    assert (last.key, bytes(last.value)) == (None, b"v")
    assert [(h.key, h.value and bytes(h.value)) for h in last.headers] == [("h\ufffd", None), ("g", b"\xff")]


def test_damage_is_a_row_or_fails_the_job(spark: SparkSession, logs: LogDirectory) -> None:
    path = Path(logs.write())
    segment = path / "orders-3" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    rows = load(spark, path, rows="batches").collect()
    assert [(row.base_offset, (row.error or "")[:12]) for row in rows] == [(0, ""), (2, ""), (None, "crc_mismatch")]
    assert [row.error for row in load(spark, path, rows="headers").collect()] == [None] * 3
    with pytest.raises(PySparkException, match="crc_mismatch"):
        load(spark, path, mode="FAILFAST").collect()


def test_an_empty_directory_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert load(spark, tmp_path).count() == 0


def test_a_union_of_filters_has_the_rows_of_both(spark: SparkSession) -> None:
    """Spark gives the tasks of one filter of a table to the other, if its source takes filters."""
    table = load(spark, EXAMPLES)
    counted = {row.topic: row["count"] for row in table.groupBy("topic").count().collect()}
    names = sorted(counted)[:2]
    both = table.where(f"topic = '{names[0]}'").union(table.where(f"topic = '{names[1]}'"))
    assert {row.topic: row["count"] for row in both.groupBy("topic").count().collect()} == {
        name: counted[name] for name in names
    }


def test_registering_leaves_the_session_as_it_was(spark: SparkSession) -> None:
    register(spark)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"


def test_options_choose_offsets(spark: SparkSession, logs: LogDirectory) -> None:
    found = load(spark, logs.write(), assign='{"orders":[3]}', startingOffsets='{"orders":{"3":3}}')
    assert [row.offset for row in found.collect()] == [3]


def test_isolation_levels_and_the_states_of_transactions(spark: SparkSession, logs: LogDirectory) -> None:
    path = logs.write()
    assert [row.offset for row in load(spark, path, isolationLevel="read_committed").collect()] == [3]
    states = load(spark, path, columns="offset, control, transaction", isolationLevel="READ_UNCOMMITTED").collect()
    assert [tuple(row) for row in states] == [(0, None, "aborted"), (1, None, "aborted"), (3, None, "none")]
    with pytest.raises(
        PySparkException, match="isolationLevel is read_uncommitted or read_committed, not serializable"
    ):
        load(spark, path, isolationLevel="serializable").count()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", ["one", "all"])
def test_a_table_and_a_stream_have_the_records_of_a_java_consumer(
    spark: SparkSession, tmp_path: Path, level: str, replicas: str
) -> None:
    """Of all recorded clusters at once; of each partition one replica, or each of them."""
    register(spark)
    folder = str(unpacked("isolation-levels"))
    columns = ("file", "topic", "offset", "cast(key as string)", "cast(value as string)", "error")
    query = (
        spark.readStream.format("kafka_segment")
        .options(isolationLevel=level, replicas=replicas)
        .load(folder)
        .selectExpr(*columns)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    expected = [
        (str(one) if replicas == "all" else one.release, topic, *record)
        for one in REPLICAS
        for topic, records in one.records(level).items()
        for record in records
        if replicas == "all" or one.node == 1  # which has all topics
    ]
    loaded = load(spark, folder, isolationLevel=level, replicas=replicas)
    for table in (loaded, spark.read.parquet(str(tmp_path / "out"))):
        found = []
        for file, topic, offset, key, value, error in table.selectExpr(*columns).collect():
            assert error is None
            release, node = Path(file).parts[-4:-2]
            of = f"{release}-{node.removeprefix('node-')}" if replicas == "all" else release
            found.append((of, topic, offset, key, value))
        assert sorted(found) == sorted(expected)


def test_unknown_options_are_refused(spark: SparkSession, logs: LogDirectory) -> None:
    path = logs.write()
    with pytest.raises(PySparkException, match="rows is records, batches or headers, not pages"):
        load(spark, path, rows="pages").count()
    with pytest.raises(PySparkException, match="mode is PERMISSIVE or FAILFAST, not CARELESS"):
        load(spark, path, mode="careless").count()
    with pytest.raises(PySparkException, match="kafka_segment has no option filterpushdown; the options are assign,"):
        load(spark, path, filterPushdown="true")
    with pytest.raises(PySparkException, match="a batch of kafka_segment has no option highwatermark"):
        load(spark, path, highWatermark="true").count()
    stream = spark.readStream.format("kafka_segment").option("endingOffsets", "latest").load(str(path))
    with pytest.raises(PySparkException, match="a stream of kafka_segment has no option endingoffsets"):
        stream.writeStream.format("noop").start().awaitTermination()


def test_a_schema_chooses_columns_and_types(spark: SparkSession, logs: LogDirectory) -> None:
    path = logs.write()
    register(spark)
    source = spark.read.format("kafka_segment")
    found = source.schema("timestamp timestamp, Offset long, key string").load(path)
    assert [row.timestamp for row in found.where("Offset = 0").collect()] == [datetime.fromtimestamp(NOON / 1000)]
    assert found.count() == 4
    with pytest.raises(PySparkException, match="no column producerId: the columns are file, topic, "):
        source.schema("producerId long").load(path).count()
    with pytest.raises(PySparkException, match="column offset may be null"):
        source.schema("offset long NOT NULL").load(path).count()
    assert load(spark, path, columns="Offset, topic").columns == ["offset", "topic"]


def test_names_match_exactly_in_a_case_sensitive_session(spark: SparkSession, logs: LogDirectory) -> None:
    path = logs.write()
    try:
        spark.conf.set("spark.sql.caseSensitive", "true")
        register(spark)
        source = spark.read.format("kafka_segment")
        assert source.schema("offset long").load(path).count() == 4
        with pytest.raises(PySparkException, match="no column Offset"):
            source.schema("Offset long").load(path).count()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        register(spark)


#: `KafkaRecordToRowConverter.kafkaSchema` of spark-sql-kafka, with `includeHeaders`.
LIVE = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def test_copied_logs_unite_with_live_ones(spark: SparkSession, logs: LogDirectory) -> None:
    row = (b"k", b"v", "orders", 3, 9, datetime(2026, 1, 1), 0, None)
    live = spark.createDataFrame([row], LIVE)
    copied = load(spark, logs.write(), format="kafka")
    assert copied.schema == live.schema
    united = live.union(copied)
    assert united.schema == live.schema
    assert [row.offset for row in united.orderBy("offset").collect()] == [0, 1, 3, 9]


def test_spark_passes_no_columns_to_a_source_in_python(spark: SparkSession, tmp_path: Path) -> None:
    """As documented: the day this fails, the rule of `query_columns`, which only its own source has, is not needed."""
    noted = tmp_path / "asked"

    class Recorder(KafkaSegment):
        @classmethod
        def name(cls) -> str:
            return "kafka_segment_recorded"

        def reader(self, schema: StructType) -> Any:
            noted.write_text(",".join(schema.names))
            return super().reader(schema)

    spark.dataSource.register(Recorder)

    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka_segment_recorded").options(**options).load(str(EXAMPLES / "one-node"))

    table = read()
    assert table.count() > table.select("offset").where("offset < 3").count() > 0
    assert noted.read_text() == ",".join(table.columns)
    assert read(columns="offset").count() == table.count()
    noted.unlink()
    assert read(columns="offset").count() > 0
    assert noted.read_text() == "offset"


def test_views_in_sql(spark: SparkSession) -> None:
    register(spark)
    expected = load(spark, EXAMPLES, rows="batches").count()
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW batch_view USING kafka_segment OPTIONS (path '{EXAMPLES}', rows 'batches')"
    )
    assert spark.sql("SELECT count(*) AS n FROM batch_view").collect()[0].n == expected
    with pytest.raises(PySparkException, match=r"CREATE TEMPORARY VIEW \.\.\. USING kafka_segment OPTIONS"):
        spark.sql(f"CREATE TABLE segment_table USING kafka_segment OPTIONS (path '{EXAMPLES}')")
