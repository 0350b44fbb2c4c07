"""Lowering: specs with version ranges -> a message's table of layouts for all versions.

Layouts that are equal are stored once, so versions that share their bytes share their layout, in the root and in every
nested struct.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.wire.layout import (
    ARRAY,
    COMPACT,
    FIXED_SIZES,
    KIND_MASK,
    NULLABLE,
    STRING,
    STRUCT,
    Layout,
    LayoutTag,
    Op,
    Table,
    struct_cost,
)
from kafkawire.wire.limits import ALLOCATION_FACTOR
from kafkawire.wire.spec import Field, MessageSpec, StructSpec


def lower(message: MessageSpec, structs: Sequence[StructSpec]) -> Table:
    """The table of all versions of a message.

    Args:
        message: the spec of the message.
        structs: the specs of its nested structs, each before those that use it.
    """
    lowering = _Lowering(message, (*structs, message))
    roots = tuple(lowering.layout(len(structs), version) for version in message.valid_versions)
    names = tuple(struct.name for struct in lowering.structs)
    return Table(names, tuple(lowering.layouts), message.valid_versions.start, roots)


class _Lowering:
    def __init__(self, message: MessageSpec, structs: tuple[StructSpec, ...]) -> None:
        self.flexible = message.flexible_versions
        self.structs = structs
        self.index = {struct.name: i for i, struct in enumerate(structs)}
        self.layouts: list[Layout] = []
        self.numbers: dict[Layout, int] = {}
        self.done: dict[tuple[int, int], int] = {}

    def layout(self, struct: int, version: int) -> int:
        key = struct, version
        if key not in self.done:
            layout = self.lowered(struct, version)
            if layout not in self.numbers:
                self.numbers[layout] = len(self.layouts)
                self.layouts.append(layout)
            self.done[key] = self.numbers[layout]
        return self.done[key]

    def lowered(self, struct: int, version: int) -> Layout:
        flexible = version in self.flexible
        ops: list[Op] = []
        tags: list[LayoutTag] = []
        absent: list[int] = []
        foreign: list[int] = []
        size = int(flexible)
        for slot, field in enumerate(self.structs[struct].fields):
            tagged = version in field.tagged_versions
            if version in field.versions:
                code = op_code(field, version, flexible)
                arg = self.layout(self.index[field.type.removeprefix("[]")], version) if field.kind == STRUCT else 0
                if tagged:
                    assert field.tag is not None
                    tags.append(LayoutTag(field.tag, code, slot, arg))
                else:
                    ops.append(Op(code, slot, arg))
                    size += smallest(code, self.layouts[arg].min_size if field.kind == STRUCT else 0)
            elif not field.ignorable:
                absent.append(slot)
            if field.tag is not None and not tagged and flexible:
                foreign.append(field.tag)
        return Layout(struct, flexible, size, tuple(ops), tuple(sorted(tags)), tuple(absent), tuple(sorted(foreign)))


def op_code(field: Field, version: int, flexible: bool) -> int:
    """The op of a field in a version that carries it.

    Args:
        field: its spec.
        version: the version.
        flexible: whether the version of the message is flexible.
    """
    code = kind = field.kind
    if field.is_array:
        code |= ARRAY
    if version in field.nullable_versions:
        code |= NULLABLE
    if field.flexible_versions is not None:
        flexible = version in field.flexible_versions
    has_length = field.is_array or (kind not in FIXED_SIZES and kind != STRUCT)
    if flexible and (has_length or (version in field.tagged_versions and code & NULLABLE)):
        # On a struct, COMPACT means that its mark of presence is an unsigned varint: in tagged fields only.
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


def is_guarded(table: Table, layout: Layout, slots: Sequence[int], repeated: bool = False) -> bool:
    """Whether small input could make a decoder without a budget allocate out of proportion.

    That takes structs which cost more than their bytes may, and an array to repeat them. The interpreter keeps count;
    where nothing is guarded it need not, for no input can exceed the limit.

    Args:
        table: all layouts.
        layout: the one to look at.
        slots: the number of slots of each class.
        repeated: whether it is an element of an array, or in one.
    """
    for op in layout.all_ops():
        if op.code & KIND_MASK != STRUCT:
            continue
        inner = table.layouts[op.arg]
        again = repeated or bool(op.code & ARRAY)
        optional = isinstance(op, LayoutTag) or op.code & NULLABLE
        alone = op.code & ARRAY or optional
        size = inner.min_size + (1 if optional else 0)
        costs = again and alone and _cost(table, inner, slots) > ALLOCATION_FACTOR * size
        if costs or is_guarded(table, inner, slots, again):
            return True
    return False


def _cost(table: Table, layout: Layout, slots: Sequence[int]) -> int:
    """Bytes in memory of a struct whose optional and variable parts are all empty."""
    nested = (table.layouts[op.arg] for op in layout.ops if op.code == STRUCT)
    return struct_cost(layout, slots[layout.struct]) + sum(_cost(table, inner, slots) for inner in nested)
