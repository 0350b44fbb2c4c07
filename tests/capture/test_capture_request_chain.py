"""Requests that are recognized by their headers: of versions and apis that are newer than the schemas, in connections
whose beginning was not captured, and on ports that are known; and what is not Kafka's."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture.reader import read_with
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import (
    REGISTRY,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
)
from tests.capture.other_protocols import Talk, all_protocols
from tests.capture.wiretap import BROKER, CLIENT, Conversation, ethernet, pcap

OTHERS = dict(all_protocols())


def newer_fetch(
    correlation_id: int, client_id: str | None = "consumer-orders-1", api_key: int = 1, version: int = 25
) -> bytes:
    """A request of a version that no schema has; its body is not Fetch's."""
    name = b"" if client_id is None else client_id.encode()
    head = struct.pack(">hhih", api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    body = head + b"\0" + bytes(range(40))
    return len(body).to_bytes(4, "big") + body


def answer(correlation_id: int) -> bytes:
    body = struct.pack(">i", correlation_id) + b"\0" + bytes(range(20))
    return len(body).to_bytes(4, "big") + body


def talk_of(packets: Talk, *, handshake: bool = False) -> Conversation:
    talk = Conversation(handshake=handshake)
    for side, data in packets:
        talk.send(side, data)
    return talk


def read(talk: Conversation, **options: object) -> capture.Exchanges:
    return read_with(BytesIO(pcap(map(ethernet, talk.packets))), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("handshake", [False, True])
@pytest.mark.parametrize("count", [1, 2, 50])
@pytest.mark.parametrize("version", [19, 25])
def test_exchanges_of_a_newer_version_are_rows(handshake: bool, count: int, version: int) -> None:
    frames = [(0, newer_fetch(number, version=version)) for number in range(7, 7 + count)]
    packets = [part for number, frame in enumerate(frames, 7) for part in (frame, (1, answer(number)))]
    found = read(talk_of(packets, handshake=handshake))
    rows = list(found)
    assert [(row.api, row.version, row.correlation_id) for row in rows] == [
        ("Fetch", version, number) for number in range(7, 7 + count)
    ]
    assert all(row.response_bytes == 25 for row in rows)
    assert all(row.problem and f"FetchRequest has no version {version}" in row.problem for row in rows)
    assert found.summary.joined_bytes == 0


def test_requests_of_an_unknown_api_beside_the_known_ones_are_rows() -> None:
    highest = max(REGISTRY.requests())
    packets = [(0, newer_fetch(number, api_key=highest + 1, version=0)) for number in (1, 2, 3)]
    assert [row.api for row in read(talk_of(packets))] == [f"UNKNOWN_{highest + 1}"] * 3


def test_requests_without_client_id_need_more_of_them() -> None:
    packets = [(0, newer_fetch(number, client_id=None)) for number in (1, 2, 3)]
    assert len(list(read(talk_of(packets)))) == 3
    assert list(read(talk_of(packets[:1]))) == []


def test_a_response_whose_body_does_not_decode_answers_its_request() -> None:
    talk = Conversation(handshake=False)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"x"), version=1, correlation_id=2)
    talk.send(1, answer(2))
    (row,) = read(talk)
    assert row.response_bytes == 25
    assert row.problem is not None
    assert row.problem.startswith("response: SaslAuthenticateResponse v1")


def test_a_response_with_bytes_left_over_answers_its_request_with_a_note() -> None:
    talk = Conversation(handshake=False)
    talk.request(MetadataRequest(topics=()), version=1, correlation_id=2)
    frame = encode_response(MetadataResponse(), version=1, correlation_id=2) + b"\0"
    talk.send(1, (len(frame) - 4).to_bytes(4, "big") + frame[4:])
    (row,) = read(talk)
    assert row.response_bytes == len(frame) - 4
    assert (row.problem, row.note) == (None, "response: 1 byte left over behind the message")


@pytest.mark.parametrize("client_id", ["consumer-1", None])
@pytest.mark.parametrize("handshake", [False, True])
def test_a_connection_of_too_few_requests_to_be_certain_is_named(client_id: str | None, handshake: bool) -> None:
    """One request of a version that is not known: without its response, or without a client id."""
    packets = [(0, newer_fetch(7, client_id=client_id)), *([] if client_id else [(1, answer(7))])]
    found = read(talk_of(packets, handshake=handshake))
    assert list(found) == []
    assert dict(found.summary.connections) == {"likely": 1}


def test_a_request_that_was_answered_is_not_only_likely() -> None:
    found = read(talk_of([(0, newer_fetch(7)), (1, answer(7))]))
    assert len(list(found)) == 1
    assert dict(found.summary.connections) == {"kafka": 1}


@pytest.mark.parametrize("number", range(14))
def test_a_response_alone_is_no_request(number: int) -> None:
    """With its correlation id it resembles a Produce whose correlation id is the time of a throttle."""
    talk = Conversation(handshake=False)
    talk.response(MetadataResponse(cluster_id="c" * 100), version=9, correlation_id=number)
    talk.response(FindCoordinatorResponse(), version=2, correlation_id=number + 1)
    found = read(talk)
    assert list(found) == []
    assert dict(found.summary.connections) == {"undecided": 1}


def test_a_response_that_decodes_as_a_request_does_not_turn_a_connection_around() -> None:
    talk = Conversation(handshake=False).response(FindCoordinatorResponse(), version=1, correlation_id=8)
    talk.request(FindCoordinatorRequest(), version=2, correlation_id=9)
    talk.response(FindCoordinatorResponse(), version=2, correlation_id=9)
    (row,) = read(talk)
    assert (row.api, row.correlation_id, row.problem) == ("FindCoordinator", 9, None)
    assert row.client == f"{CLIENT[0]}:{CLIENT[1]}"


def test_a_joined_connection_is_recognized_at_an_api_versions_request_of_a_distant_version() -> None:
    """As clients ask brokers of which they know nothing. It is followed by one of a version that the broker has."""
    packets = [
        (0, newer_fetch(17, api_key=18, version=99)),
        (1, answer(17)),
        (0, newer_fetch(18, api_key=18, version=3)),
    ]
    assert [row.correlation_id for row in read(talk_of(packets))] == [17, 18]


def test_requests_that_are_numbered_out_of_order_chain() -> None:
    """As Kafka's Java 2.4 sends them: FindCoordinator 0 behind Metadata 2."""
    packets = [(0, newer_fetch(number)) for number in (2, 0)]
    assert [row.correlation_id for row in read(talk_of(packets))] == [2, 0]


def test_what_decodes_inside_of_a_large_response_is_no_response() -> None:
    """Its first packet ends with it. Many zeros, as records have them, decode as a response to the request 0."""
    inside = encode_response(MetadataResponse(), version=1, correlation_id=0)
    talk = Conversation(handshake=False, mss=100).request(MetadataRequest(topics=()), version=1, correlation_id=0)
    body = struct.pack(">i", 0) + b"\1" * (92 - len(inside)) + inside + bytes(400)
    talk.send(1, struct.pack(">i", len(body)) + body)
    (row,) = read(talk)
    assert (row.response_bytes, row.response_packet) == (len(body), 2)


def test_what_decodes_inside_of_an_earlier_response_is_not_the_one_that_is_waited_for() -> None:
    """The response to a request that was cut off is in the packet before; it holds what decodes as a response, too."""
    inside = encode_response(MetadataResponse(), version=0, correlation_id=5)
    talk = Conversation(handshake=False)
    talk.send(1, answer(4)[:-9] + inside + b"\1" * 40)
    talk.request(MetadataRequest(topics=()), version=0, correlation_id=5)
    talk.response(MetadataResponse(), version=0, correlation_id=5)
    rows = [row for row in read(talk) if row.api is not None]
    assert [(row.correlation_id, row.response_packet, row.problem) for row in rows] == [(5, 3, None)]


@pytest.mark.parametrize("name", list(OTHERS))
@pytest.mark.parametrize("handshake", [False, True])
def test_other_protocols_are_not_recognized_from_any_packet_on(name: str, handshake: bool) -> None:
    packets = OTHERS[name]
    for cut in [0] if handshake else range(len(packets)):
        found = read(talk_of(packets[cut:], handshake=handshake))
        assert list(found) == []
        assert not found.summary.connections["kafka"]
        assert not found.summary.connections["likely"]


def test_a_known_port_makes_a_connection_kafkas() -> None:
    known = {"decode_as": [f"tcp.port=={BROKER[1]},kafka"]}
    whole = newer_fetch(1, version=90)
    assert list(read(talk_of([(0, whole), (1, answer(1))]))) == []
    (row,) = read(talk_of([(0, whole), (1, answer(1))], handshake=True), **known)
    assert (row.api, row.version, row.response_bytes) == ("Fetch", 90, 25)


def test_bytes_on_a_known_port_that_hold_no_frame_are_reported() -> None:
    found = read(talk_of(OTHERS["redis"]), decode_as=[f"tcp.port=={BROKER[1]},kafka"])
    problems = [row.problem for row in found]
    assert problems
    assert all(problem and "belong to no known frame" in problem for problem in problems)
    assert dict(found.summary.connections) == {"kafka": 1}
    other = read(talk_of(OTHERS["redis"]), decode_as=[f"tcp.port=={CLIENT[1] + 1},kafka"])
    assert list(other) == []


@pytest.mark.parametrize("rule", ["tcp.port==9092,vxlan", "tcp.port==0,kafka"])
def test_a_rule_of_a_tcp_port_that_is_not_kafkas_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="kafka"):
        capture.read(BytesIO(b""), decode_as=[rule])


def test_a_joined_connection_is_recognized_at_its_first_whole_request() -> None:
    """An ApiVersions request with bytes that brokers ignore, as old librdkafka sends it, before one that decodes."""
    first = encode_request(MetadataRequest(topics=()), version=2, correlation_id=130, client_id="rdkafka")
    odd = newer_fetch(129, client_id="rdkafka", api_key=18, version=0)
    found = read(talk_of([(0, odd), (1, answer(129)), (0, first)]))
    assert [(row.api, row.correlation_id) for row in found] == [("ApiVersions", 129), ("Metadata", 130)]
    assert found.summary.joined_bytes == 0
