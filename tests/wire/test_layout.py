"""`layout`: the numbers that all engines go by."""

from __future__ import annotations

from kafkawire.wire import layout
from kafkawire.wire.layout import ARRAY, BOOL, FLOAT64, INT8, STRING, UUID, Layout, LayoutTag, Op, struct_cost


def test_kinds_have_the_ranges_and_sizes_of_their_names() -> None:
    kinds = {name: kind for kind, name in enumerate(layout.KIND_NAMES)}
    for name, (low, high) in {
        "int8": (-128, 127),
        "int16": (-32768, 32767),
        "int32": (-2147483648, 2147483647),
        "int64": (-9223372036854775808, 9223372036854775807),
        "uint16": (0, 65535),
        "uint32": (0, 4294967295),
    }.items():
        assert layout.INTEGER_RANGES[kinds[name]] == (low, high)
        assert layout.FIXED_SIZES[kinds[name]] == (high - low + 1).bit_length() // 8
    assert [layout.FIXED_SIZES[kind] for kind in (BOOL, FLOAT64, UUID)] == [1, 8, 16]
    assert (len(layout.INTEGER_RANGES), len(layout.FIXED_SIZES)) == (6, 9)


def test_what_an_op_without_a_struct_is() -> None:
    assert Op(STRING, 3) == (STRING, 3, 0)
    assert LayoutTag(7, STRING, 3) == (7, STRING, 3, 0)
    plain = Layout(0, False, 1, (Op(BOOL, 0),))
    assert (plain.tags, plain.absent, plain.foreign_tags, plain.all_ops()) == ((), (), (), [Op(BOOL, 0)])


def test_what_a_struct_costs() -> None:
    # 16 of its head, 20 of its places in a list and a tuple, 8 a slot; values that have a size of their own beside it.
    for code, value in ((BOOL, 0), (INT8, 32), (FLOAT64, 24), (UUID, 112), (STRING, 0), (INT8 | ARRAY, 0)):
        assert struct_cost(Layout(0, False, 1, (Op(code, 0),)), 2) == 16 + 20 + 16 + value
    assert struct_cost(Layout(0, True, 1, ()), 5) == 16 + 20 + 40
