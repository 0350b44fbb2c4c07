"""What an answer without findings rests on, on scripted brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.diagnosis import hanging_search
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.transactions.verdict.completeness import outcome
from tests.client.answers import admin, producers, scenario, script
from tests.client.hanging_script import SEARCH, broker, ended, find, preparing
from tests.client.scripted import ScriptedBroker, closed_port

pytestmark = pytest.mark.slow

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
Answer = Callable[[MetadataRequest], MetadataResponse]


def by_name(audit: rows.Audit) -> dict[str, rows.Premise]:
    return {one.name: one for one in audit.read.premises}


def in_epoch(answer: Answer, epoch: int) -> Answer:
    """Metadata in which partitions have another leader epoch."""

    def given(request: MetadataRequest) -> MetadataResponse:
        response = answer(request)
        topics = [
            replace(topic, partitions=tuple(replace(one, leader_epoch=epoch) for one in topic.partitions))
            for topic in response.topics or ()
        ]
        return replace(response, topics=tuple(topics))

    return given


def two_brokers() -> tuple[ScriptedBroker, ScriptedBroker]:
    """Broker 1 leads orders-0, in which nothing is open; broker 2 leads no partition."""
    first, second = broker(), broker()
    for one in (first, second):
        one.on[DescribeProducersRequest] = ended
        one.coordinator = 1
    second.node_id = 2
    second.topics = first.topics
    return first, second


async def searched(first: ScriptedBroker, second: ScriptedBroker, **options: Any) -> rows.Audit:
    async with first.running(), second.running():
        for one in (first, second):
            one.brokers = {1: first.port, 2: second.port}
        async with admin(first.address) as client:
            return await client.find_hanging_transactions(replace(SEARCH, **options))


@scenario
async def test_a_complete_answer_has_its_premises() -> None:
    audit = await searched(*two_brokers())
    assert outcome(audit) == rows.Outcome(found=False, complete=True)
    assert [(one.name, one.holds) for one in audit.read.premises] == [
        ("place", True),
        ("reach", True),
        ("time", True),
        ("soundness", True),
    ]
    assert by_name(audit)["place"].source == "Metadata of brokers 1, 2"


@scenario
async def test_a_dead_broker_is_no_witness_while_metadata_still_names_it() -> None:
    """Its session lasts for some seconds. It leads nothing, so that its silence leaves nothing out."""
    first, _ = two_brokers()
    port = await closed_port()
    async with first.running():
        first.brokers = {1: first.port, 2: port}
        async with admin(first.address) as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert {name: by_name(audit)[name].source for name in ("place", "reach")} == {
        "place": "Metadata of broker 1",
        "reach": "broker 1",
    }
    assert "the leaders that this broker names" in by_name(audit)["place"].what


@scenario
async def test_a_deposed_leader_gives_no_all_clear() -> None:
    """It answers as before; another broker names a later leader epoch."""
    first, second = two_brokers()
    second.on[MetadataRequest] = in_epoch(second.metadata, 5)
    audit = await searched(first, second)
    place = by_name(audit)["place"]
    assert not place.holds
    assert "partition orders-0: its leader changed, or brokers still disagree on it" in place.what
    assert not outcome(audit).complete
    assert any("orders-0" in gap for gap in audit.read.gaps)


@scenario
async def test_partitions_are_read_again_until_brokers_agree() -> None:
    first, second = two_brokers()
    second.on[MetadataRequest] = script(in_epoch(second.metadata, 5), second.metadata)
    audit = await searched(first, second)
    assert by_name(audit)["place"].holds
    assert outcome(audit).complete
    assert first.count(DescribeProducersRequest) == 2


@scenario
async def test_a_follower_gives_no_all_clear() -> None:
    """What it has not fetched is not known."""
    first, second = two_brokers()
    for one in (first, second):
        one.on[MetadataRequest] = replicated(one)
    audit = await searched(first, second, broker_id=2)
    place = by_name(audit)["place"]
    assert not place.holds
    assert "partition orders-0: broker 2 described it and does not lead it" in place.what
    assert not outcome(audit).complete


def replicated(made: ScriptedBroker) -> Answer:
    """Metadata in which both brokers have replicas."""

    def given(request: MetadataRequest) -> MetadataResponse:
        response = made.metadata(request)
        topics = [
            replace(topic, partitions=tuple(replace(one, replica_nodes=(1, 2)) for one in topic.partitions))
            for topic in response.topics or ()
        ]
        return replace(response, topics=tuple(topics))

    return given


@scenario
async def test_errors_are_no_sound_answer() -> None:
    made = broker()
    made.topics["orders"] = {0: 1, 1: -1}
    made.on[DescribeProducersRequest] = ended
    audit = await find(made)
    assert {name: one.holds for name, one in by_name(audit).items()} == {
        "place": True,
        "reach": False,
        "time": True,
        "soundness": False,
    }


@scenario
async def test_offsets_that_cannot_be_read_leave_a_suspect_unknown() -> None:
    made = broker()
    denied = ListOffsetsPartitionResponse(partition_index=0, error_code=29)
    made.on[ListOffsetsRequest] = lambda _: ListOffsetsResponse(
        topics=(ListOffsetsTopicResponse(name="orders", partitions=(denied,)),)
    )
    (finding,) = (await find(made)).findings
    assert finding.verdict == "unknown"
    assert [one.name for one in finding.premises if not one.holds] == ["soundness"]


# Clocks of coordinators -----------------------------------------------------------------------------------------------


def began_between(behind_ms: int, **more: int) -> ScriptedBroker:
    """The id of the open transaction in orders-0 begins another one between two searches. Its coordinator's clock is
    behind."""
    made = broker()
    now = int(time.time() * 1000) - behind_ms
    earlier = preparing("Ongoing", transaction_start_time_ms=now - 1000)
    later = preparing("Ongoing", transaction_start_time_ms=now, **more)
    made.on |= earlier
    made.on[DescribeTransactionsRequest] = script(
        earlier[DescribeTransactionsRequest], later[DescribeTransactionsRequest]
    )
    made.on[ListTransactionsRequest] = later[ListTransactionsRequest]
    return made


@scenario
async def test_a_search_that_sees_the_next_transaction_begin_measures_the_clock() -> None:
    """A watch saw the last transaction of the producer: the start of the next one is between the polls."""
    made = began_between(HOUR_MS)
    async with made.running(), admin(made.address) as client:
        first = await observe(client.cluster, SEARCH, {})
        (old,) = first.audit.findings
        assert (old.reason, old.attention) == ("late", "blocked")
        earlier = {(next(iter(first.described)), old.producer_id): old}
        at = hanging_search.clock_ms()
        made.on[DescribeProducersRequest] = producers(start=50)
        second = await observe(client.cluster, SEARCH, earlier, since=dict.fromkeys(earlier, at))
    (finding,) = second.audit.findings
    assert (finding.reason, finding.attention) == ("live", None)
    assert any("The clock of broker 1 is behind the clock here by" in one for one in finding.evidence)
    time_ = next(one for one in second.audit.read.premises if one.name == "time")
    assert time_.holds
    assert "allowed for: the clock of broker 1 is behind" in time_.what


@scenario
async def test_two_readings_of_one_search_measure_the_clock() -> None:
    """It is decided in the first reading, and the id's next transaction is open in the second one."""
    made = broker()
    now = int(time.time() * 1000) - HOUR_MS
    decided = preparing(transaction_start_time_ms=now - 1000)
    later = preparing("Ongoing", transaction_start_time_ms=now)
    made.on |= decided
    made.on[DescribeTransactionsRequest] = script(
        decided[DescribeTransactionsRequest], later[DescribeTransactionsRequest]
    )
    made.on[DescribeProducersRequest] = script(producers(), producers(start=50))
    (finding,) = (await find(made)).findings
    assert (finding.reason, finding.attention, finding.start_offset) == ("live", None, 50)
    assert any("The clock of broker 1 is behind the clock here by 59 min" in one for one in finding.evidence)


@scenario
async def test_a_record_that_waited_for_replicas_shows_no_clock_that_is_behind() -> None:
    """The coordinator's clock is right. The transaction's record waited for ten minutes, its timeout, because fewer
    replicas than min.insync.replicas were in sync, and was not described until then: it is late, and it blocks."""
    made = began_between(10 * MINUTE_MS + 30_000, transaction_timeout_ms=10 * MINUTE_MS)
    async with made.running(), admin(made.address) as client:
        first = await observe(client.cluster, SEARCH, {})
        (old,) = first.audit.findings
        earlier = {(next(iter(first.described)), old.producer_id): old}
        at = hanging_search.clock_ms()
        made.on[DescribeProducersRequest] = producers(start=50)
        second = await observe(client.cluster, SEARCH, earlier, since=dict.fromkeys(earlier, at))
    (finding,) = second.audit.findings
    assert (finding.reason, finding.attention) == ("late", "blocked")
    assert not any("clock of broker 1 is" in one for one in finding.evidence)


@scenario
async def test_nor_does_it_between_two_readings_of_one_search() -> None:
    made = broker()
    now = int(time.time() * 1000) - 10 * MINUTE_MS - 30_000
    decided = preparing(transaction_start_time_ms=now - 1000)
    later = preparing("Ongoing", transaction_start_time_ms=now, transaction_timeout_ms=10 * MINUTE_MS)
    made.on |= decided
    made.on[DescribeTransactionsRequest] = script(
        decided[DescribeTransactionsRequest], later[DescribeTransactionsRequest]
    )
    made.on[DescribeProducersRequest] = script(producers(), producers(start=50))
    (finding,) = (await find(made)).findings
    assert (finding.reason, finding.attention, finding.start_offset) == ("late", "blocked", 50)
