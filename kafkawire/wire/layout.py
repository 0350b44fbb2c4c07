"""Layouts ("op tables"): one version of one struct as data.

Lowering (`kafkawire.wire.lowering`) derives a table of layouts for all versions of a message. The interpreter and the
native engine execute them, and whatever else must walk a message (JSON, columns, Wireshark) walks them. A layout knows
neither field names nor versions: a *slot* is the index of a field in its class.

An op's `code` is a kind (0-12) with flags: `COMPACT` (unsigned varint lengths, or, on a struct, the presence byte that
a nullable struct has inside a tagged field), `NULLABLE`, `ARRAY`. `arg` is the index of a struct's layout in its table.
"""

from __future__ import annotations

from typing import NamedTuple

BOOL, INT8, INT16, INT32, INT64, UINT16, UINT32, FLOAT64, UUID, STRING, BYTES, RECORDS, STRUCT = range(13)
KIND_MASK = 15
COMPACT = 16
NULLABLE = 32
ARRAY = 64

#: Name of each kind in the schema language ("struct": the struct's own name is used).
KIND_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes", "records",
    "struct",
)  # fmt: skip

#: Lowest and highest value of the integer kinds.
INTEGER_RANGES = {
    INT8: (-(1 << 7), (1 << 7) - 1),
    INT16: (-(1 << 15), (1 << 15) - 1),
    INT32: (-(1 << 31), (1 << 31) - 1),
    INT64: (-(1 << 63), (1 << 63) - 1),
    UINT16: (0, (1 << 16) - 1),
    UINT32: (0, (1 << 32) - 1),
}

#: Bytes of the kinds whose size does not depend on the value.
FIXED_SIZES = {BOOL: 1, INT8: 1, INT16: 2, INT32: 4, INT64: 8, UINT16: 2, UINT32: 4, FLOAT64: 8, UUID: 16}

#: Bytes in memory of a value of a fixed-size kind (an int that is not one of the small ones Python keeps).
_VALUE_COSTS = {BOOL: 0, FLOAT64: 24, UUID: 112}


def struct_cost(layout: Layout, slots: int) -> int:
    """Bytes in memory of a struct and its fixed-size values: header, slots, and its places in a list and a tuple.

    Nested values are not counted: they have a cost of their own where they are read.
    """
    values = (_VALUE_COSTS.get(op.code, 32) for op in layout.ops if op.code in FIXED_SIZES)
    return 16 + 8 * slots + 20 + sum(values)


class Op(NamedTuple):
    """One field in wire order: what it is, in which slot of the class it lives, and a struct's layout."""

    code: int
    slot: int
    arg: int = 0


class LayoutTag(NamedTuple):
    """One tagged field that the version knows."""

    tag: int
    code: int
    slot: int
    arg: int = 0


class Layout(NamedTuple):
    """One struct in the versions that share its bytes.

    `absent` lists the slots of fields which these versions do not carry and whose non-default values must not be lost
    silently (not `ignorable`); `foreign_tags` the tags that the schema knows in other versions only, which Kafka
    refuses to read. `min_size` is the smallest number of bytes that a value takes.
    """

    struct: int
    flexible: bool
    min_size: int
    ops: tuple[Op, ...]
    tags: tuple[LayoutTag, ...] = ()
    absent: tuple[int, ...] = ()
    foreign_tags: tuple[int, ...] = ()

    def all_ops(self) -> list[Op | LayoutTag]:
        """The fields that the versions carry, tagged ones last."""
        return [*self.ops, *self.tags]


class Table(NamedTuple):
    """All layouts of one message. `roots[i]` is the layout of version `first_version + i`.

    A layout's `struct` is an index into `structs`, the classes' names; nested layouts precede those that use them.
    """

    structs: tuple[str, ...]
    layouts: tuple[Layout, ...]
    first_version: int
    roots: tuple[int, ...]
