"""Parsing of link, IP and TCP headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture import Skipped, TcpSegment, parse
from kafkawire.capture.network import EXPORTED, Found, endpoint
from tests.capture.wiretap import ACK, BROKER, CLIENT, ethernet, tcp

IPV4 = tcp(CLIENT, BROKER, 7, 9, ACK, b"payload")
IPV6 = tcp(("::1", 40000), ("fe80::2", 9092), 7, 9, ACK, b"payload")


def segment(found: Found) -> TcpSegment:
    assert isinstance(found, TcpSegment)
    return found


@pytest.mark.parametrize(
    ("link_type", "before"),
    [
        (1, bytes(12) + b"\x08\x00"),
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (0, b"\x02\0\0\0"),
        (0, b"\0\0\0\x02"),
        (108, b"\0\0\0\x02"),
        (101, b""),
        (12, b""),
        (228, b""),
    ],
)
def test_parses_link_types(link_type: int, before: bytes) -> None:
    found = segment(parse(link_type, before + IPV4 + b"padding"))
    assert (endpoint(found.source), endpoint(found.destination)) == ("10.0.0.1:40000", "10.0.0.2:9092")
    assert (found.sequence, found.acknowledgment, found.flags, found.payload) == (7, 9, ACK, b"payload")
    assert found.missing == 0


def test_parses_ipv6() -> None:
    found = segment(parse(1, ethernet(IPV6)))
    assert (endpoint(found.source), endpoint(found.destination)) == ("[::1]:40000", "[fe80::2]:9092")
    assert found.payload == b"payload"
    assert segment(parse(229, IPV6)) == found
    assert segment(parse(0, b"\x1e\0\0\0" + IPV6)) == found


def test_skips_ipv6_extension_headers() -> None:
    head, rest = IPV6[:40], IPV6[40:]
    parts = [(60, 1, 14), (51, 0, 6), (44, 4, 22), (6, 0, 6)]  # the next header, a length, and as many bytes
    # hop-by-hop (16 bytes) -> destination options (8) -> authentication (24) -> an atomic fragment (8) -> TCP
    options = b"".join(bytes([following, length]) + bytes(size) for following, length, size in parts)
    packet = head[:4] + struct.pack(">HB", len(options) + len(rest), 0) + head[7:] + options + rest
    assert segment(parse(101, packet)).payload == b"payload"


def test_parses_tcp_options_and_offloaded_segments() -> None:
    head, data = IPV4[:40], IPV4[40:]
    options = b"\x01" * 12
    packet = head[:2] + struct.pack(">H", 40 + 12 + 7) + head[4:32] + b"\x80" + head[33:] + options + data
    assert segment(parse(101, packet)).payload == b"payload"
    unknown_length = packet[:2] + b"\0\0" + packet[4:]
    assert segment(parse(101, unknown_length)).payload == b"payload"


def test_counts_missing_bytes_of_a_truncated_packet() -> None:
    found = segment(parse(101, IPV4[:-4]))
    assert (found.payload, found.missing) == (b"pay", 4)


@pytest.mark.parametrize(
    ("link_type", "data", "why"),
    [
        (147, IPV4, Skipped.LINK),
        (1, bytes(12) + b"\x08\x06" + bytes(28), Skipped.NOT_IP),
        (101, b"\x50" + bytes(40), Skipped.NOT_IP),
        (101, IPV4[:9] + b"\x11" + IPV4[10:], Skipped.NOT_TCP),
        (101, IPV6[:6] + b"\x3a" + IPV6[7:], Skipped.NOT_TCP),
        (101, IPV4[:6] + b"\x20\x00" + IPV4[8:], Skipped.MALFORMED),  # 27 bytes, and more to come
        (101, IPV4[:6] + b"\x00\x10" + IPV4[8:-1], Skipped.CUT),
        (101, IPV4[:30], Skipped.CUT),
        (101, b"", Skipped.CUT),
        (1, bytes(13), Skipped.CUT),
        (101, b"\x41" + IPV4[1:], Skipped.MALFORMED),
        (101, IPV4[:32] + b"\x10" + IPV4[33:], Skipped.MALFORMED),
        (101, IPV4[:32] + b"\xf0" + IPV4[33:], Skipped.MALFORMED),
    ],
)
def test_skips_packets_without_a_tcp_segment(link_type: int, data: bytes, why: Skipped) -> None:
    assert parse(link_type, data) is why


def udp(data: bytes, port: int) -> bytes:
    return struct.pack(">HHHH", 50000, port, 8 + len(data), 0) + data


def ipv4(protocol: int, data: bytes) -> bytes:
    return IPV4[:2] + struct.pack(">H", 20 + len(data)) + IPV4[4:9] + bytes([protocol]) + IPV4[10:20] + data


@pytest.mark.parametrize(
    "packet",
    [
        ipv4(4, IPV4),
        ipv4(41, IPV6),
        ipv4(47, b"\0\0\x08\0" + IPV4),
        ipv4(47, b"\xb0\0\x86\xdd" + bytes(12) + IPV6),  # with checksum, key and sequence number
        ipv4(47, b"\0\0\x65\x58" + ethernet(IPV4)),
        ipv4(17, udp(b"\x08" + bytes(7) + ethernet(IPV6), 4789)),
        ipv4(4, ipv4(4, ipv4(47, b"\0\0\x08\0" + IPV4))),
    ],
)
def test_parses_tunnels(packet: bytes) -> None:
    assert segment(parse(101, packet)).payload == b"payload"


@pytest.mark.parametrize(
    "packet",
    [
        ipv4(17, udp(ethernet(IPV4), 53)),
        ipv4(47, b"\0\1\x08\0" + IPV4),  # version 1 is another protocol
    ],
)
def test_skips_unknown_tunnels(packet: bytes) -> None:
    assert parse(101, packet) is Skipped.NOT_TCP


def exported(*options: tuple[int, bytes], data: bytes = b"payload") -> bytes:
    return b"".join(struct.pack(">HH", code, len(value)) + value for code, value in (*options, (0, b""))) + data


PORTS = ((24, b"\0\0\0\2"), (25, struct.pack(">I", 40000)), (26, struct.pack(">I", 9092)))


def test_parses_exported_pdus() -> None:
    found = segment(parse(252, exported((12, b"kafka\0\0\0"), (20, IPV4[12:16]), (21, IPV4[16:20]), *PORTS)))
    assert (endpoint(found.source), endpoint(found.destination)) == ("10.0.0.1:40000", "10.0.0.2:9092")
    assert (found.flags, found.payload) == (EXPORTED, b"payload")
    found = segment(parse(252, exported((22, IPV6[8:24]), (23, IPV6[24:40]), *PORTS)))
    assert endpoint(found.destination) == "[fe80::2]:9092"
    assert parse(252, exported((20, IPV4[12:16]), (21, IPV4[16:20]), (24, b"\0\0\0\3"), *PORTS[1:])) is Skipped.NOT_TCP
    assert parse(252, exported(*PORTS)) is Skipped.NOT_IP
    wide = (26, b"\1\0\0\x23\x84")
    assert parse(252, exported((20, IPV4[12:16]), (21, IPV4[16:20]), *PORTS[:2], wide)) is Skipped.MALFORMED
    assert parse(252, exported(*PORTS, data=b"")[:-2]) is Skipped.CUT


# --- fragments


@given(st.sampled_from([0, 1, 12, 101, 113, 252, 276]), st.binary(max_size=80), st.binary(max_size=20))
def test_arbitrary_bytes_raise_nothing(link_type: int, data: bytes, tail: bytes) -> None:
    for packet in (data, ethernet(IPV4)[: len(data)] + tail, ethernet(IPV6)[: len(data)] + tail):
        found = parse(link_type, packet)
        assert not isinstance(found, TcpSegment) or found.missing >= 0
