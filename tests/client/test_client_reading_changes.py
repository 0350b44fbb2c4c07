"""Suspects are read again: what two readings have to agree on before a transaction is called hanging."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import Search
from kafkawire.client.actions.aborting import look_at
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
)
from kafkawire.transactions.verdict.abort_rules import TransactionSpec
from tests.client.answers import admin, listing, producers, scenario, script
from tests.client.hanging_script import (
    HANGING,
    PATIENT,
    SEARCH,
    STATE,
    broker,
    ended,
    find,
    preparing,
    verdicts,
)

pytestmark = pytest.mark.slow


@scenario
async def test_two_readings_that_agree_confirm_a_suspect() -> None:
    made = broker()
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert made.count(DescribeProducersRequest) == made.count(ListTransactionsRequest) == 2
    (finding,) = audit.findings
    assert (finding.last_stable_offset, finding.high_watermark, finding.blocked) == (40, 90, True)


@scenario
async def test_leaves_out_a_transaction_that_ended_between_readings() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = script(producers(), ended)
    assert verdicts(await find(made)) == []


@scenario
async def test_a_producer_with_a_new_transaction_in_each_reading_is_unknown() -> None:
    """Each reading shows another transaction of the producer: that is no hanging one."""
    made = broker()
    made.on[DescribeProducersRequest] = script(*(producers(start=start) for start in (40, 50, 60, 70, 80)))
    audit = await find(made)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    assert "A new transaction of the producer began between two readings." in audit.findings[0].evidence


@scenario
async def test_a_transaction_that_follows_another_needs_a_third_reading() -> None:
    made = broker()
    made.on[DescribeProducersRequest] = script(producers(start=40), producers(start=50))
    audit = await find(made)
    assert verdicts(audit) == [HANGING]
    assert audit.findings[0].start_offset == 50
    assert made.count(DescribeProducersRequest) == 3


@scenario
async def test_an_id_that_one_list_leaves_out_is_found_in_the_next() -> None:
    """While a coordinator moves, every broker answers without error and none lists its ids."""
    made = broker()

    def late(_: ListTransactionsRequest) -> ListTransactionsResponse:
        first, *_rest = listing("live-1").transaction_states

        return ListTransactionsResponse(transaction_states=(replace(first, producer_id=7),))

    made.on[ListTransactionsRequest] = script(ListTransactionsResponse(), late)
    (verdict,) = verdicts(await find(made))
    assert verdict[0] == "not_hanging"


@pytest.mark.parametrize(
    ("then", "verdict"),
    [("CompleteCommit", ("hanging", "transaction_ended")), ("CompleteAbort", ("unknown", "coverage_incomplete"))],
)
def test_without_an_age_two_readings_have_to_agree_on_how_it_ended(then: str, verdict: tuple[str, str]) -> None:
    """Its client's stamp is no time: only that nothing of the id changes shows that it is not about to go on."""

    async def test() -> None:
        made = broker()
        first, second = (preparing(state) for state in ("CompleteCommit", then))
        made.on |= first | {DescribeProducersRequest: producers(timestamp=-1)}
        made.on[DescribeTransactionsRequest] = script(*(one[DescribeTransactionsRequest] for one in (first, second)))
        audit = await find(made)
        assert verdicts(audit) == [verdict]
        missing = [one.name for one in audit.findings[0].premises if not one.holds]
        assert missing == ([] if verdict[0] == "hanging" else ["time"])

    asyncio.run(test())


def aged(age_ms: int) -> Callable[[DescribeProducersRequest], DescribeProducersResponse]:
    return producers(timestamp=int(time.time() * 1000) - age_ms)


@pytest.mark.parametrize("age_ms", [0, 21 * 60_000])
def test_reads_what_no_coordinator_holds_again_whatever_its_age(age_ms: int) -> None:
    async def test() -> None:
        made = broker()
        made.on[DescribeProducersRequest] = aged(age_ms)
        assert verdicts(await find(made)) == [HANGING if age_ms else ("not_hanging", "young")]
        assert made.count(DescribeProducersRequest) == 2

    asyncio.run(test())


def test_the_look_before_an_abort_gives_the_verdict_of_find_hanging() -> None:
    """An id may be hidden: a young transaction is no more certain for the one than for the other."""
    named = TransactionSpec(topic="orders", partition=0, start_offset=40)

    async def test() -> None:
        made = broker()
        made.on |= {DescribeProducersRequest: aged(0), DescribeAclsRequest: lambda _: DescribeAclsResponse()}
        async with made.running(), admin(made.address) as client:
            (found,) = (await client.find_hanging_transactions(SEARCH)).findings
            (looked,) = (await look_at(client.cluster, named, SEARCH)).findings
        assert (found.verdict, found.premises, found.evidence) == (looked.verdict, looked.premises, looked.evidence)
        assert found.verdict == "unknown"

    asyncio.run(test())


def test_proposed_commands_carry_what_the_verdict_depends_on() -> None:
    """With its own limit, `txn abort` would refuse what was found with a shorter one."""

    async def test() -> None:
        made = broker()
        made.on[DescribeProducersRequest] = aged(7 * 60_000)
        search = replace(SEARCH, max_timeout_ms=60_000, address="h:1", command_config="my file")
        (finding,) = (await find(made, search)).findings
        assert finding.action == (
            "kafkawire txn abort --bootstrap-server h:1 --command-config 'my file' --max-transaction-timeout 1 "
            "--topic orders --partition 0 --start-offset 40"
        )

    asyncio.run(test())


@pytest.mark.parametrize(
    ("search", "options"),
    [
        (Search(), ()),
        (Search(confirm_after_s=30), ("--confirm-after 30",)),
        (Search(max_timeout_ms=119_999), ("--max-transaction-timeout 2",)),
    ],
)
def test_options_of_proposed_commands(search: Search, options: tuple[str, ...]) -> None:
    """A limit between two minutes becomes the longer one: no command judges by a shorter limit than the verdict."""
    assert search.options == options


@scenario
async def test_a_transaction_whose_marker_does_not_arrive_is_stuck() -> None:
    """Seen twice, with a leader that answers: there is no need to wait until it is old."""
    made = broker()
    made.on |= preparing()
    audit = await find(made, PATIENT)
    assert verdicts(audit) == [("not_hanging", "stuck_prepare")]
    assert made.count(DescribeProducersRequest) == 2
    assert "its COMMIT marker does not arrive" in " ".join(audit.findings[0].evidence)
    assert "never abort it, COMMIT is decided" in (audit.findings[0].action or "")


@scenario
async def test_a_transaction_whose_marker_arrives_later_is_left_out() -> None:
    made = broker()
    made.on |= preparing()
    made.on[DescribeProducersRequest] = script(producers(), ended)
    assert verdicts(await find(made, PATIENT)) == []


@scenario
async def test_different_prepared_transactions_are_not_stuck() -> None:
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
async def test_coordinators_that_move_in_every_reading_make_it_unknown() -> None:
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
