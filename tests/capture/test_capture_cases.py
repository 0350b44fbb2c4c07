"""Captures of strangers' clients, kept as files, and conversations made to mislead: by both trackers alike."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkawire import capture
from kafkawire.frames import encode_request
from kafkawire.messages import MetadataRequest, MetadataResponse
from kafkawire.rows import Exchange
from tests.capture.cuts import native, python
from tests.capture.other_protocols import Talk, all_protocols
from tests.capture.wiretap import Conversation, ask, ethernet, pcap

CASES = Path(__file__).parent / "cases"
FETCH_19 = (
    "request: FetchRequest has no version 19; it has 0-18; response: FetchResponse has no version 19; it has 0-18"
)
NULL_BYTES = (
    "response: SaslAuthenticateResponse v1, auth_bytes: at byte 11: expected the length of bytes, found null (-1)"
)
LEFT_OVER = "request: 4 bytes left over behind the message"


def both(data: bytes) -> tuple[list[Exchange], int]:
    """Rows and the exit code, by both trackers."""
    found = native(data)
    assert found == python(data)
    return found


def brief(rows: list[Exchange]) -> list[tuple[Any, ...]]:
    return [(row.api, row.version, row.correlation_id, row.errors, row.problem, row.note) for row in rows]


def fetches(first: int) -> list[tuple[Any, ...]]:
    return [("Fetch", 19, number, {}, FETCH_19, None) for number in range(first, first + 50)]


@pytest.mark.parametrize(("name", "others"), [("fetch19-mid", 0), ("fetch19-mid-mixed", 1), ("fetch19-start", 1)])
def test_fetches_of_a_client_newer_than_the_schemas_are_rows(name: str, others: int) -> None:
    rows, code = both((CASES / f"{name}.pcap").read_bytes())
    newer = [row for row in rows if row.api == "Fetch"]
    assert brief(newer) == fetches(newer[0].correlation_id or 0)
    assert all(row.response_bytes == 17 for row in newer)
    assert (len(rows) - len(newer), code) == (others, 4)


@pytest.mark.parametrize("name", ["mid-badresp", "eventhubs229"])
def test_a_response_that_fails_late_shows_its_error_and_its_text(name: str) -> None:
    """From the middle of a connection, too."""
    data = (CASES / f"{name}.pcap").read_bytes()
    rows, code = both(data)
    assert brief(rows)[-1] == ("SaslAuthenticate", 1, 2, {"SASL_AUTHENTICATION_FAILED": 1}, NULL_BYTES, None)
    assert code == 4
    *_, last = capture.read(BytesIO(data), body=True)
    assert msgspec.to_builtins(last)["response"] == {
        "errorCode": 58,
        "errorMessage": "bad",
        "authBytes": "",
        "sessionLifetimeMs": 0,
    }


@pytest.mark.parametrize("name", ["rdkafka-apiversions-syn", "rdkafka-apiversions-nosyn"])
def test_bytes_left_over_by_old_librdkafka_are_a_note(name: str) -> None:
    rows, code = both((CASES / f"{name}.pcap").read_bytes())
    assert {(row.api, row.problem) for row in rows} <= {("ApiVersions", None), ("Metadata", None)}
    assert [row.note for row in rows if row.api == "ApiVersions"] == [LEFT_OVER]
    assert code == 0


def test_message_sets_of_kafkajs_are_records() -> None:
    data = (CASES / "kafkajs-produce-v2.pcap").read_bytes()
    rows, code = both(data)
    assert ({row.problem for row in rows}, code) == ({None}, 0)
    *_, last = capture.read(BytesIO(data), records=True, body=True)
    (partition,) = msgspec.to_builtins(last)["request"]["topicData"][0]["partitionData"]
    found = [record for batch in partition["records"] for record in batch["records"]]
    assert [(one["kind"], one["key_size"], one["value_size"], one["timestamp"]) for one in found] == [
        ("record", 24, 31, 1509819296569)
    ] * 3


PREAMBLES = {
    "HAProxy, text": [(0, b"PROXY TCP4 10.0.0.9 10.0.0.2 40000 9092\r\n")],
    "HAProxy, binary": [(0, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x09\x0a\0\0\x02\x9c\x40\x23\x84")],
    "CONNECT": [(0, b"CONNECT b:9092 HTTP/1.1\r\nHost: b:9092\r\n\r\n"), (1, b"HTTP/1.1 200 OK\r\n\r\n")],
    "SOCKS 5": [
        (0, b"\x05\x01\0"),
        (1, b"\x05\0"),
        (0, b"\x05\x01\0\x01\x0a\0\0\x02\x23\x84"),
        (1, b"\x05\0\0\x01\x0a\0\0\x02\x23\x84"),
    ],
}  # fmt: skip


def after(preamble: Talk) -> Conversation:
    talk = Conversation()
    for side, data in preamble:
        talk.send(side, data)
    return talk


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("preamble", PREAMBLES.values(), ids=PREAMBLES)
def test_kafka_is_recognised_after_what_a_proxy_is_told(preamble: Talk, together: bool) -> None:
    """The bytes before it are named; other connections do not hide it."""
    first = encode_request(MetadataRequest(), version=9, correlation_id=1, client_id="tests")
    if together and preamble[-1][0] == 0:
        talk = after([(0, preamble[0][1] + first)])
    else:
        talk = after([*preamble, (0, first)])
    talk.response(MetadataResponse(), version=9, correlation_id=1)
    for number in range(2, 8):
        talk.request(MetadataRequest(), version=9, correlation_id=number)
        talk.response(MetadataResponse(), version=9, correlation_id=number)
    other = ask(Conversation(("10.0.0.7", 1024)), 9)
    rows, code = both(pcap(map(ethernet, [*talk.packets, *other.packets])))
    assert [row.correlation_id for row in rows if row.problem is None] == [*range(1, 8), 9]
    lost = {side: sum(len(data) for at, data in preamble if at == side) for side in (0, 1)}
    named = [
        f"from the {('client', 'broker')[side]}: {lost[side]} bytes that belong to no known frame" for side in (0, 1)
    ]
    assert sorted(row.problem for row in rows if row.problem) == sorted(named[side] for side in (0, 1) if lost[side])
    assert code == 4


@pytest.mark.parametrize("preamble", PREAMBLES.values(), ids=PREAMBLES)
def test_other_protocols_after_what_a_proxy_is_told_are_not_recognised(preamble: Talk) -> None:
    for name, protocol in all_protocols():
        talk = after([*preamble, *protocol])
        found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
        assert list(found) == [], name
        assert found.summary.connections.keys().isdisjoint({"kafka", "likely"}), name


@pytest.mark.parametrize("split", [0, 10])
def test_a_client_whose_port_changes_within_a_connection_loses_at_most_a_frame(split: int) -> None:
    """A NAT gateway that binds anew: the rest comes from another port, without a handshake."""
    frame = encode_request(MetadataRequest(), version=9, correlation_id=3, client_id="tests")
    old = ask(ask(Conversation(), 1), 2).send(0, frame[:split])
    new = Conversation(("10.0.0.1", 41000), handshake=False, client_seq=old.next[0], broker_seq=old.next[1])
    new.send(0, frame[split:]).response(MetadataResponse(), version=9, correlation_id=3)
    for number in range(4, 9):
        new.request(MetadataRequest(), version=9, correlation_id=number)
        new.response(MetadataResponse(), version=9, correlation_id=number)
    rows, _ = both(pcap(map(ethernet, [*old.packets, *new.packets])))
    whole = [row.correlation_id for row in rows if row.problem is None]
    assert whole == [1, 2, *range(3 if split == 0 else 4, 9)]
    assert [row.problem for row in rows if row.problem] == (
        ["from the client: 10 bytes of a frame that is not whole"] if split else []
    )


def test_responses_to_correlation_ids_that_repeat_are_named() -> None:
    """Of requests under way with one correlation id the last has the response; of the others each is a row."""
    talk = Conversation(handshake=False)
    ids = (7, 7, 7, 8, 8)
    for number in ids:
        talk.request(MetadataRequest(), version=9, correlation_id=number)
    for number in ids:
        talk.response(MetadataResponse(), version=9, correlation_id=number)
    rows, code = both(pcap(map(ethernet, talk.packets)))
    assert sum(row.request_bytes is not None for row in rows) == len(ids)
    assert sum(row.response_bytes is not None for row in rows) == len(ids)
    assert code == 4
