"""Rows of workers: their Spark types are those of their Arrow schemas, and any record of a log has its rows."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.auditing import outcome_rows
from kafkawire.spark.lake import lake_parts
from kafkawire.spark.listing import fleet_listing
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.checks.timed_decisions import CLOCK_SKEW_MS
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import packed
from tests.audit_logs import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

EARLIEST = -(1 << 63)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            outcome_rows.FACTS.spark,
            "type:string,payload:binary,place:binary,label:binary,order:binary,partition:binary,offset:bigint,"
            "cluster:int,producer_id:bigint,data_epoch:int,timestamp:bigint,kind:tinyint,counts:boolean,"
            "first_offset:bigint,last_offset:bigint,first_timestamp:bigint,last_timestamp:bigint,batches:int,"
            "marker_epoch:int,coordinator_epoch:int,outcome:tinyint",
        ),
        (outcome_rows.FOUND.spark, "type:string,payload:binary,place:binary,label:binary,order:binary"),
        (
            fleet_listing.LISTED,
            "kind:string,argument:int,sort:binary,payload:binary,real:binary,partition:binary,store:string,path:binary,"
            "names:binary,sizes:binary,bytes:bigint,tiers:binary",
        ),
        (from_arrow_schema(lake_parts._PARTS), "partition:binary,base:bigint,number:int,payload:binary"),
        (
            from_arrow_schema(lake_parts._DECIDED),
            "kind:int,topic:string,partition:int,start:bigint,end:bigint,bytes:bigint,held:string,"
            "topic_id:string,epoch:int,payload:binary",
        ),
    ],
)
def test_rows_have_the_types_of_spark_s_own_names_and_may_be_null(schema: StructType, expected: str) -> None:
    assert schema.simpleString() == f"struct<{expected}>"
    assert all(field.nullable for field in schema)


@pytest.mark.parametrize(
    ("since", "version", "begins"),
    [
        (EARLIEST, 0, None),
        (EARLIEST + CLOCK_SKEW_MS - 1, 0, None),
        (EARLIEST + CLOCK_SKEW_MS, 0, EARLIEST),
        ((1 << 63) - 1, 0, (1 << 63) - 1 - CLOCK_SKEW_MS),
        (0, 2, None),  # at any time
    ],
)
def test_a_decision_of_any_time_has_a_row(since: int, version: int, begins: int | None) -> None:
    place = Place("logs", "__transaction_state", 0)
    decision = Decision(
        transactional_id="a", place=place, offset=1, producer_id=7, lowest_epoch=0, highest_epoch=0, marker_epoch=0,
        outcome="COMMIT", version=version, partitions=None, since=since, until=None,
    )  # fmt: skip
    (batch,) = outcome_rows.decision_rows(0, place, [decision], count())
    assert batch["timestamp"].to_pylist() == [begins]


@pytest.mark.spark
def test_an_ended_transaction_is_as_it_was_packed(spark: SparkSession) -> None:
    chunk = packed(
        [(7, 5, NOON, 2, 1, 1, 0, 4, NOON - 9, NOON - 1, 3, 6), (8, 9, NOON, 6, 0, 0, 1, 8, NOON, NOON, 1, 2)]
    )
    place = Place("logs", "orders", 0)
    cells = spark.createDataFrame(pa.Table.from_batches(outcome_rows.ending_rows(1, place, [chunk])))
    of_place = outcome_rows.packed(place)
    found = outcome_rows.one_a_row(only(cells, outcome_rows.EndedCell)).orderBy("producer_id").collect()
    assert [outcome_rows.Transaction(*row) for row in found] == [
        outcome_rows.Transaction(1, of_place, 7, 1, 2, 4, NOON - 9, NOON - 1, 3, 5, NOON, 1, 6, 0),
        outcome_rows.Transaction(1, of_place, 8, 0, 6, 8, NOON, NOON, 1, 9, NOON, 0, 2, 1),
    ]
