"""The interpreter's encoder: writes values by layouts step by step, and describes what it refuses."""

from __future__ import annotations

import struct
from operator import index
from typing import Any, NoReturn
from uuid import UUID

from kafkawire.errors import EncodeError
from kafkawire.wire.interpreter import ValuePath
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    BYTES,
    COMPACT,
    FIXED_SIZES,
    FLOAT64,
    INT16,
    INT32,
    INTEGER_RANGES,
    KIND_MASK,
    KIND_NAMES,
    NULLABLE,
    STRING,
    STRUCT,
    Layout,
    Table,
)
from kafkawire.wire.layout import UUID as UUID_KIND
from kafkawire.wire.limits import MAX_STRING, MAX_TAGS
from kafkawire.wire.values import BOOLS, TaggedField, is_octets
from kafkawire.wire.write import uvarint


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
    """A number as text in a reason; Python refuses to convert one with thousands of digits."""
    return str(number) if number.bit_length() < 256 else f"a number of {number.bit_length()} bits"


def _type(value: object) -> str:
    return "null" if value is None else type(value).__name__
