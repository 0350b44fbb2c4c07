"""The rows in which workers pass on what they find: a class for each kind (`FACTS`, `FOUND`).

Rows of `Judged` and `EndedCell` are shuffled by producer id, into `outcome_judge`: ended transactions many in a row
(`judged_rows`). Owners among them, `Transaction` and `EndedCell` are shuffled into the table of transactions
(`transaction_table`). Violations and listed rows are written (`audit_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.listing.tier_listing import replica_at
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.task_sizing import by_batches
from kafkawire.spark.session.typed_table import Int8, Int32, TypedTable, schema_of
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.answer_rows import added
from kafkawire.transactions.checks.cross_partition import first_uses
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests
from kafkawire.transactions.checks.timed_decisions import begins, epochs
from kafkawire.transactions.facts import Open, Place
from kafkawire.transactions.log.endings import PACKED, stacked
from kafkawire.transactions.log.spill import Packed
from kafkawire.transactions.verdict.cluster_facts import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkawire.transactions.auditing.replica_facts import ReplicaFacts
    from kafkawire.transactions.coordinator.decisions import Decision

#: Kinds of `Judged`; in this order they are judged.
DECISION, FIRST_USE, USE, OWNER, PREPARED, CASE, ENDING = range(7)


class ForDriver(NamedTuple):
    """A value for the driver (`sent`)."""

    payload: bytes


class Violations(NamedTuple):
    """Violations in a replica. `place`: the replica. `payload`: a list of them (`sent`)."""

    place: bytes
    payload: bytes


class Listed(NamedTuple):
    """A row of a table of which the answer has the first rows.

    Attributes:
        label: by which the rows that the answer leaves out are counted (`sent`).
        order: bytes that have the order of the rows. `payload`: the row (`sent`).
    """

    label: bytes
    order: bytes
    payload: bytes


class ListedFinding(Listed):
    """Of the table `findings`."""


class ListedDamage(Listed):
    """Of the table `damage`."""


class DigestCell(NamedTuple):
    """A part of the digests of a replica's batches.

    Attributes:
        partition: topic and number. `order`: of the replica among the others of the partition.
        offset: of the part in the digests; -1: of the replica's folder and damage (`sent`), which come first.
    """

    partition: bytes
    order: bytes
    offset: int
    payload: bytes


class Judged(NamedTuple):
    """What is judged beside other rows of its producer id; or ended transactions, many in a row. The fields up to
    `offset` order the rows.

    Attributes:
        cluster: its number.
        producer_id: of a row of `ENDING`, the number of the task that judges it.
        data_epoch: of a decision, of the data that it may be on; None for other kinds.
        timestamp: of the record that uses an id, or when a decision begins; None: before all times.
        place: the replica, `packed`. `offset`: of the record; for a decision, its number.
        payload: for a use, the transactional id; for ended transactions see `judged_rows.dealt`; for the others a value
            (`sent`).
        counts: whether the replica is the one that counts among those of its partition; the driver sets it.
    """

    cluster: Int32
    producer_id: int
    data_epoch: Int32 | None = None
    timestamp: int | None = None
    kind: Int8 = ENDING
    place: bytes = b""
    offset: int = 0
    payload: bytes = b""
    counts: bool = False


class Transaction(NamedTuple):
    """A transaction in a replica, with the fields of `PACKED`. Those after `batches` are None while it is open."""

    cluster: Int32
    place: bytes
    producer_id: int
    data_epoch: Int32
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    batches: Int32
    offset: int | None = None
    timestamp: int | None = None
    marker_epoch: Int32 | None = None
    coordinator_epoch: Int32 | None = None
    outcome: Int8 | None = None


class EndedCell(NamedTuple):
    """Ended transactions of a replica, many in a row. See `one_a_row`.

    Attributes:
        cluster: its number. `place`: the replica. `payload`: as `PACKED` or `JUDGED`.
    """

    cluster: Int32
    place: bytes
    payload: bytes


#: What judging tasks find.
FOUND = TypedTable(ForDriver, Violations, ListedFinding)
#: What is found in replicas.
FACTS = TypedTable(ForDriver, Violations, ListedDamage, DigestCell, Judged, Transaction, EndedCell)
#: Of all times.
_EARLIEST = -(1 << 63)
_DIGEST_CELL = 1 << 18
_ENDINGS_CELL = 1 << 20


def packed(place: Place) -> bytes:
    return "\0".join((place.copy, place.topic, str(place.partition))).encode("utf-8", "surrogateescape")


@cache
def unpacked(data: bytes) -> Place:
    copy, topic, partition = data.decode("utf-8", "surrogateescape").split("\0")
    return Place(copy, topic, int(partition))


def id_rows(cluster: int, facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The rows of a replica of `__transaction_state` on producer ids."""
    if facts.ids is None:
        return
    place, reached = packed(facts.partition.place), reach(facts.partition)
    first = {(use.producer_id, use.transactional_id) for use in first_uses(facts.ids)}
    uses = (
        Judged(
            cluster,
            use.producer_id,
            timestamp=use.timestamp,
            kind=FIRST_USE if (use.producer_id, use.transactional_id) in first else USE,
            place=place,
            offset=use.offset,
            payload=use.transactional_id.encode("utf-8", "surrogateescape"),
        )
        for use in facts.ids.uses
    )
    owners = (
        Judged(cluster, producer_id, kind=OWNER, place=place, payload=sent((reached, owner)))
        for producer_id, owner in facts.ids.owners.items()
    )
    prepared = (
        Judged(cluster, record.value.producer_id, kind=PREPARED, place=place, payload=sent(record))
        for record in facts.ids.prepared
        if record.value is not None
    )
    yield from FACTS.batches(Judged, chain(uses, owners, prepared))


def case_rows(cluster: int, facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The rows of open transactions that are judged: each with its replica, and where the earliest begins there."""
    place, partition = packed(facts.partition.place), replace(facts.partition, damage=())
    cases = ((one.producer_id, sent((one, partition, facts.first_start))) for one in facts.opens)
    yield from FACTS.batches(
        Judged, (Judged(cluster, producer_id, kind=CASE, place=place, payload=case) for producer_id, case in cases)
    )


def decision_rows(
    cluster: int, place: Place, decided: Iterable[Decision], numbers: Iterator[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of decisions: one for each epoch in which it is judged, with the time when it begins.

    Args:
        numbers: ascend in the order of the log.
    """
    of_place = packed(place)

    def each(one: Decision, number: int) -> Iterator[Judged]:
        time = begins(one)
        begun = int(time) if time >= _EARLIEST else None  # null comes before all times
        row = Judged(cluster, one.producer_id, None, begun, DECISION, of_place, number, sent(one))
        yield from (row._replace(data_epoch=epoch) for epoch in epochs(one))

    rows = (row for one, number in zip(decided, numbers, strict=False) for row in each(one, number))
    yield from FACTS.batches(Judged, rows)


def digest_rows(listed: Mapping[str, Any], facts: ReplicaFacts) -> Iterator[pa.RecordBatch]:
    """The digests of a replica as rows.

    Args:
        listed: its folder, as `fleet_listing` has it.
    """
    place, digests = facts.partition.place, facts.digests
    partition = f"{place.topic}\0{place.partition}".encode("utf-8", "surrogateescape")
    folder = {name: listed[name] for name in ("store", "path", "names", "tiers")}
    cells = {-1: sent((folder, facts.partition.damage))}
    cells |= {start: digests[start : start + _DIGEST_CELL] for start in range(0, len(digests), _DIGEST_CELL)}
    yield from FACTS.batches(DigestCell, (DigestCell(partition, listed["sort"], *cell) for cell in cells.items()))


def replica_digests(listed: Iterable[dict[str, Any]]) -> ReplicaDigests:
    """The reverse of `digest_rows`."""
    first, *others = listed
    folder, damage = received(first["payload"])
    return ReplicaDigests(replica_at(folder), b"".join(row["payload"] for row in others), damage)


def open_rows(cluster: int, opens: Iterable[Open]) -> Iterator[pa.RecordBatch]:
    """The rows of open transactions."""
    yield from FACTS.batches(
        Transaction,
        (
            Transaction(
                cluster, packed(one.place), one.producer_id, one.producer_epoch, one.start_offset, one.last_offset,
                one.first_timestamp, one.last_timestamp, one.batches,
            )
            for one in opens
        ),
    )  # fmt: skip


def ending_rows(cluster: int, place: Place, chunks: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """The rows of ended transactions.

    Args:
        cluster: its number. `place`: the replica. `chunks`: see `Endings`.
    """
    for cell in ending_cells(chunks):
        yield from FACTS.batches(EndedCell, [EndedCell(cluster, packed(place), cell)])


def ending_cells(chunks: Iterable[Packed]) -> Iterator[bytes]:
    """Ended transactions in cells of bounded size."""
    listed = list(chunks)
    if listed:
        rows = stacked(listed, listed[0].dtype)
        size = max(1, _ENDINGS_CELL // rows.dtype.itemsize)
        for start in range(0, len(rows), size):
            yield rows[start : start + size].tobytes()


def one_a_row(cells: DataFrame) -> DataFrame:
    """Ended transactions, all fields of which were kept: one a row of `Transaction`.

    Args:
        cells: with the columns of `EndedCell`.
    """
    schema = schema_of(Transaction)

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for several in _together(row for batch in batches for row in batch.to_pylist()):
            ended = np.concatenate([np.frombuffer(row["payload"], PACKED) for row in several])
            of_row = pa.array(
                np.repeat(np.arange(len(several)), [len(row["payload"]) // PACKED.itemsize for row in several])
            )
            same: dict[str, list[Any]] = {name: [row[name] for row in several] for name in ("cluster", "place")}
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
    return pa.array(same[field.name], field.type).take(of_row)


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
