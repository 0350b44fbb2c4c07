"""The cost is linear in packets, however many connections they belong to: work is counted, not time."""

from __future__ import annotations

import sys
from io import BytesIO

from wiretap import Talk, ask, ethernet, pcap

from kafkawire import capture


def packets(connections: int, rounds: int) -> list[bytes]:
    """Connections that all speak in turn: an exchange of each, then the next of each."""
    talks = [Talk(client=(f"10.1.{i >> 8}.{i & 255}", 40000)) for i in range(connections)]
    for talk in talks:
        for number in range(rounds):
            ask(talk, number)
    return [packet for turn in zip(*(talk.packets for talk in talks), strict=True) for packet in turn]


def calls(connections: int, rounds: int) -> tuple[int, int]:
    """Calls of functions, in Python and in C, that reading takes, and the exchanges."""
    data = pcap(map(ethernet, packets(connections, rounds)), step_ns=1000)
    seen = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    reading = capture.read(BytesIO(data))
    sys.setprofile(count)
    try:
        found = sum(1 for exchange in reading if exchange.problem is None)
    finally:
        sys.setprofile(None)
    assert reading.summary.connections["kafka"] == connections
    return seen, found


def test_ten_thousand_connections_cost_ten_times_what_a_thousand_do() -> None:
    few, _ = calls(1_000, 1)
    many, exchanges = calls(10_000, 1)
    assert exchanges == 10_000
    assert 10_000 < many <= 11 * few
