"""Packets to TCP segments: link, IP and TCP headers. Pure functions over bytes.

What is no TCP over IP, or cannot be read, is answered with a `Skipped` that says why; the caller counts them.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address

import msgspec

_TCP = 6
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN = (0x8100, 0x88A8, 0x9100)
#: IPv6 headers between the first and TCP: hop-by-hop, routing, destination options; lengths in units of 8 bytes.
_IPV6_OPTIONS = (0, 43, 60)
_IPV6_FRAGMENT, _IPV6_AUTHENTICATION = 44, 51

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


class Skipped(StrEnum):
    """Why a packet holds no TCP segment that could be read."""

    LINK = "an unknown link type"
    NOT_IP = "not IP"
    NOT_TCP = "not TCP"
    FRAGMENT = "an IP fragment"
    CUT = "headers cut off"
    MALFORMED = "malformed headers"


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A TCP segment.

    Attributes:
        source, destination: address and port.
        sequence, acknowledgment: as in the header; `flags` its bits.
        payload: the data that was captured; `missing` how many bytes behind it were not.
    """

    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    missing: int = 0


def endpoint(address: tuple[bytes, int]) -> str:
    """An address and port as text: `10.0.0.1:9092`, `[::1]:9092`."""
    raw, port = address
    return f"{IPv4Address(raw)}:{port}" if len(raw) == 4 else f"[{IPv6Address(raw)}]:{port}"


def parse(link_type: int, data: bytes) -> Segment | Skipped:
    """The TCP segment that a packet holds, or why it holds none."""
    try:
        start = _link(link_type, data)
        if isinstance(start, Skipped):
            return start
        version = data[start] >> 4
        if version == 4:
            return _ipv4(data, start)
        return _ipv6(data, start) if version == 6 else Skipped.NOT_IP
    except (IndexError, struct.error):
        return Skipped.CUT


def _link(link_type: int, data: bytes) -> int | Skipped:
    """Where the IP header begins."""
    match link_type:
        case 1:  # Ethernet
            kind_at = 12
            while int.from_bytes(data[kind_at : kind_at + 2], "big") in _VLAN:
                kind_at += 4
            return _ip_at(data, kind_at, kind_at + 2)
        case 113:  # Linux cooked, version 1
            return _ip_at(data, 14, 16)
        case 276:  # Linux cooked, version 2
            return _ip_at(data, 0, 20)
        case 0 | 108:  # BSD loopback: an address family, whose numbers differ between systems
            return 4
        case 12 | 14 | 101 | 228 | 229:  # raw IP
            return 0
    return Skipped.LINK


def _ip_at(data: bytes, kind_at: int, start: int) -> int | Skipped:
    if len(data) < start:
        return Skipped.CUT
    return start if int.from_bytes(data[kind_at : kind_at + 2], "big") in (_IPV4, _IPV6) else Skipped.NOT_IP


def _ipv4(data: bytes, start: int) -> Segment | Skipped:
    length, _, fragment, _, protocol = struct.unpack_from(">HHHBB", data, start + 2)
    if protocol != _TCP:
        return Skipped.NOT_TCP
    if fragment & 0x3FFF:  # more fragments, or not the first
        return Skipped.FRAGMENT
    # A length of 0 stands in packets that the network card was to split up.
    end = start + length if length else len(data)
    header = (data[start] & 15) * 4
    if header < 20:
        return Skipped.MALFORMED
    return _tcp(data, start + header, end, data[start + 12 : start + 16], data[start + 16 : start + 20])


def _ipv6(data: bytes, start: int) -> Segment | Skipped:
    length, following = struct.unpack_from(">HB", data, start + 4)
    end = start + 40 + length if length else len(data)
    position = start + 40
    while following != _TCP:
        if following in _IPV6_OPTIONS:
            size = (data[position + 1] + 1) * 8
        elif following == _IPV6_AUTHENTICATION:
            size = (data[position + 1] + 2) * 4
        elif following == _IPV6_FRAGMENT:
            if int.from_bytes(data[position + 2 : position + 4], "big") & 0xFFF9:
                return Skipped.FRAGMENT
            size = 8
        else:
            return Skipped.NOT_TCP
        following = data[position]
        position += size
    return _tcp(data, position, end, data[start + 8 : start + 24], data[start + 24 : start + 40])


def _tcp(data: bytes, start: int, end: int, source: bytes, destination: bytes) -> Segment | Skipped:
    source_port, destination_port, sequence, acknowledgment, words, flags = struct.unpack_from(">HHIIBB", data, start)
    header = (words >> 4) * 4
    if header < 20 or start + header > end:
        return Skipped.MALFORMED
    payload = data[start + header : end]
    missing = end - start - header - len(payload)
    return Segment(
        (source, source_port), (destination, destination_port), sequence, acknowledgment, flags, payload, missing
    )
