"""What blocks a group: scripted coordinators of each kind, and real groups that never got past their first offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import Admin, BrokerError, ClientError, TopicPartition
from kafkawire.client.diagnosis.blocked_group import BlockedGroup, find_blocking
from kafkawire.client.errors import RETRIABLE
from kafkawire.messages import (
    DescribeShareGroupOffsetsRequest,
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
    SHARE_MEMBERS,
    TIMEOUT_S,
    GroupBroker,
    assigned,
    blocking,
    classic,
    group_of,
    hanging,
    named,
    run,
    share_standing,
)
from tests.client.partition_script import SEARCH, START
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster

HOUR_MS = 3_600_000


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
