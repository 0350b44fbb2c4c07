"""Captures with the brokers' direction only: both trackers give the same rows."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from kafkawire import capture, records
from kafkawire.capture import one_way
from kafkawire.capture.matcher import NO_REQUEST
from kafkawire.messages import (
    ApiVersionsResponse,
    FetchResponse,
    HeartbeatResponse,
    MetadataResponse,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.rows import Exchange
from kafkawire.wire.message import Message
from tests.capture.cuts import native, python
from tests.capture.other_protocols import all_protocols
from tests.capture.talks import Packets, kinds
from tests.capture.wiretap import BROKER, CLIENT, Conversation, ethernet, pcap

HEARTBEAT = HeartbeatResponse()
TELLING: dict[str, tuple[Message, int]] = {
    "ApiVersions": (ApiVersionsResponse(api_keys=tuple(ApiVersion(api_key=key, max_version=3) for key in range(9))), 3),
    "Metadata": (
        MetadataResponse(
            brokers=(MetadataResponseBroker(host="broker-1", port=9092),),
            topics=(MetadataResponseTopic(name="orders", partitions=(MetadataResponsePartition(),)),),
        ),
        9,
    ),
    "Fetch": (
        FetchResponse(
            responses=(
                FetchableTopicResponse(
                    topic="orders", partitions=(PartitionData(records=records.build([records.Record(b"k", b"v")])),)
                ),
            )
        ),
        11,
    ),
}


def both(packets: Packets, **rules: object) -> tuple[list[Exchange], int]:
    data = pcap(map(ethernet, packets))
    found = native(data)
    assert found == python(data)
    return found


def from_end(packets: Packets, port: int) -> list[bytes]:
    """The packets that an end with this port sends."""
    return [packet for packet in packets if packet[0] >> 4 == 4 and packet[20:22] == port.to_bytes(2, "big")]


def responses(*sent: tuple[Message, int], port: int = BROKER[1], handshake: bool = False) -> list[bytes]:
    talk = Conversation(CLIENT, (BROKER[0], port), handshake=handshake)
    for number, (body, version) in enumerate(sent, 20):
        talk.response(body, version=version, correlation_id=number)
    return from_end(talk.packets, port)


@pytest.mark.parametrize("make", kinds(), ids=lambda make: make.__name__)
def test_responses_alone_have_rows_which_say_that_requests_are_missing(make: Callable[[], Packets]) -> None:
    packets = make()
    whole, _ = both(packets)
    port = int.from_bytes(packets[0][22:24], "big")  # the client's SYN is the first packet
    rows, code = both(from_end(packets, port))
    problems = {row.problem for row in rows} - {NO_REQUEST}
    # The tokens of SaslHandshake v0 have no headers.
    assert all("that belong to no known frame" in str(problem) for problem in problems)
    assert bool(problems) == (make.__name__ == "sasl_tokens")
    assert {row.api for row in rows} <= {None}
    answered = [row.response_bytes for row in whole if row.response_bytes is not None and row.request_bytes is not None]
    assert len(rows) <= len(answered)
    assert code == (4 if rows else code)
    assert code != 0


@pytest.mark.parametrize("handshake", [False, True])
@pytest.mark.parametrize("telling", TELLING.values(), ids=TELLING)
def test_responses_alone_are_recognised_on_any_port_by_one_that_names_itself(
    telling: tuple[Message, int], handshake: bool
) -> None:
    packets = responses((HEARTBEAT, 3), telling, (HEARTBEAT, 3), port=31337, handshake=handshake)
    rows, code = both(packets)
    assert [(row.correlation_id, row.problem, row.broker) for row in rows] == [
        (number, NO_REQUEST, "10.0.0.2:31337") for number in (20, 21, 22)
    ]
    assert code == 4


def test_numbered_frames_on_another_port_are_not_recognised() -> None:
    assert both(responses(*[(HEARTBEAT, 3)] * 20, port=31337)) == ([], 1)


def test_a_rule_is_enough_for_one_response() -> None:
    data = pcap(map(ethernet, responses((HEARTBEAT, 3), port=31337)))
    found = capture.read(BytesIO(data), decode_as=["tcp.port==31337,kafka"])
    assert [row.problem for row in found] == [NO_REQUEST]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_few_numbered_frames_from_the_usual_port_are_no_proof(count: int) -> None:
    rows, code = both(responses(*[(HEARTBEAT, 3)] * count))
    assert len(rows) == (count if count >= 4 else 0)
    assert code == (4 if rows else 1)


@pytest.mark.parametrize("first", range(1, 6))
def test_one_direction_is_joined_within_a_response(first: int) -> None:
    talk = Conversation(handshake=False, mss=100)
    for number in range(12):
        talk.response(FetchResponse(responses=(FetchableTopicResponse(topic="t" * 150),)), version=11,
                      correlation_id=number)  # fmt: skip
    rows, code = both(talk.packets[first:])
    assert [row.correlation_id for row in rows] == [*range((first + 1) // 2, 12)]
    assert {row.problem for row in rows} == {NO_REQUEST}
    assert code == 4


def test_much_is_recognised_before_the_end() -> None:
    """Beyond the bytes in which a request is looked for."""
    packets = responses(*[(HEARTBEAT, 3)] * 18_000)
    rows, code = both(packets)
    assert [row.correlation_id for row in rows] == [*range(20, 18_020)]
    assert code == 4


@pytest.mark.parametrize("handshake", [False, True])
@pytest.mark.parametrize("port", [BROKER[1], 2181])
@pytest.mark.parametrize("side", [0, 1])
def test_one_direction_of_other_protocols_is_not_recognised(side: int, port: int, handshake: bool) -> None:
    for name, protocol in all_protocols():
        talk = Conversation(CLIENT, (BROKER[0], port), handshake=handshake)
        for sender, data in protocol:
            talk.send(sender, data)
        assert both(from_end(talk.packets, (CLIENT[1], port)[side])) == ([], 1), name


@pytest.mark.parametrize("kind", ["requests", "replies"])
def test_one_direction_of_zookeeper_without_pings_is_not_recognised(kind: str) -> None:
    (talk,) = (talk for name, talk in all_protocols() if name == "zookeeper")
    side = 0 if kind == "requests" else 1
    frames = [data for sender, data in talk if sender == side and data[4] < 0x80][1:]
    sent = Conversation(handshake=False)
    for data in frames:
        sent.send(1, data)
    assert both(from_end(sent.packets, BROKER[1])) == ([], 1)


def test_correlation_ids_of_authentication_are_followed_by_others() -> None:
    talk = Conversation(handshake=False)
    for number in (2**31 - 7, 2**31 - 6, 0, 1):
        talk.response(HEARTBEAT, version=3, correlation_id=number)
    assert len(one_way.chain(b"".join(packet[40:] for packet in talk.packets), {0}) or ()) == 4
