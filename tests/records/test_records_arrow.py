"""Columns of records as Arrow."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.records import Batch, Header, Record, build, build_marker, columns, read


def test_arrow(engine: Any) -> None:
    pytest.importorskip("pyarrow")
    listed = [Record(b"a", None, (Header("h", None), Header("i", b"j"))), Record(None, b""), Record(b"", b"\xff" * 9)]
    data = build(listed, base_offset=7, codec="zstd", producer_id=5, producer_epoch=1, base_sequence=0)
    data += build_marker("COMMIT", offset=10, timestamp=5, producer_id=5, producer_epoch=1, coordinator_epoch=0)
    (part,) = columns.read(data)
    assert isinstance(part, columns.Records)
    table = part.to_arrow()
    table.validate(full=True)
    assert table.column("key").to_pylist() == [b"a", None, b"", b"\0\0\0\1"]
    assert table.column("value").to_pylist()[:3] == [None, b"", b"\xff" * 9]
    assert table.column("headers").to_pylist()[0] == [{"key": b"h", "value": None}, {"key": b"i", "value": b"j"}]
    assert table.column("sequence").to_pylist() == [0, 1, 2, -1]
    assert table.column("control").to_pylist() == [False, False, False, True]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8])
def test_every_column_is_that_of_the_records(engine: Any, count: int) -> None:
    pytest.importorskip("pyarrow")
    listed = [
        Record(b"k%d" % i, b"v%d" % i, (Header("h", b"%d" % i),) * (i % 3), timestamp=1000 + i) for i in range(count)
    ]
    data = build(
        listed, base_offset=70, last_offset=70 + count, producer_id=1 << 40, producer_epoch=3, base_sequence=9,
        partition_leader_epoch=6, transactional=True,
    )  # fmt: skip
    data += build_marker("ABORT", offset=90, timestamp=5, producer_id=8, producer_epoch=4, coordinator_epoch=0)
    found = [part.to_arrow() for part in columns.read(data) if isinstance(part, columns.Records)]
    assert [row for part in found for row in part.to_pylist()] == [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "leader_epoch": batch.partition_leader_epoch,
            "transactional": batch.transactional,
            "control": batch.is_control,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": header.key.encode(), "value": header.value} for header in record.headers],
        }
        for batch in read(data)
        if isinstance(batch, Batch)
        for record in batch.records
    ]


def test_only_keys_and_values_may_be_null(engine: Any) -> None:
    pytest.importorskip("pyarrow")
    (part,) = columns.read(build([Record()]))
    assert isinstance(part, columns.Records)
    schema = part.to_arrow().schema
    assert [field.name for field in schema if field.nullable] == ["key", "value"]
    header = schema.field("headers").type.value_type
    assert [field.name for field in header if field.nullable] == ["value"]
