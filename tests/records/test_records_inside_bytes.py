"""What is inside of fields with bytes: the table, its formats, and any bytes at all."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import embedded, messages
from kafkawire.embedded import (
    AssignmentInfo,
    ConnectAssignment,
    ConnectWorkerState,
    CooperativeStickyAssignorUserData,
    StickyAssignorUserData,
    SubscriptionInfoData,
)
from kafkawire.embedded.connect_assignment import ConnectorTasks
from kafkawire.embedded.sticky_assignor_user_data import TopicAssignment
from kafkawire.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DefaultPrincipalData,
)
from kafkawire.records import Decoded, inside_bytes
from kafkawire.records.inside_bytes import (
    ADDRESS,
    ASSIGNMENT,
    BY_ASSIGNOR,
    BY_TYPE,
    CONTENTS,
    FORMATS,
    PLAIN_BYTES,
    PRINCIPAL,
    SUBSCRIPTION,
    SUBSCRIPTION_DATA,
    TEXT,
    Format,
    add_decoded,
    inside,
)
from kafkawire.wire.json_form import to_json
from kafkawire.wire.registry import Registry

REGISTRIES: tuple[Registry, ...] = (messages.REGISTRY, embedded.REGISTRY)


def bytes_fields(spec: Any, above: str = "") -> Iterator[str]:
    for field in spec.fields:
        if field.type == "bytes":
            yield above + field.json_name
        elif field.struct is not None:
            yield from bytes_fields(field.struct.spec, f"{above}{field.json_name}.")


@pytest.mark.slow
def test_every_field_with_bytes_is_in_one_table() -> None:
    """A field that a new release adds has to be put into one of them."""
    fields = {
        (entry.name, path)
        for registry in REGISTRIES
        for entry in registry
        for path in bytes_fields(registry.load(entry).spec)
    }
    decoded = {(name, path) for name, contents in CONTENTS.items() for path in contents}
    plain = {(name, path) for name, paths in PLAIN_BYTES.items() for path in paths}
    assert not decoded & plain
    assert decoded | plain == fields


def test_names_of_messages_are_unique() -> None:
    assert not messages.REGISTRY.entries.keys() & embedded.REGISTRY.entries.keys()


def test_every_content_has_a_format() -> None:
    contents = {content for fields in CONTENTS.values() for content in fields.values()}
    assert contents == {*FORMATS, *BY_TYPE, *BY_ASSIGNOR}


def test_keys_of_assignors_are_fields() -> None:
    for name, key in inside_bytes.ASSIGNOR_KEYS.items():
        spec = messages.REGISTRY.load(messages.REGISTRY.entries[name]).spec
        assert key in set(texts(spec)), name


def texts(spec: Any) -> Iterator[str]:
    for field in spec.fields:
        yield field.json_name
        if field.struct is not None:
            yield from texts(field.struct.spec)


# The consumer protocol ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ConsumerProtocolSubscription.spec.valid_versions)
def test_subscriptions_of_each_version(version: int) -> None:
    message = ConsumerProtocolSubscription(topics=("orders", "bills"))
    found = inside(SUBSCRIPTION, message.encode_prefixed(version), "consumer")
    assert found.to_json() == {
        "name": "ConsumerProtocolSubscription",
        "version": version,
        "data": to_json(message, version),
    }


def test_a_newer_version_is_read_as_the_highest() -> None:
    raw = b"\0\x09" + ConsumerProtocolSubscription(topics=("a",)).encode(3) + b"more"
    found = inside(SUBSCRIPTION, raw, "consumer")
    assert (found.version, found.data["topics"], found.problem) == (9, ["a"], None)
    assert found.note == "version 9 was read as 3, the highest that is known; 4 bytes left over behind the message"


def test_a_message_that_ends_early_is_shown_up_to_there() -> None:
    raw = ConsumerProtocolSubscription(topics=("orders",), generation_id=5).encode_prefixed(2)[:-2]
    found = inside(SUBSCRIPTION, raw, "consumer").to_json()
    assert found["data"]["topics"] == ["orders"]
    assert found["problem"].startswith("ConsumerProtocolSubscription v2, generation_id: at byte ")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"\0", "no version at its beginning"),
        (b"\xff\xfe\0\0", "ConsumerProtocolSubscription has no version -2; it has 0-3"),
    ],
)
def test_what_has_no_version_has_a_reason(raw: bytes, problem: str) -> None:
    assert inside(SUBSCRIPTION, raw, "consumer").problem == problem


def test_protocol_types_that_are_not_known() -> None:
    found = inside(SUBSCRIPTION, b'{"version":1}', "sr")
    assert found.to_json() == {
        "name": None,
        "version": None,
        "data": None,
        "problem": "the subscription of protocol type 'sr' is not known; of connect, consumer it is",
    }


# Without a protocol type ----------------------------------------------------------------------------------------------

WORKER = ConnectWorkerState(url="http://w:8083/", config_offset=7)
TASKS = ConnectAssignment(
    leader="w-1", leader_url="http://w:8083/", config_offset=7, assignment=(ConnectorTasks("sink", (-1, 0)),)
)


@pytest.mark.parametrize(
    ("content", "message", "version"),
    [
        (SUBSCRIPTION, ConsumerProtocolSubscription(topics=("orders",)), 0),
        (SUBSCRIPTION, ConsumerProtocolSubscription(), 3),
        (ASSIGNMENT, ConsumerProtocolAssignment(), 0),
        (SUBSCRIPTION, WORKER, 0),
        (SUBSCRIPTION, WORKER, 2),
        (ASSIGNMENT, TASKS, 0),
        (ASSIGNMENT, TASKS, 1),
    ],
)
def test_the_only_layout_that_fits(content: str, message: Any, version: int) -> None:
    found = inside(content, message.encode_prefixed(version))
    assert (found.name, found.version, found.problem) == (message.spec.name, version, None)
    assert found.data == to_json(message, version)
    assert found.note == "the message does not state the protocol type; the bytes fit this layout alone"


@pytest.mark.parametrize("raw", [b"\0", b'{"version":1}', b"\0\0\0\0\0\0\xff\xff\xff\xff more"])
def test_bytes_that_fit_no_layout(raw: bytes) -> None:
    found = inside(SUBSCRIPTION, raw)
    assert (found.name, found.data) == (None, None)
    assert found.problem == ("the message does not state the protocol type, and the bytes fit no layout that is known")


def test_bytes_that_fit_several_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = BY_TYPE[ASSIGNMENT]["consumer"]
    # A layout that the same bytes fit.
    twice = {"consumer": consumer, "other": Format("int16", "ConsumerProtocolSubscription")}
    monkeypatch.setitem(inside_bytes.BY_TYPE, ASSIGNMENT, twice)
    found = inside(ASSIGNMENT, ConsumerProtocolAssignment().encode_prefixed(0))
    assert found.data is None
    assert str(found.problem).endswith("and the bytes fit more than one layout that is known")


# Inside of what is inside ---------------------------------------------------------------------------------------------


def decoded_user_data(message: Any, assignor: str | None, raw: bytes) -> dict[str, Any]:
    body = to_json(message(user_data=raw), 0)
    add_decoded(message.spec.name, body, assignor=assignor)
    assert body["userData"] == b64encode(raw).decode()
    found: dict[str, Any] = body["userDataDecoded"]
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_user_data_of_the_sticky_assignor(version: int) -> None:
    data = StickyAssignorUserData(previous_assignment=(TopicAssignment("orders", (1, 2)),), generation=4 * version - 1)
    found = decoded_user_data(ConsumerProtocolSubscription, "sticky", data.encode(version))
    assert (found["version"], found["data"]) == (version, to_json(data, version))


def test_user_data_of_kafka_pythons_sticky_assignor() -> None:
    """It has a version in front, unlike Java's."""
    data = StickyAssignorUserData(previous_assignment=(TopicAssignment("orders", (1, 2)),), generation=4)
    found = decoded_user_data(ConsumerProtocolSubscription, "sticky", data.encode_prefixed(1))
    assert found == {"name": "StickyAssignorUserData", "version": 1, "data": to_json(data, 1)}


def test_user_data_of_the_cooperative_sticky_assignor() -> None:
    raw = CooperativeStickyAssignorUserData(generation=6).encode(0)
    found = decoded_user_data(ConsumerProtocolSubscription, "cooperative-sticky", raw)
    assert found == {"name": "CooperativeStickyAssignorUserData", "version": 0, "data": {"generation": 6}}


@pytest.mark.parametrize("message", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
@pytest.mark.parametrize("topics", [(), (TopicAssignment("orders", (2, 3)),)])
def test_user_data_of_librdkafkas_cooperative_sticky_assignor(message: Any, topics: Any) -> None:
    """It is that of sticky, and is in assignments too, whose messages do not name the assignor before version 5."""
    data = StickyAssignorUserData(previous_assignment=topics, generation=2)
    named = {"name": "StickyAssignorUserData", "version": 1, "data": to_json(data, 1)}
    assert decoded_user_data(message, "cooperative-sticky", data.encode(1)) == named
    note = "the message does not state the assignor; the bytes fit this layout alone"
    assert decoded_user_data(message, None, data.encode(1)) == named | {"note": note}


#: What the classes of Kafka 4.3.1 write: Connect's and consumers' assignors.
JAVA = {
    ("connect", SUBSCRIPTION, 0): "0000000e687474703a2f2f773a383038332f0000000000000007",
    ("connect", SUBSCRIPTION, 1): "0001000e687474703a2f2f773a383038332f0000000000000007ffffffff",
    ("connect", SUBSCRIPTION, 2): (
        "0002000e687474703a2f2f773a383038332f00000000000000070000004c000200000003772d31000e687474703a2f2f773a383038332f"
        "000000000000000700000001000473696e6b00000002ffffffff000000000000000100036f6c640000000100000003000493e0"
    ),
    ("connect", ASSIGNMENT, 0): (
        "000000000003772d31000e687474703a2f2f773a383038332f000000000000000700000001000473696e6b00000002ffffffff00000000"
    ),
    ("connect", ASSIGNMENT, 2): (
        "000200000003772d31000e687474703a2f2f773a383038332f000000000000000700000001000473696e6b00000002ffffffff00000000"
        "0000000100036f6c640000000100000003000493e0"
    ),
    ("sticky", SUBSCRIPTION_DATA, 1): "0000000100066f726465727300000002000000010000000200000004",
    ("cooperative-sticky", SUBSCRIPTION_DATA, 0): "00000006",
}


@pytest.mark.parametrize(("name", "content", "version"), JAVA)
def test_what_java_writes(name: str, content: str, version: int) -> None:
    raw = bytes.fromhex(JAVA[name, content, version])
    found = inside(content, raw, protocol_type=name, assignor=name)
    assert (found.version, found.problem, found.note) == (version, None, None)
    data = found.data
    if content == SUBSCRIPTION_DATA:
        previous = [{"topic": "orders", "partitions": [1, 2]}]
        assert data == ({"generation": 6} if version == 0 else {"previousAssignment": previous, "generation": 4})
        return
    assert (data.get("url") or data["leaderUrl"], data["configOffset"]) == ("http://w:8083/", 7)
    if content == SUBSCRIPTION and version == 2:
        add_decoded(str(found.name), data)
        data = data["allocationDecoded"]["data"]
    if "assignment" in data:
        assert data["assignment"] == [{"connector": "sink", "tasks": [-1, 0]}]
        if version:
            assert data["revoked"] == [{"connector": "old", "tasks": [3]}]
            assert data["scheduledDelay"] == 300_000


@pytest.mark.parametrize("version", SubscriptionInfoData.spec.valid_versions)
def test_user_data_of_kafka_streams(version: int) -> None:
    end_point = b"host:80" if version >= 2 else b""
    data = SubscriptionInfoData(version=version, user_end_point=end_point)
    found = decoded_user_data(ConsumerProtocolSubscription, "stream", data.encode(version))
    assert (found["version"], found.get("problem")) == (version, None)
    if version >= 2:
        assert found["data"].pop("userEndPointDecoded") == {"name": "text", "version": None, "data": "host:80"}
    assert found["data"] == to_json(data, version)
    info = AssignmentInfo(version=version)
    found = decoded_user_data(ConsumerProtocolAssignment, "stream", info.encode(version))
    assert (found["version"], found["data"], found.get("problem")) == (version, to_json(info, version), None)


def test_user_data_of_newer_kafka_streams_has_a_reason() -> None:
    found = decoded_user_data(ConsumerProtocolSubscription, "stream", bytes((0, 0, 0, 12, 0, 0, 0, 12)))
    assert found["problem"] == "SubscriptionInfoData has no version 12; it has 1-11"
    assert decoded_user_data(ConsumerProtocolSubscription, "stream", b"\0")["problem"] == "no version at its beginning"


@pytest.mark.parametrize(
    ("assignor", "problem"),
    [
        (None, "the message does not state the assignor, and the bytes fit no layout that is known"),
        (
            "mine",
            "the user data of a subscription of assignor 'mine' is not known; of cooperative-sticky, sticky, stream it "
            "is",
        ),
    ],
)
def test_user_data_of_other_assignors_has_a_reason(assignor: str | None, problem: str) -> None:
    found = decoded_user_data(ConsumerProtocolSubscription, assignor, b"any")
    assert (found["data"], found["problem"]) == (None, problem)


def test_what_a_worker_of_connect_runs() -> None:
    state = ConnectWorkerState(url="http://w:8083/", config_offset=7, allocation=TASKS.encode_prefixed(2))
    found = inside(SUBSCRIPTION, state.encode_prefixed(2), "connect")
    add_decoded(str(found.name), found.data)
    assert found.data["allocationDecoded"] == {"name": "ConnectAssignment", "version": 2, "data": to_json(TASKS, 2)}


# Other contents -------------------------------------------------------------------------------------------------------


def test_texts_addresses_and_principals() -> None:
    assert inside(TEXT, b"n,,n=ann,r=x").data == "n,,n=ann,r=x"
    assert inside(TEXT, b"\x60\x82").problem == "no text: at byte 1: not UTF-8"
    assert inside(ADDRESS, bytes((10, 0, 0, 1))).data == "10.0.0.1"
    assert inside(ADDRESS, bytes(15) + b"\1").data == "::1"
    assert inside(ADDRESS, b"\1").problem == "1 bytes, where an address has 4 or 16"
    principal = DefaultPrincipalData(type="User", name="ann")
    assert inside(PRINCIPAL, principal.encode_prefixed(0)).data["name"] == "ann"
    newer = inside(PRINCIPAL, b"\0\5" + principal.encode(0))
    assert newer.problem == "DefaultPrincipalData has no version 5; it has 0", "Java refuses it, too"


def test_what_is_not_decoded_has_a_reason() -> None:
    body = {"compressionType": 0, "metrics": "AAAA"}
    add_decoded("PushTelemetryRequest", body)
    assert body["metricsDecoded"] == {  # type: ignore[comparison-overlap]
        "name": "MetricsData",
        "version": None,
        "data": None,
        "problem": "metrics of OpenTelemetry, in protobuf, of which Kafka has no schema; decompressed as "
        "compressionType states they are a MetricsData of opentelemetry-proto",
    }


@pytest.mark.parametrize("value", ["", None, "[redacted]"])
def test_nothing_is_beside_what_is_not_shown(value: str | None) -> None:
    body = {"authBytes": value}
    add_decoded("SaslAuthenticateRequest", body)
    assert body == {"authBytes": value}


@pytest.mark.slow
@given(
    st.sampled_from(sorted({content for fields in CONTENTS.values() for content in fields.values()})),
    st.sampled_from([None, "", "consumer", "connect", "other"]),
    st.sampled_from([None, "sticky", "cooperative-sticky", "stream", "range"]),
    st.sampled_from([b"", b"\0\0", b"\0\1", b"\0\0\0\1", b"\0\0\0\x0b"]),
    st.binary(max_size=200),
)
def test_any_bytes_give_a_value_or_a_reason(
    content: str, kind: str | None, assignor: str | None, front: bytes, raw: bytes
) -> None:
    found = inside(content, front + raw, kind, assignor)
    assert found.data is not None or found.problem
    if found.name is not None and isinstance(found.data, dict):
        add_decoded(found.name, found.data, protocol_type=kind, assignor=assignor)


def test_contents_of_messages_are_those_of_dump() -> None:
    """`dump` shows Connect's bytes beside the base64, and the consumer's in its place, as Kafka's tool does."""
    member = messages.group_metadata_value.MemberMetadata(subscription=WORKER.encode_prefixed(1))
    value = messages.GroupMetadataValue(protocol_type="connect", protocol="sessioned", members=(member,))
    (shown,) = Decoded("GroupMetadataValue", 3, value).to_json()["data"]["members"]
    assert shown["subscription"] == b64encode(WORKER.encode_prefixed(1)).decode()
    assert shown["subscriptionDecoded"]["data"]["url"] == "http://w:8083/"
