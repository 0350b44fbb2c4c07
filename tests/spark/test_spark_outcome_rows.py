"""Rows of workers: their Spark types are those of their Arrow schemas, and any record of a log has its rows."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.auditing import audit_tables, outcome_rows
from kafkawire.spark.lake import lake_parts
from kafkawire.spark.listing import fleet_listing
from kafkawire.transactions.checks.timed_decisions import CLOCK_SKEW_MS
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

EARLIEST = -(1 << 63)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            outcome_rows.SPARK_SCHEMA,
            "kind:tinyint,cluster:int,producer_id:bigint,place:binary,offset:bigint,data_epoch:int,marker_epoch:int,"
            "outcome:tinyint,timestamp:bigint,payload:binary,first_offset:bigint,last_offset:bigint,"
            "first_timestamp:bigint,last_timestamp:bigint,batches:int,coordinator_epoch:int,replica:binary",
        ),
        (audit_tables.FOUND_SPARK, "kind:tinyint,place:binary,payload:binary,replica:binary"),
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
