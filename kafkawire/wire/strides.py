"""Strides: arrays of structs in which element follows element at one distance, read at once.

Where all elements of an array are of one size, `struct` reads them in C. That holds for structs of fixed-size fields,
and for runs of structs with arrays of numbers as long as those of the neighbours: partitions with as many replicas. In
a flexible version each element ends in the count of its tagged fields, which must be 0. What does not fit is read one
by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any, NamedTuple, TypeVar

from kafkawire.wire.read import Items
from kafkawire.wire.values import Buffer

T = TypeVar("T")

#: Fewer elements than this are read one by one; where neighbours differ, so many before looking again.
_FEW, _SOME = 4, 16
#: Elements that are looked at together at first; while all are alike, twice as many.
_WINDOW = 64
#: Longest array of numbers, and most shapes of one struct, that are read at once.
_LONG, _SHAPES = 64, 256


def rows(cls: Callable[..., T], items: Items[T], layout: str, flexible: bool) -> Items[T]:
    """Reads structs of fixed-size fields only, whose codes in the order of their slots are `layout`."""
    unpack = struct.Struct(">" + layout + "x" * flexible).iter_unpack
    size = struct.calcsize(">" + layout) + flexible

    def read(b: Buffer, p: int, n: int) -> tuple[tuple[T, ...], int]:
        e = p + n * size
        if e <= len(b) and (not flexible or bytes(b[p + size - 1 : e : size]).count(0) == n):
            return tuple(starmap(cls, unpack(b[p:e]))), e
        return items(b, p, n)

    return read


class _Shape(NamedTuple):
    """One size of an element: which bytes all must have at which offset, what unpacks elements, where arrays end."""

    size: int
    marks: tuple[tuple[int, bytes], ...]
    unpack: Callable[[bytes], Iterator[tuple[Any, ...]]]
    ends: tuple[int, ...]


class _Shapes(dict[tuple[int, ...], _Shape]):
    """Lengths of its arrays -> the shape of an element.

    `layout` are its parts in order, with blanks between: codes of fixed-size fields, `[` and the code of an array's
    numbers. A length is an unsigned varint of one byte.
    """

    def __init__(self, layout: str, flexible: bool) -> None:
        self.parts = layout.split()
        self.tail = "x" * flexible

    def at(self, b: Buffer, p: int) -> _Shape | None:
        """The shape of the element at `p`, None where it is too long."""
        lengths = []
        for part in self.parts:
            if part[0] == "[":
                n = b[p] - 1
                if not 0 <= n <= _LONG:
                    return None
                lengths.append(n)
                p += 1 + n * struct.calcsize(">" + part[1:])
            else:
                p += struct.calcsize(">" + part)
        return self[tuple(lengths)]

    def __missing__(self, lengths: tuple[int, ...]) -> _Shape:
        codes, marks, ends, fields = ">", [], [], 0
        left = iter(lengths)
        for part in self.parts:
            if part[0] == "[":
                n = next(left)
                marks.append((struct.calcsize(codes), bytes([n + 1])))
                codes += f"x{n}{part[1:]}"
                fields += n
                ends.append(fields)
            else:
                codes += part
                fields += len(part.replace("16s", "u"))
        if self.tail:
            marks.append((struct.calcsize(codes), b"\0"))
            codes += self.tail
        layout = struct.Struct(codes)
        shape = _Shape(layout.size, tuple(marks), layout.iter_unpack, tuple(ends))
        if len(self) < _SHAPES:
            self[lengths] = shape
        return shape


def shaped(build: Callable[..., list[T]], items: Items[T], layout: str, flexible: bool) -> Items[T]:
    """Reads structs of fixed-size fields and arrays of numbers, as many at once as have arrays of the same lengths.

    `build` makes elements of their unpacked rows and of where in a row its arrays end.
    """
    shapes = _Shapes(layout, flexible)
    last: _Shape | None = None

    def read(b: Buffer, p: int, n: int) -> tuple[tuple[T, ...], int]:
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
                values += build(shape.unpack(chunk[: alike * size]), *shape.ends)
                p += alike * size
                n -= alike
                window = 2 * window if alike == window else _WINDOW
                continue
            found = shapes.at(b, p)
            if found is not None and (shape is None or found.ends != shape.ends):
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
