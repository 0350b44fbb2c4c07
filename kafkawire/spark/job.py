"""`audit`: the audit of `transactions`, with Spark to read the logs and to find what is open; and the table of all
transactions.

Workers read log directories with this package's codecs into one table of facts (`table`): batches as columns, and what
the checks say of each replica. Spark SQL finds the open transactions and the records of their ids (`queries`); what is
left is small, and is judged by the same functions as on one machine.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.logdir.splits import ranges
from kafkawire.messages import TransactionLogKey
from kafkawire.rows.arrow import whole
from kafkawire.spark import queries
from kafkawire.spark.session import QUICK_START, SparkError, session_on
from kafkawire.spark.shares import file_size, share_out
from kafkawire.spark.sources import PART_BYTES
from kafkawire.spark.table import SPARK_SCHEMA, Part, Replica, Task, decoded, reader, segment_of
from kafkawire.transactions import facts
from kafkawire.transactions.assembly import conclude
from kafkawire.transactions.checks import Answer
from kafkawire.transactions.columnar import joined
from kafkawire.transactions.coordinator import registration
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    CoordinatorRecord,
    Facts,
    Open,
    Owner,
    Place,
    Placed,
    Registration,
    Segment,
)
from kafkawire.transactions.local import cluster_ids, node_ids, unlisted
from kafkawire.transactions.metadata import read_metadata
from kafkawire.transactions.reading import place_of, replicas
from kafkawire.transactions.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30

_PLACES = "place int, cluster string, directory string, topic string, partition int"


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    spark: SparkSession | None = None,
    master: str | None = None,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and hold the logs against the rules: the same
    answer as that of `transactions.audit`.

    A replica's log is held against the rules by one task. Its batches are read for Spark SQL in parts.

    Args:
        paths: what to call them in the answer.
        spark: the session to use; None: the running one, or one for this call. Its workers must see the directories
            under the same paths, and have this package (`session.ship`).
        master: where that one runs: `local[N]` (by default all cores), `spark://HOST:PORT`, or `sc://HOST:PORT` for
            Spark Connect.

    Raises:
        SparkError: Spark did not start, or the job failed.
        MissingExtraError: no Java that Spark accepts.
    """
    if spark is not None:
        return _audit(directory, settings, paths, spark)
    with session_on(master, settings=QUICK_START if _is_small(directory) else {}) as session:
        return _audit(directory, settings, paths, session)


def transactions(directory: LogDirectory, spark: SparkSession) -> DataFrame:
    """Every transaction in copied log directories, as Spark SQL finds them (`queries.TRANSACTIONS`): a row for each
    replica of each partition that holds data of it. Nothing is read before the table is used.

    - cluster, directory, topic, partition: where; the cluster's id is null where the directory does not say it
    - producer_id, producer_epoch, batches, first_offset, last_offset, first_timestamp, last_timestamp: of its data
    - state: open (no marker up to the end of the log), committed, aborted, or ended (compaction emptied the marker)
    - outcome: COMMIT or ABORT; marker_offset, marker_epoch, marker_timestamp, coordinator_epoch: of the marker
    - duration_ms: from its first batch to the marker; the first is a client's clock, the second a broker's
    - transactional_id, and of the newest record of that id in `__transaction_state` coordinator_state,
      coordinator_producer_id, coordinator_producer_epoch, transaction_timeout_ms, transaction_start_timestamp,
      transaction_last_update_timestamp: what the coordinator says now; null where no record names the producer id

    Times are epoch milliseconds. Workers must see the directories under the same paths, and have this package.
    """
    audited = replicas(directory)
    clusters = cluster_ids(directory)
    places = [place_of(partition) for partition in audited]
    named = [
        (number, clusters.get(place.copy), whole(place.copy), whole(place.topic), place.partition)
        for number, place in enumerate(places)
    ]
    table = _read(spark, [part for number, partition in enumerate(audited) for part in _parts(number, partition)])
    return spark.sql(queries.TRANSACTIONS, facts=table, places=spark.createDataFrame(named, _PLACES))


def _audit(directory: LogDirectory, settings: Settings, paths: tuple[str, ...], spark: SparkSession) -> rows.Audit:
    audited = replicas(directory)
    places = [place_of(partition) for partition in audited]
    tasks: list[Task] = []
    for number, partition in enumerate(audited):
        tasks += [*_parts(number, partition), Replica(number, partition, {})]
    try:
        table = _read(spark, tasks)
        table.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            said = _said(table)
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
                    said.segments(number),
                    log_start=partition.log_start_offset,
                    high_watermark=partition.high_watermark,
                )
                for number, (place, partition) in enumerate(zip(places, audited, strict=True))
            ],
            opens=opens,
            owners=owners,
            unreadable_ids=frozenset(places[number] for number in said.unreadable),
            metadata=read_metadata(audited),
            clusters=cluster_ids(directory),
            damage=tuple(said.damage),
            gaps=unlisted(directory),
            answers=[Placed(places[number], answer, audited[number].path) for number, answer in said.answers],
        ),
        settings,
    )


def _read(spark: SparkSession, tasks: list[Task]) -> DataFrame:
    """The table of facts, one Spark partition a share of the tasks."""
    shares = share_out(tasks, _size)
    numbers = spark.range(0, len(shares), 1, numPartitions=max(1, len(shares)))
    return numbers.mapInArrow(reader(shares), SPARK_SCHEMA)


def _parts(number: int, partition: Partition) -> list[Task]:
    """The segments of a replica, large ones in parts. The coordinator's are small, and their order matters."""
    parts: list[Task] = []
    for segment, file in enumerate(partition.segments):
        try:
            found = [(0, None)] if partition.topic == TRANSACTION_STATE else ranges(file, PART_BYTES)
        except OSError:
            found = [(0, None)]  # whoever reads it says what is wrong
        parts += [Part(number, segment, file, start, end) for start, end in found]
    return parts


def _size(task: Task) -> int:
    if isinstance(task, Replica):
        return sum(map(file_size, task.partition.segments))
    return (file_size(task.file) if task.end is None else task.end) - task.start


def _is_small(directory: LogDirectory) -> bool:
    return sum(file_size(file) for partition in directory.partitions for file in partition.segments) < SMALL_BYTES


class _Said:
    """What workers say beside batches and records, by the number of its place."""

    def __init__(self) -> None:
        self._parts: dict[int, dict[int, list[Segment]]] = defaultdict(lambda: defaultdict(list))
        self.answers: list[tuple[int, Answer]] = []
        self.damage: list[rows.Damage] = []
        self.unreadable: set[int] = set()

    def segments(self, place: int) -> list[Segment]:
        return [joined(parts) for parts in self._parts[place].values()]

    def add(self, kind: str, place: int, rank: int, value: bytes) -> None:
        """Take a row, in the order of ranks."""
        match kind:
            case "segment":
                self._parts[place][segment_of(rank)].append(decoded(value, Segment))
            case "answer":
                self.answers.append((place, decoded(value, Answer)))
            case "damage":
                self.damage.append(decoded(value, rows.Damage))
            case _:
                self.unreadable.add(place)


def _said(table: DataFrame) -> _Said:
    said = _Said()
    chosen = table.where("kind IN ('segment', 'answer', 'damage', 'unreadable')").select(
        "kind", "place", "rank", "value"
    )
    for row in sorted(chosen.toArrow().to_pylist(), key=lambda row: (row["place"], row["rank"])):
        said.add(**row)
    return said


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
