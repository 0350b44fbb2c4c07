"""Columns of bytes to rows of one schema, and back: every message, without a Spark session."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from msgspec import to_builtins

import kafkawire
from kafkawire.errors import EncodeError
from kafkawire.messages import EndTransactionRecord, TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.spark.functions.column_codec import ERROR, FunctionOptions, arrow_type, encoded, messages_of
from kafkawire.testing.comparison import carried
from kafkawire.testing.strategies import messages
from kafkawire.wire import columns
from kafkawire.wire.columns.objects import clean
from kafkawire.wire.columns.schema import SPARK
from kafkawire.wire.layout import STRING


def without_unknown_tags(cls: Any, value: Any) -> Any:
    """The value with only what a row carries: text that is no UTF-8 is replaced in it."""
    changes = {}
    for field in cls.spec.fields:
        held = getattr(value, field.attribute)
        items = held if field.is_array else (held,)
        if held is not None and field.struct is not None:
            items = tuple(without_unknown_tags(field.struct, item) for item in items)
        elif held is not None and field.kind == STRING:
            items = tuple(clean(item) for item in items)
        changes[field.attribute] = held if held is None else tuple(items) if field.is_array else items[0]
    return cls(**changes)


@st.composite
def any_message(draw: st.DrawFn) -> Any:
    cls = kafkawire.lookup(draw(st.sampled_from(kafkawire.messages.__all__)))
    version = draw(st.sampled_from(cls.spec.valid_versions))
    return draw(messages(cls, version)), version


@pytest.mark.slow
@given(any_message())
def test_every_message_goes_through_a_row(case: Any) -> None:
    value, version = case
    cls = type(value)
    asked = columns.shape(cls, unknown_tags=False)
    decoded = columns.decode_structs(cls, [value.encode(version)], version, asked=asked, style=SPARK)
    assert decoded.array.type == arrow_type(cls.spec)
    (back,) = messages_of(cls, decoded.array)
    # As text: NaN is not equal to itself.
    assert repr(to_builtins(back)) == repr(to_builtins(without_unknown_tags(cls, carried(value, version))))


def test_fields_are_found_by_any_of_their_names() -> None:
    type_ = pa.struct([("ProducerId", pa.int64()), ("producerEpoch", pa.int16()), (ERROR, pa.string())])
    rows = pa.array([{"ProducerId": 5, "producerEpoch": 6, ERROR: "x"}, None], type_)
    assert messages_of(TransactionLogValue, rows) == [TransactionLogValue(producer_id=5, producer_epoch=6), None]


def test_a_message_without_fields_goes_through_rows() -> None:
    rows = pa.array([{}, None, {}], pa.struct([]))
    assert messages_of(EndTransactionRecord, rows) == [EndTransactionRecord(), None, EndTransactionRecord()]
    asked = columns.shape(EndTransactionRecord, unknown_tags=False)
    decoded = columns.decode_structs(EndTransactionRecord, [b"\0", b"\0"], 0, asked=asked, style=SPARK).array
    assert encoded("EndTransactionRecord", FunctionOptions(), decoded, 0).to_pylist() == [b"\0", b"\0"]


def test_accepts_a_slice_of_a_column() -> None:
    """Spark hands on slices."""
    asked = columns.shape(TransactionLogValue, unknown_tags=False)
    values = [
        TransactionLogValue(
            producer_id=n,
            transaction_partitions=None if n % 3 == 0 else (PartitionsSchema(f"t{n}", tuple(range(n))),) * (n % 4),
        )
        for n in range(12)
    ]
    encoded = [value.encode(1) if n % 5 else None for n, value in enumerate(values)]
    decoded = columns.decode_structs(TransactionLogValue, encoded, 1, asked=asked, style=SPARK).array
    expected = [value if n % 5 else None for n, value in enumerate(values)]
    for start in range(12):
        assert messages_of(TransactionLogValue, decoded.slice(start, 5)) == expected[start : start + 5]
    assert messages_of(TransactionLogValue, decoded.slice(4, 0)) == []


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.struct([("nonsense", pa.int64())]), "TransactionLogValue has no such field"),
        (pa.struct([("transaction_partitions", pa.int64())]), "transaction_partitions: needs an array, not int64"),
        (
            pa.struct([("transaction_partitions", pa.list_(pa.int64()))]),
            r"transaction_partitions\[\]: needs a struct, not int64",
        ),
        (
            pa.struct([("transaction_partitions", pa.list_(pa.struct([("x", pa.int64())])))]),
            r"transaction_partitions\[\].x: PartitionsSchema has no such field",
        ),
    ],
)
def test_rows_of_another_shape_are_refused(type_: pa.StructType, text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        messages_of(TransactionLogValue, pa.array([], type_))
