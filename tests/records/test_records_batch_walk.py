"""Where there is no batch: every reason, where reading resumes, and what searching costs."""

from __future__ import annotations

from typing import Any

import crc32c
import pytest

from kafkawire.records import Batch, Damage, Memory, Record, build, columns, find_batch, read
from kafkawire.records.batch_walk import BatchFault, BatchWalk
from kafkawire.records.compression import MAX_BATCH_BYTES
from tests.records.record_bytes import FIRST, SECOND, SIZE, THIRD, fixed, message
from tests.shortened import Shrinking


def offsets(data: bytes) -> list[int | str]:
    """What `read` yields, in short: base offsets, and reasons of damage."""
    return [item.base_offset if isinstance(item, Batch) else item.reason for item in read(data)]


def test_a_torn_tail_is_damage() -> None:
    for cut in range(1, SIZE):
        *whole, damage = read(FIRST + SECOND[:cut])
        assert [b.base_offset for b in whole] == [0]  # type: ignore[union-attr]
        assert isinstance(damage, Damage)
        # The base offset is 10: its first 7 bytes, zeros, look like preallocation.
        assert damage.reason == ("truncated" if cut > 7 else "preallocated"), cut
        assert (damage.position, damage.resumed_at) == (SIZE, None)


@pytest.mark.parametrize("size", [1, 17, 61, 4096, 3 << 20])
def test_a_preallocated_tail_is_harmless(size: int) -> None:
    _, damage = read(FIRST + bytes(size))
    assert damage == Damage(SIZE, "preallocated", f"{size} zero bytes up to the end")
    assert damage.harmless


def test_a_hole_of_zeros_is_damage() -> None:
    items = list(read(FIRST + bytes(5000) + SECOND))
    assert items[1] == Damage(SIZE, "zeros", "a batch header of zeros", SIZE + 5000)
    assert offsets(FIRST + bytes(5000) + SECOND) == [0, "zeros", 10]


def test_a_flipped_bit_costs_its_batch_only() -> None:
    middle = bytearray(SECOND)
    middle[70] ^= 1
    items = list(read(FIRST + bytes(middle) + THIRD))
    assert offsets(FIRST + bytes(middle) + THIRD) == [0, "crc_mismatch", 20]
    assert isinstance(items[1], Damage)
    assert (items[1].position, items[1].resumed_at) == (SIZE, 2 * SIZE)
    assert f"{int.from_bytes(SECOND[17:21], 'big'):#010x}" in items[1].detail


@pytest.mark.parametrize(
    ("length", "reason"),
    [(0, "bad_length"), (48, "bad_length"), (-1, "bad_length"), (SIZE * 9, "bad_length"), (2**31 - 1, "too_large")],
)
def test_a_wrong_length_costs_its_batch_only(length: int, reason: str) -> None:
    data = FIRST + fixed(SECOND, length=length) + THIRD
    assert offsets(data) == [0, reason, 20]
    assert [i.resumed_at for i in read(data) if isinstance(i, Damage)] == [2 * SIZE]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 3}, "unknown_magic"),
        ({"magic": -1}, "unknown_magic"),
        ({"count": -1}, "bad_header"),
        ({"delta": -5}, "bad_header"),
        ({"base_offset": -1}, "bad_header"),
        ({"base_offset": 2**63 - 1}, "bad_header"),
        ({"crc": 0}, "crc_mismatch"),
    ],
)
def test_a_wrong_header_is_damage(fields: dict[str, int], reason: str) -> None:
    data = FIRST + fixed(SECOND, **fields) + THIRD
    assert offsets(data) == [0, reason, 20]


def test_a_batch_that_is_longer_than_the_limit_is_damage() -> None:
    big = build([Record(value=bytes(5000))], base_offset=100)
    items = list(read(FIRST + big + SECOND, max_batch_bytes=4000))
    assert [getattr(i, "reason", "batch") for i in items] == ["batch", "too_large", "batch"]
    assert items[1].resumed_at == SIZE + len(big)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (FIRST[:60], "truncated", "60 of a batch header's 61 bytes"),
        (FIRST[:61], "truncated", f"61 of a batch's {SIZE} bytes"),
        (SECOND[:9], "truncated", "9 of a batch header's 61 bytes"),
        (fixed(FIRST, magic=3), "unknown_magic", "magic 3"),
        (fixed(FIRST, magic=-1), "unknown_magic", "magic -1"),
        (fixed(FIRST, length=48), "bad_length", "a batch length of 48, below 49"),
        (fixed(FIRST, length=-1), "bad_length", "a batch length of -1, below 49"),
        (fixed(FIRST, length=MAX_BATCH_BYTES + 1), "too_large", "above the limit of 268435456"),
        (fixed(FIRST, length=MAX_BATCH_BYTES), "truncated", f"{SIZE} of a batch's {MAX_BATCH_BYTES + 12} bytes"),
        (fixed(FIRST, delta=-5), "bad_header", "base offset 0, last offset delta -5, 3 records"),
        (fixed(FIRST, base_offset=2**63 - 2**32 + 1), "bad_header", "base offset 9223372032559808513"),
        (message(1, b"")[:17], "truncated", "17 of a batch header's 61 bytes"),
        (message(1, b"")[:26], "truncated", "26 of a batch header's 61 bytes"),
        (message(1, b"")[:27], "truncated", "27 of a batch's 34 bytes"),
        (b"\xff" * 8 + message(1, b"")[8:], "bad_header", "offset -1"),
        (message(0, b"")[:-1] + b"x", "crc_mismatch", "that of the bytes"),
        (message(0, b"")[:8] + b"\0\0\0\x0d" + message(0, b"")[12:], "bad_length", "a batch length of 13, below 14"),
        (message(1, b"")[:8] + b"\0\0\0\x15" + message(1, b"")[12:], "bad_length", "a batch length of 21, below 22"),
    ],
)
def test_every_reason(data: bytes, reason: str, detail: str) -> None:
    (damage,) = read(data)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.reason, damage.resumed_at) == (0, reason, None)
    assert detail in damage.detail
    assert not damage.harmless


def test_offsets_up_to_the_highest_are_believed() -> None:
    (batch,) = read(fixed(FIRST, base_offset=2**63 - 2**32))
    assert isinstance(batch, Batch)
    (old,) = read((2**63 - 2**32).to_bytes(8, "big") + message(1, b"")[8:])
    assert isinstance(old, Batch)


def test_the_next_batch_is_believed_where_the_damaged_one_ends() -> None:
    """Even where a search of the range would not find it: the end by the damaged batch's length is tried first."""
    torn = fixed(SECOND, crc=0)
    (damage,) = read(FIRST + torn + THIRD, start=SIZE, end=SIZE + 5)
    assert isinstance(damage, Damage)
    assert damage.resumed_at == 2 * SIZE
    for end in (b"", b"short", bytes(17), b"\3" * 70, fixed(THIRD, length=48), fixed(THIRD, length=999), THIRD[:-1]):
        _, damage = read(FIRST + torn + end)
        assert isinstance(damage, Damage)
        assert (damage.reason, damage.resumed_at) == ("crc_mismatch", None), end


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_found_behind_damage(magic: int) -> None:
    data = message(magic, b"first")
    for between in (b"garbage", b"\xff" * 300):
        items = list(read(data + between + data))
        assert [getattr(item, "position", None) for item in items] == [0, len(data), len(data) + len(between)]
        assert isinstance(items[-1], Batch)
    assert find_batch(b"x" + data) == 1


@pytest.mark.parametrize("cut", [SIZE, SIZE + 1, SIZE + 7, SIZE + 16, SIZE + 61, SIZE + 70, 2 * SIZE - 1])
@pytest.mark.parametrize("following", [SECOND, bytes(SIZE)], ids=["batch", "zeros"])
@pytest.mark.parametrize("readers", [read, columns.batches, columns.read])
def test_reports_where_a_file_ended_that_became_shorter(cut: int, following: bytes, readers: Any) -> None:
    """Zeros are no exception: what followed them is not known."""
    first, damage = readers(Shrinking(FIRST + following, cut))
    assert not isinstance(first, Damage)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.reason, damage.resumed_at) == (SIZE, "truncated", None)
    assert damage.detail.endswith(f"ended at {cut}, was {2 * SIZE} when opened")
    assert damage.shortened
    assert not damage.harmless


def test_a_search_in_a_file_that_became_shorter() -> None:
    data = FIRST + b"garbage" + SECOND
    for cut in range(SIZE, len(data)):
        items = list(read(Shrinking(data, cut)))
        assert isinstance(items[0], Batch)
        damaged = [item for item in items[1:] if isinstance(item, Damage)]
        assert [(item.resumed_at, item.shortened) for item in damaged] == [(None, True)], cut


@pytest.mark.parametrize("size", [1, 200, (1 << 20) + 1, 3 << 20])
def test_zeros_of_a_file_that_became_shorter_are_damage(size: int) -> None:
    for cut in {0, size // 2, size - 1}:
        (damage,) = read(Shrinking(bytes(size), cut))
        assert isinstance(damage, Damage)
        assert (damage.reason, damage.harmless, damage.shortened) == ("truncated", False, True)
        assert f"ended at {cut}, was {size} when opened" in damage.detail


def test_what_follows_a_file_that_became_shorter_and_grew_again_is_not_read() -> None:
    """It is of another history: a leader's, where the file is a follower's."""

    class Regrown(Shrinking):
        def at(self, position: int, length: int) -> memoryview:
            found = super().at(position, length)
            super().__init__(FIRST + SECOND + THIRD, 3 * SIZE)
            return found

    (damage,) = read(Regrown(FIRST + SECOND + THIRD, 0))
    assert isinstance(damage, Damage)
    assert damage.shortened


# Hostile bytes -------------------------------------------------------------------------------------------------------


def test_what_proofs_may_cost_grows_with_what_was_walked_over() -> None:
    """One batch of the largest size at first, then 16 bytes for each byte."""
    least = SIZE - 12  # the limit is one of lengths, which offset and length do not count in
    assert BatchWalk(Memory(FIRST), True, least - 1, 0).find(0, SIZE) is None
    walk = BatchWalk(Memory(FIRST), True, least, 0)
    assert (walk.find(0, SIZE), walk.proved) == (0, SIZE)
    assert walk.find(0, SIZE) is None, "all is spent"
    for walked in range(12):
        walk = BatchWalk(Memory(b"x" * walked + FIRST), True, least, 0)
        walk.proved = SIZE
        assert walk.find(0, 10 * SIZE) == (walked if 16 * walked >= SIZE else None)
    walk = BatchWalk(Memory(b"x" * 11 + FIRST), True, least, 11)
    walk.proved = SIZE
    assert walk.find(11, 10 * SIZE) is None, "bytes before the walk's beginning do not count"


def test_faults_have_the_position_of_the_next_batch() -> None:
    walk = BatchWalk(Memory(fixed(FIRST, crc=0) + fixed(FIRST, delta=-1) + FIRST), True, 1 << 20, 0)
    mismatch, header, whole = (walk.batch_at(position) for position in (0, SIZE, 2 * SIZE))
    assert isinstance(mismatch, BatchFault)
    assert (mismatch.reason, mismatch.next) == ("crc_mismatch", SIZE)
    assert isinstance(header, BatchFault)
    assert (header.reason, header.next) == ("bad_header", 2 * SIZE)
    assert isinstance(whole, Batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_faults_of_messages_have_the_position_of_the_next_one(magic: int) -> None:
    plain = message(magic, b"value")
    walk = BatchWalk(Memory(plain + b"\xff" * 8 + plain[8:] + plain), True, 1 << 20, 0)
    assert walk.batch_at(len(plain)) == BatchFault("bad_header", "offset -1", 2 * len(plain))
    assert isinstance(walk.batch_at(2 * len(plain)), Batch)


class Counting(Memory):
    """Counts the bytes that were requested."""

    asked = 0

    def at(self, position: int, length: int) -> memoryview:
        self.asked += length
        return super().at(position, length)


def test_a_search_reads_every_byte_about_once() -> None:
    source = Counting(b"x" * (1 << 21) + FIRST)
    assert find_batch(source) == 1 << 21
    assert source.asked < source.size + (1 << 12)


@pytest.mark.slow
def test_searching_is_linear_in_what_crafted_headers_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 30,000 headers claims to reach the end of 4 MB: proving them all would checksum 60 GB."""
    header = FIRST[:61]
    total = 4 << 20
    crafted = b"".join(fixed(header, length=total - 61 * i - 12, crc=1, delta=0, count=0) for i in range(30_000))
    data = crafted + bytes(total - len(crafted) - SIZE) + FIRST
    checksummed = 0
    checksum = crc32c.crc32c

    def counting(chunk: memoryview, before: int = 0) -> int:
        nonlocal checksummed
        checksummed += len(chunk)
        return checksum(chunk, before)

    monkeypatch.setattr(crc32c, "crc32c", counting)
    items = list(read(data, max_batch_bytes=8 << 20))
    assert total < checksummed < 20 * total
    assert isinstance(items[-1], Batch)
