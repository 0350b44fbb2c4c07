"""The comparisons themselves: each kind of difference is found, so that "no difference" means something."""

from __future__ import annotations

import copy
import struct
from typing import Any

import pytest

from kafkawire.messages import DescribeProducersResponse, FetchResponse, TransactionLogValue
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.wire.values import TaggedField
from tools.conformance.comparing import difference, java_text, lossless

pytestmark = pytest.mark.slow

OURS = DescribeProducersResponse(
    throttle_time_ms=1,
    topics=(
        TopicResponse(
            name="t",
            partitions=(
                PartitionResponse(
                    partition_index=3,
                    error_message=None,
                    active_producers=(ProducerState(producer_id=7, unknown_tagged_fields=(TaggedField(9, b"\1"),)),),
                ),
            ),
        ),
    ),
)
THEIRS: dict[str, Any] = {
    "throttleTimeMs": 1,
    "topics": [
        {
            "name": "t",
            "partitions": [
                {
                    "partitionIndex": 3,
                    "errorCode": 0,
                    "errorMessage": None,
                    "activeProducers": [
                        {
                            "producerId": 7,
                            "producerEpoch": 0,
                            "lastSequence": -1,
                            "lastTimestamp": -1,
                            "coordinatorEpoch": 0,
                            "currentTxnStartOffset": -1,
                            "_unknownTaggedFields": [[9, "01"]],
                        }
                    ],
                }
            ],
        }
    ],
}


def test_equal_values_have_no_difference() -> None:
    assert difference(OURS, THEIRS, 0) is None


PARTITION = ("topics", 0, "partitions", 0)
PRODUCER = (*PARTITION, "activeProducers", 0)


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        (("throttleTimeMs",), 2, "throttleTimeMs: ours 1, Java's 2"),
        (("throttleTimeMs",), True, "throttleTimeMs: ours 1, Java's True"),
        (("topics", 0, "name"), "u", "topics[0].name: ours 't', Java's 'u'"),
        ((*PARTITION, "errorMessage"), "", "topics[0].partitions[0].errorMessage: ours None, Java's ''"),
        ((*PARTITION, "activeProducers"), [], "topics[0].partitions[0].activeProducers: ours has 1 items, Java's 0"),
        ((*PRODUCER, "producerId"), 8, "topics[0].partitions[0].activeProducers[0].producerId: ours 7, Java's 8"),
        ((*PRODUCER, "newField"), 8, "newField: Java has this field, we have not"),
        ((*PRODUCER, "_unknownTaggedFields"), [], "_unknownTaggedFields: ours"),
        ((*PRODUCER, "_unknownTaggedFields"), [[9, "02"]], "_unknownTaggedFields: ours"),
        ((*PRODUCER, "_unknownTaggedFields"), [[8, "01"]], "_unknownTaggedFields: ours"),
    ],
)
def test_every_difference_is_found(place: tuple[Any, ...], value: Any, found: str) -> None:
    theirs = copy.deepcopy(THEIRS)
    holder: Any = theirs
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    described = difference(OURS, theirs, 0)
    assert described is not None
    assert found in described


def test_a_field_that_java_lacks_is_found() -> None:
    theirs = copy.deepcopy(THEIRS)
    del theirs["topics"][0]["name"]
    assert difference(OURS, theirs, 0) == "topics[0].Name: we have this field, Java has not"


def test_an_older_release_holds_as_unknown_what_we_know() -> None:
    ours = TransactionLogValue(producer_id=5, previous_producer_id=4)
    theirs = {
        "producerId": 5,
        "producerEpoch": 0,
        "transactionTimeoutMs": 0,
        "transactionStatus": 0,
        "transactionPartitions": [],
        "transactionLastUpdateTimestampMs": 0,
        "transactionStartTimestampMs": 0,
        "_unknownTaggedFields": [[0, "0000000000000004"]],
    }
    assert difference(ours, theirs, 1, older=True) is None
    assert difference(ours, theirs, 1) is not None
    assert difference(TransactionLogValue(producer_id=5), theirs, 1, older=True) is not None


def test_an_older_release_has_older_names() -> None:
    old = {"throttleTimeMs": 0, "topics": []}
    assert difference(FetchResponse(), old, 1, older=True) is None
    assert difference(FetchResponse(), old, 1) == "topics: Java has this field, we have not"


@pytest.mark.parametrize(
    ("raw", "java"),
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0a", "\ufffda"),
        (b"\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd"),
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"\xe4\xb8", "\ufffd"),
        (b"a\xffb", "a\ufffdb"),
        ("é😀".encode(), "é😀"),
    ],
)
def test_text_as_java_reads_it(raw: bytes, java: str) -> None:
    assert java_text(raw.decode("utf-8", "surrogateescape")) == java


def test_floats_are_compared_by_their_bits() -> None:
    nan = struct.unpack(">d", bytes.fromhex("fff80000deadbeef"))[0]
    assert lossless(nan) == "fff80000deadbeef"
    assert lossless(-0.0) != lossless(0.0)
