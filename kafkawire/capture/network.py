"""Packets to TCP segments: link, IP and TCP headers, and encapsulations around them. Pure functions over bytes.

For a packet without a readable TCP segment the result is a `Skipped` with the reason; the caller counts those. For a
fragment of an IP datagram it is a `Fragment`; `transport` continues with the datagram that `Fragments` reassembles.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

import msgspec

from kafkawire.capture.encapsulations import (
    ETHERNET,
    ETHERTYPE,
    ETHERTYPES,
    IP,
    IP_PROTOCOL,
    IP_PROTOCOLS,
    IPV6,
    NAMES,
    UDP_PORT,
    UDP_PORTS,
    Encapsulation,
    Inside,
    Step,
    ethernet,
)
from kafkawire.capture.fragments import Fragment

_IP_KINDS = (IP, IPV6)
#: IP protocols.
_TCP, _UDP = 6, 17
#: IPv6 headers between the first and TCP: hop-by-hop, routing, destination options; lengths in units of 8 bytes.
_IPV6_OPTIONS = (0, 43, 60)
_IPV6_FRAGMENT, _IPV6_AUTHENTICATION = 44, 51
#: Most headers of encapsulations that are followed.
MOST_HEADERS = 32
#: Options of an exported PDU.
_EXPORTED_END, _EXPORTED_IPV4, _EXPORTED_IPV6 = 0, (20, 21), (22, 23)
_EXPORTED_PORT_TYPE, _EXPORTED_PORTS, _EXPORTED_TCP = 24, (25, 26), 2

_word = struct.Struct(">H").unpack_from
_IPV4_FIELDS, _TCP_FIELDS = struct.Struct(">HHHBB").unpack_from, struct.Struct(">HHIIBB").unpack_from

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


def parse(
    link_type: int,
    data: bytes,
    tunnels: Mapping[int, Encapsulation] = UDP_PORTS,
    steps: list[Step] | None = None,
) -> Found:
    """The TCP segment or IP fragment in a packet, or why it is skipped.

    Args:
        link_type: type of its first header (LINKTYPE_..., 1 is Ethernet).
        data: its captured bytes.
        tunnels: encapsulations by UDP port.
        steps: gets the encapsulations on the way, and what a skipped packet was.
    """
    try:
        match link_type:
            case 1:
                kind, start = ethernet(data, 0)
            case 113:  # Linux cooked, version 1
                kind, start = _word(data, 14)[0], 16
            case 276:  # Linux cooked, version 2
                kind, start = _word(data, 0)[0], 20
            case 0 | 108:  # BSD loopback: an address family, whose numbers differ between systems
                kind, start = IP, 4
            case 12 | 14 | 101 | 228 | 229:  # raw IP
                kind, start = IP, 0
            case 252:  # Wireshark's exported PDUs, for example decrypted TLS
                return _exported(data)
            case _:
                return _skipped(Skipped.LINK, steps, "link type", link_type)
        return _found(kind, data, start, tunnels, steps)
    except (IndexError, struct.error):
        return Skipped.CUT


def transport(
    protocol: int,
    data: bytes,
    source: bytes,
    destination: bytes,
    tunnels: Mapping[int, Encapsulation] = UDP_PORTS,
    steps: list[Step] | None = None,
) -> Found:
    """The TCP segment in an IP datagram.

    Args:
        protocol: number of the IP protocol.
        data: the datagram without its IP headers.
        source, destination: addresses, 4 or 16 bytes.
        tunnels, steps: as in `parse`.
    """
    try:
        if protocol == _TCP:
            return _tcp(data, 0, len(data), source, destination)
        inside = _inside(protocol, data, 0, tunnels, steps)
        return Skipped.NOT_TCP if inside is None else _found(inside[0], data, inside[1], tunnels, steps)
    except (IndexError, struct.error):
        return Skipped.CUT


def _found(kind: int, data: bytes, start: int, tunnels: Mapping[int, Encapsulation], steps: list[Step] | None) -> Found:
    """The TCP segment in a payload of an EtherType, or why there is none."""
    for _ in range(MOST_HEADERS):
        inside: Inside
        if kind in _IP_KINDS:
            version = data[start] >> 4
            if version == 4:
                found = _ipv4(data, start)
            elif version == 6:
                found = _ipv6(data, start)
            else:
                return _skipped(Skipped.NOT_IP, steps, "IP version", version)
            if not isinstance(found, tuple):
                return found
            protocol, start = found
            inside = _inside(protocol, data, start, tunnels, steps)
        elif kind == ETHERNET:
            inside = ethernet(data, start)
        elif kind in ETHERTYPES:
            inside = _opened(ETHERTYPES[kind], ETHERTYPE, kind, data, start, steps)
        else:
            return _skipped(Skipped.NOT_IP, steps, ETHERTYPE, kind)
        if inside is None:
            return Skipped.NOT_TCP
        kind, start = inside
    return _skipped(Skipped.NOT_TCP, steps, "headers, more than", MOST_HEADERS)


def _inside(
    protocol: int, data: bytes, start: int, tunnels: Mapping[int, Encapsulation], steps: list[Step] | None
) -> Inside:
    """The TCP segment in a datagram of a protocol other than TCP, or why there is none."""
    if protocol != _UDP:
        entry = IP_PROTOCOLS.get(protocol)
        if entry is not None:
            return _opened(entry, IP_PROTOCOL, protocol, data, start, steps)
        _skipped(Skipped.NOT_TCP, steps, IP_PROTOCOL, protocol)
        return None
    source, destination = struct.unpack_from(">HH", data, start)
    for port in (destination, source):
        if port in tunnels:
            return _opened(tunnels[port], UDP_PORT, port, data, start + 8, steps)
    _skipped(Skipped.NOT_TCP, steps, UDP_PORT, min(source, destination))  # the other is a client's
    return None


def _opened(
    entry: Encapsulation, announced: str, number: int, data: bytes, start: int, steps: list[Step] | None
) -> Inside:
    if steps is not None:
        steps.append((announced, number, entry.name))
    return entry.open(data, start)


def _skipped(reason: Skipped, steps: list[Step] | None, announced: str, number: int) -> Skipped:
    if steps is not None:
        if announced == ETHERTYPE and number < 0x600:
            number = 0  # not an EtherType but a length, of frames of IEEE 802.3
        steps.append((announced, number, NAMES.get(announced, {}).get(number, "")))
    return reason


def _ipv4(data: bytes, start: int) -> Found | tuple[int, int]:
    """The TCP segment or fragment in a datagram; of another one, its protocol and the offset of its payload."""
    length, identification, fragment, _, protocol = _IPV4_FIELDS(data, start + 2)
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
    return _tcp(data, start, end, source, destination) if protocol == _TCP else (protocol, start)


def _ipv6(data: bytes, start: int) -> Found | tuple[int, int]:
    """The TCP segment or fragment in a datagram of IPv6; of another one, its protocol and the offset of its payload."""
    length, following = struct.unpack_from(">HB", data, start + 4)
    end = start + 40 + length if length else len(data)
    source, destination = data[start + 8 : start + 24], data[start + 24 : start + 40]
    start += 40
    while following != _TCP:
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
            return following, start
        following = data[start]
        start += size
    return _tcp(data, start, end, source, destination)


def _fragment(data: bytes, start: int, end: int, head: Fragment) -> Found:
    # All fragments but the last hold a multiple of 8 bytes.
    if start > end or (head.more and (end - start) % 8):
        return Skipped.MALFORMED
    return Skipped.CUT if end > len(data) else msgspec.structs.replace(head, data=data[start:end])


def _tcp(data: bytes, start: int, end: int, source: bytes, destination: bytes) -> TcpSegment | Skipped:
    source_port, destination_port, sequence, acknowledgment, words, flags = _TCP_FIELDS(data, start)
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
    if max(ports) > 0xFFFF:
        return Skipped.MALFORMED
    for codes, size in ((_EXPORTED_IPV4, 4), (_EXPORTED_IPV6, 16)):
        addresses = [options.get(code, b"") for code in codes]
        if all(len(address) == size for address in addresses):
            source, destination = zip(addresses, ports, strict=True)
            return TcpSegment(source, destination, 0, 0, EXPORTED, data[start:])
    return Skipped.NOT_IP
