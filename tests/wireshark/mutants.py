"""Captures with damaged payloads: TCP's headers stay sound, so that the plugin gets every byte."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from kafkawire import capture

_NUMBERS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x7f")


def mutant(source: bytes, number: int, share: float = 0.3) -> bytes:
    """A little-endian pcap file of Ethernet packets, in which a share of the payloads is damaged."""
    chance = random.Random(number)
    out, position = [source[:24]], 24
    while position < len(source):
        size = 16 + struct.unpack_from("<I", source, position + 8)[0]
        packet = bytearray(source[position : position + size])
        position += size
        found = capture.parse(1, bytes(packet[16:]))
        if isinstance(found, capture.TcpSegment) and found.payload and chance.random() < share:
            _damage(packet, len(packet) - len(found.payload), chance)
        out.append(bytes(packet))
    return b"".join(out)


def _damage(packet: bytearray, start: int, chance: random.Random) -> None:
    """Some bytes behind `start` change. Sizes of frames stay, mostly: what is in them is what gets read."""
    behind = start + (0 if chance.random() < 0.1 else 4)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if behind >= len(packet):
            return
        at = chance.randrange(behind, len(packet))
        kind = chance.random()
        if kind < 0.4:
            packet[at] = chance.randrange(256)
        elif kind < 0.7:
            number = chance.choice(_NUMBERS)[: len(packet) - at]
            packet[at : at + len(number)] = number
        elif kind < 0.85:
            packet[at:] = bytes(len(packet) - at)
        else:
            packet[at:] = chance.randbytes(len(packet) - at)


def truncated(source: bytes, snap_length: int) -> bytes:
    """The same packets as a capture with that snap length would hold them."""
    out, position = [source[:24]], 24
    while position < len(source):
        head = struct.unpack_from("<IIII", source, position)
        data = source[position + 16 : position + 16 + head[2]][:snap_length]
        out += [struct.pack("<IIII", *head[:2], len(data), head[3]), data]
        position += 16 + head[2]
    return b"".join(out)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
