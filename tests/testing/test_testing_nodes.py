"""A mock cluster of several nodes: leaders and coordinators move, nodes stop and come back; own handlers for a node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire import frames, records
from kafkawire.client import Cluster, Config
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kafkawire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition, OffsetForLeaderTopic
from kafkawire.testing import Fault, MockBroker

TIMEOUT_S = 20
NOT_LEADER, FENCED, UNKNOWN_EPOCH = (
    CODES[name] for name in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
)


def produce(value: bytes, partition: int = 0) -> ProduceRequest:
    data = records.build([records.Record(value=value)], timestamp=5)
    place = ProduceRequest.PartitionProduceData(index=partition, records=data)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=(place,))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))


def fetch(epoch: int) -> FetchRequest:
    part = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, topics=(FetchTopic(topic="orders", partitions=(part,)),))


def code_of(response: Any) -> int:
    (topic,) = response.responses
    part = getattr(topic, "partitions", None) or topic.partition_responses
    return int(part[0].error_code)


async def asked(cluster: Cluster, request: Any, **where: Any) -> Any:
    return await cluster.ask(request, timeout_s=TIMEOUT_S, **where)


async def raw(broker: MockBroker, node: int, request: Any, version: int) -> Any:
    """The answer of one node, which nothing repeats."""
    host, _, port = broker.addresses[node].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(frames.encode_request(request, version=version, correlation_id=7))
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    finally:
        writer.close()
    found = frames.decode_response(data, api_key=type(request).spec.api_key, version=version)
    assert isinstance(found, frames.Response)
    return found.body


def test_partitions_and_coordinators_are_spread() -> None:
    async def run() -> None:
        async with MockBroker({"orders": 4}, nodes=3) as broker, Cluster(Config.of(broker.address)) as cluster:
            found = await asked(cluster, MetadataRequest(topics=None))
            assert {one.node_id: f"{one.host}:{one.port}" for one in found.brokers} == broker.addresses
            (topic,) = found.topics
            assert [part.leader_id for part in topic.partitions] == [1, 2, 3, 1]
            assert [broker.leader("orders", number) for number in range(4)] == [1, 2, 3, 1]
            assert topic.partitions[0].replica_nodes == topic.partitions[0].isr_nodes == (1, 2, 3)
            keys = tuple(f"group-{number}" for number in range(30))
            answer = await asked(cluster, FindCoordinatorRequest(coordinator_keys=keys))
            assert {one.node_id for one in answer.coordinators} == {1, 2, 3}

    asyncio.run(run())


def test_requests_go_to_the_new_leader() -> None:
    async def run() -> None:
        async with MockBroker({"orders": 1}, nodes=2) as broker, Cluster(Config.of(broker.address)) as cluster:
            await asked(cluster, produce(b"one"), topic="orders")
            broker.move_leader("orders", 0, 2)
            assert code_of(await asked(cluster, produce(b"two"), topic="orders")) == 0  # the client looks again
            assert len(broker.requests.of(ProduceRequest, node=2)) == 1
            refused = await raw(broker, 1, produce(b"three"), 11)
            part = refused.responses[0].partition_responses[0]
            assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (
                NOT_LEADER,
                2,
                1,
            )
            assert [record.value for record in broker.records("orders")] == [b"one", b"two"]

    asyncio.run(run())


def test_leader_epochs() -> None:
    async def run() -> None:
        async with MockBroker({"orders": 1}, nodes=2) as broker, Cluster(Config.of(broker.address)) as cluster:
            await asked(cluster, produce(b"one"), topic="orders")
            broker.move_leader("orders", 0, 2)
            broker.move_leader("orders", 0, 1)
            await asked(cluster, produce(b"two"), topic="orders")
            for epoch, error in ((1, FENCED), (3, UNKNOWN_EPOCH), (2, 0)):
                assert code_of(await raw(broker, 1, fetch(epoch), 12)) == error
            batches = records.read((await asked(cluster, fetch(2), broker=1)).responses[0].partitions[0].records)
            assert [batch.partition_leader_epoch for batch in batches if isinstance(batch, records.Batch)] == [0, 2]
            place = ListOffsetsPartition(current_leader_epoch=1, timestamp=-1)
            request = ListOffsetsRequest(topics=(ListOffsetsTopic(name="orders", partitions=(place,)),))
            listed = await raw(broker, 1, request, 7)
            assert listed.topics[0].partitions[0].error_code == FENCED

            async def end(epoch: int) -> tuple[int, int]:
                part = OffsetForLeaderPartition(current_leader_epoch=2, leader_epoch=epoch)
                topics = (OffsetForLeaderTopic(topic="orders", partitions=(part,)),)
                answer = await asked(cluster, OffsetForLeaderEpochRequest(topics=topics), broker=1)
                found = answer.topics[0].partitions[0]
                return found.leader_epoch, found.end_offset

            assert [await end(epoch) for epoch in (0, 1, 2, 3)] == [(0, 1), (0, 1), (2, 2), (-1, -1)]

    asyncio.run(run())


def test_stopped_node_hands_over_and_comes_back() -> None:
    async def run() -> None:
        async with MockBroker({"orders": 2}, nodes=2) as broker:
            first = broker.addresses[1]
            async with Cluster(Config.of(first)) as cluster:
                await asked(cluster, produce(b"one"), topic="orders", partition=0)
                group = next(f"g{n}" for n in range(9) if broker._nodes.coordinator(0, f"g{n}") == 1)
                broker.stop_node(1)
                assert (broker.leader("orders", 0), list(broker.addresses)) == (2, [2])
                assert code_of(await asked(cluster, produce(b"two"), topic="orders", partition=0)) == 0
                found = await asked(cluster, FindCoordinatorRequest(coordinator_keys=(group,)))
                assert found.coordinators[0].node_id == 2
                broker.start_node(1)
                assert broker.addresses[1] == first
                assert broker.leader("orders", 0) == 2
                broker.move_leader("orders", 0, 1)
                assert code_of(await asked(cluster, produce(b"three"), topic="orders", partition=0)) == 0
                broker.stop_node(1)
                broker.stop_node(2)
                assert broker.leader("orders", 0) == -1
                broker.start_node(2)
                assert broker.leader("orders", 0) == 2
            assert [record.value for record in broker.records("orders")] == [b"one", b"two", b"three"]

    asyncio.run(run())


def test_coordinators_move() -> None:
    async def run() -> None:
        async with MockBroker({"orders": 1}, nodes=3) as broker, Cluster(Config.of(broker.address)) as cluster:
            init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=9)
            for node in (1, 3):
                broker.move_coordinator(node, transactional_id="t")
                assert (await asked(cluster, init, transactional_id="t")).error_code == 0
                assert broker.requests.of(InitProducerIdRequest, node=node)
                refused = await raw(broker, 2, init, 4)
                assert refused.error_code == CODES["NOT_COORDINATOR"]
            for node in (1, 2, 3):
                listed = await asked(cluster, ListTransactionsRequest(), broker=node)
                assert [one.transactional_id for one in listed.transaction_states] == (["t"] if node == 3 else [])
            broker.move_coordinator(2, group="g")
            beat = HeartbeatRequest(group_id="g", member_id="m")
            assert (await asked(cluster, beat, group="g")).error_code == CODES["UNKNOWN_MEMBER_ID"]
            assert broker.requests.of(HeartbeatRequest, node=2) == [beat]

    asyncio.run(run())


def test_faults_and_handlers_of_one_node() -> None:
    """As the control functions of franz-go's kfake: for some requests, to a node, and others are served meanwhile."""

    async def run() -> None:
        async with MockBroker({"orders": 1}, nodes=2) as broker:
            beat = HeartbeatRequest(group_id="g", member_id="m")
            may_go_on = asyncio.Event()

            async def waits(_: HeartbeatRequest) -> HeartbeatResponse:
                await may_go_on.wait()
                return HeartbeatResponse(error_code=77)

            broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=5))
            broker.on(HeartbeatRequest, waits, node=2, times=1)
            held = asyncio.create_task(raw(broker, 2, beat, 4))
            assert (await raw(broker, 1, beat, 4)).error_code == 5
            assert not held.done()
            may_go_on.set()
            assert (await held).error_code == 77
            assert (await raw(broker, 2, beat, 4)).error_code == 5
            broker.on(HeartbeatRequest, lambda _: None)  # looks only
            broker.fault(HeartbeatRequest, Fault(error=27), node=2, times=None)
            assert (await raw(broker, 1, beat, 4)).error_code == 5
            assert (await raw(broker, 2, beat, 4)).error_code == 27

    asyncio.run(run())


def test_handler_that_raises_ends_its_connection_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        def wrong(_: HeartbeatRequest) -> HeartbeatResponse:
            raise KeyError("mine")

        async with MockBroker() as broker:
            broker.on(HeartbeatRequest, wrong)
            with pytest.raises(asyncio.IncompleteReadError):
                await raw(broker, 1, HeartbeatRequest(group_id="g", member_id="m"), 4)
            assert broker.refusals[0] == "HeartbeatRequest: a handler raised KeyError: 'mine'"

    asyncio.run(run())
    assert "KeyError" in caplog.text  # with its traceback


def test_what_does_not_exist_is_refused() -> None:
    broker = MockBroker({"orders": 1}, nodes=2)
    for wrong in (0, 3):
        with pytest.raises(ValueError, match=f"node {wrong}: there are 1 to 2"):
            broker.move_leader("orders", 0, wrong)
        with pytest.raises(ValueError, match="there are 1 to 2"):
            broker.move_coordinator(wrong, group="g")
        with pytest.raises(ValueError, match="there are 1 to 2"):
            broker.stop_node(wrong)
    with pytest.raises(LookupError, match="orders-7"):
        broker.move_leader("orders", 7, 1)
    with pytest.raises(TypeError, match="either group or transactional_id"):
        broker.move_coordinator(1)
    with pytest.raises(ValueError, match="node 1 is not stopped"):
        broker.start_node(1)
    broker.stop_node(1)
    with pytest.raises(ValueError, match="node 1 is stopped"):
        broker.move_leader("orders", 0, 1)
    with pytest.raises(ValueError, match="nodes=0: 1 to 100"):
        MockBroker(nodes=0)
    with pytest.raises(ValueError, match="times=0"):
        broker.on(HeartbeatRequest, lambda _: None, times=0)
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.address
