"""`limits`: written once, and handed to the native engine when it is compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.wire import backend, limits

NAMES = {"MAX_STRING", "MAX_TAGS", "MAX_DEPTH", "ALLOCATION_FACTOR", "ALLOCATION_BASE"}


def test_limits_are_those_of_kafka_and_of_the_promise() -> None:
    assert (limits.MAX_STRING, limits.MAX_TAGS, limits.MAX_DEPTH) == (32767, 10000, 32)
    assert (limits.ALLOCATION_FACTOR, limits.ALLOCATION_BASE) == (64, 65536)


def test_native_engine_reads_every_limit_from_the_python_source() -> None:
    source = Path(limits.__file__).read_text("utf-8")
    assert set(re.findall(r"^([A-Z_]+) = [0-9]+$", source, re.M)) == NAMES
    native = Path(__file__).parents[2] / "native" / "src"
    assert set(re.findall(r'limit\(b"\\n([A-Z_]+) = "\)', (native / "limits.rs").read_text("utf-8"))) == NAMES
    again = re.compile(rf"const ({'|'.join(NAMES)})\b")
    assert [path.name for path in native.rglob("*.rs") if again.search(path.read_text("utf-8"))] == ["limits.rs"]


@pytest.mark.skipif(backend.native is None, reason="the native engine does not run")
def test_native_engine_exports_the_limits_that_it_was_built_with() -> None:
    assert backend.native is not None
    assert Path(limits.__file__).read_bytes() == backend.native.LIMITS
