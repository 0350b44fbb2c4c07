"""The evidence of captures on one partition, joined with the copies of the partition. Pure: on Spark a task does it for
a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from kafkawire.records.array_types import Int64
from kafkawire.records.distinct import distinct
from kafkawire.rows import Row
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.exchange_rows import Place, Rows, Sources
from kafkawire.witness.fetched import read_anomalies, readings
from kafkawire.witness.group_judgement import GroupCounts
from kafkawire.witness.group_log import GroupLogs
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.judgement import Judgement
from kafkawire.witness.packed_rows import PackedRows
from kafkawire.witness.producer_order import order_anomalies, out_of_order
from kafkawire.witness.totals import Totals
from kafkawire.witness.transaction_rules import TransactionCounts


class Captured(NamedTuple):
    """What captures hold of a partition; None: nothing.

    Attributes:
        sent: batches (`SENT`). fetched: batches (`FETCHED`). commits: offsets (`COMMIT`). steps: where consumers stood
            (`STEP`). registered: transactions that the partition was added to (`REGISTERED`).
    """

    sent: Rows | None = None
    fetched: Rows | None = None
    commits: Rows | None = None
    steps: Rows | None = None
    registered: Rows | None = None


class Context(NamedTuple):
    """What all partitions have in common.

    Attributes:
        sources: captures and clients. answers: how producers ended transactions (`ENDED`, by key). decided: how
            coordinators did. groups: their names. members: the numbers of clients, by that of the group. logs: copies
            of the groups' logs. most: anomalies that are listed of a partition, at most.
    """

    sources: Sources
    answers: PackedRows
    decided: DecidedTransactions
    groups: list[str]
    members: dict[int, set[int]]
    logs: GroupLogs
    most: int


def join_partition(place: Place, captured: Captured, copies: Iterable[CopyOfPartition], context: Context) -> Totals:
    """Joins one partition.

    Args:
        copies: the newest first. Without batches that were sent only the newest one is read.
    """
    totals, listed = Totals(), list[Row]()

    def take(rows: Iterable[Row]) -> None:
        listed.extend(islice(rows, max(context.most - len(listed), 0)))

    newest: CopyOfPartition | None = None
    if captured.sent is not None:
        judgement = Judgement(place, captured.sent)
        for copy in copies:
            newest = newest or copy
            judgement.add(copy)
            totals.numbers["copies"] += 1
        if newest is None:
            totals.without.append(place)
        take(_sent(judgement, newest, captured.registered, context, totals))
    else:
        newest = next(iter(copies), None)
        totals.numbers["copies"] += newest is not None
    if captured.fetched is not None:
        rows = PackedRows.of(captured.fetched)
        judged = readings(rows, newest)
        totals.reads.add(rows, judged)
        take(read_anomalies(place, rows, judged, newest, context.sources.files, context.sources.clients))
    if captured.commits is not None:
        groups = GroupCounts(context.sources, context.groups, context.members, context.logs, context.answers)
        take(groups.add(place, captured.commits, captured.fetched, captured.steps, newest, context.most))
        totals.commits.update(groups.counts)
        totals.numbers["commit_anomalies"] += groups.anomalies
    totals.listed = listed
    return totals


def _sent(
    judgement: Judgement, newest: CopyOfPartition | None, registered: Rows | None, context: Context, totals: Totals
) -> Iterator[Row]:
    """Counts the batches that were sent; the rows of those for which a promise is broken, made as they are taken."""
    sources, place = context.sources, judgement.place
    totals.numbers.update(partitions=1, sendings=len(judgement), unseen=judgement.unseen or 0)
    for key, (batches, records) in judgement.counts().items():
        totals.fates[key], totals.records[key] = batches, records
    rows, base = judgement.first_sendings, judgement.held_at
    transactions = TransactionCounts(sources, context.answers, context.decided)
    broken = transactions.add(place, rows, judgement.states, base, copy=newest, registered=registered)
    totals.ended.update(transactions.batches)
    totals.numbers["transaction_anomalies"] += transactions.anomalies
    listed: list[Iterable[Row]] = [judgement.anomalies(sources.files, sources.clients), broken]
    if newest is not None and newest.sound:
        in_order = np.isin(judgement.fates, (fates.F_HELD, fates.F_UNACKED))
        places: Int64 = np.where(in_order & judgement.in_newest, base, -1)
        late = out_of_order(rows, places)
        totals.numbers["order_anomalies"] += len(late[0])
        listed.append(order_anomalies(place, rows, places, late, newest, sources))
    return chain(*listed)


def producer_ids_of(captured: dict[Place, Captured]) -> Int64:
    """The producer ids of transactional batches, each once."""
    ids = [one.sent["producer_id"][one.sent["transactional"]] for one in captured.values() if one.sent is not None]
    return distinct(np.concatenate([np.empty(0, np.int64), *ids]))


def subjects_of(captured: dict[Place, Captured], groups: list[str]) -> set[tuple[str, str, int]]:
    """Groups, and the partitions for which they committed. `groups`: of each number."""
    return {
        (groups[group], *place)
        for place, one in captured.items()
        if one.commits is not None
        for group in np.unique(one.commits["group"]).tolist()
    }
