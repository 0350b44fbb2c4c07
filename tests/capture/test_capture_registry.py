"""Captures with messages that Kafka does not have, and with edited ones: both trackers give the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import capture, frames
from kafkawire._loading import Namespace
from kafkawire.capture import Exchanges, ExchangeSelection, read_packets
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.otlp import export
from kafkawire.capture.producer_overlaps import APIS, ProducerOverlaps
from kafkawire.capture.reader import read_with
from kafkawire.capture.recognition import Recognition, Recognizer
from kafkawire.messages import REGISTRY, SaslAuthenticateRequest
from kafkawire.rows import Exchange
from kafkawire.wire.registry import Registry
from tests.capture.wiretap import ACK, CLIENT, Conversation, ask, brief, ethernet, pcap, produce, tcp
from tests.own_schemas import PING, PONG, shipped, write

FAR = PING | {"name": "FarRequest", "apiKey": 32767, "validVersions": "0-200", "flexibleVersions": "none"}


def loaded(folder: Path, *schemas: dict[str, Any]) -> tuple[Namespace, Registry]:
    mine = kafkawire.load_schemas(write(folder, *schemas))
    return mine, mine.registry.over(REGISTRY)


def rows_of(talk: Conversation | list[bytes], registry: Registry, **options: Any) -> list[Exchange]:
    """The rows, which are the same from both trackers."""
    data = pcap(map(ethernet, talk.packets if isinstance(talk, Conversation) else talk))
    found = read_with(BytesIO(data), registry=registry, body=True, **options)
    read_options = ReadOptions(body=True, registry=registry, **options)
    expected = Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", read_options, ExchangeSelection())
    rows = list(found)
    assert rows == list(expected)
    assert found.summary == expected.summary
    return rows


def matched(talk: Conversation, registry: Registry, **options: Any) -> Iterator[capture.CapturedExchange]:
    return read_with(BytesIO(pcap(map(ethernet, talk.packets))), registry=registry, **options).matched()


def pings(mine: Namespace, talk: Conversation, count: int) -> Conversation:
    for number in range(count):
        version = number % 2
        talk.request(mine.PingRequest(text=f"{number}"), version=version, correlation_id=number)
        talk.response(mine.PingResponse(text="pong" * 40), version=version, correlation_id=number)
    return talk


@pytest.mark.parametrize("handshake", [True, False])
def test_recognises_a_connection_of_private_messages_alone(tmp_path: Path, handshake: bool) -> None:
    mine, registry = loaded(tmp_path / "my")
    talk = pings(mine, Conversation(handshake=handshake), 3)
    rows = rows_of(talk, registry)
    assert [(row.api, row.api_key, row.request, row.response) for row in rows] == [
        ("Ping", 9001, {"text": f"{number}"}, {"text": "pong" * 40}) for number in range(3)
    ]
    assert list(capture.read(BytesIO(pcap(map(ethernet, talk.packets))))) == []


def test_finds_private_requests_where_the_capture_begins_within_one(tmp_path: Path) -> None:
    mine, registry = loaded(tmp_path / "my")
    talk = pings(mine, Conversation(handshake=False), 4)
    first = talk.packets[0]
    late = [tcp(*talk.ends, 1000 + 5, 5000, ACK, first[40 + 5 :]), *talk.packets[1:]]
    assert brief(rows_of(late, registry)) == [("Ping", number, True, None) for number in range(1, 4)]


def test_finds_private_responses_after_a_hole(tmp_path: Path) -> None:
    mine, registry = loaded(tmp_path / "my")
    talk = pings(mine, Conversation(mss=100), 4)
    lost = next(n for n, packet in enumerate(talk.packets) if n > 3 and packet[12:16] != talk.packets[0][12:16])
    rows = rows_of([*talk.packets[:lost], *talk.packets[lost + 1 :]], registry)
    assert ("Ping", 3, True, None) in brief(rows)


def test_recognises_the_highest_api_keys_and_versions(tmp_path: Path) -> None:
    mine, registry = loaded(tmp_path / "my", FAR)
    recognizer = Recognizer(registry)
    for version in (0, 127, 128, 200):
        data = frames.encode_request(mine.FarRequest(text="a"), version=version, correlation_id=1)
        assert recognizer.request(data) is Recognition.YES
        assert recognizer.find_request(b"??" + data, {2}).offset == 2
        assert Recognizer(REGISTRY).request(data) is Recognition.NO
        assert Recognizer(REGISTRY).find_request(b"??" + data, {2}).offset is None


def test_kafkas_messages_are_read_as_before(tmp_path: Path) -> None:
    _, registry = loaded(tmp_path / "my")
    talk = ask(ask(Conversation(), 1), 2).request(produce(0), version=9, correlation_id=3)
    assert rows_of(talk, registry) == rows_of(talk, REGISTRY)


def test_private_requests_are_matched_beside_kafkas(tmp_path: Path) -> None:
    mine, registry = loaded(tmp_path / "my")
    rows = rows_of(ask(pings(mine, ask(Conversation(), 7), 2), 8), registry)
    assert [row.api for row in rows] == ["ApiVersions", "Ping", "Ping", "ApiVersions"]


def test_an_edited_message_is_read_with_its_versions(tmp_path: Path) -> None:
    request, response = shipped("ListTransactionsRequest"), shipped("ListTransactionsResponse")
    for schema in (request, response):
        schema["validVersions"] = "0-9"
        schema["fields"].append({"name": "Extra", "type": "int64", "versions": "9"})
    mine, registry = loaded(tmp_path / "my", request, response)
    talk = Conversation().request(mine.ListTransactionsRequest(extra=7), version=9, correlation_id=1)
    talk.response(mine.ListTransactionsResponse(extra=8, error_code=3), version=9, correlation_id=1)
    (row,) = rows_of(talk, registry)
    assert (row.api, row.version, row.errors) == ("ListTransactions", 9, {"UNKNOWN_TOPIC_OR_PARTITION": 1})
    assert isinstance(row.request, dict)
    assert row.request["extra"] == "7" or row.request["extra"] == 7


def test_a_message_without_kafkas_fields_is_shown_and_not_interpreted(tmp_path: Path) -> None:
    """The acks, producer ids, topics and partitions of Produce are not there."""
    bare = {"fields": [{"name": "TopicData", "type": "int32", "versions": "0+"}], "flexibleVersions": "9+"}
    request, response = shipped("ProduceRequest") | bare, shipped("ProduceResponse") | bare
    ids = shipped("MetadataResponse") | {"fields": [{"name": "Topics", "type": "string", "versions": "0+"}]}
    start = shipped("InitProducerIdResponse") | {"fields": []}
    mine, registry = loaded(tmp_path / "my", request, response, ids, start)
    talk = Conversation().request(mine.ProduceRequest(topic_data=5), version=3, correlation_id=1)
    talk.response(mine.ProduceResponse(topic_data=6), version=3, correlation_id=1)
    talk.request(REGISTRY.rpc(3, "request")(), version=1, correlation_id=2)  # type: ignore[misc]
    talk.response(mine.MetadataResponse(topics="no list"), version=1, correlation_id=2)
    talk.request(REGISTRY.rpc(22, "request")(transactional_id="t"), version=1, correlation_id=3)  # type: ignore[misc]
    talk.response(mine.InitProducerIdResponse(), version=1, correlation_id=3)
    rows = rows_of(talk, registry)
    assert [(row.api, row.problem, row.response) for row in rows] == [
        ("Produce", None, {"topicData": 6}),
        ("Metadata", None, {"topics": "no list"}),
        ("InitProducerId", None, {}),
    ]
    cut = [packet[:-1] for packet in talk.packets]
    assert [row.problem is None for row in rows_of(cut, registry)][:1] == [False]
    found = list(matched(talk, registry, keep=True))
    assert [len(each.resource_spans[0]["scopeSpans"][0]["spans"]) for each in export(found, version="0")] == [3]
    assert [step.api for step in capture.steps(found, "t")] == ["InitProducerId"]
    overlaps = ProducerOverlaps()
    assert [overlaps.add(each) for each in matched(talk, registry, keep_requests=APIS)] == [None] * 3
    wanted = ExchangeSelection(topics=("t",))
    assert list(matched(talk, registry, selection=wanted)) == []


@pytest.mark.parametrize("name", ["SaslAuthenticateRequest", "MyRequest"])
def test_hides_texts_of_a_message_that_replaces_one_with_secrets(tmp_path: Path, name: str) -> None:
    schema = shipped("SaslAuthenticateRequest") | {"name": name}
    renamed = schema | {"fields": [schema["fields"][0] | {"name": "Password"}]}
    for number, each in enumerate((schema, renamed)):
        mine, registry = loaded(tmp_path / f"{number}", each)
        talk = Conversation().request(
            mine[name](**{("auth_bytes", "password")[number]: b"hush"}), version=0, correlation_id=1
        )
        (row,) = rows_of(talk, registry)
        assert row.request == {("authBytes", "password")[number]: "[redacted]"}
        (row,) = rows_of(talk, registry, show_secrets=True)
        decoded = {"authBytesDecoded": {"name": "text", "version": None, "data": "hush"}}
        assert row.request == ({"authBytes": "aHVzaA=="} | decoded, {"password": "aHVzaA=="})[number]
        plain = Conversation().request(SaslAuthenticateRequest(auth_bytes=b"hush"), version=0, correlation_id=1)
        assert [row.request for row in rows_of(plain, REGISTRY)] == [{"authBytes": "[redacted]"}]


def test_a_registry_without_kafkas_messages_reads_its_own(tmp_path: Path) -> None:
    mine, _ = loaded(tmp_path / "my", PING, PONG)
    talk = pings(mine, Conversation(), 1)
    other = ask(Conversation((CLIENT[0], 40001)), 1)
    assert brief(rows_of([*talk.packets, *other.packets], mine.registry)) == [("Ping", 0, True, None)]
