"""Rows of several classes in one table come back as they were, each in its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kafkawire.spark.session import typed_table
from kafkawire.spark.session.typed_table import Int8, Int32, TypedTable, only, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Note(NamedTuple):
    place: bytes
    text: str
    size: int | None = None


class Mark(NamedTuple):
    place: bytes
    level: Int8
    number: Int32 | None = None
    last: bool = False


TABLE = TypedTable(Note, Mark)
NOTES = st.builds(Note, st.binary(), st.text(), st.none() | st.integers(-(1 << 63), (1 << 63) - 1))
MARKS = st.builds(
    Mark, st.binary(), st.integers(-128, 127), st.none() | st.integers(-(1 << 31), (1 << 31) - 1), st.booleans()
)


def test_columns_are_those_of_all_classes() -> None:
    assert TABLE.spark.simpleString() == (
        "struct<type:string,place:binary,text:string,size:bigint,level:tinyint,number:int,last:boolean>"
    )


@given(st.lists(NOTES), st.lists(MARKS), st.integers(1, 3))
def test_rows_are_read_as_they_were_written(notes: list[Note], marks: list[Mark], together: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_table, "_ROWS", together)
        batches = [*TABLE.batches(Note, notes), *TABLE.batches(Mark, iter(marks))]
    assert all(len(batch) <= together for batch in batches)
    table = pa.Table.from_batches(batches, TABLE.arrow).to_pylist()
    for kind, written in ((Note, notes), (Mark, marks)):
        names = schema_of(kind).names
        assert [kind(*map(row.get, names)) for row in table if row["type"] == kind.__name__] == written
        others = [name for name in TABLE.arrow.names if name not in names and name != "type"]
        assert all(row[name] is None for row in table if row["type"] == kind.__name__ for name in others)


@pytest.mark.spark
def test_each_class_has_its_own_rows_and_columns(spark: SparkSession) -> None:
    notes: list[tuple[Any, ...]] = [Note(b"a", "x", 1), Note(b"b", "y")]
    marks: list[tuple[Any, ...]] = [Mark(b"c", 3, last=True)]
    batches = [*TABLE.batches(Note, notes), *TABLE.batches(Mark, marks)]
    frame = spark.createDataFrame(pa.Table.from_batches(batches), TABLE.spark)
    for kind, written in ((Note, notes), (Mark, marks)):
        found = only(frame, kind)
        assert (tuple(found.columns), [tuple(row) for row in found.collect()]) == (kind._fields, written)


def test_a_name_of_two_types_is_refused() -> None:
    class Other(NamedTuple):
        place: str

    with pytest.raises(pa.ArrowTypeError, match="place"):
        TypedTable(Note, Other)


def test_a_row_without_a_value_for_each_field_is_refused() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer than argument 1"):
        list(TABLE.batches(Note, [(b"a", "x")]))
