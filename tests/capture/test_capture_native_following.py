"""The native engine gives the exchanges that the timeline of a producer needs, and no others."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import kafkawire
from kafkawire.capture import Exchanges, ExchangeSelection, read_packets, steps
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.reader import read_with
from kafkawire.capture.timeline import APIS
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import (
    REGISTRY,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.messages.produce_request import TopicProduceData
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from kafkawire.rows import TimelineStep
from kafkawire.wire.registry import Registry
from tests.capture.test_capture_native_selection import named, selections
from tests.capture.test_capture_native_tracker import CLIENTS
from tests.capture.wiretap import Conversation, ethernet, pcap, produce
from tests.own_schemas import shipped, write

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

PCAP = (Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap").read_bytes()
#: Ethernet, IP and TCP headers.
_HEADERS = 54
ALL = ExchangeSelection()


def alike(
    data: bytes, who: str, selection: ExchangeSelection = ALL, registry: Registry = REGISTRY
) -> list[TimelineStep]:
    """Asserts that steps and counts are those of Python, which gets all exchanges; returns the steps."""
    options = ReadOptions(keep_messages=APIS, keep=selection.looks_inside, registry=registry)
    expected = Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", options, selection)
    rows = list(steps(expected.matched(), who))
    found = read_with(BytesIO(data), keep_messages=APIS, follows=who, selection=selection, registry=registry)
    assert list(steps(found.matched(), who)) == rows
    assert found.summary == expected.summary
    return rows


@pytest.mark.parametrize(
    "who", ["orders-service", "payments-archiver", "shipments-service", "0", "1", "nobody", "\udcff"]
)
def test_steps_are_those_of_all_exchanges(who: str) -> None:
    assert bool(alike(PCAP, who)) == (who not in ("nobody", "\udcff"))
    alike(pcap(CLIENTS), who)


def test_only_what_is_needed_is_given() -> None:
    found = list(read_with(BytesIO(PCAP), keep_messages=APIS, follows="nobody").matched())
    whole = read_with(BytesIO(PCAP), keep_messages=APIS)
    count = len(list(whole.matched()))
    assert count > 300
    assert len(found) < 30
    # What Python has read, and names of topics that are new.
    assert all(each.row.problem is not None or each.row.api in ("Metadata", "CreateTopics", "DescribeTopicPartitions")
               for each in found)  # fmt: skip
    frames = list(read_with(BytesIO(PCAP), keep=True, keep_messages=APIS, follows="nobody").matched())
    assert len(frames) == count


@pytest.mark.slow
@given(st.sampled_from([*sorted(named().transactional_ids), "0", "1000", "nobody"]), selections())
def test_any_criteria(who: str, selection: ExchangeSelection) -> None:
    alike(pcap(CLIENTS), who, selection)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_frames(seed: int) -> None:
    """Python reads what the engine refuses, and tells it the ids."""
    generator = random.Random(seed)
    packets = [bytearray(packet) for packet in CLIENTS]
    full = [packet for packet in packets if len(packet) > _HEADERS + 20]
    for _ in range(30):
        packet = generator.choice(full)
        packet[generator.randrange(_HEADERS + 12, len(packet))] ^= 1 << generator.randrange(8)
    for lost in sorted(generator.sample(range(len(packets)), 3), reverse=True):
        del packets[lost]
    data = pcap(map(bytes, packets))
    for who in ("orders-service", "0"):
        alike(data, who)


def test_ids_are_learned_from_requests_that_python_reads() -> None:
    """Bytes behind a message, which the engine refuses."""
    talk = Conversation()
    request = InitProducerIdRequest(transactional_id="me")
    talk.send(0, longer(encode_request(request, version=4, correlation_id=1, client_id="tests")))
    talk.response(InitProducerIdResponse(producer_id=7), version=4, correlation_id=1)
    talk.request(InitProducerIdRequest(transactional_id="me"), version=4, correlation_id=2)
    talk.send(1, longer(encode_response(InitProducerIdResponse(producer_id=8), version=4, correlation_id=2)))
    for number, producer_id in enumerate((7, 8, 9)):
        talk.request(ended(producer_id), version=1, correlation_id=3 + number)
    found = alike(pcap(map(ethernet, talk.packets)), "me")
    assert [step.producer_id for step in found] == [7, 8, 7, 8]


def ended(producer_id: int) -> WriteTxnMarkersRequest:
    """A request that names a producer id alone."""
    return WriteTxnMarkersRequest(markers=(WritableTxnMarker(producer_id=producer_id),))


def longer(frame: bytes) -> bytes:
    """A frame with two bytes behind its message."""
    return (len(frame) - 2).to_bytes(4) + frame[4:] + b"\0\0"


def test_names_of_topics_may_change() -> None:
    topic_id = UUID(int=7)
    talk = Conversation()
    for number, name in enumerate(["orders", "orders", "payments", "orders"]):
        response = MetadataResponse(topics=(MetadataResponseTopic(name=name, topic_id=topic_id),))
        talk.request(MetadataRequest(topics=None), version=13, correlation_id=2 * number)
        talk.response(response, version=13, correlation_id=2 * number)
        data = TopicProduceData(topic_id=topic_id, partition_data=produce(-1).topic_data[0].partition_data)
        asked = replace(produce(-1), transactional_id="me", topic_data=(data,))
        talk.request(asked, version=13, correlation_id=2 * number + 1)
    found = alike(pcap(map(ethernet, talk.packets)), "me")
    assert [step.what.partition("-")[0] for step in found] == ["orders", "orders", "payments", "orders"]


def test_edited_messages_are_read_by_python(tmp_path: Path) -> None:
    """An id in a field that Kafka's message does not have, and one that is no id any more."""
    schemas = {name: shipped(name) for name in ("EndTxnRequest", "EndTxnResponse")}
    for schema in schemas.values():
        schema["validVersions"] = "0-9"
    end = schemas["EndTxnRequest"]
    end["fields"].append({"name": "Other", "type": "string", "versions": "9", "entityType": "transactionalId"})
    mine = kafkawire.load_schemas(write(tmp_path / "my", *schemas.values()))
    registry = mine.registry.over(REGISTRY)
    talk = Conversation()
    request = mine.EndTxnRequest(transactional_id="you", producer_id=7, other="me")
    talk.request(request, version=9, correlation_id=1)
    talk.response(mine.EndTxnResponse(), version=9, correlation_id=1)
    talk.request(ended(7), version=1, correlation_id=2)
    data = pcap(map(ethernet, talk.packets))
    assert [step.api for step in alike(data, "me", registry=registry)] == ["EndTxn"]
    assert [step.api for step in alike(data, "7", registry=registry)] == ["EndTxn", "WriteTxnMarkers"]
