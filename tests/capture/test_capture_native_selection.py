"""The native engine selects exchanges, before rows are made of them, as `Selector` does."""

from __future__ import annotations

import functools
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

import kafkawire
from kafkawire import capture, records
from kafkawire.capture import CapturedExchange, Exchanges, ExchangeSelection, read_packets
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.exchange_selection import Selector
from kafkawire.capture.named_entities import NamedEntities, name_codes
from kafkawire.capture.producer_overlaps import producer_codes
from kafkawire.capture.reader import read_with
from kafkawire.cli.formatting import json_bytes
from kafkawire.messages import REGISTRY, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse
from kafkawire.messages.fetch_request import FetchTopic
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.rows import Exchange
from tests.capture.test_capture_native_tracker import CLIENTS, lines
from tests.capture.wiretap import Conversation, ask, ethernet, pcap, produce, question

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

IDS = {"orders": UUID(int=7 << 64 | 1), "payments": UUID(int=9 << 64 | 2)}
DATA = pcap(CLIENTS)


def in_python(data: bytes, selection: ExchangeSelection, *, body: bool = False) -> Exchanges:
    options = ReadOptions(body=body, keep=selection.looks_inside)
    return Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", options, selection)


def alike(data: bytes, selection: ExchangeSelection) -> list[Exchange]:
    """Asserts that rows, lines and counts are those of Python; returns the rows."""
    expected = in_python(data, selection)
    rows = list(expected)
    found = capture.read(BytesIO(data), selection=selection)
    assert list(found) == rows
    assert found.summary == expected.summary
    bodies = in_python(data, selection, body=True)
    with_bodies = list(map(json_bytes, bodies))
    written = read_with(BytesIO(data), body=True, text=True, lines=True, selection=selection)
    assert lines(written) == with_bodies
    assert written.summary == bodies.summary
    return rows


@functools.cache
def everything() -> list[CapturedExchange]:
    return list(capture.read(BytesIO(DATA), keep=True).matched())


@functools.cache
def named() -> NamedEntities:
    found = NamedEntities()
    for each in everything():
        for message in (each.request, each.response):
            if message is not None:
                found.add(message, each.version)
    return found


def some(values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.just(()) | st.lists(st.sampled_from(sorted({*values}, key=str)), min_size=1, max_size=2).map(tuple)


@st.composite
def selections(draw: st.DrawFn) -> ExchangeSelection:
    rows = [each.row for each in everything()]
    times = sorted((row.time_ns or row.response_time_ns or 0) // 1_000_000 for row in rows)
    ends = st.none() | st.sampled_from(times)
    return ExchangeSelection(
        apis=draw(some([*filter(None, (row.api for row in rows)), "18", "nothing"])),
        client_ids=draw(some([*filter(None, (row.client_id for row in rows)), "\udcff"])),
        topics=draw(some([each for each in named().topics if isinstance(each, str)] + ["none", "\udcff", ""])),
        transactional_ids=draw(some([*named().transactional_ids, "none"])),
        producer_ids=draw(some([*named().producer_ids, -1, 1 << 70])),
        errors=draw(st.booleans()),
        slow_ms=draw(st.none() | st.sampled_from([row.latency_ms for row in rows if row.latency_ms] + [0.0])),
        connections=draw(some([row.connection for row in rows] + [1 << 70])),
        ports=draw(some([9092, 1, *(int((row.client or ":0").rpartition(":")[2]) for row in rows)])),
        times=draw(st.none() | st.tuples(ends, ends)),
    )


ONE_BY_ONE = [
    {"apis": ("Produce", "22")},
    {"errors": True},
    {"slow_ms": 3.0},
    {"topics": ("payments",)},
    {"transactional_ids": ("orders-service",)},
    {"producer_ids": (0, 1, 2, 3, 1000)},
    {"topics": ("orders",), "errors": True},
    {"ports": (9092,)},
    {"times": (None, 1_795_000_000_000)},
]


@pytest.mark.parametrize("criteria", ONE_BY_ONE, ids=lambda criteria: "-".join(criteria))
def test_each_criterion(criteria: dict[str, Any]) -> None:
    alike(DATA, ExchangeSelection(**criteria))


@pytest.mark.slow
@given(selections())
def test_any_criteria(selection: ExchangeSelection) -> None:
    """Python, which takes most of the time, reads once: its rows without bodies are those of `test_each_criterion`."""
    expected = in_python(DATA, selection, body=True)
    rows = list(expected)
    found = capture.read(BytesIO(DATA), selection=selection)
    assert list(found) == [replace(row, request=UNSET, response=UNSET) for row in rows]
    written = read_with(BytesIO(DATA), body=True, text=True, lines=True, selection=selection)
    assert lines(written) == list(map(json_bytes, rows))
    assert found.summary == written.summary == expected.summary


def test_ids_of_topics_are_learned_from_responses_in_their_order() -> None:
    talk = Conversation()
    told = [MetadataResponseTopic(name=name, topic_id=topic_id) for name, topic_id in IDS.items()]

    def fetched(number: int) -> None:
        for place, topic_id in enumerate(IDS.values()):
            talk.request(
                FetchRequest(topics=(FetchTopic(topic_id=topic_id),)), version=13, correlation_id=number + place
            )
            parts = (FetchableTopicResponse(topic_id=topic_id, partitions=(PartitionData(partition_index=1),)),)
            talk.response(FetchResponse(responses=parts), version=13, correlation_id=number + place)

    question(talk, 1)
    fetched(10)
    talk.request(MetadataRequest(topics=None), version=12, correlation_id=2)
    talk.response(MetadataResponse(topics=tuple(told)), version=12, correlation_id=2)
    fetched(20)
    ask(talk, 30)
    data = pcap(map(ethernet, talk.packets))
    rows = alike(data, ExchangeSelection(topics=("orders",)))
    assert [row.correlation_id for row in rows] == [2, 20]
    assert [row.correlation_id for row in alike(data, ExchangeSelection(topics=("nothing",)))] == []


def test_a_response_that_python_reads_tells_ids_too() -> None:
    """The name of one topic is not UTF-8, which no text of a body can be."""
    talk = Conversation()
    question(talk, 1)
    topics = [
        MetadataResponseTopic(name=name, topic_id=topic_id)
        for name, topic_id in (*IDS.items(), ("\udcff", UUID(int=5)))
    ]
    talk.request(MetadataRequest(topics=None), version=12, correlation_id=2)
    talk.response(MetadataResponse(topics=tuple(topics)), version=12, correlation_id=2)
    for number, topic_id in enumerate((*IDS.values(), UUID(int=5)), 3):
        talk.request(FetchRequest(topics=(FetchTopic(topic_id=topic_id),)), version=13, correlation_id=number)
        talk.response(FetchResponse(), version=13, correlation_id=number)
    data = pcap(map(ethernet, talk.packets))
    assert [row.correlation_id for row in alike(data, ExchangeSelection(topics=("payments",)))] == [2, 4]
    assert [row.correlation_id for row in alike(data, ExchangeSelection(topics=("\udcff",)))] == [2, 5]


@pytest.mark.parametrize("cut", [0, 7], ids=["whole", "cut"])
def test_producers_of_batches(cut: int) -> None:
    """Batches that are cut are looked through in Python."""
    talk = Conversation()
    for number, producer_id in enumerate((5, 6, -1), 1):
        batch = records.build([records.Record(b"k", b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        two = batch + records.build([records.Record(b"k", b"v")], producer_id=50, producer_epoch=0, base_sequence=0)
        talk.request(produce(-1, two[: len(two) - cut]), version=9, correlation_id=number)
    data = pcap(map(ethernet, talk.packets))
    assert [row.correlation_id for row in alike(data, ExchangeSelection(producer_ids=(5,)))] == [1]
    assert len(alike(data, ExchangeSelection(producer_ids=(50,)))) == (0 if cut else 3)
    assert alike(data, ExchangeSelection(producer_ids=(-1,))) == []


def test_no_tagged_field_of_kafka_names_anything() -> None:
    """Where one is absent its default would count: the native engine would leave these messages to Python."""
    wanted = Selector(ExchangeSelection(topics=("a",), transactional_ids=("a",), producer_ids=(1,))).names
    keys = REGISTRY.requests()
    for cls in filter(None, (REGISTRY.rpc(key, kind) for key in keys for kind in ("request", "response"))):
        codes = name_codes(cls, wanted, producer_codes(cls))
        for layout in cls.codec.table.layouts if codes else ():
            assert not any(codes[layout.struct][tag.slot] for tag in layout.tags), cls
