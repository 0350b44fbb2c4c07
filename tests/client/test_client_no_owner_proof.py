"""What brokers have to answer before a producer id counts as one that no transactional id owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client.errors import ID_NOT_FOUND, NOT_COORDINATOR
from kafkawire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.describe_transactions_response import TransactionState as Described
from kafkawire.transactions.coordinator_rules import partition_of_id
from tests.client.answers import admin, describing, listing, scenario
from tests.client.hanging_script import (
    HANGING,
    SEARCH,
    STATE,
    broker,
    find,
    verdicts,
)
from tests.client.scripted import closed_port

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
