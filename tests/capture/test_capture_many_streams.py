"""The cost is linear in packets, for any number of connections. Function calls are counted, not time."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import pytest

from kafkawire import capture
from kafkawire.capture import Stream, reader
from tests.capture.wiretap import Conversation, ask, ethernet, pcap


def packets(connections: int, rounds: int) -> list[bytes]:
    """Interleaved connections: one exchange of each, then the next of each."""
    conversations = [Conversation(client=(f"10.1.{i >> 8}.{i & 255}", 40000)) for i in range(connections)]
    for talk in conversations:
        for number in range(rounds):
            ask(talk, number)
    return [packet for turn in zip(*(talk.packets for talk in conversations), strict=True) for packet in turn]


def calls(connections: int, rounds: int) -> tuple[int, int]:
    """The number of function calls, in Python and C, that reading takes, and the exchanges."""
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


@pytest.mark.slow
def test_cost_grows_linearly_with_connections() -> None:
    few, _ = calls(250, 1)
    many, exchanges = calls(2_500, 1)
    assert exchanges == 2_500
    assert 2_500 < many <= 11 * few


def test_cost_of_a_packet_does_not_grow_with_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0
    tick = Stream.tick

    def counted(stream: Stream) -> Any:
        nonlocal ticks
        ticks += 1
        return tick(stream)

    monkeypatch.setattr(Stream, "tick", counted)
    monkeypatch.setattr(reader, "native", None)
    packets = [p for n in range(300) for p in ask(Conversation(("10.1.0.1", 1000 + n), ("10.0.0.2", 9092)), n).packets]
    reading = capture.read(BytesIO(pcap(map(ethernet, packets))))
    assert len(list(reading)) == 300
    assert dict(reading.summary.connections) == {"kafka": 300}
    assert 0 < ticks <= 2 * len(packets)  # both directions of its own connection
