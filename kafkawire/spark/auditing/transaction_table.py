"""`transactions`: every transaction of log directories as a table, a projection of the rows that the audit judges
(`outcome_rows`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.logdir import LogDirectory
from kafkawire.rows.arrow import arrow_text
from kafkawire.spark.auditing.outcome_rows import OWNER, EndedCell, Judged, Transaction, one_a_row, unpacked
from kafkawire.spark.auditing.replica_parts import Fleet
from kafkawire.spark.listing.fleet_listing import listing
from kafkawire.spark.session.row_batches import array_of
from kafkawire.spark.session.sent_values import received
from kafkawire.spark.session.task_sizing import by_batches
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.coordinator.coordinator_log import pick_owner
from kafkawire.transactions.coordinator.coordinator_rules import state_name
from kafkawire.transactions.log.producer_append import NO_EPOCH, OUTCOMES
from kafkawire.transactions.parts.part_scan import PART_BYTES
from kafkawire.transactions.verdict.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.transactions.facts import Owner

#: By outcome, `OUTCOMES`; the last: none yet.
_STATES = array_of(["aborted", "committed", "ended", "open"], pa.string())
_OUTCOMES = array_of(["ABORT", "COMMIT", None, None], pa.string())

_OWNER = pa.schema(
    [
        ("transactional_id", pa.string()),
        ("coordinator_state", pa.string()),
        ("coordinator_producer_id", pa.int64()),
        ("coordinator_producer_epoch", pa.int16()),
        ("transaction_timeout_ms", pa.int32()),
        ("transaction_start_timestamp", pa.int64()),
        ("transaction_last_update_timestamp", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("directory", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("batches", pa.int64()),
        ("first_timestamp", pa.int64()),
        ("last_timestamp", pa.int64()),
        ("state", pa.string()),
        ("outcome", pa.string()),
        ("marker_offset", pa.int64()),
        ("marker_epoch", pa.int16()),
        ("marker_timestamp", pa.int64()),
        ("coordinator_epoch", pa.int32()),
        ("duration_ms", pa.int64()),
        *_OWNER,
    ]
)


def transactions(source: LogDirectory | Sequence[str], spark: SparkSession) -> DataFrame:
    """Every transaction in copied log directories: a row for each replica of each partition that holds data of it.
    Folders are listed at once; logs are read, each once, when the table is used.

    - cluster, directory, topic, partition: where; the cluster's id is null where the directory does not contain it
    - producer_id, producer_epoch, batches, first_offset, last_offset, first_timestamp, last_timestamp: of its data
    - state: open (no marker up to the end of the log), committed, aborted, or ended (compaction emptied the marker)
    - outcome: COMMIT or ABORT; marker_offset, marker_epoch, marker_timestamp, coordinator_epoch: of the marker
    - duration_ms: from its first batch to the marker; the first is a client's clock, the second a broker's
    - transactional_id, and of the newest record of that id in `__transaction_state` coordinator_state,
      coordinator_producer_id, coordinator_producer_epoch, transaction_timeout_ms, transaction_start_timestamp,
      transaction_last_update_timestamp: the coordinator's current state; null where no record names the producer id

    Times are epoch milliseconds. Workers must see the directories under the same paths, and have this package.

    Args:
        source: log directories, or folders that contain some; or what `logdir.open` found.

    Raises:
        OSError: a path that does not exist or may not be read.
    """
    paths = [partition.path for partition in source.partitions] if isinstance(source, LogDirectory) else source
    files = source.files if isinstance(source, LogDirectory) else ()
    keys = tuple(dict.fromkeys(key for file in files for key in file.tier_keys))
    fleet = Fleet.of(listing(spark, paths), Settings(), PART_BYTES, keys)
    return table_of(fleet.facts(whole=True, strict=True), fleet)


def table_of(facts: DataFrame, fleet: Fleet) -> DataFrame:
    """The table of `transactions`.

    Args:
        facts: of the fleet, whole.
    """
    # One task makes the cells of a replica. By their content: to deal rows out in turn, Spark sorts them first.
    cells = only(facts, EndedCell).repartition(fleet.sizing.part_tasks, "payload")
    clusters = _names(fleet)
    owners = only(facts, Judged).where(f"kind = {OWNER}").selectExpr("cluster", "producer_id", "payload AS owner")
    found = only(facts, Transaction).union(one_a_row(cells))
    grouped = found.unionByName(owners, allowMissingColumns=True).repartition("cluster", "producer_id")
    ordered = grouped.sortWithinPartitions("cluster", "producer_id", expr("owner IS NULL"))
    return by_batches(ordered, lambda batches: _projected(batches, clusters), from_arrow_schema(SCHEMA))


def _names(fleet: Fleet) -> dict[str, str | None]:
    """The cluster of each log directory."""
    ids = sorted(set(fleet.found.clusters.values()))
    return {broker.root: broker.cluster_id for broker in fleet.found.brokers} if ids else {}


def _projected(batches: Iterable[pa.RecordBatch], clusters: dict[str, str | None]) -> Iterator[pa.RecordBatch]:
    """Rows by producer id, owners first -> transactions."""
    owners: list[tuple[Any, Owner]] = []
    producer: tuple[int, int] | None = None
    for batch in batches:
        chosen: list[tuple[Any, ...]] = [(None,) * len(_OWNER)]
        is_owner, rows = batch["owner"].is_valid().to_numpy(zero_copy_only=False), len(batch)
        of_row = np.zeros(rows, np.int64)
        ids = np.stack([batch["cluster"].to_numpy(), batch["producer_id"].to_numpy()])
        starts = [0, *(np.flatnonzero((ids[:, 1:] != ids[:, :-1]).any(axis=0)) + 1).tolist(), rows]
        for start, stop in pairwise(starts):
            key = int(ids[0, start]), int(ids[1, start])
            if key != producer:
                producer, owners = key, []
            first = start + int(is_owner[start:stop].sum())
            owners += map(received, batch["owner"][start:first].to_pylist())
            if owners and first < stop:
                of_row[first:stop] = len(chosen)
                chosen.append(_owner_values(owners))
        found = batch["owner"].is_null()
        if pc.any(found).as_py():
            taken = pa.array(of_row).filter(found)
            columns = [
                pa.array(values, field.type).take(taken)
                for values, field in zip(zip(*chosen, strict=True), _OWNER, strict=True)
            ]
            yield _table(batch.filter(found), columns, clusters)


def _owner_values(owners: list[tuple[Any, Owner]]) -> tuple[Any, ...]:
    """The values of the owner that counts: among replicas, that of the one that reaches furthest; among ids, the
    newest."""
    by_partition: dict[int, tuple[Any, Owner]] = {}
    for one in owners:
        number = one[1].newest.place.partition
        by_partition[number] = max(by_partition.get(number, one), one, key=lambda pair: pair[0])
    owner = pick_owner(owner for _, owner in by_partition.values())
    assert owner is not None
    name, value = arrow_text(owner.newest.transactional_id), owner.newest.value
    if value is None:
        return (name, *[None] * (len(_OWNER) - 1))
    return (
        name, state_name(value.transaction_status), value.producer_id, value.producer_epoch,
        value.transaction_timeout_ms, value.transaction_start_timestamp_ms, value.transaction_last_update_timestamp_ms,
    )  # fmt: skip


def _table(found: pa.RecordBatch, owner: list[pa.Array], clusters: dict[str, str | None]) -> pa.RecordBatch:
    places = found["place"].dictionary_encode()
    where = [unpacked(place) for place in places.dictionary.to_pylist()]
    outcome = pc.fill_null(found["outcome"], len(OUTCOMES))
    epoch = found["coordinator_epoch"]
    columns: dict[str, Any] = {
        "cluster": pa.array([clusters.get(place.copy) for place in where], pa.string()).take(places.indices),
        "directory": pa.array([arrow_text(place.copy) for place in where]).take(places.indices),
        "topic": pa.array([arrow_text(place.topic) for place in where]).take(places.indices),
        "partition": pa.array([place.partition for place in where], pa.int32()).take(places.indices),
        "producer_epoch": found["data_epoch"],
        "state": _STATES.take(outcome),
        "outcome": _OUTCOMES.take(outcome),
        "marker_offset": found["offset"],
        "marker_timestamp": found["timestamp"],
        "coordinator_epoch": pc.if_else(pc.equal(epoch, NO_EPOCH), pa.scalar(None, pa.int32()), epoch),
        "duration_ms": pc.subtract(found["timestamp"], found["first_timestamp"]),
        **dict(zip(_OWNER.names, owner, strict=True)),
    }
    arrays = [
        (columns[field.name] if field.name in columns else found[field.name]).cast(field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
