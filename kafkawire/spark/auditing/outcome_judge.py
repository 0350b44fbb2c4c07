"""The judgement of transactions, open and ended, and of producer ids by producer id, on workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.functions import expr

from kafkawire import rows
from kafkawire.spark.auditing.audit_tables import finding_rows, for_driver, found_rows
from kafkawire.spark.auditing.judged_rows import NO_EPOCH, Ordered, dealt, in_order
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
    packed,
    unpacked,
)
from kafkawire.spark.session.sent_values import received
from kafkawire.spark.session.task_sizing import MOST_REDUCERS, at_least, by_batches
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
from kafkawire.transactions.facts import Place, ProducerIdUse
from kafkawire.transactions.log.endings import Ending
from kafkawire.transactions.log.producer_append import OUTCOMES
from kafkawire.transactions.verdict.case_context import CaseContext
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts
from kafkawire.transactions.verdict.verdicts import judge as verdict_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def without_undecided(
    ordered: Iterable[Ordered], tallies: Mapping[int, Tallies], decided_until: Mapping[int, int | None]
) -> Iterator[Ordered]:
    """Judge the ended transactions that no decision is known for: all but a part of an epoch at either end of the rows
    that are given at once, of which COMMITs only. Returns the other rows.

    Args:
        tallies: by cluster. `decided_until`: by cluster, the latest time of any producer id.
    """
    last: tuple[int, ...] | None = None
    decided = False  # a decision of that epoch has been seen
    for found in ordered:
        rows = found.rows
        values = rows["producer_id"], rows["data_epoch"]
        starts = np.flatnonzero(np.append(True, np.any([column[1:] != column[:-1] for column in values], axis=0)))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        first, following = ((found.cluster, *(column[at].item() for column in values)) for at in (0, -1))
        goes_on = first == last
        is_decision = rows["kind"] == DECISION
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
        left = np.ones(len(rows), bool)
        at = np.flatnonzero(rows["kind"] == ENDING)
        ended = rows[at]
        columns = EndedColumns(
            ended["producer_id"], ended["data_epoch"], ended["marker_epoch"], ended["outcome"], ended["timestamp"],
            ended["place"].astype(np.int64), found.places,
        )  # fmt: skip
        left[at] = judge_undecided(
            columns,
            tallies[found.cluster],
            alone=alone[group][at],
            early=early[at],
            decided_until=decided_until[found.cluster],
        )
        yield found if left.all() else found._replace(rows=rows[left])


_FEW_ROWS, _ROWS_A_TASK = 1 << 14, 1 << 19
#: What orders rows: cells of ended transactions come first in a cluster, and what has no epoch before what has one.
_ORDER = "cluster", f"kind <> {ENDING}", *Judged._fields[1 : Judged._fields.index("payload")]


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
    chosen: Sequence[Place] | None,
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
        chosen: the replicas that count; None: all, which needs no join.
        clusters: by number.
        whole: with all violations.
    """
    tasks = tasks_for(count)
    kinds = f"{DECISION}, {FIRST_USE}, {USE}, {PREPARED}" + (f", {CASE}, {OWNER}" if opens else "")
    asked = only(facts, Judged).where(f"kind IN ({kinds})").drop("counts")
    if chosen is None:
        asked = asked.selectExpr("*", "true AS counts")
    else:
        places = pa.table({"place": pa.array([packed(place) for place in chosen], pa.binary())})
        counting = facts.sparkSession.createDataFrame(places, "place binary").selectExpr("place", "true AS counts")
        asked = asked.join(counting, "place", "left").where(f"kind IN ({FIRST_USE}, {USE}) OR counts")
        asked = asked.select(*Judged._fields)
        cells = cells.join(counting, "place", "left_semi")
    listed = asked.union(dealt(cells, tasks, whole=whole))
    grouped = listed.repartitionById(tasks, expr(f"CAST(pmod(producer_id, {tasks}) AS INT)"))

    def judge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies: dict[int, Tallies] = defaultdict(Tallies)
        of_opens = OpenTallies()
        until = {number: one.latest for number, one in clusters.items()}
        listed = chain.from_iterable(map(_items, without_undecided(in_order(batches), tallies, until)))
        with every_breach(whole):
            for (cluster, _), of_producer in groupby(listed, key=lambda item: item[:2]):
                found = _judge(of_producer, clusters[cluster], tallies[cluster], of_opens)
                yield from finding_rows((cluster, one) for one in found)
            for one in tallies.values():
                yield from found_rows((Placed(place, tally.answer()) for place, tally in one.all()), whole=whole)
            yield from found_rows(of_opens.placed(), whole=whole)

    return by_batches(grouped.sortWithinPartitions(*map(expr, _ORDER)), judge_rows, FOUND.spark)


def tasks_for(count: int) -> int:
    """The number of tasks that judge as many rows."""
    return min(MOST_REDUCERS, max(at_least(count, _FEW_ROWS), count // _ROWS_A_TASK))


def judgements(found: DataFrame) -> Iterator[Placed]:
    """The answers among the rows of `judged`: those with breaches by replica, the others added up."""
    by_place: dict[tuple[Place, str], Tally] = {}
    for placed in for_driver(found):
        check = placed.answer.check
        by_place.setdefault((placed.place, check), Tally(check)).take(placed.answer)
    for (place, _), tally in by_place.items():
        yield Placed(place, tally.answer())


class _Item(NamedTuple):
    """A row of a producer id. `data_epoch`: `NO_EPOCH` for none."""

    cluster: int
    producer_id: int
    data_epoch: int
    row: Judged | Ending


def _items(found: Ordered) -> Iterator[_Item]:
    rows, places = found.rows, found.places
    for producer_id, epoch, time, kind, place, offset, marker_epoch, outcome, asked in rows.tolist():
        row: Judged | Ending
        if kind == ENDING:
            row = Ending(places[place], offset, producer_id, epoch, marker_epoch, OUTCOMES[outcome], time)
        else:
            row = found.asked[asked]
        yield _Item(found.cluster, producer_id, epoch, row)


def _judge(listed: Iterable[_Item], using: JudgedWith, tallies: Tallies, of_opens: OpenTallies) -> list[rows.Finding]:
    """Judge the rows of one producer id, without keeping its ended transactions. Returns the verdicts on open ones."""
    decided_until = using.default
    findings: list[rows.Finding] = []
    for epoch, of_epoch in groupby(listed, key=attrgetter("data_epoch")):
        each = (item.row for item in of_epoch)
        if epoch == NO_EPOCH:
            by_kind: dict[int, list[Judged]] = defaultdict(list)
            for row in each:
                assert isinstance(row, Judged)
                by_kind[row.kind].append(row)
            decided_until = _judge_uses(by_kind[FIRST_USE] + by_kind[USE], using, tallies)
            findings = _judge_opens(by_kind, using, of_opens)
        else:
            decided = (one if isinstance(one, Ending) else received(one.payload) for one in each)
            judge_epoch(epoch, decided, tallies, decided_until=decided_until)
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
