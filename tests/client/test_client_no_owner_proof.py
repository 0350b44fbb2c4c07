"""What brokers have to answer before a producer id counts as one that no transactional id owns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client.errors import ID_NOT_FOUND, NOT_COORDINATOR
from kafkawire.messages import (
    ApiVersionsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
)
from kafkawire.messages.describe_transactions_response import TransactionState as Described
from kafkawire.rows import Audit
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.client.answers import admin, describing, listing, producers, scenario, script
from tests.client.hanging_script import (
    HANGING,
    SEARCH,
    STATE,
    broker,
    find,
    verdicts,
)
from tests.client.scripted import ScriptedBroker, closed_port

pytestmark = pytest.mark.slow


def unloaded(answers: int) -> Callable[[Any], Any]:
    """A coordinator that has not loaded partition 1 for this number of `answers`, and then does not know the id."""
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
async def test_a_coordinator_that_has_not_loaded_makes_it_unknown() -> None:
    """It leads in all metadata and lists nothing, without an error: ids that it will load are not absent."""
    made = broker()
    made.on[DescribeTransactionsRequest] = unloaded(10**6)
    async with made.running(), admin(made.address, default_api_timeout_ms="300") as client:
        audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    sentences = " ".join(audit.findings[0].evidence)
    assert (
        "The ids in partition 1 of __transaction_state could not be listed: no coordinator has loaded them" in sentences
    )
    assert "NOT_COORDINATOR" in sentences


@scenario
async def test_a_coordinator_that_loads_later_is_waited_for() -> None:
    """The client waits until it has loaded, then requests its list: the id is there."""
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
async def test_coordinators_that_have_loaded_prove_absence() -> None:
    made = broker()
    made.on[DescribeTransactionsRequest] = unloaded(0)
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert "all coordinators have loaded their ids" in " ".join(audit.findings[0].evidence)


@scenario
async def test_a_coordinator_that_is_down_makes_it_unknown() -> None:
    made = broker()
    async with made.running():
        made.brokers[2] = await closed_port()
        made.topics[STATE][1] = 2
        async with admin(made.address, socket_connection_setup_timeout_ms="300") as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "Broker 2 did not list its transactional ids" in " ".join(audit.findings[0].evidence)
    assert not audit.read.complete


class Dying(ScriptedBroker):
    """Broker 2, which coordinates partition 1. It lists no ids, and dies after its `lists`-th list.

    Attributes:
        alive: the broker that answers on; `forgets`: whether its metadata is without the dead broker then.
    """

    def __init__(self, alive: ScriptedBroker, lists: int = 1, *, forgets: bool) -> None:
        super().__init__(alive.topics, node_id=2)
        self.versions[29] = (1, 3)
        self.on |= alive.on | {ApiVersionsRequest: self.on[ApiVersionsRequest]}
        self.on |= {ListTransactionsRequest: self.list_ids, MetadataRequest: self.see}
        self.alive, self.left, self.forgets = alive, lists, forgets
        alive.topics[STATE][1] = 2

    def list_ids(self, _: Any) -> ListTransactionsResponse | None:
        self.left -= 1
        return ListTransactionsResponse() if self.left >= 0 else None

    def see(self, request: MetadataRequest) -> Any:
        if self.left > 0:
            return self.alive.metadata(request)
        if self.forgets:
            self.alive.topics[STATE][1] = 1
            self.alive.brokers.pop(2, None)
        return None


async def find_beside(made: ScriptedBroker, dying: Dying) -> Audit:
    async with made.running(), dying.running():
        made.brokers |= dying.brokers
        async with admin(made.address, socket_connection_setup_timeout_ms="300") as client:
            return await client.find_hanging_transactions(SEARCH)


@scenario
async def test_a_broker_that_dies_after_its_list_is_no_witness() -> None:
    """Metadata names it as long as its session lasts: what it coordinates has no other coordinator until then."""
    made = broker()
    audit = await find_beside(made, Dying(made, 2, forgets=False))
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "all brokers answered" not in " ".join(audit.findings[0].evidence)
    assert not audit.read.complete
    assert [gap.split(":")[0] for gap in audit.read.gaps] == ["broker 2 did not list its transactional ids"]


@scenario
async def test_a_broker_that_dies_in_the_last_reading_is_named() -> None:
    """It has listed its ids by then, and no further reading shows that it is gone."""
    made = broker()
    made.on[DescribeProducersRequest] = script(*(producers(start=start) for start in (40, 50, 60, 70, 80)))
    audit = await find_beside(made, Dying(made, 5, forgets=False))
    assert (made.count(DescribeProducersRequest), verdicts(audit)) == (5, [("unknown", "coverage_incomplete")])
    assert [gap.split(":")[0] for gap in audit.read.gaps] == ["broker 2 did not answer any more"]
    soundness = next(one for one in audit.read.premises if one.name == "soundness")
    assert not soundness.holds
    assert "broker 2: " in soundness.what


@scenario
async def test_what_a_dead_broker_coordinated_is_proven_by_its_successor() -> None:
    made = broker()
    audit = await find_beside(made, Dying(made, 2, forgets=True))
    assert verdicts(audit) == [HANGING]
    assert "all brokers answered: 1)" in " ".join(audit.findings[0].evidence)
    assert audit.read.complete


@scenario
async def test_coordinators_that_brokers_do_not_agree_on_make_it_unknown() -> None:
    """A deposed one does not know it: it lists what it had. Which of them the client asks first is not fixed."""
    made = broker()
    other = Dying(made, 10**6, forgets=False)

    def stale(request: MetadataRequest) -> Any:
        answer = made.metadata(request)
        topics = (
            replace(one, partitions=tuple(replace(part, leader_id=1, leader_epoch=7) for part in one.partitions))
            if one.name == STATE
            else one
            for one in answer.topics
        )
        return replace(answer, topics=tuple(topics))

    other.on[MetadataRequest] = stale
    audit = await find_beside(made, other)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    sentences = " ".join(audit.findings[0].evidence)
    assert re.search(
        r"(Brokers disagree on who coordinates|Coordinators moved while it was read) \(partitions", sentences
    )


@scenario
async def test_a_partition_without_coordinator_makes_it_unknown() -> None:
    made = broker()
    made.topics[STATE][1] = -1
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "Partitions 1 of __transaction_state have no leader" in " ".join(audit.findings[0].evidence)


@scenario
async def test_a_broker_older_than_kafka_3_makes_it_unknown() -> None:
    """It describes producers, and no broker lists ids: that proves nothing."""
    made = broker()
    del made.versions[66], made.versions[65]
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert (
        "the broker does not support ListTransactions requests: brokers know it from Kafka 3.0 on" in audit.read.gaps[0]
    )
    assert not audit.read.complete
