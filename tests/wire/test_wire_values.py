"""`values`: what buffers codecs read and write, and the value that holds what a schema does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafkawire.messages import EndTxnMarker
from kafkawire.wire.values import BOOLS, TaggedField, is_octets, octets

DATA = bytes(range(12))


@pytest.mark.parametrize("data", [DATA, bytearray(DATA), memoryview(DATA), memoryview(DATA)[2:7], memoryview(b"")])
def test_bytes_in_a_row_are_taken_as_they_are(data: Any) -> None:
    assert octets(data) is data
    assert is_octets(data)


@pytest.mark.parametrize("format", ["b", "c", "h", "i", "@I"])
def test_items_in_a_row_are_seen_as_their_bytes(format: str) -> None:
    view = memoryview(DATA).cast(format)
    assert not is_octets(view)
    seen = octets(view)
    assert isinstance(seen, memoryview)
    assert (seen.obj, seen, is_octets(seen)) == (DATA, DATA, True)  # no copy


TABLE = np.arange(12, dtype=np.uint8).reshape(3, 4)


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (TABLE, DATA),
        (np.asfortranarray(TABLE), DATA),  # in a row, but column by column
        (TABLE[:, ::2], b"\0\2\4\6\10\12"),
        (TABLE.ravel()[::-1], DATA[::-1]),
        (np.frombuffer(DATA, ">i4"), DATA),
        (np.array([(1, 2)], [("a", "u1"), ("b", ">i2")]), b"\1\0\2"),
        (TABLE[:0], b""),
    ],
    ids=["table", "by columns", "with gaps", "backwards", "big endian", "of structs", "empty"],
)
def test_any_view_is_read_as_the_bytes_it_stands_for(array: Any, wanted: bytes) -> None:
    view = memoryview(array)
    assert bytes(octets(view)) == wanted
    assert is_octets(octets(view))
    assert is_octets(view) is False


@pytest.mark.parametrize("copy", [True, False])
def test_a_message_in_a_table_by_columns(copy: bool) -> None:
    table = np.zeros((2, 2), np.uint8, order="F")
    table[1] = 1, 2
    assert EndTxnMarker.decode(memoryview(table), 0, copy=copy) == EndTxnMarker(coordinator_epoch=258)
    prefixed = np.zeros((3, 2), np.uint8, order="F")
    prefixed[2, 1] = 7
    assert EndTxnMarker.decode_prefixed(memoryview(prefixed), copy=copy) == (EndTxnMarker(coordinator_epoch=7), 0)


@pytest.mark.parametrize("value", ["ab", (1, 2), [], None, 5, DATA[0]])
def test_what_is_no_bytes(value: object) -> None:
    assert not is_octets(value)


def test_what_a_bool_may_be() -> None:
    assert [BOOLS[each] for each in (False, True, 0, 1, 0.0, 1.0)] == [False, True] * 3
    assert all(type(value) is bool for value in BOOLS.values())
    assert set(BOOLS) == {0, 1}


@pytest.mark.parametrize("name", ["tag", "data"])
def test_a_tagged_field_does_not_change(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(TaggedField(5, b"x"), name, b"y")
    assert hash(TaggedField(5, b"x")) == hash(TaggedField(5, b"x"))
