"""The interpreter: executes layouts step by step, and describes errors.

It reads and writes the same bytes as the generated codecs, slower. For bytes or values that it refuses it reports the
place (path and offset), what was expected and what was found. Other engines are tested against it.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import msgspec

from kafkawire.errors import DecodeError
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    COMPACT,
    FIXED_SIZES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    KIND_MASK,
    KIND_NAMES,
    NULLABLE,
    STRING,
    STRUCT,
    UINT16,
    UINT32,
    Layout,
    Table,
    struct_cost,
)
from kafkawire.wire.layout import UUID as UUID_KIND
from kafkawire.wire.limits import ALLOCATION_BASE, ALLOCATION_FACTOR, MAX_STRING, MAX_TAGS
from kafkawire.wire.lowering import smallest
from kafkawire.wire.read import make_uuid
from kafkawire.wire.values import Buffer, TaggedField
from kafkawire.wire.write import uvarint


def allocation_limit(size: int) -> int:
    """Bytes that decoding input of that size may allocate."""
    return ALLOCATION_BASE + ALLOCATION_FACTOR * size


def without_views(value: Any) -> Any:
    """A decoded value whose bytes are no views of the input."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(map(without_views, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return type(value)(**{name: without_views(field) for name, field in fields.items()})
    return value


class ValuePath:
    """The path of the value at hand, kept as a stack and written out only when there is an error."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[str | int] = []

    def __str__(self) -> str:
        text = ""
        for step in self.steps:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text


class Decoder:
    """Decodes one value. `strict` accepts only the bytes that an encoder would write."""

    def __init__(
        self,
        table: Table,
        classes: tuple[type[Any], ...],
        data: Buffer,
        position: int,
        *,
        strict: bool = False,
        message: str = "",
        version: int | None = None,
        budget: int | None = None,
    ) -> None:
        self.table = table
        self.classes = classes
        self.data = data
        self.position = position
        self.end = len(data)
        self.strict = strict
        self.message = message
        self.version = version
        self.place = ValuePath()
        self.budget = allocation_limit(self.end - position) if budget is None else budget

    # Errors

    def _fail(self, offset: int, expected: str, found: str) -> NoReturn:
        raise DecodeError(
            expected=expected,
            found=found,
            offset=offset,
            path=str(self.place),
            message=self.message,
            version=self.version,
        )

    def need(self, size: int, what: str) -> int:
        """The position, after making sure that `size` bytes are there; moves after them."""
        start, left = self.position, self.end - self.position
        if size > left:
            self._fail(start, f"{size} byte{'s' * (size != 1)} of {what}", f"{left} before the end")
        self.position = start + size
        return start

    def _canonical(self, holds: bool, offset: int, expected: str, found: str) -> None:
        if self.strict and not holds:
            self._fail(offset, expected, found)

    # Lengths

    def uvarint(self, what: str) -> int:
        start = self.position
        value = shift = 0
        while True:
            byte = self.data[self.need(1, what)]
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 28:
                self._fail(
                    start, f"{what} (an unsigned varint of at most 5 bytes)", "a fifth byte with a continuation bit"
                )
        value &= 0xFFFFFFFF
        value = value if value < 0x80000000 else value - 0x100000000
        read = bytes(self.data[start : self.position])
        if self.strict and (value < 0 or read != uvarint(value)):
            self._fail(start, f"{what} in its shortest form", read.hex())
        return value

    def number(self, kind: int, what: str) -> int:
        size = FIXED_SIZES[kind]
        start = self.need(size, what)
        signed = kind not in (UINT16, UINT32)
        return int.from_bytes(self.data[start : start + size], "big", signed=signed)

    def length(self, code: int, what: str, narrow: bool) -> int:
        """A length; -1 for null where null is allowed.

        Args:
            code: of the op.
            what: the length of what, for errors.
            narrow: an int16, not an int32, where it is no varint.
        """
        start = self.position
        if code & COMPACT:
            n = self.uvarint(what) - 1
            if n < -0x80000000:
                n = 0x7FFFFFFF
        else:
            n = self.number(INT16 if narrow else INT32, what)
        if n < 0:
            if not code & NULLABLE:
                self._fail(start, what, f"null ({n})" if n == -1 else str(n))
            self._canonical(n == -1, start, f"{what}, or -1 for null", str(n))
            return -1
        return n

    # Values

    def value(self, code: int, arg: int) -> Any:
        if code & ARRAY:
            return self.array(code, arg)
        kind = code & KIND_MASK
        if kind == STRUCT:
            if code & NULLABLE and not self.present(code):
                return None
            return self.struct(self.table.layouts[arg])
        if kind >= STRING:
            return self.blob(code, kind)
        start = self.position
        if kind == BOOL:
            byte = self.data[self.need(1, "a bool")]
            self._canonical(byte < 2, start, "a bool of 0 or 1", str(byte))
            return byte != 0
        if kind == UUID_KIND:
            start = self.need(16, "a uuid")
            return make_uuid(bytes(self.data[start : start + 16]))
        if kind == FLOAT64:
            start = self.need(8, "a float64")
            return struct.unpack_from(">d", self.data, start)[0]
        return self.number(kind, KIND_NAMES[kind])

    def present(self, code: int) -> bool:
        start = self.position
        if code & COMPACT:
            mark = self.uvarint("the mark of a nullable struct")
            self._canonical(0 <= mark <= 1, start, "0 (null) or 1", str(mark))
            return mark > 0
        mark = self.number(INT8, "the mark of a nullable struct")
        self._canonical(mark in (-1, 1), start, "-1 (null) or 1", str(mark))
        return mark >= 0

    def blob(self, code: int, kind: int) -> Any:
        start = self.position
        what = "a string's length" if kind == STRING else f"the length of {KIND_NAMES[kind]}"
        n = self.length(code, what, kind == STRING)
        if n < 0:
            return None
        if kind == STRING and n > MAX_STRING:
            self._fail(start, f"a string of at most {MAX_STRING} bytes", f"a length of {n}")
        begin = self.need(n, KIND_NAMES[kind])
        raw = self.data[begin : begin + n]
        return str(raw, "utf-8", "surrogateescape") if kind == STRING else raw

    def array(self, code: int, arg: int) -> Any:
        start = self.position
        n = self.length(code, "an array's length", False)
        if n < 0:
            return None
        kind = code & KIND_MASK
        item = code & (KIND_MASK | COMPACT)
        left = self.end - self.position
        layout = self.table.layouts[arg] if kind == STRUCT else None
        size = smallest(item, layout.min_size if layout else 0)
        cost = self.cost(layout) if layout else 8
        if n * max(1, size) > left:
            self._fail(start, f"an array that fits into the {left} bytes left", f"a length of {n}")
        if n * cost > self.budget:
            self._fail(start, "an array within the decoder's allocation limit", f"a length of {n}")
        if kind != STRUCT:
            self.budget -= n * cost
        steps = self.place.steps
        values = []
        try:
            for number in range(n):
                steps.append(number)
                values.append(self.value(item, arg))
                steps.pop()
        except DecodeError as error:
            error.partial = tuple(values) if error.partial is None else (*values, error.partial)
            raise
        return tuple(values)

    def cost(self, layout: Layout) -> int:
        return struct_cost(layout, len(self.classes[layout.struct].__struct_fields__))

    def struct(self, layout: Layout) -> Any:
        cls = self.classes[layout.struct]
        names = cls.__struct_fields__
        self.budget -= self.cost(layout)
        if self.budget < 0:
            self._fail(self.position, "a struct within the decoder's allocation limit", "none of it left")
        values: dict[str, Any] = {}
        steps = self.place.steps
        depth = len(steps)
        try:
            for op in layout.ops:
                steps.append(names[op.slot])
                values[names[op.slot]] = self.value(op.code, op.arg)
                steps.pop()
            if layout.flexible:
                self.tagged(layout, cls, values)
        except DecodeError as error:
            if error.partial is not None:
                values[str(steps[depth])] = error.partial
            error.partial = cls(**values)
            raise
        return cls(**values)

    def tagged(self, layout: Layout, cls: type[Any], values: dict[str, Any]) -> None:
        names = cls.__struct_fields__
        start = self.position
        count = self.uvarint("the number of tagged fields")
        if not 0 <= count <= min(self.end - self.position, MAX_TAGS):
            limit = min(self.end - self.position, MAX_TAGS)
            self._fail(start, f"at most {limit} tagged fields", str(count))
        known = {tag.tag: tag for tag in layout.tags}
        unknown: list[TaggedField] = []
        last = -1
        for _ in range(count):
            start = self.position
            number = self.uvarint("a tag")
            # Kafka reads the tag 2147483647 and cannot write it.
            self._canonical(
                last < number < 0x7FFFFFFF, start, f"a tag from {last + 1} to {0x7FFFFFFF - 1}", str(number)
            )
            last = number
            at = self.position
            size = self.uvarint("a tagged field's size")
            if number in layout.foreign_tags:
                self._fail(start, "a tag of this version", f"tag {number}, which other versions have")
            if number in known:
                self._known_tag(known[number], size, cls, values)
                continue
            self.place.steps.append(f"unknown_tagged_fields[{len(unknown)}]")
            if size < 0:
                self._fail(at, "a tagged field's size", str(size))
            begin = self.need(size, f"tag {number}")
            unknown.append(TaggedField(number, bytes(self.data[begin : begin + size])))
            self.place.steps.pop()
        if unknown:
            values[names[-1]] = tuple(unknown)

    def _known_tag(self, tag: Any, size: int, cls: type[Any], values: dict[str, Any]) -> None:
        name = cls.__struct_fields__[tag.slot]
        self.place.steps.append(name)
        start = self.position
        value = self.value(tag.code, tag.arg)
        read = self.position - start
        self._canonical(read == size, start, f"a tagged field of {size} bytes", f"one of {read}")
        self._canonical(value != cls.__struct_defaults__[tag.slot], start, "no tagged field at its default", "one")
        values[name] = value
        self.place.steps.pop()
