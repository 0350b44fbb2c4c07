"""Columns of records as Arrow."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.records import Header, Record, build, build_marker, columns


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
