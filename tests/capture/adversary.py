"""Recorded captures with random faults, of which both engines have to show the same, and nothing false.

    python -m tests.capture.adversary [--seeds FIRST-LAST] FILE...     # prints what contradicts the properties

A range of a capture is taken. Its packets are lost, delayed, doubled, sent again in other segments, or truncated; TCP
keep-alives and closed windows are inserted; addresses and ports are others; the next client has the port of one before,
with a SYN or without; packets are in other link layers, behind IPv6 extension headers, in IP fragments. Then:

- the native engine and Python give the same rows and counts;
- every byte of Kafka's connections is in a frame, in a problem, or counted (`mutations.account`);
- a row without a problem is a row of the whole capture: nothing that is shown is false;
- a row of the whole capture that is not shown is missing with a problem or an exit code that is not 0, unless the ends
  of the range cut it off; where nothing was lost, none is missing.
"""

from __future__ import annotations

import argparse
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire import capture
from kafkawire.capture import TcpSegment, parse, read_packets
from kafkawire.capture.frame_stream import FrameStream
from kafkawire.capture.network import ACK, FIN, RST, SYN
from kafkawire.capture.tcp_stream import Chunk
from kafkawire.rows import Exchange
from tests.capture import cuts, tunnels, wiretap
from tests.capture.mutations import account

MOST_PACKETS = 240
_FAR = 1 << 32

#: What of a row is the same wherever its packets are.
Shown = tuple[object, ...]


class Piece(NamedTuple):
    """Segments of a capture in their order.

    `whole`: nothing between the first and the last is lost, or in another place. `shows_losses`: the headers of the
    segments show what is lost.
    """

    segments: list[TcpSegment]
    whole: bool = True
    shows_losses: bool = True


Fault = Callable[[Piece, random.Random], Piece]


def shown(row: Exchange) -> Shown:
    return (row.api, row.version, row.correlation_id, row.client_id, row.request_bytes, row.response_bytes,
            tuple(sorted(row.errors.items())), row.note)  # fmt: skip


def segments_of(data: bytes) -> list[TcpSegment]:
    found = (parse(packet.link_type, packet.data) for packet in read_packets(BytesIO(data)))
    return [segment for segment in found if isinstance(segment, TcpSegment)]


def _ends(segment: TcpSegment) -> frozenset[tuple[bytes, int]]:
    return frozenset((segment.source, segment.destination))


# Faults ---------------------------------------------------------------------------------------------------------------


def lost(piece: Piece, numbers: random.Random) -> Piece:
    chance = numbers.choice((10, 40, 100))
    return Piece([one for one in piece.segments if numbers.randrange(chance)], False, False)


def one_direction(piece: Piece, numbers: random.Random) -> Piece:
    gone = numbers.choice(piece.segments).source
    return Piece([one for one in piece.segments if one.source != gone], False, False)


def truncated(piece: Piece, numbers: random.Random) -> Piece:
    """As by `tcpdump -s`."""
    most = numbers.choice((0, 4, 14, 20, 60, 200))
    short = ((one, one.payload[:most]) for one in piece.segments)
    made = [replace(one, payload=kept, missing=one.missing + len(one.payload) - len(kept)) for one, kept in short]
    return piece._replace(segments=made, whole=False)


def delayed(piece: Piece, numbers: random.Random) -> Piece:
    """A packet is captured some packets later than it was sent."""
    made = list(piece.segments)
    for _ in range(numbers.randrange(1, 5)):
        at = numbers.randrange(len(made))
        made.insert(min(len(made), at + numbers.randrange(1, 6)), made.pop(at))
    return piece._replace(segments=made, whole=False)


def doubled(piece: Piece, numbers: random.Random) -> Piece:
    """As by a mirror of both ports of a switch."""
    chance, made = numbers.choice((1, 5, 30)), []
    for one in piece.segments:
        made += [one, one] if numbers.randrange(chance) == 0 else [one]
    return piece._replace(segments=made)


def sent_again(piece: Piece, numbers: random.Random) -> Piece:
    """Data comes again, together with what comes before or after it."""
    made: list[TcpSegment] = []
    for one in piece.segments:
        before = next(
            (other for other in reversed(made) if other.source == one.source and _ends(other) == _ends(one)), None
        )
        made.append(one)
        if before is None or not one.payload or before.flags & (SYN | FIN | RST) or numbers.randrange(8):
            continue
        if before.sequence + len(before.payload) == one.sequence and not before.missing:
            both = before.payload + one.payload
            first = numbers.randrange(len(both))
            made.append(replace(one, sequence=before.sequence + first, payload=both[first:]))
    return piece._replace(segments=made)


def in_other_pieces(piece: Piece, numbers: random.Random) -> Piece:
    made = []
    for one in piece.segments:
        at = numbers.randrange(1, 30) if numbers.randrange(4) == 0 else 0
        if 0 < at < len(one.payload) and not one.flags & SYN:
            made.append(replace(one, payload=one.payload[:at], missing=0, flags=one.flags & ~(FIN | RST)))
            made.append(replace(one, payload=one.payload[at:], sequence=(one.sequence + at) % _FAR))
        else:
            made.append(one)
    return piece._replace(segments=made)


def keep_alives(piece: Piece, numbers: random.Random) -> Piece:
    """Probes with a byte of any content or none, one before the next sequence number; acknowledgments alone, as of a
    closed window."""
    made: list[TcpSegment] = []
    following: dict[tuple[object, object], int] = {}
    for one in piece.segments:
        made.append(one)
        key = one.source, one.destination
        if one.flags & (SYN | FIN | RST):
            following.pop(key, None)
            continue
        following[key] = max(following.get(key, 0), one.sequence + len(one.payload) + one.missing)
        if numbers.randrange(6) == 0:
            probe = numbers.choice((b"", b"\0", b"x"))
            made.append(replace(one, sequence=(following[key] - 1) % _FAR, payload=probe, missing=0, flags=ACK))
        if numbers.randrange(6) == 0:
            made.append(replace(one, sequence=following[key] % _FAR, payload=b"", missing=0, flags=ACK))
    return piece._replace(segments=made)


def one_port(piece: Piece, numbers: random.Random) -> Piece:
    """All clients of a broker have one port, one after the other; each connection's SYN is there, or not."""
    connections: dict[frozenset[tuple[bytes, int]], list[TcpSegment]] = {}
    for one in piece.segments:
        connections.setdefault(_ends(one), []).append(one)
    known = numbers.choice(list(connections.values()))[0]
    client, broker = (known.source, known.destination)
    if client[1] < broker[1]:
        client, broker = broker, client
    drops = numbers.choice((0, SYN, SYN | FIN | RST))
    made = []
    for connection in connections.values():
        ends = sorted((connection[0].source, connection[0].destination), key=lambda end: end[1])
        if ends[0] != broker:
            continue
        new = {ends[1]: client, broker: broker}
        made += [
            replace(one, source=new[one.source], destination=new[one.destination])
            for one in connection
            if not one.flags & drops
        ]
    return Piece(made or piece.segments, False, False)


def other_ends(piece: Piece, numbers: random.Random) -> Piece:
    """Another port and address of each end, and other sequence numbers, near their end."""
    made_up: dict[tuple[bytes, int], tuple[bytes, int]] = {}
    shifts: dict[tuple[object, object], int] = {}
    made = []
    for one in piece.segments:
        for end in (one.source, one.destination):
            if end not in made_up:
                made_up[end] = (bytes([10, 9, 8, len(made_up) + 1]), numbers.randrange(1, 1 << 16))
        for key, first in (
            ((one.source, one.destination), one.sequence),
            ((one.destination, one.source), one.acknowledgment),
        ):
            if key not in shifts:
                shifts[key] = _FAR - numbers.randrange(1, 2000) - first
        made.append(
            replace(
                one,
                source=made_up[one.source],
                destination=made_up[one.destination],
                sequence=(one.sequence + shifts[one.source, one.destination]) % _FAR,
                acknowledgment=(one.acknowledgment + shifts[one.destination, one.source]) % _FAR,
            )
        )
    return piece._replace(segments=made)


#: Faults of which some are applied, in this order.
FAULTS: Sequence[Fault] = (
    one_port, in_other_pieces, sent_again, keep_alives, delayed, lost, one_direction, truncated, doubled, other_ends,
)  # fmt: skip


# Packets --------------------------------------------------------------------------------------------------------------


def _ip(one: TcpSegment, *, v6: bool, numbers: random.Random) -> list[bytes]:
    """A segment as IP packets: more than one are fragments."""
    hosts = [(str(ip_address(host)), port) for host, port in (one.source, one.destination)]
    if v6:
        hosts = [(str(ip_address(host.rjust(16, b"\xfd"))), port) for host, port in (one.source, one.destination)]
    packet = wiretap.tcp(hosts[0], hosts[1], one.sequence, one.acknowledgment, one.flags, one.payload)
    if one.missing:
        length = struct.unpack_from(">H", packet, 4 if packet[0] >> 4 == 6 else 2)[0] + one.missing
        at = 4 if packet[0] >> 4 == 6 else 2
        return [packet[:at] + struct.pack(">H", min(length, 0xFFFF)) + packet[at + 2 :]]
    if packet[0] >> 4 == 6:
        kind, more = 6, b""
        for header in numbers.sample((0, 60, 43, 44), numbers.randrange(3)):
            more = (bytes([kind, 0, 0, 0]) + bytes(4)) + more
            kind = header
        return [packet[:4] + struct.pack(">HB", len(packet) - 40 + len(more), kind) + packet[7:40] + more + packet[40:]]
    if numbers.randrange(8) == 0 and len(packet) > 60:
        return tunnels.fragments(packet, numbers.randrange(1 << 16), numbers.choice((24, 48, 600)))
    return [packet]


def _vlan(packet: bytes) -> bytes:
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    return bytes(12) + b"\x88\xa8\0\2\x81\0\0\1" + kind + packet


def _cooked(packet: bytes) -> bytes:
    return bytes(14) + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + packet


def _cooked2(packet: bytes) -> bytes:
    return (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + bytes(18) + packet


#: Link types, and what makes a packet of them.
LINKS: Sequence[tuple[int, Callable[[bytes], bytes]]] = (
    (1, wiretap.ethernet),
    (1, _vlan),
    (113, _cooked),
    (276, _cooked2),
    (0, lambda packet: (b"\x1e\0\0\0" if packet[0] >> 4 == 6 else b"\x02\0\0\0") + packet),
    (101, lambda packet: packet),
)


def written(piece: Piece, numbers: random.Random) -> bytes:
    """A capture file of the segments."""
    link_type, wrap = numbers.choice(LINKS)
    v6 = numbers.randrange(3) == 0
    packets = (packet for one in piece.segments for packet in _ip(one, v6=v6, numbers=numbers))
    return wiretap.pcap(map(wrap, packets), link_type=link_type)


# Properties -----------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A capture: its segments, and what its rows show, with the first and the last packet of each."""

    segments: list[TcpSegment]
    rows: list[tuple[Shown, int, int]]

    @classmethod
    def of(cls, data: bytes) -> Known:
        segments = segments_of(data)
        last = last_packets(segments)
        rows = []
        for row in capture.read(BytesIO(data)):
            frames = (row.packet, row.request_bytes), (row.response_packet, row.response_bytes)
            ends = [last.get((packet, size or 0), packet) for packet, size in frames if packet is not None]
            rows.append((shown(row), row.packet or 0, max(ends, default=0)))
        return cls(segments, rows)


def last_packets(segments: Sequence[TcpSegment]) -> dict[tuple[int, int], int]:
    """Of the frames of connections whose beginning is there, by the first packet and the size: the last packet."""
    found: dict[tuple[int, int], int] = {}
    directions: dict[tuple[object, object], FrameStream] = {}
    for number, one in enumerate(segments, 1):
        key = one.source, one.destination
        if one.flags & SYN:
            directions[key] = FrameStream()
            directions[key].stream.open(one.sequence)
            directions[key].begin(0)
        elif (direction := directions.get(key)) is not None:
            for event in direction.stream.segment(one.sequence, one.payload, number, 0):
                if isinstance(event, Chunk):
                    found |= {(frame.packet, frame.size): number for frame in direction.take(event)}
    return found


def contradiction(known: Known, seed: int) -> str | None:
    """What contradicts the properties; None where they hold."""
    numbers = random.Random(seed)
    count = min(MOST_PACKETS, len(known.segments))
    first = numbers.choice((0, numbers.randrange(len(known.segments))))
    piece = Piece(known.segments[first : first + count])
    chosen = [fault for fault in FAULTS if numbers.randrange(4) == 0]
    for fault in chosen:
        if piece.segments:
            piece = fault(piece, numbers)
    wrong = _contradiction(known, piece, first, count, written(piece, numbers))
    return (
        None if wrong is None else f"seed {seed}, from packet {first}, {[fault.__name__ for fault in chosen]}: {wrong}"
    )


def _contradiction(known: Known, piece: Piece, first: int, count: int, data: bytes) -> str | None:
    found = capture.read(BytesIO(data))
    rows = list(found)
    exit_code = cuts.exit_code_of(found.summary)
    expected, expected_code = cuts.python(data)
    if rows != expected:
        one, other = next(pair for pair in _pairs(rows, expected) if pair[0] != pair[1])
        return f"the engines differ: {one} {other}"
    if exit_code != expected_code:
        return f"the engines exit with {exit_code} and {expected_code}"
    try:
        account(rows, found.summary)
    except AssertionError as error:
        return f"bytes are not accounted for: {str(error)[:200]}"
    whole = Counter(one for one, _, _ in known.rows)
    clean = Counter(shown(row) for row in rows if row.problem is None and row.request_bytes is not None)
    if false := clean - whole:
        return f"rows that are not in the capture: {next(iter(false))}"
    inside = Counter(one for one, packet, last in known.rows if first < packet and last <= first + count)
    missing = inside - Counter(shown(row) for row in rows if row.request_bytes is not None)
    if missing and piece.whole:
        return f"{missing.total()} rows are missing although nothing was lost: {next(iter(missing))}"
    if missing and exit_code == 0 and piece.shows_losses:
        return f"exit code 0 without {missing.total()} rows: {next(iter(missing))}"
    return None


def _pairs(rows: list[Exchange], others: list[Exchange]) -> Iterator[tuple[Exchange | None, Exchange | None]]:
    for at in range(max(len(rows), len(others))):
        yield (rows[at] if at < len(rows) else None), (others[at] if at < len(others) else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--seeds", default="0-199")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    for file in asked.file:
        known = Known.of(file.read_bytes())
        wrong = [found for seed in range(first, last + 1) if (found := contradiction(known, seed)) is not None]
        for one in wrong:
            print(f"{file.name}: {one}")
        print(f"{file.name}: {last + 1 - first} captures, {len(wrong)} that contradict the properties")


if __name__ == "__main__":
    main()
