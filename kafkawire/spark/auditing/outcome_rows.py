"""The rows in which workers pass on what they find, one schema for all kinds.

A row is of one of these kinds: facts of a replica for the driver, digests of its batches, a decision, a use of a
producer id by a transactional id, the owner of a producer id, an id in a Prepare state, a case to judge, an open
transaction, an ended one, violations, a damaged place, a finding. Those from decisions to
ended transactions are shuffled by cluster and producer id: into `outcome_judge`, and into the table of transactions
(`transaction_table`). Violations, damage and findings are written (`audit_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.listing.fleet_listing import as_batches
from kafkawire.spark.listing.tier_listing import replica_at
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import by_batches
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.answer_rows import added
from kafkawire.transactions.checks.cross_partition import first_uses
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests
from kafkawire.transactions.checks.timed_decisions import begins, epochs
from kafkawire.transactions.facts import Open, Place
from kafkawire.transactions.log.endings import JUDGED, PACKED, Packed
from kafkawire.transactions.verdict.cluster_facts import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkawire.transactions.auditing.replica_facts import ReplicaFacts
    from kafkawire.transactions.coordinator.decisions import Decision

#: Kinds of rows; in this order they are judged.
TO_DRIVER, DIGESTS, DECISION, USE, OWNER, PREPARED, CASE, OPEN, ENDING, VIOLATION, DAMAGE, FINDING = range(12)

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
SPARK_SCHEMA = from_arrow_schema(SCHEMA)
#: Of all times.
_EARLIEST = -(1 << 63)
_CHUNK = 1 << 12
_DIGEST_CELL = 1 << 18
_ENDINGS_CELL = 1 << 20
#: Columns of ended transactions before they are one a row.
CELLS = ("cluster", "place", "payload")


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
    first = {(use.producer_id, use.transactional_id) for use in first_uses(facts.ids)}
    uses = (
        {
            "kind": USE,
            "producer_id": use.producer_id,
            "offset": use.offset,
            "timestamp": use.timestamp,
            "outcome": int((use.producer_id, use.transactional_id) in first),
            "payload": use.transactional_id.encode("utf-8", "surrogateescape"),
            **where,
        }
        for use in facts.ids.uses
    )
    owners = (
        {"kind": OWNER, "producer_id": producer_id, "payload": sent((reach_, owner)), **where}
        for producer_id, owner in facts.ids.owners.items()
    )
    prepared = (
        {"kind": PREPARED, "producer_id": record.value.producer_id, "payload": sent(record), **where}
        for record in facts.ids.prepared
        if record.value is not None
    )
    yield from rows_of(chain(uses, owners, prepared))


def case_rows(cluster: int, facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The rows of open transactions that are judged: each with its replica, and where the earliest begins there."""
    same = {"kind": CASE, "cluster": cluster, "place": packed(facts.partition.place)}
    partition = replace(facts.partition, damage=())
    yield from rows_of(
        {**same, "producer_id": one.producer_id, "payload": sent((one, partition, facts.first_start))}
        for one in facts.opens
    )


def decision_rows(
    cluster: int, place: Place, decided: Iterable[Decision], numbers: Iterator[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of decisions: one for each epoch in which it is judged, with the time when it begins.

    Args:
        numbers: ascend in the order of the log.
    """
    same = {"kind": DECISION, "cluster": cluster, "place": packed(place)}

    def each(one: Decision, number: int) -> Iterator[dict[str, Any]]:
        time = begins(one)
        begun = int(time) if time >= _EARLIEST else None  # null comes before all times
        of = {
            **same,
            "producer_id": one.producer_id,
            "offset": number,
            "timestamp": begun,
            "payload": sent(one),
        }
        yield from ({**of, "data_epoch": epoch} for epoch in epochs(one))

    yield from rows_of(row for one, number in zip(decided, numbers, strict=False) for row in each(one, number))


def digest_rows(listed: Mapping[str, Any], facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The digests of a replica as rows: `place` is its partition, by `replica` it is ordered among the others.

    Args:
        listed: its folder, as `fleet_listing` has it.
    """
    place = facts.partition.place
    same = {
        "kind": DIGESTS,
        "place": f"{place.topic}\0{place.partition}".encode("utf-8", "surrogateescape"),
        "replica": listed["sort"],
    }
    folder = {name: listed[name] for name in ("store", "path", "names", "tiers")}
    yield from rows_of(
        [
            {**same, "offset": -1, "payload": sent((folder, facts.partition.damage))},
            *(
                {**same, "offset": start, "payload": facts.digests[start : start + _DIGEST_CELL]}
                for start in range(0, len(facts.digests), _DIGEST_CELL)
            ),
        ]
    )


def replica_digests(listed: Iterable[dict[str, Any]]) -> ReplicaDigests:
    """The reverse of `digest_rows`."""
    first, *others = listed
    folder, damage = received(first["payload"])
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
    """The rows of ended transactions: many in a row, because one task makes those of a replica. See `one_a_row`.

    Args:
        cluster: its number. `place`: the replica. `chunks`: see `Endings`.
    """
    same = {"kind": ENDING, "cluster": cluster, "place": packed(place)}
    for cell in ending_cells(chunks):
        yield from rows_of([{**same, "payload": cell}])


def ending_cells(chunks: Iterable[Packed]) -> Iterator[bytes]:
    """Ended transactions in cells of bounded size."""
    for chunk in chunks:
        size = max(1, _ENDINGS_CELL // chunk.dtype.itemsize)
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size].tobytes()


def cells_of(facts: DataFrame) -> DataFrame:
    """The cells of ended transactions among rows of `SCHEMA`."""
    return facts.where(f"kind = {ENDING}").select(*CELLS)


def one_a_row(cells: DataFrame, columns: Sequence[str], *, whole: bool) -> DataFrame:
    """Ended transactions as rows of `SCHEMA`, one a row.

    Args:
        cells: with the columns `CELLS`. `whole`: all fields were kept.
        columns: of `SCHEMA`.
    """
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    fields = PACKED if whole else JUDGED

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for several in _together(row for batch in batches for row in batch.to_pylist()):
            ended = np.concatenate([np.frombuffer(row["payload"], fields) for row in several])
            of_row = pa.array(
                np.repeat(np.arange(len(several)), [len(row["payload"]) // fields.itemsize for row in several])
            )
            same = {name: [row[name] for row in several] for name in ("cluster", "place")}
            same["kind"] = [ENDING] * len(several)
            columns = [_column(field, ended, same, of_row) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return by_batches(cells, unpack, from_arrow_schema(schema))


def _together(cells: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Cells of about `_ENDINGS_CELL` bytes in all."""
    waiting: list[dict[str, Any]] = []
    size = 0
    for cell in cells:
        waiting.append(cell)
        size += len(cell["payload"])
        if size >= _ENDINGS_CELL:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _column(field: pa.Field, ended: Packed, same: Mapping[str, list[Any]], of_row: pa.Array) -> pa.Array:
    if field.name in (ended.dtype.names or ()):
        return pa.array(np.ascontiguousarray(ended[field.name])).cast(field.type)
    if field.name in same:
        return pa.array(same[field.name], field.type).take(of_row)
    return pa.nulls(len(ended), field.type)


def short(answers: Iterable[Placed]) -> Iterator[Placed]:
    """The answers with breaches as they are; the others of a cluster added up, as if they were of one replica."""
    others: dict[str, list[Placed]] = {}
    for placed in answers:
        if placed.answer.violated:
            yield placed
        else:
            others.setdefault(placed.answer.check, []).append(placed)
    for alike in others.values():
        yield Placed(alike[0].place, added([placed.answer for placed in alike]), alike[0].path)
