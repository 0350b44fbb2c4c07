"""Reset connections: they end some time after the reset is certain, since data in flight may still arrive."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture import reader, resets
from kafkawire.capture.matcher import NO_RESPONSE
from tests.capture.wiretap import ACK, FIN, RST, SYN, Conversation, answer, ask, ethernet, pcap, question, tcp

STEP_NS = 100_000_000
#: Packets in the time that is waited, and one more; and where a reset is in doubt.
WHILE = resets.CERTAIN_NS // STEP_NS + 1
LONG_WHILE = resets.DOUBTED_NS // STEP_NS + 1
OTHER = ("10.0.0.9", 50000)


@pytest.fixture(autouse=True, params=["native", "python"])
def tracker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(reader, "native", None)


class Unbuffered:
    """A file that returns no more than requested: packets are read one by one."""

    def __init__(self, packets: list[bytes]) -> None:
        self.read = BytesIO(pcap(map(ethernet, packets), step_ns=STEP_NS)).read


def come_out(packets: list[bytes]) -> list[tuple[int | None, str | None, int]]:
    """Correlation id and problem of each exchange, and the number of packets read before it was yielded."""
    reading = capture.read(Unbuffered(packets))
    found = [(row.correlation_id, row.problem, reading.summary.packets) for row in reading]
    assert sum(reading.summary.bytes.values()) == sum(len(packet) - 40 for packet in packets)
    return found


def others(count: int = 2 * WHILE) -> list[bytes]:
    """Packets of another connection, one for each unit of time."""
    talk = Conversation(OTHER, handshake=False)
    for number in range(100, 100 + count // 2):
        ask(talk, number)
    return talk.packets


def asked_once() -> Conversation:
    """One exchange, and a request without its response."""
    return question(ask(Conversation(), 1), 2)


def reset(talk: Conversation, side: int, *, shift: int = 0, flags: int = RST | ACK) -> Conversation:
    talk.packets.append(
        tcp(talk.ends[side], talk.ends[1 - side], talk.next[side] + shift, talk.next[1 - side], flags, b"")
    )
    return talk


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("flags", [RST, RST | ACK])
def test_closes_open_requests_after_a_reset(side: int, flags: int) -> None:
    packets = reset(asked_once(), side, flags=flags).packets
    found = come_out([*packets, *others()])
    assert found[1] == (2, NO_RESPONSE, len(packets) + WHILE)


def test_waits_for_data_of_the_other_end_after_a_reset() -> None:
    talk = reset(asked_once(), 0)
    talk.packets += others(WHILE - 3)
    answer(talk, 2)
    found = come_out([*talk.packets, *others()])
    assert found[1][:2] == (2, None)


def with_other_packets_first(talk: Conversation) -> list[bytes]:
    """A RST that was captured before the data that precedes it."""
    *before, last = reset(talk, 0).packets
    return [*before[:-1], last, before[-1]]


def lacking_data(talk: Conversation) -> list[bytes]:
    """The last request was not captured, but the broker has acknowledged it."""
    return reset(question(talk, 3).acknowledge(1), 0).packets[:-3] + talk.packets[-2:]


def behind_a_fin(talk: Conversation) -> list[bytes]:
    """A closed client answers segments that still arrive."""
    talk._send(0, FIN | ACK)
    talk.next[0] += 1
    return reset(talk, 0, flags=RST).packets


@pytest.mark.parametrize("happened", [with_other_packets_first, lacking_data, behind_a_fin])
def test_accepts_resets_with_the_next_sequence_number(happened: Callable[[Conversation], list[bytes]]) -> None:
    packets = happened(asked_once())
    found = come_out([*packets, *others()])
    assert [(number, problem) for number, problem, _ in found][1] == (2, NO_RESPONSE)
    assert found[1][2] == len(packets) + WHILE


@pytest.mark.parametrize("shift", [-1, 1, 70_000, 1 << 31])
def test_ignores_a_forged_reset(shift: int) -> None:
    """Only exactly the next sequence number is accepted (RFC 5961), not a blind guess."""
    talk = reset(asked_once(), 1, shift=shift)
    talk.packets += others()
    answer(talk, 2)
    for number in range(3, 9):
        ask(talk, number)
    found = come_out(talk.packets)
    mine = [(number, problem) for number, problem, _ in found if number is not None and number < 100]
    assert mine == [(number, None) for number in range(1, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("shift", [1, 70_000])
@pytest.mark.parametrize("side", [0, 1])
def test_accepts_a_reset_after_a_hole_when_both_ends_are_idle_for_long(side: int, shift: int) -> None:
    """The last data before the reset was neither captured nor acknowledged."""
    packets = reset(asked_once(), side, shift=shift).packets
    found = come_out([*packets, *others(LONG_WHILE + WHILE)])
    assert found[1] == (2, NO_RESPONSE, len(packets) + LONG_WHILE)


@pytest.mark.slow
def test_a_segment_after_a_doubted_reset_restarts_the_wait() -> None:
    """The receiver of a doubtful RST continues, and gets a response later."""
    talk = reset(asked_once(), 1, shift=1)
    for _ in range(3):
        talk.packets += others(LONG_WHILE - 3)
        talk.acknowledge(0)
    answer(talk, 2)
    found = come_out([*talk.packets, *others()])
    assert [problem for number, problem, _ in found if number == 2] == [None]


def test_a_connection_that_continues_was_not_reset() -> None:
    """Like a RST that was injected, and that the receiver drops."""
    talk = reset(asked_once(), 1)
    answer(talk, 2)
    talk.packets += others()
    ask(talk, 3)
    found = come_out(talk.packets)
    assert [(number, problem) for number, problem, _ in found if number in (1, 2, 3)] == [(n, None) for n in (1, 2, 3)]


def test_a_refused_connection_is_over() -> None:
    """It has no data and no request, and is not kept."""
    refused = []
    for port in range(50):
        ends = (("10.0.0.1", 1000 + port), ("10.0.0.2", 9092))
        refused += [tcp(*ends, 7, 0, SYN, b""), tcp(*ends[::-1], 0, 8, RST | ACK, b"")]
    reading = capture.read(Unbuffered([*refused, *others()]))
    most = 0
    for _ in reading:
        most = max(most, reading.tracker.open)
    assert most <= WHILE // 2 + 2
    assert reading.summary.connections == {"undecided": 50, "kafka": 1}


def test_segments_after_a_reset_are_another_connection() -> None:
    """As after two FINs: late acknowledgments are ignored, data is read."""
    talk = reset(asked_once(), 0)
    talk.packets += others()
    talk.acknowledge(1)
    for number in range(3, 6):
        ask(talk, number)
    reading = capture.read(Unbuffered(talk.packets))
    mine = [(row.connection, row.correlation_id, row.problem) for row in reading if row.client == "10.0.0.1:40000"]
    assert mine == [(1, 1, None), (1, 2, NO_RESPONSE), *((3, number, None) for number in range(3, 6))]
