"""What a type checker sees of the public surface: `make check` reads this file with mypy --strict, pytest runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type
from uuid import UUID

import pytest

import kafkawire
from kafkawire import ErrorCode, capture, frames, kafka_errors, logdir, records, rows, visit
from kafkawire.messages import (
    CreateTopicsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchRequest,
    ProduceRequest,
    ProduceResponse,
    TransactionLogValue,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.wire.message import Message
from kafkawire.wire.spec import MessageSpec

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_message_keeps_its_class_through_its_codec() -> None:
    data = DescribeProducersResponse(throttle_time_ms=5).encode(version=0)
    assert_type(data, bytes)
    message = DescribeProducersResponse.decode(data, version=0)
    assert_type(message, DescribeProducersResponse)
    assert_type(DescribeProducersResponse.decode_from(data, version=0), tuple[DescribeProducersResponse, int])
    value = TransactionLogValue().encode_prefixed(version=1)
    assert_type(TransactionLogValue.decode_prefixed(value), tuple[TransactionLogValue, int])
    assert_type(DescribeProducersResponse.spec, MessageSpec)
    assert message.throttle_time_ms == 5


def test_fields_have_the_types_that_the_schema_gives_them() -> None:
    message = DescribeProducersResponse(topics=(TopicResponse(partitions=(PartitionResponse(),)),))
    assert_type(message.topics, tuple[TopicResponse, ...])
    partition = message.topics[0].partitions[0]
    assert_type(partition.error_message, str | None)
    assert_type(partition.active_producers, tuple[ProducerState, ...])
    topics = CreateTopicsResponse().topics
    assert_type([topic.topic_id for topic in topics], list[UUID])
    assert partition.error_message is None
    assert topics == ()


def test_request_has_its_response_and_its_structs() -> None:
    assert_type(ProduceRequest.response, type[ProduceResponse])
    assert_type(ProduceRequest.response.decode(ProduceResponse().encode(9), 9), ProduceResponse)
    topic: ProduceRequest.TopicProduceData = ProduceRequest.TopicProduceData(name="orders")
    assert_type(topic.name, str)  # an entity type asks for no conversion
    assert_type(ProduceRequest(topic_data=(topic,)).topic_data, tuple[ProduceRequest.TopicProduceData, ...])


def test_a_narrowed_frame_has_the_type_of_its_body() -> None:
    data = frames.encode_request(ProduceRequest(acks=1), version=9, correlation_id=1)
    found = frames.decode_request(data[4:])
    assert isinstance(found, frames.Request)
    assert_type(found, frames.Request[Message])
    narrowed = found.narrowed(ProduceRequest)
    assert_type(narrowed, frames.Request[ProduceRequest])
    assert_type(narrowed.body.acks, int)
    with pytest.raises(TypeError, match="the frame has a ProduceRequest, not a FetchRequest"):
        found.narrowed(FetchRequest)


def test_replace_takes_the_fields_of_the_class() -> None:
    request = ProduceRequest(acks=1)
    assert_type(request.replace(timeout_ms=5), ProduceRequest)
    assert_type(request.for_version(3), ProduceRequest)
    with pytest.raises(TypeError):
        request.replace(timeout=5)  # pyright: ignore[reportCallIssue]
    request.replace(acks="all")  # pyright: ignore[reportArgumentType]


def test_visit_keeps_the_class_of_a_message() -> None:
    assert_type(visit.rewrite(ProduceRequest(), {visit.TOPIC_NAME: str.upper}), ProduceRequest)
    assert_type([found.path for found in visit.find(ProduceRequest())], list[str])
    assert_type(kafka_errors.error_code(90), ErrorCode | int)


def test_json_takes_a_class_and_gives_its_messages() -> None:
    made: Any = kafkawire.to_json(DescribeProducersResponse(), version=0)
    assert_type(kafkawire.from_json(DescribeProducersResponse, made, version=0), DescribeProducersResponse)
    assert_type(kafkawire.backend, str)


def test_a_type_checker_distinguishes_results_by_class() -> None:
    segment = (EXAMPLES / "kafka-logs/one-node/broker-1/orders-0/00000000000000000000.log").read_bytes()
    for item in records.read(segment):
        assert_type(item, records.Batch | records.Damage)
    frame = frames.encode_request(DescribeProducersRequest(), version=0, correlation_id=1, client_id="c")[4:]
    assert_type(frames.decode_request(frame), frames.Request[Message] | frames.UndecodedRequest)
    for exchange in capture.read(EXAMPLES / "capture/transactions.pcap"):
        assert_type(exchange, rows.Exchange)
    assert_type(logdir.open(EXAMPLES / "kafka-logs/one-node"), logdir.LogDirectory)
