"""Reading batch after batch, whatever surrounds them, and from any place of a file."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.records import Batch, Damage, Memory, Record, build, find_batch, read
from kafkawire.records.header import LOG_OVERHEAD
from tests.records.record_bytes import FIRST, SECOND, SIZE, THIRD


def offsets(data: bytes) -> list[int | str]:
    """What `read` yields, in short: base offsets, and reasons of damage."""
    return [item.base_offset if isinstance(item, Batch) else item.reason for item in read(data)]


def test_whole_batches_are_no_damage() -> None:
    assert offsets(b"") == []
    assert offsets(FIRST + SECOND + THIRD) == [0, 10, 20]


@pytest.mark.parametrize("data", [FIRST, bytearray(FIRST), memoryview(FIRST), Memory(FIRST)])
def test_kinds_of_input(data: bytes) -> None:
    assert offsets(data) == [0]


def test_without_checksums_a_flipped_bit_goes_unseen() -> None:
    middle = bytearray(FIRST)
    middle[-2] ^= 1
    (item,) = read(bytes(middle), check_crc=False)
    assert isinstance(item, Batch)
    assert not item.crc_ok


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_what_is_whole_is_read_whatever_surrounds_it(before: bytes, after: bytes) -> None:
    items = list(read(before + FIRST + SECOND + after))
    assert [i.base_offset for i in items if isinstance(i, Batch)][:2] == [0, 10]
    assert items == list(read(Memory(before + FIRST + SECOND + after)))


@given(st.data())
def test_mutations(data: st.DataObject) -> None:
    """One changed byte: never an exception, and every batch that it does not touch is read."""
    whole = FIRST + SECOND + THIRD
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    items = list(read(bytes(changed)))
    found = [i.position for i in items if isinstance(i, Batch)]
    assert {0, SIZE, 2 * SIZE} - {place // SIZE * SIZE} <= set(found)
    # Offset and leader epoch lie outside the checksum; everything else is noticed.
    outside = place % SIZE in {*range(8), *range(12, 16)}
    assert any(isinstance(i, Damage) for i in items) or outside
    for item in items:
        if isinstance(item, Batch):
            list(item.records)


@given(st.lists(st.integers(0, 3 * SIZE), max_size=6))
def test_ranges_that_cover_a_file_read_each_batch_once(cuts: list[int]) -> None:
    data = FIRST + SECOND + THIRD
    edges = [0, *sorted(cuts), len(data)]
    found = []
    for low, high in pairwise(edges):
        start = find_batch(data, low, high)
        if start is not None:
            found += [b.position for b in read(data, start=start, end=high)]
    assert found == [0, SIZE, 2 * SIZE]


def test_the_first_batch_that_is_proven() -> None:
    damaged = FIRST[:-1] + bytes([FIRST[-1] ^ 1])
    assert find_batch(FIRST) == 0
    assert find_batch(damaged) is None
    assert find_batch(damaged + SECOND) == SIZE
    assert find_batch(FIRST + SECOND, 1) == SIZE
    assert find_batch(FIRST + SECOND, end=0) is find_batch(FIRST + SECOND, 1, SIZE) is None
    assert find_batch(FIRST, max_batch_bytes=SIZE - LOG_OVERHEAD) == 0
    assert find_batch(FIRST, max_batch_bytes=SIZE - LOG_OVERHEAD - 1) is None


@pytest.mark.slow
def test_find_batch_over_windows() -> None:
    data = bytes(3_000_000) + FIRST
    assert find_batch(data) == 3_000_000
    assert find_batch(data, 3_000_001) is None
    assert find_batch(data, 0, 3_000_000) is None
    for before in range((1 << 20) - 100, (1 << 20) + 20, 7):
        assert find_batch(bytes(before) + FIRST) == before


@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (0, "gzip"), (1, "none"), (2, "none"), (2, "gzip")])
def test_offsets_are_checked_where_only_a_log_needs_them(magic: int, codec: str) -> None:
    """kafkajs sends the offset -1; a broker assigns the offsets."""
    data = bytearray(build([Record(value=b"v")], magic=magic, codec=codec))
    data[:8] = b"\xff" * 8
    (fault,) = read(bytes(data))
    assert isinstance(fault, Damage)
    (batch,) = read(bytes(data), check_offsets=False)
    assert isinstance(batch, Batch)
    assert [record.value for record in batch.records] == [b"v"]
