"""The columns of a plan, as the native engine fills them, -> Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns.inputs import MOST_BYTES, Bytes, Ints
from kafkawire.wire.columns.plan import NONE, ArrayNode, BlobNode, LayoutPlan, ListNode, Node, NumberNode, StructNode
from kafkawire.wire.columns.schema import (
    ARROW,
    ArrowStyle,
    FieldShape,
    Shape,
    field_type,
    field_types,
    struct_type,
    unknown_tags_type,
)
from kafkawire.wire.layout import BOOL, UUID

if TYPE_CHECKING:
    import pyarrow as pa


#: One more than there are elements; the first is 0.
Offsets: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[Any]
#: A bit for each element, the first the lowest; None where none is null.
Validity: TypeAlias = Bytes | None

#: Strings and their bytes; and which texts are no UTF-8: those have U+FFFD in place of what is wrong.
Blobs: TypeAlias = tuple[Offsets, Validity, Bytes, Ints]


class PlanColumns(NamedTuple):
    """The columns of a plan, in its order, in buffers as Arrow holds them.

    Attributes:
        refused: values that the engine did not read, ascending; their entries mean nothing.
        counts: elements of each space.
        numbers: bools as bytes, uuids as 16 bytes each, unsigned integers in the next wider type.
        blobs: see `Blobs`.
        arrays: offsets, validity, the numbers of all arrays.
        lists: offsets, validity.
        marks: validity.
        unknown: unknown tagged fields: offsets of each element's list of them, their tags, offsets of their data, data.
    """

    refused: Ints
    counts: Sequence[int]
    numbers: Sequence[Numbers]
    blobs: Sequence[Blobs]
    arrays: Sequence[tuple[Offsets, Validity, Numbers]]
    lists: Sequence[tuple[Offsets, Validity]]
    marks: Sequence[Validity]
    unknown: Sequence[tuple[Offsets, NDArray[np.int32], Offsets, Bytes]]


class Built(NamedTuple):
    """The columns of a message, and which values hold text that is no UTF-8."""

    columns: list[pa.Array]
    impure: Ints


def build(plan: LayoutPlan, filled: PlanColumns, shape: Shape, style: ArrowStyle = ARROW) -> Built:
    """The columns of a shape, in its order.

    Args:
        plan: of a layout and the shape.
        filled: what an engine has read by it.
        shape: the selected fields.
        style: of the Arrow types.
    """
    builder = _Builder(filled, style)
    columns = builder.struct(plan.root, shape, 0, [])
    impure = np.unique(np.concatenate(builder.impure)) if builder.impure else np.zeros(0, np.int64)
    return Built(columns, impure)


class _Builder:
    def __init__(self, filled: PlanColumns, style: ArrowStyle) -> None:
        self.filled = filled
        self.style = style
        self.impure: list[Ints] = []

    def struct(self, node: StructNode, shape: Shape, space: int, above: list[Offsets]) -> list[pa.Array]:
        """The fields of a struct. `above` has the offsets of the lists around it, the outermost first."""
        count = self.filled.counts[space]
        columns = [
            _constant(part, self.style, count) if child is None else self.field(child, part, type_, count, space, above)
            for part, child, type_ in zip(shape.fields, node.fields, field_types(shape, self.style), strict=True)
        ]
        if shape.unknown_tags:
            columns.append(self.unknown(node.unknown, count))
        return columns

    def field(
        self, node: Node, part: FieldShape, type_: pa.DataType, count: int, space: int, above: list[Offsets]
    ) -> pa.Array:
        filled = self.filled
        if isinstance(node, NumberNode):
            return self.numbers(node.kind, filled.numbers[node.column], type_, count)
        if isinstance(node, BlobNode):
            return self.blob(filled.blobs[node.column], type_, count, above)
        if isinstance(node, ArrayNode):
            offsets, validity, numbers = filled.arrays[node.column]
            items = self.numbers(node.kind, numbers, type_.value_type, int(offsets[-1]))
            return _array(type_, count, [validity, offsets], [items])
        if isinstance(node, ListNode):
            offsets, validity = filled.lists[node.column]
            inside, inner = [*above, offsets], filled.counts[node.space]
            if isinstance(node.item, StructNode):
                assert part.struct is not None
                children = self.struct(node.item, part.struct, node.space, inside)
                items = _array(type_.value_type, inner, [None], children)
            else:
                assert isinstance(node.item, BlobNode)
                items = self.blob(filled.blobs[node.item.column], type_.value_type, inner, inside)
            return _array(type_, count, [validity, offsets], [items])
        assert part.struct is not None
        marks = None if node.mark == NONE else filled.marks[node.mark]
        return _array(type_, count, [marks], self.struct(node, part.struct, space, above))

    def numbers(self, kind: int, numbers: Numbers, type_: pa.DataType, count: int) -> pa.Array:
        if kind == UUID and self.style.text_uuids:
            return _uuid_texts(numbers, count)
        if kind == BOOL:
            numbers = np.packbits(numbers, bitorder="little")
        return _array(type_, count, [None, numbers])

    def blob(self, blobs: Blobs, type_: pa.DataType, count: int, above: list[Offsets]) -> pa.Array:
        offsets, validity, data, impure = blobs
        if len(impure):
            self.impure.append(_rows(impure, above))
        return _array(type_, count, [validity, offsets, data])

    def unknown(self, column: int, count: int) -> pa.Array:
        if column == NONE:
            return _no_tags(self.style, count)
        type_ = unknown_tags_type(self.style)
        offsets, tags, places, data = self.filled.unknown[column]
        total = len(tags)
        tag_type, data_type = (field.type for field in type_.value_type)
        children = [_array(tag_type, total, [None, tags]), _array(data_type, total, [None, places, data])]
        return _array(type_, count, [None, offsets], [_array(type_.value_type, total, [None], children)])


def _rows(elements: Ints, above: list[Offsets]) -> Ints:
    """The values that elements belong to."""
    for offsets in reversed(above):
        elements = np.searchsorted(offsets, elements, "right") - 1
    return elements


def _constant(part: FieldShape, style: ArrowStyle, count: int) -> pa.Array:
    """The default of a field, `count` times."""
    import pyarrow as pa

    type_ = field_type(part, style)
    default = part.field.default
    if default is None:
        return pa.nulls(count, type_)
    if part.field.is_array:
        return _no_items(type_, count)
    if part.struct is not None:
        children = [_constant(inner, style, count) for inner in part.struct.fields]
        if part.struct.unknown_tags:
            children.append(_no_tags(style, count))
        return _array(struct_type(part.struct, style), count, [None], children)
    if part.field.kind == UUID:
        default = str(default) if style.text_uuids else default.bytes
    return pa.repeat(pa.scalar(default, type_), count)


def _no_tags(style: ArrowStyle, count: int) -> pa.Array:
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
