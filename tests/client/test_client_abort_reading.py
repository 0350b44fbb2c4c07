"""What an abort rests on, read again right before the marker: leaders that move, answers that are late, connections
that are lost, coordinators that know more. It is judged again, or refused; nothing is sent that was not judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import Search
from kafkawire.client.actions import lease
from kafkawire.client.actions.aborting import Aborted, abort, look_at
from kafkawire.client.actions.terminating import describe_one, terminate
from kafkawire.client.errors import NotSentError
from kafkawire.client.transport.broker_link import Link
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    FetchRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.records import Record, build
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec, choose
from kafkawire.wire.message import Message
from tests.client.answers import OLD, admin, run, script
from tests.client.partition_script import END, NAME, SEARCH, START, Coordinator, PartitionBroker
from tests.client.scripted import RESET

NAMED = TransactionSpec(topic="orders", partition=0, start_offset=START)


class Attempt:
    """An abort, or a termination, in which something happens once its request is recorded: before the last reading.

    Attributes:
        records: outcomes as they were recorded, None before each request. `done`: the result, or the refusal.
    """

    def __init__(self, broker: PartitionBroker, then: Callable[[int], None], search: Search = SEARCH) -> None:
        self.broker = broker
        self.records: list[str | None] = []
        self.done: Any = None
        self._then = then
        self._search = search
        run(self._run)

    async def _run(self) -> None:
        async with self.broker.running(), admin(self.broker.address) as client:
            try:
                self.done = await self._attempt(client.cluster)
            except Refused as refused:
                self.done = refused

    async def _attempt(self, cluster: Any) -> Any:
        finding = choose((await look_at(cluster, NAMED, self._search)).findings, NAMED)
        return await abort(cluster, finding, self._search, record=self.record)

    def record(self, _: Any, __: Any, result: Any) -> None:
        self.records.append(None if result is None else result.outcome)
        if result is None:
            self._then(self.records.count(None))

    @property
    def sent(self) -> int:
        return self.broker.count(WriteTxnMarkersRequest) + self.broker.count(InitProducerIdRequest)


class TerminationAttempt(Attempt):
    async def _attempt(self, cluster: Any) -> Any:
        found, _ = await describe_one(cluster, NAME, self._search)
        return await terminate(cluster, found, self._search, record=self.record)


def once(change: Callable[[], None]) -> Callable[[int], None]:
    """Happens before the first request only."""
    return lambda number: change() if number == 1 else None


def judged_again(attempt: Attempt, outcome: str = "aborted") -> None:
    assert isinstance(attempt.done, Aborted)
    assert (attempt.done.outcome, attempt.done.problem) == (outcome, None)
    assert attempt.records == [None, "not_sent", None, "aborted"]
    assert attempt.sent == 1


def refused(attempt: Attempt, text: str, judgements: int = 1) -> None:
    assert isinstance(attempt.done, Refused), attempt.done
    assert attempt.done.reason == "changed"
    assert "nothing was sent: changed since it was checked: " in str(attempt.done)
    assert text in str(attempt.done)
    assert attempt.records == [None, "not_sent"] * judgements
    assert attempt.sent == 0


def changing(broker: PartitionBroker, kind: type, change: Callable[[Any], Any]) -> Callable[[], None]:
    """Lets the next answers to a request be changed."""

    def begin() -> None:
        answer = broker.on[kind]
        broker.on[kind] = lambda request: change(answer(request))

    return begin


def leader_epoch(number: int) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        topics = tuple(
            replace(topic, partitions=tuple(replace(one, leader_epoch=number) for one in topic.partitions))
            for topic in answer.topics
        )
        return replace(answer, topics=topics)

    return change


# Another leader, another epoch ----------------------------------------------------------------------------------------


def test_a_new_leader_epoch_is_judged_again() -> None:
    broker = PartitionBroker()
    judged_again(Attempt(broker, once(changing(broker, MetadataRequest, leader_epoch(1)))))


def test_a_leader_epoch_that_rises_each_time_is_refused() -> None:
    broker = PartitionBroker()
    numbers = iter(range(1, 9))
    attempt = Attempt(broker, lambda _: changing(broker, MetadataRequest, leader_epoch(next(numbers)))())
    refused(attempt, "the leader was broker 1 in leader epoch 2, and is broker 1 in leader epoch 3 now (judged 3", 3)


@pytest.mark.parametrize("code", [74, 75, 6])
def test_a_leader_of_another_epoch_refuses_and_is_judged_again(code: int) -> None:
    """FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER; and the request has the judged epoch."""
    broker = PartitionBroker()
    left = [code]

    def fence(answer: Any) -> Any:
        error = left.pop() if left else 0
        topics = tuple(
            replace(topic, partitions=tuple(replace(one, error_code=error) for one in topic.partitions))
            for topic in answer.topics
        )
        return replace(answer, topics=topics)

    judged_again(Attempt(broker, once(changing(broker, ListOffsetsRequest, fence))))
    epochs = {
        one.current_leader_epoch
        for body in broker.requests
        if isinstance(body, ListOffsetsRequest)
        for topic in body.topics
        for one in topic.partitions
    }
    assert epochs == {-1, 0}


# Late answers, lost connections ---------------------------------------------------------------------------------------

KINDS = [MetadataRequest, ListOffsetsRequest, ListTransactionsRequest, DescribeProducersRequest]


def first_answer(broker: PartitionBroker, kind: type, answer: Any) -> Callable[[int], None]:
    """Answers the next request otherwise, if it is the first that is recorded."""

    def begin() -> None:
        usual = broker.on[kind]

        def once_otherwise(request: Any) -> Any:
            broker.on[kind] = usual
            return answer(usual, request) if callable(answer) else answer

        broker.on[kind] = once_otherwise

    return once(begin)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
def test_a_late_answer_is_judged_again(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata that takes 25 s, a leader that is away for 10 s: the lease is over."""
    monkeypatch.setattr(lease, "LIMIT_S", 0.2)
    broker = PartitionBroker()

    async def late(usual: Any, request: Any) -> Any:
        await asyncio.sleep(0.25)
        return usual(request)

    judged_again(Attempt(broker, first_answer(broker, kind, late)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
@pytest.mark.parametrize("how", [RESET, None])
def test_a_lost_connection_is_judged_again(kind: type, how: Any) -> None:
    """The marker does not go out on the connection that replaces it."""
    broker = PartitionBroker()
    judged_again(Attempt(broker, first_answer(broker, kind, how)))


@pytest.mark.slow
@pytest.mark.parametrize("termination", [False, True])
def test_an_answer_that_does_not_come_is_waited_for_as_long_as_the_lease_lasts(
    termination: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one before the request: not for as long as a request may take."""
    monkeypatch.setattr(lease, "LIMIT_S", 0.2)
    broker = Coordinator() if termination else PartitionBroker()
    kind = DescribeTransactionsRequest if termination else DescribeProducersRequest
    begun = time.monotonic()
    attempt = (TerminationAttempt if termination else Attempt)(
        broker, first_answer(broker, kind, ...), replace(SEARCH, timeout_s=30.0)
    )
    assert attempt.done.outcome == ("terminated" if termination else "aborted")
    assert (attempt.records[1], attempt.sent) == ("not_sent", 1)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("termination", [False, True])
def test_a_request_that_the_system_does_not_take_is_recorded_as_not_sent(
    termination: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the guard has let it pass."""
    usual, left = Link.ask_then, ["the system did not take the request"]

    async def not_taken(
        self: Link, first: Message, then: Message, guard: Callable[[Message], None], **more: Any
    ) -> Any:
        def guarded(answer: Message) -> None:
            guard(answer)
            if left:
                raise NotSentError(left.pop())

        return await usual(self, first, then, guarded, **more)

    monkeypatch.setattr(Link, "ask_then", not_taken)
    if termination:
        attempt = TerminationAttempt(Coordinator(), lambda _: None)
        assert (attempt.records, attempt.sent) == ([None, "not_sent", None, "terminated"], 1)
    else:
        judged_again(Attempt(PartitionBroker(), lambda _: None))


def test_a_broker_that_does_not_list_its_ids_again_is_judged_again() -> None:
    """It did before, and could name the producer's id now."""
    broker = PartitionBroker()
    loading = ListTransactionsResponse(error_code=14)
    judged_again(Attempt(broker, first_answer(broker, ListTransactionsRequest, loading)))


# What has changed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"start": -1}, "it is not open any more"),
        ({"start": 41}, "start_offset was 40, and is 41 now"),
        ({"coordinator_epoch": 6}, "coordinator_epoch was 5, and is 6 now"),
        ({"timestamp": OLD + 1}, f"last_timestamp was {OLD}, and is {OLD + 1} now"),
        ({"sequence": 3}, "last_sequence was 1, and is 3 now"),
    ],
)
def test_a_partition_that_changed_after_the_judgement_is_refused(change: dict[str, Any], text: str) -> None:
    """With event times, the timestamp of the next batch may be the same: its sequence number is not."""
    broker = PartitionBroker()
    broker.log.sequence = 1
    refused(Attempt(broker, lambda _: [setattr(broker.log, *one) for one in change.items()] and None), text)


def test_batches_without_sequence_numbers_are_looked_for_in_the_log() -> None:
    """Offsets of groups are written by coordinators, without them."""
    for producer_id in (7, 8):
        broker = PartitionBroker()
        assert broker.log.sequence == -1

        def write(broker: PartitionBroker = broker, producer_id: int = producer_id) -> None:
            log = broker.log
            data = build(
                [Record(value=b"y", timestamp=1000)],
                producer_id=producer_id,
                producer_epoch=3,
                base_sequence=0,
                transactional=True,
                base_offset=log.end,
            )
            log._batches.append((log.end, data))
            log.end += 1

        attempt = Attempt(broker, once(write))
        if producer_id == 7:
            refused(attempt, f"its producer wrote at offset {END}")
        else:
            assert (attempt.done.outcome, attempt.done.problem) == ("aborted", None)
        assert broker.count(FetchRequest)


class Ended(Coordinator):
    """The id has ended its transaction, and the partition has it open: it hangs."""

    def __init__(self) -> None:
        super().__init__("CompleteCommit")


@pytest.mark.parametrize(
    ("state", "text"),
    [("Ongoing", "the partition is in its id's transaction now"), ("Empty", "state was CompleteCommit, and is Empty")],
)
def test_an_id_that_went_on_after_the_judgement_is_refused(state: str, text: str) -> None:
    broker = Ended()

    def go_on() -> None:
        broker.states = [state]

    refused(Attempt(broker, once(go_on)), text)


def test_an_id_that_its_coordinator_does_not_describe_any_more_is_refused() -> None:
    broker = Ended()
    hidden = changing(broker, DescribeTransactionsRequest, lambda answer: replace(
        answer, transaction_states=tuple(replace(one, error_code=53) for one in answer.transaction_states)
    ))  # fmt: skip
    refused(Attempt(broker, once(hidden)), "its coordinator described its transactional id before")


def test_an_id_that_is_listed_only_now_is_refused() -> None:
    broker, listing = PartitionBroker(), Coordinator("Empty")

    def list_it() -> None:
        broker.on[ListTransactionsRequest] = listing.list_ids

    refused(Attempt(broker, once(list_it)), f"transactional id '{NAME}' has the producer id now")


def test_what_was_aborted_with_it_is_named() -> None:
    """Between the leader's last answer and the marker no request can be: it is looked for afterwards."""
    broker = PartitionBroker()
    write = broker.write_markers

    def overtaken(request: Any) -> Any:
        log = broker.log
        more = build([Record(value=b"live", timestamp=1)], producer_id=7, producer_epoch=3, base_sequence=2,
                     transactional=True, base_offset=log.end)  # fmt: skip
        log._batches.append((log.end, more))
        log.end += 1
        return write(request)

    broker.on[WriteTxnMarkersRequest] = overtaken
    done = Attempt(broker, lambda _: None).done
    assert (done.outcome, done.marker_offset) == ("aborted", END + 1)
    assert f"its producer wrote from offset {END} on between the check and the marker" in done.problem
    assert "must be sent again" in done.problem


def test_the_time_from_the_reading_to_the_marker_is_recorded() -> None:
    done = Attempt(PartitionBroker(), lambda _: None).done
    assert 0 <= done.sent_after_ms <= 1000


# Terminations ---------------------------------------------------------------------------------------------------------


def test_a_transaction_that_is_another_than_the_one_shown_is_refused() -> None:
    """The operator has seen one, and answers when the next has begun."""
    broker = Coordinator()
    usual = broker.describe
    changed = changing(broker, DescribeTransactionsRequest, started(6))
    refused(TerminationAttempt(broker, once(changed)), "start_time_ms was 5, and is 6 now")
    assert usual == broker.describe


def started(milliseconds: int) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        states = tuple(replace(one, transaction_start_time_ms=milliseconds) for one in answer.transaction_states)
        return replace(answer, transaction_states=states)

    return change


def test_a_transaction_that_changed_while_the_operator_was_asked_is_refused() -> None:
    broker = Coordinator()

    async def scenario() -> None:
        async with broker.running(), admin(broker.address) as client:
            found, _ = await describe_one(client.cluster, NAME, SEARCH)
            changing(broker, DescribeTransactionsRequest, started(6))()
            with pytest.raises(Refused, match="changed since it was checked: start_time_ms was 5, and is 6 now"):
                await terminate(client.cluster, found, SEARCH, record=lambda *_: pytest.fail("recorded"))

    run(scenario)
    assert not broker.count(InitProducerIdRequest)


@pytest.mark.parametrize("how", [RESET, None])
def test_a_termination_whose_connection_is_lost_begins_again(how: Any) -> None:
    broker = Coordinator()
    attempt = TerminationAttempt(broker, first_answer(broker, DescribeTransactionsRequest, how))
    assert attempt.done.outcome == "terminated"
    assert attempt.records == [None, "not_sent", None, "terminated"]
    assert attempt.sent == 1


def test_a_transaction_that_its_coordinator_is_aborting_needs_no_second_request() -> None:
    """CONCURRENT_TRANSACTIONS: Kafka's coordinator answers so when it has begun to end it. The application may begin
    the next one before a second request comes, which would end that."""
    broker = Coordinator()
    after = changing(broker, DescribeTransactionsRequest, lambda answer: replace(
        answer, transaction_states=tuple(replace(one, producer_epoch=4) for one in answer.transaction_states)
    ))  # fmt: skip

    def begin(_: Any) -> InitProducerIdResponse:
        # Its partition is closed before the coordinator has written that down.
        broker.states, broker.log.start = ["PrepareAbort", "PrepareAbort", "PrepareAbort", "CompleteAbort"], -1
        after()
        return InitProducerIdResponse(error_code=51)

    broker.on[InitProducerIdRequest] = begin
    attempt = TerminationAttempt(broker, lambda _: None)
    assert (attempt.done.outcome, attempt.done.problem, attempt.done.state) == ("terminated", None, "CompleteAbort")
    assert (attempt.done.producer.producer_id, attempt.done.producer.producer_epoch) == (7, 4)
    assert attempt.sent == 1


def test_a_busy_coordinator_that_has_changed_nothing_is_asked_again() -> None:
    """CONCURRENT_TRANSACTIONS, and the transaction is as it was: it is described from the start."""
    broker = Coordinator()
    usual = broker.on[InitProducerIdRequest]
    broker.on[InitProducerIdRequest] = script(lambda _: InitProducerIdResponse(error_code=51), usual)
    attempt = TerminationAttempt(broker, lambda _: None)
    assert (attempt.done.outcome, attempt.sent) == ("terminated", 2)
    assert attempt.records == [None, "not_verified", None, "terminated"]


def test_a_transaction_that_its_producer_commits_meanwhile_is_not_verified() -> None:
    broker = Coordinator()

    def commit(_: Any) -> InitProducerIdResponse:
        broker.states, broker.log.start = ["CompleteCommit"], -1
        return InitProducerIdResponse(error_code=51)

    broker.on[InitProducerIdRequest] = commit
    done = TerminationAttempt(broker, lambda _: None).done
    assert done.outcome == "not_verified"
    assert "it has ended, but perhaps not by this request: it is CompleteCommit" in done.problem
