"""Builders of encapsulations, each by its RFC: an Ethernet frame with IP -> an Ethernet frame around it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping

from tests.capture import wiretap

IP, IPV6, ETHERNET, MPLS = 0x0800, 0x86DD, 0x6558, 0x8847
#: Ends of the tunnels.
NEAR, FAR = ("192.0.2.1", 0), ("192.0.2.2", 0)
NEAR6, FAR6 = ("2001:db8::1", 0), ("2001:db8::2", 0)
MAC = bytes.fromhex("02000000000102000000000a")

Wrap = Callable[[bytes], bytes]


def ipv4(protocol: int, data: bytes, *, identification: int = 1, place: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), identification, place, 64, protocol, 0)
    head += bytes([192, 0, 2, 1, 192, 0, 2, 2])
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack(">H", total ^ 0xFFFF) + head[12:] + data


def ipv6(protocol: int, data: bytes) -> bytes:
    head = wiretap.tcp(NEAR6, FAR6, 0, 0, 0, b"")[:40]
    return head[:4] + struct.pack(">HB", len(data), protocol) + head[7:] + data


def frame(kind: int, data: bytes) -> bytes:
    return MAC + struct.pack(">H", kind) + data


def over_ip(packet: bytes) -> bytes:
    return frame(IPV6 if packet[0] >> 4 == 6 else IP, packet)


def udp(port: int, data: bytes, source: int = 50000) -> bytes:
    return struct.pack(">HHHH", source, port, 8 + len(data), 0) + data


def over_udp(port: int, data: bytes) -> bytes:
    return over_ip(ipv4(17, udp(port, data)))


def gre(kind: int, data: bytes, flags: int = 0, fields: bytes = b"") -> bytes:
    return over_ip(ipv4(47, struct.pack(">HH", flags, kind) + fields + data))


def geneve(kind: int, data: bytes, options: bytes = b"") -> bytes:
    return bytes([len(options) // 4, 0]) + struct.pack(">H", kind) + b"\0\0\7\0" + options + data


def gpe(following: int, data: bytes) -> bytes:
    return bytes([0x0C, 0, 0, following, 0, 0, 7, 0]) + data


def labels(count: int, last: int = 1000) -> bytes:
    return b"".join(struct.pack(">I", (last + count - 1 - i) << 12 | (i == count - 1) << 8 | 64) for i in range(count))


def pppoe(kind: int, data: bytes) -> bytes:
    return frame(0x8864, struct.pack(">BBHHH", 0x11, 0, 1, 2 + len(data), kind) + data)


def gtp(flags: int, more: bytes, data: bytes) -> bytes:
    return struct.pack(">BBHI", 0x30 | flags, 255, len(more) + len(data), 7) + more + data


#: Labels of pseudowires with a control word and without.
WITH_WORD, NO_WORD = 7000, 8000
VXLAN = b"\x08" + bytes(3) + b"\0\0\7\0"
OPTIONS = struct.pack(">HBB", 0x0102, 3, 1) + b"\1\2\3\4" + struct.pack(">HBB", 0x0102, 4, 0)
ERSPAN_II = struct.pack(">HHI", 0x1000 | 5, 7, 0)
ERSPAN_III = struct.pack(">HHIHH", 0x2000 | 5, 7, 1234, 0, 0)


def ip_of(inner: bytes) -> bytes:
    return inner[14:]


TUNNELS: Mapping[str, Wrap] = {
    "VLAN": lambda f: f[:12] + b"\x88\xa8\0\5\x81\0\0\6" + f[12:],
    "IP in IP": lambda f: over_ip(ipv4(4, ip_of(f))),
    "IP in IPv6": lambda f: over_ip(ipv6(4, ip_of(f))),
    "VXLAN": lambda f: over_udp(4789, VXLAN + f),
    "VXLAN, 8472": lambda f: over_udp(8472, VXLAN + f),
    "VXLAN over IPv6": lambda f: over_ip(ipv6(17, udp(4789, VXLAN + f))),
    "VXLAN, fixed source port": lambda f: over_ip(ipv4(17, udp(9, VXLAN + f, source=4789))),
    "VXLAN-GPE, Ethernet": lambda f: over_udp(4790, gpe(3, f)),
    "VXLAN-GPE, IP": lambda f: over_udp(4790, gpe(1, ip_of(f))),
    "VXLAN-GPE, MPLS": lambda f: over_udp(4790, gpe(5, labels(1) + ip_of(f))),
    "VXLAN-GPE, no protocol": lambda f: over_udp(4790, VXLAN + f),
    "GENEVE, Ethernet": lambda f: over_udp(6081, geneve(ETHERNET, f)),
    "GENEVE, options": lambda f: over_udp(6081, geneve(ETHERNET, f, OPTIONS)),
    "GENEVE, IP": lambda f: over_udp(6081, geneve(IP, ip_of(f), OPTIONS)),
    "GENEVE over IPv6": lambda f: over_ip(ipv6(17, udp(6081, geneve(IP, ip_of(f))))),
    "GENEVE around VXLAN": lambda f: over_udp(6081, geneve(IP, ipv4(17, udp(4789, VXLAN + f)), OPTIONS)),
    "GRE": lambda f: gre(IP, ip_of(f)),
    "GRE, all fields": lambda f: gre(IP, ip_of(f), 0xB000, bytes(12)),
    "GRE over IPv6": lambda f: over_ip(ipv6(47, b"\0\0\x08\0" + ip_of(f))),
    "NVGRE": lambda f: gre(ETHERNET, f, 0x2000, b"\0\0\7\0"),
    "ERSPAN I": lambda f: gre(0x88BE, f),
    "ERSPAN II": lambda f: gre(0x88BE, ERSPAN_II + f, 0x1000, bytes(4)),
    "ERSPAN III": lambda f: gre(0x22EB, ERSPAN_III + f, 0x1000, bytes(4)),
    "ERSPAN III, sub-header": lambda f: gre(0x22EB, ERSPAN_III[:-1] + b"\1" + bytes(8) + f, 0x1000, bytes(4)),
    "ERSPAN III, IP": lambda f: gre(0x22EB, ERSPAN_III[:-2] + b"\x08\0" + ip_of(f), 0x1000, bytes(4)),
    "MPLS": lambda f: frame(MPLS, labels(1) + ip_of(f)),
    "MPLS, stack": lambda f: frame(MPLS, labels(3) + ip_of(f)),
    "MPLS over GRE": lambda f: gre(MPLS, labels(2) + ip_of(f)),
    "MPLS over IP": lambda f: over_ip(ipv4(137, labels(2) + ip_of(f))),
    "MPLS over UDP": lambda f: over_udp(6635, labels(1) + ip_of(f)),
    "pseudowire": lambda f: frame(MPLS, labels(2, NO_WORD) + MAC + f[12:]),
    "pseudowire, control word": lambda f: frame(MPLS, labels(2, WITH_WORD) + b"\0\0\0\7" + MAC + f[12:]),
    "pseudowire, address of zeros": lambda f: frame(MPLS, labels(1, NO_WORD) + bytes(12) + f[12:]),
    "pseudowire, control word, address of zeros": lambda f: frame(
        MPLS, labels(1, WITH_WORD) + bytes(4) + bytes(12) + f[12:]
    ),
    "pseudowire, address like IPv4": lambda f: frame(MPLS, labels(1, NO_WORD) + b"\x45\0\xff\xff" + bytes(8) + f[12:]),
    "pseudowire, address like IPv6": lambda f: frame(
        MPLS, labels(1, NO_WORD) + b"\x60\0\0\0\xff\xff" + bytes(6) + f[12:]
    ),
    "PPPoE": lambda f: pppoe(0x21, ip_of(f)),
    "PPPoE with VLAN": lambda f: MAC + b"\x81\0\0\6" + pppoe(0x21, ip_of(f))[12:],
    "TZSP": lambda f: over_udp(37008, b"\1\0\0\1\1" + f),
    "TZSP, tags": lambda f: over_udp(37008, b"\1\1\0\1\0\x0a\1\x55\0\x0d\4\0\0\0\1\1" + f),
    "GTP": lambda f: over_udp(2152, gtp(0, b"", ip_of(f))),
    "GTP, sequence number": lambda f: over_udp(2152, gtp(2, b"\0\1\0\0", ip_of(f))),
    "GTP, extensions": lambda f: over_udp(2152, gtp(4, b"\0\0\0\x85\1\0\1\x85\2" + bytes(6) + b"\0", ip_of(f))),
    "GTP over IPv6": lambda f: over_ip(ipv6(17, udp(2152, gtp(0, b"", ip_of(f))))),
    "VXLAN around GENEVE around ERSPAN II around MPLS": lambda f: over_udp(
        4789,
        VXLAN + over_udp(6081, geneve(ETHERNET, gre(0x88BE, ERSPAN_II + TUNNELS["MPLS, stack"](f), 0x1000, bytes(4)))),
    ),
}


def fragments(packet: bytes, identification: int, size: int = 600) -> list[bytes]:
    """An IPv4 packet in fragments."""
    head, body = packet[:20], packet[20:]
    parts = []
    for at in range(0, len(body), size):
        part = body[at : at + size]
        place = at // 8 | (0x2000 if at + size < len(body) else 0)
        parts.append(head[:2] + struct.pack(">HHH", 20 + len(part), identification, place) + head[8:] + part)
    return parts


def with_fragments_inside(wrap: Wrap, frames: Iterable[bytes]) -> list[bytes]:
    """Frames of IPv4, each as fragments, each of which is in a tunnel."""
    return [wrap(over_ip(part)) for number, f in enumerate(frames) for part in fragments(ip_of(f), number, 200)]


def with_fragments_outside(wrap: Wrap, frames: Iterable[bytes]) -> list[bytes]:
    """Frames in tunnels over IPv4, each of which is in fragments."""
    return [over_ip(part) for number, f in enumerate(frames) for part in fragments(ip_of(wrap(f)), number)]
