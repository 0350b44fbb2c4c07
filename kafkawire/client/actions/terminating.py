"""Ends the transaction of a transactional id through its coordinator, which then fences the producer (KIP-664's
force-terminate: InitProducerId, as a new instance of the producer sends it).

Transactions of the id that the coordinator does not know stay open: those that hang in partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.actions.prepared_request import PreparedRequest, prepared, send_recorded, until_verified
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.unread_partitions import gaps_of
from kafkawire.client.errors import BrokerError, ClientError, is_unknown_id
from kafkawire.client.results import ProducerIdAndEpoch, TopicPartition, TransactionDescription
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import describe_transactions, fence_producers, fence_request
from kafkawire.transactions.abort_rules import DECIDED, Refused, permit_end

TERMINATED, NOTHING_OPEN, NOT_ENDED, NOT_VERIFIED = "terminated", "nothing_open", "not_ended", "not_verified"


class Terminated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a termination.

    Attributes:
        outcome: terminated (its coordinator has ended it, and its partitions have closed it); nothing_open (the id had
            no transaction, nothing was sent); not_ended (the coordinator refused); not_verified.
        before: the id as its coordinator described it. `call`: the request, None where nothing was sent.
        producer: the new producer id and epoch; earlier producers of the id are fenced. `state`: of the id afterwards.
        problem: the reason where the outcome is not terminated.
    """

    outcome: str
    before: TransactionDescription
    call: PreparedRequest | None = None
    producer: ProducerIdAndEpoch | None = None
    state: str | None = None
    problem: str | None = None


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
    found = await _describe(cluster, transactional_id, search.timeout_s)
    if found.state in DECIDED:
        await asyncio.sleep(search.confirm_after_s)
        found = await _describe(cluster, transactional_id, search.timeout_s)
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
    cluster: Cluster, transactional_id: str, search: Search, *, record: Recorder, force: bool = False
) -> Terminated:
    """Ends an id's transaction and verifies the outcome.

    Args:
        record: called before the request is sent (if it raises, nothing is sent), and again with the outcome, also
            after an interruption.
        force: end also a transaction of two-phase commit.

    Raises:
        Refused: see `describe_one`. ClientError: it could not be read. Nothing was sent.
    """
    found, open_ = await describe_one(cluster, transactional_id, search, force=force)
    if not open_:
        return Terminated(outcome=NOTHING_OPEN, before=found, state=found.state)
    call = await plan_end(cluster, found, search.timeout_s)

    def unverified(problem: str) -> Terminated:
        return Terminated(outcome=NOT_VERIFIED, before=found, call=call, problem=problem)

    return await send_recorded(
        partial(record, found, call), partial(_send, cluster, found, call, search.timeout_s), unverified
    )


async def left_open(cluster: Cluster, producer_id: int, search: Search) -> rows.Audit:
    """The open transactions of a producer id in all visible partitions, with their verdicts.

    Args:
        search: how verdicts are found; its topics and partitions are replaced.
    """
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


async def _describe(cluster: Cluster, transactional_id: str, timeout_s: float | None) -> TransactionDescription:
    found = await describe_transactions(cluster, [transactional_id], cluster.deadline(timeout_s))
    error = found.errors.get(transactional_id)
    if error is not None and is_unknown_id(error):
        raise Refused("no_such_id", f"{error}: nothing was sent, for that would create it")
    return found[transactional_id]


async def _why_stuck(cluster: Cluster, found: TransactionDescription, search: Search) -> str:
    """Which partitions wait for the marker, and why, as the end of a sentence."""
    try:
        audit = await left_open(cluster, found.producer_id, search)
    except ClientError:
        return ""
    stuck = [one for one in audit.findings if one.reason == "stuck_prepare"]
    return "".join(f"; {one.topic}-{one.partition}: {one.evidence[2]}" for one in stuck)


async def _send(
    cluster: Cluster, found: TransactionDescription, call: PreparedRequest, timeout_s: float | None
) -> Terminated:
    name = found.transactional_id
    fenced = await fence_producers(cluster, [name], cluster.deadline(timeout_s))
    if name in fenced.errors:
        error = fenced.errors[name]
        denied = isinstance(error, BrokerError) and not error.retriable
        problem = str(error) if denied else f"{error}; whether its transaction was ended is not known"
        return Terminated(outcome=NOT_ENDED if denied else NOT_VERIFIED, before=found, call=call, problem=problem)
    state, problem = await _check(cluster, found, timeout_s)
    return Terminated(
        outcome=NOT_VERIFIED if problem else TERMINATED,
        before=found,
        call=call,
        producer=fenced.values[name],
        state=state,
        problem=problem or None,
    )


async def _check(cluster: Cluster, found: TransactionDescription, timeout_s: float | None) -> tuple[str | None, str]:
    """Reads until the transaction is closed in its partitions: the id's state, and what is still missing."""
    state: str | None = None

    async def look() -> tuple[str, bool]:
        nonlocal state
        try:
            state = (await _describe(cluster, found.transactional_id, timeout_s)).state
            holding = await _holding(cluster, found, timeout_s)
        except (ClientError, Refused) as error:
            state = None
            return f"the outcome could not be read ({error})", False
        return f"still open in {', '.join(map(str, holding))}" if holding else "", True

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
