"""`plan`: what an engine has to read, and what it has to keep."""

from __future__ import annotations

import tracemalloc

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from kafkawire.messages import ListTransactionsRequest, TransactionLogValue
from kafkawire.wire.columns import decode_structs
from kafkawire.wire.columns.plan import BLOBS, LIST, NONE, make_plan
from kafkawire.wire.columns.schema import Shape, shape_of
from kafkawire.wire.layout import ARRAY, BYTES, COMPACT, INT32, STRING, STRUCT, Layout, Op, Table
from kafkawire.wire.write import uvarint
from tests.wire.column_engines import ENGINES

pytestmark = pytest.mark.slow


def test_the_least_bytes_of_a_lists_element() -> None:
    structs = (Layout(1, False, 0, ()), Layout(2, False, 5, (Op(INT32, 0), Op(STRING | COMPACT, 1))))
    codes = (STRING | COMPACT, BYTES | COMPACT, STRING, BYTES)
    ops = tuple(Op(ARRAY | code, slot) for slot, code in enumerate(codes))
    ops += (Op(ARRAY | STRUCT, 4, 0), Op(ARRAY | STRUCT, 5, 1))
    table = Table(("Outer", "Empty", "Inner"), (*structs, Layout(0, False, 24, ops)), 0, (2,))
    steps = make_plan(table, 2, Shape((), False)).walks[-1].steps
    assert [(step.what, step.column, step.size) for step in steps] == [
        *((BLOBS, NONE, size) for size in (1, 1, 2, 4)),
        *((LIST, NONE, size) for size in (1, 5)),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1 << 10, 1 << 14, (1 << 31) - 2])
def test_a_claimed_list_of_strings_costs_nothing(engine: str, count: int) -> None:
    data = uvarint(count + 1) + bytes((1, 1, 1, 1))
    decode_structs(ListTransactionsRequest, [data], 0, engine=ENGINES[engine])
    tracemalloc.start()
    try:
        decoded = decode_structs(ListTransactionsRequest, [data] * 64, 0, engine=ENGINES[engine])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(decoded.errors) == 64
    assert peak < 512 << 10


@pytest.mark.parametrize(("version", "wanted", "kept"), [(1, True, 2), (1, False, 0), (0, True, 0), (0, False, 0)])
def test_unknown_tags_are_kept_where_they_are_wanted_and_can_be(version: int, wanted: bool, kept: int) -> None:
    table = TransactionLogValue.codec.table
    shape = shape_of(TransactionLogValue.spec, unknown_tags=wanted)
    plan = make_plan(table, table.roots[version - table.first_version], shape)
    assert len(plan.unknown) == kept
    assert sum(walk.unknown != NONE for walk in plan.walks) == kept
    assert {walk.flexible for walk in plan.walks} == {version == 1}


def test_what_is_not_asked_for_has_no_columns() -> None:
    table = TransactionLogValue.codec.table
    shape = shape_of(TransactionLogValue.spec, ["producer_id"], unknown_tags=False)
    plan = make_plan(table, table.roots[1], shape)
    (number,) = plan.numbers
    assert (plan.runs[number.run].space, number.offset, len(plan.runs)) == (0, 0, 1)
    assert (plan.blobs, plan.arrays, plan.lists, plan.marks, plan.unknown) == ((), (), (), (), ())
    assert plan.spaces == 1
