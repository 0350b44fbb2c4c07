"""`DecodeError.partial`: the message as far as it was read."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import DecodeError
from kafkawire.messages import ApiVersionsRequest, MetadataResponse, ProduceRequest, SaslAuthenticateResponse
from kafkawire.messages.metadata_response import MetadataResponseBroker, MetadataResponseTopic
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.wire.message import Message

BROKERS = tuple(MetadataResponseBroker(node_id=n, host=f"host-{n}", port=9092) for n in range(5))
METADATA = MetadataResponse(
    throttle_time_ms=7,
    brokers=BROKERS,
    cluster_id="cluster",
    controller_id=3,
    topics=tuple(MetadataResponseTopic(name=name) for name in ("orders", "payments")),
)
PRODUCE = ProduceRequest(
    transactional_id="id",
    acks=-1,
    topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(index=1, records=b"records"),)),),
)


def partial(cls: type[Message], data: bytes | memoryview, version: int, *, copy: bool = True) -> Message:
    with pytest.raises(DecodeError) as caught:
        cls.decode(data, version, copy=copy)
    found = caught.value.partial
    assert type(found) is cls
    assert isinstance(found, Message)
    return found


@given(st.data(), st.sampled_from([1, 5, 9, 12]))
def test_fields_before_the_fault_are_those_that_were_written(data: st.DataObject, version: int) -> None:
    whole = METADATA.for_version(version)
    encoded = whole.encode(version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    found = partial(MetadataResponse, encoded[:cut], version)
    assert isinstance(found, MetadataResponse)
    assert (
        found.brokers == whole.brokers[: len(found.brokers)]
        or found.brokers[:-1] == whole.brokers[: len(found.brokers) - 1]
    )
    # What is behind the fault has its defaults.
    if not found.topics:
        assert found.controller_id in (whole.controller_id, MetadataResponse().controller_id)
    else:
        assert (found.brokers, found.cluster_id) == (whole.brokers, whole.cluster_id)


def test_an_array_ends_with_the_element_that_holds_the_fault() -> None:
    encoded = METADATA.encode(9)
    at = encoded.index(b"host-3")
    broken = encoded[: at - 1] + b"\x00" + encoded[at:]  # a host of null
    found = partial(MetadataResponse, broken, 9)
    assert found == MetadataResponse(
        throttle_time_ms=7, brokers=(*BROKERS[:3], MetadataResponseBroker(node_id=3)), controller_id=-1
    )


def test_bytes_left_over_leave_the_whole_message() -> None:
    assert partial(MetadataResponse, METADATA.encode(9) + b"\0", 9) == METADATA
    assert partial(ApiVersionsRequest, b"\0\0\0\0", 0) == ApiVersionsRequest()


def test_an_error_that_is_read_before_the_fault_is_there() -> None:
    data = b"\x00\x3a\x00\x03bad\xff\xff\xff\xff" + bytes(8)  # 58, "bad", and bytes of null
    found = partial(SaslAuthenticateResponse, data, 1)
    assert found == SaslAuthenticateResponse(error_code=58, error_message="bad")


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_bytes_are_copied_as_those_of_a_whole_message(copy: bool, make: type[memoryview]) -> None:
    found = partial(ProduceRequest, make(PRODUCE.encode(3) + b"\0"), 3, copy=copy)
    assert found == PRODUCE
    assert isinstance(found, ProduceRequest)
    records = found.topic_data[0].partition_data[0].records
    assert isinstance(records, bytes if copy else memoryview)


def test_an_error_with_a_partial_message_can_be_pickled() -> None:
    with pytest.raises(DecodeError) as caught:
        MetadataResponse.decode(METADATA.encode(9)[:-3], 9)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.partial == caught.value.partial
    assert str(again) == str(caught.value)
