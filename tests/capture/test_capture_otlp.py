"""Spans of exchanges, checked with OTLP's published messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

import kafkawire
from kafkawire import capture, records
from kafkawire.capture import CapturedExchange
from kafkawire.capture.otlp import TraceExport, export
from kafkawire.capture.reader import read_with
from kafkawire.capture.tracker import SpansOfExchanges
from kafkawire.messages import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.wire.message import Message
from tests.capture.test_capture_native_tracker import CLIENTS
from tests.capture.wiretap import Conversation, ask, ethernet, pcap

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
ORDERS = UUID(int=7)


def exports(talk: Conversation | Path, **options: Any) -> list[TraceExport]:
    file = talk if isinstance(talk, Path) else BytesIO(pcap(map(ethernet, talk.packets)))
    return list(export(capture.read(file, keep=True).matched(), version="1", **options))


def spans(found: list[TraceExport]) -> Iterator[dict[str, Any]]:
    for message in msgspec.json.decode(msgspec.json.encode(found)):
        for resource in message["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                yield from scope["spans"]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def parsed(found: list[TraceExport]) -> list[Any]:
    """The messages as OTLP's own classes, ids included: OTLP writes them in hexadecimal, protobuf reads base64."""
    pytest.importorskip("opentelemetry.proto")
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    out = []
    for message in found:
        line = msgspec.json.decode(msgspec.json.encode(message))
        for span in spans([message]):
            assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        for scope in line["resourceSpans"][0]["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId"):
                    span[name] = b64encode(bytes.fromhex(span[name])).decode()
        out.append(json_format.ParseDict(line, ExportTraceServiceRequest(), ignore_unknown_fields=False))
    return out


def produce(topic_id: UUID) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records.build([records.Record(b"k", b"v")]))
    return ProduceRequest(acks=1, topic_data=(TopicProduceData(topic_id=topic_id, partition_data=(partition,)),))


@pytest.mark.slow
def test_every_line_is_a_message_of_otlp_and_has_a_span_for_each_exchange() -> None:
    found = exports(PCAP)
    rows = list(capture.read(PCAP))
    messages = parsed(found)
    listed = [span for message in messages for span in message.resource_spans[0].scope_spans[0].spans]
    assert len(listed) == len(rows)
    assert {span.kind for span in listed} == {3}
    for span, row in zip(listed, rows, strict=True):
        assert span.start_time_unix_nano == row.time_ns
        assert span.end_time_unix_nano == (row.response_time_ns or row.time_ns)
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
    assert len({span.trace_id for span in listed}) == len({span.span_id for span in listed}) == len(rows)


@pytest.mark.slow
def test_two_runs_and_two_names_of_a_file_give_the_same_ids(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(PCAP.read_bytes())
    first, second = ([(s["traceId"], s["spanId"]) for s in spans(exports(path))] for path in (PCAP, copy))
    assert first == second
    assert exports(PCAP) == exports(PCAP)


def test_topic_id_is_resolved_by_metadata_and_shown_without_it() -> None:
    talk = Conversation()
    talk.request(produce(ORDERS), version=13, correlation_id=1)
    talk.response(ProduceResponse(), version=13, correlation_id=1)
    topic = MetadataResponseTopic(name="orders", topic_id=ORDERS)
    talk.request(MetadataRequest(), version=12, correlation_id=2)
    talk.response(MetadataResponse(topics=(topic,)), version=12, correlation_id=2)
    talk.request(produce(ORDERS), version=13, correlation_id=3)
    refused = PartitionProduceResponse(index=3, error_code=6)
    response = ProduceResponse(responses=(TopicProduceResponse(topic_id=ORDERS, partition_responses=(refused,)),))
    talk.response(response, version=13, correlation_id=3)
    unknown, _, known = spans(exports(talk))
    assert (unknown["name"], known["name"]) == ("Produce", "Produce orders")
    assert attributes(unknown)["kafkawire.topic.id"] == "AAAAAAAAAAAAAAAAAAAABw"
    assert "messaging.destination.name" not in attributes(unknown)
    assert "status" not in unknown
    assert known["status"] == {"code": 2, "message": "NOT_LEADER_OR_FOLLOWER (1)"}
    found = attributes(known)
    assert found == {
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "messaging.operation.type": "send",
        "messaging.client.id": "tests",
        "server.address": "10.0.0.2",
        "server.port": "9092",
        "client.address": "10.0.0.1",
        "client.port": "40000",
        "error.type": "NOT_LEADER_OR_FOLLOWER",
        "kafkawire.api.key": "0",
        "kafkawire.api.version": "13",
        "kafkawire.correlation_id": "3",
        "kafkawire.request.bytes": found["kafkawire.request.bytes"],
        "kafkawire.response.bytes": found["kafkawire.response.bytes"],
        "kafkawire.connection": "1",
        "kafkawire.packet": "8",
        "kafkawire.file": "-",
    }


def test_consumer_has_its_group_and_only_what_is_one() -> None:
    talk = Conversation()
    two = tuple(FetchPartition(partition=number) for number in (0, 1))
    talk.request(FetchRequest(topics=(FetchTopic(topic="t", partitions=two),)), version=4, correlation_id=1)
    talk.response(FetchResponse(), version=4, correlation_id=1)
    commit = OffsetCommitRequestTopic(name="t", partitions=(OffsetCommitRequestPartition(partition_index=5),))
    talk.request(OffsetCommitRequest(group_id="g", topics=(commit,)), version=8, correlation_id=2)
    talk.response(OffsetCommitResponse(), version=8, correlation_id=2)
    talk.request(HeartbeatRequest(group_id="g"), version=3, correlation_id=3)
    talk.response(HeartbeatResponse(), version=3, correlation_id=3)
    fetch, settle, beat = map(attributes, spans(exports(talk)))
    assert (fetch["messaging.operation.type"], fetch["messaging.destination.name"]) == ("receive", "t")
    assert "messaging.destination.partition.id" not in fetch
    assert settle["messaging.operation.type"] == "settle"
    assert settle["messaging.destination.partition.id"] == "5"
    assert settle["messaging.consumer.group.name"] == beat["messaging.consumer.group.name"] == "g"
    assert "messaging.operation.type" not in beat


@pytest.mark.parametrize("text", ['"}]},\n{"', "\x1b[2J", "\0", "\u202e\u2028\x85", "a" * 30_000, "ü😀"])
def test_hostile_text_stays_a_value(text: str) -> None:
    talk = ask(Conversation(mss=65_000), 1)
    talk.request(HeartbeatRequest(group_id=text), version=3, correlation_id=2, client_id=text)
    talk.response(HeartbeatResponse(), version=3, correlation_id=2)
    found = exports(talk)
    (message,) = parsed(found)
    (resource,) = message.resource_spans
    _, second = resource.scope_spans[0].spans
    values = {each.key: each.value.string_value for each in second.attributes}
    assert values["messaging.consumer.group.name"] == values["messaging.client.id"] == text


@pytest.mark.slow
def test_messages_are_bounded_in_spans_and_in_bytes() -> None:
    many = Conversation()
    for number in range(1100):
        many.request(HeartbeatRequest(group_id="g"), version=3, correlation_id=number)
        many.response(HeartbeatResponse(), version=3, correlation_id=number)
    assert [len(list(spans([message]))) for message in exports(many)] == [500, 500, 100]
    large = Conversation(mss=65_000)
    for number in range(100):
        large.request(HeartbeatRequest(group_id="g" * 30_000), version=3, correlation_id=number)
        large.response(HeartbeatResponse(), version=3, correlation_id=number)
    found = exports(large)
    assert len(list(spans(found))) == 100
    assert max(len(msgspec.json.encode(message)) for message in found) < 2 << 20
    assert [len(list(spans([message]))) for message in exports(ask(ask(Conversation(), 1), 2), live=True)] == [1, 1]


def test_equal_requests_in_one_packet_have_ids_of_their_own() -> None:
    from kafkawire.frames import encode_request

    frame = encode_request(ProduceRequest(acks=0), version=9, correlation_id=1, client_id="c")
    ids = [span["spanId"] for span in spans(exports(Conversation().send(0, frame * 3)))]
    assert len(ids) == len(set(ids)) == 3


def test_bytes_of_no_exchange_have_no_span() -> None:
    talk = Conversation()
    ask(talk, 1)
    talk.next[0] += 1000  # lost
    ask(talk, 2)
    rows = list(capture.read(BytesIO(pcap(map(ethernet, talk.packets)))))
    problems = [row for row in rows if row.request_bytes is None and row.response_bytes is None]
    assert problems
    assert len(list(spans(exports(talk)))) == len(rows) - len(problems)


# The native engine ---------------------------------------------------------------------------------------------------


SELECTIONS = {
    "all": capture.ExchangeSelection(),
    "topic": capture.ExchangeSelection(topics=("orders",)),
    "client": capture.ExchangeSelection(client_ids=("c",)),
    "errors": capture.ExchangeSelection(errors=True),
}


def alike(data: bytes, selection: capture.ExchangeSelection) -> tuple[int, int]:
    """Asserts that the engine's spans are Python's. Gives how many it wrote, and how many were left to Python."""
    expected = capture.read(BytesIO(data), keep=True, selection=selection)
    reading = read_with(BytesIO(data), spans=True, selection=selection)
    found = list(reading.found())
    assert msgspec.json.encode([*export(found, version="1")]) == msgspec.json.encode(
        [*export(expected.matched(), version="1")]
    )
    assert reading.summary == expected.summary
    return (
        sum(each.count for each in found if isinstance(each, SpansOfExchanges)),
        sum(isinstance(each, CapturedExchange) for each in found),
    )


@pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")
@pytest.mark.parametrize("name", SELECTIONS)
def test_the_engine_writes_the_spans_of_python(name: str) -> None:
    written, _ = alike(PCAP.read_bytes(), SELECTIONS[name])
    alike(pcap(CLIENTS), SELECTIONS[name])
    if name == "all":
        assert written > 100


@pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")
@pytest.mark.parametrize("text", ["orders", "it's", '"', "\\", "\x1b[2J", "\x7f", "ü", ""])
def test_text_of_any_kind_and_names_of_ids_are_those_of_python(text: str) -> None:
    topic = MetadataResponseTopic(name=text, topic_id=ORDERS)
    later = MetadataResponseTopic(name="later", topic_id=ORDERS)
    calls: list[tuple[Message, Message, int]] = [
        (produce(ORDERS), ProduceResponse(), 13),  # before its name is known
        (MetadataRequest(), MetadataResponse(topics=(topic,)), 12),
        (produce(ORDERS), ProduceResponse(), 13),
        (HeartbeatRequest(group_id=text), HeartbeatResponse(error_code=27), 4),
        (MetadataRequest(), MetadataResponse(topics=(later, later)), 12),
        (produce(ORDERS), ProduceResponse(), 13),
    ]
    talk = Conversation()
    for number, (request, response, version) in enumerate(calls):
        talk.request(request, version=version, correlation_id=number)
        talk.response(response, version=version, correlation_id=number)
    talk.request(produce(ORDERS), version=13, correlation_id=99)  # without a response: it has a problem
    written, left = alike(pcap(map(ethernet, talk.packets)), capture.ExchangeSelection())
    assert written
    assert left
