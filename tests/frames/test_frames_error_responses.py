"""`error_response`: the code is wherever a response has one, and the response names what the request names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkawire
from kafkawire import frames
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    REGISTRY,
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    ProduceRequest,
    RequestHeader,
)
from kafkawire.testing import strategies
from tests import own_schemas

CODE = CODES["CLUSTER_AUTHORIZATION_FAILED"]
REQUESTS = [
    (REGISTRY.load(entry), version) for entry in REGISTRY.requests().values() for version in entry.valid_versions
]


def codes(value: Any) -> Iterator[int]:
    for field in value.spec.fields:
        held = getattr(value, field.attribute)
        if field.name in ("ErrorCode", "PartitionErrorCode"):
            yield held
        elif field.struct is not None and held is not None:
            for one in held if isinstance(held, tuple) else (held,):
                yield from codes(one)


def test_every_response_that_needs_nothing_named_has_the_code() -> None:
    without, expected = set(), set()
    for entry in REGISTRY.requests().values():
        message: Any = REGISTRY.load(entry)
        for version in entry.valid_versions:
            response = frames.error_response(message(), CODE, version=version)
            assert type(response) is message.response
            if CODE not in codes(message.response.decode(response.encode(version), version)):
                without.add(entry.name)
            fields = message.response.spec.fields
            if not any(field.name == "ErrorCode" and version in field.versions for field in fields):
                expected.add(entry.name)  # elements alone have codes
    assert without == expected


@given(st.data())
def test_what_is_encoded_in_a_version_has_no_other_code(data: st.DataObject) -> None:
    message, version = data.draw(st.sampled_from(REQUESTS))
    request = data.draw(strategies.messages(message, version))
    header = RequestHeader(request_api_key=message.spec.api_key, request_api_version=version)
    response = frames.error_response(frames.Request(header, request), CODE)
    again = type(response).decode(response.encode(version), version)
    assert {code for code in codes(again) if code} <= {CODE}
    # Without a version the same response can be sent in the version of the request, if all that it names is in that.
    assert {code for code in codes(frames.error_response(request, CODE).for_version(version)) if code} <= {CODE}


def test_produce() -> None:
    partitions = tuple(ProduceRequest.PartitionProduceData(index=index) for index in (3, 5))
    request = ProduceRequest(topic_data=(ProduceRequest.TopicProduceData(name="orders", partition_data=partitions),))
    response = frames.error_response(request, CODE, version=9)
    (topic,) = response.responses
    assert topic.name == "orders"
    assert [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses] == [
        (3, CODE, -1),
        (5, CODE, -1),
    ]


@pytest.mark.parametrize(("version", "top"), [(6, 0), (7, CODE), (18, CODE)])
def test_fetch_has_it_at_the_top_where_the_version_does(version: int, top: int) -> None:
    topic = FetchRequest.FetchTopic(topic="orders", partitions=(FetchRequest.FetchPartition(partition=4),))
    response = frames.error_response(FetchRequest(topics=(topic,)), CODE, version=version)
    assert response.error_code == top
    (partition,) = response.responses[0].partitions
    assert (partition.partition_index, partition.error_code, partition.high_watermark) == (4, CODE, -1)


def test_names_of_strings_and_of_ids() -> None:
    old = frames.error_response(DeleteTopicsRequest(topic_names=("a", "b")), CODE, version=5)
    assert [(one.name, one.error_code) for one in old.responses] == [("a", CODE), ("b", CODE)]
    state = DeleteTopicsRequest.DeleteTopicState(topic_id=UUID(int=7))
    new = frames.error_response(DeleteTopicsRequest(topics=(state,)), CODE, version=6)
    assert [(one.name, one.topic_id, one.error_code) for one in new.responses] == [(None, UUID(int=7), CODE)]


def test_one_array_of_the_response_for_several_of_the_request() -> None:
    topics = [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=name, partitions=(1,)) for name in "ab"]
    dirs = tuple(AlterReplicaLogDirsRequest.AlterReplicaLogDir(path="/d", topics=(topic,)) for topic in topics)
    moved = frames.error_response(AlterReplicaLogDirsRequest(dirs=dirs), CODE)
    assert [(one.topic_name, one.partitions[0].partition_index) for one in moved.results] == [("a", 1), ("b", 1)]
    assert set(codes(moved)) == {CODE}
    users = AlterUserScramCredentialsRequest(
        deletions=(AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="ann"),),
        upsertions=(AlterUserScramCredentialsRequest.ScramCredentialUpsertion(name="bob"),),
    )
    assert [one.user for one in frames.error_response(users, CODE).results] == ["ann", "bob"]


def test_a_struct_says_which_one_it_is() -> None:
    data = AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="ann")
    request = AlterClientQuotasRequest(entries=(AlterClientQuotasRequest.EntryData(entity=(data,)),))
    (entry,) = frames.error_response(request, CODE).entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [("user", "ann")]


def test_a_code_of_an_element_stands_for_all_inside() -> None:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=(1,))
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    response = frames.error_response(OffsetFetchRequest(groups=(group,)), CODE, version=8)
    assert [(one.group_id, one.error_code, one.topics) for one in response.groups] == [("g", CODE, ())]


def test_coordinators_of_one_key_and_of_many() -> None:
    old = frames.error_response(FindCoordinatorRequest(key="g"), CODE, version=3)
    assert (old.error_code, old.node_id, old.port, old.coordinators) == (CODE, -1, -1, ())
    new = frames.error_response(FindCoordinatorRequest(coordinator_keys=("g",)), CODE)
    assert [(one.key, one.error_code, one.node_id) for one in new.coordinators] == [("g", CODE, -1)]
    assert new.encode(6)  # no code at the top, which version 6 refuses


def test_transactions() -> None:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=(2,))
    old = frames.error_response(AddPartitionsToTxnRequest(v3_and_below_topics=(topic,)), CODE, version=3)
    (partition,) = old.results_by_topic_v3_and_below[0].results_by_partition
    assert (partition.partition_index, partition.partition_error_code) == (2, CODE)
    assert frames.error_response(EndTxnRequest(producer_id=5), CODE).producer_id == -1


def test_response_without_a_code_is_refused(tmp_path: Path) -> None:
    own = kafkawire.load_schemas(own_schemas.write(tmp_path / "schemas"))
    with pytest.raises(ValueError, match="PingResponse has no field ErrorCode"):
        frames.error_response(own.PingRequest(), CODE)
