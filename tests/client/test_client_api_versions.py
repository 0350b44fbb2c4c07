"""The version of a request that is sent, and the error where there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import lookup
from kafkawire.client.errors import UnsupportedApiError
from kafkawire.client.transport.api_versions import _SINCE, choose
from kafkawire.messages import EndTxnMarker, ListTransactionsRequest, MetadataRequest

LIST = ListTransactionsRequest.spec
assert LIST.api_key is not None


@given(st.integers(0, 20), st.integers(0, 20), st.none() | st.integers(0, 20), st.integers(0, 20))
def test_chooses_the_highest_common_version(first: int, last: int, at_most: int | None, at_least: int) -> None:
    spec = MetadataRequest.spec
    assert spec.api_key is not None
    common = [
        version
        for version in spec.valid_versions
        if first <= version <= last and at_least <= version and (at_most is None or version <= at_most)
    ]
    try:
        found = choose(
            MetadataRequest, {spec.api_key: (first, last)}, at_most=at_most, at_least=at_least, address="b:1"
        )
    except UnsupportedApiError:
        assert not common
    else:
        assert found == max(common)


@pytest.mark.parametrize(
    ("offered", "at_least", "text"),
    [
        ({}, 0, "b:1: the broker does not support ListTransactions requests: brokers know it from Kafka 3.0 on"),
        (
            {LIST.api_key: (0, 0)}, 1,
            "b:1: the broker takes ListTransactions in versions 0-0, and version 1-2 is needed: "
            "brokers know it from Kafka 3.8 on",
        ),
        (
            {LIST.api_key: (0, 1)}, 2,
            "b:1: the broker takes ListTransactions in versions 0-1, and version 2 is needed: "
            "brokers know it from Kafka 4.1 on",
        ),
        (
            {LIST.api_key: (7, 9)}, 0,
            "b:1: the broker takes ListTransactions in versions 7-9, and version 0-2 is needed: "
            "brokers know it from Kafka 3.0 on",
        ),
    ],
)  # fmt: skip
def test_error_where_no_version_is_common(offered: dict[int, tuple[int, int]], at_least: int, text: str) -> None:
    with pytest.raises(UnsupportedApiError) as caught:
        choose(ListTransactionsRequest, offered, at_least=at_least, at_most=2, address="b:1")
    assert str(caught.value) == text


def test_a_controllers_listener_is_named() -> None:
    """KRaft controllers have no Metadata request, and vote; brokers do not vote."""
    with pytest.raises(UnsupportedApiError) as caught:
        choose(MetadataRequest, {18: (0, 4), 52: (0, 2), 60: (0, 2)}, address="b:1")
    assert str(caught.value) == "b:1: this is a controller's listener: give that of a broker"


def test_refuses_what_is_no_request_of_the_protocol() -> None:
    with pytest.raises(UnsupportedApiError, match="EndTxnMarker is no request"):
        choose(EndTxnMarker, {0: (0, 9)}, address="b:1")


@pytest.mark.parametrize("name", _SINCE)
def test_releases_belong_to_existing_versions(name: str) -> None:
    assert set(_SINCE[name]) <= set(lookup(name).spec.valid_versions)
