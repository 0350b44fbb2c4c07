"""The JSON form: what Kafka's `*JsonConverter` classes write, what is added to lose nothing, and what is refused.

That every message goes through JSON and back is tested in `properties/test_round_trips.py`.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

import kafkawire
from kafkawire.errors import EncodeError, JsonError, UnsupportedVersionError
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    ApiVersionsRequest,
    ConsumerGroupMemberMetadataValue,
    DescribeProducersResponse,
    DescribeTopicPartitionsRequest,
    EndTxnRequest,
    FetchRequest,
    ListTransactionsRequest,
    MetadataRequest,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.messages.alter_client_quotas_request import EntryData, OpData
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.wire.message import Message
from kafkawire.wire.values import TaggedField

EMPTY: dict[Any, Any] = {"throttleTimeMs": 0, "topics": []}


def test_names_begin_small_and_fields_stand_in_the_schemas_order() -> None:
    partition = PartitionResponse(partition_index=3, active_producers=(ProducerState(producer_id=9),))
    value = DescribeProducersResponse(throttle_time_ms=1, topics=(TopicResponse(name="t", partitions=(partition,)),))
    expected = (
        '{"throttleTimeMs": 1, "topics": [{"name": "t", "partitions": [{"partitionIndex": 3, "errorCode": 0, '
        '"errorMessage": null, "activeProducers": [{"producerId": 9, "producerEpoch": 0, "lastSequence": -1, '
        '"lastTimestamp": -1, "coordinatorEpoch": 0, "currentTxnStartOffset": -1}]}]}]}'
    )
    assert json.dumps(kafkawire.to_json(value, 0)) == expected
    assert kafkawire.from_json(DescribeProducersResponse, json.loads(expected), 0) == value


def test_fields_are_those_of_the_version() -> None:
    assert list(kafkawire.to_json(ListTransactionsRequest(), 0)) == ["stateFilters", "producerIdFilters"]
    assert list(kafkawire.to_json(ListTransactionsRequest(), 2))[2:] == ["durationFilter", "transactionalIdPattern"]
    with pytest.raises(EncodeError) as caught:
        kafkawire.to_json(ListTransactionsRequest(duration_filter=5), 0)
    assert caught.value.path == "duration_filter"
    # A field that may be ignored is left out.
    assert "rackId" not in kafkawire.to_json(FetchRequest(rack_id="r"), 4)


def test_tagged_fields_at_their_default_are_left_out() -> None:
    assert "nextProducerId" not in kafkawire.to_json(TransactionLogValue(), 1)
    assert kafkawire.to_json(TransactionLogValue(next_producer_id=5), 1)["nextProducerId"] == 5
    # Null is not the default of this one.
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert kafkawire.to_json(value, 0)["classicMemberMetadata"] is None
    assert kafkawire.from_json(ConsumerGroupMemberMetadataValue, kafkawire.to_json(value, 0), 0) == value
    assert "classicMemberMetadata" not in kafkawire.to_json(ConsumerGroupMemberMetadataValue(), 0)


def test_uuids_have_kafkas_form() -> None:
    topic = MetadataRequestTopic(topic_id=UUID("1f728a3b-8353-44f6-825a-d1269b7bd6ec"), name=None)
    obj = kafkawire.to_json(MetadataRequest(topics=(topic,)), 12)
    assert obj["topics"] == [{"topicId": "H3KKO4NTRPaCWtEmm3vW7A", "name": None}]
    assert (
        kafkawire.to_json(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12)["topics"][0]["topicId"]
        == "A" * 22
    )
    assert kafkawire.from_json(MetadataRequest, obj, 12).topics == (topic,)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, 1.5), (-0.0, -0.0)],
)
def test_floats_that_json_lacks_are_strings(value: float, wanted: object) -> None:
    request = AlterClientQuotasRequest(entries=(EntryData(ops=(OpData(key="k", value=value, remove=False),)),))
    obj = kafkawire.to_json(request, 0)
    assert repr(obj["entries"][0]["ops"][0]["value"]) == repr(wanted)
    back = kafkawire.from_json(AlterClientQuotasRequest, json.loads(json.dumps(obj, allow_nan=False)), 0)
    assert repr(back.entries[0].ops[0].value) == repr(value)


def test_whole_numbers_are_floats_where_the_field_is_one() -> None:
    obj = kafkawire.to_json(AlterClientQuotasRequest(entries=(EntryData(ops=(OpData(key="k"),)),)), 0)
    obj["entries"][0]["ops"][0]["value"] = 7
    (op,) = kafkawire.from_json(AlterClientQuotasRequest, obj, 0).entries[0].ops
    assert (op.value, type(op.value)) == (7.0, float)


def test_bytes_and_records_are_base64() -> None:
    partition = PartitionProduceData(index=0, records=b"\xff\xfe\xfd")
    obj = kafkawire.to_json(ProduceRequest(topic_data=(TopicProduceData(name="t", partition_data=(partition,)),)), 3)
    assert obj["topicData"][0]["partitionData"][0] == {"index": 0, "records": "//79"}


def test_text_that_was_no_utf8_is_escaped_and_read_back() -> None:
    value = EndTxnRequest.decode(bytes.fromhex("0002 61ff 0000000000000000 0000 00"), 0)
    text = json.dumps(kafkawire.to_json(value, 0))
    assert '"a\\udcff"' in text
    assert kafkawire.from_json(EndTxnRequest, json.loads(text), 0) == value


def test_unknown_tags_are_kept_where_asked_for() -> None:
    inner = TopicResponse(name="t", unknown_tagged_fields=(TaggedField(7, b"\1\2"),))
    value = DescribeProducersResponse(
        topics=(inner,), unknown_tagged_fields=(TaggedField(0, b""), TaggedField(5, b"x"))
    )
    assert "_unknownTaggedFields" not in json.dumps(kafkawire.to_json(value, 0))
    obj = kafkawire.to_json(value, 0, unknown_tags=True)
    assert obj["_unknownTaggedFields"] == [[0, ""], [5, "eA=="]]
    assert obj["topics"][0]["_unknownTaggedFields"] == [[7, "AQI="]]
    assert kafkawire.from_json(DescribeProducersResponse, obj, 0) == value


@pytest.mark.parametrize(
    ("value", "version", "path"),
    [
        (DescribeProducersResponse(topics=None), 0, "topics"),  # type: ignore[arg-type]
        (DescribeProducersResponse(topics=(TopicResponse(name=None),)), 0, "topics[0].name"),  # type: ignore[arg-type]
        (DescribeProducersResponse(topics=(TopicResponse(partitions=None),)), 0, "topics[0].partitions"),  # type: ignore[arg-type]
        (DescribeProducersResponse(throttle_time_ms=None), 0, "throttle_time_ms"),  # type: ignore[arg-type]
        (ListTransactionsRequest(producer_id_filters=(1, None)), 0, "producer_id_filters[1]"),  # type: ignore[arg-type]
        (ListTransactionsRequest(state_filters=("a", None)), 0, "state_filters[1]"),  # type: ignore[arg-type]
        (EndTxnRequest(committed=None), 0, "committed"),  # type: ignore[arg-type]
    ],
)
def test_null_where_a_value_must_be(value: Message, version: int, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        kafkawire.to_json(value, version)
    assert (caught.value.path, caught.value.reason) == (path, "null where a value must be")
    assert (caught.value.message, caught.value.version) == (value.spec.name, version)


def test_unknown_tags_of_a_version_without_tags() -> None:
    value = TransactionLogValue(unknown_tagged_fields=(TaggedField(9, b""),))
    with pytest.raises(EncodeError) as caught:
        kafkawire.to_json(value, 0, unknown_tags=True)
    assert caught.value.path == "unknown_tagged_fields"
    for unknown in ([[9, ""]], [], None):
        obj = kafkawire.to_json(TransactionLogValue(), 0) | {"_unknownTaggedFields": unknown}
        with pytest.raises(JsonError) as caught:
            kafkawire.from_json(TransactionLogValue, obj, 0)
        assert caught.value.path == "_unknownTaggedFields"


def test_older_names_are_read() -> None:
    older: dict[str, Any] = {"transactionalId": "t", "producerId": 1, "producerEpoch": 2, "topics": []}
    value = kafkawire.from_json(AddPartitionsToTxnRequest, older, 3)
    assert value.v3_and_below_transactional_id == "t"
    assert "transactionalId" not in kafkawire.to_json(value, 3)


@pytest.mark.parametrize("version", [-1, 1, None])
def test_a_version_that_the_message_does_not_have(version: Any) -> None:
    with pytest.raises(UnsupportedVersionError):
        kafkawire.to_json(DescribeProducersResponse(), version)
    with pytest.raises(UnsupportedVersionError):
        kafkawire.from_json(DescribeProducersResponse, EMPTY, version)


PRODUCERS: list[tuple[dict[Any, Any], str, str]] = [
    ({"topics": None}, "topics", "null where an array must be"),
    ({"topics": {}}, "topics", "expected an array, got an object"),
    ({"topics": ["t"]}, "topics[0]", "expected an object, got a string"),
    ({"topics": [{"name": 5, "partitions": []}]}, "topics[0].name", "expected a string, got an integer"),
    ({"topics": [{"name": "t"}]}, "topics[0]", "the field partitions is missing"),
    ({"throttleTimeMs": "1"}, "throttleTimeMs", "expected an integer, got a string"),
    ({"throttleTimeMs": True}, "throttleTimeMs", "expected an integer, got a bool"),
    ({"throttleTimeMs": 1.0}, "throttleTimeMs", "expected an integer, got a number"),
    ({"throttleTime": 1}, "throttleTime", "unknown field; is it throttleTimeMs?"),
    ({5: 1}, "5", "unknown field"),
    ({"_unknownTaggedFields": 5}, "_unknownTaggedFields", "expected a list of [tag, base64]"),
    ({"_unknownTaggedFields": [[1]]}, "_unknownTaggedFields", "expected a list of [tag, base64]"),
    ({"_unknownTaggedFields": [["1", ""]]}, "_unknownTaggedFields", "expected an integer, got a string"),
    ({"_unknownTaggedFields": [[1, "?"]]}, "_unknownTaggedFields", "not base64"),
]
OTHERS: list[tuple[type[Message], int, Any, str, str]] = [
    (DescribeProducersResponse, 0, None, "", "expected an object, got null"),
    (DescribeProducersResponse, 0, [], "", "expected an object, got an array"),
    (DescribeProducersResponse, 0, {}, "", "the field throttleTimeMs is missing, which version 0 must have"),
    (DescribeProducersResponse, 0, {"throttleTimeMs": 1}, "", "the field topics is missing"),
    (
        ListTransactionsRequest,
        0,
        {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1},
        "durationFilter",
        "version 0 does not carry this field",
    ),
    (
        EndTxnRequest,
        0,
        {"transactionalId": "", "producerId": 0, "producerEpoch": 0, "committed": 1},
        "committed",
        "expected a bool, got an integer",
    ),
    (
        DescribeTopicPartitionsRequest,
        0,
        {"topics": [], "responsePartitionLimit": 1, "cursor": 5},
        "cursor",
        "expected an object, got an integer",
    ),
    (MetadataRequest, 12, {"topics": [{"topicId": "AAAA", "name": None}]}, "topics[0].topicId", "expected a uuid: 22"),
    (MetadataRequest, 12, {"topics": [{"topicId": 5, "name": None}]}, "topics[0].topicId", "expected a uuid (base64"),
]
CASES = [(DescribeProducersResponse, 0, EMPTY | change, path, reason) for change, path, reason in PRODUCERS] + OTHERS


@pytest.mark.parametrize(("cls", "version", "obj", "path", "reason"), CASES)
def test_what_is_refused(cls: type[Message], version: int, obj: Any, path: str, reason: str) -> None:
    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(cls, obj, version)
    error = caught.value
    assert error.path == path
    assert error.reason.startswith(reason)
    assert (error.message, error.version) == (cls.spec.name, version)
    assert isinstance(error, EncodeError)


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1, 1 << 200])
def test_numbers_have_their_range(number: int) -> None:
    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(DescribeProducersResponse, EMPTY | {"throttleTimeMs": number}, 0)
    assert caught.value.path == "throttleTimeMs"


@pytest.mark.parametrize("number", [(1 << 31) - 1, -(1 << 31)])
def test_the_ends_of_a_range_are_in_it(number: int) -> None:
    value = kafkawire.from_json(DescribeProducersResponse, EMPTY | {"throttleTimeMs": number}, 0)
    assert value.throttle_time_ms == number


@pytest.mark.parametrize("value", ["nan", "inf", "1.5", None, True, [], 10**400])
def test_values_that_are_no_floats(value: Any) -> None:
    obj = kafkawire.to_json(AlterClientQuotasRequest(entries=(EntryData(ops=(OpData(key="k"),)),)), 0)
    obj["entries"][0]["ops"][0]["value"] = value
    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(AlterClientQuotasRequest, obj, 0)
    assert caught.value.path == "entries[0].ops[0].value"


@pytest.mark.parametrize("data", [5, None, "?", "A", "AAA", "AA=", "é", "AA==AA==", [1, 2]])
def test_values_that_are_no_base64(data: Any) -> None:
    obj = kafkawire.to_json(ConsumerGroupMemberMetadataValue(), 0)
    obj["classicMemberMetadata"] = {"sessionTimeoutMs": 0, "supportedProtocols": [{"name": "n", "metadata": data}]}
    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(ConsumerGroupMemberMetadataValue, obj, 0)
    assert caught.value.path == "classicMemberMetadata.supportedProtocols[0].metadata"


def test_the_input_is_left_as_it_was() -> None:
    obj = kafkawire.to_json(ApiVersionsRequest(client_software_name="a"), 3)
    copy = json.loads(json.dumps(obj))
    kafkawire.from_json(ApiVersionsRequest, obj, 3)
    assert obj == copy


@pytest.mark.parametrize("text", ["zz//++zzzzzzzzzzzzzzzw", "A" * 21, "A" * 24, "A" * 22 + "="])
def test_uuids_are_in_one_alphabet(text: str) -> None:
    from kafkawire.messages import MetadataRequest

    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(
            MetadataRequest,
            {
                "topics": [{"topicId": text, "name": "a"}],
                "allowAutoTopicCreation": True,
                "includeTopicAuthorizedOperations": False,
            },
            12,
        )
    assert caught.value.path == "topics[0].topicId"


@pytest.mark.parametrize("text", ["AAAA=", "AA=", "A", "AA==AA==", "AA-_", "AAAA\n"])
def test_base64_has_the_padding_that_it_needs(text: str) -> None:
    from kafkawire.messages import SaslAuthenticateRequest

    with pytest.raises(JsonError) as caught:
        kafkawire.from_json(SaslAuthenticateRequest, {"authBytes": text}, 2)
    assert caught.value.path == "authBytes"
