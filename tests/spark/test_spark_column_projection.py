"""The columns that a query asks of a data source: names, types, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from kafkawire.records import Header, Record, build, build_marker
from kafkawire.spark.errors import SourceError
from kafkawire.spark.index_source import IndexReader
from kafkawire.spark.sources.capture_reader import CaptureReader
from kafkawire.spark.sources.column_projection import IN_UTC, projection, table_schema
from kafkawire.spark.sources.segment_columns import KAFKA, RECORDS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions

EXAMPLES = Path(__file__).parents[2] / "examples"
NOON = 1_790_000_000_123
AT_NOON = datetime.fromtimestamp(NOON / 1000, UTC)

LONG, INT, TIMESTAMP, STRING, BINARY = (
    types.LongType(),
    types.IntegerType(),
    types.TimestampType(),
    types.StringType(),
    types.BinaryType(),
)
PAIR = types.StructType([types.StructField("key", STRING), types.StructField("value", STRING)])


def asked(**columns: types.DataType) -> types.StructType:
    return types.StructType([types.StructField(name, type_) for name, type_ in columns.items()])


def projected(schema: types.StructType, table: pa.Schema = RECORDS, **options: Any) -> Any:
    return projection(schema, table, **{"case_sensitive": False, "fail_fast": False, **options})


def read(reader: type, path: object, schema: types.StructType, **options: str) -> list[dict[str, Any]]:
    found = reader(schema, SourceOptions({**options, "path": str(path)}))
    batches = [batch for task in found.partitions() for batch in found.read(task)]
    assert {batch.schema for batch in batches} == {to_arrow_schema(schema, **IN_UTC)}
    return [row for batch in batches for row in batch.to_pylist()]


def segment(folder: Path, *batches: bytes) -> Path:
    folder = folder / "orders-3"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def test_times_are_those_of_the_record(tmp_path: Path) -> None:
    path = segment(tmp_path, build([Record(b"k", b"v", timestamp=NOON)]))
    schema = asked(timestamp=TIMESTAMP)
    assert read(SegmentReader, path, schema) == read(SegmentReader, path, schema, rows="batches")
    assert read(SegmentReader, path, schema) == [{"timestamp": AT_NOON}]
    ntz = asked(timestamp=types.TimestampNTZType())
    assert read(SegmentReader, path, ntz) == [{"timestamp": AT_NOON.replace(tzinfo=None)}]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "options", "name", "unit"), [
    (IndexReader, {"kinds": "timeindex"}, "timestamp", 1000),
    (CaptureReader, {}, "time_ns", 10**9),
    (CaptureReader, {"rows": "frames"}, "time_ns", 10**9),
])  # fmt: skip
def test_times_of_indexes_and_captures(reader: Any, options: dict[str, str], name: str, unit: int) -> None:
    path = next((EXAMPLES / "capture").glob("*.pcap")) if reader is CaptureReader else EXAMPLES / "kafka-logs"
    numbers = [row[name] for row in read(reader, path, asked(**{name: LONG}), **options)]
    times = [row[name] for row in read(reader, path, asked(**{name: TIMESTAMP}), **options)]
    assert [time and int(time.timestamp()) for time in times] == [n and n // unit for n in numbers]
    assert any(times)


def test_names_match_in_any_case(tmp_path: Path) -> None:
    path = segment(tmp_path, build([Record(b"k", b"v")], base_offset=7, producer_id=5))
    assert read(SegmentReader, path, asked(Offset=LONG, PRODUCER_ID=LONG)) == [{"Offset": 7, "PRODUCER_ID": 5}]
    found = read(IndexReader, EXAMPLES / "kafka-logs", asked(KIND=STRING), kinds="snapshot")
    assert {row["KIND"] for row in found} == {"snapshot"}
    with pytest.raises(ValueError, match=r"no column Offset: the columns are file, topic, .*, error"):
        projected(asked(Offset=LONG), case_sensitive=True)
    projected(asked(offset=LONG), case_sensitive=True)


@pytest.mark.parametrize(("reader", "options", "columns"), [
    (SegmentReader, {}, "file, topic, partition, position, offset, .*, error, transaction"),
    (SegmentReader, {"format": "kafka"},
     "key, value, topic, partition, offset, timestamp, timestampType, headers, transaction"),
    (IndexReader, {"kinds": "epoch"}, "kind, file, topic, partition, position, epoch, start_offset"),
    (CaptureReader, {}, "time, time_ns, .*, request, response"),
])  # fmt: skip
def test_rejects_unknown_columns_with_the_list(reader: Any, options: dict[str, str], columns: str) -> None:
    with pytest.raises(ValueError, match=rf"^no column producerId: the columns are {columns}$"):
        reader(asked(producerId=LONG), SourceOptions(options))


def test_text_and_bytes_are_those_of_a_cast(tmp_path: Path) -> None:
    """CAST leaves bytes that are not UTF-8 as they are."""
    path = segment(tmp_path, build([Record(b"k", b"\xff", (Header("h", b"x"),))]))
    schema = asked(key=STRING, topic=BINARY, headers=types.ArrayType(PAIR))
    assert read(SegmentReader, path, schema) == [
        {"key": "k", "topic": b"orders", "headers": [{"key": "h", "value": "x"}]}
    ]
    (raw,) = SegmentReader(asked(value=STRING), SourceOptions({"path": str(path)})).partitions()
    (batch,) = SegmentReader(asked(value=STRING), SourceOptions({"path": str(path)})).read(raw)
    assert batch.column(0).cast(pa.binary()).to_pylist() == [b"\xff"]


def test_integers_become_wider_or_fail(tmp_path: Path) -> None:
    path = segment(tmp_path, build([Record(b"k", b"v")], base_offset=2**31))
    assert read(SegmentReader, path, asked(partition=LONG)) == [{"partition": 3}]
    assert read(SegmentReader, path, asked(partition=types.ShortType())) == [{"partition": 3}]
    with pytest.raises(SourceError, match="column offset: Integer value 2147483648 not in range"):
        read(SegmentReader, path, asked(offset=INT))


@pytest.mark.parametrize(("column", "wanted", "message"), [
    ("offset", TIMESTAMP, "column offset is bigint, not timestamp"),
    ("topic", INT, "column topic is string, not int"),
    ("offset", types.DoubleType(), "column offset is bigint, not double"),
    ("transactional", STRING, "column transactional is boolean, not string"),
    ("timestamp", types.DateType(), "column timestamp is bigint, not date"),
    ("headers", types.ArrayType(STRING), "column headers is array<struct<key:string,value:binary>>, not array<string>"),
])  # fmt: skip
def test_rejects_types_that_a_column_cannot_have(column: str, wanted: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        projected(asked(**{column: wanted}))
    assert str(caught.value) == message


def test_rejects_columns_that_must_not_be_null() -> None:
    """A row of damage has nulls, which Spark would read as 0."""
    with pytest.raises(ValueError, match="column offset may be null: the schema has to leave out NOT NULL"):
        projected(types.StructType([types.StructField("offset", LONG, nullable=False)]))
    pair = types.StructType([types.StructField("key", STRING), types.StructField("value", BINARY, nullable=False)])
    with pytest.raises(ValueError, match="column headers is"):
        projected(asked(headers=types.ArrayType(pair)))


def test_times_beyond_microseconds_are_null_or_fail(tmp_path: Path) -> None:
    times = [-1, 2**62, -(2**62), NOON]
    path = segment(tmp_path, *(build([Record(timestamp=at)], base_offset=i) for i, at in enumerate(times)))
    before = datetime.fromtimestamp(-0.001, UTC)
    assert [row["timestamp"] for row in read(SegmentReader, path, asked(timestamp=TIMESTAMP))] == [
        before, None, None, AT_NOON
    ]  # fmt: skip
    with pytest.raises(SourceError, match=r"column timestamp: .*out of bounds"):
        read(SegmentReader, path, asked(timestamp=TIMESTAMP), mode="FAILFAST")


def test_the_option_columns_chooses_and_orders() -> None:
    assert table_schema(RECORDS, ["Offset", "topic"], case_sensitive=False) == asked(offset=LONG, topic=STRING)
    with pytest.raises(ValueError, match="no column size: the columns are file, "):
        table_schema(RECORDS, ["size"], case_sensitive=False)


def test_only_the_columns_that_are_asked_for_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow read gathers no key, value or header. (Control batches are read whatever the columns: their damage is a
    row.)"""
    path = segment(tmp_path, build([Record(b"k", b"v")] * 9))
    monkeypatch.setattr("kafkawire.records.record_arrays.engine.gather", None)
    assert read(SegmentReader, path, asked(offset=LONG)) == [{"offset": offset} for offset in range(9)]
    with pytest.raises(TypeError):
        read(SegmentReader, path, asked(key=BINARY))


def test_the_kafka_format_has_the_rows_of_a_consumer(tmp_path: Path) -> None:
    """No control records, timestampType as a number, and null for no headers."""
    ids: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0}
    path = segment(
        tmp_path,
        build([Record(b"k", None, (Header("h", b"x"),), timestamp=NOON), Record(None, b"v", timestamp=NOON)], **ids),
        build_marker("COMMIT", offset=2, timestamp=5, coordinator_epoch=1, **ids),
        build([Record(b"k", b"v")], base_offset=3, append_time=NOON),
        build([Record(b"old", b"v", timestamp=-1)], magic=0, base_offset=4),
    )
    wanted = projected(from_arrow(KAFKA), KAFKA).target
    found = SegmentReader(from_arrow(KAFKA), SourceOptions({"path": str(path), "format": "kafka"}))
    table = pa.Table.from_batches([batch for task in found.partitions() for batch in found.read(task)])
    assert table.schema == wanted
    assert [tuple(row.values()) for row in table.sort_by("offset").to_pylist()] == [
        (b"k", None, "orders", 3, 0, AT_NOON, 0, [{"key": "h", "value": b"x"}]),
        (None, b"v", "orders", 3, 1, AT_NOON, 0, None),
        (b"k", b"v", "orders", 3, 3, AT_NOON, 1, None),
        (b"old", b"v", "orders", 3, 4, datetime.fromtimestamp(-0.001, UTC), -1, None),
    ]


def from_arrow(schema: pa.Schema) -> types.StructType:
    return table_schema(schema, schema.names, case_sensitive=False)


def test_damage_fails_the_kafka_format_unless_permitted(tmp_path: Path) -> None:
    path = segment(tmp_path, build([Record(b"k", b"v")]), b"no batch" * 10)
    with pytest.raises(SourceError, match="at byte 70: unknown_magic"):
        read(SegmentReader, path, from_arrow(KAFKA), format="kafka")
    rows = read(SegmentReader, path, from_arrow(KAFKA), format="kafka", mode="PERMISSIVE")
    assert [(row["topic"], row["offset"]) for row in rows] == [("orders", 0), ("orders", None)]
    with pytest.raises(ValueError, match="with format kafka, rows is records, not batches"):
        SegmentReader(from_arrow(KAFKA), SourceOptions({"format": "kafka", "rows": "batches"}))
