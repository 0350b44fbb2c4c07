"""Where a batch could begin: native and pure Python find what the same rules give, position by position."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.records import Record, build, find_batch
from kafkawire.records.candidates import REACH, candidates, search
from kafkawire.testing.strategies import batches
from tests.records.record_bytes import FIRST, SECOND, fixed, message

WRAPPER = build([Record(offset=3)], magic=1, codec="gzip", base_offset=3)
LIMIT = 1 << 20


def sane(data: bytes, at: int, longest: int) -> int | None:
    """The size of the batch whose header begins at `at`; None where a field of it could be no batch's."""
    head = data[at : at + REACH].ljust(REACH, b"\0")
    offset, length, _, magic = struct.unpack_from(">qiib", head)
    size = length + 12
    if not 0 <= offset < (1 << 63) - (1 << 32) or not 0 <= magic <= 2 or size > min(longest, len(data) - at):
        return None
    if magic == 2:
        epoch, (attributes, delta), count = (
            *struct.unpack_from(">i", head, 12),
            struct.unpack_from(">Hi", head, 21),
            *struct.unpack_from(">i", head, 57),
        )
        whole = size >= 61 and epoch >= -1 and attributes < 0x80 and attributes % 8 < 5
        return size if whole and delta >= 0 and 0 <= count <= delta + 1 else None
    attributes, key_at = head[17], at + (26 if magic else 18)
    if size < 26 or attributes > 15 or attributes % 8 > 3:
        return None
    (key,) = struct.unpack(">i", data[key_at : key_at + 4].ljust(4, b"\0"))
    value_at = key_at + 4 + max(key, 0)
    if key < -1 or value_at + 4 > at + size or (attributes % 8 and key != -1):
        return None
    (value,) = struct.unpack(">i", data[value_at : value_at + 4])
    return size if value >= -1 and value_at + 4 + max(value, 0) == at + size else None


def slowly(data: bytes, longest: int = LIMIT) -> list[tuple[int, int]]:
    found = [(at, sane(data, at, longest)) for at in range(len(data))]
    return [(at, size) for at, size in found if size is not None]


def fast(data: bytes, longest: int = LIMIT) -> list[tuple[int, int]]:
    return both(data, len(data), len(data), longest)


def both(window: bytes, count: int, left: int, longest: int) -> list[tuple[int, int]]:
    """What the search finds that is in use, and the one in pure Python."""
    found = candidates(window, count, left, longest)
    assert search(window, count, left, longest) == found
    return found


@pytest.mark.slow
@given(st.lists(batches() | batches(0, 1), min_size=1, max_size=3), st.data())
def test_equals_a_search_position_by_position(
    built: list[tuple[list[Record], dict[str, object]]], data: st.DataObject
) -> None:
    changed = bytearray(b"".join(build(listed, **options) for listed, options in built))  # type: ignore[arg-type]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    assert fast(bytes(changed)) == slowly(bytes(changed))
    assert fast(bytes(changed), 100) == slowly(bytes(changed), 100)


@given(st.lists(st.sampled_from([b"\0", b"\0\0\0", b"\1", b"\2", b"\xff", b"\x1a", b"\x80\1", b"ab"]), max_size=60))
def test_engines_agree_on_any_bytes(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert fast(data) == slowly(data)


FIELDS = [
    ({}, True),
    ({"base_offset": -1}, False),
    ({"base_offset": (1 << 63) - (1 << 32)}, False),
    ({"base_offset": (1 << 63) - (1 << 32) - 1}, True),
    ({"epoch": -1}, True),
    ({"epoch": -2}, False),
    ({"magic": 3}, False),
    ({"attributes": 0x7C}, True),
    ({"attributes": 0x80}, False),
    ({"attributes": 0x105}, False),
    ({"attributes": 5}, False),
    ({"delta": -1}, False),
    ({"count": 0}, True),
    ({"count": 4}, False),
    ({"count": -1}, False),
    ({"length": 48}, False),
    ({"length": 49}, True),
    ({"length": len(FIRST) - 12}, True),
    ({"length": len(FIRST) - 11}, False),
]


@pytest.mark.parametrize(("fields", "taken"), FIELDS, ids=[str(fields) for fields, _ in FIELDS])
def test_fields_of_a_header(fields: dict[str, int], taken: bool) -> None:
    """FIRST has three records, offset deltas up to 2."""
    data = fixed(FIRST, **fields)
    size = fields.get("length", len(FIRST) - 12) + 12
    assert fast(data)[:1] == slowly(data)[:1] == ([(0, size)] if taken else [])


@pytest.mark.parametrize("batch", [message(0, b"x"), message(1, b""), WRAPPER, build([Record()], magic=0, codec="lz4")])
def test_messages(batch: bytes) -> None:
    assert fast(batch) == [(0, len(batch))] == slowly(batch)
    for place, value in ((17, 0x10), (17, 4), (26 if batch[16] else 18, 0x7F), (0, 0x80)):
        changed = bytearray(batch)
        changed[place] = value
        assert fast(bytes(changed)) == slowly(bytes(changed)) == [], place


def test_a_wrapper_has_no_key() -> None:
    data = bytearray(message(1, b"x"))
    data[26:30] = b"\0\0\0\0"  # a key of no bytes instead of null
    assert fast(bytes(data)) == [(0, len(data))]
    data[17] = 1
    assert fast(bytes(data)) == []


def test_only_so_many_positions_and_only_what_the_source_can_hold() -> None:
    data = FIRST + SECOND
    assert both(data, len(FIRST), len(data), LIMIT) == [(0, len(FIRST))]
    assert both(data, len(FIRST) + 1, len(data), LIMIT) == [(0, len(FIRST)), (len(FIRST), len(SECOND))]
    assert both(data[:REACH], 1, len(FIRST) - 1, LIMIT) == []
    assert both(data[:REACH], 1, len(FIRST), LIMIT) == [(0, len(FIRST))]
    assert both(data[:REACH], 1, len(FIRST), len(FIRST) - 1) == []
    assert both(b"", 5, 0, LIMIT) == []


def test_a_value_behind_the_window_is_believed() -> None:
    """Whether key and value fill a long message, only its checksum shows."""
    data = message(0, bytes(300))
    assert both(data[:REACH], 1, len(data), LIMIT) == [(0, len(data))]
    keyed = build([Record(bytes(200), b"v")], magic=1)
    assert both(keyed[:REACH], 1, len(keyed), LIMIT) == [(0, len(keyed))]
    assert find_batch(b"\1" * 100 + keyed) == 100
