"""The layouts declared with construct, and NumPy's reading of the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from construct import Array
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import entry_layouts
from kafkawire.messages import AbortedTxn, ProducerSnapshot

ENTRIES = {
    "OFFSET_ENTRY": 8,
    "TIME_ENTRY": 12,
    "ABORTED_ENTRY": 34,
    "SNAPSHOT_HEAD": 10,
    "PRODUCER_ENTRY": 46,
}


@pytest.mark.parametrize("name", ENTRIES)
@given(data=st.data())
def test_construct_and_numpy_read_the_same(name: str, data: Any) -> None:
    layout = getattr(entry_layouts, name)
    kind = entry_layouts.dtype_of(layout)
    assert kind.itemsize == layout.sizeof() == ENTRIES[name]
    count = data.draw(st.integers(0, 5))
    raw = data.draw(st.binary(min_size=count * kind.itemsize, max_size=count * kind.itemsize))
    parsed = Array(count, layout).parse(raw)
    read = np.frombuffer(raw, kind)
    assert [tuple(entry[field] for field in kind.names or ()) for entry in parsed] == read.tolist()
    assert b"".join(map(layout.build, parsed)) == read.tobytes() == raw


def test_layouts_equal_kafkas_schemas() -> None:
    entry = ProducerSnapshot.spec.field("ProducerEntries").struct
    assert [field.name for field in entry_layouts.PRODUCER_ENTRY.subcons] == [
        field.attribute for field in entry.spec.fields
    ]
    names = [field.name for field in entry_layouts.ABORTED_ENTRY.subcons]
    assert names == ["version", *(field.attribute for field in AbortedTxn.spec.fields)]


@given(st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1)] * 4))
def test_aborted_entries_equal_the_codecs_bytes(numbers: tuple[int, ...]) -> None:
    names = [field.attribute for field in AbortedTxn.spec.fields]
    values = dict(zip(names, numbers, strict=True))
    assert entry_layouts.ABORTED_ENTRY.build({"version": 0, **values}) == AbortedTxn(**values).encode_prefixed(0)
