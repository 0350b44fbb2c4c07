"""`unsupported`: what a version does not carry is dropped when it is asked for, and can be listed."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.errors import EncodeError, UnsupportedVersionError
from kafkawire.messages import (
    REGISTRY,
    FetchResponse,
    ListTransactionsRequest,
    MetadataRequest,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.testing.strategies import messages
from kafkawire.wire.unsupported import Unsupported
from kafkawire.wire.values import TaggedField
from tests.strategies import for_all

REQUEST = ProduceRequest(
    transactional_id="t",
    acks=-1,
    topic_data=(ProduceRequest.TopicProduceData(name="orders", unknown_tagged_fields=(TaggedField(9, b"x"),)),),
)


def test_drops_by_choice_and_never_by_default() -> None:
    with pytest.raises(EncodeError, match="transactional_id"):
        REQUEST.encode(2)
    expected = ProduceRequest(acks=-1, topic_data=(ProduceRequest.TopicProduceData(name="orders"),))
    assert ProduceRequest.decode(REQUEST.encode(2, drop_unsupported=True), 2) == expected == REQUEST.for_version(2)


def test_lists_what_is_dropped_with_its_place() -> None:
    assert REQUEST.unsupported(2) == (
        Unsupported("transactional_id", "t", ignorable=False),
        Unsupported("topic_data[0].unknown_tagged_fields", (TaggedField(9, b"x"),), ignorable=False),
    )
    assert REQUEST.unsupported(13) == (Unsupported("topic_data[0].name", "orders", ignorable=True),)
    assert REQUEST.unsupported(9) == ()


def test_what_a_version_carries_stays_the_same_object() -> None:
    assert REQUEST.for_version(9) is REQUEST
    response = FetchResponse(responses=(FetchResponse.FetchableTopicResponse(topic="t"),), session_id=4)
    assert response.for_version(4).responses[0] is response.responses[0]


def test_prefixed_values_drop_too() -> None:
    value = TransactionLogValue(producer_id=3, client_transaction_version=2)
    with pytest.raises(EncodeError):
        value.encode_prefixed(0)
    assert TransactionLogValue.decode_prefixed(value.encode_prefixed(0, drop_unsupported=True)) == (
        TransactionLogValue(producer_id=3),
        0,
    )


def test_null_that_a_version_does_not_allow_is_refused_all_the_same() -> None:
    with pytest.raises(EncodeError, match="topics"):
        MetadataRequest(topics=None).encode(0, drop_unsupported=True)


def test_refuses_versions_that_the_message_does_not_have() -> None:
    for use in (REQUEST.for_version, REQUEST.unsupported, lambda v: REQUEST.encode(v, drop_unsupported=True)):
        with pytest.raises(UnsupportedVersionError):
            use(99)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [FetchResponse, ListTransactionsRequest, MetadataRequest, TransactionLogValue])
def test_a_fitted_message_round_trips_in_each_version(cls: Any) -> None:
    newest = cls.spec.valid_versions[-1]
    for version in cls.spec.valid_versions:

        def check(value: Any, version: int = version) -> None:
            fitted = value.for_version(version)
            assert fitted.unsupported(version) == ()
            assert (fitted is value) == (value.unsupported(version) == ())
            if not refused(fitted, version):  # a null that the version does not allow
                assert cls.decode(value.encode(version, drop_unsupported=True), version) == fitted

        for_all(messages(cls, newest), 0.3, f"{cls.__name__} {version}", check)


def test_encoding_refuses_just_what_is_listed_as_not_ignorable() -> None:
    for entry in REGISTRY:
        cls = REGISTRY.load(entry)
        for field in cls.spec.fields:
            absent = [version for version in cls.spec.valid_versions if version not in field.versions]
            if absent and field.type in ("int32", "int64"):
                value = cls(**{field.attribute: 77})
                assert [one.path for one in value.unsupported(absent[0])] == [field.attribute]
                assert (value.unsupported(absent[0])[0].ignorable) is not refused(value, absent[0])


def refused(value: Any, version: int) -> bool:
    try:
        value.encode(version)
    except EncodeError:
        return True
    return False
