"""Frames that are whole, have bytes left over, are read up to a fault, or to their header: what is read counts in
filters, errors, statistics, spans and the steps of a producer, by both trackers."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kafkawire import capture
from kafkawire.capture import Exchanges, ExchangeSelection, read_packets, steps
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.otlp import export
from kafkawire.capture.statistics import Statistics
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import ProduceResponse
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from tests.capture.wiretap import Conversation, ethernet, pcap, produce

PRODUCED = replace(produce(-1), transactional_id="me")
REFUSED = ProduceResponse(
    responses=(TopicProduceResponse(name="t", partition_responses=(PartitionProduceResponse(index=0, error_code=87),)),)
)
WHOLE, LEFT_OVER, PARTIAL, HEADER = "whole", "left over", "partial", "header"
DEGREES = (WHOLE, LEFT_OVER, PARTIAL, HEADER)


def of_degree(frame: bytes, degree: str) -> bytes:
    """A frame that is read to that degree. The last byte counts the tagged fields of a flexible message."""
    body = {LEFT_OVER: frame[4:] + b"\0", PARTIAL: frame[4:-1]}.get(degree, frame[4:])
    return len(body).to_bytes(4, "big") + body


def talk_of(degree: str) -> bytes:
    """A Produce request of a version, and its response, both read to a degree."""
    request = encode_request(PRODUCED, version=9, correlation_id=1, client_id="tests")
    if degree == HEADER:
        request = request[:6] + (20).to_bytes(2, "big") + request[8:]
    response = encode_response(REFUSED, version=9, correlation_id=1)
    talk = Conversation().send(0, of_degree(request, degree)).send(1, of_degree(response, degree))
    return pcap(map(ethernet, talk.packets))


def native(data: bytes, **criteria: Any) -> Exchanges:
    return capture.read(BytesIO(data), body=True, keep=True, selection=ExchangeSelection(**criteria))


def python(data: bytes, **criteria: Any) -> Exchanges:
    options = ReadOptions(body=True, keep=True)
    return Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", options, ExchangeSelection(**criteria))


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("tracker", [native, python])
def test_every_degree_counts_wherever_messages_do(tracker: Callable[..., Exchanges], degree: str) -> None:
    data = talk_of(degree)
    read = degree != HEADER
    (row,) = tracker(data)
    assert (row.api, row.correlation_id, row.client_id, row.response_bytes is not None) == ("Produce", 1, "tests", True)
    assert (row.problem is None) == (degree in (WHOLE, LEFT_OVER))
    assert (row.note is not None) == (degree == LEFT_OVER)
    assert row.errors == ({"INVALID_RECORD": 1} if read else {})
    shown = msgspec.to_builtins(row)
    assert (shown["request"] is not None, shown["response"] is not None) == (read, read)
    if read:
        assert (shown["request"]["transactionalId"], shown["request"]["topicData"][0]["name"]) == ("me", "t")
    for criteria in ({"topics": ("t",)}, {"transactional_ids": ("me",)}):
        assert len(list(tracker(data, **criteria))) == read
    assert list(tracker(data, topics=("other",))) == []
    assert len(list(tracker(data, errors=True))) == 1
    assert [step.what for step in steps(tracker(data).matched(), "me")] == (["t-0: 1 record"] if read else [])
    statistics = Statistics()
    statistics.add(row)
    (counted,) = statistics.rows()
    assert (counted.count, counted.problems, counted.errors) == (1, int(degree in (PARTIAL, HEADER)), row.errors)
    (line,) = msgspec.json.decode(msgspec.json.encode(list(export(tracker(data).matched(), version="1"))))
    (span,) = line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    named = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
    assert named.get("messaging.destination.name") == ("t" if read else None)
    assert named.get("error.type") == ("INVALID_RECORD" if read else None)
    assert named.get("kafkawire.problem") == row.problem
