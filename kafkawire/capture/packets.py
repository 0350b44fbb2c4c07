"""`Packet`, and the file formats that packets are stored in: classic pcap and pcapng.

Both walk forward over a file and never seek, so a pipe will do, or a decompressor. What cannot be read is raised as
`CaptureError` with its place in the file, after the packets before it; or it is told, and the walk goes on behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import construct
import msgspec

from kafkawire.capture.damage import BlockHeaders, PcapHeaders, Unread, section_order, skip
from kafkawire.capture.files import BrokenOff, Lookahead, Readable, decompressed
from kafkawire.errors import CaptureError

#: Larger packets are not believed (libpcap's MAXIMUM_SNAPLEN; Wireshark's limit too).
MAX_PACKET_BYTES = 262_144
#: Larger pcapng blocks are not believed: packets, and the few options and names beside them.
_MAX_BLOCK_BYTES = 16 << 20

_SECTION = b"\x0a\x0d\x0d\x0a"
_INTERFACE = 1
#: All types that are defined, and the first of those that anybody may use.
_DEFINED = frozenset((*range(1, 11), int.from_bytes(_SECTION), 0x0BAD, 0x40000BAD))
_LOCAL = 1 << 31
_OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 2, 3, 6
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


class Run(msgspec.Struct, frozen=True, gc=False):
    """Packets in a row that have been dealt with: how many, in how many bytes, and what came of them."""

    packets: int
    bytes: int
    taken: list[Any]


def read_packets(file: Readable, unread: Callable[[Unread], None] | None = None) -> Iterator[Packet]:
    """The packets of a capture file, whichever format it has; compressed with gzip or zstd, or not.

    Args:
        unread: is told of each part of the file that could not be read; reading goes on behind it. Without, the first
            such part is raised.

    Raises:
        CaptureError: no capture file, or one whose content cannot be decompressed any further; without `unread`, any
            part that cannot be read (after the packets before it).
        MissingExtraError: it is compressed with zstd, and nothing here can decompress it.
    """
    for found in read_runs(file, unread, None):
        assert isinstance(found, Packet)
        yield found


def read_runs(file: Readable, unread: Callable[[Unread], None] | None, lanes: Any) -> Iterator[Packet | Run]:
    """As `read_packets`; but runs of packets that `lanes` (of the native engine) can take are given to it at once."""
    source = Lookahead(file)
    plain = decompressed(source)
    if plain is not None:
        source = Lookahead(plain)
    magic = source.at(0, 4)
    walk: _Pcap | _PcapNg
    if magic in _PCAP_MAGIC:
        walk = _Pcap(source, lanes)
    elif magic == _SECTION:
        walk = _PcapNg(source, doubting=unread is not None)
    else:
        found = f"a file that begins with {magic.hex(' ')}" if magic else "an empty file"
        raise CaptureError(expected="a pcap or pcapng file", found=found, offset=0)
    yield from walk.packets() if unread is None else _resumed(walk, unread)


def _resumed(walk: _Pcap | _PcapNg, unread: Callable[[Unread], None]) -> Iterator[Packet | Run]:
    """The packets before and behind all damage. Parts that follow each other are told as one."""
    lost: Unread | None = None
    while lost is None or lost.resumed:
        try:
            for packet in walk.packets():
                if lost is not None:
                    unread(lost)
                    lost = None
                yield packet
            break
        except BrokenOff:
            if lost is not None:
                unread(lost)
            raise
        except CaptureError as error:
            position = walk.file.position
            count, found = skip(walk.file, walk.headers)
            if lost is None:
                lost = Unread(position, count, error, found)
            elif lost.position + lost.bytes == position:
                lost.bytes += count
                lost.resumed = found
            else:
                unread(lost)
                lost = Unread(position, count, error, found)
    if lost is not None and not walk.number:
        raise lost.error
    if lost is not None:
        unread(lost)


class _Pcap:
    """A classic pcap from its header on. Nothing of a packet is taken from the file that cannot be read as a whole."""

    def __init__(self, file: Lookahead, lanes: Any) -> None:
        self.file = file
        self._lanes = lanes
        self.number = 0  # of the last packet
        order, self._unit_ns = _PCAP_MAGIC[file.at(0, 4)]
        layout = _FILE_HEADERS[order]
        head = file.at(0, layout.sizeof())
        if len(head) < layout.sizeof():
            raise _cut("a pcap file's header", 0, len(head))
        file.read(len(head))
        self._link_type = layout.parse(head).link_type & 0x0FFFFFFF
        # Seconds, fraction, bytes kept, bytes of the packet.
        self._unpack = struct.Struct(_STRUCT_ORDER[order] + "IIII").unpack
        self.headers = PcapHeaders(_STRUCT_ORDER[order], 1_000_000_000 // self._unit_ns, MAX_PACKET_BYTES)
        self._format = (order == "l", self._unit_ns, self._link_type, MAX_PACKET_BYTES, self.headers.FAR_S)

    def packets(self) -> Iterator[Packet | Run]:
        file, headers = self.file, self.headers
        while head := file.at(0, 16):
            number = self.number + 1
            if len(head) < 16:
                raise _cut(f"packet {number}", file.position, len(head))
            seconds, fraction, kept, original = self._unpack(head)
            if kept > MAX_PACKET_BYTES:
                raise CaptureError(
                    expected=f"at most {MAX_PACKET_BYTES} bytes in packet {number}",
                    found=str(kept),
                    offset=file.position,
                )
            if not headers.right(file, head):
                raise CaptureError(
                    expected=f"the header of packet {number}",
                    found=f"one that says {kept} of {original} bytes at {seconds}.{fraction}",
                    offset=file.position,
                )
            data = file.at(16, kept)
            if len(data) < kept:
                raise _cut(f"packet {number}", file.position, len(head) + len(data))
            file.read(16 + kept)
            self.number = number
            yield Packet(number, seconds * 1_000_000_000 + fraction * self._unit_ns, self._link_type, data)
            if self._lanes is not None:
                run = self._run()
                if run.packets:
                    yield run

    def _run(self) -> Run:
        """Gives to the lanes what is there, up to the first packet that they do not take."""
        window, start = self.file.ready()
        end, count, recent, taken = self._lanes.run(window, start, self._format, self.number, list(self.headers.recent))
        self.file.pass_over(end)
        self.number += count
        self.headers.recent.clear()
        self.headers.recent.extend(recent)
        return Run(count, end - start, taken)


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


class _PcapNg:
    """A pcapng: blocks of type, length, body, length again. Each section has its own byte order and interfaces.

    Nothing of a block is taken from the file that cannot be read as a whole. Blocks of types that nobody has defined
    are passed over; `doubting` whether they were something else, they are damage.
    """

    def __init__(self, file: Lookahead, *, doubting: bool) -> None:
        self.file = file
        self._doubting = doubting
        self.number = 0  # of the last packet
        self.headers = BlockHeaders(_MAX_BLOCK_BYTES)
        self._interfaces: list[_Interface] = []

    def packets(self) -> Iterator[Packet]:
        while head := self.file.at(0, 12):
            kind, body = self._block(head)
            if self._doubting and kind not in _DEFINED and kind < _LOCAL:
                raise CaptureError(expected="a type of block", found=str(kind), offset=self.file.position)
            packet = None
            try:
                if kind == _INTERFACE:
                    self._interfaces.append(_interface(body, self.headers.order))
                elif kind in (_ENHANCED_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                    packet = _packet(kind, body, self.headers.order, self._interfaces, self.number + 1)
            except (struct.error, IndexError) as error:
                raise CaptureError(
                    expected=f"a block of type {kind}",
                    found=f"one that cannot be read: {error}",
                    offset=self.file.position,
                ) from None
            self.file.read(12 + len(body))
            if packet is not None:
                self.number += 1
                yield packet

    def _block(self, head: bytes) -> tuple[int, bytes]:
        """Type and body of the block that begins with `head`; a section's head changes the byte order."""
        position = self.file.position
        if len(head) < 8:
            raise _cut("a block's header", position, len(head))
        section = head[:4] == _SECTION
        order = section_order(head) if section else self.headers.order
        if order is None:
            found = head[8:].hex(" ") or "the end"
            raise CaptureError(expected="a section's byte order magic", found=found, offset=position + 8)
        kind, length = struct.unpack_from(order + "II", head)
        if not (16 if section else 12) <= length <= _MAX_BLOCK_BYTES or length % 4:
            raise CaptureError(expected="a block's length", found=str(length), offset=position + 4)
        block = self.file.at(0, length)
        if len(block) < length:
            raise _cut("a block", position, len(block))
        if block[-4:] != head[4:8]:
            raise CaptureError(
                expected=f"the block's length, {length}, again at its end",
                found=str(struct.unpack(order + "I", block[-4:])[0]),
                offset=position + length - 4,
            )
        if section:
            self.headers.order, self._interfaces = order, []
        return kind, block[8:-4]


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
