"""Aborts a hanging transaction in its partition.

    plan = await plan_abort(cluster, finding)                     # the exact request and its broker
    done = await abort(cluster, finding, search, record=print)    # verified, sent once, looked for in the log

An ABORT marker cannot be undone. The transaction is therefore judged again right before the marker is sent, and the
outcome is read from the partition, not from the broker's response.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.actions.prepared_request import PreparedRequest, prepared, send_recorded, until_verified
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import ClientError, OutcomeUnknownError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import first_batch
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.write_txn_markers import abort_request, write_abort
from kafkawire.records import Batch
from kafkawire.transactions.abort_rules import (
    Marker,
    PartitionAfterAbort,
    TransactionSpec,
    marker_of,
    missing,
    permit,
    still_held,
    unchanged,
)

ABORTED, NOT_WRITTEN, NOT_VERIFIED = "aborted", "not_written", "not_verified"


class Aborted(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an abort.

    Attributes:
        outcome: aborted (the marker is in the log, the transaction is closed and does not hold the last stable offset);
            not_written (it was not sent, or the broker refused it); not_verified.
        finding: the transaction right before the marker was sent. `call`: the request.
        marker_offset: offset of the marker. `last_stable_offset`, `high_watermark`: after it.
        problem: the reason where the outcome is not aborted. `note`: why readers still wait.
    """

    outcome: str
    finding: rows.Finding
    call: PreparedRequest
    marker_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    problem: str | None = None
    note: str = ""


#: Called with the finding and the request before it is sent, and again with the outcome.
Recorder = Callable[[rows.Finding, PreparedRequest, Aborted | None], None]


async def look_at(cluster: Cluster, named: TransactionSpec, search: Search) -> rows.Audit:
    """Every open transaction of one partition with its verdict, as `find_hanging`.

    Args:
        named: its topic and partition; its other fields are not used.
        search: how to search; its topics and partitions are replaced.
    """
    return await find_hanging(
        cluster,
        replace(
            search,
            topics=(named.topic,),
            partitions=(named.partition,),
            places=None,
            broker_id=None,
            impact=False,
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

    Args:
        record: called before the marker is sent (if it raises, nothing is sent), and again with the outcome, also
            after an interruption.
        force: abort it also if its verdict is *unknown* or its reason *young*.

    Raises:
        Refused: it has changed, or must not be aborted. ClientError: it could not be read. Nothing was sent.
    """
    named = TransactionSpec(topic=finding.topic, partition=finding.partition, start_offset=finding.start_offset)
    again = replace(search, confirm_after_s=0.0)
    now = unchanged(finding, (await look_at(cluster, named, again)).findings)
    permit(now, force=force)
    call = await plan_abort(cluster, now, search.timeout_s)

    def unverified(problem: str) -> Aborted:
        return Aborted(outcome=NOT_VERIFIED, finding=now, call=call, problem=problem)

    return await send_recorded(
        partial(record, now, call), partial(_send, cluster, now, call, search.timeout_s), unverified
    )


async def _send(cluster: Cluster, finding: rows.Finding, call: PreparedRequest, timeout_s: float | None) -> Aborted:
    marker = marker_of(finding)
    doubt = ""
    try:
        await write_abort(cluster, marker, cluster.deadline(timeout_s))
    except OutcomeUnknownError as error:
        doubt = f"{error}; "
    except ClientError as error:
        return Aborted(outcome=NOT_WRITTEN, finding=finding, call=call, problem=str(error))
    seen, problem = await _check(cluster, finding, marker, timeout_s)
    return Aborted(
        outcome=NOT_VERIFIED if problem else ABORTED,
        finding=finding,
        call=call,
        marker_offset=seen.marker_offset,
        last_stable_offset=seen.last_stable_offset,
        high_watermark=seen.high_watermark,
        problem=doubt + problem if problem else None,
        note=still_held(finding, seen),
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
    found = before.marker_offset
    offsets = (await list_offsets(cluster, [place], cluster.deadline(timeout_s)))[place]
    if found is None:
        first, deadline = max(start, offsets.log_start), cluster.deadline(timeout_s)
        wanted = partial(_is_marker, marker)
        batch = await first_batch(cluster, place, first, offsets.high_watermark, deadline, wanted)
        found = None if batch is None else batch.base_offset
    states = (await describe_producers(cluster, [place], cluster.deadline(timeout_s)))[place]
    opens = {s.producer_id: s.transaction_start_offset for s in states if s.transaction_start_offset is not None}
    return PartitionAfterAbort(
        start_offset=opens.get(marker.producer_id),
        marker_offset=found,
        first_open=min(opens.values(), default=None),
        last_stable_offset=offsets.last_stable_offset,
        high_watermark=offsets.high_watermark,
    )


def _is_marker(marker: Marker, batch: Batch) -> bool:
    control = batch.control
    return (
        control is not None
        and (batch.producer_id, batch.producer_epoch) == (marker.producer_id, marker.producer_epoch)
        and (control.name, control.coordinator_epoch) == ("ABORT", marker.coordinator_epoch)
    )
