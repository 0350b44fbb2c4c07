"""What is inside of bytes, as the plugin shows it and as captures do: one table (`records.inside_bytes`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, embedded, messages
from kafkawire.embedded import AssignmentInfo, ConnectAssignment, ConnectWorkerState, StickyAssignorUserData
from kafkawire.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkawire.messages.consumer_protocol_subscription import TopicPartition
from kafkawire.messages.join_group_request import JoinGroupRequestProtocol
from kafkawire.messages.join_group_response import JoinGroupResponseMember
from kafkawire.messages.sync_group_request import SyncGroupRequestAssignment
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.wireshark import mutants, tshark
from tools.recordings.archive import unpacked

pytestmark = [tshark.needs_tshark, pytest.mark.slow]

APIS = ("JoinGroup", "SyncGroup", "DescribeGroups")
OWNED = (TopicPartition(topic="orders", partitions=(0, 1)),)
STICKY = StickyAssignorUserData(generation=4).encode(1)
SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=("orders",), user_data=STICKY, owned_partitions=OWNED, generation_id=4, rack_id="a"
).encode_prefixed(3)
ASSIGNMENT = ConsumerProtocolAssignment(user_data=STICKY).encode_prefixed(1)
NEWER = (9).to_bytes(2, "big") + SUBSCRIPTION[2:] + b"more"
WORKER = ConnectWorkerState(url="http://w:8083").encode_prefixed(2)
CONNECT = ConnectAssignment(leader="w-1").encode_prefixed(1)
STREAMS = ConsumerProtocolAssignment(user_data=AssignmentInfo(version=11).encode(11)).encode_prefixed(1)


def joined(kind: str, assignor: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g", protocol_type=kind, protocols=(JoinGroupRequestProtocol(name=assignor, metadata=metadata),)
    )


def conversation() -> Conversation:
    """Members of every kind, and bytes that are none of them."""
    talk = Conversation()
    number = 0

    def exchange(request: Any, response: Any, version: int) -> None:
        nonlocal number
        number += 1
        talk.request(request, version=version, correlation_id=number)
        talk.response(response, version=version, correlation_id=number)

    for kind, assignor, metadata in (
        ("consumer", "cooperative-sticky", SUBSCRIPTION),
        ("consumer", "cooperative-sticky", NEWER),
        ("consumer", "mine", SUBSCRIPTION),
        ("consumer", "range", b"\0"),
        ("consumer", "range", SUBSCRIPTION[:9]),
        ("connect", "sessioned", WORKER),
        ("other", "x", b"anything"),
    ):
        member = JoinGroupResponseMember(member_id="m", metadata=metadata)
        answer = JoinGroupResponse(protocol_type=kind, protocol_name=assignor, members=(member,))
        exchange(joined(kind, assignor, metadata), answer, 9)
        # Before version 7 of JoinGroup responses, the protocol type is not stated.
        exchange(joined(kind, assignor, metadata), JoinGroupResponse(protocol_name=assignor, members=(member,)), 5)
    for kind, assignor, assignment in (
        ("consumer", "cooperative-sticky", ASSIGNMENT),
        ("connect", "sessioned", CONNECT),
        ("consumer", "stream", STREAMS),
    ):
        given = (SyncGroupRequestAssignment(member_id="m", assignment=assignment),)
        asked = SyncGroupRequest(group_id="g", protocol_type=kind, protocol_name=assignor, assignments=given)
        answer = SyncGroupResponse(protocol_type=kind, protocol_name=assignor, assignment=assignment)
        exchange(asked, answer, 5)
        exchange(SyncGroupRequest(group_id="g", assignments=given), SyncGroupResponse(assignment=assignment), 3)
    return talk


def shown_inside(pairs: Any) -> Iterator[tuple[str, list[Any]]]:
    """Names of messages below the fields of a body in tshark's JSON, from the outside in, and their fields."""
    for place, (key, value) in enumerate(pairs):
        if key == "kafkawire.message":
            key_below, below = pairs[place + 1] if place + 1 < len(pairs) else ("", [])
            yield value, below if key_below == "kafkawire.message_tree" else []
        if isinstance(value, list):
            yield from shown_inside(value)


def decoded_inside(body: Any) -> Iterator[dict[str, Any]]:
    """The messages of a body's JSON that are beside bytes, from the outside in."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body):
        if str(key).endswith("Decoded") and isinstance(value["data"], dict):
            yield value
        if isinstance(value, (dict, list)):
            yield from decoded_inside(value)


def agree(plugin: Path, path: Path) -> list[str]:
    """The plugin shows what is inside of bytes of each body of a capture as its rows do; the names of the messages."""
    rows = [row for row in capture.read(path, body=True) if row.api in APIS]
    ours = [found for row in rows for body in (row.request, row.response) for found in decoded_inside(body or {})]
    bodies = [body for body in tshark.bodies(plugin, path) if body.name.startswith(APIS)]
    theirs = [found for body in bodies for found in shown_inside(body.pairs)]
    assert [found["name"] for found in ours] == [name for name, _ in theirs]
    for found, (name, pairs) in zip(ours, theirs, strict=True):
        spec = getattr(embedded, name, None) or getattr(messages, name)
        if "problem" not in found:
            version = min(found["version"], spec.spec.valid_versions[-1])
            expected = tshark.comparable(found["data"], spec.spec.fields)
            assert tshark.fields_of(pairs, spec.spec.fields, version) == expected
    return [name for name, _ in theirs]


def test_members_of_every_kind(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    path = mutants.write(tmp_path / "groups.pcap", pcap(map(ethernet, conversation().packets)))
    assert Counter(agree(plugin, path)) == {
        "ConsumerProtocolSubscription": 14,
        "StickyAssignorUserData": 11,
        "ConsumerProtocolAssignment": 8,
        "ConnectWorkerState": 4,
        "ConnectAssignment": 4,
        "AssignmentInfo": 4,
    }
    text = tshark.run(plugin, path, "-V", "-O", "kafkawire", "-Y", "kafkawire.not_decoded")
    for why in (
        "the subscription of protocol type other is not known; of connect, consumer it is",
        "the user data of a subscription of assignor mine is not known; of cooperative-sticky, sticky, stream it is",
        "the message does not state the protocol type, and the bytes fit no layout that is known",
        "no version at its beginning",
        "6 bytes of a string are expected, 1 are left",
    ):
        assert f"Expert Info (Note/Undecoded): {why}]" in text
    assert "ConsumerProtocolSubscription v9, read as v3" in tshark.run(plugin, path, "-V", "-Y", "kafkawire.left_over")
    assert "malformed" not in text


def test_filters_find_what_is_inside(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    path = mutants.write(tmp_path / "groups.pcap", pcap(map(ethernet, conversation().packets)))
    asked = ("-T", "fields", "-e", "kafkawire.api")
    found = tshark.run(plugin, path, "-Y", 'kafkawire.consumer_protocol_subscription.rack_id == "a"', *asked)
    assert found.split() == ["JoinGroup"] * 11
    found = tshark.run(plugin, path, "-Y", "kafkawire.sticky_assignor_user_data.generation == 4", *asked)
    assert found.split() == ["JoinGroup"] * 7 + ["SyncGroup"] * 4


@pytest.mark.parametrize("client", ["java-2.4.1", "confluent-kafka-2.16.1", "kafka-python-3.0.12", "kafkajs-2.2.4"])
def test_members_of_real_clients(tmp_path: Path, client: str) -> None:
    found = Counter(agree(tshark.write_plugin(tmp_path), unpacked("client-captures") / f"{client}.pcap"))
    assert min(found["ConsumerProtocolSubscription"], found["ConsumerProtocolAssignment"]) > 0
