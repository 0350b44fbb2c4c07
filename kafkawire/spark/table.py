"""The table of facts that workers read out of segments: one schema for all kinds of rows, as Arrow batches.

The kinds, and their columns beside `place` and `rank`:

- batch, one of a transaction: offset, last_offset, timestamp, producer_id, producer_epoch, control, coordinator_epoch
- registration, a record of `__transaction_state`: offset, timestamp, transactional_id, value, three producer ids
- unreadable, such a record that could not be decoded, the first of a segment: offset
- segment, read to its end: value, the pickled `transactions.Segment`

`place` is the number of a replica in the job. `rank` orders its rows as they stand in the log: by segment, then by row;
what a snapshot tells stands before them. `transactional_id` and `value` are bytes: an id need not be UTF-8, and values
are decoded where they are needed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from kafkawire.logdir import LogFile
from kafkawire.records.control import MALFORMED
from kafkawire.transactions.appends import Append
from kafkawire.transactions.coordinator import Unreadable, registration
from kafkawire.transactions.facts import CoordinatorRecord, Place, Segment
from kafkawire.transactions.reading import SegmentFact, read_segment

#: Rows of one Arrow batch: what bounds a worker's memory.
BATCH_ROWS = 20_000

_RANK_BITS = 40

#: Rank of what stands before the log.
BEFORE = -1

SPARK_SCHEMA = (
    "kind string, place int, rank long, offset long, last_offset long, timestamp long, producer_id long, "
    "producer_epoch short, control string, coordinator_epoch int, previous_producer_id long, next_producer_id long, "
    "transactional_id binary, value binary"
)
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
        ("control", pa.string()),
        ("coordinator_epoch", pa.int32()),
        ("previous_producer_id", pa.int64()),
        ("next_producer_id", pa.int64()),
        ("transactional_id", pa.binary()),
        ("value", pa.binary()),
    ]
)

Row = tuple[object, ...]


class Task(NamedTuple):
    """A segment to read: the number of its place, its own number in that place, the file."""

    place: int
    segment: int
    file: LogFile


def reader(shares: list[list[Task]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: takes batches of numbers of shares, gives the rows of their segments."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from in_batches(row for number in numbers for task in shares[number] for row in rows_of(task))

    return read


def in_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow batches of bounded size."""
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) == BATCH_ROWS:
            yield to_arrow(held)
            held = []
    if held:
        yield to_arrow(held)


def to_arrow(rows: list[Row]) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def rows_of(task: Task) -> Iterator[Row]:
    """The rows of one segment."""
    place = Place("", task.file.topic or "", task.file.partition or 0)
    unreadable = False
    for i, fact in enumerate(read_segment(task.file)):
        row = _row(place, task.place, (task.segment << _RANK_BITS) + i, fact)
        if row is None or (unreadable and row[0] == "unreadable"):
            continue
        unreadable = unreadable or row[0] == "unreadable"
        yield row


def append_row(place: int, rank: int, append: Append) -> Row:
    """A row of kind `batch`."""
    return (
        "batch", place, rank, append.base_offset, append.last_offset, append.timestamp, append.producer_id,
        append.producer_epoch, append.control, append.coordinator_epoch, None, None, None, None,
    )  # fmt: skip


def _row(place: Place, number: int, rank: int, fact: SegmentFact) -> Row | None:
    if isinstance(fact, Append):
        return append_row(number, rank, fact) if fact.transactional and fact.control != MALFORMED else None
    if isinstance(fact, Segment):
        return ("segment", number, rank, *(None,) * 10, pickle.dumps(fact))
    if isinstance(fact, CoordinatorRecord):
        found = registration(place, fact)
        if found is None:
            return None
        if not isinstance(found, Unreadable):
            value = found.value
            ids: tuple[int | None, ...] = (None, None, None)
            if value is not None:
                ids = (value.producer_id, value.previous_producer_id, value.next_producer_id)
            name = found.transactional_id.encode("utf-8", "surrogateescape")
            return (
                "registration", number, rank, fact.offset, None, fact.timestamp, ids[0], None, None, None, ids[1],
                ids[2], name, fact.value,
            )  # fmt: skip
        fact = found
    return ("unreadable", number, rank, fact.offset, *(None,) * 10)
