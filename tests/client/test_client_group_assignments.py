"""What members of a group are assigned, as each kind of group is described; and why it may be less than all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.client import BrokerError, ClientError, TopicPartition, UnsupportedApiError
from kafkawire.client.rpc.group_assignments import GroupAssignment, group_assignment
from kafkawire.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    consumer_group_describe_response,
    share_group_describe_response,
    streams_group_describe_response,
)
from kafkawire.messages.find_coordinator_response import Coordinator
from tests.client.answers import admin, script
from tests.client.group_script import GROUP, KINDS, NOT_FOUND, GroupBroker, assigned, classic, group_of, named

CONSUMER, SHARE, STREAMS = (
    consumer_group_describe_response,
    share_group_describe_response,
    streams_group_describe_response,
)


def asked(broker: GroupBroker) -> GroupAssignment | None:
    """What the client makes of the broker's answers."""

    async def scenario() -> GroupAssignment | None:
        broker.brokers.clear()  # it has another port each time
        async with broker.running(), admin(broker.address) as client:
            return await group_assignment(client.cluster, GROUP, client.cluster.deadline())

    return asyncio.run(asyncio.wait_for(scenario(), 20))


def of(kind: str, group: Any) -> GroupAssignment:
    broker = GroupBroker()
    broker.described = {kind: group}
    found = asked(broker)
    assert found is not None
    assert found.kind == kind
    return found


def places(*partitions: int, topic: str = "orders") -> set[TopicPartition]:
    return {TopicPartition(topic, p) for p in partitions}


# Kinds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_reads_assignments_of_a_classic_group(version: int) -> None:
    found = of("classic", classic(assigned(0, 1, version=version), assigned(3, version=version), b""))
    assert (found.state, found.members, found.doubt) == ("Stable", 3, None)
    assert found.partitions == places(0, 1, 3)


def test_classic_assignment_of_a_newer_version_is_read_as_the_newest_known() -> None:
    newer = b"\x00\x09" + assigned(2, version=3)[2:] + b"what a later version adds"
    assert of("classic", classic(newer)).partitions == places(2)


def test_consumer_group_has_what_members_hold_and_what_they_are_about_to_get() -> None:
    member = CONSUMER.Member(
        member_id="m", assignment=named(CONSUMER, 0, 1), target_assignment=named(CONSUMER, 0, 2, topic="payments")
    )
    found = of("consumer", group_of("consumer", member, state="Reconciling"))
    assert (found.partitions, found.doubt) == (places(0, 1) | places(0, 2, topic="payments"), None)


def test_reads_assignments_of_a_share_group() -> None:
    members = (SHARE.Member(member_id=f"m{p}", assignment=named(SHARE, p)) for p in (0, 1))
    found = of("share", group_of("share", *members))
    assert (found.partitions, found.members, found.doubt) == (places(0, 1), 2, None)


def test_streams_group_reads_sources_and_restores_changelogs() -> None:
    def tasks(*partitions: int, of: str = "0") -> tuple[Any, ...]:
        return (STREAMS.TaskIds(subtopology_id=of, partitions=partitions),) if partitions else ()

    def topic(name: str) -> Any:
        return STREAMS.TopicInfo(name=name)

    topology = STREAMS.Topology(
        subtopologies=(
            STREAMS.Subtopology(
                subtopology_id="0", source_topics=("orders",), repartition_source_topics=(topic("by-key"),)
            ),
            STREAMS.Subtopology(
                subtopology_id="1", source_topics=("payments",), state_changelog_topics=(topic("changes"),)
            ),
        )
    )
    member = STREAMS.Member(
        member_id="m",
        assignment=STREAMS.Assignment(active_tasks=tasks(0), standby_tasks=tasks(5, of="1")),
        target_assignment=STREAMS.Assignment(active_tasks=tasks(7, of="1"), warmup_tasks=tasks(6, of="1")),
    )
    found = of("streams", group_of("streams", member, topology=topology))
    sources = places(0) | places(0, topic="by-key") | places(7, topic="payments")
    assert found.partitions == sources | places(5, 6, 7, topic="changes")
    assert found.doubt is None
    without = of("streams", group_of("streams", member))
    assert "its topology has no subtopology '0'" in (without.doubt or "")


# Why it may be less than all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "doubt"),
    [
        (classic(state="Empty"), "where group 'shipments' waits is not certain: it has no members now"),
        (
            classic(b"", b"", state="PreparingRebalance"),
            "where group 'shipments' waits is not certain: it is PreparingRebalance, what its members get is not "
            "settled (ask again later)",
        ),
        (classic(b"", b""), "where group 'shipments' waits is not certain: its members are assigned no partition now"),
        (
            classic(b"\x00\x01\x00\x00\x00\x00", protocol="connect"),
            "where group 'shipments' waits is not certain: assignments of its protocol 'connect' name no partitions",
        ),
    ],
    ids=["empty", "rebalancing", "idle", "connect"],
)
def test_classic_group_without_a_complete_assignment(group: Any, doubt: str) -> None:
    found = of("classic", group)
    assert (found.partitions, found.doubt) == (set(), doubt)


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff\x00\x00", b"\x00\x00\x7f\xff\xff\xff", assigned(0)[:-6]])
def test_assignment_that_cannot_be_read_is_a_doubt(data: bytes) -> None:
    """The other members' still count."""
    found = of("classic", classic(assigned(1), data))
    assert found.partitions == places(1)
    assert "member 'm1': " in (found.doubt or "")
    both = of("classic", classic(assigned(1), data, data))
    assert "the assignments of 2 members could not be read (member 'm1': " in (both.doubt or "")


def test_unknown_group_has_no_assignment() -> None:
    broker = GroupBroker()
    assert asked(broker) is None
    assert sum(broker.count(request) for _, _, request, _, _ in KINDS.values()) == len(KINDS)


def test_brokers_before_4_4_name_the_state_dead() -> None:
    broker = GroupBroker()
    broker.described = {"classic": classic(state="Dead")}
    assert asked(broker) is None


def test_old_broker_is_asked_for_classic_groups_alone() -> None:
    broker = GroupBroker()
    for key, *_ in KINDS.values():
        broker.versions.pop(key)
    broker.versions[15] = (0, 5)
    broker.described = {"classic": classic(assigned(0))}
    found = asked(broker)
    assert found is not None
    assert found.partitions == places(0)
    broker.described = {}
    assert asked(broker) is None
    broker.versions.pop(15)
    with pytest.raises(UnsupportedApiError, match="does not support DescribeGroups requests"):
        asked(broker)


@pytest.mark.parametrize(
    ("kind", "code", "right"),
    [("classic", 30, "Describe on group shipments"), ("consumer", 29, "Describe on each of its topics")],
)
def test_missing_right_is_named(kind: str, code: int, right: str) -> None:
    broker = GroupBroker()
    broker.described = {kind: group_of(kind, error_code=code, error_message="not yours")}
    with pytest.raises(BrokerError, match=f"^members of group shipments: .* the principal needs {right}$"):
        asked(broker)


def test_kind_that_is_switched_off_is_passed_over() -> None:
    broker = GroupBroker()
    member = SHARE.Member(member_id="m", assignment=named(SHARE, 1))
    broker.described = {"consumer": group_of("consumer", error_code=35), "share": group_of("share", member)}
    found = asked(broker)
    assert found is not None
    assert found.kind == "share"


def test_coordinator_that_moved_is_looked_for_again() -> None:
    broker = GroupBroker()
    moved = DescribeGroupsResponse(groups=(classic(error_code=16),))
    there = DescribeGroupsResponse(groups=(classic(assigned(0)),))
    broker.on[DescribeGroupsRequest] = script(moved, there)
    found = asked(broker)
    assert found is not None
    assert found.partitions == places(0)
    assert broker.count(FindCoordinatorRequest) == 2


def test_answer_without_the_group_is_an_error() -> None:
    broker = GroupBroker()
    broker.on[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse()
    with pytest.raises(ClientError, match="group shipments: the broker's answer to DescribeGroups does not contain it"):
        asked(broker)


def test_coordinator_that_may_not_be_known() -> None:
    broker = GroupBroker()
    denied = FindCoordinatorResponse(coordinators=(Coordinator(key=GROUP, node_id=-1, error_code=30),))
    broker.on[FindCoordinatorRequest] = lambda _: denied
    with pytest.raises(BrokerError, match="the principal needs Describe on group shipments"):
        asked(broker)


def test_not_found_is_no_error_of_the_group() -> None:
    broker = GroupBroker()
    broker.described = {
        "classic": classic(error_code=NOT_FOUND, error_message="Group shipments is not a classic group.")
    }
    assert asked(broker) is None
