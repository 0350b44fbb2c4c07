"""Unsigned varints, on the table that Kafka's ByteUtilsTest has and around every border of their length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.wire.read import FAILURES, read_uvarint
from kafkawire.wire.write import uvarint

TABLE = {
    0: "00",
    1: "01",
    63: "3f",
    64: "40",
    127: "7f",
    128: "8001",
    8191: "ff3f",
    8192: "8040",
    16383: "ff7f",
    16384: "808001",
    1048575: "ffff3f",
    1048576: "808040",
    (1 << 21) - 1: "ffff7f",
    1 << 21: "80808001",
    (1 << 28) - 1: "ffffff7f",
    1 << 28: "8080808001",
    (1 << 31) - 1: "ffffffff07",
}
#: Read as a Java int; never written.
NEGATIVE = {-1: "ffffffff0f", -64: "c0ffffff0f", -8192: "80c0ffff0f", -8193: "ffbfffff0f", -(1 << 31): "8080808008"}


@pytest.mark.parametrize(("number", "text"), TABLE.items())
def test_numbers_are_written_and_read(number: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert uvarint(number) == data
    assert read_uvarint(data, 0) == (number, len(data))
    assert read_uvarint(memoryview(b"??" + data + b"?"), 2) == (number, 2 + len(data))


@pytest.mark.parametrize(("number", "text"), NEGATIVE.items())
def test_numbers_from_2_to_the_31_on_are_negative(number: int, text: str) -> None:
    assert read_uvarint(bytes.fromhex(text), 0) == (number, 5)


@pytest.mark.parametrize("number", [-1, 1 << 31, 1 << 40])
def test_numbers_outside_are_not_written(number: int) -> None:
    with pytest.raises(ValueError):
        uvarint(number)


@given(st.integers(0, (1 << 31) - 1))
def test_any_number(number: int) -> None:
    data = uvarint(number)
    assert read_uvarint(data, 0) == (number, len(data))
    assert len(data) == max(1, -(-number.bit_length() // 7))


@pytest.mark.parametrize("text", ["", "80", "8080", "80808080", "ffffffff80", "ffffffffff01", "808080808000"])
def test_what_is_no_varint(text: str) -> None:
    with pytest.raises(FAILURES):
        read_uvarint(bytes.fromhex(text), 0)
