"""Lowering: a message with version ranges -> its table of layouts. Every version decision is made here.

Layouts that are equal are stored once, so versions that share their bytes share their layout, in the root and in every
nested struct.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.codegen.model import Field, Message, Struct
from kafkawire.wire.layout import (
    ARRAY,
    COMPACT,
    FIXED_SIZES,
    KIND_MASK,
    NULLABLE,
    STRING,
    STRUCT,
    Layout,
    Op,
    Table,
    Tag,
)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A message and its table. `since[i]` is the lowest version that uses layout `i`."""

    message: Message
    structs: tuple[Struct, ...]
    table: Table
    since: tuple[int, ...]


def lower(message: Message) -> Lowered:
    """The table of all versions of a message."""
    structs = (*message.structs, message.root)
    builder = _Builder(message, structs)
    roots = tuple(builder.layout(len(structs) - 1, version) for version in message.valid)
    table = Table(tuple(struct.name for struct in structs), tuple(builder.layouts), message.valid.low, roots)
    return Lowered(message, structs, table, tuple(builder.since))


class _Builder:
    def __init__(self, message: Message, structs: tuple[Struct, ...]) -> None:
        self.message = message
        self.structs = structs
        self.index = {struct.name: i for i, struct in enumerate(structs)}
        self.layouts: list[Layout] = []
        self.since: list[int] = []
        self.positions: dict[Layout, int] = {}
        self.done: dict[tuple[int, int], int] = {}

    def layout(self, struct: int, version: int) -> int:
        key = struct, version
        if key not in self.done:
            self.done[key] = self.store(self.lowered(struct, version), version)
        return self.done[key]

    def store(self, layout: Layout, version: int) -> int:
        if layout not in self.positions:
            self.positions[layout] = len(self.layouts)
            self.layouts.append(layout)
            self.since.append(version)
        return self.positions[layout]

    def lowered(self, struct: int, version: int) -> Layout:
        flexible = version in self.message.flexible
        ops: list[Op] = []
        tags: list[Tag] = []
        absent: list[int] = []
        foreign: list[int] = []
        for slot, field in enumerate(self.structs[struct].fields):
            tagged = version in field.tagged
            if version in field.versions:
                code = op_code(field, version, tagged)
                arg = self.layout(self.index[field.type.struct], version) if field.type.struct else 0
                if tagged:
                    assert field.tag is not None
                    tags.append(Tag(field.tag, code, slot, arg))
                else:
                    ops.append(Op(code, slot, arg))
            elif not field.ignorable:
                absent.append(slot)
            if field.tag is not None and not tagged and flexible:
                foreign.append(field.tag)
        size = sum(self.op_size(op) for op in ops) + flexible
        return Layout(struct, flexible, size, tuple(ops), tuple(sorted(tags)), tuple(absent), tuple(sorted(foreign)))

    def op_size(self, op: Op) -> int:
        return smallest(op.code, self.layouts[op.arg].min_size if op.code & KIND_MASK == STRUCT else 0)


def op_code(field: Field, version: int, tagged: bool) -> int:
    """The op of a field in a version that carries it."""
    kind, array = field.type.kind, field.type.array
    code = kind
    if array:
        code |= ARRAY
    if version in field.nullable:
        code |= NULLABLE
    lengthy = array or (kind not in FIXED_SIZES and kind != STRUCT)
    if version in field.flexible and (lengthy or (tagged and code & NULLABLE)):
        # On a struct, COMPACT says that its mark of presence is an unsigned varint: so it is in tagged fields only.
        code |= COMPACT
    return code


def smallest(code: int, struct_size: int) -> int:
    """The smallest number of bytes that an op's value takes."""
    kind = code & KIND_MASK
    if code & ARRAY:
        return 1 if code & COMPACT else 4
    if kind == STRUCT:
        return 1 if code & NULLABLE else struct_size
    if kind in FIXED_SIZES:
        return FIXED_SIZES[kind]
    return 1 if code & COMPACT else 2 if kind == STRING else 4
