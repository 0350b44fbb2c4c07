"""Both engines behind columns: what lies at spans, as Arrow has it, and what they refuse."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.rows import text_or_base64
from kafkawire.wire.backend import native
from tests.records.record_bytes import FIRST


def test_gather_refuses_what_lies_outside(engine: Any) -> None:
    data = np.arange(10, dtype=np.uint8)
    for start, length in ((8, 3), (-1, 2), (2**62, 1)):
        with pytest.raises(ValueError, match="outside"):
            engine.gather(data, np.array([start], np.int64), np.array([length], np.int32))
    offsets, content = engine.gather(data, np.array([3, 99, 0], np.int64), np.array([2, -1, 0], np.int32))
    assert (offsets.tolist(), content.tolist()) == ([0, 2, 2, 2], [3, 4])


NATIVE = pytest.mark.skipif(native is None, reason="the native engine is not installed")


@NATIVE
@given(values=st.lists(st.none() | st.text(max_size=5).map(str.encode) | st.binary(max_size=5), max_size=8))
def test_texts_and_base64(values: list[bytes | None]) -> None:
    data = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int32)
    ends = np.cumsum(np.maximum(lengths, 0), dtype=np.int64)
    starts = ends - np.maximum(lengths, 0)
    assert native.texts(data, starts, lengths).tolist() == [
        value is not None and text_or_base64(value)[0] is not None for value in values
    ]
    offsets, content = native.gather_base64(data, starts, lengths)
    cells = [bytes(content[a:b]) for a, b in pairwise(offsets.tolist())]
    assert cells == [b64encode(value or b"") for value in values]


@NATIVE
def test_texts_and_base64_refuse_what_lies_outside() -> None:
    data = np.zeros(4, np.uint8)
    for start, length in ((-1, 1), (3, 2), (1 << 40, 1)):
        for find in (native.texts, native.gather_base64):
            with pytest.raises(ValueError, match="outside"):
                find(data, np.array([start], np.int64), np.array([length], np.int32))


def test_more_than_a_column_of_arrow_holds_is_refused_before_it_is_gathered(engine: Any) -> None:
    data = np.zeros(1 << 20, np.uint8)
    starts, lengths = np.zeros(1 << 11, np.int64), np.full(1 << 11, 1 << 20, np.int32)
    tracemalloc.start()
    for find in {engine.gather, getattr(engine, "gather_base64", engine.gather)}:
        with pytest.raises(ValueError, match="too many bytes"):
            find(data, starts, lengths)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@NATIVE
def test_rejects_positions_that_are_no_batches() -> None:
    """The engine checks all of its arguments."""
    data = np.frombuffer(FIRST, np.uint8)
    for position in (5, -1, 10**12):
        found = native.record_columns(data, np.array([position], np.int64), 0, 1 << 20, 1 << 20)
        assert found[3:] == (0, True)
