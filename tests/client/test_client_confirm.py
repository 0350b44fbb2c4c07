"""The second reading of find_hanging, with brokers that say one thing first and another later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import Search
from kafkawire.client.errors import ID_NOT_FOUND, NOT_COORDINATOR
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
)
from kafkawire.messages.describe_transactions_response import TransactionState as Described
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.rows import Audit, Unread
from kafkawire.transactions.coordinator_rules import partition_of_id
from tests.client.answers import admin, describing, listing, producers, run, script
from tests.client.scripted import ScriptedBroker, closed_port

pytestmark = pytest.mark.slow

STATE = "__transaction_state"
SEARCH = Search(topics=("orders",), confirm_after_s=0.01, session_s=0.02)
HANGING = ("hanging", "no_transactional_id")


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    high = 40 if request.isolation_level else 90
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, offset=0 if one.timestamp == -2 else high
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def ended(request: DescribeProducersRequest) -> DescribeProducersResponse:
    return producers(start=-1)(request)


def broker(**on: Any) -> ScriptedBroker:
    """A broker with one old open transaction in orders-0, no authorizer, and nothing listed."""
    made = ScriptedBroker({"orders": {0: 1}, STATE: {0: 1, 1: 1}})
    made.versions[29] = (1, 3)
    made.on |= {
        DescribeAclsRequest: lambda _: DescribeAclsResponse(error_code=54),
        DescribeProducersRequest: producers(),
        ListTransactionsRequest: lambda _: ListTransactionsResponse(),
        ListOffsetsRequest: offsets,
        DescribeTransactionsRequest: describing(),
    }
    return made


async def find(made: ScriptedBroker, search: Search = SEARCH) -> Audit:
    async with made.running(), admin(made.address) as client:
        return await client.find_hanging_transactions(search)


def verdicts(audit: Audit) -> list[tuple[str, str]]:
    return [(finding.verdict, finding.reason) for finding in audit.findings]


def scenario(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def runner() -> None:
        run(test)

    runner.__name__, runner.__doc__ = test.__name__, test.__doc__
    return runner


@scenario
async def test_two_readings_that_agree_confirm_it() -> None:
    made = broker()
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert made.count(DescribeProducersRequest) == made.count(ListTransactionsRequest) == 2
    (finding,) = audit.findings
    assert (finding.last_stable_offset, finding.high_watermark, finding.blocked) == (40, 90, True)


@scenario
async def test_leaves_out_a_transaction_that_ended_meanwhile() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = script(producers(), ended)
    assert verdicts(await find(made)) == []


@scenario
async def test_one_that_was_followed_by_another() -> None:
    """Each reading shows another transaction of the producer: that is no hanging one."""
    made = broker()
    made.on[DescribeProducersRequest] = script(*(producers(start=start) for start in (40, 50, 60, 70, 80)))
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "A new transaction of the producer began between two readings." in audit.findings[0].evidence


@scenario
async def test_one_that_was_followed_by_a_hanging_one() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = script(producers(start=40), producers(start=50))
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert audit.findings[0].start_offset == 50
    assert made.count(DescribeProducersRequest) == 3


@scenario
async def test_an_id_that_was_in_no_list_for_a_moment() -> None:
    """While a coordinator moves, every broker answers without error and none lists its ids."""
    made = broker()

    def late(_: ListTransactionsRequest) -> ListTransactionsResponse:
        first, *_rest = listing("live-1").transaction_states

        return ListTransactionsResponse(transaction_states=(replace(first, producer_id=7),))

    made.on[ListTransactionsRequest] = script(ListTransactionsResponse(), late)
    (verdict,) = verdicts(await find(made))
    assert verdict[0] == "not_hanging"


def preparing(state: str = "PrepareCommit", **more: Any) -> dict[type, Any]:
    """The id of the open transaction is listed, and its coordinator says that it is being ended."""

    def listed(_: Any) -> ListTransactionsResponse:
        (first,) = listing("paying").transaction_states
        return ListTransactionsResponse(transaction_states=(replace(first, producer_id=7),))

    def described(request: DescribeTransactionsRequest) -> Any:
        answer = describing()(request)
        return replace(
            answer,
            transaction_states=tuple(
                replace(one, transaction_state=state, **more) for one in answer.transaction_states
            ),
        )

    return {ListTransactionsRequest: listed, DescribeTransactionsRequest: described}


#: Its start, the epoch of 1970, is young with this limit: only what the readings say counts.
PATIENT = replace(SEARCH, max_timeout_ms=1 << 50)


@pytest.mark.parametrize(
    ("timeout_ms", "begun_s", "reason", "action"),
    [
        (60_000, 0, "live", "its producer ends it, or the coordinator"),
        (60_000, -61, "late", "none on the partition: its coordinator must end it"),
        (2**31 - 1, -7 * 86_400, "two_phase_commit", "its owner must commit or abort it"),
    ],
)
def test_what_its_coordinator_holds(timeout_ms: int, begun_s: int, reason: str, action: str) -> None:
    """However old its batches are. It is read once: nothing can hide what is there."""

    async def test() -> None:
        made = broker()
        begun = int(time.time() + begun_s) * 1000
        made.on |= preparing("Ongoing", transaction_timeout_ms=timeout_ms, transaction_start_time_ms=begun)
        audit = await find(made)
        assert verdicts(audit) == [("not_hanging", reason)]
        assert action in (audit.findings[0].action or "")
        assert made.count(DescribeProducersRequest) == 1

    run(test)


@scenario
async def test_a_marker_that_does_not_arrive() -> None:
    """Seen twice, with a leader that answers: there is no need to wait until it is old."""
    made = broker()
    made.on |= preparing()
    audit = await find(made, PATIENT)
    assert verdicts(audit) == [("not_hanging", "stuck_prepare")]
    assert made.count(DescribeProducersRequest) == 2
    assert "its COMMIT marker does not arrive" in " ".join(audit.findings[0].evidence)
    assert "never abort it, COMMIT is decided" in (audit.findings[0].action or "")


@scenario
async def test_a_marker_that_takes_a_moment() -> None:
    made = broker()
    made.on |= preparing()
    made.on[DescribeProducersRequest] = script(producers(), ended)
    assert verdicts(await find(made, PATIENT)) == []


@scenario
async def test_a_transaction_that_is_prepared_after_another() -> None:
    """Two different ones: neither was seen twice."""
    made = broker()
    made.on |= preparing("PrepareAbort")
    made.on[DescribeProducersRequest] = script(*(producers(start=start) for start in (40, 50, 60, 70, 80)))
    assert verdicts(await find(made, PATIENT)) == [("not_hanging", "live")]


@scenario
async def test_a_marker_is_waited_for_while_coordinators_move() -> None:
    """The new coordinator writes it once it has loaded: two readings without a move in between are needed."""
    made = broker()
    made.on |= preparing()
    metadata = made.metadata
    epochs = iter([1, 1, 2, 2])

    def moving(request: Any) -> Any:
        answer = metadata(request)
        if [topic.name for topic in request.topics or ()] != [STATE]:
            return answer
        epoch = next(epochs, 2)
        topics = (
            replace(topic, partitions=tuple(replace(one, leader_epoch=epoch) for one in topic.partitions))
            for topic in answer.topics
        )
        return replace(answer, topics=tuple(topics))

    made.on[MetadataRequest] = moving
    assert verdicts(await find(made, PATIENT)) == [("not_hanging", "stuck_prepare")]
    assert made.count(DescribeProducersRequest) == 3


@scenario
async def test_coordinators_that_never_stop_moving() -> None:
    made = broker()
    metadata = made.metadata
    epochs = iter(range(1000))

    def moving(request: Any) -> Any:

        answer = metadata(request)
        return replace(
            answer,
            topics=tuple(
                replace(t, partitions=tuple(replace(p, leader_epoch=next(epochs)) for p in t.partitions))
                for t in answer.topics
            ),
        )

    made.on[MetadataRequest] = moving
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert (
        "Coordinators moved while it was read (partitions 0, 1 of __transaction_state)." in audit.findings[0].evidence
    )


def unloaded(answers: int) -> Callable[[Any], Any]:
    """A coordinator that so often says it has not loaded partition 1, and then that it knows no such id."""
    left = iter(range(answers))

    def answer(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        moving = any(partition_of_id(one, 2) == 1 for one in request.transactional_ids) and next(left, None) is not None
        return DescribeTransactionsResponse(
            transaction_states=tuple(
                Described(
                    transactional_id=one,
                    error_code=NOT_COORDINATOR if moving and partition_of_id(one, 2) == 1 else ID_NOT_FOUND,
                )
                for one in request.transactional_ids
            )
        )

    return answer


@scenario
async def test_a_coordinator_that_has_not_begun_to_load() -> None:
    """It leads in all metadata, lists nothing and says no error: what it will load is not absent."""
    made = broker()
    made.on[DescribeTransactionsRequest] = unloaded(10**6)
    async with made.running(), admin(made.address, default_api_timeout_ms="300") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    said = " ".join(audit.findings[0].evidence)
    assert "The ids in partition 1 of __transaction_state could not be listed: no coordinator has loaded them" in said
    assert "NOT_COORDINATOR" in said


@scenario
async def test_a_coordinator_that_loads_a_little_later() -> None:
    """It is waited for, and asked for its list only then: the id is there."""
    made = broker()
    asked = unloaded(2)
    loaded = False

    def described(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        nonlocal loaded
        if "live-1" in request.transactional_ids:
            return describing()(request)
        answer: DescribeTransactionsResponse = asked(request)
        loaded = all(one.error_code == ID_NOT_FOUND for one in answer.transaction_states)
        return answer

    def listed(_: Any) -> ListTransactionsResponse:
        first, *_rest = listing("live-1").transaction_states
        return ListTransactionsResponse(transaction_states=(replace(first, producer_id=7),) if loaded else ())

    made.on |= {DescribeTransactionsRequest: described, ListTransactionsRequest: listed}
    assert [verdict for verdict, _ in verdicts(await find(made))] == ["not_hanging"]


@scenario
async def test_coordinators_that_loaded_all_they_lead() -> None:
    made = broker()
    made.on[DescribeTransactionsRequest] = unloaded(0)
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert "all coordinators have loaded their ids" in " ".join(audit.findings[0].evidence)


@scenario
async def test_a_coordinator_that_is_down() -> None:
    made = broker()
    async with made.running():
        made.brokers[2] = await closed_port()
        made.topics[STATE][1] = 2
        async with admin(made.address, socket_connection_setup_timeout_ms="300") as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "Broker 2 did not list its transactional ids" in " ".join(audit.findings[0].evidence)
    assert not audit.read.complete


@pytest.mark.parametrize("other", [(1, 5), (2, 6), (-1, 6)])
def test_brokers_that_name_different_leaders_make_it_unknown(other: tuple[int, int]) -> None:
    """Broker 1 was deposed and has not learnt of it: its description of the partition is no evidence."""
    leader, epoch = other

    async def test() -> None:
        made, newer = broker(), broker()
        newer.node_id, newer.topics["orders"] = 2, {0: leader}
        made.topics[STATE] = newer.topics[STATE] = {0: 1, 1: 1}
        metadata = newer.metadata

        def moved(request: Any) -> Any:
            answer = metadata(request)
            topics = (
                replace(topic, partitions=tuple(replace(one, leader_epoch=epoch) for one in topic.partitions))
                if topic.name == "orders"
                else topic
                for topic in answer.topics
            )
            return replace(answer, topics=tuple(topics))

        newer.on[MetadataRequest] = moved
        async with made.running(), newer.running():
            made.brokers = newer.brokers = {1: made.port, 2: newer.port}
            async with admin(made.address) as client:
                audit = await client.find_hanging_transactions(SEARCH)
        assert verdicts(audit) == [("unknown", "coverage_incomplete")]
        said = " ".join(audit.findings[0].evidence)
        assert "Its leader changed, or not all brokers know of that yet: broker 1 in leader epoch 0, " in said
        assert f"{'none' if leader < 0 else f'broker {leader}'} in leader epoch {epoch}." in said

    run(test)


@scenario
async def test_brokers_that_name_the_same_leader_confirm_it() -> None:
    made, other = broker(), broker()
    other.node_id = 2
    async with made.running(), other.running():
        made.brokers = other.brokers = {1: made.port, 2: other.port}
        async with admin(made.address) as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    assert other.count(MetadataRequest) == 2


@scenario
async def test_a_partition_without_coordinator() -> None:
    made = broker()
    made.topics[STATE][1] = -1
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "Partitions 1 of __transaction_state have no leader" in " ".join(audit.findings[0].evidence)


@scenario
async def test_partitions_that_could_not_be_described() -> None:
    made = broker()
    made.topics["orders"][1] = -1
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    (gap,) = audit.read.gaps
    why = "LEADER_NOT_AVAILABLE (no leader; its replicas: -1)"
    assert gap == f"orders-1 was not read: {why}"
    assert audit.unread == (Unread(topic="orders", partition=1, broker_id=None, reason=why),)
    assert (audit.read.partitions, audit.read.partitions_chosen, audit.read.complete) == (1, 2, False)


@scenario
async def test_partition_whose_leader_came_back_is_read_and_confirmed() -> None:
    """It has none in the first reading; its transaction is seen in two later ones, as that of any other partition."""
    made = broker()
    made.topics["orders"][1] = -1

    def first_reading_is_over(_: ListTransactionsRequest) -> ListTransactionsResponse:
        made.topics["orders"][1] = 1
        return ListTransactionsResponse()

    made.on[ListTransactionsRequest] = first_reading_is_over
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert [(finding.partition, finding.verdict) for finding in audit.findings] == [(0, "hanging"), (1, "hanging")]
    assert (audit.read.gaps, audit.unread) == ((), ())
    assert (audit.read.partitions, audit.read.partitions_chosen, audit.read.complete) == (2, 2, True)
    assert made.count(DescribeProducersRequest) == 3


@scenario
async def test_partition_whose_leader_came_back_may_have_nothing_open() -> None:
    made = broker()
    made.topics["orders"][1] = -1

    def first_reading_is_over(_: ListTransactionsRequest) -> ListTransactionsResponse:
        made.topics["orders"][1] = 1
        return ListTransactionsResponse()

    def only_in_the_first(request: DescribeProducersRequest) -> DescribeProducersResponse:
        answer = producers()(request)
        (topic,) = answer.topics
        partitions = tuple(p if p.partition_index == 0 else replace(p, active_producers=()) for p in topic.partitions)
        return replace(answer, topics=(replace(topic, partitions=partitions),))

    made.on |= {ListTransactionsRequest: first_reading_is_over, DescribeProducersRequest: only_in_the_first}
    async with made.running(), admin(made.address, socket_connection_setup_timeout_ms="200") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    assert (audit.read.partitions, audit.read.complete) == (2, True)
    assert made.count(DescribeProducersRequest) == 2


@scenario
async def test_a_broker_from_before_kafka_3() -> None:
    """It describes producers, and nobody lists ids: that is no proof of anything."""
    made = broker()
    del made.versions[66], made.versions[65]
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert (
        "the broker does not support ListTransactions requests: brokers know it from Kafka 3.0 on" in audit.read.gaps[0]
    )
    assert not audit.read.complete


@scenario
async def test_the_log_starts_behind_it() -> None:
    """Its data is deleted, and readers wait all the same: what frees them is said, once no coordinator is sure to."""
    made = broker()
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 60)
    audit = await find(made, replace(SEARCH, address="h:1"))
    assert verdicts(audit) == [("not_hanging", "ghost")]
    (finding,) = audit.findings
    assert finding.blocked
    assert "no authorizer hides any" in finding.evidence[2]
    assert finding.action == (
        "readers wait until a marker is written: kafka-transactions.sh --bootstrap-server h:1 abort --topic orders "
        "--partition 0 --producer-id 7 --producer-epoch 3 --coordinator-epoch 0"
    )


@scenario
async def test_the_log_starts_behind_one_that_lives() -> None:
    made = broker()
    made.on |= preparing("Ongoing")
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 60)
    (finding,) = (await find(made)).findings
    assert finding.reason == "ghost"
    assert "its coordinator must end it" in (finding.action or "")
    assert "kafka-transactions.sh" not in (finding.action or "")


@scenario
async def test_the_log_starts_behind_what_blocks_nobody() -> None:
    made = broker()
    made.on[ListOffsetsRequest] = lambda request: _from(offsets(request), 90)
    (finding,) = (await find(made)).findings
    assert (finding.reason, finding.blocked) == ("ghost", False)
    assert (finding.action or "").startswith("none: its data is deleted")


def _from(answer: ListOffsetsResponse, start: int) -> ListOffsetsResponse:

    return replace(
        answer,
        topics=tuple(
            replace(t, partitions=tuple(replace(p, offset=max(start, p.offset)) for p in t.partitions))
            for t in answer.topics
        ),
    )


@pytest.mark.parametrize("age_ms", [0, 21 * 60_000])
def test_reads_only_old_transactions_again(age_ms: int) -> None:
    async def test() -> None:
        made = broker()
        last = int(time.time() * 1000) - age_ms

        def aged(request: DescribeProducersRequest) -> DescribeProducersResponse:
            (topic,) = producers()(request).topics
            (partition,) = topic.partitions
            (state,) = partition.active_producers
            partition = replace(partition, active_producers=(replace(state, last_timestamp=last),))
            return DescribeProducersResponse(topics=(replace(topic, partitions=(partition,)),))

        made.on[DescribeProducersRequest] = aged
        assert verdicts(await find(made)) == [HANGING if age_ms else ("not_hanging", "young")]
        assert made.count(DescribeProducersRequest) == (2 if age_ms else 1)

    asyncio.run(test())
