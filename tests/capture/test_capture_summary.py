"""The summary of a capture."""

from __future__ import annotations

from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture import summary
from kafkawire.capture.matcher import NO_RESPONSE
from tests.capture.wiretap import (
    Conversation,
    answer,
    ask,
    asked,
    brief,
    ethernet,
    pcap,
    question,
)


def test_counts_skipped_packets() -> None:
    packets = [bytes(12) + b"\x08\x06" + bytes(28), *map(ethernet, ask(Conversation(), 1).packets), b"short"]
    found = capture.read(BytesIO(pcap(packets)))
    assert brief(found) == asked(1)
    assert dict(found.summary.skipped) == {"not IP": 1, "headers cut off": 1}
    assert dict(found.summary.contents) == {"EtherType 0x0806: ARP": 1, "headers cut off": 1}


def test_describes_a_capture_without_kafka() -> None:
    found = capture.read(BytesIO(pcap([bytes(12) + b"\x08\x06" + bytes(28), *map(ethernet, Conversation().packets)])))
    assert list(found) == []
    assert found.summary.no_kafka == (
        "no Kafka was recognised in 4 packets (TCP connections: 1 undecided; 1 packet: EtherType 0x0806: ARP)"
    )


def test_number_of_problem_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems may contain bytes of the capture."""
    monkeypatch.setattr(summary, "_MOST_KINDS", 1)
    talk = question(ask(Conversation(), 1), 2)
    answer(talk, 77)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert len(list(found)) == 3
    assert dict(found.summary.problems) == {NO_RESPONSE: 1, "others": 1}
