"""Packets to TCP segments: link, IP and TCP headers, and tunnels around them. Pure functions over bytes.

For a packet without a readable TCP segment the result is a `Skipped` with the reason; the caller counts those. For a
fragment of an IP datagram it is a `Fragment`; `transport` continues with the datagram that `Fragments` reassembles.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

import msgspec

from kafkawire.capture.fragments import Fragment

_ETHERNET, _IPV4, _IPV6 = 0x6558, 0x0800, 0x86DD  # EtherTypes; the first is that of Ethernet in GRE
_VLAN = (0x8100, 0x88A8, 0x9100)
#: IP protocols.
_IP_IN_IP, _TCP, _UDP, _IPV6_IN_IP, _GRE = 4, 6, 17, 41, 47
#: IPv6 headers between the first and TCP: hop-by-hop, routing, destination options; lengths in units of 8 bytes.
_IPV6_OPTIONS = (0, 43, 60)
_IPV6_FRAGMENT, _IPV6_AUTHENTICATION = 44, 51
_VXLAN_PORT = 4789
#: Most nested tunnels that are followed.
_MOST_LAYERS = 4
#: Options of an exported PDU.
_EXPORTED_END, _EXPORTED_IPV4, _EXPORTED_IPV6 = 0, (20, 21), (22, 23)
_EXPORTED_PORT_TYPE, _EXPORTED_PORTS, _EXPORTED_TCP = 24, (25, 26), 2

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
#: Not a TCP flag: the segment has no sequence number, and its data follows that of the segment before.
EXPORTED = 0x100


class Skipped(StrEnum):
    """Why a packet contains no readable TCP segment."""

    LINK = "an unknown link type"
    NOT_IP = "not IP"
    NOT_TCP = "not TCP"
    FRAGMENT = "an IP fragment whose others are missing"
    CUT = "headers cut off"
    MALFORMED = "malformed headers"


class TcpSegment(msgspec.Struct, frozen=True, gc=False):
    """A TCP segment.

    Attributes:
        source, destination: address and port.
        sequence, acknowledgment: of the header; `flags`: its bits, and `EXPORTED`.
        payload: the captured data; `missing`: number of bytes after it that were not captured.
    """

    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    missing: int = 0


Found = TcpSegment | Fragment | Skipped


def endpoint(address: tuple[bytes, int]) -> str:
    """An address and port as text: `10.0.0.1:9092`, `[::1]:9092`."""
    raw, port = address
    return f"{_host(raw)}:{port}"


@lru_cache(maxsize=1024)  # most connections of a capture are those of few hosts
def _host(raw: bytes) -> str:
    return str(IPv4Address(raw)) if len(raw) == 4 else f"[{IPv6Address(raw)}]"


def parse(link_type: int, data: bytes) -> Found:
    """The TCP segment or IP fragment in a packet, or why it is skipped.

    Args:
        link_type: type of its first header (LINKTYPE_..., 1 is Ethernet).
        data: its captured bytes.
    """
    try:
        match link_type:
            case 1:
                return _ethernet(data, 0, 0)
            case 113:  # Linux cooked, version 1
                return _network(data, 14, 16, 0)
            case 276:  # Linux cooked, version 2
                return _network(data, 0, 20, 0)
            case 0 | 108:  # BSD loopback: an address family, whose numbers differ between systems
                return _ip(data, 4, 0)
            case 12 | 14 | 101 | 228 | 229:  # raw IP
                return _ip(data, 0, 0)
            case 252:  # Wireshark's exported PDUs, for example decrypted TLS
                return _exported(data)
        return Skipped.LINK
    except (IndexError, struct.error):
        return Skipped.CUT


def transport(protocol: int, data: bytes, source: bytes, destination: bytes) -> Found:
    """The TCP segment in an IP datagram.

    Args:
        protocol: number of the IP protocol.
        data: the datagram without its IP headers.
        source, destination: addresses, 4 or 16 bytes.
    """
    try:
        return _transport(protocol, data, 0, len(data), source, destination, 0)
    except (IndexError, struct.error):
        return Skipped.CUT


def _ethernet(data: bytes, start: int, layers: int) -> Found:
    kind_at = start + 12
    while int.from_bytes(data[kind_at : kind_at + 2], "big") in _VLAN:
        kind_at += 4
    return _network(data, kind_at, kind_at + 2, layers)


def _network(data: bytes, kind_at: int, start: int, layers: int) -> Found:
    """Parses the payload of a header that ends with an EtherType."""
    if len(data) < start:
        return Skipped.CUT
    kind = int.from_bytes(data[kind_at : kind_at + 2], "big")
    return _ip(data, start, layers) if kind in (_IPV4, _IPV6) else Skipped.NOT_IP


def _ip(data: bytes, start: int, layers: int) -> Found:
    version = data[start] >> 4
    if version == 4:
        return _ipv4(data, start, layers)
    return _ipv6(data, start, layers) if version == 6 else Skipped.NOT_IP


def _ipv4(data: bytes, start: int, layers: int) -> Found:
    length, identification, fragment, _, protocol = struct.unpack_from(">HHHBB", data, start + 2)
    # The length is 0 in packets that the network card was to segment (TSO).
    end = start + length if length else len(data)
    header = (data[start] & 15) * 4
    if header < 20:
        return Skipped.MALFORMED
    source, destination = data[start + 12 : start + 16], data[start + 16 : start + 20]
    start += header
    if fragment & 0x3FFF:  # more fragments, or not the first
        offset, more = (fragment & 0x1FFF) * 8, bool(fragment & 0x2000)
        return _fragment(data, start, end, Fragment(source, destination, protocol, identification, offset, more, b""))
    return _transport(protocol, data, start, end, source, destination, layers)


def _ipv6(data: bytes, start: int, layers: int) -> Found:
    length, following = struct.unpack_from(">HB", data, start + 4)
    end = start + 40 + length if length else len(data)
    source, destination = data[start + 8 : start + 24], data[start + 24 : start + 40]
    start += 40
    while True:
        if following in _IPV6_OPTIONS:
            size = (data[start + 1] + 1) * 8
        elif following == _IPV6_AUTHENTICATION:
            size = (data[start + 1] + 2) * 4
        elif following == _IPV6_FRAGMENT:
            size = 8
            place, identification = struct.unpack_from(">HI", data, start + 2)
            if place & 0xFFF9:
                part = Fragment(source, destination, data[start], identification, place & 0xFFF8, bool(place & 1), b"")
                return _fragment(data, start + size, end, part)
        else:
            return _transport(following, data, start, end, source, destination, layers)
        following = data[start]
        start += size


def _fragment(data: bytes, start: int, end: int, head: Fragment) -> Found:
    # All fragments but the last hold a multiple of 8 bytes.
    if start > end or (head.more and (end - start) % 8):
        return Skipped.MALFORMED
    return Skipped.CUT if end > len(data) else msgspec.structs.replace(head, data=data[start:end])


def _transport(
    protocol: int, data: bytes, start: int, end: int, source: bytes, destination: bytes, layers: int
) -> Found:
    if protocol == _TCP:
        return _tcp(data, start, end, source, destination)
    if layers == _MOST_LAYERS:
        return Skipped.NOT_TCP
    if protocol in (_IP_IN_IP, _IPV6_IN_IP):
        return _ip(data, start, layers + 1)
    if protocol == _GRE:
        return _gre(data, start, layers + 1)
    if protocol == _UDP and int.from_bytes(data[start + 2 : start + 4], "big") == _VXLAN_PORT:
        return _ethernet(data, start + 16, layers + 1)  # 8 bytes of UDP's header, 8 of VXLAN's (RFC 7348)
    return Skipped.NOT_TCP


def _gre(data: bytes, start: int, layers: int) -> Found:
    """Generic routing encapsulation (RFC 2784, RFC 2890): flags select the optional fields."""
    flags, kind = struct.unpack_from(">HH", data, start)
    if flags & 0x4007:  # source routing (RFC 1701), or another version
        return Skipped.NOT_TCP
    start += 4 + sum(4 for flag in (0x8000, 0x2000, 0x1000) if flags & flag)
    if kind == _ETHERNET:
        return _ethernet(data, start, layers)
    return _ip(data, start, layers) if kind in (_IPV4, _IPV6) else Skipped.NOT_IP


def _tcp(data: bytes, start: int, end: int, source: bytes, destination: bytes) -> TcpSegment | Skipped:
    source_port, destination_port, sequence, acknowledgment, words, flags = struct.unpack_from(">HHIIBB", data, start)
    header = (words >> 4) * 4
    if header < 20 or start + header > end:
        return Skipped.MALFORMED
    payload = data[start + header : end]
    missing = end - start - header - len(payload)
    return TcpSegment(
        (source, source_port), (destination, destination_port), sequence, acknowledgment, flags, payload, missing
    )


def _exported(data: bytes) -> TcpSegment | Skipped:
    """An exported PDU: options (type, length, value), addresses and ports among them, then bytes of a TCP stream."""
    options: dict[int, bytes] = {}
    start = 0
    while True:
        code, length = struct.unpack_from(">HH", data, start)
        options[code] = data[start + 4 : start + 4 + length]
        start += 4 + length
        if code == _EXPORTED_END:
            break
    kind = int.from_bytes(options.get(_EXPORTED_PORT_TYPE, b""), "big")
    if kind != _EXPORTED_TCP:
        return Skipped.NOT_TCP
    ports = [int.from_bytes(options.get(code, b""), "big") for code in _EXPORTED_PORTS]
    for codes, size in ((_EXPORTED_IPV4, 4), (_EXPORTED_IPV6, 16)):
        addresses = [options.get(code, b"") for code in codes]
        if all(len(address) == size for address in addresses):
            source, destination = zip(addresses, ports, strict=True)
            return TcpSegment(source, destination, 0, 0, EXPORTED, data[start:])
    return Skipped.NOT_IP
