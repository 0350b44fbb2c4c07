"""`strides`: arrays that are read at once, against the same read one by one; and how many elements are left to that."""

from __future__ import annotations

import random
import struct
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import pytest

from kafkawire.wire import read, strides
from kafkawire.wire.read import FAILURES, Items, each, read_tags


class Plain(NamedTuple):
    a: int
    b: int
    tagged: Any = ()


class Shaped(NamedTuple):
    a: int
    left: tuple[int, ...]
    b: int
    right: tuple[int, ...]
    tagged: Any = ()


class Counted:
    """Reads one by one, and counts how many."""

    def __init__(self, item: Any) -> None:
        self.items = each(item)
        self.count = 0

    def __call__(self, b: Any, p: int, n: int) -> Any:
        self.count += n
        return self.items(b, p, n)


def plain(flexible: bool, b: Any, p: int) -> tuple[Plain, int]:
    a, c = struct.unpack_from(">ih", b, p)
    tagged, p = read_tags({}, b, p + 6) if flexible else ({}, p + 6)
    return Plain(a, c, tagged.get("unknown_tagged_fields", ())), p


def shaped(b: Any, p: int) -> tuple[Shaped, int]:
    (a,) = struct.unpack_from(">i", b, p)
    left, p = read.read_compact_int32s(b, p + 4)
    (c,) = struct.unpack_from(">h", b, p)
    right, p = read.read_compact_int8s(b, p + 2)
    tagged, p = read_tags({}, b, p)
    return Shaped(a, left, c, right, tagged.get("unknown_tagged_fields", ())), p


def plain_bytes(number: int, tag: bytes) -> bytes:
    return struct.pack(">ih", number, -number) + tag


def shaped_bytes(number: int, left: int, right: int, tag: bytes = b"\0") -> bytes:
    head = (
        struct.pack(">i", number) + read_length_of(left) + b"".join(struct.pack(">i", number + i) for i in range(left))
    )
    return head + struct.pack(">h", -number) + read_length_of(right) + bytes(range(right)) + tag


def read_length_of(count: int) -> bytes:
    return bytes([count + 1]) if count < 127 else bytes([(count + 1) & 127 | 128, (count + 1) >> 7])


TAG = b"\1\5\2ab"  # one unknown tagged field


def rows(flexible: bool) -> tuple[Items[Plain], Counted]:
    alone = Counted(partial(plain, flexible))
    return strides.rows(Plain, alone, "ih", flexible), alone


def shapes() -> tuple[Items[Shaped], Counted]:
    alone = Counted(shaped)
    build = lambda found, e1, e2: [Shaped(r[0], r[1:e1], r[e1], r[e1 + 1 : e2]) for r in found]  # noqa: E731
    return strides.shaped(build, alone, "i [i h [b", True), alone


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_rows_are_read_at_once(flexible: bool, count: int) -> None:
    data = b"".join(plain_bytes(i, b"\0" * flexible) for i in range(count))
    for buffer in (b"??" + data + b"?", memoryview(b"??" + data + b"?")):
        items, alone = rows(flexible)
        assert items(buffer, 2, count) == (tuple(Plain(i, -i) for i in range(count)), 2 + len(data))
        assert alone.count == 0


@pytest.mark.parametrize("place", [0, 1, 6])
def test_rows_with_tagged_fields_are_read_one_by_one(place: int) -> None:
    data = b"".join(plain_bytes(i, TAG if i == place else b"\0") for i in range(7))
    items, alone = rows(True)
    found, end = items(data, 0, 7)
    assert [row[:2] for row in found] == [(i, -i) for i in range(7)]
    assert [bool(row.tagged) for row in found] == [i == place for i in range(7)]
    assert (end, alone.count) == (len(data), 7)


@pytest.mark.parametrize("flexible", [False, True])
def test_rows_beyond_the_end_are_left_to_who_refuses_them(flexible: bool) -> None:
    data = b"".join(plain_bytes(i, b"\0" * flexible) for i in range(5))
    items, alone = rows(flexible)
    with pytest.raises(FAILURES):
        items(data[:-1], 0, 5)
    assert alone.count == 5


#: (lengths of the two arrays, tag) of each element; how many are read one by one.
RUNS: dict[str, tuple[list[tuple[int, int, bytes]], int]] = {
    "none": ([], 0),
    "three: too few": ([(1, 2, b"\0")] * 3, 3),
    "four": ([(1, 2, b"\0")] * 4, 0),
    "five": ([(1, 2, b"\0")] * 5, 0),
    "empty arrays": ([(0, 0, b"\0")] * 10, 0),
    "more than one look": ([(3, 1, b"\0")] * 1000, 0),
    "the longest": ([(64, 64, b"\0")] * 8, 0),
    "too long": ([(65, 1, b"\0")] * 40, 40),
    "too long, the second": ([(1, 65, b"\0")] * 40, 40),
    "lengths of two bytes": ([(127, 1, b"\0")] * 20, 20),
    "two runs": ([(1, 2, b"\0")] * 50 + [(2, 1, b"\0")] * 50, 0),
    # Nothing is worth a look that leaves fewer than four: 16 go one by one before the next.
    "always others": ([(i % 2, 1, b"\0") for i in range(40)], 40),
    "a tag in the middle": ([(1, 1, b"\0")] * 30 + [(1, 1, TAG)] + [(1, 1, b"\0")] * 30, 16),
    "a tag at the begin": ([(1, 1, TAG)] + [(1, 1, b"\0")] * 30, 16),
    "a tag at the end": ([(1, 1, b"\0")] * 30 + [(1, 1, TAG)], 1),
}


@pytest.mark.parametrize("what", RUNS)
def test_neighbours_of_one_shape_are_read_at_once(what: str) -> None:
    elements, alone_count = RUNS[what]
    data = b"".join(shaped_bytes(i, *element) for i, element in enumerate(elements))
    items, alone = shapes()
    expected = each(shaped)(data, 0, len(elements))
    for buffer, at in ((data, 0), (memoryview(b"???" + data + b"\0\0"), 3)):
        alone.count = 0
        assert items(buffer, at, len(elements)) == (expected[0], at + len(data))
        assert alone.count == alone_count
    for cut in {1, 2, len(data) // 2} if data else ():
        try:
            _, end = items(data[:-cut], 0, len(elements))
        except FAILURES:
            continue
        assert end > len(data) - cut  # behind the buffer's end: the caller notices


def test_while_all_are_alike_twice_as_many_are_looked_at() -> None:
    sizes: list[int] = []

    def build(found: Any, e1: int, e2: int) -> list[Shaped]:
        values = [Shaped(r[0], r[1:e1], r[e1], r[e1 + 1 : e2]) for r in found]
        sizes.append(len(values))
        return values

    elements = [(2, 1, TAG if i == 1500 else b"\0") for i in range(1600)]
    data = b"".join(shaped_bytes(i, *element) for i, element in enumerate(elements))
    strides.shaped(build, Counted(shaped), "i [i h [b", True)(data, 0, len(elements))
    # 64 + 128 + 256 + 512 elements, then 540 up to the one with a tag; 16 one by one, and so on from 64.
    assert sizes == [64, 128, 256, 512, 540, 64, 20]


def test_any_runs() -> None:
    numbers = random.Random(5)
    for _ in range(60):
        runs = [(numbers.choice([0, 1, 2, 3, 64, 65]), numbers.randrange(3)) for _ in range(numbers.randrange(1, 8))]
        elements = list(chain.from_iterable([run] * numbers.choice([1, 3, 4, 5, 17, 64, 65, 130]) for run in runs))
        tags = [TAG if numbers.randrange(40) == 0 else b"\0" for _ in elements]
        data = b"".join(shaped_bytes(i, *pair, tag) for i, (pair, tag) in enumerate(zip(elements, tags, strict=True)))
        items, _ = shapes()
        assert items(data, 0, len(elements)) == each(shaped)(data, 0, len(elements))


def test_shapes_are_kept_up_to_a_number() -> None:
    kept = strides._Shapes("[b [b", False)
    for left in range(60):
        for right in range(60):
            assert kept[left, right].size == 2 + left + right
    assert len(kept) == 256
