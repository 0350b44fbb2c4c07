"""The steps of an abort (verify, send, verify), and everything that can change before the marker and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import ClientError
from kafkawire.client.actions.aborting import Aborted, abort, look_at, plan_abort
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    FetchRequest,
    FetchResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.list_transactions_response import TransactionState
from kafkawire.rows import Finding
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec, choose
from tests.client.answers import OLD, admin, describing, run, scenario, script
from tests.client.partition_script import END, NAME, SEARCH, START, Coordinator, Log, PartitionBroker

NAMED = TransactionSpec(topic="orders", partition=0, start_offset=START)
MINUTE_MS = 60_000


class Records(list[tuple[Finding, Any, Aborted | None]]):
    """What was recorded."""

    def __call__(self, *what: Any) -> None:
        self.append(what)


def attempt(
    broker: PartitionBroker,
    *,
    between: Callable[[Log], None] = lambda _: None,
    recorder: Callable[..., None] | None = None,
    force: bool = False,
    search: Any = SEARCH,
    **properties: str,
) -> Aborted:
    """Judges the transaction, lets something happen, aborts it."""
    done: list[Aborted] = []

    async def scenario() -> None:
        async with broker.running(), admin(broker.address, **properties) as client:
            finding = choose((await look_at(client.cluster, NAMED, search)).findings, NAMED)
            between(broker.log)
            done.append(
                await abort(
                    client.cluster, finding, search, record=Records() if recorder is None else recorder, force=force
                )
            )

    run(scenario)
    return done[0]


def sent(broker: PartitionBroker) -> list[Any]:
    return [body for body in broker.requests if isinstance(body, WriteTxnMarkersRequest)]


def test_abort_is_verified_in_the_partition() -> None:
    broker, recorder = PartitionBroker(), Records()
    done = attempt(broker, recorder=recorder)
    assert (done.outcome, done.problem, done.note) == ("aborted", None, "")
    assert (done.marker_offset, done.last_stable_offset, done.high_watermark) == (END, END + 1, END + 1)
    (request,) = sent(broker)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)
    before, after = recorder
    assert (before[0].verdict, before[2], after[2]) == ("hanging", None, done)
    assert before[1] == after[1] == done.call


@scenario
async def test_sends_the_planned_request() -> None:
    """Decoded, in bytes and to whom; and making it sends nothing."""
    broker = PartitionBroker()
    async with broker.running(), admin(broker.address) as client:
        finding = choose((await look_at(client.cluster, NAMED, SEARCH)).findings, NAMED)
        call = await plan_abort(client.cluster, finding)
        assert not sent(broker)
        await abort(client.cluster, finding, SEARCH, record=Records())
    (request,) = sent(broker)
    assert (call.api, call.api_key, call.version) == ("WriteTxnMarkers", 27, 2)
    assert (call.broker_id, call.address) == (1, broker.address)
    assert WriteTxnMarkersRequest.decode(bytes.fromhex(call.hex), version=call.version) == request
    assert call.body["markers"][0]["coordinatorEpoch"] == 5


# What is refused, and what has changed --------------------------------------------------------------------------------


def test_judges_in_two_readings_right_before_sending() -> None:
    """Two to judge it; what it rests on; two more; right before the marker what it rests on again; and the outcome."""
    broker = PartitionBroker()
    attempt(broker)
    kinds = [
        type(body) for body in broker.requests if isinstance(body, DescribeProducersRequest | WriteTxnMarkersRequest)
    ]
    assert kinds == [DescribeProducersRequest] * 6 + [WriteTxnMarkersRequest, DescribeProducersRequest]


def test_the_last_judgement_does_not_wait() -> None:
    """The time between two readings has shown that it hangs; waited for again, what it rests on would be as old."""
    broker = PartitionBroker()

    async def scenario() -> None:
        async with broker.running(), admin(broker.address) as client:
            finding = choose((await look_at(client.cluster, NAMED, SEARCH)).findings, NAMED)
            slow = replace(SEARCH, confirm_after_s=60.0)
            assert (await abort(client.cluster, finding, slow, record=Records())).outcome == "aborted"

    run(scenario)


def test_refuses_where_another_id_has_the_producer_id_now() -> None:
    """It hangs as before, and the coordinator that was asked is that of the id before."""
    broker, recorder = Coordinator("CompleteCommit"), Records()

    def another(_: Log) -> None:
        state = TransactionState(transactional_id="another", producer_id=7, transaction_state="CompleteCommit")
        broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(transaction_states=(state,))

    with pytest.raises(Refused, match=f"changed since it was checked: transactional_id was {NAME}, and is another now"):
        attempt(broker, between=another, recorder=recorder)
    assert not sent(broker)
    assert not recorder


def setting(**values: Any) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        for name, value in values.items():
            assert hasattr(log, name)
            setattr(log, name, value)

    return change


@pytest.mark.parametrize(
    ("between", "text"),
    [
        (setting(start=-1), "it is not open any more"),
        (setting(start=41), "changed since it was checked: start_offset was 40, and is 41 now"),
        (setting(coordinator_epoch=6), "changed since it was checked: coordinator_epoch was 5, and is 6 now"),
        (setting(timestamp=OLD + 1), f"changed since it was checked: last_timestamp was {OLD}, and is {OLD + 1} now"),
    ],
)
def test_refuses_a_transaction_that_has_changed(between: Callable[[Log], None], text: str) -> None:
    broker, recorder = PartitionBroker(), Records()
    with pytest.raises(Refused, match=f"orders-0, offset 40: nothing was sent: {text}"):
        attempt(broker, between=between, recorder=recorder)
    assert not sent(broker)
    assert not recorder


def ongoing(_: ListTransactionsRequest) -> ListTransactionsResponse:
    state = TransactionState(transactional_id="a", producer_id=7, transaction_state="Ongoing")
    return ListTransactionsResponse(transaction_states=(state,))


@pytest.mark.parametrize("force", [False, True])
def test_refuses_a_transaction_that_a_coordinator_holds(force: bool) -> None:
    """Its id was in no list while it moved: no reason to abort it now, with or without force."""
    broker = PartitionBroker()
    none_listed = ListTransactionsResponse()
    broker.on[ListTransactionsRequest] = script(none_listed, none_listed, ongoing)
    with pytest.raises(Refused, match="verdict was hanging, and is not_hanging now"):
        attempt(broker, force=force)
    assert not sent(broker)


@pytest.mark.parametrize("force", [False, True])
def test_refuses_a_live_transaction(force: bool) -> None:
    broker = PartitionBroker()
    broker.on[ListTransactionsRequest] = ongoing
    with pytest.raises(Refused, match=r"not_hanging \(late\).*force-terminate --bootstrap-server h:1") as caught:
        attempt(broker, force=force)
    assert caught.value.reason == "late"
    assert not sent(broker)


def test_a_young_transaction_needs_force() -> None:
    for force in (False, True):
        broker, recorder = PartitionBroker(), Records()
        broker.log.timestamp = clock_ms()
        if force:
            assert attempt(broker, force=True, recorder=recorder).outcome == "aborted"
            assert recorder[0][0].reason == "young"
        else:
            with pytest.raises(Refused, match=r"not_hanging \(young\).*--force REASON overrides"):
                attempt(broker)
        assert len(sent(broker)) == force


def test_proves_that_a_young_transaction_has_no_owner() -> None:
    """One reading in which no coordinator names it is no evidence: a coordinator may just be moving."""
    broker = PartitionBroker()
    broker.log.timestamp = clock_ms()
    broker.on[ListTransactionsRequest] = script(ListTransactionsResponse(), ongoing)
    with pytest.raises(Refused, match=r"not_hanging \((live|late)\)"):
        attempt(broker, force=True)
    assert not sent(broker)


def test_an_unknown_transaction_needs_force() -> None:
    for force in (False, True):
        broker = PartitionBroker()
        broker.on[ListTransactionsRequest] = lambda _: ListTransactionsResponse(error_code=41)  # does not pass
        if force:
            assert attempt(broker, force=True).outcome == "aborted"
        else:
            with pytest.raises(Refused, match=r"unknown \(coverage_incomplete\).*--force REASON overrides"):
                attempt(broker)
        assert len(sent(broker)) == force


def test_brokers_of_2_8_make_it_unknown() -> None:
    """They describe producers, and do not know the owner of a producer id."""
    for force in (False, True):
        broker = PartitionBroker()
        del broker.versions[65], broker.versions[66]
        broker.versions[27] = (0, 1)
        if force:
            assert attempt(broker, force=True).outcome == "aborted"
        else:
            with pytest.raises(Refused, match=r"unknown.*brokers know it from Kafka 3.0 on.*--force REASON overrides"):
                attempt(broker)
        assert len(sent(broker)) == force


def test_never_aborts_a_decided_transaction() -> None:
    broker = PartitionBroker()
    broker.log.end = START  # its data is above the high watermark: nothing about it is certain
    broker.on[ListTransactionsRequest] = ongoing
    described = describing()

    def prepared(request: Any) -> Any:
        answer = described(request)
        states = tuple(replace(one, transaction_state="PrepareCommit") for one in answer.transaction_states)
        return replace(answer, transaction_states=states)

    broker.on[DescribeTransactionsRequest] = prepared
    with pytest.raises(Refused, match=r"unknown \(coverage_incomplete\).*its coordinator has it as PrepareCommit"):
        attempt(broker, force=True)
    assert not sent(broker)


def test_sends_nothing_that_cannot_be_recorded() -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    broker = PartitionBroker()
    with pytest.raises(OSError, match="No space left"):
        attempt(broker, recorder=full)
    assert not sent(broker)


# The outcome ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (31, "CLUSTER_AUTHORIZATION_FAILED: the principal needs Alter or ClusterAction on the cluster"),
        (52, "TRANSACTION_COORDINATOR_FENCED"),
        (47, "INVALID_PRODUCER_EPOCH"),
        (999, "UNKNOWN_999"),
    ],
)
def test_error_of_the_broker_is_not_written(code: int, text: str) -> None:
    broker, recorder = PartitionBroker(), Records()
    broker.log.code = code
    done = attempt(broker, recorder=recorder)
    assert done.outcome == "not_written"
    assert done.problem is not None
    assert text in done.problem
    assert len(sent(broker)) == 1
    assert recorder[-1][2] is done
    assert not broker.count(FetchRequest)


@pytest.mark.slow
def test_a_leader_that_is_none_any_more_is_judged_again() -> None:
    """Each marker that it refused is recorded; the last refusal is the outcome."""
    broker, recorder = PartitionBroker(), Records()
    broker.log.code = 6
    done = attempt(broker, recorder=recorder)
    assert done.outcome == "not_written"
    assert "NOT_LEADER_OR_FOLLOWER" in str(done.problem)
    assert len(sent(broker)) == 3
    assert [what[2] and what[2].outcome for what in recorder] == [None, "not_written"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("answer", [None, ...])
def test_without_an_answer_a_marker_in_the_log_is_aborted(answer: Any) -> None:
    """The log is the truth."""
    broker = PartitionBroker()

    def write(request: Any) -> Any:
        broker.write_markers(request)
        return answer

    broker.on[WriteTxnMarkersRequest] = write
    done = attempt(broker)
    assert (done.outcome, done.marker_offset, done.problem) == ("aborted", END, None)
    assert len(sent(broker)) == 1


@pytest.mark.slow
def test_without_answer_and_marker_it_is_not_verified() -> None:
    broker = PartitionBroker()
    broker.on[WriteTxnMarkersRequest] = lambda _: None
    done = attempt(broker)
    assert done.outcome == "not_verified"
    assert done.problem is not None
    assert "whether the marker was written is not known" in done.problem
    assert "the partition has the transaction open; its marker is not in the log" in done.problem
    assert len(sent(broker)) == 1


def test_records_an_interruption() -> None:
    """Ctrl-C while the answer is awaited."""
    broker, recorder = PartitionBroker(), Records()
    asked = asyncio.Event()

    def silent(_: Any) -> Any:
        asked.set()
        return ...

    async def scenario() -> None:
        broker.on[WriteTxnMarkersRequest] = silent
        async with broker.running(), admin(broker.address) as client:
            finding = choose((await look_at(client.cluster, NAMED, SEARCH)).findings, NAMED)
            running = asyncio.create_task(abort(client.cluster, finding, SEARCH, record=recorder))
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(scenario)
    before, after = recorder
    assert before[2] is None
    assert after[2] is not None
    assert after[2].outcome == "not_verified"
    assert after[2].problem == "interrupted (CancelledError): whether it was carried out is not known"


@pytest.mark.slow
def test_success_without_a_marker_is_not_verified() -> None:
    broker = PartitionBroker()
    broker.log.marks = False
    done = attempt(broker)
    assert done.outcome == "not_verified"
    assert done.problem == (
        "the partition has the transaction open; its marker is not in the log; the last stable offset is 40 "
        "(0.4 s later)"
    )


@pytest.mark.slow
def test_last_stable_offset_that_does_not_move_is_not_verified() -> None:
    broker = PartitionBroker()
    broker.log.stable = START
    done = attempt(broker)
    assert (done.outcome, done.marker_offset) == ("not_verified", END)
    assert done.problem == "the last stable offset is 40 (0.4 s later)"


def test_waits_until_the_marker_takes_effect() -> None:
    """Until followers have the marker, neither it nor the offsets behind it are seen."""
    broker = PartitionBroker()
    log, describe = broker.log, broker.describe_producers
    broker.log.marks = False
    reads = iter(range(100))

    def later(request: DescribeProducersRequest) -> Any:
        if sent(broker) and next(reads) == 2:
            log.append_marker(sent(broker)[0].markers[0])
        return describe(request)

    broker.on[DescribeProducersRequest] = later
    done = attempt(broker)
    assert (done.outcome, done.marker_offset) == ("aborted", END)


def test_a_marker_of_another_that_cannot_be_read_does_not_hide_the_outcome() -> None:
    broker = PartitionBroker()
    write = broker.write_markers

    def after_another(request: WriteTxnMarkersRequest) -> Any:
        broker.log.append_unreadable_marker()
        return write(request)

    broker.on[WriteTxnMarkersRequest] = after_another
    done = attempt(broker)
    assert (done.outcome, done.marker_offset) == ("aborted", END + 1)


def test_partition_that_cannot_be_read_is_not_verified() -> None:
    broker = PartitionBroker()
    broker.log.fetch_code = 29
    done = attempt(broker)
    assert done.outcome == "not_verified"
    assert done.problem is not None
    assert "the partition could not be read after it" in done.problem
    assert "the principal needs Read on topic orders" in done.problem


def test_follows_a_leader_that_moves() -> None:
    """Errors that pass are waited for: what counts is whether the marker is there."""
    broker = PartitionBroker()
    fetch = broker.fetch
    moving = fetch_error(6)
    broker.on[FetchRequest] = script(moving, moving, fetch)
    assert attempt(broker).outcome == "aborted"
    assert broker.count(FetchRequest) == 3


def fetch_error(code: int) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=code, high_watermark=-1, records=None)
    return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(data,)),))


def test_notes_another_transaction_that_blocks_the_partition() -> None:
    broker = PartitionBroker()
    broker.log.beside = 30
    done = attempt(broker)
    assert (done.outcome, done.last_stable_offset) == ("aborted", 30)
    assert done.note == "Another open transaction holds the last stable offset of orders-0, at 30."


def test_partition_without_leader_is_an_error() -> None:
    broker = PartitionBroker()
    broker.topics["orders"][0] = -1
    with pytest.raises(ClientError, match="LEADER_NOT_AVAILABLE"):
        attempt(broker, socket_connection_setup_timeout_ms="100")
    assert not sent(broker)
