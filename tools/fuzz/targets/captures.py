"""Captures: files, packets of every link type, and conversations as TCP may leave them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from itertools import cycle, pairwise
from typing import Any

import cramjam

from kafkawire import capture
from kafkawire.capture import (
    CapturedExchange,
    ColumnsOfExchanges,
    Exchanges,
    ExchangeSelection,
    LinesOfExchanges,
    TcpSegment,
    parse,
    read_packets,
)
from kafkawire.capture.encapsulations import UDP_PORTS, path
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.files import FollowedFile
from kafkawire.capture.fragments import MOST_DATAGRAMS, Fragment, Fragments
from kafkawire.capture.network import FIN, MOST_HEADERS, RST, SYN, Skipped, endpoint, transport
from kafkawire.capture.reader import read_with
from kafkawire.cli.formatting import json_bytes
from kafkawire.errors import CaptureError
from tools.fuzz import inputs, seed_vectors
from tools.fuzz.target import FuzzTarget

_BODY, _TEXT, _RECORDS = 4, 8, 16
#: What a file is wrapped in, by the lowest bits of its first byte.
_WRAPS = (bytes, gzip.compress, lambda data: bytes(cramjam.zstd.compress(data)), bytes)


def _options(choice: int) -> dict[str, bool]:
    return {"body": bool(choice & _BODY), "text": bool(choice & _TEXT), "records": bool(choice & _RECORDS)}


def _read(exchanges: Exchanges) -> tuple[Any, Any]:
    """Rows and summary, or the error."""
    try:
        rows: list[Any] = []
        for found in exchanges.found():
            if isinstance(found, ColumnsOfExchanges):
                rows += [found.count, found.arrays]
            elif isinstance(found, LinesOfExchanges):
                rows += found.data.splitlines()
            elif isinstance(found, CapturedExchange):
                rows.append(json_bytes(found.row))
    except CaptureError as error:
        return str(error), None
    return rows, exchanges.summary


def _both_ways(data: bytes, options: dict[str, Any]) -> tuple[Any, Any]:
    """What the native tracker gives, as rows and as lines, is what Python alone gives."""
    found = _read(read_with(BytesIO(data), **options))
    if options.get("text") or not options.get("body"):
        assert found == _read(read_with(BytesIO(data), **options, lines=True))
    alone = Exchanges(
        lambda unread, _: read_packets(BytesIO(data), unread), "-", ReadOptions(**options), ExchangeSelection()
    )
    assert found == _read(alone)
    _check_columns(data, options, found)
    return found


def _check_columns(data: bytes, options: dict[str, Any], expected: tuple[Any, Any]) -> None:
    """Columns have as many exchanges, and the same counts; tests compare their values."""
    rows, summary = _read(read_with(BytesIO(data), **options, columns=json_bytes))
    assert summary == expected[1]
    if summary is None:
        assert rows == expected[0]
        return
    for count, arrays in pairwise(rows):
        if isinstance(arrays, dict):
            assert all(len(array) == count for array in arrays.values())
            for array in arrays.values():
                array.validate(full=True)
    assert sum(row if isinstance(row, int) else isinstance(row, bytes) for row in rows) == len(expected[0])


# Files ----------------------------------------------------------------------------------------------------------------


def check_capture(data: bytes) -> None:
    """The first byte selects the file's wrapping, and the parts of its rows."""
    choice = data[0] if data else 0
    file = _WRAPS[choice % len(_WRAPS)](data[1:])
    _, summary = _both_ways(file, _options(choice))
    if summary is not None:
        assert summary.packets >= summary.skipped.total()
        assert choice % len(_WRAPS) or summary.unread <= len(file)


class _SlowFile:
    """A file that something else writes: a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = BytesIO(data)
        self._sizes = cycle((1, 7, 300, 2, 64))

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, next(self._sizes)))


def check_following(data: bytes) -> None:
    """What is read of a file while it grows is what is read of it afterwards."""

    def taken(file: Any) -> tuple[list[Any], list[Any]]:
        found: list[Any] = []
        unread: list[Any] = []
        try:
            found.extend(read_packets(file, unread.append))
        except CaptureError as error:
            return found, [str(error)]
        return found, [(part.bytes, str(part.error)) for part in unread]

    assert taken(FollowedFile(_SlowFile(data), lambda: False)) == taken(BytesIO(data))


def _pcaps() -> Iterator[bytes]:
    from tests.capture import wiretap

    conversations = _recorded_conversations()
    ip = [packet for talk in conversations for packet in talk.packets]
    for choice, order in enumerate("<>"):
        some = [wiretap.ethernet(packet) for packet in ip[:12]]
        yield wiretap.pcap(some, order=order, nanoseconds=bool(choice))
        yield wiretap.pcapng(some, order=order, exponent=None if choice else 9)
    for talk in conversations:
        yield wiretap.pcap(map(wiretap.ethernet, talk.packets))
    for link_type, packets in _links().items():
        yield wiretap.pcap(packets, link_type=link_type)
        yield wiretap.pcapng(packets, link_type=link_type)
    example = (seed_vectors.EXAMPLES / "capture" / "transactions.pcap").read_bytes()
    yield example[:4096]


def _captures() -> Iterator[bytes]:
    for choice, data in enumerate(_pcaps()):
        for wrap in range(3):
            yield bytes([wrap + 4 * (choice % 8)]) + data
        yield bytes([3]) + gzip.compress(data, mtime=0)[: -choice or None]


# Packets --------------------------------------------------------------------------------------------------------------

LINK_TYPES = (1, 113, 276, 0, 108, 12, 101, 228, 252, 147)


def check_packets(data: bytes) -> None:
    """Parts, two a packet: its link type, by the first byte, and its bytes."""
    fragments = Fragments()
    parts = inputs.parts_of(data)
    given = 0
    for named, packet in zip(parts[::2], parts[1::2], strict=False):
        steps: list[Any] = []
        found: Any = parse(inputs.pick(LINK_TYPES, named), packet, UDP_PORTS, steps)
        assert len(steps) <= MOST_HEADERS + 1
        assert isinstance(path(steps), str)
        while isinstance(found, Fragment):
            assert len(found.data) <= len(packet)
            given += 1
            whole = fragments.add(found)
            found = None if whole is None else transport(found.protocol, whole, found.source, found.destination)
        assert found is None or isinstance(found, (TcpSegment, Skipped))
        if isinstance(found, TcpSegment):
            assert found.missing >= 0
            assert given or len(found.payload) <= len(packet)
            assert endpoint(found.source)
            assert endpoint(found.destination)
    fragments.finish()
    assert fragments.lost <= given
    assert len(fragments._datagrams) <= MOST_DATAGRAMS


def _packets() -> Iterator[bytes]:
    for link_type, packets in _links().items():
        number = bytes([LINK_TYPES.index(link_type)])
        yield inputs.joined(part for packet in packets for part in (number, packet))
        for packet in packets:
            yield inputs.joined([number, packet])


@cache
def _links() -> dict[int, list[bytes]]:
    """Packets by link type: plain, with VLAN tags, in tunnels, in fragments, exported."""
    from tests.capture import tunnels, wiretap

    ip = _recorded_conversations()[0].packets[2:5]
    six = wiretap.tcp(("::1", 40000), ("::2", 9092), 1, 1, 16, b"data")
    inner = wiretap.ethernet(ip[1])
    wrapped = [wrap(inner) for wrap in tunnels.TUNNELS.values()]
    pieces = tunnels.with_fragments_inside(tunnels.TUNNELS["GENEVE, options"], [wiretap.ethernet(ip[1] + bytes(400))])
    extended = six[:6] + b"\0" + six[7:40] + b"\6\0" + bytes(6) + six[40:]
    body = ip[1][20:]
    parts = [_ipv4(6, body[:24], more=True), _ipv4(6, body[24:], offset=3)]
    six_parts = [
        struct.pack(">IHBB", 6 << 28, 8 + len(piece), 44, 64) + six[8:40] + bytes([6, 0, 0, more]) + b"\0\0\0\7" + piece
        for piece, more in ((six[40:48], 1), (six[48:], 8))
    ]
    plain = [*ip, six, extended, *parts, *six_parts]
    # Exported PDUs: addresses of both sides, the kind of port, and the ports.
    options = {20: "0a000001", 21: "0a000002", 24: "00000002", 25: "00009c40", 26: "00002384"}
    exported = b"".join(struct.pack(">HH", code, 4) + bytes.fromhex(value) for code, value in options.items())
    exported += bytes(4)
    return {
        1: [*map(wiretap.ethernet, plain), *wrapped, *pieces],
        113: [bytes(14) + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\0") + packet for packet in plain],
        276: [b"\x08\0" + bytes(18) + packet for packet in ip],
        0: [b"\2\0\0\0" + packet for packet in plain],
        101: plain,
        252: [exported + ip[1][40:]],
    }


def _ipv4(protocol: int, data: bytes, *, offset: int = 0, more: bool = False) -> bytes:
    words = offset | (0x2000 if more else 0)
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(data), 7, words, 64, protocol, 0, 1, 2) + data


# Tunnels --------------------------------------------------------------------------------------------------------------

_MOST_NESTED = 4
_IP = (b"\x08\x00", b"\x86\xdd")


def check_tunnels(data: bytes) -> None:
    """Parts: encapsulations, one a byte, the inner one first; then changes: packet, place (two bytes), new bytes."""
    from tests.capture import tunnels, wiretap

    chosen, *changes = inputs.parts_of(data) or [b""]
    wraps = list(tunnels.TUNNELS.values())
    frames = [wiretap.ethernet(packet) for packet in _recorded_conversations()[0].packets]
    plain = [parse(1, frame) for frame in frames]
    for number in chosen[:_MOST_NESTED]:
        wrapped = [wraps[number % len(wraps)](frame) for frame in frames]
        # Many of the builders take IP only out of a frame.
        whole = all(each.endswith(frame) or frame[12:14] in _IP for each, frame in zip(wrapped, frames, strict=True))
        frames = wrapped if whole else frames
    steps: list[Any] = []
    parse(1, frames[0], UDP_PORTS, steps)
    if len(steps) <= MOST_HEADERS // 2:
        assert [parse(1, frame) for frame in frames] == plain
        assert _both_ways(wiretap.pcap(frames), {}) == _plain_rows()
    for change in changes:
        number, place, new = (change[0] if change else 0) % len(frames), int.from_bytes(change[1:3], "big"), change[3:]
        frames[number] = frames[number][:place] + new + frames[number][place + len(new) :]
    if changes:
        _both_ways(wiretap.pcap(frames), {})


@cache
def _plain_rows() -> tuple[Any, Any]:
    from tests.capture import wiretap

    return _both_ways(wiretap.pcap(map(wiretap.ethernet, _recorded_conversations()[0].packets)), {})


def _nestings() -> Iterator[bytes]:
    from tests.capture import tunnels

    for number in range(len(tunnels.TUNNELS)):
        yield inputs.joined([bytes([number])])
        yield inputs.joined([bytes([number, number + 7, 3]), b"\3\0\x20\1\2", b"\4\0\x0c\x88\x47"])


# Conversations --------------------------------------------------------------------------------------------------------

_FLAGS = (16, 16, 16, 16 | 8, SYN, SYN | 16, FIN | 16, RST)
_PLACES = 3
_HEADER = 4


def check_conversation(data: bytes) -> None:
    """Packets: a byte for connection, side and flags, one for the distance from the next sequence number, then the data
    after its length. The very first byte selects the parts of the rows."""
    from tests.capture import mutations, wiretap

    choice, data = (data[0], data[1:]) if data else (0, b"")
    following = [1000 * number for number in range(1, 2 * _PLACES + 1)]
    packets = []
    for head, payload in _script(data):
        side, number = head[0] & 1, head[0] // 2 % _PLACES
        ends = [("10.0.0.1", 40000 + number), ("10.0.0.2", 9092)]
        mine, other = 2 * number + side, 2 * number + 1 - side
        sequence = following[mine] + int.from_bytes(head[1:2], "big", signed=True)
        flags = _FLAGS[head[0] >> 5]
        packet = wiretap.tcp(ends[side], ends[1 - side], sequence, following[other], flags, payload)
        packets.append(wiretap.ethernet(packet))
        following[mine] = max(following[mine], sequence + len(payload) + bool(flags & (SYN | FIN)))
    file = wiretap.pcap(packets)
    _both_ways(file, _options(choice))
    reading = capture.read(BytesIO(file))
    mutations.account(list(reading), reading.summary)


def _script(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place + _HEADER <= len(data):
        head = data[place : place + _HEADER]
        end = place + _HEADER + int.from_bytes(head[2:], "big")
        yield head, data[place + _HEADER : end]
        place = end


def _conversations() -> Iterator[bytes]:
    for choice, talk in enumerate(_recorded_conversations()):
        out = [bytes([4 * choice])]
        for packet in talk.packets:
            flags = packet[33]
            number = _FLAGS.index(flags) if flags in _FLAGS else 0
            side = packet[12:16] != b"\x0a\0\0\1"
            payload = packet[40:]
            out.append(bytes([number << 5 | side, 0]) + len(payload).to_bytes(2, "big") + payload)
        yield b"".join(out)


@cache
def _recorded_conversations() -> list[Any]:
    """Conversations: small ones, one in many segments, one in the middle, one that is no Kafka."""
    from tests.capture import wiretap

    small = wiretap.Conversation()
    for number in range(1, 4):
        wiretap.ask(small, number)
    many = wiretap.Conversation(mss=20)
    many.request(wiretap.produce(-1), version=9, correlation_id=1)
    many.request(wiretap.produce(0), version=9, correlation_id=2)
    wiretap.ask(many, 3)
    middle = wiretap.Conversation(handshake=False)
    middle.send(1, b"\1\2\3")
    for number in range(1, 6):
        wiretap.ask(middle, number)
    other = wiretap.Conversation()
    other.send(0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").send(1, b"HTTP/1.1 200 OK\r\n\r\n")
    return [small.close(), many.close(), middle, other]


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="captures",
        reads="a capture file, pcap or pcapng, plain, gzip or zstd: with the native tracker, and without",
        holds="the same rows and counts, or the same `CaptureError`",
        check=check_capture,
        seeds=_captures,
        longest=4096,
    ),
    FuzzTarget(
        name="following",
        reads="a capture file that grows a few bytes at a time",
        holds="the packets that are read of it when it is whole",
        check=check_following,
        seeds=_pcaps,
        longest=4096,
    ),
    FuzzTarget(
        name="packets",
        reads="packets of every link type: VLAN, each encapsulation, fragments of IPv4 and IPv6, exported PDUs",
        holds="a segment, a fragment or why not; fragments in bounded memory, each in a datagram or counted",
        check=check_packets,
        seeds=_packets,
        form=inputs.PARTS,
        longest=2048,
    ),
    FuzzTarget(
        name="tunnels",
        reads="a conversation in up to four encapsulations around each other, and with bytes changed in any header",
        holds="the rows of the plain one; changed, the native tracker gives what Python alone gives",
        check=check_tunnels,
        seeds=_nestings,
        form=inputs.PARTS,
        longest=512,
    ),
    FuzzTarget(
        name="conversations",
        reads="TCP packets of a few connections: out of order, overlapping, lost, reset",
        holds="both trackers give the same; every byte of a Kafka connection is in a frame or reported",
        check=check_conversation,
        seeds=_conversations,
        longest=4096,
    ),
)
