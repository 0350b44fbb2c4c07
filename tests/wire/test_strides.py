"""`strides`: arrays that are read at once, against the same read one by one; and how many elements are left to that."""

from __future__ import annotations

import random
import struct
import uuid
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import pytest

from kafkawire.messages import MetadataResponse
from kafkawire.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from kafkawire.wire import read, strides
from kafkawire.wire.layout import ARRAY, COMPACT, INT8, INT16, INT32, INT64, STRING, UUID, Layout, Op
from kafkawire.wire.read import FAILURES
from kafkawire.wire.tags import read_unknown_tags


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


PLAIN = {flexible: Layout(0, flexible, 6 + flexible, (Op(INT32, 0), Op(INT16, 1))) for flexible in (False, True)}
SHAPED = Layout(0, True, 9, (Op(INT32, 0), Op(INT32 | ARRAY | COMPACT, 1), Op(INT16, 2), Op(INT8 | ARRAY | COMPACT, 3)))
Shaped.__struct_defaults__ = (0, (), 0, (), ())  # type: ignore[attr-defined]


class Counted:
    """Reads one by one, and counts how many."""

    def __init__(self, item: Any) -> None:
        self.item = item
        self.count = 0

    def __call__(self, b: Any, p: int, n: int) -> Any:
        self.count += n
        values = []
        for _ in range(n):
            value, p = self.item(b, p)
            values.append(value)
        return tuple(values), p


def plain(flexible: bool, b: Any, p: int) -> tuple[Plain, int]:
    a, c = struct.unpack_from(">ih", b, p)
    tagged, p = read_unknown_tags(b, p + 6) if flexible else ((), p + 6)
    return Plain(a, c, tagged), p


def shaped(b: Any, p: int) -> tuple[Shaped, int]:
    (a,) = struct.unpack_from(">i", b, p)
    left, p = read.read_compact_int32s(b, p + 4)
    (c,) = struct.unpack_from(">h", b, p)
    right, p = read.read_compact_int8s(b, p + 2)
    tagged, p = read_unknown_tags(b, p)
    return Shaped(a, left, c, right, tagged), p


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


def rows(flexible: bool) -> tuple[Any, Counted]:
    alone = Counted(partial(plain, flexible))
    return strides.rows(Plain, alone, PLAIN[flexible]), alone


def shapes() -> tuple[Any, Counted]:
    alone = Counted(shaped)
    return strides.shaped(Shaped, alone, SHAPED), alone


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
    expected = Counted(shaped)(data, 0, len(elements))
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


def test_while_all_are_alike_twice_as_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    made = strides._Shape.elements

    def elements_of(shape: Any, cls: Any, chunk: bytes) -> Any:
        sizes.append(len(chunk) // shape.size)
        return made(shape, cls, chunk)

    monkeypatch.setattr(strides._Shape, "elements", elements_of)
    elements = [(2, 1, TAG if i == 1500 else b"\0") for i in range(1600)]
    data = b"".join(shaped_bytes(i, *element) for i, element in enumerate(elements))
    strides.shaped(Shaped, Counted(shaped), SHAPED)(data, 0, len(elements))
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
        assert items(data, 0, len(elements)) == Counted(shaped)(data, 0, len(elements))


def test_shapes_are_kept_up_to_a_number() -> None:
    numbers = INT8 | ARRAY | COMPACT
    kept = strides._Shapes(Shaped, Layout(0, False, 2, (Op(numbers, 0), Op(numbers, 1))))
    for left in range(60):
        for right in range(60):
            assert kept[left, right].size == 2 + left + right
    assert len(kept) == 256


class Gaps(NamedTuple):
    """The second and the last slot are absent in the version that is read; a uuid is no number."""

    key: Any
    absent: Any
    numbers: Any
    value: Any
    tail: Any = "unset"
    tagged: Any = ()


Gaps.__struct_defaults__ = (0, "default", (), 0, "unset", ())  # type: ignore[attr-defined]


def test_absent_slots_get_their_defaults_and_uuids_are_made() -> None:
    layout = Layout(0, True, 26, (Op(UUID, 0), Op(INT16 | ARRAY | COMPACT, 2), Op(INT64, 3)))
    data = b"".join(bytes(15) + bytes([i]) + b"\3" + struct.pack(">hhq", i, -i, i) + b"\0" for i in range(9))
    found, end = strides.shaped(Gaps, Counted(None), layout)(data, 0, 9)
    assert end == len(data)
    assert found == tuple(Gaps(uuid.UUID(int=i), "default", (i, -i), i) for i in range(9))


def test_one_slot_alone() -> None:
    layout = Layout(0, True, 2, (Op(INT8 | ARRAY | COMPACT, 0),))
    single = type("Single", (tuple,), {"__new__": lambda cls, numbers: tuple.__new__(cls, (numbers,))})
    single.__struct_defaults__ = ((), ())  # type: ignore[attr-defined]
    found, end = strides.shaped(single, Counted(None), layout)(b"\3\1\2\0" * 5, 0, 5)
    assert (found, end) == ((((1, 2),),) * 5, 20)


@pytest.mark.parametrize(
    ("layout", "strided"),
    [
        (PLAIN[False], True),
        (SHAPED, True),
        (Layout(0, False, 4, (Op(INT32 | ARRAY, 0),)), False),
        (Layout(0, True, 1, (Op(UUID | ARRAY | COMPACT, 0),)), False),
        (Layout(0, True, 1, (Op(STRING | COMPACT, 0),)), False),
        (Layout(0, True, 1, ()), False),
    ],
)
def test_which_layouts_are_strided(layout: Layout, strided: bool) -> None:
    assert strides.is_strided(layout) == strided


def test_arrays_of_every_length_are_read_at_once_in_all_versions_of_a_message() -> None:
    topics = tuple(
        MetadataResponseTopic(
            name=f"t{count}",
            partitions=tuple(
                MetadataResponsePartition(0, i, 1, 2 if version >= 7 else -1, (1, 2), (), (i,) if version >= 5 else ())
                for i in range(count)
            ),
        )
        for version in (12,)
        for count in (0, 1, 3, 4, 5, 63, 64, 65, 200)
    )
    for version in (9, 12, 13):
        message = MetadataResponse(topics=topics)
        assert MetadataResponse.decode(message.encode(version), version) == message
