"""`kafkawire schema emit vectors` and `kafkawire conformance`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from kafkawire import records
from tests import own_schemas
from tests.cli.runner import Run

CODEC = Path(__file__).parents[1] / "vectors" / "own_codec.py"


@pytest.mark.slow
def test_files(run: Run, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        result = run("schema", "emit", "vectors", "-o", tmp_path / folder)
        assert result.code == 0, result.err
    for name in ("messages.jsonl", "refusals.jsonl", "batches.jsonl", "README.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).stat().st_size < 5 << 20
    for line in (tmp_path / "a" / "batches.jsonl").read_text().splitlines():
        row = json.loads(line)
        found = []
        for batch in records.read(bytes.fromhex(row["bytes"])):
            assert isinstance(batch, records.Batch)
            found += batch.records

        def data(text: str | None) -> bytes | None:
            return None if text is None else bytes.fromhex(text)

        assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == [
            (one["offset"], one["timestamp"], data(one["key"]), data(one["value"])) for one in row["records"]
        ]


def test_own_schemas(run: Run, tmp_path: Path) -> None:
    schemas = own_schemas.write(tmp_path / "schemas")
    result = run("schema", "emit", "vectors", "--schemas", schemas, "-o", tmp_path / "out")
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in (tmp_path / "out" / "messages.jsonl").read_text().splitlines()]
    assert {(row["message"], row["version"]) for row in rows} == {
        (name, version) for name in ("PingRequest", "PingResponse") for version in (0, 1)
    }


@pytest.mark.slow
def test_command(run: Run, tmp_path: Path) -> None:
    result = run("conformance", "--", sys.executable, CODEC, "accepts-more-bytes")
    assert result.code == 3
    assert "HeartbeatRequest version 0: " in result.text
    assert "decode a byte more: accepted" in result.text
    assert re.fullmatch(r"note: \d+ passed, [1-9]\d* failed, \d+ unsupported\n", result.err)
    assert run("conformance", "--", tmp_path / "none").code == 1
