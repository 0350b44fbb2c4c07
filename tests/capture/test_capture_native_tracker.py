"""The native engine's tracker gives the exchanges and counts of the one in Python, whatever happens to the packets."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kafkawire
from kafkawire import capture, records
from kafkawire.capture import (
    Exchanges,
    ExchangeSelection,
    LinesOfExchanges,
    memory_limits,
    native_tracker,
    read_packets,
    tracker,
)
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.native_tracker import NativeTracker
from kafkawire.capture.reader import read_with
from kafkawire.capture.tcp_stream import RECENT_BYTES
from kafkawire.cli.formatting import json_bytes
from kafkawire.rows import Exchange
from tests.capture.wiretap import ACK, Conversation, answer, ask, ethernet, pcap, pcapng, produce, question, tcp

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
#: Ethernet, IPv4 and TCP headers without options.
HEADERS = 14 + 20 + 20
AGAIN = "came again as others"
SEQUENCE, FLAGS = 14 + 20 + 4, 14 + 20 + 13


def in_python(data: bytes, options: ReadOptions = ReadOptions()) -> Exchanges:  # noqa: B008
    return Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", options, ExchangeSelection())


def lines(found: Exchanges) -> list[bytes]:
    """All exchanges as lines of JSON."""
    return [
        line
        for each in found.found()
        for line in (each.data.splitlines() if isinstance(each, LinesOfExchanges) else [json_bytes(each.row)])
    ]


def alike(packets: list[bytes]) -> list[Exchange]:
    """Asserts equal results of both trackers, as rows and as lines; returns the rows."""
    return alike_file(pcap(packets))


def alike_file(data: bytes) -> list[Exchange]:
    found, expected = capture.read(BytesIO(data)), in_python(data)
    rows = list(found)
    assert rows == list(expected)
    assert found.summary == expected.summary
    options = {"body": True, "text": True, "lines": True}
    written, decoded = read_with(BytesIO(data), **options), in_python(data, ReadOptions(body=True))
    assert lines(written) == list(map(json_bytes, decoded))
    assert written.summary == decoded.summary == found.summary
    return rows


def clients() -> list[bytes]:
    with PCAP.open("rb") as file:
        return [packet.data for packet in capture.read_packets(file)]


CLIENTS = clients()


def talkative() -> list[bytes]:
    """Large and small frames in small segments, several in one, in both directions, with a wrapped sequence number."""
    talk = Conversation(client_seq=2**32 - 3000, broker_seq=2**32 - 200, mss=100)
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


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the packets that Python parses for the native tracker."""
    numbers: list[int] = []
    segment = NativeTracker.segment

    def counted(native: NativeTracker, found: capture.TcpSegment, packet: capture.Packet) -> None:
        numbers.append(packet.number)
        segment(native, found, packet)

    monkeypatch.setattr(NativeTracker, "segment", counted)
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize("packets", [talkative(), CLIENTS], ids=["talkative", "clients"])
def test_plain_packets_are_not_parsed_in_python(packets: list[bytes], parsed: list[int]) -> None:
    assert len(alike(packets)) > 30
    assert alike(packets[::-1])
    assert parsed == []


def test_plain_exchanges_are_lines() -> None:
    found = list(read_with(BytesIO(pcap(talkative())), lines=True).found())
    rows = [each.row for each in found if not isinstance(each, LinesOfExchanges)]
    assert sum(each.count for each in found if isinstance(each, LinesOfExchanges)) > 3 * len(rows)
    assert all(row.problem is not None for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("start", [1, 2, 3, 10, 33])
def test_reads_a_connection_from_before_the_capture(start: int) -> None:
    assert len(alike(talkative()[start:])) > 20


def test_memory_of_closed_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a late acknowledgment opens a connection."""
    monkeypatch.setattr(tracker, "MOST_ENDED", 3)
    packets, late = [], []
    for port in range(1, 8):
        talk = Conversation(("10.0.0.1", 40000 + port))
        ask(talk, 1)
        talk.close()
        packets += talk.packets
        late.append(tcp(*talk.ends, talk.next[0], talk.next[1], ACK, b""))
    alike([ethernet(packet) for packet in packets + late])


@pytest.mark.slow
@pytest.mark.parametrize("back", [100, RECENT_BYTES - 100, RECENT_BYTES + 100, 2 * RECENT_BYTES])
def test_compares_retransmissions_as_far_back_as_streams(back: int) -> None:
    talk = Conversation(mss=700)
    for number in range(1, 200):
        question(talk, number)
    again = tcp(*talk.ends, talk.next[0] - back, talk.next[1], ACK, bytes(80))
    rows = alike([ethernet(packet) for packet in [*talk.packets, again]])
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
def test_faults_give_equal_rows(seed: int) -> None:
    numbers = random.Random(seed)
    packets = talkative() if seed % 2 else CLIENTS
    begin = numbers.randrange(len(packets) // 2)
    alike(list(faults(packets[begin : begin + 350] if seed % 4 else packets, numbers)))


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the packets that come through Python one by one."""
    numbers: list[int] = []
    take = NativeTracker.packet

    def counted(native: NativeTracker, packet: capture.Packet) -> bool:
        numbers.append(packet.number)
        return take(native, packet)

    monkeypatch.setattr(NativeTracker, "packet", counted)
    return numbers


def blocks(packets: list[bytes], order: str, resolution: int = 9, offset_s: int = 0) -> bytes:
    """A pcapng as dumpcap writes it: packets with options now and then, no other blocks between them."""

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    options = struct.pack(order + "HHB3xHHqHH", 9, 1, resolution, 14, 8, offset_s, 0, 0)
    out = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack(order + "HHI", 1, 0, 0) + options))
    for number, packet in enumerate(packets):
        units = 1_700_000_000_000_000_000 + number * 1_000_000
        head = struct.pack(order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(packet), len(packet))
        flags = struct.pack(order + "HHIHH", 2, 4, 1, 0, 0) if number % 7 == 0 else b""
        out.append(block(6, head + packet + bytes(-len(packet) % 4) + flags))
    return b"".join(out)


@pytest.mark.slow
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("resolution", "offset_s"), [(9, 0), (9, -5), (6, 3), (0x80 | 30, 0), (100, 0)])
def test_packets_of_a_pcapng_are_read_in_runs(order: str, resolution: int, offset_s: int, single: list[int]) -> None:
    assert len(alike_file(blocks(CLIENTS, order, resolution, offset_s))) > 30
    assert resolution == 100 or len(single) < 10


@pytest.mark.slow
def test_other_blocks_between_packets_are_left_to_python() -> None:
    assert len(alike_file(pcapng(CLIENTS))) > 30
    assert len(alike_file(blocks(CLIENTS, "<") + pcapng(talkative(), order=">") + blocks(CLIENTS[:50], ">"))) > 60


def test_damage_is_reported_before_the_packets_behind_other_blocks() -> None:
    """What follows the damage is statistics; then packets that the native tracker can read."""
    talk = Conversation()
    for number in range(8):
        ask(talk, number)
    data = pcapng(map(ethernet, talk.packets))
    starts = [at for at in range(0, len(data), 4) if data[at : at + 4] == b"\x06\0\0\0"]
    assert len(starts) >= len(talk.packets)
    for start in starts:
        damaged = bytearray(data)
        damaged[start + 4] ^= 4
        alike_file(bytes(damaged))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_faults_in_a_pcapng_give_equal_rows(seed: int) -> None:
    numbers = random.Random(seed)
    data = bytearray(blocks(list(faults(CLIENTS[:400], numbers)), numbers.choice("<>")))
    for _ in range(seed % 5):
        at = numbers.randrange(100, len(data))
        data[at : at + numbers.choice((1, 2, 40))] = numbers.randbytes(numbers.choice((0, 1, 4, 40)))
    alike_file(bytes(data[: numbers.choice((len(data), numbers.randrange(len(data))))]))


@pytest.mark.parametrize("form", [pcap, lambda packets: blocks(packets, "<")], ids=["pcap", "pcapng"])
def test_files_of_a_ring_are_read_in_runs(tmp_path: Path, form: Callable[..., bytes], single: list[int]) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    parts.mkdir()
    whole.write_bytes(form(CLIENTS))
    header = len(form([]))
    at = [header] + [len(form(CLIENTS[:count])) for count in (300, 301, 700, len(CLIENTS))]
    for number, (begin, end) in enumerate(pairwise(at)):
        (parts / f"ring{number}").write_bytes(whole.read_bytes()[:header] + whole.read_bytes()[begin:end])
    found, expected = capture.read(parts), capture.read(whole)
    assert [msgspec.structs.replace(row, file="") for row in found] == [
        msgspec.structs.replace(row, file="") for row in expected
    ]
    assert found.summary == expected.summary
    assert len(single) < 20


def test_accepts_a_tunnelled_packet_of_a_connection(parsed: list[int]) -> None:
    """Python parses tunnels; the connection stays in the native tracker."""
    talk = Conversation()
    for number in range(1, 6):
        ask(talk, number)
    outer = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 0, 1, 0, 64, 4, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    packets = [ethernet((outer if place % 4 == 0 else b"") + packet) for place, packet in enumerate(talk.packets)]
    assert len(alike(packets)) == 5
    assert set(parsed) == set(range(1, len(packets) + 1, 4))


def test_reads_link_types_addresses_and_truncated_packets(parsed: list[int]) -> None:
    talk = Conversation(("fd00::1", 40000), ("fd00::2", 9092))
    for number in range(1, 20):
        ask(talk, number)
    assert len(alike([ethernet(packet) for packet in talk.packets])) == 19
    vlan = [packet[:12] + b"\x81\0\0\1\x88\xa8\0\2" + packet[12:] for packet in map(ethernet, talk.packets)]
    assert len(alike(vlan)) == 19
    alike([ethernet(packet)[:90] for packet in talk.packets])
    assert parsed == []


@pytest.mark.parametrize(
    ("link_type", "header"),
    [
        (0, b"\x1e\0\0\0"),
        (108, b"\0\0\0\x1e"),
        (113, bytes(14) + b"\x86\xdd"),
        (276, b"\x86\xdd" + bytes(18)),
        *((link_type, b"") for link_type in (12, 14, 101, 229)),
    ],
)
def test_reads_every_link_type_in_front_of_ip(link_type: int, header: bytes, parsed: list[int]) -> None:
    talk = Conversation(("fd00::1", 40000), ("fd00::2", 9092))
    ask(talk, 1)
    (row,) = capture.read(BytesIO(pcap([header + packet for packet in talk.packets], link_type=link_type)))
    assert (row.correlation_id, row.problem) == (1, None)
    assert parsed == []


def test_reads_a_connection_of_an_endpoint_with_itself() -> None:
    end = ("10.0.0.1", 9092)
    talk = Conversation(end, end)
    ask(talk, 1)
    alike([ethernet(packet) for packet in talk.packets])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST_HELD", 40_000)
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 5_000)
    monkeypatch.setattr(memory_limits, "MOST_OPEN", 20)
    packets = []
    for port in range(60):
        talk = Conversation(("10.0.0.1", 1000 + port), mss=1000)
        ask(talk, 1)
        talk.request(produce(-1, records.build([records.Record(b"k", bytes(3000))])), version=9, correlation_id=2)
        packets += talk.packets[:-1]  # the last request never comes to its end
    packets = list(map(ethernet, packets))
    rows = list(capture.read(BytesIO(pcap(packets))))
    assert sum(row.problem is not None for row in rows) >= 60
    found = capture.read(_Unbuffered(pcap(packets)))
    most = open_ = 0
    for _ in found:
        most, open_ = max(most, found.tracker.held), max(open_, found.tracker.open)
    assert found.summary.connections == {"kafka": 60}
    assert most <= 40_000 + 2 * 5_000
    assert open_ <= 20


def test_connections_that_are_idle_compare_no_retransmissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 300)
    monkeypatch.setattr(memory_limits, "IDLE_NS", 50_000_000)  # packets are a millisecond apart
    idle, busy = ask(Conversation(), 1), Conversation(("10.0.0.1", 50000))
    for number in range(40):
        ask(busy, number)
    again = tcp(*idle.ends, idle.next[0] - 5, idle.next[1], ACK, bytes(5))
    for packets in ([*idle.packets, again], [*idle.packets, *busy.packets, again, *ask(idle, 2).packets[-2:]]):
        rows = capture.read(BytesIO(pcap(map(ethernet, packets))))
        assert any(AGAIN in str(row.problem) for row in rows) == (len(packets) < 20)


def test_names_of_connections_that_are_idle_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a third of an idle connection's memory. A request that waits keeps them."""
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 300)
    monkeypatch.setattr(memory_limits, "IDLE_NS", 50_000_000)
    named: list[int] = []
    ends = native_tracker._ExchangeHandler.ends

    def counted(handler: Any, number: int, client: Any, broker: Any) -> Any:
        named.append(number)
        return ends(handler, number, client, broker)

    monkeypatch.setattr(native_tracker._ExchangeHandler, "ends", counted)
    idle, busy, waiting = ask(Conversation(), 1), Conversation(("10.0.0.1", 50000)), Conversation(("10.0.0.1", 50001))
    question(ask(waiting, 1), 2)
    for number in range(40):
        ask(busy, number)
    before = [*idle.packets, *waiting.packets, *busy.packets]
    answer(waiting, 2)
    packets = [*before, *ask(idle, 2).packets[-2:], waiting.packets[-1]]
    data = pcap(list(map(ethernet, packets)))
    rows = list(capture.read(BytesIO(data)))
    assert rows == list(in_python(data))
    assert [(row.connection, row.correlation_id) for row in rows if row.connection != 3] == [
        (1, 1), (2, 1), (2, 2), (1, 2),
    ]  # fmt: skip
    assert sorted(named) == [1, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_idle_connections_lose_no_more_than_comparisons(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 1_000)
    monkeypatch.setattr(memory_limits, "IDLE_NS", 20_000_000)
    data = pcap(list(faults(CLIENTS, random.Random(seed))))
    rows, expected = list(capture.read(BytesIO(data))), list(in_python(data))
    assert len(rows) > 100
    assert [row for row in rows if AGAIN not in str(row.problem)] == [
        row for row in expected if AGAIN not in str(row.problem)
    ]


class _Unbuffered:
    """A file that returns no more than requested: packets are read one by one."""

    def __init__(self, data: bytes) -> None:
        self.read = BytesIO(data).read
