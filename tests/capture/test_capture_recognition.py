"""Recognition of Kafka's protocol by content."""

from __future__ import annotations

from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture import recognition
from kafkawire.frames import encode_request
from kafkawire.messages import REGISTRY, ApiVersionsRequest
from tests.capture.wiretap import (
    BROKER,
    CLIENT,
    Conversation,
    ask,
    asked,
    brief,
    ethernet,
    exchanges,
    pcap,
)

RECOGNIZER = recognition.Recognizer(REGISTRY)


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
    talk = Conversation(*ends, handshake=handshake)
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
    talk = Conversation().send(0, client_says).send(1, broker_says).send(0, client_says * 10)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {verdict: 1}


@pytest.mark.parametrize("handshake", [True, False])
def test_stops_the_search_in_much_data_of_another_protocol(handshake: bool) -> None:
    talk = Conversation(handshake=handshake).send(1, b"220 mail\r\n" + bytes(range(256)) * 4000)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert list(found) == []
    assert dict(found.summary.connections) == {"other": 1}


def test_waits_for_a_candidate_frame_up_to_a_limit() -> None:
    """After the limit its header decides, if a packet begins with it."""
    head = encode_request(ApiVersionsRequest(), version=0, correlation_id=1, client_id="tests")
    begun = b"xx" + (1 << 20).to_bytes(4, "big") + head[4:]
    assert RECOGNIZER.find_request(begun, {2}) == (None, 2, 2 * len(begun) - 2)
    begun += bytes(recognition._PATIENCE)
    assert RECOGNIZER.find_request(begun, {2}) == (2, 2, 0)
    assert RECOGNIZER.find_request(begun, set()).offset is None
    assert RECOGNIZER.find_request(begun, {2}, final=True).offset is None


def _tls_record(size: int, kind: int = 23) -> bytes:
    return bytes([kind, 3, 3]) + size.to_bytes(2, "big") + b"\x17\x03\x03" * (size // 3) + bytes(size % 3)


@pytest.mark.parametrize("piece", [1, 3, 7, 1448, 1 << 20])
def test_tls_records_are_recognised_in_any_pieces_from_any_byte(piece: int) -> None:
    junk = bytes(range(100, 200)) * 3
    data = junk + b"".join(_tls_record(size) for size in (5, 1500, 0, 700))
    records = recognition.TlsRecords()
    cuts = [data[at : at + piece] for at in range(0, len(data), piece)]
    assert any(records.feed(cut) for cut in cuts)


@pytest.mark.parametrize(
    "data",
    [
        bytes(5000),
        b"\x17\x03\x03" * 2000,  # implausible lengths
        _tls_record(100) + _tls_record(200) + bytes(500),
        (_tls_record(100) + b"\0") * 50,
        b"\x17\x03\x03\x48\x01" + bytes(0x4801) + _tls_record(1) + _tls_record(1),
    ],
)
def test_bytes_that_resemble_tls_records_are_not_recognised_as_such(data: bytes) -> None:
    records = recognition.TlsRecords()
    assert not any(records.feed(data[at : at + 100]) for at in range(0, len(data), 100))


def test_hole_ends_a_chain_of_tls_records() -> None:
    records = recognition.TlsRecords()
    assert not records.feed(_tls_record(10) * 2)
    records.lose()
    assert not records.feed(_tls_record(10) * 2)
    assert records.feed(_tls_record(10))
