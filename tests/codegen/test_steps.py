"""What the compiler does about structs that could cost far more memory than bytes."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

import kafkawire
from kafkawire.errors import DecodeError
from kafkawire.wire.message import Message
from tests.engines import round_trip


@pytest.fixture
def wide(tmp_path: Path) -> type[Message]:
    """A message whose elements take 1 byte in version 0, and 40 slots in memory."""
    schema = {
        "name": "Wide",
        "type": "data",
        "validVersions": "0-1",
        "flexibleVersions": "0+",
        "fields": [
            {"name": "Rows", "type": "[]Row", "versions": "0+", "fields": [
                {"name": f"Column{i}", "type": "int64", "versions": "1+"} for i in range(40)]},
        ],
    }  # fmt: skip
    (tmp_path / "Wide.json").write_text(json.dumps(schema))
    return kafkawire.load_schemas(tmp_path).Wide


def test_guarded_versions_go_through_the_interpreter(wide: type[Message]) -> None:
    assert wide.codec.decoders[0] is None
    assert wide.codec.decoders[1] is not None
    row = wide.spec.fields[0].struct
    message = wide(rows=(row(), row()))
    for version in (0, 1):
        round_trip(message, version, message)


def test_a_bomb_of_wide_rows_is_refused_before_it_is_built(wide: type[Message]) -> None:
    size = 1_000_000
    bomb = b"\xc1\x84\x3d" + bytes(size) + b"\0"  # 1,000,000 rows of one byte
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            wide.decode(bomb, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.path == "rows"
    assert "allocation limit" in caught.value.expected
    assert peak < 64 * size + 65536
