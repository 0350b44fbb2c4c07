"""Headers that packets are wrapped in: tunnels, mirrors, tags. A table; one entry an encapsulation.

To add one, write a function that takes the packet and the offset of its header and returns the EtherType of what is
inside and the offset where that begins, and list it in `ENCAPSULATIONS` with what announces it. Protocols without an
EtherType of their own are mapped to one: `ETHERNET` is a whole frame, `IP` is IPv4 or IPv6 by its version. None: the
header carries no packet (a keepalive, an unknown version). Offsets beyond the packet may raise IndexError and
struct.error, which the caller takes for truncated headers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

IP, IPV6, ETHERNET = 0x0800, 0x86DD, 0x6558
_VLAN = frozenset((0x8100, 0x88A8, 0x9100))
_MPLS, _ERSPAN, _ERSPAN_III = 0x8847, 0x88BE, 0x22EB
#: What follows PPP's protocol field, and the next protocol of VXLAN-GPE.
_PPP = {0x0021: IP, 0x0057: IPV6, 0x0281: _MPLS}
_GPE = {1: IP, 2: IPV6, 3: ETHERNET, 5: _MPLS}
_TZSP_ETHERNET, _TZSP_PADDING, _TZSP_END = 1, 0, 1
_GTP_PACKET = 255

_word = struct.Struct(">H").unpack_from

#: The EtherType of what is inside a header, and where that begins; None: nothing is.
Inside = tuple[int, int] | None


class Encapsulation(NamedTuple):
    """A header around packets.

    Attributes:
        name: in lower case it is the name in `--decode-as`.
        open: takes a packet and the offset of this header; returns what is inside.
        ethertypes, ip_protocols, udp_ports: numbers that announce it. GRE announces EtherTypes.
    """

    name: str
    open: Callable[[bytes, int], Inside]
    ethertypes: tuple[int, ...] = ()
    ip_protocols: tuple[int, ...] = ()
    udp_ports: tuple[int, ...] = ()


def ethernet(data: bytes, start: int) -> tuple[int, int]:
    """Two addresses, VLAN tags (any number), EtherType."""
    return _tagged(data, start + 12)


def _tagged(data: bytes, kind_at: int) -> tuple[int, int]:
    kind = _word(data, kind_at)[0]
    while kind in _VLAN:
        kind_at += 4
        kind = _word(data, kind_at)[0]
    return kind, kind_at + 2


def _vlan(data: bytes, start: int) -> Inside:
    return _tagged(data, start + 2)


def _ip(data: bytes, start: int) -> Inside:
    return IP, start


def _vxlan(data: bytes, start: int) -> Inside:
    """RFC 7348."""
    return ETHERNET, start + 8


def _vxlan_gpe(data: bytes, start: int) -> Inside:
    """draft-ietf-nvo3-vxlan-gpe: a bit announces the next protocol."""
    kind = _GPE.get(data[start + 3]) if data[start] & 4 else ETHERNET
    return None if kind is None else (kind, start + 8)


def _geneve(data: bytes, start: int) -> Inside:
    """RFC 8926: version, length of the options in units of 4 bytes, EtherType."""
    first = data[start]
    return None if first >> 6 else (_word(data, start + 2)[0], start + 8 + (first & 63) * 4)


def _gre(data: bytes, start: int) -> Inside:
    """RFC 2784, RFC 2890, RFC 7637 (NVGRE): flags select the optional fields."""
    flags, kind = struct.unpack_from(">HH", data, start)
    if flags & 0x4007:  # source routing (RFC 1701), or another version
        return None
    start += 4 + sum(4 for flag in (0x8000, 0x2000, 0x1000) if flags & flag)
    if kind == _ERSPAN and not flags & 0x1000:  # type I has no sequence number and no header
        return ETHERNET, start
    return kind, start


def _erspan(data: bytes, start: int) -> Inside:
    """draft-foschiano-erspan, types II (version 1) and III (version 2)."""
    version = data[start] >> 4
    if version == 1:
        return ETHERNET, start + 8
    if version != 2:
        return None
    kind = {0: ETHERNET, 2: IP}.get(data[start + 10] >> 2 & 31)
    return None if kind is None else (kind, start + (20 if data[start + 11] & 1 else 12))


def _mpls(data: bytes, start: int) -> Inside:
    """RFC 3032, RFC 4448: labels up to the last; then IP or a pseudowire, with or without a control word."""
    while not data[start + 2] & 1:
        start += 4
    start += 4
    version = data[start] >> 4
    # Nothing announces what is inside: addresses of a frame may begin like IP, or like a control word (0).
    if version == 4 or version == 6:
        size = _word(data, start + 2)[0] if version == 4 else 40 + _word(data, start + 4)[0]
        if start + size <= len(data) or not _is_frame(data, start):
            return IP, start
    elif version == 0 and (_is_frame(data, start + 4) or not _is_frame(data, start)):
        start += 4
    return ETHERNET, start


def _is_frame(data: bytes, start: int) -> bool:
    """Whether an Ethernet frame with IP or a known encapsulation begins there."""
    try:
        kind, start = ethernet(data, start)
        return kind in ETHERTYPES or data[start] >> 4 == {IP: 4, IPV6: 6}.get(kind)
    except (IndexError, struct.error):
        return False


def _pppoe(data: bytes, start: int) -> Inside:
    """RFC 2516: a session's packet (code 0) with PPP."""
    kind = _PPP.get(_word(data, start + 6)[0]) if data[start + 1] == 0 else None
    return None if kind is None else (kind, start + 8)


def _tzsp(data: bytes, start: int) -> Inside:
    """TaZmen Sniffer Protocol: a received packet (0) or one to send (1), then tags."""
    if data[start + 1] > 1 or _word(data, start + 2)[0] != _TZSP_ETHERNET:
        return None
    start += 4
    while data[start] != _TZSP_END:
        start += 1 if data[start] == _TZSP_PADDING else 2 + data[start + 1]
    return ETHERNET, start + 1


def _gtp(data: bytes, start: int) -> Inside:
    """3GPP TS 29.281: GTP-U, version 1; flags announce four more bytes and extension headers."""
    flags = data[start]
    if flags >> 4 != 3 or data[start + 1] != _GTP_PACKET:
        return None
    start += 8
    if flags & 7:
        start += 4
        while flags & 4 and data[start - 1]:  # the last byte of each is the type of the next
            if not data[start]:
                return None
            start += data[start] * 4
    return IP, start


ENCAPSULATIONS = (
    Encapsulation("VLAN", _vlan, ethertypes=tuple(_VLAN)),
    Encapsulation("MPLS", _mpls, ethertypes=(_MPLS, 0x8848), ip_protocols=(137,), udp_ports=(6635,)),
    Encapsulation("PPPoE", _pppoe, ethertypes=(0x8864,)),
    Encapsulation("ERSPAN", _erspan, ethertypes=(_ERSPAN, _ERSPAN_III)),
    Encapsulation("IP in IP", _ip, ip_protocols=(4, 41)),
    Encapsulation("GRE", _gre, ip_protocols=(47,)),
    Encapsulation("VXLAN", _vxlan, udp_ports=(4789, 8472)),
    Encapsulation("VXLAN-GPE", _vxlan_gpe, udp_ports=(4790,)),
    Encapsulation("GENEVE", _geneve, udp_ports=(6081,)),
    Encapsulation("TZSP", _tzsp, udp_ports=(37008,)),
    Encapsulation("GTP", _gtp, udp_ports=(2152,)),
)
ETHERTYPES = {number: entry for entry in ENCAPSULATIONS for number in entry.ethertypes}
IP_PROTOCOLS = {number: entry for entry in ENCAPSULATIONS for number in entry.ip_protocols}
UDP_PORTS: Mapping[int, Encapsulation] = {number: entry for entry in ENCAPSULATIONS for number in entry.udp_ports}

#: Encapsulations that a UDP port announces, by the names that `--decode-as` has for them.
NAMED = {entry.name.lower(): entry for entry in ENCAPSULATIONS if entry.udp_ports}


# What packets were -----------------------------------------------------------------------------------------------

ETHERTYPE, IP_PROTOCOL, UDP_PORT = "EtherType", "IP protocol", "UDP port"
#: A header on the way into a packet: what announced it (one of the above, for example), its number, its name.
Step = tuple[str, int, str]
#: Names of what is often in captures and contains no TCP.
NAMES = {
    ETHERTYPE: {
        0: "none, IEEE 802.3",
        0x0806: "ARP",
        0x88CC: "LLDP",
        0x888E: "EAPOL",
        0x8863: "PPPoE discovery",
        0x88E5: "MACsec",
    },
    IP_PROTOCOL: {1: "ICMP", 2: "IGMP", 50: "ESP", 58: "ICMPv6", 89: "OSPF", 112: "VRRP", 132: "SCTP"},
    UDP_PORT: {53: "DNS", 67: "DHCP", 123: "NTP", 443: "QUIC", 4500: "IPsec NAT traversal", 51820: "WireGuard"},
}


def path(steps: Iterable[Step]) -> str:
    """Steps as text: `UDP port 6081: GENEVE, inside: IP protocol 1: ICMP`."""
    return ", inside: ".join(
        f"{kind} {f'0x{number:04x}' if kind == ETHERTYPE else number}{name and f': {name}'}"
        for kind, number, name in steps
    )
