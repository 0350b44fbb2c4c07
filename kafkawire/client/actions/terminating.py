"""Ends the transaction of a transactional id through its coordinator, which then fences the producer (KIP-664's
force-terminate: InitProducerId, as a new instance of the producer sends it).

Transactions of the id that the coordinator does not know stay open: those that hang in partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.actions.lease import JudgeAgain, Lease
from kafkawire.client.actions.prepared_request import (
    PreparedRequest,
    prepared,
    send_recorded,
    until_verified,
    why_unfinished,
)
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import backoffs
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.unread_partitions import gaps_of
from kafkawire.client.errors import CONCURRENT_TRANSACTIONS, ClientError, ConnectError, NotSentError, is_unknown_id
from kafkawire.client.results import ProducerIdAndEpoch, TopicPartition, TransactionDescription
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import describe_transactions, descriptions_in, fence_refusal, fence_request
from kafkawire.client.transport.broker_link import Link
from kafkawire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse, InitProducerIdResponse
from kafkawire.transactions.verdict.abort_premises import difference
from kafkawire.transactions.verdict.abort_rules import CHANGED, DECIDED, Refused, permit_end
from kafkawire.wire.message import Message

TERMINATED, NOTHING_OPEN, NOT_SENT, NOT_ENDED = "terminated", "nothing_open", "not_sent", "not_ended"
NOT_VERIFIED = "not_verified"
#: How often a transaction is described from the start, if its coordinator moves or does not answer in time.
_ATTEMPTS = 3
#: The fields of a description that identify the transaction that was shown; its partitions increase while it lasts.
_SAME = ("state", "producer_id", "producer_epoch", "start_time_ms")


class Terminated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a termination.

    Attributes:
        outcome: terminated (its coordinator has ended it, and its partitions have closed it); nothing_open (the id had
            no transaction, nothing was sent); not_sent; not_ended (the coordinator refused); not_verified.
        before: the id as its coordinator described it. `call`: the request, None where nothing was sent.
        producer: the new producer id and epoch; earlier producers of the id are fenced. `state`: of the id afterwards.
        problem: the reason where the outcome is not terminated.
        sent_after_ms: milliseconds from the start of the last description to the request, None where it was not sent.
    """

    outcome: str
    before: TransactionDescription
    call: PreparedRequest | None = None
    producer: ProducerIdAndEpoch | None = None
    state: str | None = None
    problem: str | None = None
    sent_after_ms: int | None = None


#: Called with the description and the request before it is sent, and again with the outcome.
Recorder = Callable[[TransactionDescription, PreparedRequest, Terminated | None], None]


async def describe_one(
    cluster: Cluster, transactional_id: str, search: Search, *, force: bool = False
) -> tuple[TransactionDescription, bool]:
    """The coordinator's description of an id, and whether it has a transaction to end.

    An id in a decided state is described twice: that state is short unless a marker is stuck.

    Args:
        search: `timeout_s` for each request, and `confirm_after_s`, after which a decided state is read again.
        force: permit a transaction of two-phase commit.

    Raises:
        Refused: it must not or cannot be ended, or no coordinator knows the id (the request would create it).
    """
    found = await describe(cluster, transactional_id, search.timeout_s)
    if found.state in DECIDED:
        await asyncio.sleep(search.confirm_after_s)
        found = await describe(cluster, transactional_id, search.timeout_s)
    try:
        return found, permit_end(transactional_id, found.state, found.timeout_ms, force=force)
    except Refused as refused:
        if found.state in DECIDED:
            raise Refused(refused.reason, f"{refused}{await _why_stuck(cluster, found, search)}") from None
        raise


async def plan_end(cluster: Cluster, found: TransactionDescription, timeout_s: float | None = None) -> PreparedRequest:
    """The request that ends the id's transaction, and its coordinator. The request is not sent.

    Args:
        found: as `describe_one` returns it.
        timeout_s: seconds for each request with its retries; None as configured. Up to a minute
            of it becomes the id's transaction timeout (`fence_request`).
    """
    deadline = cluster.deadline(timeout_s)
    return await prepared(cluster, found.coordinator, fence_request(found.transactional_id, deadline), deadline)


async def terminate(
    cluster: Cluster, shown: TransactionDescription, search: Search, *, record: Recorder, force: bool = False
) -> Terminated:
    """Ends an id's transaction, if it is still as `shown` describes it, and verifies the outcome.

    It is described once more over an open connection to its coordinator, and the request is sent in the step in which
    the answer comes, within a second. If that fails, it is described from the start. The request is not repeated: in
    between, the application may have started another transaction.

    Args:
        shown: as `describe_one` returns it; what the operator agreed to end.
        record: called before the request is sent (if it raises, nothing is sent), and again with the outcome, also
            after an interruption. Both again for each further attempt.
        force: end also a transaction of two-phase commit.

    Raises:
        Refused: see `describe_one`, or it has changed. ClientError: it could not be read. Nothing was sent.
    """
    last: JudgeAgain | None = None
    waits = backoffs(cluster.config)
    for _ in range(_ATTEMPTS):
        found, open_ = await describe_one(cluster, shown.transactional_id, search, force=force)
        if not open_:
            return Terminated(outcome=NOTHING_OPEN, before=found, state=found.state)
        _refuse_change(shown, difference(shown, found, _SAME))
        call = await plan_end(cluster, found, search.timeout_s)
        link = await cluster.link(found.coordinator, cluster.deadline(search.timeout_s))
        sending = _Sending(cluster, found, call, link, search.timeout_s)
        try:
            done: Terminated = await send_recorded(partial(record, found, call), sending.run, sending.unfinished)
        except JudgeAgain as again:
            last = again
            continue
        if not sending.moved:
            return done
        last = _NotTheCoordinator(done)
        await asyncio.sleep(next(waits))
    if isinstance(last, _NotTheCoordinator):
        return last.done
    raise Refused(CHANGED, _changed_text(shown, f"{last} (tried {_ATTEMPTS} times)"))


class _NotTheCoordinator(JudgeAgain):
    """The coordinator did not carry the request out, as it was recorded in `done`."""

    def __init__(self, done: Terminated) -> None:
        super().__init__(done.problem)
        self.done = done


def _refuse_change(shown: TransactionDescription, what: str) -> None:
    if what:
        raise Refused(CHANGED, _changed_text(shown, what))


def _changed_text(shown: TransactionDescription, what: str) -> str:
    return f"transactional id {shown.transactional_id}: nothing was sent: changed since it was checked: {what}"


@dataclass
class _Sending:
    """The request that ends a transaction, with its description.

    Attributes:
        sent_after_ms: since the start of the last description, when the request was given to the system; None before.
        moved: the broker did not carry it out: it does not coordinate the id now, or the transaction is unchanged.
    """

    cluster: Cluster
    found: TransactionDescription
    call: PreparedRequest
    link: Link
    timeout_s: float | None
    sent_after_ms: int | None = None
    moved: bool = False

    async def run(self) -> Terminated:
        """Raises Refused or JudgeAgain: it was not sent."""
        name, lease = self.found.transactional_id, Lease()

        def guard(answer: Message) -> None:
            assert isinstance(answer, DescribeTransactionsResponse)
            now = descriptions_in(answer, self.found.coordinator).get(name)
            if now is None or (isinstance(now, ClientError) and now.retriable):
                raise JudgeAgain(str(now or f"the coordinator did not describe {name}"))
            if isinstance(now, ClientError):
                raise now
            _refuse_change(self.found, difference(self.found, now, _SAME))
            lease.check()
            self.sent_after_ms = round(lease.age_s * 1000)

        deadline = self.cluster.deadline(self.timeout_s)
        try:
            answer = await self.link.ask_then(
                DescribeTransactionsRequest(transactional_ids=(name,)),
                fence_request(name, deadline),
                guard,
                within_s=lease.left_s,
                timeout_s=min(deadline.left(), self.cluster.config.request_timeout_s),
            )
        except NotSentError as error:
            raise JudgeAgain(str(error)) from None
        except ConnectError as error:
            return self._done(NOT_VERIFIED, f"{error}; whether its transaction was ended is not known")
        assert isinstance(answer, InitProducerIdResponse)
        return await self._outcome(answer)

    async def _outcome(self, answer: InitProducerIdResponse) -> Terminated:
        if answer.error_code and answer.error_code != CONCURRENT_TRANSACTIONS:
            error = fence_refusal(answer.error_code, self.found.transactional_id)
            self.moved = error.retriable
            return self._done(NOT_ENDED, str(error))
        if answer.error_code:
            return await self._outcome_of_concurrent()
        state, problem = await check_ended(self.cluster, self.found, self.timeout_s)
        producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        outcome = NOT_VERIFIED if problem else TERMINATED
        return replace(self._done(outcome, problem), producer=producer, state=state)

    async def _outcome_of_concurrent(self) -> Terminated:
        """The outcome after CONCURRENT_TRANSACTIONS. A coordinator answers this when it has started to abort the
        transaction and to fence its producer, or when the producer is ending the transaction."""
        error = fence_refusal(CONCURRENT_TRANSACTIONS, self.found.transactional_id)
        try:
            now = await describe(self.cluster, self.found.transactional_id, self.timeout_s)
            if not difference(self.found, now, _SAME):
                self.moved = True
                return self._done(NOT_VERIFIED, f"{error}; whether its transaction was ended is not known")
            state, problem = await check_ended(self.cluster, self.found, self.timeout_s)
            now = await describe(self.cluster, self.found.transactional_id, self.timeout_s)
        except (ClientError, Refused) as unread:
            return self._done(NOT_VERIFIED, f"{error}; the outcome could not be read ({unread})")
        if problem:
            return replace(self._done(NOT_VERIFIED, problem), state=state)
        fenced = (now.producer_id, now.producer_epoch) != (self.found.producer_id, self.found.producer_epoch)
        if now.state != "CompleteAbort" or not fenced:
            text = f"{error}; it has ended, but perhaps not by this request: it is {now.state}"
            return replace(self._done(NOT_VERIFIED, text), state=now.state)
        producer = ProducerIdAndEpoch(now.producer_id, now.producer_epoch)
        return replace(self._done(TERMINATED, ""), producer=producer, state=now.state)

    def unfinished(self, error: BaseException) -> Terminated:
        """The outcome where `run` raised an error."""
        if isinstance(error, Refused | JudgeAgain):
            self.sent_after_ms = None
        sent = self.sent_after_ms is not None
        return self._done(NOT_VERIFIED if sent else NOT_SENT, why_unfinished(error, sent=sent))

    def _done(self, outcome: str, problem: str) -> Terminated:
        return Terminated(
            outcome=outcome,
            before=self.found,
            call=self.call,
            problem=problem or None,
            sent_after_ms=self.sent_after_ms,
        )


async def left_open(cluster: Cluster, producer_id: int, search: Search) -> rows.Audit:
    """The open transactions of a producer id in all visible partitions, with their verdicts. `search`: how verdicts are
    found; its topics and partitions are replaced."""
    metadata = await cluster.metadata(deadline=cluster.deadline(search.timeout_s))
    states = await describe_producers(cluster, metadata.partitions, cluster.deadline(search.timeout_s))
    places = tuple(
        place
        for place, found in states.values.items()
        if any(one.producer_id == producer_id and one.transaction_start_offset is not None for one in found)
    )
    gaps = (*map(str, metadata.errors.values()), *(gap.text for gap in gaps_of(states.errors)))
    if not places:
        return rows.Audit(read=rows.Coverage(partitions=len(states.values), complete=not gaps, gaps=gaps))
    audit = await find_hanging(cluster, replace(search, topics=None, partitions=None, places=places))
    findings = tuple(finding for finding in audit.findings if finding.producer_id == producer_id)
    read = replace(audit.read, gaps=(*gaps, *audit.read.gaps), complete=audit.read.complete and not gaps)
    return replace(audit, read=read, findings=findings)


async def describe(cluster: Cluster, transactional_id: str, timeout_s: float | None) -> TransactionDescription:
    """The coordinator's description of an id. Raises Refused: no coordinator knows it."""
    found = await describe_transactions(cluster, [transactional_id], cluster.deadline(timeout_s))
    error = found.errors.get(transactional_id)
    if error is not None and is_unknown_id(error):
        raise Refused("no_such_id", f"{error}: nothing was sent, for that would create it")
    return found[transactional_id]


async def _why_stuck(cluster: Cluster, found: TransactionDescription, search: Search) -> str:
    """Which partitions wait for the marker, and why, or why that is not known, as the end of a sentence."""
    try:
        audit = await left_open(cluster, found.producer_id, search)
    except ClientError as error:
        return f"; which partitions wait could not be read: {error}"
    stuck = [one for one in audit.findings if one.reason == "stuck_prepare"]
    unread = () if stuck else audit.read.gaps[:1]
    return "".join(f"; {one.topic}-{one.partition}: {one.evidence[2]}" for one in stuck) + "".join(
        f"; which partitions wait is not known: {gap}" for gap in unread
    )


async def check_ended(
    cluster: Cluster, found: TransactionDescription, timeout_s: float | None
) -> tuple[str | None, str]:
    """Reads until the transaction is closed in its partitions and at its coordinator, which writes that down after the
    partitions' markers: the id's state, and what is still missing."""
    state: str | None = None

    async def look() -> tuple[str, bool]:
        nonlocal state
        try:
            state = (await describe(cluster, found.transactional_id, timeout_s)).state
            holding = await _holding(cluster, found, timeout_s)
        except (ClientError, Refused) as error:
            state = None
            return f"the outcome could not be read ({error})", False
        if holding:
            return f"still open in {', '.join(map(str, holding))}", True
        return f"its coordinator has it as {state}" if state in DECIDED else "", True

    problem = await until_verified(cluster, timeout_s, look)
    return state, problem


async def _holding(cluster: Cluster, found: TransactionDescription, timeout_s: float | None) -> list[TopicPartition]:
    """The partitions in which the transaction is still open; later transactions of the id have higher epochs."""
    states = (await describe_producers(cluster, found.partitions, cluster.deadline(timeout_s))).all()
    return [
        place
        for place, producers in states.items()
        if any(
            one.producer_id == found.producer_id
            and one.producer_epoch <= found.producer_epoch
            and one.transaction_start_offset is not None
            for one in producers
        )
    ]
