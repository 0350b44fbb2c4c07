"""Recognition of Kafka's protocol by content."""

from __future__ import annotations

from io import BytesIO

import pytest
from wiretap import (
    BROKER,
    CLIENT,
    Talk,
    ask,
    asked,
    brief,
    ethernet,
    exchanges,
    pcap,
)

from kafkawire import capture
from kafkawire.capture import recognition
from kafkawire.frames import encode_request
from kafkawire.messages import ApiVersionsRequest


@pytest.mark.parametrize(
    "ends",
    [
        (CLIENT, BROKER),
        (("10.0.0.1", 9092), ("10.0.0.2", 31337)),
        (("::1", 50000), ("::1", 9093)),
    ],
)
@pytest.mark.parametrize("handshake", [True, False])
def test_recognizes_kafka_by_content(ends: tuple[tuple[str, int], tuple[str, int]], handshake: bool) -> None:
    talk = Talk(*ends, handshake=handshake)
    found = exchanges(ask(ask(talk, 1), 2))
    assert brief(found) == asked(1, 2)
    assert found[0].broker is not None
    assert found[0].broker.endswith(f":{ends[1][1]}")


@pytest.mark.parametrize(
    ("client_says", "broker_says", "verdict"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", "other"),
        (bytes.fromhex("16030100c8010000c40303") + bytes(200), bytes.fromhex("1603030059"), "tls"),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", "other"),
        (bytes(64), bytes(64), "other"),
        (b"\0\0\0\x10\0\x12\x03\xe7" + bytes(30), b"", "other"),
    ],
)
def test_rejects_other_protocols(client_says: bytes, broker_says: bytes, verdict: str) -> None:
    talk = Talk().send(0, client_says).send(1, broker_says).send(0, client_says * 10)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {verdict: 1}


@pytest.mark.parametrize("handshake", [True, False])
def test_stops_the_search_in_much_data_of_another_protocol(handshake: bool) -> None:
    talk = Talk(handshake=handshake).send(1, b"220 mail\r\n" + bytes(range(256)) * 4000)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {"other": 1}


def test_waits_for_a_candidate_frame_up_to_a_limit() -> None:
    """After the limit its header decides, if a packet begins with it."""
    head = encode_request(ApiVersionsRequest(), version=0, correlation_id=1, client_id="tests")
    begun = b"xx" + (1 << 20).to_bytes(4, "big") + head[4:]
    assert recognition.find_request(begun, {2}) == (None, 2, 2 * len(begun) - 2)
    begun += bytes(recognition._PATIENCE)
    assert recognition.find_request(begun, {2}) == (2, 2, 0)
    assert recognition.find_request(begun, set()).offset is None
    assert recognition.find_request(begun, {2}, final=True).offset is None
