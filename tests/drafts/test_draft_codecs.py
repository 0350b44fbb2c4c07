"""The layouts that KIP texts proposed and Kafka never shipped: all encode and decode, none is met by accident."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import product
from typing import Any

import pytest

import kafkawire
from kafkawire.drafts import kip_360, kip_664_adopted, kip_664_draft
from kafkawire.errors import DecodeError
from kafkawire.messages import TransactionLogValue, WriteTxnMarkersRequest
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.testing.comparison import carried, same
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message
from tests.engines import agree, refused, round_trip
from tests.strategies import for_all

DRAFTS: list[tuple[str, type[Message]]] = [
    (f"{package.__name__.split('.')[-1]}:{name}", getattr(package, name))
    for package in (kip_360, kip_664_draft, kip_664_adopted)
    for name in package.__all__
]
EVERY = pytest.mark.parametrize("cls", [cls for _, cls in DRAFTS], ids=[name for name, _ in DRAFTS])

# Producer 134132, epoch 23, ABORT, foo-0, coordinator epoch -1; the same in a draft with a start offset of 550.
DRAFT_WITH_OFFSET = "020000000000020bf40017000204666f6f0200000000010008000000000000022600ffffffff0000"
DRAFT_WITHOUT = "020000000000020bf40017000204666f6f02000000000000ffffffff0000"
RELEASED = "020000000000020bf40017000204666f6f020000000000ffffffff0000"
#: KIP-360's newer revision with its version before it: producer 134132, epochs 23 and 22, 60 s, Ongoing, foo-0.
STATE = "00010000000000020bf4001700160000ea6001000000010003666f6f000000010000000000000174876e83e800000174876e8000"


def draft_marker(package: Any, offset: int) -> Any:
    module = __import__(f"{package.__name__}.write_txn_markers_request", fromlist=["*"])
    (markers,) = (field.struct for field in package.WriteTxnMarkersRequest.spec.fields)
    topics = next(field.struct for field in markers.spec.fields if field.struct)
    partitions = next(field.struct for field in topics.spec.fields if field.struct)
    assert all(getattr(module, struct.spec.name) is struct for struct in (markers, topics, partitions))
    topic = topics(name="foo", partitions=(partitions(partition_index=0, txn_start_offset=offset),))
    marker = markers(
        producer_id=134132, producer_epoch=23, transaction_result=False, topics=(topic,), coordinator_epoch=-1
    )
    return package.WriteTxnMarkersRequest(markers=(marker,))


def test_all_layouts_of_the_texts_are_there() -> None:
    texts = {name for name, _ in DRAFTS}
    shared = {"DescribeProducersRequest", "DescribeProducersResponse", "DescribeTransactionsRequest"}
    shared |= {"DescribeTransactionsResponse", "ListTransactionsResponse"}
    shared |= {"WriteTxnMarkersRequest", "WriteTxnMarkersResponse"}
    assert texts == {
        *(f"kip_664_draft:{name}" for name in shared | {"ListTransactionsRequest"}),
        # The adopted text has no schema of ListTransactionsRequest.
        *(f"kip_664_adopted:{name}" for name in shared),
        "kip_360:TransactionStateValueLastEpoch",
        "kip_360:TransactionStateValueInstanceEpoch",
        "kip_360:DescribeTransactionStateRequest",
        "kip_360:DescribeTransactionStateResponse",
    }


@pytest.mark.slow
@EVERY
def test_every_version_round_trips(cls: type[Message]) -> None:
    for version in cls.spec.valid_versions:

        def check(value: Any, version: int = version) -> None:
            expected = carried(value, version)
            data = round_trip(value, version, expected)
            assert same(
                kafkawire.from_json(cls, kafkawire.to_json(value, version, unknown_tags=True), version), expected
            )
            for cut in range(0, len(data), 1 + len(data) // 20):
                with pytest.raises(DecodeError):
                    cls.decode(data[:cut], version)

        for_all(messages(cls, version), 0.3, f"{cls.__module__} {version}", check)


@cache
def findable() -> frozenset[type[Message]]:
    """Every message that `lookup` finds by an api key, whatever kind and family are given with it."""
    found = set()
    kinds = ("request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value", None)
    families = ("rpc", "transaction", "group", "share", "kip-664-draft", "kip-664-adopted", "kip-360", None)
    for key, kind, family in product(range(-1, 120), kinds, families):
        with suppress(LookupError):
            found.add(kafkawire.lookup(api_key=key, kind=kind, family=family))
    return frozenset(found)


@EVERY
def test_none_is_found_by_lookup(cls: type[Message]) -> None:
    assert len(findable()) > 180
    assert cls not in findable()
    if cls.spec.name in kafkawire.messages.__all__:
        assert kafkawire.lookup(cls.spec.name) is not cls
    else:
        with pytest.raises(LookupError):
            kafkawire.lookup(cls.spec.name)


@EVERY
def test_a_draft_is_no_released_class(cls: type[Message]) -> None:
    released = getattr(kafkawire.messages, cls.spec.name, None)
    assert cls is not released
    assert cls.__module__.startswith("kafkawire.drafts.")


def test_the_bytes_of_the_proposed_and_of_the_released_markers() -> None:
    topic = WritableTxnMarkerTopic(name="foo", partition_indexes=(0,))
    marker = WritableTxnMarker(producer_id=134132, producer_epoch=23, topics=(topic,), coordinator_epoch=-1)
    assert WriteTxnMarkersRequest(markers=(marker,)).encode(1).hex() == RELEASED
    for package in (kip_664_draft, kip_664_adopted):
        for text, offset in ((DRAFT_WITH_OFFSET, 550), (DRAFT_WITHOUT, 0)):
            value = draft_marker(package, offset)
            assert value.encode(1).hex() == text
            assert package.WriteTxnMarkersRequest.decode(bytes.fromhex(text), 1, strict=True) == value


@pytest.mark.parametrize("text", [DRAFT_WITH_OFFSET, DRAFT_WITHOUT])
def test_the_released_codec_does_not_take_a_draft_for_its_own(text: str) -> None:
    with pytest.raises(DecodeError):
        WriteTxnMarkersRequest.decode(bytes.fromhex(text), 1)
    # All shifts by one byte: the coordinator epoch has a byte of the tags before it.
    (start,) = (i for i in range(len(text) // 2) if bytes.fromhex(text)[i:].startswith(b"\xff\xff\xff\xff"))
    assert bytes.fromhex(text)[start - 1 : start + 3] == b"\0\xff\xff\xff"


def test_the_draft_codec_does_not_take_the_released_bytes_for_its_own() -> None:
    for package in (kip_664_draft, kip_664_adopted):
        with pytest.raises(DecodeError):
            package.WriteTxnMarkersRequest.decode(bytes.fromhex(RELEASED), 1)


def test_version_0_of_the_drafts_is_the_released_one() -> None:
    topic = WritableTxnMarkerTopic(name="foo", partition_indexes=(0, 7))
    marker = WritableTxnMarker(producer_id=1, producer_epoch=2, transaction_result=True, topics=(topic,))
    data = WriteTxnMarkersRequest(markers=(marker,)).encode(0)
    for package in (kip_664_draft, kip_664_adopted):
        value = package.WriteTxnMarkersRequest.decode(data, 0, strict=True)
        assert value.markers[0].topics[0].partition_indexes == (0, 7)
        assert value.encode(0) == data


def test_a_start_offset_of_0_has_the_bytes_of_none() -> None:
    # The texts give the tag no default, so it is 0, and 0 is not written.
    assert draft_marker(kip_664_draft, 0).encode(1).hex() == DRAFT_WITHOUT
    assert draft_marker(kip_664_draft, -1).encode(1).hex() != DRAFT_WITHOUT


def test_the_bytes_of_kip_360s_transaction_state() -> None:
    data = bytes.fromhex(STATE)
    value, version = kip_360.TransactionStateValueLastEpoch.decode_prefixed(data, strict=True)
    assert version == 1
    assert value.encode_prefixed(1) == data
    assert (value.producer_id, value.current_epoch, value.last_epoch) == (134132, 23, 22)
    assert (value.txn_timeout_duration, value.txn_status) == (60_000, 1)
    assert [(part.topic, part.partitions) for part in value.txn_partitions or ()] == [("foo", (0,))]
    assert (value.txn_last_update_time, value.txn_start_time) == (1600000001000, 1600000000000)


def test_the_two_revisions_have_the_same_bytes() -> None:
    other, version = kip_360.TransactionStateValueInstanceEpoch.decode_prefixed(bytes.fromhex(STATE))
    assert version == 1
    assert other.encode_prefixed(1).hex() == STATE
    # The released version 1 begins with the same int16 and is flexible: it reads on until something does not fit.
    with pytest.raises(DecodeError):
        TransactionLogValue.decode_prefixed(bytes.fromhex(STATE))


def test_drafts_are_of_version_0_but_for_the_markers_and_the_state() -> None:
    versions = {name: tuple(cls.spec.valid_versions) for name, cls in DRAFTS}
    for name, span in versions.items():
        wanted = (0, 1) if "WriteTxnMarkers" in name else (1,) if "TransactionStateValue" in name else (0,)
        assert span == wanted, name


# Producer id 1, epoch 2, last sequence 3, last timestamp 4.
PRODUCER = "0000000000000001 00000002 00000003 0000000000000004"
PRODUCERS = f"00000000 02 0274 02 00000001 0000 02 {PRODUCER}"
# No error; "t"; state 1; 60 s; started at 5; producer 1, epoch 23; partition 0 of a topic that is not named.
DESCRIBED = "0000 0274 01 0000ea60 0000000000000005 0000000000000001 00000017 02 02 00000000 00 00"
STATES = "00000001 0000 0000000000000001 0017 0001 4f 00000001 0001 74 00000001 00000000"
LISTED = "00000000 0000 02 0274 0000000000000001 024f 00 00"


@pytest.mark.parametrize(
    ("package", "name", "text"),
    [
        (kip_664_draft, "DescribeProducersResponse", f"{PRODUCERS} 0000000000000007 00 00 00 00"),
        (kip_664_adopted, "DescribeProducersResponse", f"{PRODUCERS} 0000000000000007 00000003 00 00 00 00"),
        (kip_664_draft, "DescribeProducersRequest", "02 0274 03 00000000 00000005 00 00"),
        (kip_664_draft, "ListTransactionsRequest", "02 024f 00"),
        (kip_664_draft, "ListTransactionsResponse", LISTED),
        (kip_664_adopted, "ListTransactionsResponse", LISTED),
        (kip_664_draft, "DescribeTransactionsResponse", f"00000000 02 {DESCRIBED} 00"),
        (kip_664_adopted, "DescribeTransactionsResponse", f"00000000 02 {DESCRIBED} 00"),
        (kip_360, "DescribeTransactionStateRequest", "00000001 0001 74"),
        (kip_360, "DescribeTransactionStateResponse", STATES),
    ],
)
def test_bytes_put_together_from_the_texts(package: Any, name: str, text: str) -> None:
    cls: type[Message] = getattr(package, name)
    data = bytes.fromhex(text)
    assert refused(cls, 0, data, strict=True) is None
    agree(cls, 0, data)


def test_the_fields_in_which_the_texts_differ() -> None:
    def decoded(package: Any, name: str, text: str) -> Any:
        return getattr(package, name).decode(bytes.fromhex(text), 0)

    draft = decoded(kip_664_draft, "DescribeProducersResponse", f"{PRODUCERS} 0000000000000007 00 00 00 00")
    (producer,) = draft.topics[0].partitions[0].active_producers
    assert (producer.producer_epoch, producer.last_timestamp, producer.current_txn_start_timestamp) == (2, 4, 7)
    adopted = decoded(
        kip_664_adopted, "DescribeProducersResponse", f"{PRODUCERS} 0000000000000007 00000003 00 00 00 00"
    )
    (producer,) = adopted.topics[0].partitions[0].active_producers
    assert (producer.last_sequence, producer.txn_start_offset, producer.coordinator_epoch) == (3, 7, 3)
    for package in (kip_664_draft, kip_664_adopted):
        (state,) = decoded(package, "DescribeTransactionsResponse", f"00000000 02 {DESCRIBED} 00").transaction_states
        assert (state.transaction_state, state.producer_epoch) == (1, 23)
        assert [part.partition_indexes for part in state.topic_partitions] == [(0,)]
    (state,) = decoded(kip_360, "DescribeTransactionStateResponse", STATES).states
    assert (state.error, state.producer_id, state.epoch, state.state) == (0, 1, 23, "O")
    assert [(part.topic_name, part.partition_ids) for part in state.partitions] == [("t", (0,))]
