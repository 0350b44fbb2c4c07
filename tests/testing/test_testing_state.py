"""The broker's state without a network: handlers get a `Call`, and a clock of the test's."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import records
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.join_group_request import JoinGroupRequestProtocol
from kafkawire.messages.leave_group_request import MemberIdentity
from kafkawire.messages.sync_group_request import SyncGroupRequestAssignment
from kafkawire.records import Record
from kafkawire.testing.state.call import Call, Wait
from kafkawire.testing.state.group_requests import GroupRequests
from kafkawire.testing.state.stored_partition import PartitionLog
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions

# Partitions -----------------------------------------------------------------------------------------------------------


def batch(sequence: int = 0, *, epoch: int = 0, count: int = 1, transactional: bool = False, **changed: Any) -> bytes:
    listed = [Record(value=b"v", timestamp=10 * (sequence + i)) for i in range(count)]
    own = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence, "transactional": transactional}
    return records.build(listed, **(own | changed))


def append(log: PartitionLog, data: bytes) -> tuple[int, int]:
    checked = log.checked(data)
    return (checked, -1) if isinstance(checked, int) else log.append(checked, 0)


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog(10_000, 1000)


def test_offsets_ascend_and_a_duplicate_is_not_appended(log: PartitionLog) -> None:
    assert append(log, batch(0, count=3)) == (0, 0)
    assert append(log, batch(3)) == (0, 3)
    assert append(log, batch(0, count=3)) == (0, 0)
    assert (log.start, log.end, len(log.batches)) == (0, 4, 2)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (batch(5, epoch=1, transactional=True), 45),  # OUT_OF_ORDER_SEQUENCE_NUMBER
        (batch(1, epoch=2, transactional=True), 45),
        (batch(1, epoch=0), 47),  # INVALID_PRODUCER_EPOCH
        (batch(1, epoch=1), 48),  # INVALID_TXN_STATE: outside of its open transaction
        (batch(1, epoch=1, transactional=True, control=True), 87),  # INVALID_RECORD
        (batch(1, epoch=1, last_offset=9), 87),
        (batch() + batch(1), 87),
        (batch()[:-1], 2),  # CORRUPT_MESSAGE
        (b"", 87),
        (bytes(1001), 10),  # MESSAGE_TOO_LARGE
        (records.build([Record(value=bytes(5000))], codec="gzip"), 2),
    ],
    ids=range(11),
)
def test_refuses_what_a_leader_refuses(log: PartitionLog, data: bytes, error: int) -> None:
    assert append(log, batch(0, epoch=1, transactional=True)) == (0, 0)
    assert append(log, data) == (error, -1)
    assert log.end == 1


def test_markers_move_the_last_stable_offset_and_stale_ones_are_refused(log: PartitionLog) -> None:
    append(log, batch(0, epoch=1, transactional=True))
    append(log, batch(0, producer_id=8, transactional=True))
    assert log.last_stable_offset == 0
    assert log.mark("ABORT", 7, 0, 0, 5) == 47
    assert log.mark("ABORT", 7, 1, 3, 5) == 0
    assert (log.last_stable_offset, log.end) == (1, 3)
    assert log.mark("COMMIT", 7, 1, 2, 5) == 52  # TRANSACTION_COORDINATOR_FENCED
    assert log.mark("COMMIT", 8, 0, 0, 6) == 0
    assert [record.offset for record in log.visible(committed=True)] == [1]
    assert [(entry.producer_id, entry.first_offset) for entry in log.aborted_between(0, 9)] == [(7, 0)]
    assert log.aborted_between(3, 9) == []


def test_oldest_batches_are_dropped_beyond_the_limit() -> None:
    log = PartitionLog(300, 1000)
    for number in range(20):
        append(log, batch(number))
    assert sum(len(stored.data) for stored in log.batches) <= 300
    assert log.start == log.batches[0].base_offset > 0
    assert log.end == 20


@pytest.mark.parametrize(
    ("timestamp", "found"), [(-1, (-1, 4)), (-2, (-1, 0)), (-3, (30, 3)), (11, (20, 2)), (31, (-1, -1))]
)
def test_offsets_for_timestamps(log: PartitionLog, timestamp: int, found: tuple[int, int]) -> None:
    append(log, batch(0, count=4))
    assert log.offset_for(timestamp, below=log.end) == found


# Groups ---------------------------------------------------------------------------------------------------------------


class Cluster:
    """Handlers and a clock."""

    def __init__(self) -> None:
        self.topics = Topics(auto_create=0, max_log_bytes=10_000, max_batch_bytes=10_000)
        self.topics.create("orders", 2)
        self.transactions = Transactions(self.topics, transaction_version=2, verify=True)
        self.handlers = self.transactions.handlers | GroupRequests(self.topics, self.transactions).handlers
        self.now = 1000

    def call(self, body: Any, version: int | None = None) -> Call:
        return Call(body, self.handlers[type(body)][1][-1] if version is None else version, now_ms=self.now)

    def run(self, call: Call) -> Any:
        call.now_ms = self.now
        self.transactions.expire(self.now)
        return self.handlers[type(call.body)][0](call)

    def ask(self, body: Any, version: int | None = None) -> Any:
        return self.run(self.call(body, version))


def joining(member_id: str, protocol: str = "range") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name=protocol, metadata=member_id.encode()),),
    )


def test_second_member_causes_a_rebalance_that_both_complete() -> None:
    cluster = Cluster()
    one = cluster.ask(joining(""))
    assert (one.error_code, one.member_id) == (79, "member-1")  # MEMBER_ID_REQUIRED
    joined = cluster.ask(joining("member-1"))
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "member-1")
    given = SyncGroupRequestAssignment(member_id="member-1", assignment=b"all")
    assert (
        cluster.ask(
            SyncGroupRequest(group_id="g", generation_id=1, member_id="member-1", assignments=(given,))
        ).assignment
        == b"all"
    )
    other = cluster.ask(joining("")).member_id
    waiting = cluster.call(joining(other))
    assert cluster.run(waiting) == Wait(cluster.now + 5_000)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="member-1")
    assert cluster.ask(beat).error_code == 27  # REBALANCE_IN_PROGRESS
    again = cluster.ask(joining("member-1"))
    second = cluster.run(waiting)
    assert (again.generation_id, second.generation_id) == (2, 2)
    assert ([member.member_id for member in again.members], second.members) == (["member-1", other], ())
    follower = cluster.call(SyncGroupRequest(group_id="g", generation_id=2, member_id=other))
    assert isinstance(cluster.run(follower), Wait)
    given = SyncGroupRequestAssignment(member_id=other, assignment=b"half")
    cluster.ask(SyncGroupRequest(group_id="g", generation_id=2, member_id="member-1", assignments=(given,)))
    assert cluster.run(follower).assignment == b"half"
    assert cluster.ask(beat).error_code == 22  # ILLEGAL_GENERATION
    left = cluster.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=other),)))
    assert [member.error_code for member in left.members] == [0]
    assert cluster.ask(HeartbeatRequest(group_id="g", generation_id=2, member_id=other)).error_code == 25


def test_member_that_does_not_join_in_time_is_removed() -> None:
    cluster = Cluster()
    first = cluster.ask(joining("")).member_id
    cluster.ask(joining(first))
    other = cluster.ask(joining("")).member_id
    waiting = cluster.call(joining(other))
    assert isinstance(cluster.run(waiting), Wait)
    cluster.now += 5_000
    assert (cluster.run(waiting).generation_id, cluster.run(waiting).leader) == (2, other)
    assert cluster.ask(HeartbeatRequest(group_id="g", generation_id=2, member_id=first)).error_code == 25


def test_members_need_a_protocol_in_common() -> None:
    cluster = Cluster()
    cluster.ask(joining(cluster.ask(joining("")).member_id))
    other = cluster.ask(joining("")).member_id
    assert cluster.ask(joining(other, "sticky")).error_code == 23  # INCONSISTENT_GROUP_PROTOCOL
    assert cluster.ask(joining("unknown-9")).error_code == 25


# Transactions ---------------------------------------------------------------------------------------------------------


def init(name: str = "t", own: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=own[0], producer_epoch=own[1]
    )


def adding(own: tuple[int, int], *numbers: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=own[0],
        v3_and_below_producer_epoch=own[1],
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="orders", partitions=numbers),),
    )


def codes(answer: Any) -> list[int]:
    return [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]


def test_new_producer_fences_the_old_one_and_aborts_its_transaction() -> None:
    cluster = Cluster()
    first = cluster.ask(init())
    own = first.producer_id, first.producer_epoch
    assert codes(cluster.ask(adding(own, 0, 1), 3)) == [0, 0]
    assert cluster.ask(init()).error_code == 51  # CONCURRENT_TRANSACTIONS: its transaction is aborted first
    assert cluster.transactions.ids["t"].state == "CompleteAbort"
    assert [stored.base_offset for stored in cluster.topics.by_name["orders"].partitions[1].batches] == [0]
    again = cluster.ask(init())
    assert (again.error_code, again.producer_id) == (0, own[0])
    assert again.producer_epoch > own[1]
    assert codes(cluster.ask(adding(own, 0), 3)) == [90]  # PRODUCER_FENCED
    assert codes(cluster.ask(adding(own, 0), 1)) == [47]  # before it had a code of its own
    ended = EndTxnRequest(transactional_id="t", producer_id=own[0], producer_epoch=own[1], committed=True)
    assert cluster.ask(ended).error_code == 90


def test_transaction_over_its_time_is_aborted() -> None:
    cluster = Cluster()
    first = cluster.ask(init(timeout_ms=500))
    cluster.ask(adding((first.producer_id, first.producer_epoch), 0), 3)
    cluster.now += 501
    cluster.ask(init("other"))
    assert cluster.transactions.ids["t"].state == "CompleteAbort"


def test_unknown_partition_refuses_the_others_of_the_request() -> None:
    cluster = Cluster()
    first = cluster.ask(init())
    assert codes(cluster.ask(adding((first.producer_id, first.producer_epoch), 0, 9), 3)) == [55, 3]
    assert cluster.ask(init("")).error_code == 42
    assert cluster.ask(init(timeout_ms=900_001)).error_code == 50
