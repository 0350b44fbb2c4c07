"""Ended transactions and coordinators' decisions as rows, and their judgement by producer id, on workers.

A row is of one of these kinds: facts of a replica for the driver, digests of its batches, a decision, a use of a
producer id by a transactional id, the owner of a producer id, an open transaction, an ended one. The last five are
shuffled by cluster and producer id: into `marker_outcomes.judge`, and into the table of transactions
(`transaction_table`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkawire import rows
from kafkawire.spark.fleet_listing import as_batches, replica_at
from kafkawire.spark.task_sizing import FEWEST_TASKS
from kafkawire.transactions.answers import Placed, Tally
from kafkawire.transactions.checks.answer_rows import added
from kafkawire.transactions.checks.cross_partition import first_uses, judge_home, judge_owner
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests
from kafkawire.transactions.cluster_facts import reach
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.endings import EMPTY_CODE, OUTCOMES, Ending, Packed
from kafkawire.transactions.facts import Open, Owner, Place, ProducerIdUse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkawire.transactions.replica_facts import ReplicaFacts

#: Kinds of rows; in this order they are judged.
TO_DRIVER, DIGESTS, DECISION, USE, OWNER, OPEN, ENDING = range(7)

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
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("first_timestamp", pa.int64()),
        ("last_timestamp", pa.int64()),
        ("batches", pa.int32()),
        ("coordinator_epoch", pa.int32()),
        ("replica", pa.binary()),
    ]
)
SPARK_SCHEMA = (
    "kind tinyint, cluster int, producer_id bigint, place binary, offset bigint, data_epoch int, marker_epoch int, "
    "outcome tinyint, timestamp bigint, payload binary, first_offset bigint, last_offset bigint, "
    "first_timestamp bigint, last_timestamp bigint, batches int, coordinator_epoch int, "
    "replica binary"
)
#: The columns that `judged` reads.
_JUDGED = SCHEMA.names[: SCHEMA.names.index("first_offset")]
_CHUNK = 1 << 16
_ROWS_A_TASK = 1 << 19
_DIGEST_CELL = 1 << 18


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


def packed(place: Place) -> bytes:
    return "\0".join((place.copy, place.topic, str(place.partition))).encode("utf-8", "surrogateescape")


@cache
def unpacked(data: bytes) -> Place:
    copy, topic, partition = data.decode("utf-8", "surrogateescape").split("\0")
    return Place(copy, topic, int(partition))


def rows_of(found: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Rows, given by their columns that are not null, as batches."""
    return as_batches((tuple(map(row.get, SCHEMA.names)) for row in found), SCHEMA, _CHUNK)


def id_rows(cluster: int, facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The rows of a replica of `__transaction_state` on producer ids."""
    if facts.ids is None:
        return
    where = {"cluster": cluster, "place": packed(facts.partition.place)}
    reach_ = reach(facts.partition)
    decisions = (
        {"kind": DECISION, "producer_id": producer_id, "offset": number, "payload": pickle.dumps(decision), **where}
        for producer_id, decided in facts.ids.decisions.items()
        for number, decision in enumerate(decided)
    )
    first = {(use.producer_id, use.transactional_id) for use in first_uses(facts.ids)}
    uses = (
        {
            "kind": USE,
            "producer_id": use.producer_id,
            "offset": use.offset,
            "outcome": int((use.producer_id, use.transactional_id) in first),
            "payload": use.transactional_id.encode("utf-8", "surrogateescape"),
            **where,
        }
        for use in facts.ids.uses
    )
    owners = (
        {"kind": OWNER, "producer_id": producer_id, "payload": pickle.dumps((reach_, owner)), **where}
        for producer_id, owner in facts.ids.owners.items()
    )
    yield from rows_of(chain(decisions, uses, owners))


def digest_rows(listed: Mapping[str, Any], facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """What a replica is compared by: `place` is its partition, `replica` orders it among others.

    Args:
        listed: its folder, as `fleet_listing` has it.
    """
    place = facts.partition.place
    same = {
        "kind": DIGESTS,
        "place": f"{place.topic}\0{place.partition}".encode("utf-8", "surrogateescape"),
        "replica": listed["sort"],
    }
    folder = {name: listed[name] for name in ("store", "path", "names")}
    yield from rows_of(
        [
            {**same, "offset": -1, "payload": pickle.dumps((folder, facts.partition.damage))},
            *(
                {**same, "offset": start, "payload": facts.digests[start : start + _DIGEST_CELL]}
                for start in range(0, len(facts.digests), _DIGEST_CELL)
            ),
        ]
    )


def replica_digests(listed: Iterable[dict[str, Any]]) -> ReplicaDigests:
    """The reverse of `digest_rows`."""
    first, *others = listed
    folder, damage = pickle.loads(first["payload"])  # written by our own workers
    return ReplicaDigests(replica_at(folder), b"".join(row["payload"] for row in others), damage)


def open_rows(cluster: int, opens: Iterable[Open]) -> Iterator[pa.RecordBatch]:
    """The rows of open transactions."""
    yield from rows_of(
        {
            "kind": OPEN,
            "cluster": cluster,
            "producer_id": one.producer_id,
            "place": packed(one.place),
            "data_epoch": one.producer_epoch,
            "first_offset": one.start_offset,
            "last_offset": one.last_offset,
            "first_timestamp": one.first_timestamp,
            "last_timestamp": one.last_timestamp,
            "batches": one.batches,
        }
        for one in opens
    )


def ending_rows(cluster: int, place: Place, chunks: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """The rows of ended transactions."""
    same = {"kind": ENDING, "cluster": cluster, "place": packed(place)}
    for chunk in chunks:
        for start in range(0, len(chunk), _CHUNK):
            ended = chunk[start : start + _CHUNK]
            arrays = [
                pa.array(np.ascontiguousarray(ended[field.name])).cast(field.type)
                if field.name in (ended.dtype.names or ())
                else pa.repeat(pa.scalar(same.get(field.name), field.type), len(ended))
                for field in SCHEMA
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def judged(
    facts: DataFrame, chosen: Sequence[Place], until: Mapping[int, DecidedUntil], count: int
) -> Iterator[Placed]:
    """The answers on ended transactions, producer ids and transactional ids: those with breaches by replica, the others
    added up.

    Args:
        facts: rows of `SCHEMA`. `count`: of ended transactions in them.
        chosen: the replicas that count.
        until: by cluster.
    """
    places = pa.table({"place": pa.array([packed(place) for place in chosen], pa.binary())})
    counting = facts.sparkSession.createDataFrame(places, "place binary").selectExpr("place", "true AS counts")
    tasks = max(FEWEST_TASKS, count // _ROWS_A_TASK)
    asked = facts.where(f"kind IN ({DECISION}, {USE}) OR kind = {ENDING} AND outcome <> {EMPTY_CODE}")
    asked = asked.join(counting, "place", "left").where(f"kind = {USE} OR counts").select(*_JUDGED, "counts")
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
    by_place: dict[tuple[Place, str], Tally] = {}
    for answer in found.column("payload").to_pylist():
        placed = pickle.loads(answer)  # written by our own workers
        check = placed.answer.check
        by_place.setdefault((placed.place, check), Tally(check)).take(placed.answer)
    for (place, _), tally in by_place.items():
        tally.breaches.sort(key=lambda breach: (breach.offset, breach.producer_id))
        yield Placed(place, tally.answer())


def _judge(listed: Iterable[tuple[Any, ...]], until: DecidedUntil, tallies: Tallies) -> None:
    """Judge the ended transactions and the uses of one producer id."""
    decisions: list[tuple[int, int, Decision]] = []
    owner: tuple[int, int | None] | None = None
    endings: list[Ending] = []
    uses: list[tuple[bool, ProducerIdUse]] = []
    for row in listed:
        kind, _, producer_id, place, offset, data_epoch, marker_epoch, outcome, timestamp, payload, counts = row
        if kind == ENDING:
            ending = Ending(
                unpacked(place), offset, producer_id, data_epoch, marker_epoch, OUTCOMES[outcome], timestamp
            )
            endings.append(ending)
        elif kind == DECISION:
            decisions.append((until.by_place[unpacked(place)][0], offset, pickle.loads(payload)))
        else:
            use = ProducerIdUse(unpacked(place), producer_id, payload.decode("utf-8", "surrogateescape"), offset)
            uses.append((bool(counts), use))
            if counts:
                named = until.by_place[use.place]
                owner = named if owner is None else max(owner, named, key=lambda one: one[0])
                if outcome:
                    judge_home(use, until.partitions, tallies.home[use.place])
    judge_owner(uses, tallies.owner)
    if endings:
        decided = [decision for *_, decision in sorted(decisions, key=lambda one: one[:2])]
        judge(endings, decided, tallies, decided_until=until.default if owner is None else owner[1])


def owners_of(facts: DataFrame, producer_ids: Iterable[int]) -> Iterator[tuple[Place, Owner]]:
    """The owners of some producer ids, as each replica of `__transaction_state` has them."""
    asked = pa.table({"producer_id": pa.array(sorted(set(producer_ids)), pa.int64())})
    few = facts.sparkSession.createDataFrame(asked, "producer_id bigint")
    found = facts.where(f"kind = {OWNER}").select("producer_id", "place", "payload")
    for row in found.join(few, "producer_id", "left_semi").toArrow().to_pylist():
        _, owner = pickle.loads(row["payload"])  # written by our own workers
        yield unpacked(row["place"]), owner


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
