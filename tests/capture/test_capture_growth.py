"""The cost of reading a capture grows linearly with each kind of its content (`tests.doubling`)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture import Exchanges, ExchangeSelection, Statistics, read_packets
from kafkawire.capture.exchange import ReadOptions
from kafkawire.messages import ApiVersionsRequest
from tests.capture.wiretap import ACK, Conversation, answer, ask, ethernet, pcap, pcapng, produce, question, tcp
from tests.doubling import assert_linear_steps, assert_linear_time

Packets = list[bytes]


def exchanges(n: int) -> Packets:
    """Consecutive exchanges in one connection."""
    talk = Conversation()
    for number in range(n):
        ask(talk, number)
    return talk.packets


def outstanding(n: int) -> Packets:
    """`n` requests, then `n` requests each followed by the response to an earlier one."""
    talk = Conversation()
    for number in range(n):
        question(talk, number)
    for number in range(n):
        question(talk, n + number)
        answer(talk, number)
    return talk.packets


def unanswered(n: int) -> Packets:
    talk = Conversation()
    for number in range(n):
        question(talk, number)
    return talk.packets


def unasked(n: int) -> Packets:
    """Responses whose requests were not captured."""
    talk = ask(Conversation(), 0)
    for number in range(1, n):
        answer(talk, number)
    return talk.packets


def connections(n: int) -> Packets:
    """Connections that are open at the same time."""
    conversations = [ask(Conversation(("10.0.0.1", 1024 + number)), 1) for number in range(n)]
    return [packet for packets in zip(*(talk.packets for talk in conversations), strict=True) for packet in packets]


def ended_connections(n: int) -> Packets:
    return [
        packet for number in range(n) for packet in ask(Conversation(("10.0.0.1", 1024 + number)), 1).close().packets
    ]


def joined_connections(n: int) -> Packets:
    conversations = [ask(Conversation(("10.0.0.1", 1024 + number)).send(1, bytes(9)), 1) for number in range(n)]
    return [packet for talk in conversations for packet in talk.packets[3:]]


def small_packets(n: int) -> Packets:
    """Segments of one large frame."""
    return Conversation(mss=10).request(produce(1, bytes(10 * n)), version=9, correlation_id=1).packets


def swapped_packets(n: int) -> Packets:
    """Segments in pairwise swapped order."""
    packets = exchanges(n)
    return packets[:3] + [packets[i ^ 1] for i in range(4, len(packets) - 2)]


def holes(n: int) -> Packets:
    talk = Conversation(handshake=False)
    for number in range(n):
        ask(talk, number)
        talk.next[number % 2] += 100
        ask(talk, n + number)
    return talk.packets


def held_packets(n: int) -> Packets:
    """Segments of which the first one comes last."""
    packets = ask(Conversation(mss=20).request(produce(1, bytes(20 * n)), version=9, correlation_id=1), 2).packets
    return [*packets[:3], *packets[4:], packets[3]]


def packets_without_data(n: int) -> Packets:
    talk = ask(Conversation(), 1)
    acknowledgment = tcp(*talk.ends, talk.next[0], talk.next[1], ACK, b"")
    return [*talk.packets, *[acknowledgment] * n]


MADE = [
    (exchanges, 30),
    (outstanding, 30),
    (unanswered, 30),
    (unasked, 150),
    (connections, 20),
    (ended_connections, 20),
    (joined_connections, 20),
    (small_packets, 100),
    (swapped_packets, 40),
    (holes, 200),  # of the outstanding requests 64 are looked for behind a hole
    (held_packets, 50),
    (packets_without_data, 100),
]


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("make", "n"), MADE)
def test_cost_of_reading_grows_linearly(make: Callable[[int], Packets], n: int, native: bool) -> None:
    def prepare(size: int) -> Callable[[], object]:
        data = pcap(map(ethernet, make(size)))

        def work() -> None:
            if native:
                found = capture.read(BytesIO(data))
            else:
                found = Exchanges(
                    lambda unread, _: read_packets(BytesIO(data), unread), "-", ReadOptions(), ExchangeSelection()
                )
            list(found)

        return work

    assert_linear_steps(prepare, n)


def test_cost_of_statistics_grows_linearly_with_clients() -> None:
    def prepare(n: int) -> Callable[[], object]:
        talk = Conversation()
        for number in range(n):
            talk.request(ApiVersionsRequest(), version=0, correlation_id=number, client_id=f"client-{number}")
        rows = list(capture.read(BytesIO(pcap(map(ethernet, answer(talk, 0).packets)))))

        def work() -> None:
            statistics = Statistics()
            for row in rows:
                statistics.add(row)
            list(statistics.rows())

        return work

    assert_linear_steps(prepare, 30)


@pytest.mark.parametrize("live", [True, False])
def test_cost_grows_linearly_with_requests_behind_an_open_one(live: bool) -> None:
    def prepare(n: int) -> Callable[[], object]:
        slow = question(Conversation(("10.0.0.3", 1024)), 1)
        data = pcap(map(ethernet, [*slow.packets, *exchanges(n)]))
        return lambda: list(capture.read(BytesIO(data), live=live))

    assert_linear_steps(prepare, 40)


def test_cost_of_resuming_after_damage_grows_linearly_with_block_lengths() -> None:
    """Adjacent headers in a damaged file, each of a block with a distant end."""
    whole = pcapng(map(ethernet, exchanges(1)))

    def prepare(n: int) -> Callable[[], object]:
        data = whole + bytes([255] * 64) + struct.pack("<II", 6, 128 * n) * n + bytes(128 * n)
        return lambda: list(capture.read(BytesIO(data)))

    assert_linear_time(prepare, 1000)


def many_interfaces(n: int) -> bytes:
    """A pcapng with n interfaces, and n packets between blocks that the native engine leaves to Python."""
    section, interface, *others = blocks(pcapng(ethernet(packet) for packet in exchanges(n // 2)))
    return b"".join([section, *n * [interface], *others])


def blocks(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 4)
        found.append(data[at : at + length])
        at += length
    return found


@pytest.mark.slow
def test_cost_of_interfaces_is_not_paid_for_each_packet() -> None:
    def prepare(n: int) -> Callable[[], object]:
        data = many_interfaces(n)
        return lambda: list(capture.read(BytesIO(data)))

    assert_linear_time(prepare, 250)


@pytest.mark.parametrize("n", [1000, 1002])
def test_packets_of_many_interfaces_are_those_of_one(n: int) -> None:
    found = capture.read(BytesIO(many_interfaces(n)))
    assert [row.correlation_id for row in found] == list(range(n // 2))
    assert (found.summary.packets, found.summary.damage) == (n + 3, None)  # the handshake, too
