"""Recorded captures with random faults, and the cases that these have found. `adversary` can be run by itself for
longer."""

from __future__ import annotations

from functools import cache

import pytest

from kafkawire.capture import memory_limits, recognition
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.frames import encode_response
from kafkawire.messages import ApiVersionsResponse
from tests.capture.adversary import Known, contradiction
from tests.capture.test_capture_cases import both
from tests.capture.test_capture_clients import CLIENTS, path_of
from tests.capture.wiretap import RST, Conversation, ask, brief, ethernet, pcap, question

FAR = "its sequence numbers are far from those before: bytes are missing in the capture, or this is another connection"


@cache
def known(name: str) -> Known:
    return Known.of(path_of(name).read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_shown_of_a_capture_made_worse_is_the_same_by_both_engines_and_true(name: str) -> None:
    assert [found for seed in range(20) if (found := contradiction(known(name), seed))] == []


@pytest.mark.parametrize(
    ("client_seq", "broker_seq"), [(1 << 30, 1 << 29), (-(1 << 30), 1 << 26), (1 << 26, -(1 << 26))]
)
def test_a_connection_whose_syn_is_not_captured_is_not_taken_for_the_one_before(
    client_seq: int, broker_seq: int
) -> None:
    """The next client has the same port: its responses are not those of the requests before."""
    first = question(ask(Conversation(), 1), 2)
    later = ask(ask(ask(Conversation(handshake=False, client_seq=client_seq, broker_seq=broker_seq), 2), 3), 4)
    rows, code = both(pcap(map(ethernet, [*first.packets, *later.packets])))
    assert brief(rows) == [
        ("ApiVersions", 1, True, None),
        ("ApiVersions", 2, False, NO_RESPONSE),
        (None, None, False, f"from the client: {FAR}"),
        *[("ApiVersions", number, True, None) for number in (2, 3, 4)],
    ]
    assert [row.connection for row in rows] == [1, 1, 1, 2, 2, 2]
    assert code == 4


def test_a_connection_that_was_idle_is_told_of_when_another_one_has_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native engine drops what the rows of an idle connection have in common."""
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", 300)
    monkeypatch.setattr(memory_limits, "IDLE_NS", 50_000_000)
    first, busy = ask(Conversation(), 1), Conversation(("10.0.0.1", 50000))
    for number in range(100, 140):
        ask(busy, number)
    later = ask(ask(Conversation(handshake=False, client_seq=1 << 30, broker_seq=1 << 29), 2), 3)
    rows, code = both(pcap(map(ethernet, [*first.packets, *busy.packets, *later.packets])))
    found = [(row.connection, row.correlation_id, row.problem) for row in rows if row.connection != 2]
    assert found == [(1, 1, None), (1, None, f"from the client: {FAR}"), (3, 2, None), (3, 3, None)]
    assert code == 4


def test_a_forged_packet_is_no_other_connection() -> None:
    """The numbers for one direction alone are far away."""
    talk = ask(Conversation(), 1)
    forged = Conversation(handshake=False, client_seq=talk.next[0] + (1 << 30), broker_seq=talk.next[1])
    forged.send(0, b"forged")
    rows, _ = both(
        pcap(map(ethernet, [*talk.packets, *forged.packets, *ask(talk, 2).packets[len(talk.packets) - 2 :]]))
    )
    assert {row.connection for row in rows} == {1}
    assert [row.correlation_id for row in rows if row.problem is None] == [1, 2]


def test_a_reset_in_doubt_is_none_of_the_next_connection_of_the_port() -> None:
    talk = ask(Conversation(), 1)
    reset = Conversation(handshake=False, client_seq=talk.next[0] + 5, broker_seq=talk.next[1])
    reset._send(0, RST)
    second = ask(ask(Conversation(client_seq=90_000, broker_seq=80_000), 1), 2)
    third = ask(Conversation(("10.0.0.9", 1)), 9)
    third.packets += ask(second, 3).packets[-2:]
    packets = [*talk.packets, *reset.packets, *second.packets[:-2], *third.packets]
    rows, code = both(pcap(map(ethernet, packets), step_ns=20_000_000_000))
    assert [(row.connection, row.correlation_id, row.problem) for row in rows] == [
        (1, 1, None), (2, 1, None), (2, 2, None), (3, 9, None), (2, 3, None),
    ]  # fmt: skip
    assert code == 0


@pytest.mark.parametrize(("more", "found"), [(0, 5), (25, None)])
def test_bytes_at_random_after_a_hole_are_no_response_that_they_begin_with(more: int, found: int | None) -> None:
    """Within the ApiVersions response of a broker are many zeros, as the correlation id may be."""
    frame = encode_response(ApiVersionsResponse(), version=2, correlation_id=0)
    data = b"lists" + (len(frame) - 4 + more).to_bytes(4, "big") + frame[4:] + bytes(range(more))
    answers = FrameDecoder(ReadOptions()).answers
    assert recognition.find_response(data, {0}, {0: [(18, 2)]}, answers, final=True).offset == found
