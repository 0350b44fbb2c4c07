"""`audit`: the audit of `transactions`, with Spark to read the logs and to find what is open.

Workers read segments with this package's codecs into one table of facts (`table`); Spark SQL finds the open
transactions and the records of their ids (`queries`); what is left is small, and is judged by the same functions as on
one machine.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.messages import TransactionLogKey
from kafkawire.spark import queries
from kafkawire.spark.session import QUICK_START, SparkError, local_session
from kafkawire.spark.shares import file_size, share_out
from kafkawire.spark.table import BEFORE, SPARK_SCHEMA, Task, append_row, reader, to_arrow
from kafkawire.transactions import facts
from kafkawire.transactions.assembly import Settings, conclude
from kafkawire.transactions.coordinator import registration
from kafkawire.transactions.facts import CoordinatorRecord, Facts, Open, Owner, Place, Registration, Segment
from kafkawire.transactions.local import cluster_ids, node_ids, unlisted
from kafkawire.transactions.reading import place_of, read_snapshot, replicas, transaction_state_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    spark: SparkSession | None = None,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories; the same findings as `transactions.audit`.
    The rules of the log are not checked: `read.checks` is empty.

    Args:
        paths: what to call them in the answer.
        spark: the session to use; None: the running one, or a local one for this call. Its workers must see the
            directories under the same paths, and have this package.

    Raises:
        SparkError: Spark did not start, or the job failed.
        MissingExtraError: no Java that Spark accepts.
    """
    if spark is not None:
        return _audit(directory, settings, paths, spark)
    with local_session(settings=QUICK_START if _is_small(directory) else {}) as session:
        return _audit(directory, settings, paths, session)


def _audit(directory: LogDirectory, settings: Settings, paths: tuple[str, ...], spark: SparkSession) -> rows.Audit:
    audited = replicas(directory)
    places = [place_of(partition) for partition in audited]
    snapshot_rows, damage = _snapshots(audited)
    try:
        table = _read(spark, audited)
        if snapshot_rows:
            table = table.unionByName(spark.createDataFrame(pa.Table.from_batches([to_arrow(snapshot_rows)])))
        table.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            segments, unreadable = _segments(table)
            opens_table = spark.sql(queries.OPEN, facts=table).toArrow()
            opens = [_open(places, row) for row in opens_table.to_pylist()]
            owners = _owners(spark, table, opens_table, places) if opens else []
        finally:
            table.unpersist()
    except PySparkException as error:
        raise SparkError(f"the Spark job failed: {str(error).strip().splitlines()[0]}") from error
    return conclude(
        Facts(
            paths=paths,
            brokers=node_ids(directory),
            partitions=[
                facts.partition_of(
                    place,
                    segments[number],
                    log_start=partition.log_start_offset,
                    high_watermark=partition.high_watermark,
                )
                for number, (place, partition) in enumerate(zip(places, audited, strict=True))
            ],
            opens=opens,
            owners=owners,
            unreadable_ids=frozenset(places[number] for number in unreadable),
            transaction_state_partitions=transaction_state_partitions(audited),
            clusters=cluster_ids(directory),
            damage=tuple(damage),
            gaps=unlisted(directory),
        ),
        settings,
    )


def _read(spark: SparkSession, partitions: list[Partition]) -> DataFrame:
    """The table of facts, one Spark partition a share of the segments."""
    tasks = [
        Task(place_number, segment_number, file)
        for place_number, partition in enumerate(partitions)
        for segment_number, file in enumerate(partition.segments)
    ]
    shares = share_out(tasks, lambda task: file_size(task.file))
    numbers = spark.range(0, len(shares), 1, numPartitions=max(1, len(shares)))
    return numbers.mapInArrow(reader(shares), SPARK_SCHEMA)


def _is_small(directory: LogDirectory) -> bool:
    return sum(file_size(file) for partition in directory.partitions for file in partition.segments) < SMALL_BYTES


def _snapshots(partitions: list[Partition]) -> tuple[list[Any], list[rows.Damage]]:
    """Open transactions that began below the log start, as batches before all others; see `transactions.local`."""
    found, damage = [], []
    for number, partition in enumerate(partitions):
        entries, damaged = read_snapshot(partition, partition.log_start_offset or 0)
        found += [append_row(number, BEFORE, entry.as_append()) for entry in entries]
        damage += damaged
    return found, damage


def _segments(table: DataFrame) -> tuple[dict[int, list[Segment]], set[int]]:
    """The segments of each place, and the places with records that could not be decoded."""
    segments: dict[int, list[Segment]] = defaultdict(list)
    unreadable: set[int] = set()
    chosen = table.where("kind IN ('segment', 'unreadable')").select("kind", "place", "value")
    for row in chosen.toArrow().to_pylist():
        if row["kind"] == "segment":
            segments[row["place"]].append(pickle.loads(row["value"]))  # written by our own workers
        else:
            unreadable.add(row["place"])
    return segments, unreadable


def _open(places: list[Place], row: dict[str, Any]) -> Open:
    return Open(place=places[row.pop("place")], **row)


def _owners(spark: SparkSession, table: DataFrame, opens: pa.Table, places: list[Place]) -> list[Owner]:
    wanted = spark.createDataFrame(opens.select(["producer_id"]))
    found = spark.sql(queries.OWNERS, facts=table, wanted=wanted).toArrow().to_pylist()
    return [
        Owner(producer_id=row["producer_id"], current=row["current"], newest=_registration(places[row["place"]], row))
        for row in found
    ]


def _registration(place: Place, row: dict[str, Any]) -> Registration:
    name = row["transactional_id"].decode("utf-8", "surrogateescape")
    key = TransactionLogKey(transactional_id=name).encode_prefixed(version=0)
    found = registration(place, CoordinatorRecord(row["offset"], row["timestamp"], key, row["value"]))
    assert isinstance(found, Registration)  # a worker has decoded the same bytes
    return found
