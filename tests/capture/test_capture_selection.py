"""Matching of exchanges with a selection."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkawire import capture
from kafkawire.capture import CapturedExchange, ExchangeSelection
from kafkawire.capture.exchange_selection import Selector
from kafkawire.messages import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.fetch_request import FetchTopic
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.rows import Exchange
from tests.capture.wiretap import Conversation, ask, ethernet, pcap, produce, question

EXAMPLES = Path(__file__).parents[2] / "examples"
PCAP = EXAMPLES / "capture" / "transactions.pcap"
EXPECTED = json.loads((EXAMPLES / "expected.json").read_text())["capture"]["transactions.pcap"]


@pytest.fixture(scope="module")
def whole() -> list[Exchange]:
    return list(capture.read(PCAP))


def selected(**criteria: Any) -> list[Exchange]:
    return list(capture.read(PCAP, selection=ExchangeSelection(**criteria)))


@pytest.mark.slow
def test_matches_by_header_fields(whole: list[Exchange]) -> None:
    for criteria, wanted in (
        ({"apis": ("produce", "27")}, lambda e: e.api in ("Produce", "WriteTxnMarkers")),
        ({"client_ids": ("orders-service",)}, lambda e: e.client_id == "orders-service"),
        ({"errors": True}, lambda e: e.errors or e.problem),
        ({"slow_ms": 5.0}, lambda e: e.latency_ms is None or e.latency_ms >= 5),
        ({"connections": (4, 9)}, lambda e: e.connection in (4, 9)),
        ({"ports": (9092,)}, lambda e: True),
        ({"ports": (1,)}, lambda e: False),
    ):
        found = selected(**criteria)
        assert found == [e for e in whole if wanted(e)]
        assert found or criteria == {"ports": (1,)}


def test_times_are_half_open(whole: list[Exchange]) -> None:
    first, last = ((whole[place].time_ns or 0) // 1_000_000 for place in (50, 100))
    found = selected(times=(first, last))
    assert found == [e for e in whole if first <= (e.time_ns or 0) / 1e6 < last]
    assert selected(times=(None, first)) + selected(times=(first, None)) == whole


def test_all_criteria_must_match_and_others_are_counted(whole: list[Exchange]) -> None:
    reading = capture.read(PCAP, selection=ExchangeSelection(apis=("Produce",), client_ids=("orders-service",)))
    found = list(reading)
    assert found == [e for e in whole if (e.api, e.client_id) == ("Produce", "orders-service")]
    assert (reading.summary.exchanges, reading.summary.selected) == (len(whole), len(found))
    assert list(reading.summary.first) == list(reading.summary.problems)
    assert reading.summary.problems.total() == 1


def test_matches_by_entities_in_messages() -> None:
    # Each abort that was made: DescribeProducers, the data, the marker and the question for it name the producer id.
    abort = EXPECTED["aborts"][1]
    apis = Counter(e.api for e in selected(producer_ids=(abort["producer_id"],), topics=(abort["topic"],)))
    assert {"Produce", "WriteTxnMarkers", "DescribeProducers"} <= set(apis)
    assert apis["WriteTxnMarkers"] == 1
    assert {e.api for e in selected(transactional_ids=("payments-archiver",))} >= {"InitProducerId", "EndTxn"}
    assert selected(transactional_ids=("no-such-id",)) == []


def test_matches_a_topic_by_its_id_after_a_response_with_it() -> None:
    topic_id = UUID(int=7)
    talk = Conversation()
    fetch = FetchRequest(topics=(FetchTopic(topic_id=topic_id),))
    topics = (MetadataResponseTopic(name="orders", topic_id=topic_id), MetadataResponseTopic(name="other"))
    for number, (request, version, response) in enumerate(
        (
            (fetch, 13, FetchResponse()),
            (MetadataRequest(), 12, MetadataResponse(topics=topics)),
            (fetch, 13, FetchResponse()),
            (FetchRequest(topics=(FetchTopic(topic_id=UUID(int=8)),)), 13, FetchResponse()),
        )
    ):
        talk.request(request, version=version, correlation_id=number)
        talk.response(response, version=version, correlation_id=number)
    data = BytesIO(pcap(map(ethernet, talk.packets)))
    found = capture.read(data, selection=ExchangeSelection(topics=("orders",)))
    assert [e.correlation_id for e in found] == [1, 2]


def test_unanswered_requests_are_slow_and_rows_without_time_match_no_range() -> None:
    talk = question(ask(Conversation(), 1), 2)
    talk.request(produce(0), version=9, correlation_id=3)
    file = pcap(map(ethernet, talk.packets))
    assert [e.correlation_id for e in capture.read(BytesIO(file), selection=ExchangeSelection(slow_ms=1000))] == [2]
    timeless = CapturedExchange(row=Exchange())
    assert not Selector(ExchangeSelection(times=(None, 10**15))).selects(timeless)
    at_the_epoch = CapturedExchange(row=Exchange(time_ns=0, response_time_ns=5 * 10**9))
    assert Selector(ExchangeSelection(times=(0, 1))).selects(at_the_epoch)
    assert Selector(ExchangeSelection(errors=False)).selects(timeless)
