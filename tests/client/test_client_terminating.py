"""An id's transaction is ended through its coordinator: which are not, and what else can happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire import rows
from kafkawire.client import ClientError
from kafkawire.client.actions import terminating
from kafkawire.client.actions.terminating import Terminated, describe_one, left_open, plan_end, terminate
from kafkawire.messages import (
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkawire.transactions.coordinator.coordinator_rules import NEVER
from kafkawire.transactions.verdict.abort_rules import Refused
from tests.client.answers import admin, run, scenario, script
from tests.client.partition_script import NAME, SEARCH, Coordinator, PartitionBroker


def attempt(
    broker: Coordinator, records: list[Any] | None = None, *, force: bool = False, **properties: str
) -> Terminated:
    done: list[Terminated] = []

    def record(*what: Any) -> None:
        if records is not None:
            records.append(what)

    async def scenario() -> None:
        async with broker.running(), admin(broker.address, **properties) as client:
            found, _ = await describe_one(client.cluster, NAME, SEARCH, force=force)
            done.append(await terminate(client.cluster, found, SEARCH, record=record, force=force))

    run(scenario)
    return done[0]


def test_end_is_verified_in_the_partitions() -> None:
    broker, records = Coordinator(), list[Any]()
    done = attempt(broker, records)
    assert (done.outcome, done.state, done.problem) == ("terminated", "Empty", None)
    assert done.producer is not None
    assert (done.producer.producer_id, done.producer.producer_epoch) == (7, 5)
    assert (done.before.state, done.before.producer_epoch) == ("Ongoing", 3)
    assert [what[2] for what in records] == [None, done]
    assert broker.count(InitProducerIdRequest) == 1


@scenario
async def test_sends_the_planned_request() -> None:
    broker = Coordinator()
    async with broker.running(), admin(broker.address) as client:
        found, open_ = await describe_one(client.cluster, NAME, SEARCH)
        assert open_
        call = await plan_end(client.cluster, found)
        assert not broker.count(InitProducerIdRequest)
        await terminate(client.cluster, found, SEARCH, record=lambda *_: None)
    (request,) = [body for body in broker.requests if isinstance(body, InitProducerIdRequest)]
    assert (call.api, call.broker_id, call.address) == ("InitProducerId", 1, broker.address)
    assert InitProducerIdRequest.decode(bytes.fromhex(call.hex), version=call.version) == request
    assert request.transactional_id == NAME


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_locks_out_no_producer_where_nothing_is_open(state: str) -> None:
    """Its producer may be idle, and healthy: it is not locked out."""
    broker, records = Coordinator(state), list[Any]()
    done = attempt(broker, records)
    assert (done.outcome, done.call, records) == ("nothing_open", None, [])
    assert not broker.count(InitProducerIdRequest)


def refused(broker: Coordinator, reason: str, text: str, *, force: bool = False) -> None:
    records: list[Any] = []
    with pytest.raises(Refused, match=text) as caught:
        attempt(broker, records, force=force)
    assert caught.value.reason == reason
    assert not records
    assert not broker.count(InitProducerIdRequest)


def test_an_id_that_does_not_exist_is_not_created() -> None:
    broker = Coordinator()
    broker.code = 105
    refused(broker, "no_such_id", "TRANSACTIONAL_ID_NOT_FOUND.*nothing was sent, for that would create it")


@pytest.mark.parametrize("force", [False, True])
def test_refusal_of_a_stuck_prepare_is_explained(force: bool) -> None:
    """The partition has seen a marker of coordinator epoch 5; the coordinator's is 0."""
    broker = Coordinator("PrepareCommit")
    refused(
        broker,
        "stuck_prepare",
        "COMMIT is decided.*; orders-0: The partition has seen a marker of coordinator epoch 5.*refuses its COMMIT",
        force=force,
    )


def test_refusal_of_a_stuck_prepare_says_that_partitions_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(*_: Any) -> rows.Audit:
        raise ClientError("no broker answers")

    monkeypatch.setattr(terminating, "left_open", unreadable)
    refused(Coordinator("PrepareCommit"), "stuck_prepare", "which partitions wait could not be read: no broker answers")

    async def partly(*_: Any) -> rows.Audit:
        return rows.Audit(read=rows.Coverage(partitions=0, complete=False, gaps=("orders-0: not authorized",)))

    monkeypatch.setattr(terminating, "left_open", partly)
    refused(Coordinator("PrepareCommit"), "stuck_prepare", "which partitions wait is not known: orders-0: not auth")


def test_a_transaction_that_is_just_being_ended_is_nothing_open() -> None:
    done = attempt(Coordinator("PrepareAbort", "CompleteAbort"))
    assert (done.outcome, done.before.state) == ("nothing_open", "CompleteAbort")


@pytest.mark.parametrize("state", ["Dead", "PrepareEpochFence", "Tomorrow"])
def test_refuses_other_states(state: str) -> None:
    refused(Coordinator(state), "state", f"is {state}: nothing can be ended in that state")


def test_two_phase_commit_needs_a_reason() -> None:
    broker = Coordinator()
    broker.timeout_ms = NEVER
    refused(broker, "two_phase_commit", "its owner must commit or abort it.*--force REASON")
    broker = Coordinator()
    broker.timeout_ms = NEVER
    assert attempt(broker, force=True).outcome == "terminated"


def test_sends_nothing_that_cannot_be_recorded() -> None:
    broker = Coordinator()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with broker.running(), admin(broker.address) as client:
            found, _ = await describe_one(client.cluster, NAME, SEARCH)
            with pytest.raises(OSError, match="No space left"):
                await terminate(client.cluster, found, SEARCH, record=full)

    run(scenario)
    assert not broker.count(InitProducerIdRequest)


def test_records_an_interruption() -> None:
    """Ctrl-C while the answer is awaited."""
    broker, records = Coordinator(), list[Any]()
    asked = asyncio.Event()

    def silent(_: Any) -> Any:
        asked.set()
        return ...

    async def scenario() -> None:
        broker.on[InitProducerIdRequest] = silent
        async with broker.running(), admin(broker.address) as client:
            found, _ = await describe_one(client.cluster, NAME, SEARCH)
            running = asyncio.create_task(
                terminate(client.cluster, found, SEARCH, record=lambda *what: records.append(what))
            )
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(scenario)
    (_, _, nothing), (_, _, after) = records
    assert nothing is None
    assert (after.outcome, "whether it was carried out is not known" in after.problem) == ("not_verified", True)


@pytest.mark.parametrize("code", [53, 50, 90])
def test_error_of_the_coordinator_is_not_ended(code: int) -> None:
    broker = Coordinator()
    broker.refusal = code
    done = attempt(broker)
    assert done.outcome == "not_ended"
    assert ("the principal needs Write on transactional id orders-service" in str(done.problem)) == (code == 53)


def test_busy_coordinator_is_not_verified() -> None:
    """CONCURRENT_TRANSACTIONS up to the deadline: it may still be ended."""
    broker = Coordinator()
    broker.refusal = 51
    done = attempt(broker, default_api_timeout_ms="300")
    assert done.outcome == "not_verified"
    assert "CONCURRENT_TRANSACTIONS" in str(done.problem)
    assert "whether its transaction was ended is not known" in str(done.problem)


@pytest.mark.slow
def test_partition_that_keeps_the_transaction_is_not_verified() -> None:
    broker = Coordinator()
    broker.ends = False
    done = attempt(broker)
    assert (done.outcome, done.problem) == ("not_verified", "still open in orders-0 (0.4 s later)")


def test_outcome_that_cannot_be_read_is_not_verified() -> None:
    broker = Coordinator()
    broker.on[InitProducerIdRequest] = lambda request: _denying(broker, request)
    done = attempt(broker)
    assert done.outcome == "not_verified"
    assert "the outcome could not be read" in str(done.problem)


def _denying(broker: Coordinator, request: InitProducerIdRequest) -> InitProducerIdResponse:
    broker.code = 53
    return broker.init_producer(request)


def test_a_missing_right_is_named() -> None:
    broker = Coordinator()
    broker.code = 53
    with pytest.raises(ClientError, match="the principal needs Describe on transactional id orders-service"):
        attempt(broker)


# What stays open ------------------------------------------------------------------------------------------------------


def look(broker: PartitionBroker, check: Callable[[Any], None]) -> None:
    async def scenario() -> None:
        async with broker.running(), admin(broker.address, socket_connection_setup_timeout_ms="100") as client:
            check(await left_open(client.cluster, 7, SEARCH))

    run(scenario)


def test_reports_open_transactions_that_the_coordinator_does_not_know() -> None:
    broker = Coordinator("Empty", partitions=3)
    broker.logs[0].start = -1
    broker.logs[1].beside = 10  # another producer's

    def check(audit: Any) -> None:
        found = [(one.partition, one.verdict, one.reason) for one in audit.findings]
        assert found == [(1, "hanging", "partition_not_in_transaction"), (2, "hanging", "partition_not_in_transaction")]
        assert {one.producer_id for one in audit.findings} == {7}

    look(broker, check)


def test_reports_nothing_where_nothing_stays_open() -> None:
    broker = Coordinator("Empty")
    broker.log.start = -1
    broker.log.beside = 10
    look(broker, lambda audit: _is((), True, audit))


def test_reports_what_could_not_be_read() -> None:
    broker = Coordinator("Empty", partitions=2)
    broker.log.start = -1
    broker.topics["orders"][1] = -1

    def check(audit: Any) -> None:
        assert not audit.findings
        assert not audit.read.complete
        assert "LEADER_NOT_AVAILABLE" in audit.read.gaps[0]

    look(broker, check)


def _is(findings: tuple[Any, ...], complete: bool, audit: Any) -> None:
    assert (audit.findings, audit.read.complete) == (findings, complete)


def test_reads_only_passing_states_twice() -> None:
    """Only a state that passes is read twice."""
    for states, reads in ((["Ongoing"], 1), (["PrepareCommit", "CompleteCommit"], 2)):
        broker = Coordinator(*states)

        async def scenario(broker: Coordinator = broker) -> None:
            async with broker.running(), admin(broker.address) as client:
                await describe_one(client.cluster, NAME, SEARCH)

        run(scenario)
        assert broker.count(DescribeTransactionsRequest) == reads


def test_follows_an_id_to_another_coordinator() -> None:
    broker = Coordinator()
    done = broker.init_producer
    broker.on[InitProducerIdRequest] = script(InitProducerIdResponse(error_code=16), done)
    assert attempt(broker).outcome == "terminated"
