"""All that a mock broker keeps is bounded in total, and what would exceed that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire import records
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.messages.join_group_request import JoinGroupRequestProtocol
from kafkawire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.sync_group_request import SyncGroupRequestAssignment
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.records import Batch, Record
from kafkawire.testing import MockBroker
from kafkawire.testing.state.call import Call
from kafkawire.testing.state.group_requests import GroupRequests
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions

POLICY_VIOLATION = CODES["POLICY_VIOLATION"]
MOST = 200_000


class Broker:
    """Handlers that share one limit."""

    def __init__(self) -> None:
        self.topics = Topics(auto_create=0, max_log_bytes=1 << 40, max_batch_bytes=1 << 20, max_bytes=MOST)
        assert self.topics.create("orders", 20) == 0
        self.transactions = Transactions(self.topics, transaction_version=0, verify=False)
        self.groups = GroupRequests(self.topics, self.transactions)
        self.handlers = self.transactions.handlers | self.groups.handlers

    def ask(self, body: Any, version: int) -> Any:
        return self.handlers[type(body)][0](Call(body, version, now_ms=1000))


def append(broker: Broker, number: int) -> int:
    """One batch of a producer of its own."""
    data = records.build([Record(value=bytes(1000))], producer_id=number, producer_epoch=0, base_sequence=0)
    (batch,) = records.read(data)
    assert isinstance(batch, Batch)
    log = broker.topics.by_name["orders"].partitions[number % 20]
    return log.append(batch, 1000).error


def mark(broker: Broker, number: int) -> int:
    marker = WritableTxnMarker(
        producer_id=number, topics=(WritableTxnMarkerTopic(name="orders", partition_indexes=(3,)),)
    )
    answer = broker.ask(WriteTxnMarkersRequest(markers=(marker,)), 1)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def create(broker: Broker, number: int) -> int:
    return broker.topics.create(f"topic-{number}", 5)


def begin(broker: Broker, number: int) -> int:
    answer = broker.ask(InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=1000), 1)
    return int(answer.error_code)


def join(broker: Broker, number: int) -> int:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(5000))
    request = JoinGroupRequest(
        group_id=f"group-{number}", session_timeout_ms=1000, protocol_type="consumer", protocols=(protocol,)
    )
    answer = broker.ask(request, 3)
    return int(getattr(answer, "error_code", 0))


def commit(broker: Broker, number: int) -> int:
    part = OffsetCommitRequestPartition(partition_index=number % 20, committed_offset=1, committed_metadata="x" * 4000)
    request = OffsetCommitRequest(
        group_id=f"group-{number}", topics=(OffsetCommitRequestTopic(name="orders", partitions=(part,)),)
    )
    return int(broker.ask(request, 8).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("step", [append, mark, create, begin, join, commit])
def test_what_would_exceed_the_total_is_refused(step: Callable[[Broker, int], int]) -> None:
    broker = Broker()
    answers = [step(broker, number) for number in range(1000)]
    allowed = answers.count(0)
    assert 5 < allowed < 1000
    assert answers == [0] * allowed + [POLICY_VIOLATION] * (1000 - allowed)
    assert MOST * 0.9 < broker.topics.memory.used <= MOST
    for other in (append, mark, join, commit):
        assert other(broker, 2000) == POLICY_VIOLATION


def ready() -> Broker:
    """With a group of the one member `member-1`."""
    broker = Broker()
    broker.handlers |= broker.topics.handlers
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1000, protocol_type="consumer", protocols=(protocol,))
    assert broker.ask(request, 3).leader == "member-1"
    return broker


def sync(broker: Broker, size: int) -> int:
    given = SyncGroupRequestAssignment(member_id="member-1", assignment=bytes(size))
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="member-1", assignments=(given,))
    return int(broker.ask(request, 3).error_code)


def join_with(broker: Broker, size: int) -> int:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(size))
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1000, protocol_type="consumer", protocols=(protocol,))
    return int(getattr(broker.ask(request, 3), "error_code", 0))


def alter(broker: Broker, size: int) -> int:
    change = AlterableConfig(name="compression.type", config_operation=0, value="x" * size)
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=(change,))
    return int(broker.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code)


def subscribe(broker: Broker, size: int) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id="h",
        member_id="m",
        rebalance_timeout_ms=5000,
        subscribed_topic_names=("x" * size,),
        topic_partitions=(),
    )
    return int(broker.ask(request, 1).error_code)


@pytest.mark.parametrize("step", [sync, join_with, alter, subscribe])
def test_each_request_needs_room_for_what_it_brings_and_takes_it(step: Callable[[Broker, int], int]) -> None:
    size, memory = 900, (broker := ready()).topics.memory
    if step is subscribe:
        assert step(broker, 1) == 0
    before = memory.used
    memory.keep("all else", MOST - before - size + 2)
    assert step(broker, size) == POLICY_VIOLATION
    assert memory.used == MOST - size + 2
    memory.keep("all else", 0)
    assert step(broker, size) == 0
    assert memory.used - before >= size - 1


@pytest.mark.parametrize(("left", "refused"), [(1000, True), (1001, False)])
def test_a_new_group_needs_room_of_its_own(left: int, refused: bool) -> None:
    """Also where its first member would have room."""
    broker = Broker()
    memory = broker.topics.memory
    memory.keep("all else", MOST - memory.used - left)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1000, protocol_type="consumer")
    assert (broker.ask(request, 3).error_code == POLICY_VIOLATION) is refused
    assert ("g" in broker.groups.groups) is not refused


def test_settings_of_a_topic_are_counted_when_it_is_created() -> None:
    used = []
    for size in (1, 900):
        broker = ready()
        value = CreatableTopicConfig(name="compression.type", value="x" * size)
        topic = CreatableTopic(name="made", num_partitions=1, replication_factor=1, configs=(value,))
        assert broker.ask(CreateTopicsRequest(topics=(topic,)), 5).topics[0].error_code == 0
        used.append(broker.topics.memory.used)
    assert used[1] - used[0] == 899


def test_an_open_transaction_ends_although_nothing_else_is_kept() -> None:
    broker = Broker()
    answer = broker.ask(InitProducerIdRequest(transactional_id="a", transaction_timeout_ms=1000), 1)
    topics = (AddPartitionsToTxnTopic(name="orders", partitions=(0,)),)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="a",
        v3_and_below_producer_id=answer.producer_id,
        v3_and_below_producer_epoch=answer.producer_epoch,
        v3_and_below_topics=topics,
    )
    broker.ask(added, 3)
    data = records.build(
        [Record(value=b"x")],
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    (batch,) = records.read(data)
    assert isinstance(batch, Batch)
    log = broker.topics.by_name["orders"].partitions[0]
    assert log.append(batch, 1000).error == 0
    assert POLICY_VIOLATION in (append(broker, number) for number in range(1000))
    broker.transactions.expire(10_000)
    assert not log.replay.ongoing


def test_the_total_of_a_broker_is_an_argument() -> None:
    with pytest.raises(ValueError, match="POLICY_VIOLATION"):
        MockBroker({"orders": 3}, max_bytes=1000)
    assert MockBroker({"orders": 3}, max_bytes=10_000)
