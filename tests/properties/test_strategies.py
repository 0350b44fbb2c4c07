"""The strategies reach what they claim, so that the properties have something to fail on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from strategies import carried, messages, same

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
from kafkawire.wire.message import Message

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
