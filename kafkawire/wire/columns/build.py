"""From what an engine has walked over to Arrow arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns.inputs import MOST_BYTES, Bytes, Ints
from kafkawire.wire.columns.plan import (
    NONE,
    BlobNode,
    ListNode,
    Node,
    NumberNode,
    NumbersNode,
    Plan,
    StructNode,
)
from kafkawire.wire.columns.schema import ARROW, FieldShape, Shape, Style, field_type, unknown_tags_type
from kafkawire.wire.columns.schema import struct_type as struct_type_of
from kafkawire.wire.layout import BOOL, STRING, UUID

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = NDArray[np.int32]
Numbers = NDArray[Any]
#: A bit for each element, the first the lowest; None where none is null.
Validity = Bytes | None


class Walked(Protocol):
    """What an engine knows once it has walked over all values: gathers any column of its plan.

    An element that has no entry in a column (a tagged field that is not there, a value that was refused) has the
    column's default; `null` says that this is null.
    """

    @property
    def refused(self) -> Ints:
        """Values that the engine did not read, ascending."""

    def count(self, space: int) -> int:
        """Elements of a space."""

    def numbers(self, run: int, offset: int, kind: int, default: Any) -> Numbers:
        """Fixed-size values of a run, as Arrow holds them (bools as bytes, uuids as 16 bytes each)."""

    def arrays(self, blob: int, kind: int, null: bool) -> tuple[Offsets, Validity, Numbers]:
        """Arrays of fixed-size values."""

    def blobs(self, blob: int, null: bool, default: bytes) -> tuple[Offsets, Validity, Bytes]:
        """Strings of bytes."""

    def texts(self, blob: int, null: bool, default: bytes) -> tuple[Offsets, Validity, Bytes, Ints]:
        """Strings of text, and which of them are no UTF-8; those have U+FFFD in place of what is wrong."""

    def ends(self, column: int, null: bool) -> tuple[Offsets, Validity]:
        """Lists."""

    def marks(self, mark: int, null: bool) -> Validity:
        """Which nullable structs are there."""

    def unknown(self, column: int) -> tuple[Offsets, NDArray[np.int32], Offsets, Bytes]:
        """Unknown tagged fields of each element: offsets of their lists; numbers; offsets of their data; data."""


class Built(NamedTuple):
    """The columns of a message, and which values hold text that is no UTF-8."""

    columns: list[pa.Array]
    impure: Ints


def build(plan: Plan, walked: Walked, shape: Shape, style: Style = ARROW) -> Built:
    """The columns of a shape, in its order."""
    builder = _Builder(walked, style)
    columns = builder.struct(plan.root, shape, 0, [])
    impure = np.unique(np.concatenate(builder.impure)) if builder.impure else np.zeros(0, np.int64)
    return Built(columns, impure)


class _Builder:
    def __init__(self, walked: Walked, style: Style) -> None:
        self.walked = walked
        self.style = style
        self.impure: list[Ints] = []

    def struct(self, node: StructNode, shape: Shape, space: int, above: list[Offsets]) -> list[pa.Array]:
        """The fields of a struct. `above` has the offsets of the lists around it, the outermost first."""
        count = self.walked.count(space)
        columns = [
            constant(part, self.style, count) if child is None else self.field(child, part, space, above)
            for part, child in zip(shape.fields, node.fields, strict=True)
        ]
        if shape.unknown_tags:
            columns.append(self.unknown(node.unknown, count))
        return columns

    def field(self, node: Node, part: FieldShape, space: int, above: list[Offsets]) -> pa.Array:
        count = self.walked.count(space)
        type_ = field_type(part, self.style)
        null = part.field.default is None
        if isinstance(node, NumberNode):
            default = part.field.default.bytes if node.kind == UUID else part.field.default
            numbers = self.walked.numbers(node.run, node.offset, node.kind, default)
            return self.values(node.kind, numbers, type_, count)
        if isinstance(node, NumbersNode):
            offsets, validity, numbers = self.walked.arrays(node.blob, node.kind, null)
            items = self.values(node.kind, numbers, type_.value_type, int(offsets[-1]))
            return _array(type_, count, [validity, offsets], [items])
        if isinstance(node, BlobNode):
            return self.blob(node, type_, count, part.field.default, above)
        if isinstance(node, ListNode):
            offsets, validity = self.walked.ends(node.ends, null)
            inside = [*above, offsets]
            if isinstance(node.item, StructNode):
                assert part.struct is not None
                children = self.struct(node.item, part.struct, node.space, inside)
                items = _array(type_.value_type, self.walked.count(node.space), [None], children)
            else:
                assert isinstance(node.item, BlobNode)
                items = self.blob(node.item, type_.value_type, self.walked.count(node.space), b"", inside)
            return _array(type_, count, [validity, offsets], [items])
        assert part.struct is not None
        marks = None if node.mark == NONE else self.walked.marks(node.mark, null)
        return _array(type_, count, [marks], self.struct(node, part.struct, space, above))

    def values(self, kind: int, numbers: Numbers, type_: pa.DataType, count: int) -> pa.Array:
        if kind == UUID and self.style.text_uuids:
            return _uuid_texts(numbers, count)
        if kind == BOOL:
            numbers = np.packbits(numbers, bitorder="little")
        return _array(type_, count, [None, numbers])

    def blob(self, node: BlobNode, type_: pa.DataType, count: int, default: Any, above: list[Offsets]) -> pa.Array:
        null = default is None
        if node.kind != STRING:
            offsets, validity, data = self.walked.blobs(node.blob, null, default or b"")
            return _array(type_, count, [validity, offsets, data])
        octets = (default or "").encode() if isinstance(default, str) else b""
        offsets, validity, data, impure = self.walked.texts(node.blob, null, octets)
        if len(impure):
            self.impure.append(_rows(impure, above))
        return _array(type_, count, [validity, offsets, data])

    def unknown(self, column: int, count: int) -> pa.Array:
        if column == NONE:
            return _no_tags(self.style, count)
        type_ = unknown_tags_type(self.style)
        offsets, tags, places, data = self.walked.unknown(column)
        total = len(tags)
        tag_type, data_type = (field.type for field in type_.value_type)
        children = [_array(tag_type, total, [None, tags]), _array(data_type, total, [None, places, data])]
        return _array(type_, count, [None, offsets], [_array(type_.value_type, total, [None], children)])


def _rows(elements: Ints, above: list[Offsets]) -> Ints:
    """The values that elements belong to."""
    for offsets in reversed(above):
        elements = np.searchsorted(offsets, elements, "right") - 1
    return elements


def constant(part: FieldShape, style: Style, count: int) -> pa.Array:
    """The default of a field, `count` times."""
    import pyarrow as pa

    type_ = field_type(part, style)
    default = part.field.default
    if default is None:
        return pa.nulls(count, type_)
    if part.field.is_array:
        return _no_items(type_, count)
    if part.struct is not None:
        children = [constant(inner, style, count) for inner in part.struct.fields]
        if part.struct.unknown_tags:
            children.append(_no_tags(style, count))
        return _array(struct_type_of(part.struct, style), count, [None], children)
    if part.field.kind == UUID:
        default = str(default) if style.text_uuids else default.bytes
    return pa.repeat(pa.scalar(default, type_), count)


def _no_tags(style: Style, count: int) -> pa.Array:
    """The unknown tags of structs that have none."""
    return _no_items(unknown_tags_type(style), count)


def _no_items(type_: pa.DataType, count: int) -> pa.Array:
    """Empty lists."""
    import pyarrow as pa

    return _array(type_, count, [None, np.zeros(count + 1, np.int32)], [pa.array([], type_.value_type)])


def _uuid_texts(numbers: Numbers, count: int) -> pa.Array:
    """Uuids as text: 8-4-4-4-12 hexadecimal digits."""
    import pyarrow as pa

    octets = numbers.view(np.uint8).reshape(count, 16)
    if 36 * count > MOST_BYTES:
        raise ValueError(f"{count} uuids are more text than one column can hold: give fewer values")
    digits = np.empty((count, 32), np.uint8)
    digits[:, 0::2] = _DIGITS[octets >> 4]
    digits[:, 1::2] = _DIGITS[octets & 15]
    text = np.full((count, 36), ord("-"), np.uint8)
    for begin, end, shift in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        text[:, begin + shift : end + shift] = digits[:, begin:end]
    return _array(pa.string(), count, [None, np.arange(0, 36 * count + 1, 36, dtype=np.int32), text])


_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def _array(type_: pa.DataType, count: int, buffers: list[Any], children: list[pa.Array] | None = None) -> pa.Array:
    import pyarrow as pa

    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(type_, count, held, children=children)
