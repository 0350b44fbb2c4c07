"""The layouts declared with construct, and NumPy's reading of the same bytes."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from construct import Array
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import entry_layouts
from kafkawire.messages import AbortedTxn, ProducerSnapshot
from kafkawire.records import header

PAGE = Path(__file__).parents[2] / "docs/file-formats.md"
ROW = re.compile(r"^\| (\w+) \| (u?int\d+) \|", re.MULTILINE)

ENTRIES = {
    "OFFSET_ENTRY": 8,
    "TIME_ENTRY": 12,
    "ABORTED_ENTRY": 34,
    "SNAPSHOT_HEAD": 10,
    "PRODUCER_ENTRY": 46,
}


@pytest.mark.parametrize("name", ENTRIES)
@given(data=st.data())
def test_construct_struct_and_numpy_read_the_same(name: str, data: Any) -> None:
    layout = getattr(entry_layouts, name)
    kind = entry_layouts.dtype_of(layout)
    assert kind.itemsize == layout.sizeof() == ENTRIES[name]
    count = data.draw(st.integers(0, 5))
    raw = data.draw(st.binary(min_size=count * kind.itemsize, max_size=count * kind.itemsize))
    parsed = Array(count, layout).parse(raw)
    read = np.frombuffer(raw, kind)
    assert [tuple(entry[field] for field in kind.names or ()) for entry in parsed] == read.tolist()
    assert list(entry_layouts.struct_of(layout).iter_unpack(raw)) == read.tolist()
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


@pytest.mark.parametrize(
    ("section", "layouts"),
    [
        ("Offset index", ["OFFSET_ENTRY"]),
        ("Time index", ["TIME_ENTRY"]),
        ("Index of aborted transactions", ["ABORTED_ENTRY"]),
        ("Snapshot of producers", ["SNAPSHOT_HEAD", "PRODUCER_ENTRY"]),
    ],
)
def test_docs_state_these_layouts(section: str, layouts: list[str]) -> None:
    text = PAGE.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    kinds = {"h": "int16", "i": "int32", "l": "int32", "q": "int64", "I": "uint32", "L": "uint32"}
    fields = [field for name in layouts for field in getattr(entry_layouts, name).subcons]
    stated = [("_".join(re.findall("[A-Za-z][a-z]*", name)).lower(), kind) for name, kind in ROW.findall(text)]
    assert [(field.name.removeprefix("log_"), kinds[field.subcon.fmtstr[-1]]) for field in fields] == stated
    assert int(re.findall(r"(\d+) bytes", text)[-1]) == ENTRIES[layouts[-1]]


def test_docs_state_the_header_of_a_batch() -> None:
    text = PAGE.read_text("utf-8").split("\n## Segment\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| \w+ \| (u?int\d+) \|", text, re.MULTILINE)
    codes = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint32": "I"}
    layout = ">" + "".join(codes[kind] for _, kind in rows)
    assert layout == header.HEADER.format
    assert [int(offset) for offset, _ in rows] == [struct.calcsize(layout[: at + 1]) for at in range(len(rows))]
    assert f"begins with {header.HEADER.size} bytes" in text
