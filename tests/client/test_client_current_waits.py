"""Brokers that hang and partitions without a leader: the client waits for them once, then tries them at little cost,
and finds them when they are back. Current waits are listed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kafkawire.client import RequestTimeoutError, TopicPartition
from kafkawire.client.cluster import brokers
from kafkawire.client.cluster.current_waits import CurrentWaits
from kafkawire.messages import (
    ApiVersionsRequest,
    DescribeProducersRequest,
    ListTransactionsRequest,
    MetadataRequest,
)
from tests.client.answers import P, admin, listing, producers, scenario
from tests.client.scripted import ScriptedBroker

pytestmark = pytest.mark.slow  # they wait

PROPERTIES = {"socket_connection_setup_timeout_ms": "500", "request_timeout_ms": "300"}


def pair(topics: dict[str, dict[int, int]] | None = None) -> tuple[ScriptedBroker, ScriptedBroker]:
    """Two brokers of a cluster that list an id each."""
    first, second = ScriptedBroker(topics or {}), ScriptedBroker(node_id=2)
    for broker in (first, second):
        broker.on[ListTransactionsRequest] = lambda _: listing("a")
        broker.on[MetadataRequest] = first.metadata
    return first, second


def join(first: ScriptedBroker, second: ScriptedBroker) -> None:
    first.brokers = {1: first.port, 2: second.port}


def test_what_is_waited_for_is_there_from_its_beginning_to_its_end() -> None:
    waits, ended = CurrentWaits(), []
    waits.ended = lambda wait: ended.append(wait.subject)
    with waits.on("a", "first", 30) as first, waits.on("b", "second", 2):
        assert [(wait.subject, wait.text, wait.limit_s) for wait in waits.now] == [
            ("a", "first", 30),
            ("b", "second", 2),
        ]
        assert waits.now[0].elapsed_s >= 0
    with suppress(ValueError), waits.on("c", "third", 1, since=first) as again:
        assert (again.began, again.began_ms) == (first.began, first.began_ms)
        raise ValueError
    assert waits.now == []
    assert ended == ["b", "a", "c"]


@scenario
async def test_a_broker_that_hangs_is_waited_for_once_and_looked_for_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "LOOK_S", 0.05)
    first, second = pair()
    second.on[ApiVersionsRequest] = lambda _: ...
    async with second.running(), first.running(), admin(first.address, **PROPERTIES) as client:
        join(first, second)
        found = await client.list_transactions()
        assert isinstance(found.errors[2], RequestTimeoutError)
        connections = second.connections
        for _ in range(5):
            found = await client.list_transactions()
            assert "no answer" in str(found.errors[2])
            assert str(found.errors[2]).count("it does not answer yet") <= 1
            assert list(found.values) == [1]
        assert second.connections - connections <= 2, "one look serves them all"
        second.on[ApiVersionsRequest] = lambda _: second.api_versions()
        while (await client.list_transactions()).errors:
            await asyncio.sleep(0.05)
        assert client.cluster.waits.now == []


@scenario
async def test_a_broker_that_answers_slowly_is_found_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that is waited for 50 ms takes 250 ms; a short wait alone would never see it."""
    monkeypatch.setattr(brokers, "LOOK_S", 0.05)
    first, second = pair()

    async def slowly(_: Any) -> Any:
        await asyncio.sleep(0.25)
        return second.api_versions()

    second.on[ListTransactionsRequest] = lambda _: ...
    async with second.running(), first.running(), admin(first.address, **PROPERTIES) as client:
        join(first, second)
        assert (await client.list_transactions()).errors
        second.on |= {ApiVersionsRequest: slowly, ListTransactionsRequest: lambda _: listing("b")}
        while (await client.list_transactions()).errors:
            await asyncio.sleep(0.1)


@scenario
async def test_requests_that_wait_for_one_connection_share_its_failure() -> None:
    """One after the other they would take the time of a connection each."""
    first, second = pair()
    second.on[ApiVersionsRequest] = lambda _: ...
    async with second.running(), first.running(), admin(first.address, **PROPERTIES) as client:
        join(first, second)
        deadline = client.cluster.deadline()
        await client.cluster.known_brokers(deadline)
        asked = (client.cluster.ask_broker(2, ListTransactionsRequest(), deadline) for _ in range(20))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, RequestTimeoutError) for one in found)
        assert second.connections == 1


@scenario
async def test_a_leader_that_hangs_is_left_for_its_successor() -> None:
    first, second = pair({"orders": {0: 2}})

    def silent(_: Any) -> Any:
        first.topics["orders"][0] = 1
        return ...

    second.on[DescribeProducersRequest] = silent
    first.on[DescribeProducersRequest] = producers()
    # Its request takes longer than lost brokers are waited for.
    slow = PROPERTIES | {"request_timeout_ms": "800"}
    async with second.running(), first.running(), admin(first.address, **slow) as client:
        join(first, second)
        assert list((await client.describe_producers([P])).values) == [P]


@scenario
async def test_a_partition_without_a_leader_is_waited_for_once() -> None:
    first, second = pair({"orders": {0: -1, 1: 1}})
    first.on[DescribeProducersRequest] = producers()
    both = [P, TopicPartition("orders", 1)]
    async with second.running(), first.running(), admin(first.address, **PROPERTIES) as client:
        join(first, second)
        asked = []
        for _ in range(3):
            before = first.count(MetadataRequest)
            found = await client.describe_producers(both)
            assert "LEADER_NOT_AVAILABLE" in str(found.errors[P])
            asked.append(first.count(MetadataRequest) - before)
        assert asked[0] > 2
        assert asked[1:] == [1, 1]
        first.topics["orders"][0] = 1
        assert list((await client.describe_producers(both)).values) == both
        first.topics["orders"][0] = -1
        before = first.count(MetadataRequest)
        assert list((await client.describe_producers(both)).errors) == [P]
        assert first.count(MetadataRequest) - before > 2, "it had a leader: it may get one again soon"


@scenario
async def test_a_partition_without_a_leader_is_remembered_where_the_call_ends_before_the_patience() -> None:
    """No time is left for a second attempt; the next call makes none."""
    first, second = pair({"orders": {0: -1}})
    async with second.running(), first.running(), admin(first.address, retry_backoff_ms="100000") as client:
        join(first, second)
        assert "(after 5 s)" in str((await client.describe_producers([P], timeout_s=5)).errors[P])
        before = first.count(MetadataRequest)
        assert "(after" not in str((await client.describe_producers([P], timeout_s=5)).errors[P])
        assert first.count(MetadataRequest) - before == 1


@scenario
async def test_connections_that_are_looked_for_end_with_the_client() -> None:
    first, second = pair()
    second.on[ApiVersionsRequest] = lambda _: ...
    async with second.running(), first.running():
        async with admin(first.address, **PROPERTIES) as client:
            join(first, second)
            for _ in range(2):
                assert (await client.list_transactions()).errors
        assert len(asyncio.all_tasks()) <= 1 + first.connections + second.connections
        assert not [task for task in asyncio.all_tasks() if "_broker" in repr(task)]


@scenario
async def test_a_broker_that_had_no_time_for_its_answer_is_not_taken_for_one_that_hangs() -> None:
    first, second = pair()

    async def slowly(_: Any) -> Any:
        await asyncio.sleep(0.05)
        return listing("b")

    second.on[ListTransactionsRequest] = slowly
    async with second.running(), first.running(), admin(first.address, request_timeout_ms="2000") as client:
        join(first, second)
        await client.cluster.known_brokers(client.cluster.deadline())
        with suppress(RequestTimeoutError):
            await client.cluster.ask_broker(2, ListTransactionsRequest(), client.cluster.deadline(0.02))
        second.on[ApiVersionsRequest] = lambda _: ...
        with pytest.raises(RequestTimeoutError, match="connected, but no answer"):  # not: "does not answer yet"
            await client.cluster.ask_broker(2, ListTransactionsRequest(), client.cluster.deadline(0.3))


@scenario
async def test_a_broker_that_is_down_is_waited_for_once_whatever_it_is_asked_for() -> None:
    """Its partitions are not waited for one call after the other."""
    first, second = pair({"orders": {0: 2, 1: 2}})
    first.on[DescribeProducersRequest] = producers()
    async with second.running():
        pass
    async with first.running(), admin(first.address, **PROPERTIES) as client:
        join(first, second)
        asked = []
        for partition in (0, 1):
            before = first.count(MetadataRequest)
            place = TopicPartition("orders", partition)
            assert "connection refused" in str((await client.describe_producers([place])).errors[place])
            asked.append(first.count(MetadataRequest) - before)
        assert asked[0] > 2
        assert asked[1] == 1
