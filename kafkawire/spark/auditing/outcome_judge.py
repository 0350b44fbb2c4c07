"""The judgement of transactions, open and ended, and of producer ids by producer id, on workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkawire import rows
from kafkawire.records.control import EMPTY_CODE
from kafkawire.spark.auditing.audit_tables import finding_rows, for_driver, found_rows
from kafkawire.spark.auditing.outcome_rows import (
    CASE,
    DECISION,
    ENDING,
    FIRST_USE,
    FOUND,
    OWNER,
    PREPARED,
    USE,
    Judged,
    one_a_row,
    packed,
    unpacked,
)
from kafkawire.spark.session.sent_values import received
from kafkawire.spark.session.task_sizing import FEWEST_TASKS, MOST_REDUCERS, by_batches
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.answers import Placed, Tally, every_breach
from kafkawire.transactions.checks.cross_partition import (
    decided_until,
    handed_out_until,
    judge_owner,
    judge_partition_of_id,
)
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge_epoch
from kafkawire.transactions.checks.open_transactions import OpenTallies, judge_opens
from kafkawire.transactions.checks.undecided import EndedColumns, judge_undecided
from kafkawire.transactions.coordinator.coordinator_log import pick_owner
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place, ProducerIdUse
from kafkawire.transactions.log.endings import Ending
from kafkawire.transactions.log.producer_append import OUTCOMES
from kafkawire.transactions.verdict.case_context import CaseContext
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts
from kafkawire.transactions.verdict.verdicts import judge as verdict_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows that are looked at together; a part of an epoch at either end of them is judged one by one, but for COMMITs.
_ROWS = 1 << 16
#: Whose rows are of one epoch of a producer id.
_EPOCH = ("cluster", "producer_id", "data_epoch")


def without_undecided(
    batches: Iterable[pa.RecordBatch], tallies: Mapping[int, Tallies], decided_until: Mapping[int, int | None]
) -> Iterator[pa.Table]:
    """Judge the ended transactions that no decision is known for. Returns the other rows.

    Args:
        batches: ordered by cluster, producer id, epoch of the data and time.
        tallies: by cluster. `decided_until`: by cluster, the latest time of any producer id.
    """
    last: list[int] | None = None
    decided = False  # a decision of that epoch has been seen
    for table in _tables(batches):
        values = [_values(table, name) for name in _EPOCH]
        kind = _values(table, "kind")
        starts = np.flatnonzero(np.append(True, np.any([np.diff(column) != 0 for column in values], axis=0)))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(kind))))
        first, following = ([column[at].item() for column in values] for at in (0, -1))
        goes_on = first == last
        is_decision = kind == DECISION
        seen = np.cumsum(is_decision)
        before = (seen - is_decision)[starts]
        early = seen == before[group]
        alone = ~np.logical_or.reduceat(is_decision, starts)
        if goes_on:
            early[group == 0] &= not decided
            alone[0] = False
        decided = bool(seen[-1] > before[-1]) or (goes_on and len(starts) == 1 and decided)
        last = following
        alone[-1] = False  # the next rows may go on with it
        yield _left(table, values, kind == ENDING, alone[group], early, tallies, decided_until)


def _left(
    table: pa.Table,
    values: list[npt.NDArray[Any]],
    ended: npt.NDArray[np.bool_],
    alone: npt.NDArray[np.bool_],
    early: npt.NDArray[np.bool_],
    tallies: Mapping[int, Tallies],
    decided_until: Mapping[int, int | None],
) -> pa.Table:
    clusters, producer_id, data_epoch = values
    marker_epoch, outcome, timestamp = (_values(table, name) for name in ("marker_epoch", "outcome", "timestamp"))
    encoded = pc.dictionary_encode(table["place"].combine_chunks())
    place = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    places = [unpacked(one) for one in encoded.dictionary.to_pylist()]
    left = np.ones(len(clusters), bool)
    for cluster in np.unique(clusters[ended]).tolist():
        rows = np.flatnonzero(ended & (clusters == cluster))
        columns = EndedColumns(
            producer_id[rows], data_epoch[rows], marker_epoch[rows], outcome[rows], timestamp[rows], place[rows], places
        )
        left[rows] = judge_undecided(
            columns, tallies[cluster], alone=alone[rows], early=early[rows], decided_until=decided_until[cluster]
        )
    return table if left.all() else table.filter(pa.array(left))


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _values(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Null is -1: an epoch of no ended transaction with data, and of no decision."""
    found: npt.NDArray[Any] = table[name].fill_null(-1).to_numpy()
    return found


_ROWS_A_TASK = 1 << 19
#: The columns that order rows: by epoch, too, since no ended transaction has several. What has none comes first.
_ORDER = Judged._fields[: Judged._fields.index("payload")]


class JudgedWith(NamedTuple):
    """What the transactions of a cluster are judged with. No decision is missing up to some time, epoch milliseconds;
    None: one may be.

    Attributes:
        context: of open ones.
        default: that time, of producer ids that no transactional id has used.
        by_place: of the ids in a partition of `__transaction_state`, with its number in the cluster.
        partitions: the setting of how many that topic has.
        handed_out: see `judge_owner`.
    """

    context: CaseContext
    default: int | None
    by_place: dict[Place, tuple[int, int | None]]
    partitions: rows.Setting
    handed_out: tuple[int, int] | None = None

    @property
    def latest(self) -> int | None:
        """The latest such time of any producer id."""
        times = [self.default, *(time for _, time in self.by_place.values())]
        return max((time for time in times if time is not None), default=None)


def judged_with(cluster: ClusterFacts) -> JudgedWith:
    """The facts with which workers judge the transactions of a cluster; its ended transactions, decisions and uses of
    producer ids are with the workers."""
    default, by_place = decided_until(cluster)
    known = {place: (number, time) for number, (place, time) in enumerate(by_place.items())}
    partitions = cluster.resolved.transaction_state_partitions
    return JudgedWith(cluster.context, default, known, partitions, handed_out_until(cluster))


def judged(
    facts: DataFrame,
    cells: DataFrame,
    chosen: Sequence[Place],
    clusters: Mapping[int, JudgedWith],
    count: int,
    *,
    opens: bool,
    whole: bool = False,
) -> DataFrame:
    """The findings, and the answers on transactions, producer ids and transactional ids, as rows of `FOUND`.

    Args:
        facts: rows of `FACTS`. `opens`: whether open transactions are among them.
        cells: of ended transactions, with the columns of `EndedCell`. `count`: of all rows that are judged.
        chosen: the replicas that count.
        clusters: by number.
        whole: with all violations.
    """
    places = pa.table({"place": pa.array([packed(place) for place in chosen], pa.binary())})
    counting = facts.sparkSession.createDataFrame(places, "place binary").selectExpr("place", "true AS counts")
    tasks = tasks_for(count)
    kinds = f"{DECISION}, {FIRST_USE}, {USE}, {PREPARED}" + (f", {CASE}, {OWNER}" if opens else "")
    asked = only(facts, Judged).where(f"kind IN ({kinds})").drop("counts").join(counting, "place", "left")
    asked = asked.where(f"kind IN ({FIRST_USE}, {USE}) OR counts").select(*Judged._fields)
    ended = one_a_row(cells.join(counting, "place", "left_semi"), Judged, whole=whole)
    listed = asked.union(ended.where(f"outcome <> {EMPTY_CODE}"))
    grouped = listed.repartition(tasks, "cluster", "producer_id").sortWithinPartitions(*_ORDER)

    def judge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies: dict[int, Tallies] = defaultdict(Tallies)
        of_opens = OpenTallies()
        until = {number: one.latest for number, one in clusters.items()}
        listed = chain.from_iterable(
            map(Judged._make, zip(*(column.to_pylist() for column in table.columns), strict=True))
            for table in without_undecided(batches, tallies, until)
        )
        with every_breach(whole):
            for (cluster, _), of_producer in groupby(listed, key=lambda row: (row.cluster, row.producer_id)):
                found = _judge(of_producer, clusters[cluster], tallies[cluster], of_opens)
                yield from finding_rows((cluster, one) for one in found)
            for one in tallies.values():
                yield from found_rows((Placed(place, tally.answer()) for place, tally in one.all()), whole=whole)
            yield from found_rows(of_opens.placed(), whole=whole)

    return by_batches(grouped, judge_rows, FOUND.spark)


def tasks_for(count: int) -> int:
    """The number of tasks that judge as many rows."""
    return min(MOST_REDUCERS, max(FEWEST_TASKS, count // _ROWS_A_TASK))


def judgements(found: DataFrame) -> Iterator[Placed]:
    """The answers among the rows of `judged`: those with breaches by replica, the others added up."""
    by_place: dict[tuple[Place, str], Tally] = {}
    for placed in for_driver(found):
        check = placed.answer.check
        by_place.setdefault((placed.place, check), Tally(check)).take(placed.answer)
    for (place, _), tally in by_place.items():
        yield Placed(place, tally.answer())


def _judge(listed: Iterable[Judged], using: JudgedWith, tallies: Tallies, of_opens: OpenTallies) -> list[rows.Finding]:
    """Judge the rows of one producer id, without keeping its ended transactions. Returns the verdicts on open ones."""
    decided_until = using.default
    findings: list[rows.Finding] = []
    for epoch, of_epoch in groupby(listed, key=attrgetter("data_epoch")):
        if epoch is None:
            by_kind: dict[int, list[Judged]] = defaultdict(list)
            for row in of_epoch:
                by_kind[row.kind].append(row)
            decided_until = _judge_uses(by_kind[FIRST_USE] + by_kind[USE], using, tallies)
            findings = _judge_opens(by_kind, using, of_opens)
        else:
            judge_epoch(epoch, _of_epoch(epoch, of_epoch), tallies, decided_until=decided_until)
    return findings


def _judge_uses(listed: Iterable[Judged], using: JudgedWith, tallies: Tallies) -> int | None:
    """Returns up to when no decision about the producer id is missing."""
    owner: tuple[int, int | None] | None = None
    uses: list[tuple[bool, ProducerIdUse]] = []
    for row in listed:
        assert row.timestamp is not None
        name = row.payload.decode("utf-8", "surrogateescape")
        use = ProducerIdUse(unpacked(row.place), row.producer_id, name, row.offset, row.timestamp)
        uses.append((bool(row.counts), use))
        if row.counts:
            named = using.by_place[use.place]
            owner = named if owner is None else max(owner, named, key=lambda one: one[0])
            if row.kind == FIRST_USE:
                judge_partition_of_id(use, using.partitions, tallies.home[use.place])
    judge_owner(uses, tallies.owner, using.handed_out)
    return using.default if owner is None else owner[1]


def _judge_opens(listed: Mapping[int, list[Judged]], using: JudgedWith, tallies: OpenTallies) -> list[rows.Finding]:
    """The verdicts on the open transactions of one producer id; its ids in a Prepare state are judged by them."""
    opens, prepared = ([received(row.payload) for row in listed[kind]] for kind in (CASE, PREPARED))
    owner = pick_owner(received(row.payload)[1] for row in listed[OWNER]) if opens else None
    opens.sort(key=lambda one: one[0].place)
    cases = [using.context.case(open_, partition, first, owner) for open_, partition, first in opens]
    found = [verdict_on(case) for case in cases]
    judge_opens(using.context, zip(cases, found, strict=True), prepared, tallies)
    return found


def _of_epoch(epoch: int, listed: Iterable[Judged]) -> Iterator[Decision | Ending]:
    """The decisions and ended transactions of rows."""
    for row in listed:
        if row.kind == ENDING:
            assert row.timestamp is not None
            what = OUTCOMES[row.outcome]
            yield Ending(unpacked(row.place), row.offset, row.producer_id, epoch, row.marker_epoch, what, row.timestamp)
        else:
            yield received(row.payload)
