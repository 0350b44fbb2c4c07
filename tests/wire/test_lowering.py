"""`lowering`: specs -> layouts."""

from __future__ import annotations

import pytest

from kafkawire.messages import REGISTRY, FetchRequest, MetadataResponse, RequestHeader
from kafkawire.wire.layout import ARRAY, COMPACT, INT32, NULLABLE, STRING, STRUCT, Layout, LayoutTag, Op
from kafkawire.wire.lowering import is_guarded, lower, op_code, smallest
from kafkawire.wire.spec import Field, MessageSpec, StructSpec

POINT = StructSpec("Point", (Field("X", "x", "int32", range(4)), Field("Y", "y", "string", range(1, 4))))
SPEC = MessageSpec(
    "Drawing",
    (
        Field("Points", "points", "[]Point", range(4), nullable_versions=range(2, 4)),
        Field("Title", "title", "string", range(2, 4), tagged_versions=range(3, 4), tag=0),
        Field("Old", "old", "int32", range(1), ignorable=True),
    ),
    kind="data",
    family="data",
    valid_versions=range(4),
    flexible_versions=range(2, 4),
)


def test_versions_of_one_layout_share_it() -> None:
    table = lower(SPEC, (POINT,))
    assert table.structs == ("Point", "Drawing")
    assert (table.first_version, len(table.roots)) == (0, 4)
    assert table.layouts[table.roots[0]] == Layout(1, False, 8, (Op(STRUCT | ARRAY, 0, 0), Op(INT32, 2)), absent=(1,))
    assert table.layouts[table.roots[1]] == Layout(1, False, 4, (Op(STRUCT | ARRAY, 0, 2),), absent=(1,))
    points = Op(STRUCT | ARRAY | COMPACT | NULLABLE, 0, 4)
    assert table.layouts[table.roots[2]] == Layout(1, True, 3, (points, Op(STRING | COMPACT, 1)), foreign_tags=(0,))
    assert table.layouts[table.roots[3]] == Layout(1, True, 2, (points,), (LayoutTag(0, STRING | COMPACT, 1),))
    assert table.layouts[0] == Layout(0, False, 4, (Op(INT32, 0),), absent=(1,))


def test_nested_layouts_stand_before_those_that_use_them() -> None:
    for entry in REGISTRY:
        table = REGISTRY.load(entry).codec.table
        assert len(set(table.layouts)) == len(table.layouts)
        for number, layout in enumerate(table.layouts):
            assert all(op.arg < number for op in layout.all_ops() if op.code & 15 == STRUCT)


def test_length_of_a_field_may_be_classic_in_flexible_versions() -> None:
    field = RequestHeader.spec.field("ClientId")
    assert op_code(field, 2, flexible=True) == STRING | NULLABLE
    assert op_code(MetadataResponse.spec.field("ClusterId"), 9, flexible=True) == STRING | COMPACT | NULLABLE


@pytest.mark.parametrize(
    ("code", "size"),
    [
        (INT32, 4), (STRING, 2), (STRING | COMPACT, 1), (INT32 | ARRAY, 4), (INT32 | ARRAY | COMPACT, 1), (STRUCT, 7),
        (STRUCT | NULLABLE, 1), (STRUCT | ARRAY, 4), (10, 4),
    ],
)  # fmt: skip
def test_smallest_value_of_an_op(code: int, size: int) -> None:
    assert smallest(code, 7) == size


def test_structs_that_cost_far_more_than_their_bytes_are_guarded() -> None:
    table = lower(SPEC, (POINT,))
    root = table.layouts[table.roots[0]]
    assert not is_guarded(table, root, (3, 4))
    assert is_guarded(table, root, (40, 4))  # an element of 4 bytes with 40 slots


def test_layout_of_a_nested_struct() -> None:
    topics = FetchRequest.spec.field("Topics").struct
    partitions = topics.spec.field("Partitions").struct
    codec = FetchRequest.codec
    assert codec.layout_of(FetchRequest, 5) == codec.layout(5)
    layout = codec.layout_of(partitions, 5)
    assert codec.classes[layout.struct] is partitions
    assert len(layout.ops) == 4
    with pytest.raises(LookupError):
        codec.layout_of(FetchRequest.spec.field("ForgottenTopicsData").struct, 0)
