"""Several readers of one capture, each of which owns some connections, yield together what one reader yields."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from kafkawire import capture
from kafkawire.capture.reader import Ends, read_with
from kafkawire.rows import Exchange
from tests.capture.wiretap import Conversation, ask, ethernet, pcap, tcp

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"


def share(number: int, shares: int) -> Callable[[Ends], bool]:
    return lambda ends: (ends[0][1] * 31 + ends[1][1]) // 7 % shares == number


def alike(data: bytes, shares: int) -> list[int]:
    """Reads with one reader and with several; returns the number of exchanges of each of those."""
    whole = capture.read(BytesIO(data), body=True)
    expected = list(whole)
    owner: dict[int | None, int] = {}
    counts, joined = [], 0
    for number in range(shares):
        found = read_with(BytesIO(data), body=True, owns=share(number, shares))
        rows = [row for row in found if row.connection is not None]
        mine = {row.connection for row in rows}
        assert all(owner.setdefault(connection, number) == number for connection in mine)
        assert rows == [row for row in expected if row.connection in mine]
        assert found.summary.connections == whole.summary.connections
        assert (found.summary.packets, found.summary.damage) == (whole.summary.packets, whole.summary.damage)
        counts.append(len(rows))
        joined += found.summary.joined_bytes
    assert joined == whole.summary.joined_bytes
    assert set(owner) == {row.connection for row in expected} - {None}
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("shares", [1, 2, 3, 7])
def test_readers_of_a_real_capture_yield_together_what_one_yields(shares: int) -> None:
    counts = alike(PCAP.read_bytes(), shares)
    assert sum(counts) == sum(1 for _ in capture.read(PCAP))
    assert max(counts) < sum(counts) or shares == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_readers_of_a_faulty_capture_yield_together_what_one_yields(seed: int) -> None:
    """Lost, duplicated, swapped, truncated and changed packets; clients that reuse a port."""
    numbers = random.Random(seed)
    packets = []
    for _ in range(3):
        conversations = [Conversation(("10.0.0.1", port), mss=numbers.choice((60, 1448))) for port in range(4000, 4006)]
        for number in range(1, 9):
            for talk in numbers.sample(conversations, 4):
                ask(talk, number)
        senders = [iter((talk if numbers.randrange(3) else talk.close()).packets) for talk in conversations]
        while senders:
            one = numbers.choice(senders)
            packet = next(one, None)
            if packet is None:
                senders.remove(one)
                continue
            packets.append(packet)
    made: list[bytes] = []
    for packet in map(ethernet, packets):
        kind = numbers.randrange(40)
        data = bytearray(packet)
        if kind == 0:
            continue
        if kind == 1:
            data[numbers.randrange(14, len(data))] ^= 1 << numbers.randrange(8)
        elif kind == 2:
            del data[numbers.randrange(14, len(data)) :]
        made.append(bytes(data))
        if kind == 3:
            made.append(packet)
        elif kind == 4 and len(made) > 1:
            made[-1], made[-2] = made[-2], made[-1]
    data = bytearray(pcap(made))
    if seed % 4 == 0:
        struct.pack_into("<I", data, len(data) // 2, 0xFFFFFFFF)
    for shares in (2, 3):
        alike(bytes(data), shares)


def test_ownership_depends_on_endpoints_only() -> None:
    asked: list[Ends] = []

    def owns(ends: Ends) -> bool:
        asked.append(ends)
        return False

    talk = Conversation(("10.0.0.9", 50000), ("10.0.0.2", 9092))
    ask(talk, 1)
    stray = tcp(("10.0.0.2", 9092), ("10.0.0.9", 50001), 1, 1, 16, b"\0\0")
    found: list[Exchange] = list(read_with(BytesIO(pcap(map(ethernet, [*talk.packets, stray]))), owns=owns))
    assert found == []
    broker, client = (b"\x0a\0\0\x02", 9092), (b"\x0a\0\0\x09", 50000)
    assert asked == [(broker, client), (broker, (b"\x0a\0\0\x09", 50001))]


def test_the_owner_counts_bytes_before_the_first_frames() -> None:
    conversations = [Conversation(("10.0.0.1", port), mss=10) for port in range(4000, 4010)]
    for number in range(1, 5):
        for talk in conversations:
            ask(talk, number)
    packets = [
        packet
        for position in range(4, len(conversations[0].packets))
        for packet in (talk.packets[position] for talk in conversations)
    ]
    data = pcap(map(ethernet, packets))
    assert all(alike(data, 3))
    whole = capture.read(BytesIO(data))
    assert not [row.problem for row in whole if row.problem]
    assert whole.summary.joined == len(conversations)
