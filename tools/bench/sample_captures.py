"""Captures for measurements: the one in examples/ (real clients and a real broker), repeated at later times.

Either the same clients connect again from other addresses: connections are short, some 17 frames each, which is much
work a frame. Or its connections continue: they are long, as those of services are.
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kafkawire import capture
from kafkawire.capture.network import FIN, RST, SYN
from tools import ROOT

EXAMPLE = ROOT / "examples" / "capture" / "transactions.pcap"
_FILE_HEADER = 24
#: The places of source and destination in an Ethernet packet of IPv4, and of TCP's numbers in an IPv4 packet without
#: options.
_ADDRESSES = slice(14 + 12, 14 + 20)
_NUMBERS = 14 + 20 + 4

Direction = tuple[object, object]


def write_capture(path: Path, times: int, *, long: bool = False) -> int:
    """Writes the example several times; the number of packets.

    Args:
        path: of the file to write. `times`: how often.
        long: as connections that continue, instead of new ones each time.
    """
    with EXAMPLE.open("rb") as file:
        packets = list(capture.read_packets(file))
    count = 0
    span = packets[-1].time_ns - packets[0].time_ns + 1_000_000_000
    with path.open("wb") as out:
        out.write(EXAMPLE.read_bytes()[:_FILE_HEADER])
        for turn in range(times):
            made = _going_on(packets, turn) if long else _coming_again(packets, turn)
            for packet, data in made:
                seconds, rest = divmod(packet.time_ns + turn * span, 1_000_000_000)
                out.write(struct.pack("<IIII", seconds, rest // 1000, len(data), len(data)) + data)
                count += 1
    return count


def _coming_again(packets: list[capture.Packet], turn: int) -> Iterator[tuple[capture.Packet, bytearray]]:
    address = struct.pack(">I", 10 << 24 | turn)
    for packet in packets:
        data = bytearray(packet.data)
        data[_ADDRESSES] = address * 2
        yield packet, data


def _going_on(packets: list[capture.Packet], turn: int) -> Iterator[tuple[capture.Packet, bytearray]]:
    """Connections are opened in the first turn, and never closed; later turns go on where those before stopped."""
    segments = [(packet, found) for packet in packets if isinstance(found := _parsed(packet), capture.TcpSegment)]
    first: dict[Direction, int] = {}
    length: dict[Direction, int] = defaultdict(int)
    for _, segment in segments:
        direction = (segment.source, segment.destination)
        begin = (segment.sequence + bool(segment.flags & SYN)) & 0xFFFFFFFF
        start = first.setdefault(direction, begin)
        if segment.payload:
            length[direction] = max(length[direction], (begin - start & 0xFFFFFFFF) + len(segment.payload))
    for packet, segment in segments:
        if segment.flags & (FIN | RST) or (segment.flags & SYN and turn):
            continue
        there, back = (segment.source, segment.destination), (segment.destination, segment.source)
        acknowledged = segment.acknowledgment
        if back in first:
            # A FIN counts as a byte, and is not there.
            acknowledged = first[back] + min(acknowledged - first[back] & 0xFFFFFFFF, length[back])
        data = bytearray(packet.data)
        numbers = (segment.sequence + turn * length[there], acknowledged + turn * length[back])
        struct.pack_into(">II", data, _NUMBERS, *(number & 0xFFFFFFFF for number in numbers))
        yield packet, data


def _parsed(packet: capture.Packet) -> object:
    return capture.parse(packet.link_type, packet.data)


def frames() -> int:
    """The number of frames in the example."""
    rows = list(capture.read(EXAMPLE))
    return sum((row.request_bytes is not None) + (row.response_bytes is not None) for row in rows)


if __name__ == "__main__":
    write_capture(Path(sys.argv[1]), int(sys.argv[2]), long="long" in sys.argv)
