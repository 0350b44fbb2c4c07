"""Strides: readers of whole arrays of structs whose elements follow one another at a constant distance.

Where all elements of an array have one size, `struct` reads them in C. This holds for structs of fixed-size fields, and
for runs of structs whose arrays of numbers are equally long, such as partitions with the same number of replicas. In a
flexible version each element ends in the count of its tagged fields, which must be 0. Other elements are read one by
one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat, starmap
from operator import add, itemgetter
from typing import Any, NamedTuple, TypeVar

from kafkawire.wire.layout import ARRAY, COMPACT, FIXED_SIZES, KIND_MASK, UUID, Layout, Op
from kafkawire.wire.read import Elements, Items, make_uuid
from kafkawire.wire.values import Buffer

T = TypeVar("T")
_Read = Callable[[Buffer, int, int], Elements[T]]

#: The struct code of each fixed-size kind, in the order of the kinds.
CODES = ("?", "b", "h", "i", "q", "H", "I", "d", "16s")
#: Fewer elements than this are read one by one; where neighbours differ, this many before comparing again.
_FEW, _SOME = 4, 16
#: Elements that are looked at together at first; while all are alike, twice as many.
_WINDOW = 64
#: Longest array of numbers, and most shapes of one struct, that are read at once.
_LONG, _SHAPES = 64, 256


def reader(cls: Any, items: Items[T], version: int) -> _Read[T]:
    """The reader of consecutive elements of a class in a version: all at once where the layout allows it, else by
    `items`."""

    def one_by_one(b: Buffer, p: int, n: int) -> Elements[T]:
        return items(b, p, n, version)

    layout: Layout = cls.codec.layout_of(cls, version)
    if not is_strided(layout):
        return one_by_one
    if all(op.code in FIXED_SIZES and op.code != UUID and op.slot == i for i, op in enumerate(layout.ops)):
        return rows(cls, one_by_one, layout)
    return shaped(cls, one_by_one, layout)


def is_strided(layout: Layout) -> bool:
    """Whether neighbours may be read at once: a layout of fixed-size fields, and where lengths are of one byte, arrays
    of numbers."""
    return bool(layout.ops) and all(
        op.code in FIXED_SIZES or (layout.flexible and _is_numbers(op)) for op in layout.ops
    )


def _is_numbers(op: Op) -> bool:
    kind = op.code & KIND_MASK
    return op.code == kind | ARRAY | COMPACT and kind in FIXED_SIZES and kind != UUID


def rows(cls: Callable[..., T], items: _Read[T], layout: Layout) -> _Read[T]:
    """Reads structs of fixed-size fields only, which are the first slots of the class in their order."""
    codes = ">" + "".join(CODES[op.code] for op in layout.ops) + "x" * layout.flexible
    unpack = struct.Struct(codes).iter_unpack
    size = layout.min_size
    flexible = layout.flexible

    def read(b: Buffer, p: int, n: int) -> Elements[T]:
        e = p + n * size
        if e <= len(b) and (not flexible or bytes(b[p + size - 1 : e : size]).count(0) == n):
            return tuple(starmap(cls, unpack(b[p:e]))), e
        return items(b, p, n)

    return read


class _Shape(NamedTuple):
    """One size of an element.

    Attributes:
        lengths: how long its arrays are.
        size: its bytes.
        marks: offsets at which all elements must have the same byte, and which.
        unpack: what makes a row of numbers of each element.
        defaults: the values of slots that the version does not carry, which are put after each row.
        uuids: the places of uuids in a row.
        slots: what takes the values of the slots, in their order, from a row.
        is_single: whether that is one value and no tuple of them.
    """

    lengths: tuple[int, ...]
    size: int
    marks: tuple[tuple[int, bytes], ...]
    unpack: Callable[[bytes], Iterable[tuple[Any, ...]]]
    defaults: tuple[Any, ...]
    uuids: tuple[int, ...]
    slots: Callable[[tuple[Any, ...]], Any]
    is_single: bool

    def elements(self, cls: Callable[..., T], chunk: bytes) -> Iterator[T]:
        rows = self.unpack(chunk)
        if self.uuids:
            rows = self._with_uuids(rows)
        if self.defaults:
            rows = map(add, rows, repeat(self.defaults))
        values = map(self.slots, rows)
        return map(cls, values) if self.is_single else starmap(cls, values)

    def _with_uuids(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            values = list(row)
            for place in self.uuids:
                values[place] = make_uuid(values[place])
            yield tuple(values)


class _Shapes(dict[tuple[int, ...], _Shape]):
    """Lengths of its arrays -> the shape of an element. A length is an unsigned varint of one byte."""

    def __init__(self, cls: Any, layout: Layout) -> None:
        self.layout = layout
        self.slots = 1 + max(op.slot for op in layout.ops)
        self.defaults = cls.__struct_defaults__

    def at(self, b: Buffer, p: int) -> _Shape | None:
        """The shape of the element at `p`, None where it is too long."""
        lengths = []
        for op in self.layout.ops:
            size = FIXED_SIZES[op.code & KIND_MASK]
            if op.code & ARRAY:
                n = b[p] - 1
                if not 0 <= n <= _LONG:
                    return None
                lengths.append(n)
                p += 1 + n * size
            else:
                p += size
        return self[tuple(lengths)]

    def __missing__(self, lengths: tuple[int, ...]) -> _Shape:
        codes, marks, fields = ">", [], 0
        places: dict[int, int | slice] = {}
        uuids = []
        left = iter(lengths)
        for op in self.layout.ops:
            code = CODES[op.code & KIND_MASK]
            if op.code & ARRAY:
                n = next(left)
                marks.append((struct.calcsize(codes), bytes([n + 1])))
                codes += f"x{n}{code}"
                places[op.slot] = slice(fields, fields + n)
                fields += n
            else:
                codes += code
                places[op.slot] = fields
                uuids += [fields] * (op.code == UUID)
                fields += 1
        if self.layout.flexible:
            marks.append((struct.calcsize(codes), b"\0"))
            codes += "x"
        absent = [slot for slot in range(self.slots) if slot not in places]
        places |= {slot: fields + i for i, slot in enumerate(absent)}
        unpack = struct.Struct(codes)
        shape = _Shape(
            lengths,
            unpack.size,
            tuple(marks),
            unpack.iter_unpack,
            tuple(self.defaults[slot] for slot in absent),
            tuple(uuids),
            itemgetter(*(places[slot] for slot in range(self.slots))),
            self.slots == 1,
        )
        if len(self) < _SHAPES:
            self[lengths] = shape
        return shape


def shaped(cls: Callable[..., T], items: _Read[T], layout: Layout) -> _Read[T]:
    """Reads structs of fixed-size fields and arrays of numbers, as many at once as have arrays of the same lengths."""
    shapes = _Shapes(cls, layout)
    last: _Shape | None = None

    def read(b: Buffer, p: int, n: int) -> Elements[T]:
        nonlocal last
        values: list[T] = []
        shape, window = last, _WINDOW
        while n >= _FEW:
            alike = 0
            if shape is not None:
                size = shape.size
                alike = count = min(n, window, (len(b) - p) // size)
                chunk = bytes(b[p : p + count * size])
                for offset, mark in shape.marks:
                    column = chunk[offset::size]
                    if column.count(mark) != count:
                        alike = min(alike, count - len(column.lstrip(mark)))
            if alike >= _FEW:
                assert shape is not None
                values += shape.elements(cls, chunk[: alike * size])
                p += alike * size
                n -= alike
                window = 2 * window if alike == window else _WINDOW
                continue
            found = shapes.at(b, p)
            if found is not None and (shape is None or found.lengths != shape.lengths):
                shape = last = found
                continue
            some, p = items(b, p, min(n, _SOME))
            values += some
            n -= len(some)
        if n:
            rest, p = items(b, p, n)
            values += rest
        return tuple(values), p

    return read
