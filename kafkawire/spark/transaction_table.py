"""`transactions`: every transaction of log directories as a table, found by Spark SQL (`transaction_sql`) in a table of
facts.

Workers read segments, large ones in parts, with this package's codecs. The facts have one schema for both kinds of
rows, with these columns beside `place` and `rank`:

- batch, one of a transaction: offset, last_offset, timestamp, producer_id, producer_epoch, control, coordinator_epoch
- registration, a record of `__transaction_state`: offset, timestamp, transactional_id, three producer ids, and of its
  value producer_epoch, state, timeout_ms, started, updated

`place` is the number of a replica in the job. `rank` orders its rows as they stand in the log: by segment, then by byte
position. `control` is 0 for ABORT, 1 for COMMIT, 2 for a marker that compaction emptied, null for data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkawire.logdir import LogDirectory, LogFile, Partition
from kafkawire.logdir.splits import ranges
from kafkawire.records.control import ABORT, COMMIT, CONTROL_TYPES, EMPTY, MALFORMED
from kafkawire.rows.arrow import arrow_text
from kafkawire.spark.sources import PART_BYTES
from kafkawire.spark.task_sizing import file_size, on_workers
from kafkawire.spark.transaction_sql import TRANSACTIONS
from kafkawire.transactions.coordinator_log import registration
from kafkawire.transactions.coordinator_rules import state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, CoordinatorRecord, Place, Registration
from kafkawire.transactions.local_audit import cluster_ids
from kafkawire.transactions.replica_files import place_of, replicas
from kafkawire.transactions.segment_scan import Appends, read_pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANK_BITS = 40

#: A marker whose record compaction removed: it ended a transaction, with an unknown outcome.
_EMPTIED = 2
_CONTROLS = {CONTROL_TYPES[ABORT]: ABORT, CONTROL_TYPES[COMMIT]: COMMIT, EMPTY: _EMPTIED}

_PLACES = "place int, cluster string, directory string, topic string, partition int"
_SCHEMA = pa.schema(
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
        ("transactional_id", pa.string()),
        ("state", pa.string()),
        ("timeout_ms", pa.int32()),
        ("started", pa.int64()),
        ("updated", pa.int64()),
    ]
)
_SPARK_TYPES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
_SPARK_SCHEMA = ", ".join(f"{field.name} {_SPARK_TYPES.get(str(field.type), str(field.type))}" for field in _SCHEMA)


class ReplicaSegmentPart(NamedTuple):
    """A part of a segment to read: the number of its place, its segment's number in that place, the file, the bytes."""

    place: int
    segment: int
    file: LogFile
    start: int = 0
    end: int | None = None


def transactions(directory: LogDirectory, spark: SparkSession) -> DataFrame:
    """Every transaction in copied log directories, as Spark SQL finds them (`TRANSACTIONS`): a row for each
    replica of each partition that holds data of it. Nothing is read before the table is used.

    - cluster, directory, topic, partition: where; the cluster's id is null where the directory does not contain it
    - producer_id, producer_epoch, batches, first_offset, last_offset, first_timestamp, last_timestamp: of its data
    - state: open (no marker up to the end of the log), committed, aborted, or ended (compaction emptied the marker)
    - outcome: COMMIT or ABORT; marker_offset, marker_epoch, marker_timestamp, coordinator_epoch: of the marker
    - duration_ms: from its first batch to the marker; the first is a client's clock, the second a broker's
    - transactional_id, and of the newest record of that id in `__transaction_state` coordinator_state,
      coordinator_producer_id, coordinator_producer_epoch, transaction_timeout_ms, transaction_start_timestamp,
      transaction_last_update_timestamp: the coordinator's current state; null where no record names the producer id

    Times are epoch milliseconds. Workers must see the directories under the same paths, and have this package.
    """
    audited = replicas(directory)
    clusters = cluster_ids(directory)
    places = [place_of(partition) for partition in audited]
    named = [
        (number, clusters.get(place.copy), arrow_text(place.copy), arrow_text(place.topic), place.partition)
        for number, place in enumerate(places)
    ]
    parts = [part for number, partition in enumerate(audited) for part in _parts(number, partition)]
    facts = on_workers(spark, parts, _size, facts_of, _SPARK_SCHEMA)
    return spark.sql(TRANSACTIONS, facts=facts, places=spark.createDataFrame(named, _PLACES))


def _parts(number: int, partition: Partition) -> Iterator[ReplicaSegmentPart]:
    """The segments of a replica, large ones in parts. The coordinator's are small."""
    for segment, file in enumerate(partition.segments):
        try:
            found = [(0, None)] if partition.topic == TRANSACTION_STATE else ranges(file, PART_BYTES)
        except OSError:
            continue  # gone, or not readable: the audit reports it
        for start, end in found:
            yield ReplicaSegmentPart(number, segment, file, start, end)


def _size(part: ReplicaSegmentPart) -> int:
    return (file_size(part.file) if part.end is None else part.end) - part.start


def facts_of(part: ReplicaSegmentPart) -> Iterator[pa.RecordBatch]:
    """The facts of a part, in pieces of bounded size."""
    place = Place("", part.file.topic or "", part.file.partition or 0)
    first = part.segment << _RANK_BITS
    registrations: list[dict[str, object]] = []
    for fact in read_pieces(part.file, start=part.start, end=part.end):
        if isinstance(fact, Appends):
            yield _batches(part.place, first, fact)
        elif isinstance(fact, CoordinatorRecord):
            found = registration(place, fact)
            if isinstance(found, Registration):
                registrations.append(_registration(part.place, first + len(registrations), found))
    if registrations:
        columns = [pa.array([row.get(field.name) for row in registrations], field.type) for field in _SCHEMA]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _batches(place: int, first: int, found: Appends) -> pa.RecordBatch:
    found = found.where(found.transactional & (found.control != MALFORMED))
    count = len(found)
    control = np.full(count, -1, np.int8)
    for name, code in _CONTROLS.items():
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
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _registration(place: int, rank: int, found: Registration) -> dict[str, object]:
    row: dict[str, object] = {
        "kind": "registration",
        "place": place,
        "rank": rank,
        "offset": found.offset,
        "timestamp": found.timestamp,
        "transactional_id": arrow_text(found.transactional_id),
    }
    value = found.value
    if value is None:
        return row
    return row | {
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "previous_producer_id": value.previous_producer_id,
        "next_producer_id": value.next_producer_id,
        "state": state_name(value.transaction_status),
        "timeout_ms": value.transaction_timeout_ms,
        "started": value.transaction_start_timestamp_ms,
        "updated": value.transaction_last_update_timestamp_ms,
    }
