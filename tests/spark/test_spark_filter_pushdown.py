"""Filters of a query choose files at planning."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.records import Record, build
from kafkawire.spark import register
from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources.filter_pushdown import SETTING, Pruned, pruned
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_reader import PrunedSegmentReader
from kafkawire.spark.sources.source_base import SourceOptions
from tests.spark.growing_logs import GrowingLog
from tests.spark.test_spark_streams_of_changing_logs import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([EqualTo(("topic",), "t"), EqualTo(("partition",), 3)], Pruned(frozenset("t"), frozenset([3]))),
        ([In(("topic",), ("a", "b")), In(("Topic",), ("b", "c"))], Pruned(frozenset("b"))),
        ([GreaterThan(("offset",), 4), LessThan(("offset",), 9)], Pruned(first=5, end=9)),
        ([GreaterThanOrEqual(("offset",), 4), LessThanOrEqual(("offset",), 9)], Pruned(first=4, end=10)),
        ([In(("offset",), (7, 3))], Pruned(first=3, end=8)),
        ([GreaterThan(("timestamp",), 99)], Pruned(since=99)),
        ([GreaterThan(("timestamp",), datetime(1970, 1, 1, 0, 1, tzinfo=UTC))], Pruned(since=59_999)),
        ([Not(EqualTo(("topic",), "t")), EqualTo(("value", "topic"), "t"), EqualTo(("offset",), "4")], Pruned()),
    ],
)
def test_what_filters_ask_for(filters: list[Any], wanted: Pruned) -> None:
    assert pruned(filters, case_sensitive=False) == wanted


@pytest.fixture
def restored(spark: SparkSession) -> Iterator[None]:
    """The setting, which other tests share."""
    yield
    spark.conf.unset(SETTING)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two topics of two partitions, three segments each, a second apart."""
    for topic in ("a", "b"):
        for partition in range(2):
            folder = tmp_path / "logs" / f"{topic}-{partition}"
            folder.mkdir(parents=True)
            for base in (0, 5, 10):
                data = build([Record(b"k", b"v", timestamp=1000 * base)] * 5, base_offset=base)
                (folder / f"{base:020}.log").write_bytes(data)
    return tmp_path / "logs"


def test_files_without_such_rows_are_not_read(logs: Path) -> None:
    def files(*filters: Any) -> list[str]:
        reader = PrunedSegmentReader(from_arrow_schema(RECORDS), SourceOptions({"path": str(logs)}))
        assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark evaluates them again
        return ["/".join(Path(item.file.path).parts[-2:]) for item in reader.items()]

    assert len(files()) == 12
    assert files(EqualTo(("topic",), "b"), EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 7)) == [
        f"b-1/{5:020}.log",
        f"b-1/{10:020}.log",
    ]
    assert files(EqualTo(("topic",), "c")) == []
    assert files(LessThan(("offset",), 5), In(("topic",), ("a",))) == [f"a-{one}/{0:020}.log" for one in range(2)]


@pytest.mark.usefixtures("restored")
def test_a_query_does_not_touch_other_files(spark: SparkSession, logs: Path) -> None:
    (logs / "a-0" / f"{0:020}.log").write_bytes(b"\xff" * 100)
    register(spark, push_filters=True)
    table = spark.read.format("kafka_segment").option("mode", "FAILFAST").load(str(logs))
    found = table.where("topic = 'a' AND partition = 0 AND offset >= 6")
    assert sorted(row.offset for row in found.collect()) == list(range(6, 15))
    with pytest.raises(PySparkException, match=r"a-0/00000000000000000000\.log"):
        table.where("topic = 'a'").collect()
    register(spark)
    with pytest.raises(PySparkException, match=r"a-0/00000000000000000000\.log"):
        spark.read.format("kafka_segment").option("mode", "FAILFAST").load(str(logs)).where("topic = 'b'").collect()


def test_lost_records_fail_a_query_where_that_is_asked_for(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "logs", Random(1))
    queries = {
        "row": Query(log.root, Random(1), failOnDataLoss="false"),
        "error": Query(log.root, Random(1), failOnDataLoss="true"),
        "warning": Query(log.root, Random(1), failOnDataLoss="false", mode="FAILFAST"),
    }
    for query in queries.values():
        query.trigger()
    while log.end < 30:
        log.append()
    log.start = 20
    log._write_start()
    queries["row"].trigger()
    assert queries["row"].errors == ["out_of_range: offsets 0 to 19 were removed before they were read"]
    with pytest.raises(SourceError, match="offsets 0 to 19 were removed"):
        queries["error"].trigger()
    with pytest.warns(RuntimeWarning, match="offsets 0 to 19 were removed"):
        queries["warning"].trigger()
    assert queries["warning"].got == queries["row"].got == [one.value for one in log.records]


def test_the_newest_offset_is_reported(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "logs", Random(1))
    while log.end < 10:
        log.append()
    query = Query(log.root, Random(1), maxOffsetsPerTrigger="2")
    assert query.stream.reportLatestOffset() is None
    query.trigger()
    (newest,) = query.stream.reportLatestOffset()["logs"].values()  # type: ignore[index]
    (read,) = query.offset["logs"].values()
    (at,), (until,) = (next(iter(one["t"].values())).values() for one in (read, newest))
    assert until[0] == log.end > at[0]
