"""Aborts a hanging transaction in its partition.

    plan = await plan_abort(cluster, finding)                     # the exact request and its broker
    done = await abort(cluster, finding, search, record=print)    # verified, sent once, looked for in the log

An ABORT marker cannot be undone. The transaction is therefore judged again, and the premises of the verdict are read
before and after that. The second reading is at most a second older than the marker, which is sent to the judged leader
as soon as that leader's last answer arrives (`lease`, `abort_reading`). The outcome is read from the partition, not
from the broker's response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.actions.abort_reading import AbortReading, connect
from kafkawire.client.actions.lease import JudgeAgain, Lease
from kafkawire.client.actions.prepared_request import (
    PreparedRequest,
    prepared,
    send_recorded,
    until_verified,
    why_unfinished,
)
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import ClientError, ConnectError, NotSentError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import first_batch
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers, producers_request
from kafkawire.client.rpc.write_txn_markers import abort_request, marker_refusal
from kafkawire.messages import DescribeProducersResponse
from kafkawire.records import Batch
from kafkawire.records.batch import readable_control
from kafkawire.transactions.verdict.abort_premises import AbortPremises, change, difference, leader_change
from kafkawire.transactions.verdict.abort_rules import (
    CHANGED,
    Marker,
    PartitionAfterAbort,
    Refused,
    TransactionSpec,
    changed_text,
    lost,
    marker_of,
    missing,
    permit,
    refuse_change,
    still_held,
    unchanged,
)
from kafkawire.wire.message import Message

ABORTED, NOT_SENT, NOT_WRITTEN, NOT_VERIFIED = "aborted", "not_sent", "not_written", "not_verified"
#: How often a transaction is judged from the start, if what that rests on could not be read again in time.
_JUDGEMENTS = 3


class Aborted(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an abort.

    Attributes:
        outcome: aborted (the marker is in the log, the transaction is closed and does not hold the last stable offset);
            not_sent; not_written (the broker refused it); not_verified.
        finding: the transaction right before the marker was sent. `call`: the request.
        marker_offset: offset of the marker. `last_stable_offset`, `high_watermark`: after it.
        problem: the reason where the outcome is not aborted; or what else the marker aborted.
        note: why readers still wait.
        sent_after_ms: milliseconds from the start of the last reading to the marker, None where it was not sent.
    """

    outcome: str
    finding: rows.Finding
    call: PreparedRequest
    marker_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    problem: str | None = None
    note: str = ""
    sent_after_ms: int | None = None


#: Called with the finding and the request before it is sent, and again with the outcome.
Recorder = Callable[[rows.Finding, PreparedRequest, Aborted | None], None]


async def look_at(cluster: Cluster, named: TransactionSpec, search: Search) -> rows.Audit:
    """Every open transaction of one partition with its verdict, as `find_hanging` gives it. `named`: its topic and
    partition; its other fields are not used. `search`: how to search; its topics and partitions are replaced."""
    return await find_hanging(
        cluster,
        replace(
            search, topics=(named.topic,), partitions=(named.partition,), places=None, broker_id=None, impact=False
        ),
    )


async def plan_abort(cluster: Cluster, finding: rows.Finding, timeout_s: float | None = None) -> PreparedRequest:
    """The request that aborts a transaction, and the leader that it goes to. The request is not sent.

    Args:
        finding: an open transaction, as `look_at` returns it.
        timeout_s: seconds for each request with its retries; None as configured.
    """
    deadline = cluster.deadline(timeout_s)
    place = TopicPartition(finding.topic, finding.partition)
    leader = await leader_of(cluster, place, deadline)
    return await prepared(cluster, leader, abort_request(marker_of(finding)), deadline)


async def abort(
    cluster: Cluster, finding: rows.Finding, search: Search, *, record: Recorder, force: bool = False
) -> Aborted:
    """Aborts a transaction, if it is still as `finding` describes it.

    What it rests on is read before it is judged again, and once more after it is recorded. If that takes more than a
    second by any clock, or the leader, its epoch or a connection changes, it is judged from the start.

    Args:
        record: called before the marker is sent (if it raises, nothing is sent), and again with the outcome, also
            after an interruption. Both again for each further judgement.
        force: abort it also if its verdict is *unknown* or its reason *young*.

    Raises:
        Refused: it has changed, or must not be aborted. ClientError: it could not be read. Nothing was sent.
    """
    last: JudgeAgain | None = None
    for _ in range(_JUDGEMENTS):
        try:
            return await _judge_and_send(cluster, finding, search, record, force=force)
        except JudgeAgain as again:
            last = again
    if isinstance(last, _NotTheLeader):
        return last.done
    raise Refused(CHANGED, changed_text(finding, f"{last} (judged {_JUDGEMENTS} times)"))


class _NotTheLeader(JudgeAgain):
    """The leader refused the marker, because it is not the leader now. `done`: that, as it was recorded."""

    def __init__(self, done: Aborted) -> None:
        super().__init__(done.problem)
        self.done = done


async def _judge_and_send(
    cluster: Cluster, finding: rows.Finding, search: Search, record: Recorder, *, force: bool
) -> Aborted:
    deadline = cluster.deadline(search.timeout_s)
    place = TopicPartition(finding.topic, finding.partition)
    reading = await connect(cluster, place, finding.producer_id, finding.transactional_id, deadline)
    before = await reading.first(min(deadline.left(), cluster.config.request_timeout_s))
    named = TransactionSpec(topic=finding.topic, partition=finding.partition, start_offset=finding.start_offset)
    again = replace(search, confirm_after_s=0.0)
    now = unchanged(finding, (await look_at(cluster, named, again)).findings)
    permit(now, force=force)
    if now.transactional_id != finding.transactional_id:
        raise Refused(CHANGED, changed_text(finding, difference(finding, now, ("transactional_id",))))
    request = abort_request(marker_of(now))
    call = await prepared(cluster, before.leader, request, cluster.deadline(search.timeout_s))
    sending = _Sending(cluster, now, call, request, reading, before, search.timeout_s)
    done: Aborted = await send_recorded(partial(record, now, call), sending.run, sending.unfinished)
    if sending.moved:
        raise _NotTheLeader(done)
    return done


@dataclass
class _Sending:
    """The marker's request, with what it rests on.

    Attributes:
        sent_after_ms: since the start of the last reading, when the marker was given to the system; None before.
        moved: the broker refused it, because it does not lead the partition now.
    """

    cluster: Cluster
    finding: rows.Finding
    call: PreparedRequest
    request: Message
    reading: AbortReading
    before: AbortPremises
    timeout_s: float | None
    sent_after_ms: int | None = None
    moved: bool = False

    async def run(self) -> Aborted:
        """Raises Refused or JudgeAgain: it was not sent."""
        doubt = ""
        try:
            answer = await self._within_lease(Lease())
        except NotSentError as error:
            raise JudgeAgain(str(error)) from None
        except ConnectError as error:
            doubt = f"{error}; whether the marker was written is not known: look at the partition again; "
        else:
            refusal = marker_refusal(answer, self.reading.place)
            if refusal is not None:
                self.moved = refusal.retriable
                return self._done(NOT_WRITTEN, str(refusal))
        marker = marker_of(self.finding)
        seen, problem = await _check(self.cluster, self.finding, marker, self.timeout_s)
        return replace(
            self._done(NOT_VERIFIED, doubt + problem) if problem else self._done(ABORTED, lost(self.finding, seen)),
            marker_offset=seen.marker_offset,
            last_stable_offset=seen.last_stable_offset,
            high_watermark=seen.high_watermark,
            note=still_held(self.finding, seen),
        )

    async def _within_lease(self, lease: Lease) -> Any:
        before, reading = self.before, self.reading
        now = await reading.again(before, lease.left_s)
        if moved := leader_change(before, now):
            raise JudgeAgain(moved)
        unnumbered = before.producer is not None and before.producer.last_sequence is None
        if unnumbered and now.end > before.end:
            at = await reading.wrote_between(before.end, now.end, lease.left_s)
            refuse_change(self.finding, "" if at is None else f"its producer wrote at offset {at}")

        def guard(answer: Message) -> None:
            assert isinstance(answer, DescribeProducersResponse)
            producer = reading.producer(answer)
            refuse_change(self.finding, change(before, replace(now, producer=producer), self.finding))
            lease.check()
            self.sent_after_ms = round(lease.age_s * 1000)

        return await reading.leader[1].ask_then(
            producers_request([reading.place]),
            self.request,
            guard,
            within_s=lease.left_s,
            timeout_s=min(self.cluster.deadline(self.timeout_s).left(), self.cluster.config.request_timeout_s),
        )

    def unfinished(self, error: BaseException) -> Aborted:
        """The outcome where `run` raised an error."""
        if isinstance(error, Refused | JudgeAgain):
            self.sent_after_ms = None
        sent = self.sent_after_ms is not None
        return self._done(NOT_VERIFIED if sent else NOT_SENT, why_unfinished(error, sent=sent))

    def _done(self, outcome: str, problem: str) -> Aborted:
        return Aborted(
            outcome=outcome,
            finding=self.finding,
            call=self.call,
            problem=problem or None,
            sent_after_ms=self.sent_after_ms,
        )


async def _check(
    cluster: Cluster, finding: rows.Finding, marker: Marker, timeout_s: float | None
) -> tuple[PartitionAfterAbort, str]:
    """Reads the partition until nothing is missing: the last reading, and what is still missing."""
    start = finding.start_offset if finding.high_watermark is None else finding.high_watermark
    assert start is not None  # of every open transaction
    seen = PartitionAfterAbort()

    async def look() -> tuple[str, bool]:
        nonlocal seen
        try:
            seen = await _see(cluster, marker, start, seen, timeout_s)
        except ClientError as error:  # its leader may be moving
            return f"the partition could not be read after it ({error})", error.retriable
        return "; ".join(missing(finding, seen)), True

    problem = await until_verified(cluster, timeout_s, look)
    return seen, problem


async def _see(
    cluster: Cluster, marker: Marker, start: int, before: PartitionAfterAbort, timeout_s: float | None
) -> PartitionAfterAbort:
    place = TopicPartition(marker.topic, marker.partition)
    found, overtaken = before.marker_offset, before.overtaken
    offsets = (await list_offsets(cluster, [place], cluster.deadline(timeout_s)))[place]
    if found is None:
        overtaken = None

        def wanted(batch: Batch) -> bool:
            nonlocal overtaken
            own = batch.producer_id == marker.producer_id and batch.transactional and not batch.is_control
            if own and overtaken is None and batch.base_offset >= start:
                overtaken = batch.base_offset
            return _is_marker(marker, batch)

        first, deadline = max(start, offsets.log_start), cluster.deadline(timeout_s)
        batch = await first_batch(cluster, place, first, offsets.high_watermark, deadline, wanted)
        found = None if batch is None else batch.base_offset
    states = (await describe_producers(cluster, [place], cluster.deadline(timeout_s)))[place]
    opens = {s.producer_id: s.transaction_start_offset for s in states if s.transaction_start_offset is not None}
    return PartitionAfterAbort(
        start_offset=opens.get(marker.producer_id),
        marker_offset=found,
        first_open=min(opens.values(), default=None),
        overtaken=overtaken,
        last_stable_offset=offsets.last_stable_offset,
        high_watermark=offsets.high_watermark,
    )


def _is_marker(marker: Marker, batch: Batch) -> bool:
    control = readable_control(batch)  # one that cannot be read is not the marker
    return (
        control is not None
        and (batch.producer_id, batch.producer_epoch) == (marker.producer_id, marker.producer_epoch)
        and (control.name, control.coordinator_epoch) == ("ABORT", marker.coordinator_epoch)
    )
