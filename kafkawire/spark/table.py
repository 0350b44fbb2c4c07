"""The table of facts that workers read out of log directories: one schema for all kinds of rows, as Arrow batches.

The kinds, and their columns beside `place` and `rank`:

- batch, one of a transaction: offset, last_offset, timestamp, producer_id, producer_epoch, control, coordinator_epoch
- registration, a record of `__transaction_state`: offset, timestamp, transactional_id, value, three producer ids, and
  of its value producer_epoch, state, timeout_ms, started, updated
- unreadable, such a record that could not be decoded, the first of a segment: offset
- segment, a part of one, read to its end: value, the JSON of `transactions.Segment`
- answer, of a check on the replica: value, the JSON of `transactions.Answer`
- damage, of its snapshots: value, the JSON of `rows.Damage`

`place` is the number of a replica in the job. `rank` orders its rows as they stand in the log: by segment, then by byte
position; what a snapshot tells stands before them. `control` is 0 for ABORT, 1 for COMMIT, 2 for a marker that
compaction emptied, null for data. `transactional_id` and `value` are bytes: an id need not be UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from kafkawire.logdir import LogFile, Partition
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, EMPTY, MALFORMED
from kafkawire.transactions.checking import check
from kafkawire.transactions.columnar import Appends, PieceFact, read_pieces
from kafkawire.transactions.coordinator import Unreadable, registration
from kafkawire.transactions.facts import CoordinatorRecord, Place, Segment
from kafkawire.transactions.model import state_name
from kafkawire.transactions.reading import read_snapshot

T = TypeVar("T")

#: Rows of one Arrow batch: what bounds a worker's memory.
BATCH_ROWS = 20_000

_RANK_BITS = 40

#: Rank of what stands before the log.
BEFORE = -1

#: A marker without its record: it ended a transaction, who knows how.
EMPTIED = 2
CONTROLS = {CONTROL_TYPES[ABORT]: ABORT, CONTROL_TYPES[COMMIT]: COMMIT, EMPTY: EMPTIED}

ARROW_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("place", pa.int32()),
        ("rank", pa.int64()),
        ("offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("control", pa.int8()),
        ("coordinator_epoch", pa.int32()),
        ("previous_producer_id", pa.int64()),
        ("next_producer_id", pa.int64()),
        ("transactional_id", pa.binary()),
        ("state", pa.string()),
        ("timeout_ms", pa.int32()),
        ("started", pa.int64()),
        ("updated", pa.int64()),
        ("value", pa.binary()),
    ]
)
_SPARK_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
SPARK_SCHEMA = ", ".join(f"{field.name} {_SPARK_TYPES.get(str(field.type), str(field.type))}" for field in ARROW_SCHEMA)

Row = dict[str, object]


class Part(NamedTuple):
    """A part of a segment to read: the number of its place, its segment's number in that place, the file, the bytes."""

    place: int
    segment: int
    file: LogFile
    start: int = 0
    end: int | None = None


class Replica(NamedTuple):
    """A replica to hold against the rules: the number of its place. `settings` are what `check` takes."""

    place: int
    partition: Partition
    settings: dict[str, Any]


Task = Part | Replica


def reader(shares: list[list[Task]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: takes batches of numbers of shares, gives the rows of their tasks."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from in_batches(found for number in numbers for task in shares[number] for found in facts_of(task))

    return read


def facts_of(task: Task) -> Iterator[pa.RecordBatch | Row]:
    """What a task reads: columns of batches, and other rows."""
    return _replica(task) if isinstance(task, Replica) else _part(task)


def in_batches(found: Iterable[pa.RecordBatch | Row]) -> Iterator[pa.RecordBatch]:
    """Rows and columns as Arrow batches of bounded size; rows of one kind keep their order."""
    held: list[Row] = []
    for item in found:
        if isinstance(item, pa.RecordBatch):
            yield item
            continue
        held.append(item)
        if len(held) == BATCH_ROWS:
            yield to_arrow(held)
            held = []
    if held:
        yield to_arrow(held)


def to_arrow(held: list[Row]) -> pa.RecordBatch:
    columns = [pa.array([row.get(field.name) for row in held], field.type) for field in ARROW_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def decoded(value: bytes, kind: type[T]) -> T:
    """What a worker has written to `value`."""
    return msgspec.convert(json.loads(value), kind)


def segment_of(rank: int) -> int:
    """The number of the segment that a row of the log stands in."""
    return rank >> _RANK_BITS


def _encoded(value: msgspec.Struct) -> bytes:
    """JSON in ASCII: paths and ids need not be UTF-8, and the escapes of their surrogates come back."""
    return json.dumps(msgspec.to_builtins(value)).encode()


def _part(part: Part) -> Iterator[pa.RecordBatch | Row]:
    place = Place("", part.file.topic or "", part.file.partition or 0)
    first = part.segment << _RANK_BITS
    unreadable = False
    for number, fact in enumerate(read_pieces(part.file, start=part.start, end=part.end)):
        if isinstance(fact, Appends):
            yield _batches(part.place, first, fact)
            continue
        row = _row(place, fact)
        if row is None or (unreadable and row["kind"] == "unreadable"):
            continue
        unreadable = unreadable or row["kind"] == "unreadable"
        yield row | {"place": part.place, "rank": first + (part.start if isinstance(fact, Segment) else number)}


def _batches(place: int, first: int, found: Appends) -> pa.RecordBatch:
    """Rows of kind `batch`."""
    found = found.where(found.transactional & (found.control != MALFORMED))
    count = len(found)
    control = np.full(count, -1, np.int8)
    for name, code in CONTROLS.items():
        control[found.control == name] = code
    columns: dict[str, Any] = {
        "kind": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), ["batch"]).cast(pa.string()),
        "place": np.full(count, place, np.int32),
        "rank": first + found.position,
        "offset": found.base_offset,
        "last_offset": found.last_offset,
        "timestamp": found.timestamp,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "control": pa.array(control, mask=control < 0),
        "coordinator_epoch": pa.array(found.coordinator_epoch.tolist(), pa.int32()),
    }
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _replica(task: Replica) -> Iterator[Row]:
    """The answers of the checks; and open transactions that began below the log start, as batches before all others
    (see `transactions.local`)."""
    entries, damaged = read_snapshot(task.partition, task.partition.log_start_offset or 0)
    for entry in entries:
        append = entry.as_append()
        yield {
            "kind": "batch",
            "place": task.place,
            "rank": BEFORE,
            "offset": append.base_offset,
            "last_offset": append.last_offset,
            "timestamp": append.timestamp,
            "producer_id": append.producer_id,
            "producer_epoch": append.producer_epoch,
        }
    said: list[tuple[str, msgspec.Struct]] = [("damage", damage) for damage in damaged]
    said += [("answer", answer) for answer in check(task.partition, **task.settings)]
    for number, (kind, value) in enumerate(said):
        yield {"kind": kind, "place": task.place, "rank": number, "value": _encoded(value)}


def _row(place: Place, fact: PieceFact) -> Row | None:
    if isinstance(fact, Segment):
        return {"kind": "segment", "value": _encoded(fact)}
    assert not isinstance(fact, Appends)
    if isinstance(fact, CoordinatorRecord):
        found = registration(place, fact)
        if found is None:
            return None
        if not isinstance(found, Unreadable):
            row: Row = {
                "kind": "registration",
                "offset": fact.offset,
                "timestamp": fact.timestamp,
                "transactional_id": found.transactional_id.encode("utf-8", "surrogateescape"),
                "value": fact.value,
            }
            value = found.value
            if value is not None:
                row |= {
                    "producer_id": value.producer_id,
                    "producer_epoch": value.producer_epoch,
                    "previous_producer_id": value.previous_producer_id,
                    "next_producer_id": value.next_producer_id,
                    "state": state_name(value.transaction_status),
                    "timeout_ms": value.transaction_timeout_ms,
                    "started": value.transaction_start_timestamp_ms,
                    "updated": value.transaction_last_update_timestamp_ms,
                }
            return row
        fact = found
    return {"kind": "unreadable", "offset": fact.offset}
