"""What columns are made of, and what is asked for: buffers, offsets, Arrow arrays, versions, names of columns."""

from __future__ import annotations

import sys
from array import array
from typing import Any
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import kafkawire
from kafkawire import columns
from kafkawire.errors import MissingExtraError, UnsupportedVersionError
from kafkawire.messages import (
    FetchResponse,
    ListGroupsRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition, OffsetForLeaderTopic
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.testing.strategies import messages
from kafkawire.wire.columns import build, decode_structs, inputs
from kafkawire.wire.columns.decoding import ENGINE
from kafkawire.wire.columns.schema import SPARK, UNKNOWN_TAGS, shape_of
from kafkawire.wire.message import Message
from kafkawire.wire.values import TaggedField
from tests import golden
from tests.every import for_each
from tests.wire.column_engines import PREFIX, check

pytestmark = pytest.mark.slow

VALUES = [
    TransactionLogValue(producer_id=i, transaction_partitions=(PartitionsSchema("t", (i,)),) * (i % 3))
    for i in range(10)
]
DATA = [value.encode(1) for value in VALUES]
JOINED = b"".join(DATA)
OFFSETS = np.cumsum([0, *map(len, DATA)])
EXPECTED = columns.decode(TransactionLogValue, DATA, 1)


def decoded(values: Any, version: Any = 1, **options: Any) -> pa.RecordBatch:
    batch = columns.decode(TransactionLogValue, values, version, **options)
    batch.validate(full=True)
    return batch


# Values --------------------------------------------------------------------------------------------------------------


def test_a_batch() -> None:
    assert EXPECTED.num_rows == len(DATA)
    assert EXPECTED.column("producer_id").to_pylist() == list(range(10))
    assert EXPECTED.column("transaction_partitions").to_pylist()[2] == [
        {"topic": "t", "partition_ids": [2], UNKNOWN_TAGS: []}
    ] * 2  # fmt: skip
    assert EXPECTED.column(columns.VERSION).to_pylist() == [1] * 10
    assert EXPECTED.column(columns.ERROR).null_count == 10


@pytest.mark.parametrize(
    "values",
    [
        [bytearray(data) for data in DATA],
        [memoryview(data) for data in DATA],
        [memoryview(array("b", data)) for data in DATA],
        [memoryview(array("h", data)) if len(data) % 2 == 0 else data for data in DATA],
        tuple(DATA),
        (data for data in DATA),
        pa.array(DATA, pa.binary()),
        pa.array(DATA, pa.large_binary()),
        pa.array(DATA, pa.binary_view()),
        pa.array([b"x", *DATA, b"y"], pa.binary()).slice(1, 10),
        pa.chunked_array([DATA[:4], [], DATA[4:]], pa.binary()),
    ],
    ids=lambda values: type(values).__name__,
)
def test_values_in_any_form(values: Any) -> None:
    assert decoded(values).equals(EXPECTED)


def test_views_of_other_items_are_read_as_their_bytes() -> None:
    marker = kafkawire.messages.EndTxnMarker
    data = b"\0\0\0\7"
    views = [
        memoryview(data).cast("i"),
        memoryview(array("h", data)),
        memoryview(bytes(byte for one in data for byte in (one, 9)))[::2],
        memoryview(data).cast("B", (2, 2)),
    ]
    for buffers in (views, [None, *views], [data, *views], [data, *views[:2], None], [views[2]]):
        batch = columns.decode(marker, buffers, 0)
        assert batch.column("coordinator_epoch").to_pylist() == [None if one is None else 7 for one in buffers]
    for view in views:
        assert columns.decode(marker, view, 0, offsets=[0, 4]).column("coordinator_epoch").to_pylist() == [7]
    (error,) = columns.decode(marker, [memoryview(b"?").cast("B", ())], 0).column(columns.ERROR).to_pylist()
    assert error.endswith("expected 4 bytes of int32, found 1 before the end")


class Arrow:
    """What can be made an Arrow array of, and is none."""

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        return pa.array(DATA, pa.binary())


def test_what_can_become_an_arrow_array() -> None:
    assert decoded(Arrow()).equals(EXPECTED)


# What one column can hold: 2 GiB, here less --------------------------------------------------------------------------


def test_more_bytes_than_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BYTES", len(JOINED) - 1)
    with pytest.raises(ValueError, match=rf"^{len(JOINED)} bytes of values are more .* \({len(JOINED) - 1}\): give"):
        decoded(DATA)
    assert decoded(DATA[1:]).num_rows == 9
    monkeypatch.setattr(inputs, "MOST_BYTES", len(JOINED))
    assert decoded(DATA).equals(EXPECTED)


def test_few_values_of_a_large_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions count from the first value that is there."""
    monkeypatch.setattr(inputs, "MOST_BYTES", len(JOINED))
    large = bytes(1000) + JOINED + bytes(1000)
    assert decoded(large, offsets=OFFSETS + 1000).equals(EXPECTED)
    values = inputs.read_values(large, OFFSETS + 1000)
    assert (values.data.tobytes(), values.starts.tolist(), values.ends[-1]) == (
        JOINED,
        OFFSETS[:-1].tolist(),
        len(JOINED),
    )
    some = pa.array([bytes(1000), None, *DATA[:2], None, bytes(len(JOINED))], pa.binary()).slice(1, 4)
    values = inputs.read_values(some)
    assert values.data.tobytes() == JOINED[: OFFSETS[2]]
    assert values.starts.tolist() == [inputs.MISSING, 0, OFFSETS[1], inputs.MISSING]
    assert decoded(some).column("producer_id").to_pylist() == [None, 0, 1, None]
    assert decoded(pa.array([bytes(5000), None], pa.binary()).slice(1, 1)).column("producer_id").to_pylist() == [None]
    assert decoded(large, offsets=[5]).num_rows == 0


@pytest.mark.skipif(ENGINE is None, reason="the native engine is not installed")
def test_more_uuids_as_text_than_one_column_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [MetadataResponse(topics=(MetadataResponseTopic(topic_id=UUID(int=i)),)).encode(12) for i in range(4)]
    monkeypatch.setattr(build, "MOST_BYTES", 144)
    assert len(decode_structs(MetadataResponse, topics, 12, style=SPARK).array) == 4
    monkeypatch.setattr(build, "MOST_BYTES", 143)
    with pytest.raises(ValueError, match="4 uuids are more text than one column can hold"):
        decode_structs(MetadataResponse, topics, 12, style=SPARK)


@pytest.mark.skipif(ENGINE is None, reason="the native engine is not installed")
def test_engine_refuses_2_gib_of_values_that_are_there() -> None:
    plans: list[Any] = []

    def engine(plan: Any, values: inputs.ValueBytes) -> Any:
        plans.append(plan)
        return ENGINE(plan, values)  # type: ignore[misc]

    decode_structs(TransactionLogValue, DATA, 1, engine=engine)
    data, starts, ends = np.zeros(1, np.uint8), np.array([inputs.MISSING]), np.array([2**31])
    assert engine(plans[0], inputs.ValueBytes(data, starts, ends)).refused.tolist() == [0]
    with pytest.raises(ValueError, match="less than 2 GiB"):
        engine(plans[0], inputs.ValueBytes(data, starts + 1, ends))


@pytest.mark.parametrize("buffer", [JOINED, bytearray(JOINED), memoryview(JOINED), np.frombuffer(JOINED, np.uint8)])
@pytest.mark.parametrize("kind", [list, np.int32, np.int64, np.uint64, pa.array])
def test_one_buffer_with_offsets(buffer: Any, kind: Any) -> None:
    offsets = kind(OFFSETS) if kind is not list else OFFSETS.tolist()
    assert decoded(buffer, offsets=offsets).equals(EXPECTED)
    shifted = b"??" + bytes(buffer) + b"!"
    assert decoded(shifted, offsets=OFFSETS + 2).equals(EXPECTED)


def test_bytes_of_a_fixed_size() -> None:
    markers = [kafkawire.messages.EndTxnMarker(coordinator_epoch=i).encode_prefixed(0) for i in range(5)]
    fixed = pa.array(markers, pa.binary(len(markers[0])))
    batch = columns.decode(kafkawire.messages.EndTxnMarker, fixed, "prefix")
    assert batch.column("coordinator_epoch").to_pylist() == list(range(5))


@pytest.mark.parametrize("values", [[], pa.array([], pa.binary()), pa.array([], pa.null())])
def test_no_values(values: Any) -> None:
    for version in (1, "prefix", [], np.zeros(0, np.int16)):
        batch = decoded(values, version)
        assert batch.num_rows == 0
        assert batch.schema == EXPECTED.schema
    assert decoded(b"", offsets=[0]).num_rows == 0


def test_nulls() -> None:
    for values in ([None, DATA[3], None], pa.array([None, DATA[3], None], pa.large_binary())):
        batch = decoded(values)
        assert batch.column("producer_id").to_pylist() == [None, 3, None]
        assert batch.column(columns.VERSION).to_pylist() == [None, 1, None]
        assert batch.column(columns.ERROR).null_count == 3
    assert decoded([None, None]).column("producer_id").null_count == 2
    assert decoded(pa.nulls(2)).column("producer_id").null_count == 2


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data)).toreadonly(), np.array])
def test_a_buffer_that_can_be_written_to_is_copied(kind: Any) -> None:
    """Also through a view that cannot be written to itself."""
    buffer = kind(b"".join(DATA)) if kind is not np.array else np.frombuffer(bytearray(b"".join(DATA)), np.uint8)
    before = bytes(memoryview(buffer))
    found = inputs.read_values(buffer, [0, len(before)]).data
    (buffer.obj if isinstance(buffer, memoryview) else buffer)[0] = 255 - before[0]
    assert found.tobytes() == before


def test_what_was_given_may_change_afterwards() -> None:
    buffer = bytearray(JOINED)
    batch = decoded(buffer, offsets=OFFSETS)
    buffer[:] = bytes(len(buffer))
    assert batch.equals(EXPECTED)


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([0, 5, 3], "offsets must ascend: offset 2 is 3, after 5"),
        ([-1, 3], "offset -1 lies outside the"),
        ([0, 10_000], "offset 10000 lies outside the"),
        ([2**63 - 1, 2**63 - 1], "lies outside"),
        (np.array([0, 2**64 - 1], np.uint64), "lies outside"),
        ([5, -3, 5], "offsets must ascend: offset 1 is -3, after 5"),
        ([], "one more than there are values"),
        ([[0, 1]], "offsets are a sequence of integers"),
        ([0.0, 1.0], "offsets are a sequence of integers"),
        ("no", "offsets are a sequence of integers"),
    ],
)
def test_nonsense_offsets(offsets: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decoded(JOINED, offsets=offsets)


def test_an_arrow_array_whose_offsets_are_nonsense() -> None:
    offsets = np.array([0, 1000, 20], np.int32)
    wrong = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(JOINED)])
    with pytest.raises(ValueError, match="the Arrow array is not valid"):
        decoded(wrong)


@pytest.mark.parametrize("values", [b"bytes", "text", 7, None, pa.array([1]), pa.array(["a"]), [b"", 5], ["text"]])
def test_what_is_no_bytes(values: Any) -> None:
    with pytest.raises(TypeError, match="expected"):
        decoded(values)


# Versions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, pa.array, lambda v: pa.array(v, pa.int8())])
def test_versions_in_any_form(kind: Any) -> None:
    data = [value.encode(i % 2) for i, value in enumerate(VALUES)]
    batch = decoded(data, kind([i % 2 for i in range(10)]))
    assert batch.column("producer_id").equals(EXPECTED.column("producer_id"))
    assert batch.column(columns.VERSION).to_pylist() == [0, 1] * 5


def test_a_version_that_one_value_does_not_have() -> None:
    batch = decoded(DATA[:3], pa.array([1, None, 9]))
    assert batch.column(columns.ERROR).to_pylist() == [
        None,
        "TransactionLogValue has no version None; it has 0-1",
        "TransactionLogValue has no version 9; it has 0-1",
    ]
    assert batch.column(columns.VERSION).to_pylist() == [1, None, None]
    assert batch.column("producer_id").to_pylist() == [0, None, None]


def test_a_value_that_is_no_more_than_its_prefix() -> None:
    assert ListGroupsRequest().encode_prefixed(0) == b"\0\0"
    rows = check(ListGroupsRequest, [b"\0\0", None, b"\0", b"", b"\0\0"], PREFIX)
    assert [row is None for row in rows] == [False, True, True, True, False]


def test_text_that_is_no_utf8_behind_a_prefix() -> None:
    values = [TransactionLogValue(transaction_partitions=(PartitionsSchema(f"t\udcff{i}", ()),)) for i in range(3)]
    data = [value.encode_prefixed(i % 2) for i, value in enumerate(values)]
    rows = check(TransactionLogValue, data, PREFIX)
    assert [row["transaction_partitions"][0]["topic"] for row in rows] == ["t\ufffd0", "t\ufffd1", "t\ufffd2"]
    problems = decoded(data, PREFIX).column(columns.ERROR).to_pylist()
    assert problems == [f"transaction_partitions[0].topic is no UTF-8: {b't%c%d' % (255, i)!r}" for i in range(3)]


def test_versions_that_are_none() -> None:
    with pytest.raises(UnsupportedVersionError, match="has no version 2"):
        decoded(DATA, 2)
    with pytest.raises(ValueError, match="9 versions for 10 values"):
        decoded(DATA, [1] * 9)
    with pytest.raises(ValueError, match='version is a number, one for each value, or "prefix"'):
        decoded(DATA, "newest")
    for wrong in (None, 1.5, True, ["1"] * 10, [1.0] * 10):
        with pytest.raises(TypeError):
            decoded(DATA, wrong)


# Columns that are asked for ------------------------------------------------------------------------------------------


def test_some_columns() -> None:
    batch = decoded(DATA, columns=["TransactionStatus", "transaction_partitions.partition_ids", "producer_id"])
    assert batch.schema.names == [
        "producer_id", "transaction_status", "transaction_partitions", columns.VERSION, columns.ERROR
    ]  # fmt: skip
    assert batch.column("transaction_partitions").to_pylist()[1] == [{"partition_ids": [1]}]
    assert decoded(DATA, columns=[]).schema.names == [columns.VERSION, columns.ERROR]


def test_unknown_tags_are_columns_unless_they_are_not_wanted() -> None:
    tagged = TransactionLogValue(unknown_tagged_fields=(TaggedField(9, b"new"), TaggedField(300, b"")))
    batch = decoded([tagged.encode(1), DATA[0]])
    assert batch.column(UNKNOWN_TAGS).to_pylist() == [[{"tag": 9, "data": b"new"}, {"tag": 300, "data": b""}], []]
    assert UNKNOWN_TAGS not in decoded(DATA, unknown_tags=False).schema.names
    only = decoded([tagged.encode(1)], columns=[UNKNOWN_TAGS, "transaction_partitions." + UNKNOWN_TAGS])
    assert only.schema.names[:2] == ["transaction_partitions", UNKNOWN_TAGS]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["nonsense"], "TransactionLogValue has no field 'nonsense'"),
        (["transaction_partitions.x"], "TransactionLogValue.transaction_partitions has no field 'x'"),
        (["producer_id.x"], "TransactionLogValue.producer_id is no struct and has no field 'x'"),
        ([""], "has no field ''"),
    ],
)
def test_columns_that_there_are_not(names: list[str], text: str) -> None:
    with pytest.raises(LookupError, match=text):
        decoded(DATA, columns=names)
    with pytest.raises(LookupError, match=text):
        columns.schema(TransactionLogValue, columns=names)


def test_lists_that_are_not_asked_for_are_passed_over() -> None:
    """Their elements too, of one size or of several."""
    partition = OffsetForLeaderPartition(partition=1, leader_epoch=2)
    value = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(partition,) * 3),) * 2)
    for version in value.spec.valid_versions:
        for names in (["topics.topic"], ["topics.topic", "topics.partitions.leader_epoch"], ["replica_id"]):
            check(type(value), [value.encode(version)] * 2, version, shape=shape_of(value.spec, names))


def test_a_coordinators_key_has_its_api_key_before_it() -> None:
    good, other = bytes.fromhex("0000 0001 74"), bytes.fromhex("0001 0001 74")
    rows = check(TransactionLogKey, [good, other, None, b"\0"], "prefix")
    assert rows == [{"transactional_id": "t"}, None, None, None]


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (columns.decode, columns.decode_structs):
        with pytest.raises(MissingExtraError, match=r"kafkawire\.columns.*arrow"):
            call(TransactionLogValue, DATA, 1)


def test_columns_are_not_one_string() -> None:
    with pytest.raises(TypeError, match="not one string"):
        decoded(DATA, columns="producer_id")


def paths(spec: Any, place: str = "") -> list[str]:
    found = []
    for field in spec.fields:
        found.append(place + field.attribute)
        if field.struct is not None:
            found += paths(field.struct.spec, place + field.attribute + ".")
    return found


@given(st.data())
def test_any_columns_of_any_message(data: st.DataObject) -> None:
    cls: type[Message] = kafkawire.lookup(data.draw(st.sampled_from(kafkawire.messages.__all__)))
    version = data.draw(st.sampled_from(cls.spec.valid_versions))
    names = data.draw(st.lists(st.sampled_from(paths(cls.spec) or [""]), max_size=4))
    encoded = [value.encode(version) for value in data.draw(st.lists(messages(cls, version), max_size=3))]
    damaged = [bytes([*part[:-2], 255]) for part in encoded if len(part) > 1]
    check(cls, [*encoded, *damaged], version, shape=shape_of(cls.spec, [name for name in names if name]))


# Schemas -------------------------------------------------------------------------------------------------------------


@for_each(kafkawire.messages.__all__)
def test_one_schema_for_all_versions(name: str) -> None:
    cls: type[Message] = kafkawire.lookup(name)
    schema = columns.schema(cls)
    for version in cls.spec.valid_versions:
        batch = columns.decode(cls, [cls().encode(version)] if _has_default(cls, version) else [None], version)
        batch.validate(full=True)
        assert batch.schema.equals(schema)


def _has_default(cls: type[Message], version: int) -> bool:
    try:
        cls().encode(version)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("cls", [TransactionLogValue, MetadataResponse, FetchResponse])
def test_a_schema_as_text(cls: type[Message]) -> None:
    schema = columns.schema(cls)
    text = "".join(f"{line}\n" for field in schema for line in _lines(field, ""))
    golden.check(f"columns/{cls.spec.name}.txt", text)


def _lines(field: pa.Field, indent: str) -> list[str]:
    nested = pa.types.is_struct(field.type) or pa.types.is_list(field.type)
    kind = "list" if pa.types.is_list(field.type) else "struct" if nested else str(field.type)
    lines = [f"{indent}{field.name}: {kind}{'' if field.nullable else ' not null'}"]
    children = [field.type.value_field] if kind == "list" else list(field.type) if nested else []
    return lines + [line for child in children for line in _lines(child, indent + "  ")]
