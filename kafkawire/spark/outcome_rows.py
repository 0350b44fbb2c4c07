"""Ended transactions and coordinators' decisions as rows, and their judgement by producer id, on workers.

A row is of one of four kinds: facts of a replica for the driver, a decision, a use of a producer id by a transactional
id, an ended transaction. The last three are shuffled by cluster and producer id, into `marker_outcomes.judge`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkawire.spark.fleet_listing import as_batches
from kafkawire.spark.task_sizing import FEWEST_TASKS
from kafkawire.transactions.answers import Answer, Placed
from kafkawire.transactions.checks.answer_rows import added
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.endings import OUTCOMES, Ending, Packed
from kafkawire.transactions.facts import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkawire.transactions.replica_facts import ReplicaFacts

#: Kinds of rows; in this order they are judged.
TO_DRIVER, DECISION, USE, ENDING = range(4)

SCHEMA = pa.schema(
    [
        ("kind", pa.int8()),
        ("cluster", pa.int32()),
        ("producer_id", pa.int64()),
        ("place", pa.binary()),
        ("offset", pa.int64()),
        ("data_epoch", pa.int32()),
        ("marker_epoch", pa.int32()),
        ("outcome", pa.int8()),
        ("timestamp", pa.int64()),
        ("payload", pa.binary()),
    ]
)
SPARK_SCHEMA = (
    "kind tinyint, cluster int, producer_id bigint, place binary, offset bigint, data_epoch int, marker_epoch int, "
    "outcome tinyint, timestamp bigint, payload binary"
)
_CHUNK = 1 << 16
_ROWS_A_TASK = 1 << 19


class DecidedUntil(NamedTuple):
    """Up to when (epoch milliseconds) no decision of a cluster is missing; None: some may be.

    Attributes:
        default: of producer ids that no transactional id has used.
        by_place: of the ids in a partition of `__transaction_state`, with its number in the cluster.
    """

    default: int | None
    by_place: dict[Place, tuple[int, int | None]]


def packed(place: Place) -> bytes:
    return "\0".join((place.copy, place.topic, str(place.partition))).encode("utf-8", "surrogateescape")


@cache
def unpacked(data: bytes) -> Place:
    copy, topic, partition = data.decode("utf-8", "surrogateescape").split("\0")
    return Place(copy, topic, int(partition))


def shuffled_rows(cluster: int, facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The rows of a replica on ended transactions: rows of all kinds but `TO_DRIVER`."""
    place = packed(facts.partition.place)
    if facts.ids is not None:
        decisions = (
            (DECISION, cluster, producer_id, place, number, None, None, None, None, pickle.dumps(decision))
            for producer_id, decided in facts.ids.decisions.items()
            for number, decision in enumerate(decided)
        )
        uses = (
            (USE, cluster, use.producer_id, place, use.offset, None, None, None, None, None) for use in facts.ids.uses
        )
        yield from as_batches(chain(decisions, uses), SCHEMA, _CHUNK)
    for chunk in facts.endings.chunks:
        for start in range(0, len(chunk), _CHUNK):
            yield _ending_rows(cluster, place, chunk[start : start + _CHUNK])


def _ending_rows(cluster: int, place: bytes, ended: Packed) -> pa.RecordBatch:
    count = len(ended)
    columns: dict[str, Any] = {
        "kind": pa.repeat(pa.scalar(ENDING, pa.int8()), count),
        "cluster": pa.repeat(pa.scalar(cluster, pa.int32()), count),
        "place": pa.repeat(pa.scalar(place, pa.binary()), count),
        "payload": pa.nulls(count, pa.binary()),
    }
    arrays = [
        columns[field.name]
        if field.name in columns
        else pa.array(np.ascontiguousarray(ended[field.name])).cast(field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def judged(
    facts: DataFrame, chosen: Sequence[Place], until: Mapping[int, DecidedUntil], count: int
) -> Iterator[Placed]:
    """The answers of one_outcome and marker_epoch: those with breaches by replica, the others added up.

    Args:
        facts: rows of `SCHEMA`. `count`: of ended transactions in them.
        chosen: the replicas that count.
        until: by cluster.
    """
    places = pa.table({"place": pa.array([packed(place) for place in chosen], pa.binary())})
    counting = facts.sparkSession.createDataFrame(places, "place binary")
    tasks = max(FEWEST_TASKS, count // _ROWS_A_TASK)
    asked = facts.where(f"kind <> {TO_DRIVER}").join(counting, "place", "left_semi").select(*SCHEMA.names)
    grouped = asked.repartition(tasks, "cluster", "producer_id").sortWithinPartitions("cluster", "producer_id", "kind")

    def judge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies: dict[int, Tallies] = {}
        listed = chain.from_iterable(
            zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in batches
        )
        for (cluster, _), of_producer in groupby(listed, key=lambda row: (row[1], row[2])):
            _judge(of_producer, until[cluster], tallies.setdefault(cluster, Tallies()))
        answers = [pickle.dumps(placed) for one in tallies.values() for placed in _short(one)]
        if answers:
            yield pa.RecordBatch.from_arrays([pa.array(answers, pa.binary())], ["payload"])

    found = grouped.mapInArrow(judge_rows, "payload binary").toArrow()
    by_place: dict[tuple[Place, str], list[Answer]] = {}
    for answer in found.column("payload").to_pylist():
        placed = pickle.loads(answer)  # written by our own workers
        by_place.setdefault((placed.place, placed.answer.check), []).append(placed.answer)
    for (place, _), answers in by_place.items():
        ordered = sorted((b for answer in answers for b in answer.breaches), key=lambda breach: breach.producer_id)
        yield Placed(place, added(answers, ordered))


def _judge(listed: Iterable[tuple[Any, ...]], until: DecidedUntil, tallies: Tallies) -> None:
    """Judge the ended transactions of one producer id."""
    decisions: list[tuple[int, int, Decision]] = []
    owner: tuple[int, int | None] | None = None
    endings: list[Ending] = []
    for kind, _, producer_id, place, offset, data_epoch, marker_epoch, outcome, timestamp, payload in listed:
        if kind == ENDING:
            ending = Ending(
                unpacked(place), offset, producer_id, data_epoch, marker_epoch, OUTCOMES[outcome], timestamp
            )
            endings.append(ending)
        elif kind == DECISION:
            decisions.append((until.by_place[unpacked(place)][0], offset, pickle.loads(payload)))
        else:
            named = until.by_place[unpacked(place)]
            owner = named if owner is None else max(owner, named, key=lambda one: one[0])
    if endings:
        decided = [decision for *_, decision in sorted(decisions, key=lambda one: one[:2])]
        judge(endings, decided, tallies, decided_until=until.default if owner is None else owner[1])


def _short(tallies: Tallies) -> Iterator[Placed]:
    return short([Placed(place, tally.answer()) for place, tally in tallies.all()])


def short(answers: Iterable[Placed]) -> Iterator[Placed]:
    """Those with breaches; the others of a cluster added up, as of one replica."""
    others: dict[str, list[Placed]] = {}
    for placed in answers:
        if placed.answer.violated:
            yield placed
        else:
            others.setdefault(placed.answer.check, []).append(placed)
    for alike in others.values():
        yield Placed(alike[0].place, added([placed.answer for placed in alike]), alike[0].path)
