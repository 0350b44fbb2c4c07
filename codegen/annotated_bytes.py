"""The bytes of a message, each beside the field that it belongs to, for examples in the reference.

The bytes must be accepted by the codec of the message; they are not checked again.
"""

from __future__ import annotations

import json
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.codegen.lower import lower
from kafkawire.codegen.model import MessageModel
from kafkawire.wire.layout import (
    ARRAY,
    BOOL,
    COMPACT,
    FIXED_SIZES,
    FLOAT64,
    INTEGER_RANGES,
    KIND_MASK,
    NULLABLE,
    STRING,
    STRUCT,
    UUID,
    Layout,
)
from kafkawire.wire.read import read_uvarint
from kafkawire.wire.spec import json_name

#: Bytes on one line, and characters of a value.
_BYTES, _VALUE = 8, 60


class Part(NamedTuple):
    """Bytes with one meaning: where they begin, the field by its path in JSON, and its value as text."""

    offset: int
    data: bytes
    field: str
    value: str


def parts(message: MessageModel, version: int, data: bytes) -> list[Part]:
    """The parts of a value's bytes, in order.

    Args:
        message: the model.
        version: one of its versions.
        data: bytes that its codec accepts.
    """
    return list(_ByteWalk(message, data).parts(version))


def lines(found: list[Part], most: int = 60) -> Iterator[str]:
    """Parts as text: offset, bytes in hex, field, value. Long values are cut to their beginning, and long lists to the
    first parts."""
    shown = [_shown(part) for part in found[:most]]
    hex_width, field_width = (max((len(row[at]) for row in shown), default=0) for at in (1, 2))
    yield f"{'offset':>6}  {'bytes':{hex_width}}  {'field':{field_width}}  value".rstrip()
    for offset, octets, field, value in shown:
        yield f"{offset:>6}  {octets:{hex_width}}  {field:{field_width}}  {value}".rstrip()
    if len(found) > most:
        yield f"   ...  {len(found) - most} more"


def _shown(part: Part) -> tuple[str, str, str, str]:
    octets = part.data[:_BYTES].hex(" ") + (" ..." if len(part.data) > _BYTES else "")
    value = part.value if len(part.value) <= _VALUE else part.value[:_VALUE] + "..."
    return f"{part.offset}", octets, part.field, value


class _ByteWalk:
    def __init__(self, message: MessageModel, data: bytes) -> None:
        self.table = lower(message)
        self.structs = (*message.structs, message.root)
        self.data = data
        self.at = 0

    def parts(self, version: int) -> Iterator[Part]:
        root = self.table.roots[version - self.table.first_version]
        return self.struct(self.table.layouts[root], "")

    def part(self, start: int, field: str, value: object) -> Part:
        return Part(start, self.data[start : self.at], field, str(value))

    def uvarint(self) -> int:
        value, self.at = read_uvarint(self.data, self.at)
        return value

    def number(self, size: int, signed: bool = True) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "big", signed=signed)

    def length(self, code: int, size: int) -> int:
        """A length or a count; -1 for null."""
        return self.uvarint() - 1 if code & COMPACT else self.number(size)

    def struct(self, layout: Layout, prefix: str) -> Iterator[Part]:
        fields = self.structs[layout.struct].fields
        for op in layout.ops:
            yield from self.value(op.code, op.arg, prefix + json_name(fields[op.slot].name))
        if not layout.flexible:
            return
        start, known = self.at, {tag.tag: tag for tag in layout.tags}
        count = self.uvarint()
        yield self.part(start, prefix[:-1], f"{count} tagged field{'s' * (count != 1)}")
        for _ in range(count):
            start, tag, size = self.at, self.uvarint(), self.uvarint()
            yield self.part(start, prefix[:-1], f"tag {tag}, {size} byte{'s' * (size != 1)}")
            if tag in known:
                op_ = known[tag]
                yield from self.value(op_.code, op_.arg, prefix + json_name(fields[op_.slot].name))
            else:
                start, self.at = self.at, self.at + size
                yield self.part(start, prefix[:-1], "unknown")

    def value(self, code: int, arg: int, field: str) -> Iterator[Part]:
        start, kind = self.at, code & KIND_MASK
        if code & ARRAY:
            count = self.length(code, 4)
            yield self.part(start, field, "null" if count < 0 else f"{count} element{'s' * (count != 1)}")
            for number in range(count):
                yield from self.value(code & (KIND_MASK | COMPACT), arg, f"{field}[{number}]")
        elif kind == STRUCT:
            if code & NULLABLE:
                present = self.uvarint() > 0 if code & COMPACT else self.number(1) >= 0
                yield self.part(start, field, "present" if present else "null")
                if not present:
                    return
            yield from self.struct(self.table.layouts[arg], f"{field}.")
        elif kind in FIXED_SIZES:
            yield self.fixed(kind, field)
        else:
            size = self.length(code, 2 if kind == STRING else 4)
            self.at += max(size, 0)
            data = self.data[self.at - max(size, 0) : self.at]
            text = json.dumps(data.decode("utf-8", "replace")) if kind == STRING else f"{size} byte{'s' * (size != 1)}"
            yield self.part(start, field, "null" if size < 0 else text)

    def fixed(self, kind: int, field: str) -> Part:
        start, size = self.at, FIXED_SIZES[kind]
        if kind in INTEGER_RANGES:
            return self.part(start, field, self.number(size, INTEGER_RANGES[kind][0] < 0))
        self.at += size
        data = self.data[start : self.at]
        if kind == UUID:
            value: object = urlsafe_b64encode(data).rstrip(b"=").decode()
        elif kind == FLOAT64:
            value = struct.unpack(">d", data)[0]
        else:
            assert kind == BOOL
            value = "true" if data[0] else "false"
        return self.part(start, field, value)
