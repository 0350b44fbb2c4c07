"""What blocks a group: scripted coordinators of each kind, and real groups that never got past their first offset."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from kafkawire.client import Admin, BrokerError, ClientError, Search, TopicPartition
from kafkawire.client.diagnosis.blocked_group import BlockedGroup, find_blocking
from kafkawire.client.diagnosis.pending_offsets import PendingOffsets, read_pending
from kafkawire.client.errors import RETRIABLE
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeShareGroupOffsetsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
    consumer_group_describe_response,
)
from kafkawire.messages.streams_group_heartbeat_request import Subtopology, Topology
from kafkawire.rows import Audit
from tests.client import real_cluster
from tests.client.answers import admin, requests_at_once
from tests.client.group_script import (
    GROUP,
    OFFSETS,
    OWN,
    SHARE_MEMBERS,
    GroupBroker,
    assigned,
    classic,
    group_of,
    named,
    share_standing,
)
from tests.client.partition_script import SEARCH, START
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster

T = TypeVar("T")
TIMEOUT_S = 60.0
HOUR_MS = 3_600_000


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


def blocking(broker: GroupBroker, search: Search = SEARCH) -> Audit:
    return blocked_by(broker, search).audit


def blocked_by(broker: GroupBroker, search: Search = SEARCH) -> BlockedGroup:
    async def scenario() -> BlockedGroup:
        broker.brokers.clear()  # it has another port each time
        async with broker.running(), admin(broker.address) as client:
            return await find_blocking(client.cluster, GROUP, search)

    return run(scenario())


def hanging(audit: Audit) -> list[tuple[str, int, str]]:
    return [(finding.topic, finding.partition, finding.verdict) for finding in audit.findings]


# Scripted -------------------------------------------------------------------------------------------------------------

_MEMBERS = {
    "classic": classic(assigned(0, 1)),
    "consumer": group_of(
        "consumer",
        consumer_group_describe_response.Member(
            member_id="m",
            assignment=named(consumer_group_describe_response, 0, 1),
            target_assignment=named(consumer_group_describe_response, 0, 1),
        ),
    ),
    "share": SHARE_MEMBERS,
}


@pytest.mark.parametrize("kind", _MEMBERS)
def test_group_without_commits_is_looked_at_where_its_members_are(kind: str) -> None:
    broker = GroupBroker()
    broker.described = {kind: _MEMBERS[kind]}
    broker.versions[90] = (0, 1)
    broker.on[DescribeShareGroupOffsetsRequest] = lambda _: share_standing(-1, start=-1)
    audit = blocking(broker)
    assert hanging(audit) == [("orders", 0, "hanging")]
    (finding,) = audit.findings
    assert finding.evidence[-1] == (
        f"Group 'shipments', if it reads committed, gets no further than offset {START}, 2 offsets below the high "
        "watermark; it has no offset here."
    )
    assert (audit.read.complete, audit.read.gaps) == (True, ())
    own = "" if kind == "share" else "; __consumer_offsets-1, where its offsets are kept"
    assert audit.read.scope == (
        f"Of group 'shipments' ({kind}, Stable, 1 member) these partitions were looked at: 2 that its members are "
        f"assigned; 0 with committed offsets{own}."
    )
    assert audit.read.partitions == (2 if kind == "share" else 3)


def test_partitions_that_are_assigned_count_beside_those_with_commits() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(assigned(0))}
    broker.committed = {1: 42}
    audit = blocking(broker)
    assert hanging(audit) == [("orders", 0, "hanging")]
    assert audit.read.partitions == 3
    assert audit.read.complete


def test_sends_requests_of_different_kinds_one_after_the_other() -> None:
    """A broker that closes the connection on one of them would end the others on it."""

    async def scenario() -> set[frozenset[str]]:
        broker = GroupBroker("classic")
        broker.committed = {0: START}
        async with broker.running(), admin(broker.address) as client:
            at_once = requests_at_once(client.cluster.waits)
            await find_blocking(client.cluster, GROUP, SEARCH)
            return at_once

    at_once = run(scenario())
    assert {frozenset({"OffsetFetch"}), frozenset({"DescribeGroups"}), frozenset({"ListOffsets"})} <= at_once
    assert all(len(names) <= 1 for names in at_once), at_once


@pytest.mark.parametrize(
    ("group", "gap"),
    [
        (classic(state="Empty"), "where group 'shipments' waits is not certain: it has no members now"),
        (classic(b"", state="CompletingRebalance"), "what its members get is not settled"),
        (
            classic(error_code=30),
            "what the members of group 'shipments' are assigned could not be read: members of group shipments: "
            "GROUP_AUTHORIZATION_FAILED: the principal needs Describe on group shipments",
        ),
        (None, "where group 'shipments' waits is not certain: its coordinator knows its offsets, and no members"),
    ],
    ids=["empty", "rebalancing", "denied", "unknown"],
)
def test_without_the_assignment_the_answer_is_incomplete(group: Any, gap: str) -> None:
    """Where nothing hangs among what was looked at, that is no all-clear."""
    broker = GroupBroker()
    broker.described = {} if group is None else {"classic": group}
    broker.committed = {1: 42}
    audit = blocking(broker)
    assert audit.findings == ()
    assert not audit.read.complete
    assert len(audit.read.gaps) == 1
    assert gap in audit.read.gaps[0]
    assert " 1 with committed offsets; " in (audit.read.scope or "")


def test_empty_group_without_commits_is_no_error() -> None:
    broker = GroupBroker()
    broker.described = {"consumer": group_of("consumer", state="Empty")}
    audit = blocking(broker)
    assert (audit.findings, audit.read.partitions) == ((), 1)
    assert audit.read.gaps == ("where group 'shipments' waits is not certain: it has no members now",)
    broker.described = {"share": group_of("share", state="Empty")}
    audit = blocking(broker)
    assert (audit.findings, audit.read.partitions, audit.read.complete) == ((), 0, False)


def test_a_share_group_without_members_is_looked_at_where_it_has_begun() -> None:
    broker = GroupBroker()
    broker.described = {"share": group_of("share", state="Empty")}
    broker.versions[90] = (0, 1)
    broker.on[DescribeShareGroupOffsetsRequest] = lambda _: share_standing(2)
    audit = blocking(broker)
    assert hanging(audit) == [("orders", 0, "hanging")]
    assert audit.read.partitions == 1
    assert audit.findings[0].evidence[-1] == (
        f"Group 'shipments', if it reads committed, waits at offset {START}, 2 offsets below the high watermark."
    )


def test_offsets_that_are_refused_leave_the_members() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(assigned(0))}
    broker.offsets_code = 30
    audit = blocking(broker)
    assert hanging(audit) == [("orders", 0, "hanging")]
    assert "what group 'shipments' has committed could not be read: " in audit.read.gaps[0]


def test_group_of_which_nothing_is_known_is_an_error() -> None:
    broker = GroupBroker()
    with pytest.raises(
        ClientError, match=r"^group shipments does not exist: it has no members and no committed offsets$"
    ):
        blocking(broker)
    broker.offsets_code = 30
    broker.described = {"classic": classic(error_code=30)}
    with pytest.raises(BrokerError, match="the principal needs Describe on group shipments"):
        blocking(broker)


def test_assigned_topic_that_may_not_be_described_is_a_gap() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(assigned(0), assigned(0, topic="hidden"))}
    audit = blocking(broker)
    assert hanging(audit) == [("orders", 0, "hanging")]
    assert audit.read.gaps == ("topic hidden: UNKNOWN_TOPIC_OR_PARTITION",)


# Offsets in open transactions -----------------------------------------------------------------------------------------

IN_TRANSACTION = (
    "The transaction holds offsets of group 'shipments': fetching them fails for {} (UNSTABLE_OFFSET_COMMIT) until the "
    "transaction has ended."
)


def idle(**fields: Any) -> GroupBroker:
    """A group whose members are assigned both partitions of `orders`, in which no transaction is open."""
    broker = GroupBroker()
    broker.logs[0].start = -1
    broker.described = {"classic": classic(assigned(0, 1))}
    for name, value in fields.items():
        setattr(broker, name, value)
    return broker


@pytest.mark.parametrize("committed", [{}, {0: 40}], ids=["none committed", "one committed before"])
def test_names_every_partition_whose_offset_is_in_a_transaction(committed: dict[int, int]) -> None:
    """A request for all offsets is answered without the partitions that have no committed one (redpanda#6423)."""
    found = blocked_by(idle(committed=committed, unstable={0, 1}, pending=(0, 1)))
    (finding,) = found.audit.findings
    assert (finding.topic, finding.partition, finding.producer_id) == (OFFSETS, OWN, 9)
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-0, orders-1")
    assert found.behind == {(TopicPartition(OFFSETS, OWN), 9)}
    assert "2 with committed offsets (2 of them in an open transaction)" in (found.audit.read.scope or "")
    assert found.audit.read.gaps == ()


def test_group_without_members_is_named_by_the_records_of_the_transaction() -> None:
    """No broker lists its partitions: it has neither an assignment nor a committed offset."""
    found = blocked_by(idle(described={"classic": classic(state="Empty")}, pending=(1,)))
    (finding,) = found.audit.findings
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-1")
    found = blocked_by(idle(described={}, pending=(1,)))
    assert len(found.behind) == 1


def test_what_blocks_a_partition_that_only_these_records_name_is_found() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(state="Empty")}
    broker.pending = (0,)
    found = blocked_by(broker)
    assert {(topic, partition) for topic, partition, _ in hanging(found.audit)} == {("orders", 0), (OFFSETS, OWN)}


def test_transaction_of_other_groups_is_not_what_it_waits_for() -> None:
    found = blocked_by(idle(committed={0: 40}, pending=()))
    (finding,) = found.audit.findings
    assert "shipments" not in " ".join(finding.evidence)
    assert found.behind == frozenset()
    assert found.audit.read.gaps == ()


def test_unstable_offset_without_an_open_transaction_is_a_gap() -> None:
    """The broker says that a transaction holds it, and none is open where it is kept."""
    audit = blocking(idle(unstable={1}))
    assert audit.findings == ()
    assert not audit.read.complete
    assert audit.read.gaps == (
        "offsets of group 'shipments' could not be fetched for orders-1 (UNSTABLE_OFFSET_COMMIT), and no open "
        "transaction with them was found in __consumer_offsets-1, where they are kept: the group cannot start there, "
        "and what it waits for is not known",
    )


def test_offset_that_is_stable_by_the_end_of_the_search_is_no_gap() -> None:
    broker = idle(unstable={1})
    answered = broker.on[DescribeProducersRequest]

    def end(request: Any) -> Any:
        broker.unstable = set()
        return answered(request)

    broker.on[DescribeProducersRequest] = end
    audit = blocking(broker)
    assert (audit.read.gaps, audit.read.complete) == ((), True)


def test_partition_of_offsets_that_is_not_fetched_leaves_each_open_transaction_in_doubt() -> None:
    found = blocked_by(idle(unstable={1}, pending=(1,)), replace(SEARCH, fetch_bytes=0))
    (finding,) = found.audit.findings
    assert finding.evidence[-1] == (
        "The transaction may hold offsets of group 'shipments' (__consumer_offsets-1 was not read: nothing is to be "
        "fetched): fetching them fails for orders-1 (UNSTABLE_OFFSET_COMMIT) until the transaction has ended."
    )
    assert len(found.behind) == 1


def test_partition_of_offsets_that_is_fetched_in_part_leaves_each_open_transaction_in_doubt() -> None:
    found = blocked_by(idle(unstable={1}, pending=(0,), behind=3), replace(SEARCH, fetch_bytes=1))
    (finding,) = found.audit.findings
    assert found.view is not None
    assert found.view.held == {9: frozenset({TopicPartition("orders", 0), TopicPartition("orders", 1)})}
    assert finding.evidence[-1] == IN_TRANSACTION.format("orders-0, orders-1")


@pytest.mark.parametrize(
    ("behind", "problem"), [(0, None), (3, "__consumer_offsets-1 was read up to offset 0 of 3")], ids=["all", "part"]
)
def test_no_more_of_the_partition_of_offsets_is_fetched_than_is_allowed(behind: int, problem: str | None) -> None:
    """What is there is taken, and that there may be more is reported, without another request."""
    broker = idle(pending=(0,), behind=behind)

    async def scenario() -> PendingOffsets:
        async with broker.running(), admin(broker.address) as client:
            own = TopicPartition(OFFSETS, OWN)
            return await read_pending(client.cluster, GROUP, own, replace(SEARCH, fetch_bytes=1))

    assert run(scenario()) == PendingOffsets({9: frozenset({TopicPartition("orders", 0)})}, problem)
    assert broker.count(FetchRequest) == 1


def test_offset_that_is_refused_is_a_gap() -> None:
    broker = idle(committed={0: 40})
    refusing = broker.offset
    broker.offset = lambda topic, number: replace(refusing(topic, number), error_code=29)  # type: ignore[method-assign]
    audit = blocking(broker)
    assert [gap.split(":")[0] for gap in audit.read.gaps] == [
        "the offset of group 'shipments' in orders-0 could not be read",
        "the offset of group 'shipments' in orders-1 could not be read",
    ]


# Real groups ----------------------------------------------------------------------------------------------------------

TOPIC = "group-from-its-first-offset"


@pytest.fixture(scope="module")
def blocked(broker: RunningCluster) -> RunningCluster:
    """Both partitions of a topic begin with a transaction that hangs: no reader of committed data gets anything."""

    async def topic() -> None:
        async with Admin.connect(broker.bootstrap) as client:
            await real_cluster.create_topics(client, {TOPIC: 2})

    run(topic())
    with RawCluster(broker.bootstrap) as wire:
        producer = wire.init_producer("group-first-offset")
        for partition in range(2):
            wire.produce(TOPIC, partition, [b"x"], producer, timestamp=int(time.time() * 1000) - 3 * HOUR_MS)
    return broker


def of_group(cluster: RunningCluster, group: str) -> Audit:
    """Its findings are those that the group waits for. The partition of its offsets keeps those of other groups, too:
    open transactions that other tests have left there are findings that it does not wait for."""

    async def scenario() -> BlockedGroup:
        async with Admin.connect(cluster.bootstrap) as client:
            return await find_blocking(client.cluster, group, SEARCH)

    found = run(scenario())
    others = [one for one in found.audit.findings if not found.waits_behind(one)]
    assert {one.topic for one in others} <= {OFFSETS}
    return replace(found.audit, findings=tuple(filter(found.waits_behind, found.audit.findings)))


@pytest.fixture(params=["classic", "consumer"])
def reader(request: pytest.FixtureRequest, blocked: RunningCluster) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A consumer of each protocol that reads committed, with its kind, and how to poll it."""
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": blocked.bootstrap,
            "group.id": f"blocked-{request.param}",
            "group.protocol": request.param,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + TIMEOUT_S
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline
        assert consumer.poll(0.2) is None
    yield request.param, lambda: consumer.poll(0.5)
    consumer.close()


def test_real_group_that_is_blocked_from_its_first_offset(
    blocked: RunningCluster, reader: tuple[str, Callable[[], Any]]
) -> None:
    kind, poll = reader
    assert poll() is None  # it gets nothing, so it commits nothing
    audit = of_group(blocked, f"blocked-{kind}")
    assert hanging(audit) == [(TOPIC, 0, "hanging"), (TOPIC, 1, "hanging")]
    assert f"({kind}, Stable, 1 member) these partitions were looked at: 2 that its members are assigned; 0 with" in (
        audit.read.scope or ""
    )
    assert audit.read.complete
    assert all(finding.evidence[-1].endswith("; it has no offset here.") for finding in audit.findings)


_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("kind", "joining", "staying"),
    [
        (
            "share",
            ShareGroupHeartbeatRequest(
                group_id="blocked-share", member_id=_MEMBER, member_epoch=0, subscribed_topic_names=(TOPIC,)
            ),
            ShareGroupHeartbeatRequest(group_id="blocked-share", member_id=_MEMBER),
        ),
        (
            "streams",
            StreamsGroupHeartbeatRequest(
                group_id="blocked-streams",
                member_id=_MEMBER,
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                process_id="p",
                topology=Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=(TOPIC,)),)),
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
                client_tags=(),
            ),
            StreamsGroupHeartbeatRequest(group_id="blocked-streams", member_id=_MEMBER),
        ),
    ],
    ids=["share", "streams"],
)
def test_finds_what_blocks_real_share_and_streams_groups(
    blocked: RunningCluster, kind: str, joining: Any, staying: Any
) -> None:
    async def join() -> None:
        async with Admin.connect(blocked.bootstrap) as client:
            cluster, deadline = client.cluster, client.cluster.deadline()
            (node,) = await cluster.known_brokers(deadline)
            asked = FindCoordinatorRequest(key_type=0, coordinator_keys=(joining.group_id,))
            while (await cluster.ask_any(asked, deadline)).coordinators[0].error_code:
                assert await deadline.sleep(0.1)  # the first that is asked for makes the coordinators' topic
            while (answer := await cluster.ask_broker(node, joining, deadline)).error_code in RETRIABLE:
                assert await deadline.sleep(0.1), answer  # it is loaded
            while True:
                assert answer.error_code == 0, answer
                got = answer.assignment if kind == "share" else answer.active_tasks
                if got and (kind == "streams" or got.topic_partitions):
                    return
                assert await deadline.sleep(0.2)
                answer = await cluster.ask_broker(node, replace(staying, member_epoch=answer.member_epoch), deadline)

    run(join())
    audit = of_group(blocked, f"blocked-{kind}")
    assert hanging(audit) == [(TOPIC, 0, "hanging"), (TOPIC, 1, "hanging")]
    assert f"({kind}, Stable, 1 member) these partitions were looked at: 2 that its members are assigned" in (
        audit.read.scope or ""
    )


def test_real_group_that_is_empty(blocked: RunningCluster) -> None:
    """What a consumer without a group's protocol has committed, and nothing else is known."""

    async def commit() -> None:
        async with Admin.connect(blocked.bootstrap) as client:
            await real_cluster.commit_offsets(client, "blocked-empty", TOPIC, {0: 0})

    run(commit())
    audit = of_group(blocked, "blocked-empty")
    assert hanging(audit) == [(TOPIC, 0, "hanging")]
    assert audit.read.gaps == ("where group 'blocked-empty' waits is not certain: it has no members now",)
    assert TopicPartition(TOPIC, 1) not in {TopicPartition(f.topic, f.partition) for f in audit.findings}
    with pytest.raises(ClientError, match="group blocked-absent does not exist"):
        of_group(blocked, "blocked-absent")


def test_real_group_whose_offsets_are_in_a_transaction_of_a_dead_producer(blocked: RunningCluster) -> None:
    """It has committed one partition before, and the other never outside of a transaction."""
    group = "blocked-by-its-offsets"

    async def commit() -> BlockedGroup:
        async with Admin.connect(blocked.bootstrap) as client:
            await real_cluster.commit_offsets(client, group, TOPIC, {0: 0})
            for partition in range(2):
                await real_cluster.commit_offsets_in_transaction(client, group, producer, TOPIC, partition)
            return await find_blocking(client.cluster, group, SEARCH)

    with RawCluster(blocked.bootstrap) as wire:
        producer = wire.init_producer("dead-committer", timeout_ms=600_000)
        found = run(commit())
    mine = [one for one in found.audit.findings if one.transactional_id == "dead-committer"]
    assert [(one.topic, one.reason) for one in mine] == [(OFFSETS, "live")]
    assert mine[0].evidence[-1] == (
        f"The transaction holds offsets of group '{group}': fetching them fails for {TOPIC}-0, {TOPIC}-1 "
        "(UNSTABLE_OFFSET_COMMIT) until the transaction has ended."
    )
    assert (TopicPartition(OFFSETS, mine[0].partition), producer.producer_id) in found.behind
