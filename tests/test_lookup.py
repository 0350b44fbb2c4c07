"""`lookup`: a message's class by its name, an older name, or its api key."""

from __future__ import annotations

from typing import Any

import pytest

import kafkawire
from kafkawire.messages import DescribeProducersResponse, ListConfigResourcesRequest, TransactionLogValue


def test_lookup_by_name() -> None:
    assert kafkawire.lookup("DescribeProducersResponse") is DescribeProducersResponse
    for name in kafkawire.messages.__all__:
        assert kafkawire.lookup(name) is getattr(kafkawire.messages, name)


def test_lookup_by_an_older_name() -> None:
    assert kafkawire.lookup("ListClientMetricsResourcesRequest") is ListConfigResourcesRequest
    assert kafkawire.lookup("ListOffsetRequest").spec.name == "ListOffsetsRequest"
    assert kafkawire.lookup("AlterIsrResponse").spec.name == "AlterPartitionResponse"
    assert not {"ListClientMetricsResourcesRequest", "ListOffsetRequest"} & set(kafkawire.messages.__all__)


def test_lookup_by_api_key() -> None:
    assert kafkawire.lookup(api_key=61, kind="response", family="rpc") is DescribeProducersResponse
    assert kafkawire.lookup(api_key=61, kind="response") is DescribeProducersResponse
    assert kafkawire.lookup(api_key=0, kind="coordinator-value", family="transaction") is TransactionLogValue
    for name in kafkawire.messages.__all__:
        spec = getattr(kafkawire.messages, name).spec
        if spec.api_key is not None:
            found = kafkawire.lookup(api_key=spec.api_key, kind=spec.kind, family=spec.family)
            assert found.spec.name == name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "DescribeProducerResponse"}, ["DescribeProducerResponse", "near: DescribeProducersResponse"]),
        ({"name": ""}, ["''"]),
        ({"name": "describeproducersresponse"}, ["describeproducersresponse"]),
        ({"api_key": 61}, ["ambiguous", "DescribeProducersRequest", "DescribeProducersResponse"]),
        ({"api_key": 0}, ["ambiguous", "ProduceRequest", "TransactionLogKey"]),
        ({"api_key": 0, "kind": "coordinator-key"}, ["ambiguous", "TransactionLogKey"]),
        ({"api_key": 9999}, ["no message has api key 9999"]),
        ({"api_key": -1, "kind": "request", "family": "rpc"}, ["no message has api key -1, kind request, family rpc"]),
        ({"api_key": 61, "kind": "answer"}, ["no message has api key 61, kind answer"]),
        ({"api_key": 61, "family": "kip-664-draft"}, ["no message has api key 61"]),
    ],
)
def test_lookup_rejects_unknown_and_ambiguous_messages(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(LookupError) as caught:
        kafkawire.lookup(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_lookup_error_suggests_three_similar_names() -> None:
    with pytest.raises(LookupError) as caught:
        kafkawire.lookup("DescribeTopicsResponse")
    near = str(caught.value).partition("; near: ")[2].split(", ")
    assert len(near) == 3
    assert set(near) <= set(kafkawire.messages.__all__)


@pytest.mark.parametrize("arguments", [{}, {"name": "FetchRequest", "api_key": 1}])
def test_lookup_requires_either_a_name_or_an_api_key(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        kafkawire.lookup(**arguments)
