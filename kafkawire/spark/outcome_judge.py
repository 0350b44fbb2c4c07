"""The judgement of ended transactions and of producer ids by producer id, on workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kafkawire import rows
from kafkawire.spark.outcome_rows import DECISION, ENDING, OWNER, SCHEMA, USE, packed, unpacked
from kafkawire.spark.task_sizing import FEWEST_TASKS
from kafkawire.spark.violation_table import FOUND_SPARK, for_driver, found_rows
from kafkawire.transactions.answers import Placed, Tally, every_breach
from kafkawire.transactions.checks.cross_partition import judge_home, judge_owner
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.endings import EMPTY_CODE, Ending
from kafkawire.transactions.facts import Owner, Place, ProducerIdUse
from kafkawire.transactions.producer_append import OUTCOMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns that `judged` reads.
_JUDGED = SCHEMA.names[: SCHEMA.names.index("first_offset")]
_ROWS_A_TASK = 1 << 19

#: Values of those, and whether the replica counts.
_Row = tuple[Any, ...]
_epoch = itemgetter(_JUDGED.index("data_epoch"))


class DecidedUntil(NamedTuple):
    """Up to when (epoch milliseconds) no decision of a cluster is missing; None: some may be.

    Attributes:
        default: of producer ids that no transactional id has used.
        by_place: of the ids in a partition of `__transaction_state`, with its number in the cluster.
        partitions: the setting of how many that topic has.
    """

    default: int | None
    by_place: dict[Place, tuple[int, int | None]]
    partitions: rows.Setting


def judged(
    facts: DataFrame, chosen: Sequence[Place], until: Mapping[int, DecidedUntil], count: int, *, whole: bool = False
) -> DataFrame:
    """The answers on ended transactions, producer ids and transactional ids, as rows of `violation_table.FOUND`.

    Args:
        facts: rows of `SCHEMA`. `count`: of ended transactions in them.
        chosen: the replicas that count.
        until: by cluster.
        whole: with all violations.
    """
    places = pa.table({"place": pa.array([packed(place) for place in chosen], pa.binary())})
    counting = facts.sparkSession.createDataFrame(places, "place binary").selectExpr("place", "true AS counts")
    tasks = max(FEWEST_TASKS, count // _ROWS_A_TASK)
    asked = facts.where(f"kind IN ({DECISION}, {USE}) OR kind = {ENDING} AND outcome <> {EMPTY_CODE}")
    asked = asked.join(counting, "place", "left").where(f"kind = {USE} OR counts").select(*_JUDGED, "counts")
    # By epoch, too: no transaction has several. Uses of producer ids have none, and come first.
    order = ("cluster", "producer_id", "data_epoch", "kind")
    grouped = asked.repartition(tasks, "cluster", "producer_id").sortWithinPartitions(*order)

    def judge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies: dict[int, Tallies] = {}
        listed = chain.from_iterable(
            zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in batches
        )
        with every_breach(whole):
            for (cluster, _), of_producer in groupby(listed, key=lambda row: (row[1], row[2])):
                _judge(of_producer, until[cluster], tallies.setdefault(cluster, Tallies()))
            for one in tallies.values():
                yield from found_rows((Placed(place, tally.answer()) for place, tally in one.all()), whole=whole)

    return grouped.mapInArrow(judge_rows, FOUND_SPARK)


def judgements(found: DataFrame) -> Iterator[Placed]:
    """Of what `judged` gives, the answers: those with breaches by replica, the others added up."""
    by_place: dict[tuple[Place, str], Tally] = {}
    for placed in for_driver(found):
        check = placed.answer.check
        by_place.setdefault((placed.place, check), Tally(check)).take(placed.answer)
    for (place, _), tally in by_place.items():
        yield Placed(place, tally.answer())


def _judge(listed: Iterable[_Row], until: DecidedUntil, tallies: Tallies) -> None:
    """Judge the uses and the ended transactions of one producer id. In memory are those of one epoch."""
    decided_until = until.default
    for epoch, of_epoch in groupby(listed, key=_epoch):
        if epoch is None:
            decided_until = _judge_uses(of_epoch, until, tallies)
        else:
            _judge_epoch(of_epoch, until, decided_until, tallies)


def _judge_uses(listed: Iterable[_Row], until: DecidedUntil, tallies: Tallies) -> int | None:
    """Returns up to when no decision about the producer id is missing."""
    owner: tuple[int, int | None] | None = None
    uses: list[tuple[bool, ProducerIdUse]] = []
    for _, _, producer_id, place, offset, _, _, first, _, payload, counts in listed:
        use = ProducerIdUse(unpacked(place), producer_id, payload.decode("utf-8", "surrogateescape"), offset)
        uses.append((bool(counts), use))
        if counts:
            named = until.by_place[use.place]
            owner = named if owner is None else max(owner, named, key=lambda one: one[0])
            if first:
                judge_home(use, until.partitions, tallies.home[use.place])
    judge_owner(uses, tallies.owner)
    return until.default if owner is None else owner[1]


def _judge_epoch(listed: Iterable[_Row], until: DecidedUntil, decided_until: int | None, tallies: Tallies) -> None:
    decisions: list[tuple[int, int, Decision]] = []
    endings: list[Ending] = []
    for kind, _, producer_id, place, offset, data_epoch, marker_epoch, outcome, timestamp, payload, _ in listed:
        if kind == ENDING:
            where, what = unpacked(place), OUTCOMES[outcome]
            endings.append(Ending(where, offset, producer_id, data_epoch, marker_epoch, what, timestamp))
        else:
            decisions.append((until.by_place[unpacked(place)][0], offset, pickle.loads(payload)))
    if endings:
        decided = [decision for *_, decision in sorted(decisions, key=lambda one: one[:2])]
        judge(endings, decided, tallies, decided_until=decided_until)


def owners_of(facts: DataFrame, producer_ids: Iterable[int]) -> Iterator[tuple[Place, Owner]]:
    """The owners of some producer ids, as each replica of `__transaction_state` has them."""
    asked = pa.table({"producer_id": pa.array(sorted(set(producer_ids)), pa.int64())})
    few = facts.sparkSession.createDataFrame(asked, "producer_id bigint")
    found = facts.where(f"kind = {OWNER}").select("producer_id", "place", "payload")
    for row in found.join(few, "producer_id", "left_semi").toArrow().to_pylist():
        _, owner = pickle.loads(row["payload"])  # written by our own workers
        yield unpacked(row["place"]), owner
