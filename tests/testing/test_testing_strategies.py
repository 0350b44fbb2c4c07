"""The strategies reach the edges that they name, shrink to what is simplest, and give what codecs accept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings

from kafkawire import load_schemas, records
from kafkawire.errors import UnsupportedVersionError
from kafkawire.frames import FrameReader, Request, Response, decode_request, decode_response, request_header_version
from kafkawire.messages import (
    AlterClientQuotasRequest,
    ConsumerGroupMemberMetadataValue,
    DescribeProducersResponse,
    FetchRequest,
    FetchResponse,
    ListTransactionsRequest,
    MetadataRequest,
    TransactionLogValue,
)
from kafkawire.messages.alter_client_quotas_request import EntryData
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.records import Record
from kafkawire.testing.comparison import carried, same
from kafkawire.testing.strategies import Build, Frame, batches, frames, messages
from kafkawire.wire.message import Message
from tests.own_schemas import PING, write

pytestmark = pytest.mark.slow


def at_default(value: Any, *names: str) -> bool:
    return all(getattr(value, name) == getattr(type(value)(), name) for name in names)


def partitions(value: Any) -> list[Any]:
    topics = value.responses if isinstance(value, FetchResponse) else value.topics
    return [partition for topic in topics for partition in topic.partitions]


def producers(value: Any) -> list[Any]:
    return [producer for partition in partitions(value) for producer in partition.active_producers]


def letters(value: Any) -> str:
    return "".join(value.state_filters)


TRANSACTION_TAGS = ("previous_producer_id", "next_producer_id", "client_transaction_version", "next_producer_epoch")
CLASSIC = ConsumerGroupMemberMetadataValue().classic_member_metadata

CASES: list[tuple[str, type[Message], int, Callable[[Any], Any]]] = [
    ("null array", MetadataRequest, 4, lambda m: m.topics is None),
    ("null in a struct", DescribeProducersResponse, 0, lambda m: any(p.error_message is None for p in partitions(m))),
    ("structs three deep", DescribeProducersResponse, 0, producers),
    ("tags three deep", DescribeProducersResponse, 0, lambda m: any(p.unknown_tagged_fields for p in producers(m))),
    ("two unknown tags", DescribeProducersResponse, 0, lambda m: len(m.unknown_tagged_fields) > 1),
    (
        "the highest tag",
        ListTransactionsRequest,
        0,
        lambda m: any(t.tag == 0x7FFFFFFE for t in m.unknown_tagged_fields),
    ),
    (
        "text that was no UTF-8",
        ListTransactionsRequest,
        0,
        lambda m: any("\udc80" <= c <= "\udcff" for c in letters(m)),
    ),
    ("text beyond the BMP", ListTransactionsRequest, 0, lambda m: any(c > "\uffff" for c in letters(m))),
    ("an array above 127", ListTransactionsRequest, 0, lambda m: len(m.state_filters) > 127),
    ("the largest int64", ListTransactionsRequest, 0, lambda m: (1 << 63) - 1 in m.producer_id_filters),
    ("NaN", AlterClientQuotasRequest, 0, lambda m: [o for e in m.entries for o in e.ops if o.value != o.value]),
    ("tagged struct", ConsumerGroupMemberMetadataValue, 0, lambda m: m.classic_member_metadata not in (None, CLASSIC)),
    ("tagged struct null", ConsumerGroupMemberMetadataValue, 0, lambda m: m.classic_member_metadata is None),
    ("known and unknown tags", TransactionLogValue, 1, lambda m: m.next_producer_id != -1 and m.unknown_tagged_fields),
    ("no tags", TransactionLogValue, 1, lambda m: at_default(m, *TRANSACTION_TAGS, "unknown_tagged_fields")),
    ("a field that the version drops", FetchResponse, 0, lambda m: not same(m, carried(m, 0))),
    ("records", FetchResponse, 12, lambda m: any(p.records for p in partitions(m))),
    ("a tagged string", FetchRequest, 12, lambda m: m.cluster_id),
]


@pytest.mark.parametrize(("what", "cls", "version", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_strategies_reach(what: str, cls: type[Message], version: int, wanted: Callable[[Any], Any]) -> None:
    limits = settings(max_examples=3000, derandomize=True, database=None, phases=[Phase.generate])
    assert wanted(find(messages(cls, version), lambda value: bool(wanted(value)), settings=limits))


def simplest(strategy: Any, wanted: Callable[[Any], Any]) -> Any:
    phases = (Phase.generate, Phase.shrink)
    return find(
        strategy,
        lambda value: bool(wanted(value)),
        settings=settings(derandomize=True, database=None, max_examples=300, phases=phases),
    )


def test_examples_shrink_to_defaults() -> None:
    found = simplest(messages(DescribeProducersResponse, 0), producers)
    *others, topic = sorted(found.topics, key=lambda topic: len(topic.partitions))
    (partition,) = topic.partitions
    assert set(others) <= {TopicResponse()}
    assert topic == TopicResponse(partitions=(partition,))
    assert partition == PartitionResponse(active_producers=(ProducerState(0, 0, 0, 0, 0, 0),))
    assert simplest(messages(AlterClientQuotasRequest, 0), lambda m: m.entries).entries == (EntryData(),)
    assert simplest(frames(MetadataRequest), lambda frame: True).body == MetadataRequest()
    assert simplest(batches(), lambda batch: batch.records).records == [Record(offset=0, timestamp=0)]


def test_version_that_a_message_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="TransactionLogValue"):
        messages(TransactionLogValue, 9)
    with pytest.raises(TypeError, match="no message"):
        frames(version=3)


@given(frames())
def test_frames_are_read_back(frame: Frame) -> None:
    (data,) = FrameReader().feed(frame.data)
    if frame.body.spec.kind == "request":
        request = decode_request(data)
        assert isinstance(request, Request), request
        assert (request.correlation_id, request.version) == (frame.correlation_id, frame.version)
        assert request.client_id == frame.client_id or request_header_version(type(frame.body), frame.version) == 0
    else:
        response = decode_response(data, api_key=frame.body.spec.api_key, version=frame.version)
        assert isinstance(response, Response), response
        assert response.header.correlation_id == frame.correlation_id
    assert same((request if frame.body.spec.kind == "request" else response).body, carried(frame.body, frame.version))


def test_frames_of_a_registry_are_its_messages(tmp_path: Path) -> None:
    loaded = load_schemas(write(tmp_path / "mine", PING))
    found = simplest(frames(registry=loaded.registry), lambda frame: frame.version == 1)
    assert found.body == loaded.PingRequest()


@given(batches(0, 1, 2))
def test_batches_are_read_back(batch: Build) -> None:
    read = [record for each in records.read(batch.data) for record in each.records]
    assert [(record.offset, record.key, record.value) for record in read] == [
        (record.offset, record.key, record.value) for record in batch.records
    ]
