"""Bodies as rows show them: without secrets, records decoded or left out."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import crc32c
import msgspec
import pytest

from kafkawire import load_schemas, records
from kafkawire.capture.message_json import body_json, decoded_records, errors, frame_may_contain_secrets
from kafkawire.errors import DecodeError
from kafkawire.messages import (
    AddPartitionsToTxnResponse,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CreateTopicsResponse,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    GroupMetadataValue,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicRecord,
    UserScramCredentialRecord,
)
from kafkawire.messages.create_topics_response import CreatableTopicResult
from kafkawire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkawire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.fetch_snapshot_response import PartitionSnapshot, TopicSnapshot
from kafkawire.messages.group_metadata_value import MemberMetadata
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.messages.join_group_request import JoinGroupRequestProtocol
from kafkawire.messages.join_group_response import JoinGroupResponseMember
from kafkawire.messages.sync_group_request import SyncGroupRequestAssignment
from kafkawire.records import Decoded
from kafkawire.wire.message import Message
from kafkawire.wire.write import uvarint
from tests.capture.wiretap import (
    Conversation,
    exchanges,
    produce,
)


def test_redacts_tokens_and_passwords() -> None:
    secret = b"\0alice\0hunter2"
    talk = Conversation()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=1, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=1, correlation_id=1)
    talk.request(SaslAuthenticateRequest(auth_bytes=secret), version=2, correlation_id=2)
    talk.response(SaslAuthenticateResponse(auth_bytes=secret), version=2, correlation_id=2)
    configs = tuple(
        AlterableConfig(name=name, value="hunter2") for name in ("ssl.key.password", "listener.name.x.sasl.jaas.config")
    )
    configs += (AlterableConfig(name="log.retention.ms", value="1000"), AlterableConfig(name="password", value=None))
    request = IncrementalAlterConfigsRequest(resources=(AlterConfigsResource(configs=configs),))
    talk.request(request, version=1, correlation_id=3)
    talk.response(IncrementalAlterConfigsResponse(), version=1, correlation_id=3)

    handshake, authenticate, alter = exchanges(talk, body=True)
    assert handshake.request == {"mechanism": "PLAIN"}
    assert authenticate.request == {"authBytes": "[redacted]"}
    assert authenticate.response["authBytes"] == "[redacted]"  # type: ignore[index]
    shown = alter.request["resources"][0]["configs"]  # type: ignore[index]
    assert [config["value"] for config in shown] == ["[redacted]", "[redacted]", "1000", None]
    assert "hunter2" not in str([handshake, authenticate, alter])

    _, open_authenticate, open_alter = exchanges(talk, body=True, show_secrets=True)
    assert open_authenticate.request == {
        "authBytes": base64.b64encode(secret).decode(),
        "authBytesDecoded": {"name": "text", "version": None, "data": "\0alice\0hunter2"},
    }
    assert "hunter2" in str(open_alter)


@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_config_that_the_response_types_as_a_number_is_shown(version: int) -> None:
    def shown(name: str, value: str, kind: int, *, sensitive: bool = False) -> list[str]:
        synonyms = (DescribeConfigsSynonym(name=name, value=value),) if version else ()
        config = DescribeConfigsResourceResult(
            name=name, value=value, config_type=kind if version >= 3 else 0, is_sensitive=sensitive, synonyms=synonyms
        )
        body: Any = body_json(DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(config,)),)), version)
        (found,) = body["results"][0]["configs"]
        return [each["value"] for each in (found, *found.get("synonyms", ()))]

    count = 2 if version else 1
    assert shown("delegation.token.max.lifetime.ms", "604800000", 5) == ["604800000"] * count
    by_type = "8" if version >= 3 else "[redacted]"
    assert shown("tokens.kept", "8", 3) == [by_type] * count
    assert shown("delegation.token.secret.key", "hunter2", 9) == ["[redacted]"] * count
    assert shown("my.password", "1234", 0) == ["[redacted]"] * count
    assert shown("retention.ms", "1234", 5, sensitive=True) == ["[redacted]"] * count
    assert shown("unremarkable", "hunter2", 9) == ["[redacted]" if version >= 3 else "hunter2"] * count


def test_durations_in_requests_are_shown() -> None:
    configs = tuple(
        AlterableConfig(name=f"delegation.token.{name}", value=value)
        for name, value in (("max.lifetime.ms", "604800000"), ("expiry.time.ms", "hunter2"), ("secret.key", "1234"))
    )
    body: Any = body_json(IncrementalAlterConfigsRequest(resources=(AlterConfigsResource(configs=configs),)), 1)
    values = [config["value"] for config in body["resources"][0]["configs"]]
    assert values == ["604800000", "[redacted]", "[redacted]"]


def test_every_listed_secret_is_a_field() -> None:
    """The tables of secrets name fields that exist: a field that is renamed must not become readable."""
    from kafkawire import lookup
    from kafkawire.capture.message_json import CONFIGS, SECRETS

    for name, paths in [*SECRETS.items(), *CONFIGS.items()]:
        for path in paths:
            spec: Any = lookup(name).spec
            for part in path.split("."):
                field = next(field for field in spec.fields if field.json_name == part)
                spec = field.struct.spec if field.struct else None
            if name in CONFIGS:
                assert {"name", "value"} <= {field.json_name for field in spec.fields}


def test_records_are_base64_decoded_or_null() -> None:
    data = records.build([records.Record(b"key", b"\xff\xfe")], base_offset=40, producer_id=9)
    data += records.build_marker("ABORT", offset=41, timestamp=5, producer_id=9, producer_epoch=0, coordinator_epoch=3)
    topics = (FetchableTopicResponse(topic="t", partitions=(PartitionData(records=data + b"torn"),)),)
    talk = Conversation().request(FetchRequest(), version=4, correlation_id=1)
    talk.response(FetchResponse(responses=topics), version=4, correlation_id=1)

    def shown(**options: bool) -> Any:
        (exchange,) = exchanges(talk, body=True, **options)
        assert exchange.response is not None
        return exchange.response["responses"][0]["partitions"][0]["records"]  # type: ignore[index]

    assert shown() == base64.b64encode(data + b"torn").decode()
    assert shown(payloads=False) is None
    first, marker, damage = shown(records=True)
    assert (first["base_offset"], first["producer_id"], first["control"]) == (40, 9, None)
    (record,) = first["records"]
    assert (record["offset"], record["key"], record["value"], record["value_base64"]) == (40, "key", None, "//4=")
    assert (marker["control"], marker["coordinator_epoch"]) == ("ABORT", 3)
    assert (damage["kind"], damage["reason"], damage["position"]) == ("damage", "truncated", len(data))
    assert "file" not in first


def test_redacts_no_empty_fields_and_keeps_null_records() -> None:
    assert body_json(SaslAuthenticateResponse(auth_bytes=b""), 2)["authBytes"] == ""
    response = FetchResponse(responses=(FetchableTopicResponse(partitions=(PartitionData(records=None),)),))
    for options in ({"payloads": False}, {"decode_records": True}):
        body: Any = body_json(response, 4, **options)
        assert body["responses"][0]["partitions"][0]["records"] is None
    assert body_json(CreateTopicsResponse(topics=(CreatableTopicResult(configs=None),)), 5)["topics"]


def test_reports_unreadable_records_in_their_batch() -> None:
    data = bytearray(records.build([records.Record(b"k", b"v")]))
    data[57:61] = (5).to_bytes(4, "big")  # records, where one is
    data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
    (batch,) = decoded_records(bytes(data))
    assert batch["records"][-1]["reason"] == "bad_records"  # type: ignore[index,call-overload]


def test_counts_errors_of_flat_messages() -> None:
    assert errors(AddPartitionsToTxnResponse(error_code=3)) == {"UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert errors(FetchResponse()) == {}


def test_frames_that_may_contain_secrets() -> None:
    assert frame_may_contain_secrets(36, "request", b"")  # SaslAuthenticate
    assert frame_may_contain_secrets(None, "response", b"")  # the api is unknown
    assert not frame_may_contain_secrets(1, "response", b"")


def test_counts_errors_in_nullable_structs(tmp_path: Path) -> None:
    """No response of Kafka's has such a struct yet; the schema language allows it."""
    (tmp_path / "SomeResponse.json").write_text(
        """{"apiKey": 900, "type": "response", "name": "SomeResponse", "validVersions": "0", "flexibleVersions": "0+",
        "fields": [
          {"name": "Part", "type": "Part", "versions": "0+", "nullableVersions": "0+", "default": "null", "fields": [
            {"name": "ErrorCode", "type": "int16", "versions": "0+"}]},
          {"name": "Parts", "type": "[]More", "versions": "0+", "nullableVersions": "0+", "fields": [
            {"name": "ErrorCode", "type": "int16", "versions": "0+"}]}]}"""
    )
    Response: Any = load_schemas(tmp_path).SomeResponse
    part = Response.spec.field("part").struct
    assert errors(Response(part=None, parts=None)) == {}
    assert errors(Response(part=part(error_code=3))) == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


STORED_KEY = b"a stored key of SCRAM"


def metadata_records() -> bytes:
    """A batch of `__cluster_metadata` with a topic and a user."""
    messages: list[Message] = [
        TopicRecord(name="orders"),
        UserScramCredentialRecord(name="u", stored_key=STORED_KEY, salt=b"salt", iterations=4096),
    ]
    framed = [b"\1" + uvarint(m.spec.api_key or 0) + b"\0" + m.encode(0) for m in messages]
    return records.build([records.Record(value=value) for value in framed])


def fetched(version: int) -> Message:
    data = PartitionData(partition_index=0, records=metadata_records())
    topic = FetchableTopicResponse(topic="__cluster_metadata", partitions=(data,))
    if version >= 13:
        topic = FetchableTopicResponse(topic_id=UUID(int=1), partitions=(data,))
    return FetchResponse(responses=(topic,))


def snapshot(version: int) -> Message:
    data = PartitionSnapshot(unaligned_records=metadata_records())
    return FetchSnapshotResponse(topics=(TopicSnapshot(name="__cluster_metadata", partitions=(data,)),))


@pytest.mark.parametrize(
    ("request_", "answer", "version"),
    [
        (FetchRequest(), fetched, 12),
        (FetchRequest(), fetched, 17),
        (FetchSnapshotRequest(), snapshot, 0),
    ],
    ids=["by name", "by id", "snapshot"],
)
@pytest.mark.parametrize("text", [False, True])
def test_redacts_records_of_the_cluster_metadata(
    request_: Message, answer: Callable[[int], Message], version: int, text: bool
) -> None:
    response = answer(version)
    talk = Conversation()
    talk.request(request_, version=version, correlation_id=1)
    talk.response(response, version=version, correlation_id=1)
    shown = (STORED_KEY.decode(), base64.b64encode(metadata_records()).decode())
    for decoded in (False, True):
        (hidden,) = exchanges(talk, body=True, records=decoded, text=text)
        (whole,) = exchanges(talk, body=True, records=decoded, text=text, show_secrets=True)
        line, full = (msgspec.json.encode(row.response).decode() for row in (hidden, whole))
        assert "[redacted]" in line
        assert not any(secret in line for secret in shown)
        assert ("orders" in line) == decoded
        assert "[redacted]" not in full
    frame = response.encode(version)
    assert frame_may_contain_secrets(response.spec.api_key, "response", frame)


def test_records_of_other_topics_are_shown() -> None:
    data = PartitionData(partition_index=0, records=metadata_records())
    response = FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(data,)),))
    body = body_json(response, 12)
    assert body["responses"][0]["partitions"][0]["records"] == base64.b64encode(metadata_records()).decode()
    assert not frame_may_contain_secrets(1, "response", response.encode(12))


def test_record_batches_that_cannot_be_read_are_a_problem_of_the_exchange() -> None:
    whole = records.build([records.Record(value=b"v")])
    broken = whole[:-1] + bytes((whole[-1] ^ 1,))
    talk = Conversation().request(produce(0, broken * 2), version=9, correlation_id=1)
    (found,) = exchanges(talk, body=True, records=True)
    assert found.problem is not None
    assert found.problem.startswith("request: records: at byte 0: crc_mismatch: ")
    assert "more like it" not in found.problem  # behind the first, no checksum proves a batch
    (plain,) = exchanges(talk, body=True)
    assert plain.problem is None


def test_a_batch_that_a_fetch_response_cuts_is_no_problem() -> None:
    whole = records.build([records.Record(value=b"v")])
    for data, problem in ((whole + whole[:-5], False), (whole[:-5], False), (b"\0" * 40 + whole, True)):
        partition = PartitionData(partition_index=0, records=data)
        response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))
        talk = Conversation().request(FetchRequest(), version=11, correlation_id=1)
        talk.response(response, version=11, correlation_id=1)
        (found,) = exchanges(talk, body=True, records=True)
        assert (found.problem is not None) == problem


# Bytes of group members -----------------------------------------------------------------------------------------------

SUBSCRIPTION = ConsumerProtocolSubscription(topics=("orders",), generation_id=3).encode_prefixed(2)
ASSIGNMENT = ConsumerProtocolAssignment().encode_prefixed(0)
SUBSCRIBED = {
    "name": "ConsumerProtocolSubscription",
    "version": 2,
    "data": {"topics": ["orders"], "userData": None, "ownedPartitions": [], "generationId": 3},
}
ASSIGNED = {"name": "ConsumerProtocolAssignment", "version": 0, "data": {"assignedPartitions": [], "userData": None}}
UNSTATED = {"note": "the message does not state the protocol type; the bytes fit this layout alone"}


def group_messages(version: int) -> Conversation:
    """JoinGroup, SyncGroup and DescribeGroups of a group with one consumer: in version 0, or in the highest."""
    kind = "consumer" if version else None
    talk = Conversation()
    protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=ASSIGNMENT)
    member = DescribedGroupMember(member_id="m", member_metadata=SUBSCRIPTION, member_assignment=ASSIGNMENT)
    group = DescribedGroup(group_id="g", protocol_type="consumer", protocol_data="range", members=(member,))
    pairs: list[tuple[Message, Message]] = [
        (
            JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=(protocol,)),
            JoinGroupResponse(protocol_type=kind, members=(JoinGroupResponseMember("m", metadata=SUBSCRIPTION),)),
        ),
        (
            SyncGroupRequest(group_id="g", protocol_type=kind, assignments=(assignment,)),
            SyncGroupResponse(protocol_type=kind, assignment=ASSIGNMENT),
        ),
        (DescribeGroupsRequest(groups=("g",)), DescribeGroupsResponse(groups=(group,))),
    ]
    for number, (asked, answered) in enumerate(pairs):
        of_both = version and asked.spec.valid_versions[-1]
        talk.request(asked, version=of_both, correlation_id=number)
        talk.response(answered, version=of_both, correlation_id=number)
    return talk


@pytest.mark.parametrize("text", [False, True], ids=["values", "text"])
@pytest.mark.parametrize("version", [0, 1], ids=["oldest", "newest"])
def test_bytes_of_group_members_are_decoded_beside_them(version: int, text: bool) -> None:
    join, sync, described = exchanges(group_messages(version), body=True, text=text)
    bodies: Any = [
        (msgspec.json.decode(msgspec.json.encode(row.request)), msgspec.json.decode(msgspec.json.encode(row.response)))
        for row in (join, sync, described)
    ]
    assert [row.problem for row in (join, sync, described)] == [None] * 3
    unstated = {} if version else UNSTATED
    (protocol,), (member,) = bodies[0][0]["protocols"], bodies[0][1]["members"]
    assert (protocol["metadata"], protocol["metadataDecoded"]) == (base64.b64encode(SUBSCRIPTION).decode(), SUBSCRIBED)
    assert member["metadataDecoded"] == SUBSCRIBED | unstated
    (assignment,) = bodies[1][0]["assignments"]
    assert assignment["assignment"] == bodies[1][1]["assignment"] == base64.b64encode(ASSIGNMENT).decode()
    assert assignment["assignmentDecoded"] == bodies[1][1]["assignmentDecoded"] == ASSIGNED | unstated
    (found,) = bodies[2][1]["groups"][0]["members"]
    assert (found["memberMetadataDecoded"], found["memberAssignmentDecoded"]) == (SUBSCRIBED, ASSIGNED)


def test_bytes_in_a_message_that_ends_early_are_decoded() -> None:
    """The array ends within its second member: the first one is shown with what is inside of it."""
    members = (JoinGroupResponseMember("m", metadata=SUBSCRIPTION), JoinGroupResponseMember("n"))
    whole = JoinGroupResponse(protocol_type="consumer", members=members)
    frame = whole.encode(7)[:-4]
    with pytest.raises(DecodeError) as caught:
        JoinGroupResponse.decode(frame, 7)
    body: Any = body_json(caught.value.partial, 7)
    assert body["members"][0]["metadataDecoded"] == SUBSCRIBED


def test_bytes_that_are_no_message_have_a_reason_and_are_no_problem() -> None:
    """They are the client's own: the exchange is whole."""
    protocol = JoinGroupRequestProtocol(name="v0", metadata=b'{"host":"a"}')
    request = JoinGroupRequest(protocol_type="sr", protocols=(protocol,))
    (found,) = exchanges(Conversation().request(request, version=5, correlation_id=1), body=True)
    assert found.problem == "no response was captured"
    (shown,) = found.request["protocols"]  # type: ignore[index,call-overload]
    reason = "the subscription of protocol type 'sr' is not known; of connect, consumer it is"
    assert shown["metadataDecoded"] == {"name": None, "version": None, "data": None, "problem": reason}


def test_captures_and_dumps_show_the_same_bytes_alike() -> None:
    member = MemberMetadata(member_id="m", subscription=SUBSCRIPTION, assignment=ASSIGNMENT)
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=(member,))
    (dumped,) = Decoded("GroupMetadataValue", 3, value).to_json()["data"]["members"]
    assert (dumped["subscription"], dumped["assignment"]) == (SUBSCRIBED["data"], ASSIGNED["data"])
