"""Captures of other people's clients, kept as files, and misleading conversations: both trackers give the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkawire import capture
from kafkawire.capture.matcher import AMBIGUOUS, FIRST, NO_REQUEST, NO_RESPONSE
from kafkawire.frames import encode_request
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse
from kafkawire.rows import Exchange
from tests.capture import talks
from tests.capture.cuts import native, python
from tests.capture.other_protocols import Talk, all_protocols
from tests.capture.wiretap import Conversation, ask, ethernet, pcap, produce

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


def test_a_client_two_releases_newer_has_a_row_for_each_exchange() -> None:
    rows, code = both(pcap(map(ethernet, talks.newer_by_two())))
    assert [row.correlation_id for row in rows] == [*range(31)]
    assert rows[0].errors == {"UNSUPPORTED_VERSION": 1}
    assert all(row.problem and row.client_id == "consumer-2" and row.response_bytes for row in rows)
    assert code == 4


@pytest.mark.parametrize(
    ("make", "count", "refused"),
    [
        (talks.event_hubs_with_a_connection_string, 16, 0),
        (talks.event_hubs_with_a_token_that_is_renewed, 22, 0),
        (talks.event_hubs_that_refuses, 19, 3),
    ],
)
def test_connections_to_event_hubs_are_whole(make: Callable[[], list[bytes]], count: int, refused: int) -> None:
    rows, code = both(pcap(map(ethernet, make())))
    assert (len(rows), code) == (count, 4 if refused else 0)
    assert [row.errors for row in rows[:2]] == [{"UNSUPPORTED_VERSION": 1}, {}]
    assert all(row.problem is None and row.response_bytes for row in rows[: count - refused])
    for row in rows[count - refused :]:
        assert row.errors == {"SASL_AUTHENTICATION_FAILED": 1}
        assert re.fullmatch(
            r"response: Sasl.* at byte 84: expected the length of bytes, found null \(-1\)", str(row.problem)
        )


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
    "SOCKS 5, password": [
        (0, b"\x05\x02\0\x02"),
        (1, b"\x05\x02"),
        (0, b"\x01\x05alice\x07hunter2"),
        (1, b"\x01\0"),
        (0, b"\x05\x01\0\x01\x0a\0\0\x02\x23\x84"),
        (1, b"\x05\0\0\x01\x0a\0\0\x02\x23\x84"),
    ],
    "SOCKS 5, many methods": [
        (0, b"\x05\x08\0\x01\x02\x03\x05\x06\x07\x08"),
        (1, b"\x05\x02"),
        (0, b"\x01\x05alice\x07hunter2"),
        (1, b"\x01\0"),
        (0, b"\x05\x01\0\x03\x05kafka\x23\x84"),
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


def one_correlation_id(*, handshake: bool, depth: int = 3, count: int = 9, number: int = 7) -> list[bytes]:
    """A client that gives all requests one correlation id: Metadata and ApiVersions in turn, `depth` under way."""
    talk = Conversation(handshake=handshake)
    for at in range(count + depth - 1):
        if at < count:
            (request, version), _ = KINDS[at % 2]
            talk.request(request, version=version, correlation_id=number)
        if at >= depth - 1:
            _, (response, version) = KINDS[(at - depth + 1) % 2]
            talk.response(response, version=version, correlation_id=number)
    return talk.packets


KINDS = (
    ((MetadataRequest(), 9), (MetadataResponse(), 9)),
    ((ApiVersionsRequest(), 0), (ApiVersionsResponse(), 0)),
)


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_responses_are_in_the_order_of_requests_with_one_correlation_id(depth: int) -> None:
    rows, code = both(pcap(map(ethernet, one_correlation_id(handshake=True, depth=depth))))
    assert [(row.api, row.problem) for row in rows] == [(("Metadata", "ApiVersions")[at % 2], None) for at in range(9)]
    answers = [row.response_packet for row in rows]
    assert None not in answers
    assert answers == sorted(answers, key=lambda packet: packet or 0)
    assert code == 0


@pytest.mark.parametrize("first", range(1, 18))
def test_whose_response_it_is_may_be_uncertain_in_a_joined_connection_with_one_correlation_id(first: int) -> None:
    """Responses to requests before the capture may come first. The rows say so."""
    packets = one_correlation_id(handshake=False)
    true = {row.packet: row.response_packet for row in both(pcap(map(ethernet, one_correlation_id(handshake=True))))[0]}
    rows, code = both(pcap(map(ethernet, packets[first:])))
    # When the first one is answered it is not known that its correlation id comes again. The next one shows it, or the
    # next response.
    doubted = {row.problem for row in rows if row.request_bytes is None and row.correlation_id in (None, 7)}
    for row in rows:
        if row.problem is None:
            assert row.packet is not None
            assert row.response_packet is not None
            answered = true[row.packet + first + 3] == row.response_packet + first + 3
            assert answered or (row == rows[0] and doubted & {FIRST.format(row.packet), NO_REQUEST})
    if rows:
        assert code == 4


@pytest.mark.parametrize("first", range(9))
def test_a_client_with_one_correlation_id_that_waits_is_joined(first: int) -> None:
    """A request is acknowledged no later than it is answered: a response that came before belongs to an earlier one."""
    packets = one_correlation_id(handshake=False, depth=1, count=12, number=0)
    rows, code = both(pcap(map(ethernet, packets[first:])))
    whole = [row for row in both(pcap(map(ethernet, packets)))[0] if row.api is not None]
    wanted = [(row.api, (row.packet or 0) - first, (row.response_packet or 0) - first) for row in whole]
    asked = [row for row in rows if row.api is not None]
    assert [(row.api, row.packet, row.response_packet) for row in asked] == [one for one in wanted if one[1] > 0]
    assert [row.problem for row in asked] == [None, *[AMBIGUOUS] * (len(asked) - 1)]
    (told,) = (row for row in rows if row.api is None)
    assert (told.packet, told.problem) == (asked[1].packet, FIRST.format(asked[0].packet))
    assert code == 4


def test_a_lost_response_of_several_with_one_correlation_id_is_named() -> None:
    packets = one_correlation_id(handshake=True, count=40)
    rows, code = both(pcap(map(ethernet, [*packets[:12], *packets[13:]])))
    assert any("are missing in the capture" in str(row.problem) for row in rows)
    assert NO_RESPONSE in {row.problem for row in rows}
    assert code == 4


def newer_fetch(number: int) -> bytes:
    """A whole request of a version that is not known."""
    body = bytes.fromhex("00010019") + number.to_bytes(4, "big") + b"\0\5tests" + bytes(range(41))
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("answered", [2, 3])
@pytest.mark.parametrize("handshake", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_whole_request_before_a_hole_is_not_dropped_with_it(known: bool, handshake: bool, answered: int) -> None:
    """It was waited for what follows, which is lost. A request of a version that is not known needs its response."""
    talk = Conversation(handshake=handshake)
    if known:
        talk.request(MetadataRequest(), version=9, correlation_id=3)
    else:
        talk.send(0, newer_fetch(3))
    lost = len(talk.packets)
    talk.request(MetadataRequest(), version=9, correlation_id=4)
    talk.response(MetadataResponse(), version=9, correlation_id=answered).close()
    del talk.packets[lost]
    other = ask(Conversation(("10.0.0.7", 1024)), 9)
    data = pcap(map(ethernet, [*talk.packets, *other.packets]))
    rows, code = both(data)
    found = [row.api for row in rows if row.correlation_id == 3 and row.api is not None]
    certain = known or answered == 3
    assert found == (["Metadata" if known else "Fetch"] if certain else [])
    assert code == 4
    whole = capture.read(BytesIO(data))
    assert list(whole) == rows
    assert dict(whole.summary.connections) == ({"kafka": 2} if certain else {"kafka": 1, "likely": 1})


@pytest.mark.parametrize("kept", [90, 100, 200])
@pytest.mark.parametrize("first", range(6))
def test_truncated_responses_of_a_joined_connection_are_named(kept: int, first: int) -> None:
    """`tcpdump -s`: the response was captured, and is cut; so is its request, of 36 bytes, where 90 bytes are kept."""
    talk = Conversation(handshake=False, mss=60_000)
    answers = FetchResponse(responses=(FetchableTopicResponse(topic="t" * 2000),))
    for number in range(1, 8):
        talk.request(FetchRequest(max_wait_ms=100, min_bytes=1), version=4, correlation_id=number)
        talk.response(answers, version=4, correlation_id=number)
    rows, code = both(pcap(packet[:kept] for packet in map(ethernet, talk.packets[first:])))
    found = {row.correlation_id: row for row in rows if row.api == "Fetch"}
    assert sorted(found) == [*range(1 + (first + 1) // 2, 8)]
    for row in found.values():
        assert row.response_packet == (row.packet or 0) + 1
        cut = r"response: \d+ of its 2\d+ bytes are missing in the capture"
        assert re.fullmatch(
            (r"request: 4 of its 36 bytes are missing in the capture; " * (kept < 94)) + cut, str(row.problem)
        )
    assert code == 4


@pytest.mark.parametrize("version", [7, 20])
@pytest.mark.parametrize("first", range(6))
def test_truncated_requests_of_a_joined_connection_are_named(version: int, first: int) -> None:
    """Of a version that is not known, too."""
    talk = Conversation(handshake=False, mss=60_000)
    for number in range(1, 8):
        request = encode_request(produce(-1, bytes(3000)), version=7, correlation_id=number, client_id="tests")
        talk.send(0, request[:6] + version.to_bytes(2, "big") + request[8:])
        talk.response(ProduceResponse(), version=7, correlation_id=number)
    ask(talk, 8)
    rows, code = both(pcap(packet[:90] for packet in map(ethernet, talk.packets[first:])))
    found = [row for row in rows if row.api == "Produce"]
    known = version == 7
    if known:
        assert [row.correlation_id for row in found] == [*range(1 + (first + 1) // 2, 8)]
    for row in found:
        assert "bytes are missing in the capture" in str(row.problem)
    assert code == 4
