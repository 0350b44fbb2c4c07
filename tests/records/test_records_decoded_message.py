"""Messages found in records, as JSON: the consumer protocol inside of group metadata, and secrets."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from kafkawire.messages import (
    ConfigRecord,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    TransactionLogValue,
)
from kafkawire.messages.group_metadata_value import MemberMetadata
from kafkawire.records import Decoded
from kafkawire.records.decoded_message import decode, int16


def group(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> dict[str, object]:
    """The first member of a group's metadata, in JSON form."""
    member = MemberMetadata(member_id="m", subscription=subscription, assignment=assignment)
    value = GroupMetadataValue(protocol_type=protocol_type, members=(member,))
    data = Decoded("GroupMetadataValue", 3, value).to_json()["data"]
    found: dict[str, object] = data["members"][0]
    return found


def problem_of(subscription: bytes, assignment: bytes = b"") -> str | None:
    """The problem of a group's metadata with one member."""
    member = MemberMetadata(member_id="m", subscription=subscription, assignment=assignment)
    value = GroupMetadataValue(protocol_type="consumer", members=(member,))
    found: str | None = Decoded("GroupMetadataValue", 3, value).to_json().get("problem")
    return found


def test_the_consumer_protocol_is_read() -> None:
    subscription = ConsumerProtocolSubscription(topics=("orders",)).encode_prefixed(version=1)
    assignment = ConsumerProtocolAssignment().encode_prefixed(version=0)
    shown = group(subscription, assignment)
    assert shown["subscription"] == {"topics": ["orders"], "userData": None, "ownedPartitions": []}
    assert shown["assignment"] == {"assignedPartitions": [], "userData": None}


def test_what_is_no_consumer_protocol_stays_base64() -> None:
    subscription = ConsumerProtocolSubscription(topics=("orders",)).encode_prefixed(version=1)
    assert group(subscription, b"", "connect")["subscription"] == b64encode(subscription).decode()
    for raw in (b"", b"\0", b"\0\x63rest", b"\0\1\0\0\0\xff"):
        shown = group(raw, subscription[:4])
        assert (shown["subscription"], shown["assignment"]) == (
            b64encode(raw).decode(),
            b64encode(subscription[:4]).decode(),
        )


def test_what_is_no_consumer_protocol_has_its_reason() -> None:
    subscription = ConsumerProtocolSubscription(topics=("orders",)).encode_prefixed(version=1)
    assert problem_of(subscription) is None
    assert problem_of(b"") is None
    cut = problem_of(subscription[:-4], b"\0")
    assert cut is not None
    assert cut.startswith("subscription of member 'm': ConsumerProtocolSubscription v1, owned_partitions: at byte ")
    assert "; assignment of member 'm': " in cut
    assert "ConsumerProtocolSubscription has no version -1; it has 0-3" in (
        problem_of(b"\xff\xff" + subscription[2:]) or ""
    )


def test_a_version_above_the_highest_is_read_as_the_highest() -> None:
    """As Java's `ConsumerProtocol` reads a subscription of a newer client; its bytes stay, as in Kafka's dump tool."""
    highest = ConsumerProtocolSubscription.spec.valid_versions[-1]
    raw = ConsumerProtocolSubscription(topics=("one", "two"), generation_id=5).encode_prefixed(version=highest)
    raw = b"\0\x09" + raw[2:] + b"of a newer version"
    shown = group(raw, b"")
    assert shown["subscription"] == b64encode(raw).decode()
    found: Any = shown["subscriptionDecoded"]
    assert (found["version"], found["data"]["topics"], found["data"]["generationId"]) == (9, ["one", "two"], 5)
    assert problem_of(raw) is None


@pytest.mark.parametrize("raw", [b"", b"\0\x63rest"])
def test_what_is_no_subscription_leaves_the_assignment_alone(raw: bytes) -> None:
    shown = group(raw, ConsumerProtocolAssignment().encode_prefixed(version=0))
    assert shown["subscription"] == b64encode(raw).decode()
    assert shown["assignment"] == {"assignedPartitions": [], "userData": None}


def test_secrets_are_shown_when_asked_for() -> None:
    found = Decoded("ConfigRecord", 0, ConfigRecord(name="ssl.key.password", value="hunter2"))
    assert found.secret
    assert found.to_json()["data"]["value"] == "[redacted]"
    assert found.to_json(show_secrets=True)["data"]["value"] == "hunter2"
    plain = Decoded("ConfigRecord", 0, ConfigRecord(name="retention.ms", value="1"))
    assert len({found, plain, plain}) == 2, "values are compared, and do not change"
    assert not plain.secret
    assert plain.to_json()["data"]["value"] == "1"


def test_problems_and_versions() -> None:
    value = TransactionLogValue(producer_id=5)
    raw = value.encode_prefixed(version=1)
    assert decode(TransactionLogValue, raw + b"more", 1, 2) == Decoded("TransactionLogValue", 1, value)
    for version, problem in ((99, "has no version 99"), (0, "TransactionLogValue v0")):
        found = decode(TransactionLogValue, raw[:5], version, 2)
        assert (found.name, found.version, found.message) == ("TransactionLogValue", version, None)
        assert found.to_json() == {
            "name": "TransactionLogValue",
            "version": version,
            "data": None,
            "problem": found.problem,
        }
        assert problem in str(found.problem)
    assert "problem" not in Decoded("TransactionLogValue", 1, value).to_json()


def test_unknown_tags_are_shown() -> None:
    """As the command line shows them: nothing of a record is left out."""
    raw = TransactionLogValue(producer_id=5).encode_prefixed(version=1)
    tagged = raw[:-1] + b"\x01\x14\x02hi"
    found = decode(TransactionLogValue, tagged, 1, 2)
    assert found.to_json()["data"]["_unknownTaggedFields"] == [[20, "aGk="]]


@pytest.mark.parametrize(
    ("data", "number"), [(None, None), (b"", None), (b"\1", None), (b"\1\2", 258), (b"\xff\xfe", -2)]
)
def test_the_number_in_front(data: bytes | None, number: int | None) -> None:
    assert int16(data) == number
