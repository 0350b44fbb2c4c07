"""Conversations of many kinds between Kafka's clients and brokers, as IP packets, for properties of captures."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain, zip_longest

from kafkawire import records
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import (
    REGISTRY,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from tests.capture.wiretap import Conversation, answer, ask, produce, question

Packets = list[bytes]
_BATCH = records.build([records.Record(b"key", bytes(range(256)) * 40)])
_FETCH = 1


def _frame(api_key: int, version: int, number: int, client_id: bytes | None, rest: bytes) -> bytes:
    """A request of any api and version."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    body = struct.pack(">hhi", api_key, version, number) + name + rest
    return struct.pack(">i", len(body)) + body


def _response(number: int, rest: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(rest), number) + rest


def _metadata(talk: Conversation, number: int, client_id: str | None = "tests", version: int = 9) -> Conversation:
    body = encode_request(MetadataRequest(), version=version, correlation_id=number, client_id=client_id)
    talk.send(0, body)
    return talk.response(MetadataResponse(cluster_id="c" * 100), version=version, correlation_id=number)


def every_version(api_key: int) -> Packets:
    """Each version of one api."""
    talk = Conversation()
    entry = REGISTRY.requests()[api_key]
    request, response = REGISTRY.rpc(api_key, "request"), REGISTRY.rpc(api_key, "response")
    assert request is not None
    for number, version in enumerate(entry.valid_versions, 7):
        talk.request(request(), version=version, correlation_id=number)
        if response is not None:
            talk.response(response(), version=version, correlation_id=number)
    return talk.packets


def pipelined() -> Packets:
    """Requests before the responses to earlier ones, some in one packet."""
    talk = Conversation()
    for number in range(12):
        frames = [encode_request(MetadataRequest(), version=9, correlation_id=3 * number + i, client_id="tests")
                  for i in range(3)]  # fmt: skip
        talk.send(0, b"".join(frames)) if number % 2 else [talk.send(0, frame) for frame in frames]
        for late in range(3 * number - 1, 3 * number + 2):
            if late >= 0:
                talk.response(MetadataResponse(), version=9, correlation_id=late)
    return talk.packets


def large() -> Packets:
    """Frames over many packets, with acknowledgments between them."""
    talk = Conversation(mss=900)
    data = PartitionData(partition_index=0, high_watermark=9, records=_BATCH)
    fetched = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(data,)),))
    for number in range(0, 12, 3):
        talk.request(produce(-1, _BATCH), version=9, correlation_id=number).acknowledge(1)
        talk.response(ProduceResponse(), version=9, correlation_id=number)
        talk.request(FetchRequest(max_wait_ms=1, min_bytes=1), version=11, correlation_id=number + 1)
        talk.response(fetched, version=11, correlation_id=number + 1).acknowledge(0)
        ask(talk, number + 2)
    return talk.packets


def small_segments() -> Packets:
    """Frames in segments of a few bytes."""
    talk = Conversation(mss=7)
    for number in range(6):
        ask(talk, number)
    return talk.packets


def _with_client_id(client_id: bytes | None, version: int, api_key: int = 3) -> Packets:
    talk = Conversation()
    for number in range(8):
        body = encode_request(MetadataRequest(), version=min(version, 8), correlation_id=number, client_id=None)[14:]
        talk.send(0, _frame(api_key, version, number, client_id, body))
        talk.send(1, encode_response(MetadataResponse(), version=min(version, 8), correlation_id=number))
    return talk.packets


def null_client_id() -> Packets:
    return _with_client_id(None, 8)


def empty_client_id() -> Packets:
    return _with_client_id(b"", 8)


def long_client_id() -> Packets:
    return _with_client_id(b"c" * 900, 8)


def client_id_in_unicode() -> Packets:
    return _with_client_id("клиент".encode(), 8)


def null_client_id_and_a_newer_version() -> Packets:
    return _with_client_id(None, 19)


def empty_client_id_and_a_newer_version() -> Packets:
    return _with_client_id(b"", 19)


def newer_version() -> Packets:
    return _with_client_id(b"tests", 19)


def newer_api() -> Packets:
    return _with_client_id(b"tests", 0, api_key=max(REGISTRY.requests()) + 1)


def fetches_of_a_newer_version() -> Packets:
    """A consumer whose client is newer than the schemas: requests of one size, large responses."""
    talk = Conversation()
    for number in range(100, 110):
        talk.send(0, _frame(_FETCH, 19, number, b"consumer-1", bytes(90)))
        talk.send(1, _response(number, bytes(5 + 3000 * (number % 3 == 0))))
    return talk.packets


def newer_and_known_versions() -> Packets:
    talk = Conversation()
    for number in range(8):
        if number % 2:
            talk.send(0, _frame(_FETCH, 19, number, b"tests", bytes(90))).send(1, _response(number, bytes(5)))
        else:
            _metadata(talk, number)
    return talk.packets


def without_acknowledgment() -> Packets:
    """Produce with acks=0, to which brokers do not respond, between others."""
    talk = Conversation()
    for number in range(12):
        if number % 3:
            talk.request(produce(0), version=9, correlation_id=number).acknowledge(1)
        else:
            ask(talk, number)
    return talk.packets


def only_without_acknowledgment() -> Packets:
    talk = ask(Conversation(), 0)
    for number in range(1, 8):
        talk.request(produce(0), version=9, correlation_id=number).acknowledge(1)
    return talk.packets


def sasl() -> Packets:
    talk = ask(Conversation(), 1)
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=1, correlation_id=2)
    talk.response(SaslHandshakeResponse(mechanisms=("PLAIN",)), version=1, correlation_id=2)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version=2, correlation_id=3)
    talk.response(SaslAuthenticateResponse(), version=2, correlation_id=3)
    for number in range(4, 8):
        _metadata(talk, number)
    return talk.packets


def sasl_tokens() -> Packets:
    """SaslHandshake v0: tokens follow that are no requests."""
    talk = ask(Conversation(), 1)
    talk.request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), version=0, correlation_id=2)
    talk.response(SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)), version=0, correlation_id=2)
    for token in (b"n,,n=user,r=abc", b"r=abcdef,s=salt,i=4096", b"c=biws,r=abcdef,p=proof", b"v=signature"):
        talk.send(int(token[:1] in b"rv"), struct.pack(">i", len(token)) + token)
    for number in range(3, 8):
        _metadata(talk, number)
    return talk.packets


def left_over() -> Packets:
    """ApiVersions of old librdkafka: four bytes behind the message."""
    talk = Conversation()
    for number in range(8):
        talk.send(0, _frame(18, 0, number, b"rdkafka", bytes(4)))
        talk.response(ApiVersionsResponse(), version=0, correlation_id=number)
    return talk.packets


def damaged_bodies() -> Packets:
    """Bodies of requests and responses that end early."""
    talk = Conversation()
    for number in range(10):
        request = encode_request(FetchRequest(), version=11, correlation_id=number, client_id="tests")[4:]
        answered = encode_response(FetchResponse(), version=11, correlation_id=number)[4:]
        request = request[:-3] if number % 3 == 1 else request
        answered = answered[:-3] if number % 3 == 2 else answered
        talk.send(0, struct.pack(">i", len(request)) + request)
        talk.send(1, struct.pack(">i", len(answered)) + answered)
    return talk.packets


def all_bodies_damaged() -> Packets:
    talk = Conversation()
    for number in range(8):
        talk.send(0, _frame(_FETCH, 11, number, b"tests", b"\xff" * 30)).send(1, _response(number, b"\xff" * 30))
    return talk.packets


def correlation_ids_that_wrap() -> Packets:
    """Correlation ids beyond the highest one, which go on at the lowest, and begin anew."""
    talk = Conversation()
    for number in (2**31 - 2, 2**31 - 1, -(2**31), -(2**31) + 1, 0, 1, 2):
        _metadata(talk, number)
    return talk.packets


def reserved_correlation_ids() -> Packets:
    """Kafka's Java authenticates again on an open connection, with correlation ids of their own (KIP-368)."""
    talk = _metadata(Conversation(), 1)
    for number in (2**31 - 8, 2**31 - 7):
        talk.request(SaslAuthenticateRequest(auth_bytes=b"token"), version=2, correlation_id=number)
        talk.response(SaslAuthenticateResponse(), version=2, correlation_id=number)
    for number in (2, 3):
        _metadata(talk, number)
    return talk.packets


def controlled_shutdown() -> Packets:
    """The one request whose header has no client id."""
    talk = Conversation()
    for number in range(4):
        talk.send(0, struct.pack(">ihhii", 12, 7, 0, number, 1)).send(1, _response(number, bytes(6)))
    return talk.packets


def unanswered() -> Packets:
    talk = ask(Conversation(), 0)
    for number in range(1, 6):
        question(talk, number)
    return talk.packets


def newer_by_two() -> Packets:
    """A consumer and producer two releases newer: every version, and one api, are above those of the schemas."""
    talk = Conversation()
    # Metadata, FindCoordinator, JoinGroup, SyncGroup, ListOffsets, Fetch, Heartbeat, OffsetCommit, Produce
    apis = (3, 10, 11, 14, 2, 1, 12, 8, 0, max(REGISTRY.requests()) + 2)
    known = {
        api_key: entry.valid_versions[-1] for api_key, entry in REGISTRY.requests().items() if entry.valid_versions
    }
    talk.send(0, _frame(18, known[18] + 2, 0, b"consumer-2", b"\0\x07consume\x065.0.0\0\0"))
    talk.send(1, _response(0, struct.pack(">hi", 35, 0)))
    for number in range(1, 31):
        api_key = apis[(number - 1) % len(apis)]
        body = b"\0" + bytes((number * 37 + at) % 251 for at in range(20 + 9 * number))
        talk.send(0, _frame(api_key, known.get(api_key, 0) + 2, number, b"consumer-2", body))
        talk.send(1, _response(number, b"\0" + bytes((number * 11 + at) % 241 for at in range(4 + 13 * number))))
    return talk.packets


def _event_hubs(mechanism: str, *tokens: bytes) -> Conversation:
    """A Java client at an Azure Event Hubs namespace: few apis, and ApiVersions of the client's newest version refused
    in version 0; SaslAuthenticate has no bytes and a lifetime, other responses have throttle times."""
    apis = ((0, 3, 7), (1, 4, 11), (2, 0, 5), (3, 0, 7), (8, 2, 7), (9, 1, 5), (10, 0, 2), (11, 0, 5), (12, 0, 3),
            (13, 0, 2), (14, 0, 3), (17, 0, 1), (18, 0, 3), (19, 0, 4), (22, 0, 1), (36, 0, 1))  # fmt: skip
    listed = tuple(ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in apis)
    talk = Conversation(client=("10.0.0.1", 50123), broker=("40.112.242.5", 9093))
    software = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.4.0")
    first = (1 << 31) - 8
    talk.request(software, version=4, correlation_id=0, client_id="app")
    talk.response(ApiVersionsResponse(error_code=35, api_keys=listed), version=0, correlation_id=0)
    talk.request(ApiVersionsRequest(), version=0, correlation_id=1, client_id="app")
    talk.response(ApiVersionsResponse(api_keys=listed), version=0, correlation_id=1)
    talk.request(SaslHandshakeRequest(mechanism=mechanism), version=1, correlation_id=first, client_id="app")
    mechanisms = ("PLAIN", "OAUTHBEARER")
    talk.response(SaslHandshakeResponse(mechanisms=mechanisms), version=1, correlation_id=first)
    for number, token in enumerate(tokens, first + 1):
        talk.request(SaslAuthenticateRequest(auth_bytes=token), version=1, correlation_id=number, client_id="app")
        answer = SaslAuthenticateResponse(session_lifetime_ms=3_600_000)
        talk.response(answer, version=1, correlation_id=number)
    for number in range(2, 14):
        if number % 3 == 2:
            talk.request(MetadataRequest(), version=7, correlation_id=number, client_id="app")
            answers = MetadataResponse(throttle_time_ms=1500, cluster_id="ns.servicebus.windows.net", controller_id=0)
            talk.response(answers, version=7, correlation_id=number)
        elif number % 3 == 0:
            talk.request(produce(-1, _BATCH), version=7, correlation_id=number, client_id="app")
            talk.response(ProduceResponse(throttle_time_ms=3000), version=7, correlation_id=number)
        else:
            talk.request(FetchRequest(max_wait_ms=500, min_bytes=1), version=11, correlation_id=number, client_id="app")
            talk.response(FetchResponse(throttle_time_ms=250), version=11, correlation_id=number)
    return talk


def event_hubs_with_a_connection_string() -> Packets:
    key = b"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=" + b"k" * 43 + b"="
    return _event_hubs("PLAIN", b"\0$ConnectionString\0" + key).packets


def event_hubs_with_a_token_that_is_renewed() -> Packets:
    """KIP-368: the client authenticates again while the connection is in use."""
    token = b"n,,\x01auth=Bearer " + b"eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9." * 60 + b"\x01\x01"
    talk = _event_hubs("OAUTHBEARER", token)
    talk.request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), version=1, correlation_id=14, client_id="app")
    talk.response(SaslHandshakeResponse(mechanisms=("OAUTHBEARER",)), version=1, correlation_id=14)
    talk.request(SaslAuthenticateRequest(auth_bytes=token), version=1, correlation_id=15, client_id="app")
    talk.response(SaslAuthenticateResponse(session_lifetime_ms=3_600_000), version=1, correlation_id=15)
    for number in range(16, 20):
        talk.request(MetadataRequest(), version=7, correlation_id=number, client_id="app")
        talk.response(MetadataResponse(throttle_time_ms=10), version=7, correlation_id=number)
    return talk.packets


def event_hubs_that_refuses() -> Packets:
    """SaslAuthenticate with an error and a null in place of bytes, which Kafka's classes do not read; once more."""
    talk = _event_hubs("PLAIN", b"\0$ConnectionString\0wrong")
    text = b"Unauthorized access. 'Send' claim(s) are required to perform this operation."
    for number in range(14, 17):
        talk.request(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version=1, correlation_id=number, client_id="app")
        refusal = struct.pack(">hh", 58, len(text)) + text + struct.pack(">iq", -1, 0)
        talk.send(1, _response(number, refusal))
    return talk.packets


def several_connections() -> Packets:
    talks = [ask(Conversation(("10.0.0.1", 40000 + i)), i) for i in range(4)]
    for number in range(10, 30):
        talk = talks[number % 3]
        question(talk, number) if number % 5 else talk.request(produce(0), version=9, correlation_id=number)
        if number % 5:
            answer(talk, number)
    woven = chain.from_iterable(zip_longest(*(talk.packets for talk in talks)))
    return [packet for packet in woven if packet is not None]


def one_port_twice() -> Packets:
    """Two connections, opened one after the other by the same client port to two brokers."""
    return [*ask(ask(Conversation(), 1), 2).close().packets,
            *ask(ask(Conversation(broker=("10.0.0.3", 9092)), 3), 4).close().packets]  # fmt: skip


def kinds() -> list[Callable[[], Packets]]:
    """All of them but `every_version`."""
    return [
        pipelined, large, small_segments, null_client_id, empty_client_id, long_client_id, client_id_in_unicode,
        null_client_id_and_a_newer_version, empty_client_id_and_a_newer_version, newer_version, newer_api,
        fetches_of_a_newer_version, newer_and_known_versions, without_acknowledgment, only_without_acknowledgment,
        sasl, sasl_tokens, left_over, damaged_bodies, all_bodies_damaged, correlation_ids_that_wrap,
        reserved_correlation_ids, controlled_shutdown, unanswered, several_connections, one_port_twice,
        newer_by_two, event_hubs_with_a_connection_string, event_hubs_with_a_token_that_is_renewed,
        event_hubs_that_refuses,
    ]  # fmt: skip


def api_kinds() -> list[int]:
    """The api keys of which `every_version` makes a conversation."""
    return sorted(api_key for api_key, entry in REGISTRY.requests().items() if entry.valid_versions)
