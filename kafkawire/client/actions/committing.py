"""Commits the transaction of a transactional id through its coordinator, for the owner who recorded it before it died
(EndTxn with the recorded producer id and epoch, as the producer itself would send it; never a marker).

What the coordinator's log shows decides whether it is the recorded one (`transactions.verdict.commit_rules`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec.structs import replace

from kafkawire.client.actions.lease import JudgeAgain, Lease
from kafkawire.client.actions.prepared_request import PreparedRequest, prepared, send_recorded, why_unfinished
from kafkawire.client.actions.terminating import check_ended, describe
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import BrokerError, ClientError, ConnectError, NotSentError
from kafkawire.client.results import TopicPartition, TransactionDescription
from kafkawire.client.rpc.fetch_batches import batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import descriptions_in
from kafkawire.client.transport.broker_link import Link
from kafkawire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse
from kafkawire.transactions.coordinator.coordinator_log import UnreadableRecord, coordinator_records, registration
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id, raises_epoch
from kafkawire.transactions.facts import TRANSACTION_STATE, CoordinatorRecord, Place
from kafkawire.transactions.verdict.abort_premises import difference
from kafkawire.transactions.verdict.abort_rules import CHANGED, DECIDED, Refused
from kafkawire.transactions.verdict.commit_rules import EpochHistory, RecordedTransaction, permit_commit
from kafkawire.wire.message import Message

COMMITTED, ALREADY_COMMITTED, NOT_SENT, NOT_COMMITTED = "committed", "already_committed", "not_sent", "not_committed"
NOT_VERIFIED = "not_verified"
_ATTEMPTS = 3
#: The last version of EndTxn that leaves the epoch as it is; later ones are of transaction version 2 (KIP-890).
_KEEPS_EPOCH = 4
_SAME = ("state", "producer_id", "producer_epoch", "start_time_ms", "partitions")


class Committable(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that may be committed.

    Attributes:
        found: the id, as its coordinator describes it. `recorded`: what its owner recorded.
        committed: it is committed already: there is nothing to send.
        at_most: the highest version of EndTxn that its producer would use.
        empty: partitions of the transaction in which no data of it is open: none was written, or it is lost.
    """

    found: TransactionDescription
    recorded: RecordedTransaction
    committed: bool
    at_most: int | None
    empty: tuple[TopicPartition, ...] = ()


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a commit.

    Attributes:
        outcome: committed (its coordinator has committed it, and its partitions have closed it); already_committed
            (nothing was sent); not_sent; not_committed (the coordinator refused); not_verified.
        before: the id as its coordinator described it. `call`: the request, None where nothing was sent.
        state: of the id afterwards. `problem`: the reason where the outcome is not as it should be.
        sent_after_ms: milliseconds from the start of the last description to the request, None where it was not sent.
    """

    outcome: str
    before: TransactionDescription
    call: PreparedRequest | None = None
    state: str | None = None
    problem: str | None = None
    sent_after_ms: int | None = None


#: Called with the description and the request before it is sent, and again with the outcome.
Recorder = Callable[[TransactionDescription, PreparedRequest, Committed | None], None]


async def committable(cluster: Cluster, recorded: RecordedTransaction, search: Search) -> Committable:
    """The recorded transaction, if it may be committed or is committed already.

    Args:
        search: `timeout_s` for each request, and `confirm_after_s`, after which its producer is looked at again.

    Raises:
        Refused: it is not the recorded one for certain, another outcome is decided, or its producer still writes.
        ClientError: the coordinator's log or the partitions could not be read.
    """
    found = await describe(cluster, recorded.transactional_id, search.timeout_s)
    history = await _history(cluster, recorded, search.timeout_s)
    holder = found.producer_id, found.producer_epoch
    if not permit_commit(recorded, found.state, holder, history):
        return Committable(found=found, recorded=recorded, committed=True, at_most=None)
    before = await _written(cluster, found, search.timeout_s)
    await asyncio.sleep(search.confirm_after_s)
    after = await _written(cluster, found, search.timeout_s)
    if before != after:
        moved = sorted(place for place in after if after[place] != before.get(place))
        text = f"{recorded}: its producer still writes, in {', '.join(map(str, moved))}: only its owner may commit it"
        raise Refused("still_writing", text)
    return Committable(
        found=found,
        recorded=recorded,
        committed=False,
        at_most=None if raises_epoch(history.client_version) else _KEEPS_EPOCH,
        empty=tuple(sorted(set(found.partitions) - after.keys())),
    )


async def plan_commit(cluster: Cluster, one: Committable, timeout_s: float | None = None) -> PreparedRequest:
    """The request that commits, and its coordinator. The request is not sent. `one`: as `committable` returns it.
    `timeout_s`: seconds for each request with its retries; None as configured."""
    deadline = cluster.deadline(timeout_s)
    return await prepared(cluster, one.found.coordinator, _request(one), deadline, at_most=one.at_most)


async def commit(cluster: Cluster, shown: Committable, search: Search, *, record: Recorder) -> Committed:
    """Commits a transaction, if it is still as `shown` describes it, and verifies the outcome.

    It is described once more over an open connection to its coordinator, and the request is sent in the step in which
    the answer comes, within a second. If that fails, it is judged from the start. The request is not repeated.

    Args:
        shown: as `committable` returns it; what the operator agreed to commit.
        record: called before the request is sent (if it raises, nothing is sent), and again with the outcome, also
            after an interruption. Both again for each further attempt.

    Raises:
        Refused: see `committable`, or it has changed. ClientError: it could not be read. Nothing was sent.
    """
    last: JudgeAgain | None = None
    for _ in range(_ATTEMPTS):
        one = await committable(cluster, shown.recorded, search)
        if one.committed:
            return Committed(outcome=ALREADY_COMMITTED, before=one.found, state=one.found.state)
        _refuse_change(shown, difference(shown.found, one.found, _SAME))
        call = await plan_commit(cluster, one, search.timeout_s)
        link = await cluster.link(one.found.coordinator, cluster.deadline(search.timeout_s))
        sending = _Sending(cluster, one, call, link, search.timeout_s)
        try:
            done: Committed = await send_recorded(partial(record, one.found, call), sending.run, sending.unfinished)
        except JudgeAgain as again:
            last = again
            continue
        return done
    raise Refused(CHANGED, _changed(shown, f"{last} (tried {_ATTEMPTS} times)"))


def _request(one: Committable) -> EndTxnRequest:
    recorded = one.recorded
    return EndTxnRequest(
        transactional_id=recorded.transactional_id,
        producer_id=recorded.producer_id,
        producer_epoch=recorded.producer_epoch,
        committed=True,
    )


def _refuse_change(shown: Committable, what: str) -> None:
    if what:
        raise Refused(CHANGED, _changed(shown, what))


def _changed(shown: Committable, what: str) -> str:
    return f"{shown.recorded}: nothing was sent: changed since it was checked: {what}"


async def _history(cluster: Cluster, recorded: RecordedTransaction, timeout_s: float | None) -> EpochHistory:
    """What the coordinator's log has of the recorded epoch (Read on `__transaction_state`)."""
    deadline = cluster.deadline(timeout_s)
    metadata = await cluster.metadata([TRANSACTION_STATE], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    key = TopicPartition(TRANSACTION_STATE, partition_of_id(recorded.transactional_id, len(metadata.partitions)))
    offsets = (await list_offsets(cluster, [key], deadline))[key]
    leader = await leader_of(cluster, key, deadline)
    history, place = EpochHistory(recorded), Place("", *key)
    walk = batches(cluster, leader, key, offsets.log_start, offsets.high_watermark, deadline)
    async with aclosing(walk) as found:
        async for batch in found:
            for record in coordinator_records(batch):
                change = registration(place, record) if isinstance(record, CoordinatorRecord) else record
                if isinstance(change, UnreadableRecord):
                    raise ClientError(f"{key}: record at offset {change.offset}: {change.problem}")
                if change is not None and change.transactional_id == recorded.transactional_id:
                    history.take(change.value)
    return history


async def _written(
    cluster: Cluster, found: TransactionDescription, timeout_s: float | None
) -> dict[TopicPartition, tuple[int | None, ...]]:
    """Where the transaction has data: its first offset, and the last sequence number and time of its producer."""
    states = (await describe_producers(cluster, found.partitions, cluster.deadline(timeout_s))).all()
    return {
        place: (one.transaction_start_offset, one.last_sequence, one.last_timestamp)
        for place, producers in states.items()
        for one in producers
        if one.producer_id == found.producer_id and one.transaction_start_offset is not None
    }


@dataclass
class _Sending:
    """The request that commits a transaction, with its description. `sent_after_ms`: since the start of the last
    description, when the request was given to the system; None before."""

    cluster: Cluster
    one: Committable
    call: PreparedRequest
    link: Link
    timeout_s: float | None
    sent_after_ms: int | None = None

    async def run(self) -> Committed:
        """Raises Refused or JudgeAgain: it was not sent."""
        name, lease = self.one.recorded.transactional_id, Lease()

        def guard(answer: Message) -> None:
            assert isinstance(answer, DescribeTransactionsResponse)
            now = descriptions_in(answer, self.one.found.coordinator).get(name)
            if now is None or (isinstance(now, ClientError) and now.retriable):
                raise JudgeAgain(str(now or f"the coordinator did not describe {name}"))
            if isinstance(now, ClientError):
                raise now
            _refuse_change(self.one, difference(self.one.found, now, _SAME))
            lease.check()
            self.sent_after_ms = round(lease.age_s * 1000)

        deadline = self.cluster.deadline(self.timeout_s)
        try:
            answer = await self.link.ask_then(
                DescribeTransactionsRequest(transactional_ids=(name,)),
                _request(self.one),
                guard,
                within_s=lease.left_s,
                timeout_s=min(deadline.left(), self.cluster.config.request_timeout_s),
                at_most=self.one.at_most,
            )
        except NotSentError as error:
            raise JudgeAgain(str(error)) from None
        except ConnectError as error:
            return self._done(NOT_VERIFIED, f"{error}; whether it was committed is not known")
        assert isinstance(answer, EndTxnResponse)
        if answer.error_code:
            what = f"transactional id {name}"
            error_ = BrokerError.answering("EndTxn", answer.error_code, what, name)
            return self._done(NOT_COMMITTED, str(error_))
        state, problem = await check_ended(self.cluster, self.one.found, self.timeout_s)
        if not problem and state is not None and state not in ("CompleteCommit", *DECIDED):
            problem = "" if state in ("Ongoing", "Empty") else f"its coordinator has it as {state}"
        return replace(self._done(NOT_VERIFIED if problem else COMMITTED, problem), state=state)

    def unfinished(self, error: BaseException) -> Committed:
        """The outcome where `run` raised an error."""
        if isinstance(error, Refused | JudgeAgain):
            self.sent_after_ms = None
        sent = self.sent_after_ms is not None
        return self._done(NOT_VERIFIED if sent else NOT_SENT, why_unfinished(error, sent=sent))

    def _done(self, outcome: str, problem: str) -> Committed:
        return Committed(
            outcome=outcome,
            before=self.one.found,
            call=self.call,
            problem=problem or None,
            sent_after_ms=self.sent_after_ms,
        )
