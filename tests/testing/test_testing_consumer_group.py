"""Groups under KIP-848 in the mock broker: each partition has one owner at any time, and every member reaches its
target."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.client import Cluster as ClientCluster
from kafkawire.client import Config
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kafkawire.messages.consumer_group_heartbeat_request import TopicPartitions
from kafkawire.messages.join_group_request import JoinGroupRequestProtocol
from kafkawire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.records import Record
from kafkawire.testing import MockBroker
from kafkawire.testing.state.call import Call
from kafkawire.testing.state.consumer_group import ASSIGNORS, SESSION_MS, Place
from kafkawire.testing.state.group_requests import GroupRequests
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions

TOPICS = {"orders": 4, "payments": 3, "returns": 1}


class Cluster:
    """Handlers and a clock."""

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self.topics = Topics(auto_create=0, max_log_bytes=10_000, max_batch_bytes=10_000, max_bytes=max_bytes)
        for name, count in TOPICS.items():
            self.topics.create(name, count)
        transactions = Transactions(self.topics, transaction_version=2, verify=True)
        self.groups = GroupRequests(self.topics, transactions)
        self.now = 1000

    def ask(self, body: Any, version: int) -> Any:
        return self.groups.handlers[type(body)][0](Call(body, version, now_ms=self.now))

    def state(self) -> Any:
        return self.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups[0]


class Consumer:
    """A member as a client keeps it: it reads what it was assigned, and gives back with its next heartbeat."""

    def __init__(self, cluster: Cluster, name: str, topics: tuple[str, ...] = ("orders",), **own: Any) -> None:
        self.cluster = cluster
        self.name = name
        self.topics = topics
        self.own = own
        self.epoch = 0
        self.owned: set[Place] = set()
        self.error = 0

    def beat(self, *, delivered: bool = True, epoch: int | None = None) -> Any:
        """A heartbeat; `delivered`: whether the answer arrives."""
        joins = self.epoch == 0
        partitions = tuple(TopicPartitions(topic_id=key, partitions=(number,)) for key, number in sorted(self.owned))
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.name,
            member_epoch=self.epoch if epoch is None else epoch,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=self.topics,
            topic_partitions=() if joins else partitions,
            **self.own,
        )
        answer = self.cluster.ask(request, 1)
        self.error = answer.error_code
        if delivered and not self.error:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    (each.topic_id, number) for each in answer.assignment.topic_partitions for number in each.partitions
                }
        return answer

    def forget_if_fenced(self) -> None:
        """Where more answers were lost than one, it gives up all that it has, and joins again."""
        assert self.error in (0, CODES["FENCED_MEMBER_EPOCH"])
        if self.error:
            self.epoch, self.owned = 0, set()


def settle(*members: Consumer) -> None:
    for _ in range(4):
        for member in members:
            member.beat()


def test_second_member_gets_what_the_first_gives_back() -> None:
    cluster = Cluster()
    first, second = Consumer(cluster, "a"), Consumer(cluster, "b")
    first.beat()
    assert (len(first.owned), first.epoch) == (4, 1)
    second.beat()
    assert second.owned == set()  # the first has it still
    assert cluster.state().group_state == "Reconciling"
    first.beat()  # is told to give two back
    assert len(first.owned) == 2
    second.beat()
    assert second.owned == set()
    first.beat()  # has given back
    second.beat()
    assert (len(first.owned), len(second.owned), first.owned & second.owned) == (2, 2, set())
    assert first.epoch == second.epoch == 2
    found = cluster.state()
    assert (found.group_state, found.group_epoch, found.assignor_name) == ("Stable", 2, "uniform")
    assert {each.member_id: each.assignment.topic_partitions[0].topic_name for each in found.members} == {
        "a": "orders",
        "b": "orders",
    }
    second.beat(epoch=-1)
    settle(first)
    assert len(first.owned) == 4


def test_member_that_does_not_give_back_is_fenced() -> None:
    cluster = Cluster()
    first, second = Consumer(cluster, "a"), Consumer(cluster, "b")
    first.beat()
    second.beat()
    kept = set(first.owned)
    first.beat()
    first.owned = kept  # it goes on with them
    cluster.now += 5000
    settle(second)
    assert len(second.owned) == 4
    first.beat()
    assert first.error == CODES["UNKNOWN_MEMBER_ID"]


def test_session_ends() -> None:
    cluster = Cluster()
    first, second = Consumer(cluster, "a"), Consumer(cluster, "b")
    settle(first, second)
    cluster.now += SESSION_MS
    first.beat()
    cluster.now += 1
    settle(first)
    assert len(first.owned) == 4


def test_lost_answer_is_asked_for_again_and_an_old_epoch_is_fenced() -> None:
    cluster = Cluster()
    first, second = Consumer(cluster, "a"), Consumer(cluster, "b")
    first.beat()
    second.beat()
    first.beat()
    first.beat(delivered=False)
    first.beat()
    assert (first.error, first.epoch) == (0, 2)
    first.beat(epoch=7)
    assert first.error == CODES["FENCED_MEMBER_EPOCH"]


def test_static_member_comes_back_to_what_it_had() -> None:
    cluster = Cluster()
    first, second = Consumer(cluster, "a", instance_id="one"), Consumer(cluster, "b")
    settle(first, second)
    had = set(first.owned)
    assert Consumer(cluster, "c", instance_id="one").beat().error_code == CODES["UNRELEASED_INSTANCE_ID"]
    first.beat(epoch=-2)
    settle(second)
    assert len(second.owned) == 2
    again = Consumer(cluster, "c", instance_id="one")
    settle(again)
    assert again.owned == had


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"group_id": ""}, "INVALID_REQUEST"),
        ({"member_id": ""}, "INVALID_REQUEST"),
        ({"member_epoch": -3}, "INVALID_REQUEST"),
        ({"member_epoch": -2}, "INVALID_REQUEST"),  # of no static member
        ({"rebalance_timeout_ms": -1}, "INVALID_REQUEST"),
        ({"subscribed_topic_names": None}, "INVALID_REQUEST"),
        ({"topic_partitions": (TopicPartitions(topic_id=UUID(int=1), partitions=(0,)),)}, "INVALID_REQUEST"),
        ({"server_assignor": "mine"}, "UNSUPPORTED_ASSIGNOR"),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "(a+)+b"}, "INVALID_REGULAR_EXPRESSION"),
        ({"member_epoch": 1}, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_heartbeat_that_is_refused(changed: dict[str, Any], error: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=5000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    assert Cluster().ask(request.replace(**changed), 1).error_code == CODES[error]


def commit(member_id: str, epoch: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = OffsetCommitRequestTopic(name="orders", partitions=(part,))
    return OffsetCommitRequest(group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch, topics=(topic,))


def test_offsets_need_the_member_s_epoch() -> None:
    cluster = Cluster()
    settle(Consumer(cluster, "a"))

    def committed(member_id: str, epoch: int) -> str:
        code = cluster.ask(commit(member_id, epoch), 9).topics[0].partitions[0].error_code
        return next(name for name, number in CODES.items() if number == code)

    assert committed("a", 1) == "NONE"
    assert committed("a", 2) == "STALE_MEMBER_EPOCH"
    assert committed("b", 1) == committed("", -1) == "UNKNOWN_MEMBER_ID"
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=9)
    assert cluster.ask(OffsetFetchRequest(groups=(asked,)), 9).groups[0].error_code == CODES["STALE_MEMBER_EPOCH"]
    found = cluster.ask(OffsetFetchRequest(groups=(asked.replace(member_epoch=1, topics=None),)), 9).groups[0]
    assert found.topics[0].partitions[0].committed_offset == 3


def test_group_changes_its_protocol_when_it_has_no_members() -> None:
    cluster = Cluster()
    member = Consumer(cluster, "a")
    member.beat()
    cluster.ask(commit("a", 1), 9)
    protocol = JoinGroupRequestProtocol(name="range")
    classic = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=(protocol,), member_id=""
    )
    assert cluster.ask(classic, 9).error_code == CODES["INCONSISTENT_GROUP_PROTOCOL"]
    member.beat(epoch=-1)
    assert cluster.ask(classic, 9).error_code == CODES["MEMBER_ID_REQUIRED"]
    assert Consumer(cluster, "b").beat().error_code == CODES["GROUP_ID_NOT_FOUND"]
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    found = cluster.ask(OffsetFetchRequest(groups=(asked,)), 8).groups[0]
    assert found.topics[0].partitions[0].committed_offset == 3  # it keeps its offsets


def test_groups_are_listed_and_described() -> None:
    cluster = Cluster()
    Consumer(cluster, "a").beat()
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"mine")
    classic = JoinGroupRequest(
        group_id="old", session_timeout_ms=10_000, protocol_type="consumer", protocols=(protocol,), member_id=""
    )
    cluster.ask(classic, 3)

    def listed(**filters: tuple[str, ...]) -> list[tuple[str, str, str]]:
        found = cluster.ask(ListGroupsRequest(**filters), 5).groups
        return [(one.group_id, one.group_type, one.group_state) for one in found]

    assert listed() == [("g", "consumer", "Stable"), ("old", "classic", "CompletingRebalance")]
    assert [name for name, _, _ in listed(types_filter=("Classic",))] == ["old"]
    assert [name for name, _, _ in listed(states_filter=("stable",))] == ["g"]
    old, new, missing = cluster.ask(DescribeGroupsRequest(groups=("old", "g", "none")), 6).groups
    assert (old.group_state, old.protocol_data, old.members[0].member_metadata) == (
        "CompletingRebalance",
        "range",
        b"mine",
    )
    assert new.error_code == missing.error_code == CODES["GROUP_ID_NOT_FOUND"]
    assert cluster.ask(DescribeGroupsRequest(groups=("none",)), 5).groups[0].group_state == "Dead"


def test_own_client_reads_a_group_and_its_lag() -> None:
    """With members of KIP-848: their assignments, and the records that they will get."""
    with MockBroker({"orders": 2}) as broker:
        broker.append("orders", 0, [Record(value=b"x") for _ in range(5)])
        topic_id = broker._topics.by_name["orders"].topic_id

        async def run() -> None:
            async with ClientCluster(Config.of(broker.address)) as cluster:
                joined = ConsumerGroupHeartbeatRequest(
                    group_id="g",
                    member_id="m",
                    rebalance_timeout_ms=5000,
                    subscribed_topic_names=("orders",),
                    topic_partitions=(),
                )
                answer = await cluster.ask(joined, group="g")
                assert answer.assignment is not None
                (given,) = answer.assignment.topic_partitions
                assert (given.topic_id, given.partitions) == (topic_id, (0, 1))
                await cluster.ask(commit("m", answer.member_epoch), group="g", at_most=9)
                found = (await cluster.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), group="g")).groups[0]
                assert found.members[0].assignment.topic_partitions[0].topic_name == "orders"

        asyncio.run(run())
        assert broker.committed("g") == {("orders", 0): 3}


def test_members_and_their_partitions_are_bounded_by_memory() -> None:
    cluster = Cluster(max_bytes=200_000)
    answers = []
    for number in range(300):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"g{number % 20}",
            member_id=f"m{number}",
            rebalance_timeout_ms=5000,
            subscribed_topic_names=tuple(TOPICS),
            topic_partitions=(),
        )
        answers.append(cluster.ask(request, 1).error_code)
    allowed = answers.count(0)
    assert 10 < allowed < 300
    assert set(answers) == {0, CODES["POLICY_VIOLATION"]}
    assert cluster.topics.memory.used <= 200_000


# Properties -----------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
SUBSCRIPTIONS = st.frozensets(st.sampled_from(list(TOPICS)), min_size=1).map(lambda names: tuple(sorted(names)))
STEPS = st.lists(
    st.tuples(NAMES, st.sampled_from(["beat", "lost", "leave", "crash", "wait"]), SUBSCRIPTIONS), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([None, *ASSIGNORS]))
def test_a_partition_has_one_reader_at_any_time(steps: list[tuple[str, str, tuple[str, ...]]], assignor: str) -> None:
    """Whatever is lost, and whichever member leaves: no partition has two readers, and later all have one."""
    cluster = Cluster()
    members: dict[str, Consumer] = {}

    def readers() -> None:
        owned = [place for member in members.values() for place in member.owned]
        assert len(owned) == len(set(owned))

    for number, (name, step, topics) in enumerate(steps):
        if step == "crash":
            members.pop(name, None)
        elif step == "wait":
            cluster.now += 50
        elif step == "leave" and name in members:
            members.pop(name).beat(epoch=-1)
        else:
            member = members.setdefault(name, Consumer(cluster, f"{name}{number}", topics, server_assignor=assignor))
            member.topics = topics
            member.beat(delivered=step == "beat")
            member.forget_if_fenced()
        readers()
    for _ in range(SESSION_MS // 1500 + 4):  # those that crashed are gone then
        cluster.now += 1500
        for member in members.values():
            member.beat()
            member.forget_if_fenced()
            readers()
    wanted = {name for member in members.values() for name in member.topics}
    assert sum(len(member.owned) for member in members.values()) == sum(TOPICS[name] for name in wanted)
    if members:
        assert cluster.state().group_state == "Stable"


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.just(frozenset(TOPICS)), min_size=1),
    st.sampled_from(list(ASSIGNORS)),
)
def test_assignors_share_all_partitions(members: dict[str, frozenset[str]], assignor: str) -> None:
    topics = {name: (UUID(int=number), count) for number, (name, count) in enumerate(TOPICS.items())}
    before = dict.fromkeys(members, frozenset[Place]())
    targets = ASSIGNORS[assignor](members, topics, before)
    places = [place for target in targets.values() for place in target]
    assert len(places) == len(set(places)) == sum(TOPICS.values())
    if assignor == "uniform":
        sizes = [len(target) for target in targets.values()]
        assert max(sizes) - min(sizes) <= 1
        again = ASSIGNORS[assignor](members, topics, {name: frozenset(target) for name, target in targets.items()})
        assert again == targets  # nothing moves without a reason
        fewer = dict(list(members.items())[1:])
        if fewer:
            after = ASSIGNORS[assignor](fewer, topics, {name: frozenset(targets[name]) for name in fewer})
            assert all(targets[name] <= after[name] for name in fewer)
