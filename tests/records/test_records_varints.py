"""Zigzag varints: the table of Kafka's ByteUtilsTest, and every number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import RecordError
from kafkawire.records.varints import INT64_MAX, INT64_MIN, read_varint, read_varlong, varint, wrap64

TABLE = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (-8193, "818001"),
    (1048575, "feff7f"),
    (134217727, "feffff7f"),
    (134217728, "8080808001"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
]
LONGS = [
    *TABLE,
    (17179869184, "808080808001"),
    (9223372036854775807, "feffffffffffffffff01"),
    (-9223372036854775808, "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("number", "data"), TABLE)
def test_varint_table(number: int, data: str) -> None:
    raw = bytes.fromhex(data)
    assert varint(number) == raw
    assert read_varint(b"x" + raw + b"x", 1) == (number, 1 + len(raw))


@pytest.mark.parametrize(("number", "data"), LONGS)
def test_varlong_table(number: int, data: str) -> None:
    raw = bytes.fromhex(data)
    assert varint(number) == raw
    assert read_varlong(raw, 0) == (number, len(raw))


@given(st.integers(-(2**63), 2**63 - 1))
def test_round_trip(number: int) -> None:
    assert read_varlong(varint(number), 0)[0] == number
    if -(2**31) <= number < 2**31:
        assert read_varint(varint(number), 0)[0] == number


def test_accepts_longer_varints_up_to_the_limit() -> None:
    assert read_varint(b"\x82\x00", 0) == (1, 2)
    assert read_varint(b"\x82\x80\x80\x80\x00", 0) == (1, 5)
    assert read_varint(b"\xff\xff\xff\xff\x7f", 0) == (-2147483648, 5)  # bits above 32 are dropped
    with pytest.raises(RecordError, match="a varint of at most 5 bytes"):
        read_varint(b"\x80" * 6, 0)
    with pytest.raises(RecordError, match="a varint of at most 10 bytes"):
        read_varlong(b"\x80" * 11, 0)
    for cut in (b"", b"\x80", b"\x80\x80"):
        with pytest.raises(IndexError):
            read_varint(cut, 0)


def test_sums_wrap() -> None:
    assert (LONGS[-1][0], LONGS[-2][0]) == (INT64_MIN, INT64_MAX)
    assert wrap64(2**63) == -(2**63)
    assert wrap64(-(2**63) - 1) == 2**63 - 1
    assert wrap64(5) == 5
