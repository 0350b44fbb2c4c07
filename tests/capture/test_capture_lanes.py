"""Connections that the native engine takes over while they are in order: the same exchanges as without it, whatever
happens to the packets.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from wiretap import ACK, Talk, answer, ask, ethernet, pcap, produce, question, tcp

import kafkawire
from kafkawire import capture, records
from kafkawire.capture import Exchanges, ExchangeSelection, Summary, memory_limits, read_packets, reader
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.frame_stream import DirectionState, FrameStream
from kafkawire.capture.tcp_stream import RECENT_BYTES
from kafkawire.rows import Exchange

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
#: Ethernet, IPv4 and TCP headers without options.
HEADERS = 14 + 20 + 20
SEQUENCE, FLAGS = 14 + 20 + 4, 14 + 20 + 13


def read(data: bytes, *, lanes: bool) -> tuple[list[Exchange], Summary, int]:
    """Rows, summary, and the number of segments that Python processed."""
    looked = 0
    if lanes:
        found = capture.read(BytesIO(data))
        assert found.lanes is not None
    else:
        found = Exchanges(lambda unread: read_packets(BytesIO(data), unread), "-", ReadOptions(), ExchangeSelection())
    process = found.process

    def counted(*arguments: object, **options: object) -> None:
        nonlocal looked
        looked += 1
        process(*arguments, **options)  # type: ignore[arg-type]

    found.process = counted  # type: ignore[method-assign]
    return list(found), found.summary, looked


def alike(packets: list[bytes]) -> tuple[int, int]:
    """Asserts equal results with and without lanes; returns the numbers of segments that Python processed."""
    data = pcap(packets)
    rows, summary, few = read(data, lanes=True)
    expected, expected_summary, all_of_them = read(data, lanes=False)
    assert rows == expected
    assert summary == expected_summary
    return few, all_of_them


def clients() -> list[bytes]:
    with PCAP.open("rb") as file:
        return [packet.data for packet in capture.read_packets(file)]


CLIENTS = clients()


def talkative() -> list[bytes]:
    """Large and small frames in small segments, several in one, in both directions, with a wrapped sequence number."""
    talk = Talk(client_seq=2**32 - 3000, broker_seq=2**32 - 200, mss=100)
    big = records.build([records.Record(b"k", bytes(range(256)) * 40)])
    for number in range(1, 40):
        if number % 7 == 0:
            talk.request(produce(-1, big), version=9, correlation_id=number)
        else:
            question(talk, number)
        talk.mss = 7 if number % 5 == 0 else 1448
        if number % 3 == 0:
            for late in range(number - 2, number + 1):
                if late % 7:
                    answer(talk, late)
        talk.acknowledge(number % 2)
    return [ethernet(packet) for packet in talk.close().packets]


@pytest.mark.slow
def test_packets_in_order_do_not_reach_python() -> None:
    few, all_of_them = alike(talkative())
    assert few < all_of_them / 10
    few, all_of_them = alike(CLIENTS)
    assert few < all_of_them / 2


@pytest.mark.parametrize("start", [1, 2, 3, 10, 33])
def test_lanes_track_a_connection_from_before_the_capture(start: int) -> None:
    few, all_of_them = alike(talkative()[start:])
    assert few < all_of_them / 2


def test_two_packets_of_a_connection_reach_python() -> None:
    """The first packet, and the first one with data. Acknowledgments also follow the end."""
    packets = []
    for port in range(1, 41):
        talk = Talk(("10.0.0.1", 40000 + port % 10), client_seq=port * 1000)  # ports come again
        for number in range(1, 6):
            ask(talk, number)
        talk.close()
        talk.acknowledge(0)
        packets += talk.packets
    few, all_of_them = alike([ethernet(packet) for packet in packets])
    assert few == 2 * 40
    assert all_of_them > 10 * few / 2


def test_memory_of_closed_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a late acknowledgment opens a connection, with lanes too."""
    monkeypatch.setattr(reader, "MOST_ENDED", 3)
    packets, late = [], []
    for port in range(1, 8):
        talk = Talk(("10.0.0.1", 40000 + port))
        ask(talk, 1)
        talk.close()
        packets += talk.packets
        late.append(tcp(*talk.ends, talk.next[0], talk.next[1], ACK, b""))
    alike([ethernet(packet) for packet in packets + late])


def test_lanes_track_a_connection_again_after_a_fault() -> None:
    talk = Talk()
    for number in range(1, 30):
        ask(talk, number)
    packets = [ethernet(packet) for packet in talk.packets]
    packets[10], packets[11] = packets[11], packets[10]
    few, all_of_them = alike(packets)
    assert few < all_of_them / 4


@pytest.mark.parametrize("back", [100, RECENT_BYTES - 100, RECENT_BYTES + 100, 2 * RECENT_BYTES])
def test_lanes_compare_retransmissions_as_far_back_as_streams(back: int) -> None:
    talk = Talk(mss=700)
    for number in range(1, 200):
        question(talk, number)
    again = tcp(*talk.ends, talk.next[0] - back, talk.next[1], ACK, bytes(80))
    alike([ethernet(packet) for packet in [*talk.packets, again]])
    rows, _, _ = read(pcap([ethernet(packet) for packet in [*talk.packets, again]]), lanes=True)
    assert any("came again as others" in str(row.problem) for row in rows) == (back < RECENT_BYTES)


def faults(packets: list[bytes], numbers: random.Random) -> Iterator[bytes]:
    """The packets with all faults of a network."""
    held: list[bytes] = []
    for packet in packets[numbers.choice((0, 0, 50)) :]:
        kind = numbers.randrange(60)
        data = bytearray(packet)
        if kind == 0:
            continue
        if kind == 1:
            held.append(packet)
            continue
        if kind == 2:
            yield packet
        elif kind == 3 and len(data) > HEADERS + 2:
            data[numbers.randrange(HEADERS, len(data))] ^= 1 << numbers.randrange(8)  # another content, perhaps a size
        elif kind == 4:
            del data[numbers.randrange(14, len(data)) :]  # cut by the capture
        elif kind == 5:
            data[FLAGS] ^= numbers.choice((1, 2, 4, 8, 16))
        elif kind == 6:
            sequence = struct.unpack_from(">I", data, SEQUENCE)[0] + numbers.choice((-100, -1, 1, 3, 2**31))
            struct.pack_into(">I", data, SEQUENCE, sequence % 2**32)
        elif kind == 7:
            struct.pack_into(">I", data, SEQUENCE + 4, numbers.randrange(2**32))
        elif kind == 8:
            data[14 + 6] ^= 0x20  # a fragment
        yield bytes(data)
        if held and numbers.randrange(4) == 0:
            yield held.pop()
    yield from held


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_faults_give_equal_rows_with_and_without_lanes(seed: int) -> None:
    numbers = random.Random(seed)
    packets = talkative() if seed % 2 else CLIENTS
    begin = numbers.randrange(len(packets) // 2)
    alike(list(faults(packets[begin : begin + 350] if seed % 4 else packets, numbers)))


def test_accepts_a_tunnelled_packet_of_a_tracked_connection() -> None:
    """Python parses tunnels: it takes the connection back for the packet."""
    talk = Talk()
    for number in range(1, 6):
        ask(talk, number)
    outer = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 0, 1, 0, 64, 4, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    packets = [ethernet((outer if place % 4 == 0 else b"") + packet) for place, packet in enumerate(talk.packets)]
    few, all_of_them = alike(packets)
    assert few <= all_of_them


def test_lanes_read_link_types_addresses_and_truncated_packets() -> None:
    talk = Talk(("fd00::1", 40000), ("fd00::2", 9092))
    for number in range(1, 20):
        ask(talk, number)
    few, all_of_them = alike([ethernet(packet) for packet in talk.packets])
    assert few < all_of_them / 4
    vlan = [packet[:12] + b"\x81\0\0\1\x88\xa8\0\2" + packet[12:] for packet in map(ethernet, talk.packets)]
    few, all_of_them = alike(vlan)
    assert few < all_of_them / 4
    alike([ethernet(packet)[:90] for packet in talk.packets])


def test_reads_a_connection_of_an_endpoint_with_itself() -> None:
    end = ("10.0.0.1", 9092)
    talk = Talk(end, end)
    ask(talk, 1)
    alike([ethernet(packet) for packet in talk.packets])


def test_does_not_copy_a_large_frame_for_each_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with a large incomplete frame is not handed over, since that would copy the frame each time."""
    handed_over = []
    hand_over = FrameStream.hand_over

    def counted(side: FrameStream) -> DirectionState:
        handed_over.append(side.unframed)
        return hand_over(side)

    monkeypatch.setattr(FrameStream, "hand_over", counted)
    talk = Talk(mss=30_000)
    ask(talk, 1)
    before = len(talk.packets)
    again = tcp(*talk.ends, talk.next[0], talk.next[1], ACK, b"\0")
    talk.request(produce(-1, records.build([records.Record(b"k", bytes(2 << 20))])), version=9, correlation_id=2)
    packets = talk.packets[:before] + [part for packet in talk.packets[before:] for part in (packet, again)]
    assert alike([ethernet(packet) for packet in packets])
    assert len(packets) > 100
    assert sum(handed_over) < 200_000


def test_memory_of_lanes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST_HELD", 40_000)
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 5_000)
    monkeypatch.setattr(memory_limits, "MOST_OPEN", 20)
    packets = []
    for port in range(60):
        talk = Talk(("10.0.0.1", 1000 + port), mss=1000)
        ask(talk, 1)
        talk.request(produce(-1, records.build([records.Record(b"k", bytes(3000))])), version=9, correlation_id=2)
        packets += talk.packets[:-1]  # the last request never comes to its end
    found = capture.read(BytesIO(pcap(map(ethernet, packets))))
    most = 0
    for _ in found:
        most = max(most, found.lanes.held, len(found.connections))
    assert found.summary.connections == {"kafka": 60}
    assert most <= 5_000 + 64 * 1024
    assert sum(found.summary.problems.values()) >= 60
