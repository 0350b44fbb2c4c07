"""Hypothesis strategies of records and batches, and the bytes that several tests share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kafkawire.records import CODECS, Header, Record

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMESTAMPS = st.integers(-1, 1 << 42) | INT64
DATA = st.none() | st.binary(max_size=200)

headers = st.lists(st.builds(Header, st.text("aé€😀\0", max_size=10), DATA), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn, base_offset: int) -> list[Record]:
    """Records at ascending offsets, some missing as after compaction."""
    steps = draw(st.lists(st.integers(1, 300), max_size=6))
    offset = base_offset - 1
    out = []
    for step in steps:
        offset += step
        out.append(Record(draw(DATA), draw(DATA), draw(headers), offset, draw(TIMESTAMPS)))
    return out


@st.composite
def builds(draw: st.DrawFn) -> tuple[list[Record], dict[str, object]]:
    """Records, and what `build` takes beside them."""
    base_offset = draw(st.integers(0, 1 << 50))
    listed = draw(records(base_offset))
    least = listed[-1].offset if listed else base_offset
    return listed, {
        "base_offset": base_offset,
        "last_offset": draw(st.integers(least, base_offset + (1 << 31) - 1)),
        "append_time": draw(st.none() | TIMESTAMPS),
        "codec": draw(st.sampled_from(CODECS)),
        "producer_id": draw(INT64),
        "producer_epoch": draw(INT16),
        "base_sequence": draw(st.integers(-1, (1 << 31) - 1)),
        "partition_leader_epoch": draw(st.integers(-1, (1 << 31) - 1)),
        "transactional": draw(st.booleans()),
        "delete_horizon": draw(st.none() | st.integers(0, 1 << 42)),
    }


@st.composite
def legacy_builds(draw: st.DrawFn) -> tuple[list[Record], dict[str, Any]]:
    """Records that fit magic 0 or 1, at least one, and what `build` takes beside them."""
    magic = draw(st.sampled_from((0, 1)))
    base_offset = draw(st.integers(0, 1 << 50))
    listed = [
        Record(r.key, r.value, (), r.offset, draw(st.integers(-1, 1 << 42)) if magic else -1)
        for r in draw(records(base_offset).filter(bool))
    ]
    return listed, {
        "magic": magic,
        "base_offset": base_offset,
        "append_time": draw(st.none() | st.integers(0, 1 << 42)) if magic else None,
        "codec": draw(st.sampled_from(CODECS[:4])),
    }
