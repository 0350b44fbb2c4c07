"""Reassembly of IP datagrams."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire.capture import Fragment, Fragments, Skipped, TcpSegment, parse, transport
from kafkawire.capture.fragments import MOST_DATAGRAMS
from kafkawire.capture.network import Found
from tests.capture.wiretap import ACK, BROKER, CLIENT, tcp


def segment(found: Found) -> TcpSegment:
    assert isinstance(found, TcpSegment)
    return found


def fragments_of(version: int, data: bytes, size: int) -> list[bytes]:
    """An IP packet with TCP, in fragments of `size` bytes."""
    head, body = data[: 20 if version == 4 else 40], data[20 if version == 4 else 40 :]
    parts = []
    for offset in range(0, len(body), size):
        part, more = body[offset : offset + size], offset + size < len(body)
        if version == 4:
            place = struct.pack(">HHH", 20 + len(part), 77, offset // 8 | (0x2000 if more else 0))
            parts.append(head[:2] + place + head[8:] + part)
        else:
            extension = struct.pack(">BBHI", 6, 0, offset | more, 77)
            parts.append(head[:4] + struct.pack(">HB", 8 + len(part), 44) + head[7:] + extension + part)
    return parts


def assembled(packets: list[bytes], fragments: Fragments) -> list[TcpSegment]:
    out = []
    for packet in packets:
        found = parse(101, packet)
        assert isinstance(found, Fragment)
        whole = fragments.add(found)
        if whole is not None:
            out.append(segment(transport(found.protocol, whole, found.source, found.destination)))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 6])
@given(
    data=st.binary(min_size=20, max_size=200),
    size=st.sampled_from([8, 16, 24]),
    random=st.randoms(use_true_random=False),
)
def test_reassembles_fragments_in_any_order_and_with_duplicates(
    version: int, data: bytes, size: int, random: Random
) -> None:
    ends = (CLIENT, BROKER) if version == 4 else (("::1", 40000), ("fe80::2", 9092))
    packet = tcp(*ends, 7, 9, ACK, data)
    parts = fragments_of(version, packet, size)
    again = parts[:-1]
    random.shuffle(parts)
    fragments = Fragments()
    (found,) = assembled([*parts[:1], *parts], fragments)
    assert found == parse(101, packet)
    fragments.finish()
    assert fragments.lost == 0
    assert assembled(again, fragments) == []  # copies
    fragments.finish()
    assert fragments.lost == 0
    fragments = Fragments()
    assert assembled(again, fragments) == []
    fragments.finish()
    assert fragments.lost == len(again)


def test_fragments_of_a_later_datagram_with_the_same_identification_are_reassembled() -> None:
    fragments = Fragments()
    one = Fragment(b"abcd", b"efgh", 6, 7, 0, True, bytes(8))
    last = replace(one, offset=8, more=False, data=b"end")
    assert [fragments.add(part) for part in (one, last, one, last)] == [None, bytes(8) + b"end", None, None]
    assert [fragments.add(replace(part, data=b"x" * len(part.data))) for part in (one, last)] == [None, b"x" * 11]
    for number in range(100, 400):
        assert fragments.add(replace(one, identification=number)) is None
        assert fragments.add(replace(last, identification=number)) == bytes(8) + b"end"
    fragments.finish()
    assert fragments.lost == 0


def test_the_latest_64_datagrams_are_remembered() -> None:
    fragments = Fragments()
    one = Fragment(b"abcd", b"efgh", 6, 7, 0, True, bytes(8))
    last = replace(one, offset=8, more=False, data=b"end")

    def is_new(number: int) -> bool:
        return [fragments.add(replace(part, identification=number)) for part in (one, last)][1] is not None

    assert all(is_new(number) for number in range(100))
    assert [is_new(number) for number in (99, 36, 35)] == [False, False, True]


def test_memory_of_fragments_is_bounded() -> None:
    fragments = Fragments()
    one = Fragment(b"abcd", b"efgh", 6, 0, 8, True, bytes(8))
    for number in range(MOST_DATAGRAMS + 10):
        assert fragments.add(replace(one, identification=number)) is None
    assert fragments.lost == 10
    for place in range(5000):  # one datagram in absurdly many parts
        assert fragments.add(replace(one, identification=9999, offset=16 + 8 * place)) is None
    fragments.add(replace(one, offset=65_530))  # reaches beyond what a datagram can hold
    fragments.finish()
    assert fragments.lost == MOST_DATAGRAMS + 10 + 5000 + 1


def test_skips_a_datagram_with_truncated_headers() -> None:
    assert transport(6, b"\0\1", b"abcd", b"efgh") is Skipped.CUT
