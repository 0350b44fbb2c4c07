"""The interpreter: executes layouts step by step, and describes errors.

It reads and writes the same bytes as the generated codecs, slower. For bytes or values that it refuses it reports the
place (path and offset), what was expected and what was found. Other engines are tested against it.
"""

from __future__ import annotations

import struct
from operator import index
from typing import Any, NoReturn
from uuid import UUID

import msgspec

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    BYTES,
    COMPACT,
    FIXED_SIZES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INTEGER_RANGES,
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
from kafkawire.wire.values import BOOLS, Buffer, TaggedField, is_octets
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
        """The position, after making sure that `size` bytes are there; moves behind them."""
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


class Encoder:
    """Encodes one value."""

    def __init__(
        self, table: Table, classes: tuple[type[Any], ...], *, message: str = "", version: int | None = None
    ) -> None:
        self.table = table
        self.classes = classes
        self.out = bytearray()
        self.message = message
        self.version = version
        self.place = ValuePath()

    def fail(self, reason: str) -> NoReturn:
        raise EncodeError(reason, path=str(self.place), message=self.message, version=self.version)

    def number(self, kind: int, value: Any) -> None:
        try:
            value = index(value)
        except TypeError:
            self.fail(f"expected {KIND_NAMES[kind]}, got {_type(value)}")
        low, high = INTEGER_RANGES[kind]
        if not low <= value <= high:
            self.fail(f"{shown(value)} is out of the range of {KIND_NAMES[kind]} ({low} to {high})")
        self.out += value.to_bytes(FIXED_SIZES[kind], "big", signed=low < 0)

    def length(self, code: int, n: int, narrow: bool) -> None:
        """Writes a length.

        Args:
            code: of the op.
            n: the length; -1 for null.
            narrow: an int16, not an int32, where it is no varint.
        """
        if code & COMPACT:
            if n >= 0x7FFFFFFF:
                self.fail(f"{n} is too long: the format counts to {0x7FFFFFFF - 1}")
            self.out += uvarint(n + 1)
        else:
            self.number(INT16 if narrow else INT32, n)

    def value(self, code: int, arg: int, value: Any) -> None:
        """Writes a value.

        Args:
            code, arg: of the op.
            value: the value.
        """
        kind = code & KIND_MASK
        array = bool(code & ARRAY)
        if value is None:
            if not code & NULLABLE:
                self.fail(f"null where {'an array' if array else KIND_NAMES[kind]} must be")
            if kind == STRUCT and not array:
                self.out += b"\x00" if code & COMPACT else b"\xff"
            else:
                self.length(code, -1, kind == STRING and not array)
        elif array:
            self.array(code, arg, value)
        elif kind == STRUCT:
            if code & NULLABLE:
                self.out += b"\x01"
            self.struct(self.table.layouts[arg], value)
        elif kind == STRING:
            self.string(code, value)
        elif kind >= BYTES:
            self.octets(value)
            self.length(code, len(value), False)
            self.out += value
        elif kind == BOOL:
            self.out.append(self.flag(value))
        elif kind == UUID_KIND:
            if not isinstance(value, UUID):
                self.fail(f"expected uuid.UUID, got {_type(value)}")
            self.out += value.bytes
        elif kind == FLOAT64:
            try:
                self.out += struct.pack(">d", value)
            except struct.error:
                if isinstance(value, int):
                    self.fail(f"{shown(value)} is out of the range of float64")
                self.fail(f"expected float, got {_type(value)}")
        else:
            self.number(kind, value)

    def flag(self, value: Any) -> bool:
        try:
            return BOOLS[value]
        except (KeyError, TypeError, ValueError):  # some views cannot be hashed
            self.fail(f"expected bool, got {_type(value)}" + (f" {shown(value)}" if isinstance(value, int) else ""))

    def octets(self, value: Any) -> None:
        if not is_octets(value):
            plain = isinstance(value, memoryview)
            self.fail("expected a memoryview of bytes in a row" if plain else f"expected bytes, got {_type(value)}")

    def string(self, code: int, value: Any) -> None:
        if not isinstance(value, str):
            self.fail(f"expected str, got {_type(value)}")
        try:
            raw = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            self.fail(f"character {error.start} is a lone surrogate, which UTF-8 cannot carry")
        if len(raw) > MAX_STRING:
            self.fail(f"{len(raw)} bytes of UTF-8, and the format carries at most {MAX_STRING}")
        self.length(code, len(raw), True)
        self.out += raw

    def array(self, code: int, arg: int, value: Any) -> None:
        """Writes an array that is not null.

        Args:
            code, arg: of the op.
            value: its elements.
        """
        if not isinstance(value, (tuple, list)):
            self.fail(f"expected tuple, got {_type(value)}")
        self.length(code, len(value), False)
        item = code & (KIND_MASK | COMPACT)
        steps = self.place.steps
        for number, element in enumerate(value):
            steps.append(number)
            self.value(item, arg, element)
            steps.pop()

    def struct(self, layout: Layout, value: Any) -> None:
        cls = self.classes[layout.struct]
        names = cls.__struct_fields__
        if value.__class__ is not cls:
            self.fail(f"expected {cls.__name__} of {cls.__module__}, got {_type(value)}")
        steps = self.place.steps
        for slot in layout.absent:
            if getattr(value, names[slot]) != cls.__struct_defaults__[slot]:
                steps.append(names[slot])
                self.fail(f"version {self.version} does not carry this field, and its value is not the default")
        for op in layout.ops:
            steps.append(names[op.slot])
            self.value(op.code, op.arg, getattr(value, names[op.slot]))
            steps.pop()
        if layout.flexible:
            self.tagged(layout, value)
        elif value.unknown_tagged_fields != ():
            steps.append("unknown_tagged_fields")
            self.fail(f"version {self.version} carries no tagged fields")

    def tagged(self, layout: Layout, value: Any) -> None:
        names, defaults = value.__struct_fields__, value.__struct_defaults__
        known = [tag for tag in layout.tags if getattr(value, names[tag.slot]) != defaults[tag.slot]]
        self.check_unknown(layout, value.unknown_tagged_fields)
        count = len(known) + len(value.unknown_tagged_fields)
        if count > MAX_TAGS:
            self.place.steps.append("unknown_tagged_fields")
            self.fail(f"{count} tagged fields, and a reader takes at most {MAX_TAGS}")
        self.out += uvarint(count)
        for tag in known:
            self.place.steps.append(names[tag.slot])
            outer, self.out = self.out, bytearray()
            self.value(tag.code, tag.arg, getattr(value, names[tag.slot]))
            data, self.out = self.out, outer
            self.out += uvarint(tag.tag) + uvarint(len(data)) + data
            self.place.steps.pop()
        for field in value.unknown_tagged_fields:
            self.out += uvarint(field.tag) + uvarint(len(field.data)) + field.data

    def check_unknown(self, layout: Layout, unknown: Any) -> None:
        """Unknown tags must ascend and be none of the schema's; so they come after all known ones."""
        if not isinstance(unknown, (tuple, list)):
            self.place.steps.append("unknown_tagged_fields")
            self.fail(f"expected tuple, got {_type(unknown)}")
        known = {tag.tag for tag in layout.tags}
        last = -1
        for number, field in enumerate(unknown):
            self.place.steps.append(f"unknown_tagged_fields[{number}]")
            if not isinstance(field, TaggedField):
                self.fail(f"expected TaggedField, got {_type(field)}")
            if not isinstance(field.tag, int):
                self.fail(f"{_type(field.tag)} is no tag (0 to {0x7FFFFFFF - 1})")
            if not 0 <= field.tag < 0x7FFFFFFF:
                self.fail(f"{shown(field.tag)} is no tag (0 to {0x7FFFFFFF - 1})")
            if field.tag in known:
                self.fail(f"tag {field.tag} is a field of version {self.version}, not an unknown tag")
            if field.tag in layout.foreign_tags:
                self.fail(f"tag {field.tag} is a field of other versions, which a reader of this one refuses")
            if field.tag <= last:
                self.fail(f"tag {field.tag} follows tag {last}; unknown tags must ascend")
            self.octets(field.data)
            last = field.tag
            self.place.steps.pop()


def shown(number: int) -> str:
    """A number in a reason: Python makes no text of one with thousands of digits."""
    return str(number) if number.bit_length() < 256 else f"a number of {number.bit_length()} bits"


def _type(value: object) -> str:
    return "null" if value is None else type(value).__name__
