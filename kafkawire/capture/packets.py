"""`Packet`, and the file formats that packets are stored in: classic pcap and pcapng.

Both walk forward over a file and never seek, so a pipe will do, or a decompressor. What cannot be read ends the walk:
the packets before it are yielded, then `CaptureError` is raised with its place in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import construct
import msgspec

from kafkawire.capture.files import Readable, decompressed
from kafkawire.errors import CaptureError

#: Larger packets are not believed (libpcap's MAXIMUM_SNAPLEN; Wireshark's limit too).
MAX_PACKET_BYTES = 262_144
#: Larger pcapng blocks are not believed: packets, and the few options and names beside them.
_MAX_BLOCK_BYTES = 16 << 20

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 2, 3, 6
_BYTE_ORDER_MAGIC = b"\x1a\x2b\x3c\x4d"
_OPTION_END, _OPTION_RESOLUTION, _OPTION_TIME_OFFSET = 0, 9, 14


class Packet(msgspec.Struct, frozen=True, gc=False):
    """A captured packet.

    Attributes:
        number: from 1, in the order of the file.
        time_ns: when it was captured, epoch nanoseconds; 0 where the file does not say.
        link_type: what its first header is (LINKTYPE_..., 1 is Ethernet).
        data: its bytes, from the link layer's header on; fewer than the packet had where the capture cut them.
    """

    number: int
    time_ns: int
    link_type: int
    data: bytes


def _file_header(order: str) -> construct.Struct:
    """The head of a classic pcap file."""
    int16, int32, signed = (getattr(construct, name + order) for name in ("Int16u", "Int32u", "Int32s"))
    return construct.Struct(
        "magic" / int32,
        "version_major" / int16,
        "version_minor" / int16,
        "time_zone" / signed,  # 0 in practice: timestamps are UTC
        "accuracy" / int32,
        "snap_length" / int32,  # most bytes that were kept of a packet
        "link_type" / int32,  # lower 28 bits; above them what is known of a checksum at the end of frames
    )


#: first four bytes -> byte order, nanoseconds that a timestamp's second part counts
_PCAP_MAGIC = {
    b"\xa1\xb2\xc3\xd4": ("b", 1000),
    b"\xd4\xc3\xb2\xa1": ("l", 1000),
    b"\xa1\xb2\x3c\x4d": ("b", 1),
    b"\x4d\x3c\xb2\xa1": ("l", 1),
}
_FILE_HEADERS = {"b": _file_header("b"), "l": _file_header("l")}
_STRUCT_ORDER = {"b": ">", "l": "<"}


def read_packets(file: Readable) -> Iterator[Packet]:
    """The packets of a capture file, whichever format it has; compressed with gzip or zstd, or not.

    Raises:
        CaptureError: no capture file, or (after the packets before it) a part of it that cannot be read.
        MissingExtraError: it is compressed with zstd, and nothing here can decompress it.
    """
    magic = file.read(4)
    plain = decompressed(magic, file)
    if plain is not None:
        file = plain
        magic = file.read(4)
    if magic in _PCAP_MAGIC:
        yield from _read_pcap(file, magic)
    elif magic == _SECTION_HEADER.to_bytes(4, "big"):
        yield from _read_pcapng(file, magic)
    else:
        found = f"a file that begins with {magic.hex(' ')}" if magic else "an empty file"
        raise CaptureError(expected="a pcap or pcapng file", found=found, offset=0)


def _read_pcap(file: Readable, magic: bytes) -> Iterator[Packet]:
    order, fraction = _PCAP_MAGIC[magic]
    layout = _FILE_HEADERS[order]
    head = magic + file.read(layout.sizeof() - len(magic))
    if len(head) < layout.sizeof():
        raise _cut("a pcap file's header", 0, len(head))
    link_type = layout.parse(head).link_type & 0x0FFFFFFF
    unpack = struct.Struct(_STRUCT_ORDER[order] + "IIII").unpack  # seconds, fraction, bytes kept, bytes of the packet
    position = len(head)
    number = 0
    while start := file.read(16):
        number += 1
        if len(start) < 16:
            raise _cut(f"packet {number}", position, len(start))
        seconds, rest, kept, _ = unpack(start)
        if kept > MAX_PACKET_BYTES:
            raise CaptureError(
                expected=f"at most {MAX_PACKET_BYTES} bytes in packet {number}", found=str(kept), offset=position
            )
        data = file.read(kept)
        if len(data) < kept:
            raise _cut(f"packet {number}", position, len(start) + len(data))
        yield Packet(number, seconds * 1_000_000_000 + rest * fraction, link_type, data)
        position += 16 + kept


class _Interface(msgspec.Struct):
    """What a pcapng interface block says: how to read its packets."""

    link_type: int
    snap_length: int
    units_per_second: int = 1_000_000
    offset_s: int = 0

    def time_ns(self, high: int, low: int) -> int:
        units = (high << 32) | low
        time_ns = self.offset_s * 1_000_000_000 + units * 1_000_000_000 // self.units_per_second
        return time_ns if abs(time_ns) < 1 << 63 else 0


def _read_pcapng(file: Readable, first: bytes) -> Iterator[Packet]:
    """Blocks: type, length, body, length again. Each section has its own byte order and interfaces."""
    position = number = 0
    order = ">"
    interfaces: list[_Interface] = []
    start: bytes = first
    while start:
        head = start + file.read(8 - len(start))
        if len(head) < 8:
            raise _cut("a block's header", position, len(head))
        kind = int.from_bytes(head[:4], "big")
        body = b""
        if kind == _SECTION_HEADER:
            body = file.read(4)
            order = ">" if body == _BYTE_ORDER_MAGIC else "<"
            if body not in (_BYTE_ORDER_MAGIC, _BYTE_ORDER_MAGIC[::-1]):
                raise CaptureError(
                    expected="a section's byte order magic", found=body.hex(" ") or "the end", offset=position + 8
                )
            interfaces = []
        kind, length = struct.unpack(order + "II", head)
        if not 12 + len(body) <= length <= _MAX_BLOCK_BYTES or length % 4:
            raise CaptureError(expected="a block's length", found=str(length), offset=position + 4)
        body += file.read(length - 12 - len(body))
        end = file.read(4)
        if len(end) < 4:
            raise _cut("a block", position, 8 + len(body) + len(end))
        if end != head[4:]:
            raise CaptureError(
                expected=f"the block's length, {length}, again at its end",
                found=str(struct.unpack(order + "I", end)[0]),
                offset=position + length - 4,
            )
        try:
            if kind == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind in (_ENHANCED_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                number += 1
                yield _packet(kind, body, order, interfaces, number)
        except (struct.error, IndexError) as error:
            raise CaptureError(
                expected=f"a block of type {kind}", found=f"one that cannot be read: {error}", offset=position
            ) from None
        position += length
        start = file.read(4)


def _interface(body: bytes, order: str) -> _Interface:
    link_type, snap_length = struct.unpack_from(order + "H2xI", body)
    interface = _Interface(link_type, snap_length)
    position = 8
    while position + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, position)
        value = body[position + 4 : position + 4 + length]
        if code == _OPTION_END:
            break
        if code == _OPTION_RESOLUTION and length == 1:
            # The top bit says whether the exponent is one of 2 or of 10.
            exponent = value[0] & 0x7F
            interface.units_per_second = 2**exponent if value[0] & 0x80 else 10**exponent
        if code == _OPTION_TIME_OFFSET and length == 8:
            (interface.offset_s,) = struct.unpack(order + "q", value)
        position += 4 + length + -length % 4
    return interface


def _packet(kind: int, body: bytes, order: str, interfaces: list[_Interface], number: int) -> Packet:
    if kind == _SIMPLE_PACKET:
        (original,) = struct.unpack_from(order + "I", body)
        interface, start, time_ns = interfaces[0], 4, 0
        kept = min(original, interface.snap_length or original, len(body) - start)
    else:
        # Of the old packet block, the upper half of the first word counts drops.
        which, high, low, kept, _ = struct.unpack_from(
            order + ("IIIII" if kind == _ENHANCED_PACKET else "H2xIIII"), body
        )
        interface, start = interfaces[which], 20
        time_ns = interface.time_ns(high, low)
    data = body[start : start + kept]
    if len(data) < kept:
        raise IndexError(f"{len(data)} of packet {number}'s {kept} bytes")
    return Packet(number, time_ns, interface.link_type, data)


def _cut(what: str, position: int, there: int) -> CaptureError:
    return CaptureError(expected=f"all of {what}", found=f"the end of the file after {there} bytes", offset=position)
