"""The mock broker as clients meet it: connections, own messages, versions, faults, hostile input."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import frames, records
from kafkawire.client import Admin, TopicPartition
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    REGISTRY,
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdRequest,
    ListTransactionsRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.records import Record
from kafkawire.testing import Fault, MockBroker
from kafkawire.testing.fixtures import mock_broker  # noqa: F401
from tests import own_schemas
from tests.own_schemas import PING, PONG, with_start_times
from tools.recordings.raw_client import RawCluster

HEARTBEAT = HeartbeatRequest(group_id="g", member_id="m")


class Peer:
    """A blocking connection that sends bytes and reads frames."""

    def __init__(self, broker: MockBroker) -> None:
        host, _, port = broker.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        weakref.finalize(self, self.socket.close)
        self._reader = frames.FrameReader()

    def frame(self) -> bytes | None:
        """The next frame; None at the end of the connection."""
        while True:
            for frame in self._reader.feed(b""):
                return frame
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            for frame in self._reader.feed(data):
                return frame

    def ask(self, body: Any, version: int, registry: Any = REGISTRY) -> Any:
        self.socket.sendall(frames.encode_request(body, version=version, correlation_id=7, client_id="peer"))
        frame = self.frame()
        if frame is None:
            return None
        return frames.decode_response(frame, api_key=type(body).spec.api_key, version=version, registry=registry)


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    with MockBroker({"orders": 2}) as running:
        yield running


@pytest.fixture
def peer(broker: MockBroker) -> Iterator[Peer]:
    found = Peer(broker)
    yield found
    found.socket.close()


# Own messages ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> Any:
    for schema in (PING, PONG):
        (tmp_path / f"{schema['name']}.json").write_text(json.dumps(schema))
    with_start_times(tmp_path)
    return kafkawire.load_schemas(tmp_path)


def test_own_messages_are_served(mine: Any) -> None:
    registry = mine.registry.over(REGISTRY)
    broker = MockBroker(registry=registry)
    broker.on(mine.PingRequest, lambda request: mine.PingResponse(text=request.text.upper()))
    with broker:
        peer = Peer(broker)
        offered = peer.ask(ApiVersionsRequest(), 3).body
        assert (9001, 0, 1) in {(key.api_key, key.min_version, key.max_version) for key in offered.api_keys}
        for version in (0, 1):
            answer = peer.ask(mine.PingRequest(text="hello"), version, registry)
            assert answer.body == mine.PingResponse(text="HELLO")
        peer.socket.close()
    assert [request.body.text for request in broker.requests if request.api_key == 9001] == ["hello", "hello"]


def test_edited_message_keeps_the_brokers_own_answer(mine: Any) -> None:
    registry = mine.registry.over(REGISTRY)
    broker = MockBroker({"orders": 1}, registry=registry)
    key = ListTransactionsRequest.spec.api_key
    assert key is not None
    assert broker.versions[key] == MockBroker().versions[key]
    with broker:
        answer = Peer(broker).ask(mine.ListTransactionsRequest(), broker.versions[key][-1], registry)
    assert answer.body == mine.ListTransactionsResponse()
    assert broker.requests.of(ListTransactionsRequest) == broker.requests.of(mine.ListTransactionsRequest) != []
    assert not broker.refusals


def test_older_release_offers_no_version_of_an_edit(mine: Any) -> None:
    broker = MockBroker(registry=mine.registry.over(REGISTRY), release="3.5")
    assert broker.versions[66] == kafkawire.versions.of("3.5")[66]


def test_own_handler_of_an_edited_message_comes_first(mine: Any) -> None:
    registry = mine.registry.over(REGISTRY)
    broker = MockBroker(registry=registry)
    broker.on(mine.ListTransactionsRequest, lambda _: mine.ListTransactionsResponse(extra=5))
    with broker:
        answer = Peer(broker).ask(mine.ListTransactionsRequest(), broker.versions[66][-1], registry)
    assert answer.body.extra == 5


def test_producer_of_a_broker_with_edited_schemas(tmp_path: Path) -> None:
    """Schemas are edited, codecs made again, and what worked still does: with faults, too."""
    for tag, name in enumerate(("ProduceRequest", "ProduceResponse")):
        schema = own_schemas.shipped(name)
        first, _, last = schema["validVersions"].partition("-")
        schema["validVersions"] = f"{first}-{int(last) + 1}"
        schema["fields"].append(
            {"name": "Extra", "type": "string", "versions": "9+", "taggedVersions": "9+", "tag": tag, "ignorable": True}
        )
        (tmp_path / f"{name}.json").write_text(json.dumps(schema))
    edited = kafkawire.load_schemas(tmp_path)
    registry = edited.registry.over(REGISTRY)
    with MockBroker({"orders": 1}, registry=registry) as broker:
        assert broker.versions[0] == range(3, MockBroker().versions[0].stop + 1)
        version = broker.versions[0][-1]
        broker.change(ProduceRequest, lambda request, response: response.replace(extra=request.extra))
        data = records.build([records.Record(value=b"one")])
        topic_id = Peer(broker).ask(MetadataRequest(topics=None), 12).body.topics[0].topic_id
        topic = edited.ProduceRequest.TopicProduceData(
            topic_id=topic_id, partition_data=(edited.ProduceRequest.PartitionProduceData(records=data),)
        )
        request = edited.ProduceRequest(acks=1, timeout_ms=1000, topic_data=(topic,), extra="seen")
        response = Peer(broker).ask(request, version, registry).body
        assert response.extra == "seen"
        assert response.responses[0].partition_responses[0].error_code == 0
        assert [record.value for record in broker.records("orders")] == [b"one"]
        broker.fault(ProduceRequest, Fault(error=CODES["NOT_LEADER_OR_FOLLOWER"]))
        response = Peer(broker).ask(request, version, registry).body
        assert response.responses[0].partition_responses[0].error_code == CODES["NOT_LEADER_OR_FOLLOWER"]
        broker.answer(ProduceRequest, ProduceResponse(throttle_time_ms=5))
        assert Peer(broker).ask(request, version, registry).body.throttle_time_ms == 5


def test_handler_of_a_test_leaves_requests_to_the_broker(broker: MockBroker, peer: Peer) -> None:
    """As the control functions of franz-go's kfake."""
    seen = []

    def first(request: MetadataRequest) -> MetadataResponse | None:
        seen.append(request)
        return MetadataResponse(cluster_id="mine") if len(seen) == 1 else None

    broker.on(MetadataRequest, first)
    assert peer.ask(MetadataRequest(), 9).body.cluster_id == "mine"
    assert peer.ask(MetadataRequest(), 9).body.cluster_id == "kafkawire-mock"
    broker.change(MetadataRequest, lambda _, response: response.replace(cluster_id="changed"))
    found = peer.ask(MetadataRequest(topics=None), 9).body
    assert found.cluster_id == "changed"
    assert [topic.name for topic in found.topics] == ["orders"]


def test_faults_of_own_messages_have_the_code_where_the_schema_does(mine: Any) -> None:
    broker = MockBroker()
    with pytest.raises(ValueError, match="no answer of its own to PingRequest"):
        broker.change(mine.PingRequest, lambda _, response: response)
    with pytest.raises(ValueError, match="is a response, no request"):
        broker.change(HeartbeatResponse, lambda _, response: response)


def test_handler_is_refused_for_what_no_client_can_send(mine: Any) -> None:
    broker = MockBroker()
    with pytest.raises(ValueError, match="PingRequest with api key 9001 is not in the broker's registry"):
        broker.on(mine.PingRequest, lambda _: mine.PingResponse())
    with pytest.raises(ValueError, match="HeartbeatResponse is a response, no request"):
        broker.on(HeartbeatResponse, lambda body: body)


def test_connection_is_closed_where_a_handler_has_no_valid_response(mine: Any) -> None:
    broker = MockBroker(registry=mine.registry.over(REGISTRY))
    broker.on(mine.PingRequest, lambda _: mine.PingResponse(text="x" * 40_000))
    with broker:
        assert Peer(broker).ask(mine.PingRequest(), 0) is None
        assert "PingRequest: no response" in broker.refusals[0]


# Versions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "fetch", "level"), [("4.4", range(4, 19), 2), ("2.8", range(4, 13), 0)])
def test_offers_the_versions_of_a_release(release: str, fetch: range, level: int) -> None:
    with MockBroker(release=release) as broker:
        answer = Peer(broker).ask(ApiVersionsRequest(), 3).body
    offered = kafkawire.versions.from_response(answer)
    assert offered == broker.versions
    assert offered[1] == fetch
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels == ({"transaction.version": level, "group.version": 1} if level else {})


def test_transaction_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="transaction_version=3"):
        MockBroker(transaction_version=3)


def test_api_versions_of_a_newer_client_is_answered_in_version_0(broker: MockBroker) -> None:
    with RawCluster(broker.address) as client:
        answer = client.connection(-1).ask_api_versions_of_the_future(99)
    assert kafkawire.versions.from_response(answer) == broker.versions


def test_api_versions_above_an_old_release_is_answered_in_version_0() -> None:
    with MockBroker(release="2.8") as broker:
        answer = Peer(broker).ask(ApiVersionsRequest(), 5)
    assert (answer.version, answer.body.error_code) == (0, 35)


def test_connection_is_closed_for_a_version_that_is_not_offered() -> None:
    with MockBroker(release="2.8") as broker:
        assert Peer(broker).ask(MetadataRequest(), 12) is None
        assert broker.refusals == type(broker.refusals)(["MetadataRequest version 12 is not offered"], 100)


# Scripts and faults ---------------------------------------------------------------------------------------------------


def test_scripted_answers_come_in_order_and_then_the_broker_answers(broker: MockBroker, peer: Peer) -> None:
    broker.answer(HeartbeatRequest, HeartbeatResponse(error_code=27), times=2)
    broker.answer(HeartbeatRequest, lambda request: HeartbeatResponse(throttle_time_ms=len(request.group_id)))
    answers = [peer.ask(HEARTBEAT, 4).body for _ in range(4)]
    assert [(answer.error_code, answer.throttle_time_ms) for answer in answers] == [(27, 0), (27, 0), (0, 1), (25, 0)]


def test_scripted_bytes_are_sent_as_they_are(broker: MockBroker, peer: Peer) -> None:
    broker.answer(HeartbeatRequest, b"\0\0\0\4\0\0\0\7")
    undecoded = peer.ask(HEARTBEAT, 4)
    assert isinstance(undecoded, frames.UndecodedResponse)
    assert undecoded.raw == b"\0\0\0\7"


def test_answer_for_all_requests_lasts_until_it_is_cleared(broker: MockBroker, peer: Peer) -> None:
    broker.answer(HeartbeatRequest, HeartbeatResponse(error_code=27), times=None)
    assert {peer.ask(HEARTBEAT, 4).body.error_code for _ in range(3)} == {27}
    broker.clear_script()
    assert peer.ask(HEARTBEAT, 4).body.error_code == 25
    with pytest.raises(ValueError, match="times=0"):
        broker.answer(HeartbeatRequest, HeartbeatResponse(), times=0)


@pytest.mark.parametrize("there", [False, True], ids=["no topic", "a topic"])
def test_fault_error_is_the_answer_of_every_request(broker: MockBroker, peer: Peer, *, there: bool) -> None:
    """Each request that the broker offers can fail, in each version; nothing is carried out."""
    if there:
        broker.create_topic("x")
    before = _state(broker, peer)
    for key, versions in broker.versions.items():
        request = kafkawire.lookup(api_key=key, kind="request", family="rpc")
        for version in versions:
            broker.fault(request, Fault(error=29))
            filled = _with_one_of_each(request, version)
            answer = peer.ask(filled, version)
            assert answer is not None, (request, version, broker.refusals)
            assert 29 in _error_codes(answer.body), (request, version)
    assert _state(broker, peer) == before
    # Without a fault, the same requests change each part of it. A group with a member refuses the offset.
    for request, version in ((MetadataRequest, 12), (InitProducerIdRequest, 4), (OffsetCommitRequest, 8)):
        peer.ask(_with_one_of_each(request, version), version)
    changed = [now != then for now, then in zip(_state(broker, peer), before, strict=True)]
    assert changed == [not there, True, True]


def _state(broker: MockBroker, peer: Peer) -> tuple[Any, ...]:
    """The topics, the transactions and the committed offsets of group x that clients see."""
    topics = peer.ask(MetadataRequest(topics=None), 12).body.topics
    return topics, peer.ask(ListTransactionsRequest(), 1).body, broker.committed("x")


def _with_one_of_each(kind: type[Any], version: int) -> Any:
    """A value with one element in each array of structs, a name in each string but the id of a member,
    who has to be new, timeouts of a minute, and acknowledgements."""
    values: dict[str, Any] = {}
    for field in kind.spec.fields:
        if field.struct and version in field.versions:
            element = _with_one_of_each(field.struct, version)
            values[field.attribute] = (element,) if field.is_array else element
        elif (
            field.is_array
            and version in field.versions
            and field.attribute.startswith(("partition", "coord", "trans", "group"))
        ):
            values[field.attribute] = ("x",) if "string" in field.type else (0,)
        elif field.type == "string" and version in field.versions and field.attribute != "member_id":
            values[field.attribute] = "x"
        elif field.attribute.endswith("timeout_ms") and version in field.versions:
            values[field.attribute] = 60_000
        elif field.attribute == "acks":
            values["acks"] = 1
    return kind(**values)


def _error_codes(value: Any) -> set[int]:
    found: set[int] = set()
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if name.endswith("error_code"):
            found.add(item)
        for part in item if isinstance(item, tuple) else (item,):
            if hasattr(part, "__struct_fields__") and hasattr(part, "spec"):
                found |= _error_codes(part)
    return found


@pytest.mark.parametrize(
    ("given", "error"),
    [({"drop": "later"}, "drop='later'"), ({"delay_s": -1}, "delay_s=-1"), ({"reset": True}, "reset=True needs drop")],
)
def test_fault_that_would_not_happen_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Fault(**given)


def test_dropped_request_is_not_carried_out_and_a_dropped_response_is(broker: MockBroker) -> None:
    broker.fault(None, Fault(drop="before"))
    broker.fault(None, Fault(drop="after", reset=True))
    for topic in ("before", "after"):
        peer = Peer(broker)
        assert peer.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12) is None
        peer.socket.close()
    assert broker.records("after") == []
    with pytest.raises(LookupError, match="no partition before-0"):
        broker.records("before")


def test_wrong_correlation_id_silence_and_delay(broker: MockBroker, peer: Peer) -> None:
    broker.fault(HeartbeatRequest, Fault(wrong_correlation_id=True, delay_s=0.001))
    assert peer.ask(HEARTBEAT, 4).header.correlation_id == 8
    broker.fault(HeartbeatRequest, Fault(silent=True))
    peer.socket.sendall(frames.encode_request(HEARTBEAT, version=4, correlation_id=1))
    assert peer.ask(MetadataRequest(topics=()), 12).header.correlation_id == 7  # the connection stayed open
    assert len(broker.requests.of(HeartbeatRequest)) == 2


# Hostile input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the size of a frame"),
        (b"\x7f\xff\xff\xff", "the size of a frame"),
        (b"\xff\xff\xff\xff", "the size of a frame"),
        (b"\0\0\0\2\0\0", "too few for a request header"),
        (b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff", "no request is known with api key 32767"),
        (b"\0\0\0\x0a\0\3\0\x0c\0\0\0\1\xff\xff", "RequestHeader v2"),
        (b"\0\0\0\x0b\0\3\0\x0c\0\0\0\1\xff\xff\0", "MetadataRequest v12"),
    ],
)
def test_rubbish_closes_the_connection(broker: MockBroker, peer: Peer, data: bytes, reason: str) -> None:
    peer.socket.sendall(data)
    assert peer.frame() is None
    assert reason in broker.refusals[0]
    again = Peer(broker)
    assert again.ask(MetadataRequest(topics=()), 12).body.brokers  # others are served
    again.socket.close()


def test_size_of_requests_and_number_of_connections_are_limited() -> None:
    with MockBroker(max_request_bytes=1000, max_connections=1) as broker:
        peer = Peer(broker)
        assert isinstance(peer.ask(MetadataRequest(topics=()), 12).body, MetadataResponse)
        assert Peer(broker).frame() is None
        peer.socket.sendall((1001).to_bytes(4))
        assert peer.frame() is None
        crowded, large = broker.refusals
        assert crowded == "more than 1 connections"
        assert large.endswith("the size of a frame, 0 to 1000, found 1001")


def test_kept_requests_are_bounded_by_their_bytes(broker: MockBroker, peer: Peer) -> None:
    for _ in range(20):
        peer.ask(HeartbeatRequest(group_id="g" * 30_000), 3)
    assert len(broker.requests) == 20
    broker.requests._max_bytes = 100_000
    peer.ask(HEARTBEAT, 3)
    assert len(broker.requests) == 4


# Running --------------------------------------------------------------------------------------------------------------


def test_listens_on_loopback_and_stops(broker: MockBroker) -> None:
    host, _, port = broker.address.rpartition(":")
    assert host == "127.0.0.1"
    broker.__exit__(None, None, None)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.address
    broker.__enter__()  # runs again, with what it had
    assert broker.records("orders") == []


def test_occupied_address_is_the_caller_s_error(broker: MockBroker) -> None:
    port = int(broker.address.rpartition(":")[2])
    with pytest.raises(OSError, match=str(port)), MockBroker(port=port):
        pass


def test_dropped_connections_can_be_opened_again(broker: MockBroker, peer: Peer) -> None:
    peer.ask(ApiVersionsRequest(), 3)
    broker.drop_connections()
    assert peer.frame() is None
    assert isinstance(Peer(broker).ask(ApiVersionsRequest(), 3).body, ApiVersionsResponse)


def test_two_brokers_and_threads_are_independent() -> None:
    with MockBroker({"a": 1}) as one, MockBroker({"a": 1}) as other:
        threads = [threading.Thread(target=one.append, args=("a", 0, [Record(value=b"x")])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [record.offset for record in one.records("a")] == list(range(8))
        assert other.records("a") == []


@pytest.mark.slow
def test_client_of_this_package_finds_a_hanging_transaction() -> None:
    """Without verification a late batch opens a transaction that no coordinator knows."""

    async def run() -> None:
        async with MockBroker({"orders": 1}, verify_transactions=False) as broker:
            await asyncio.to_thread(_write_late, broker.address)
            async with Admin.connect(broker.address) as admin:
                place = TopicPartition("orders", 0)
                search = await admin.find_hanging_transactions()
                assert [(one.verdict, one.topic, one.start_offset) for one in search.findings] == [
                    ("hanging", "orders", 0)
                ]
                (state,) = (await admin.describe_producers([place]))[place]
                assert state.transaction_start_offset == 0
                await admin.abort_transaction(place, start_offset=0)
                offsets = (await admin.offsets([place]))[place]
                assert (offsets.last_stable_offset, offsets.high_watermark) == (2, 2)

    asyncio.run(run())


def _write_late(address: str) -> None:
    with RawCluster(address) as client:
        producer = client.init_producer("late")
        client.produce("orders", 0, [b"lost"], producer, timestamp=int(time.time() * 1000) - 3_600_000)


def test_fixture_is_a_running_broker(mock_broker: MockBroker) -> None:  # noqa: F811
    with RawCluster(mock_broker.address) as client:
        assert client.metadata(["missing"]).topics[0].error_code == 3


def test_appended_records_have_a_time(broker: MockBroker) -> None:
    before = time.time_ns() // 1_000_000
    broker.append("orders", 0, [records.Record(value=b"a"), records.Record(value=b"b", timestamp=5)])
    first, second = broker.records("orders")
    assert before <= first.timestamp <= time.time_ns() // 1_000_000
    assert second.timestamp == 5
