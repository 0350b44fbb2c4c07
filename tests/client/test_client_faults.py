"""Faults in a cluster, missing rights and limits: each is one sentence, and nothing waits past its deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.client import (
    ApiTimeoutError,
    BrokerError,
    ClientError,
    ConfigError,
    NoSuchBrokerError,
    ProtocolError,
    RequestTimeoutError,
    TopicPartition,
    UnsupportedApiError,
)
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.messages.list_transactions_response import TransactionState as Listed
from tests.client.answers import P, admin, describing, listing, marked, producers, scenario, script
from tests.client.scripted import ScriptedBroker, closed_port

pytestmark = pytest.mark.slow

# In the cluster -----------------------------------------------------------------------------------------------------


@scenario
async def test_a_broker_that_is_down_is_named_and_the_others_answer() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: listing("a", "b")
    async with broker.running():
        broker.brokers[2] = await closed_port()
        properties = {"socket_connection_setup_timeout_ms": "200"}
        async with admin(broker.address, **properties) as client:
            found = await client.list_transactions()
    assert [one.transactional_id for one in found.values[1]] == ["a", "b"]
    assert list(found.errors) == [2]
    assert f"127.0.0.1:{broker.brokers[2]}: connection refused" in str(found.errors[2])
    with pytest.raises(ClientError, match="connection refused"):
        found.all()


@scenario
async def test_a_broker_that_goes_and_comes_back() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = script(None, None, listing("a"))
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions()
    assert found.values[1][0].transactional_id == "a"
    assert broker.count(ListTransactionsRequest) == 3
    assert broker.connections == 3  # the first serves both to learn the brokers from and to ask this one


@scenario
async def test_a_broker_that_always_closes_the_connection_is_an_error() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: None
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions()
    assert "the broker closed the connection" in str(found.errors[1])


@scenario
async def test_missing_answer_is_a_timeout() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: ...
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions(timeout_s=1)
    assert "no answer to ListTransactions" in str(found.errors[1])


@scenario
async def test_malformed_response_is_an_error() -> None:
    broker = ScriptedBroker()
    frame = (0).to_bytes(4, "big") + b"\x00\x00\x00"
    broker.on[ListTransactionsRequest] = lambda _: len(frame).to_bytes(4, "big") + frame
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions()
    assert isinstance(found.errors[1], ProtocolError)
    assert broker.count(ListTransactionsRequest) == 1


@scenario
async def test_a_coordinator_that_loads_is_asked_again() -> None:
    broker = ScriptedBroker()
    loading = ListTransactionsResponse(error_code=14)
    broker.on[ListTransactionsRequest] = script(loading, loading, listing("a"))
    async with broker.running(), admin(broker.address) as client:
        assert len((await client.list_transactions()).all()[1]) == 1
    assert broker.count(ListTransactionsRequest) == 3


@scenario
async def test_a_coordinator_that_loads_past_the_deadline_is_a_timeout() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(error_code=14)
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions(timeout_s=0.5)
    assert isinstance(found.errors[1], ApiTimeoutError)
    assert "COORDINATOR_LOAD_IN_PROGRESS (after 0.5 s)" in str(found.errors[1])


@scenario
async def test_follows_a_leader_that_moves() -> None:
    """NOT_LEADER_OR_FOLLOWER: the metadata is read anew, and the new leader asked."""
    old, new = ScriptedBroker({"orders": {0: 1, 1: 1}}), ScriptedBroker(node_id=2)

    def moved(request: DescribeProducersRequest) -> DescribeProducersResponse:
        old.topics["orders"][0] = 2
        return producers(6)(request)

    old.on[DescribeProducersRequest] = script(moved, producers())
    new.on[DescribeProducersRequest] = producers(start=50)
    async with old.running(), new.running():
        old.brokers = {1: old.port, 2: new.port}
        async with admin(old.address) as client:
            found = await client.describe_producers([P, TopicPartition("orders", 1)])
    assert not found.errors
    assert [states[0].transaction_start_offset for states in found.values.values()] == [50, 40]
    assert new.count(DescribeProducersRequest) == 1


@scenario
async def test_follows_a_coordinator_that_moves() -> None:
    old, new = ScriptedBroker(), ScriptedBroker(node_id=2)

    def moved(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        old.coordinator = 2
        return describing(16)(request)

    old.on[DescribeTransactionsRequest] = moved
    new.on[DescribeTransactionsRequest] = describing()
    async with old.running(), new.running():
        old.brokers = {1: old.port, 2: new.port}
        async with admin(old.address) as client:
            found = (await client.describe_transactions(["a"])).all()["a"]
    assert (found.coordinator, found.state, found.start_time_ms) == (2, "Ongoing", 5)
    assert found.partitions == (P, TopicPartition("orders", 1))


@scenario
async def test_a_partition_without_leader_is_an_error() -> None:
    broker = ScriptedBroker({"orders": {0: -1}})
    async with broker.running(), admin(broker.address) as client:
        found = await client.describe_producers([P], timeout_s=0.5)
    assert "LEADER_NOT_AVAILABLE" in str(found.errors[P])


@scenario
async def test_does_not_wait_for_what_does_not_exist() -> None:
    """Kafka's own tool asks for a minute."""
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.on[DescribeProducersRequest] = producers()
    wrong, missing = TopicPartition("orders", 9), TopicPartition("nowhere", 0)
    async with broker.running(), admin(broker.address, default_api_timeout_ms="60000") as client:
        found = await client.describe_producers([missing, P, wrong])
    assert list(found.values) == [P]
    assert str(found.errors[missing]) == "topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"
    assert "topic orders has 1 partition)" in str(found.errors[wrong])
    assert broker.count(MetadataRequest) == 3


@scenario
async def test_unknown_broker_id_is_an_error() -> None:
    """Kafka's own tool prints an empty table."""
    broker = ScriptedBroker({"orders": {0: 1}})
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions(broker_ids=[9])
        assert str(found.errors[9]) == "the cluster has no broker 9 now; its brokers are 1"
        with pytest.raises(NoSuchBrokerError, match="no broker 9"):
            await client.describe_producers([P], broker_id=9)


@scenario
async def test_an_old_broker_answers_the_requests_that_it_knows() -> None:
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.versions = {3: (0, 11), 18: (0, 3), 10: (0, 3), 61: (0, 0)}
    broker.on[DescribeProducersRequest] = producers()
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions()
        assert isinstance(found.errors[1], UnsupportedApiError)
        assert "does not support ListTransactions requests: brokers know it from Kafka 3.0 on" in str(found.errors[1])
        assert (await client.describe_producers([P])).all()[P][0].producer_id == 7


@pytest.mark.parametrize(("filters", "since"), [({"duration_ms": 1}, "3.8"), ({"pattern": "a.*"}, "4.1")])
@scenario
async def test_filters_that_a_broker_is_too_old_for(filters: dict[str, Any], since: str) -> None:
    broker = ScriptedBroker()
    broker.versions[66] = (0, 0)
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions(**filters)
    assert f"brokers know it from Kafka {since} on" in str(found.errors[1])
    assert broker.count(ListTransactionsRequest) == 0


@scenario
async def test_duration_filter_leaves_out_ids_without_an_open_transaction() -> None:
    """Brokers list Empty ids as open since 1969, and Complete ones by the start of the transaction that has ended."""
    states = ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "New")
    answer = ListTransactionsResponse(
        transaction_states=tuple(Listed(transactional_id=one, transaction_state=one) for one in states)
    )
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: answer
    async with broker.running(), admin(broker.address) as client:
        everything = (await client.list_transactions()).all()[1]
        assert [one.state for one in everything] == list(states)
        found = (await client.list_transactions(duration_ms=0)).all()[1]
    assert [one.state for one in found] == ["Ongoing", "PrepareCommit", "PrepareEpochFence", "New"]


@scenario
async def test_rejects_an_empty_pattern() -> None:
    """Brokers answer it with all ids, though none matches."""
    broker = ScriptedBroker()
    async with broker.running(), admin(broker.address) as client:
        with pytest.raises(ConfigError, match="an empty pattern matches no transactional id"):
            await client.list_transactions(pattern="")


@scenario
async def test_coordinators_of_old_brokers_are_asked_one_by_one() -> None:
    broker = ScriptedBroker()
    broker.versions[10] = (0, 3)
    broker.on[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(node_id=1, port=broker.port)
    broker.on[DescribeTransactionsRequest] = describing()
    async with broker.running(), admin(broker.address) as client:
        assert list((await client.describe_transactions(["b", "a"])).all()) == ["b", "a"]
    assert broker.count(FindCoordinatorRequest) == 2
    assert broker.count(DescribeTransactionsRequest) == 1


@scenario
async def test_unknown_states_are_an_error() -> None:
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(unknown_state_filters=("Bogus",))
    async with broker.running(), admin(broker.address) as client:
        found = await client.list_transactions(states=["Bogus"])
    assert str(found.errors[1]) == (
        "no state of transactional ids is named Bogus: Empty, Ongoing, PrepareCommit, PrepareAbort, "
        "CompleteCommit, CompleteAbort, Dead, PrepareEpochFence"
    )


# Rights -------------------------------------------------------------------------------------------------------------


@scenario
async def test_missing_rights_are_named() -> None:
    broker = ScriptedBroker({"orders": {0: 1}})
    broker.on[DescribeProducersRequest] = producers(29)
    broker.on[DescribeTransactionsRequest] = describing(53)
    broker.on[InitProducerIdRequest] = lambda _: InitProducerIdResponse(error_code=53)
    broker.on[WriteTxnMarkersRequest] = lambda _: marked(31)
    async with broker.running(), admin(broker.address) as client:
        denied: list[ClientError] = [
            (await client.describe_producers([P])).errors[P],
            (await client.describe_transactions(["a"])).errors["a"],
            (await client.fence_producers(["a"])).errors["a"],
        ]
        with pytest.raises(BrokerError) as caught:
            await client.abort_transaction(P, producer_id=7, producer_epoch=3, coordinator_epoch=0)
        denied.append(caught.value)
        broker.on[FindCoordinatorRequest] = lambda request: FindCoordinatorResponse(
            coordinators=tuple(Coordinator(key=k, node_id=-1, error_code=53) for k in request.coordinator_keys)
        )
        denied.append((await client.describe_transactions(["b"])).errors["b"])
    assert [error.right for error in denied if isinstance(error, BrokerError)] == [
        "Read on topic orders",
        "Describe on transactional id a",
        "Write on transactional id a",
        "Alter or ClusterAction on the cluster",
        "Describe on transactional id b",
    ]
    assert str(denied[0]) == "partition orders-0: TOPIC_AUTHORIZATION_FAILED: the principal needs Read on topic orders"


# Limits -------------------------------------------------------------------------------------------------------------


@scenario
async def test_throttling_is_waited_out() -> None:
    """After an answer with a throttle time nothing is sent on that connection until it is over."""
    times: list[float] = []

    def throttle(_: ListTransactionsRequest) -> ListTransactionsResponse:
        times.append(asyncio.get_running_loop().time())
        return ListTransactionsResponse(throttle_time_ms=600)  # longer than request.timeout.ms

    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = throttle
    async with broker.running(), admin(broker.address) as client:
        for _ in range(2):
            assert (await client.list_transactions()).all() == {1: ()}
    assert times[1] - times[0] >= 0.59  # a lower bound, of what is waited for


@scenario
async def test_a_pause_that_no_call_can_wait_out() -> None:
    """A broker may ask for 24 days: the next call ends at its own deadline, with that reason."""
    broker = ScriptedBroker()
    broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(throttle_time_ms=2**31 - 1)
    async with broker.running(), admin(broker.address) as client:
        assert (await client.list_transactions()).all() == {1: ()}
        with pytest.raises(RequestTimeoutError, match=r"it throttles: nothing may be sent for 2\.15e\+06 s"):
            await client.list_transactions(timeout_s=0.2)
    assert broker.count(ListTransactionsRequest) == 1


@scenario
async def test_requests_in_flight_are_bounded() -> None:
    broker = ScriptedBroker()
    broker.on[DescribeTransactionsRequest] = describing()
    async with broker.running(), admin(broker.address) as client:
        body = DescribeTransactionsRequest(transactional_ids=("a",))
        deadline = client.cluster.deadline()
        await asyncio.gather(*(client.cluster.ask_broker(1, body, deadline) for _ in range(40)))
        assert broker.count(DescribeTransactionsRequest) == 40
        broker.on[DescribeTransactionsRequest] = lambda _: ...
        asked = (client.cluster.ask_broker(1, body, deadline) for _ in range(40))
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(one, RequestTimeoutError) for one in found)
    assert broker.count(DescribeTransactionsRequest) == 40 + client.cluster.config.max_in_flight


@scenario
async def test_many_partitions_are_sent_in_several_requests() -> None:
    broker = ScriptedBroker({"orders": dict.fromkeys(range(1200), 1)})
    broker.on[DescribeProducersRequest] = producers()
    async with broker.running(), admin(broker.address) as client:
        found = await client.describe_producers(TopicPartition("orders", p) for p in range(1200))
    assert len(found.all()) == 1200
    sizes = [
        len(body.topics[0].partition_indexes) for body in broker.requests if isinstance(body, DescribeProducersRequest)
    ]
    assert sorted(sizes) == [200, 500, 500]
