"""`audit`: the audit of `transactions` as a Spark job: workers read the replicas, one a task, the driver joins them.

There is no shuffle: what one replica says by itself (`transactions.replicas`) is small beside its batches. It is joined
and judged by the same functions as on one machine.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.spark.session import QUICK_START, SparkError, session_on
from kafkawire.spark.shares import file_size, in_folder, share_out
from kafkawire.transactions.assembly import conclude
from kafkawire.transactions.local import cluster_ids, facts_of, of_cluster
from kafkawire.transactions.metadata import handed_out, read_metadata
from kafkawire.transactions.reading import replicas
from kafkawire.transactions.replicas import ReplicaFacts, replica_facts
from kafkawire.transactions.settings import Settings, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30

_SCHEMA = "replica int, facts binary"


class Task(NamedTuple):
    """A replica to read: its number in the job, and what `replica_facts` takes."""

    replica: int
    partition: Partition
    expiration_ms: int
    handed_out: int | None


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    spark: SparkSession | None = None,
    master: str | None = None,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and hold the logs against the rules: the same
    answer as that of `transactions.audit`. A replica of a partition is read by one task.

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


def _audit(directory: LogDirectory, settings: Settings, paths: tuple[str, ...], spark: SparkSession) -> rows.Audit:
    audited = replicas(directory)
    metadata = read_metadata(audited)
    clusters = cluster_ids(directory)
    tasks = []
    for number, partition in enumerate(audited):
        known = of_cluster(partition.broker.root, metadata, clusters)
        expiration = resolve(settings, known).producer_id_expiration.value
        tasks.append(Task(number, partition, expiration, handed_out(known)))
    shares = share_out(tasks, lambda task: sum(map(file_size, task.partition.segments)))
    numbers = spark.range(0, len(shares), 1, numPartitions=max(1, len(shares)))
    try:
        read = numbers.mapInArrow(reader(shares, os.getcwd()), _SCHEMA).toArrow()
    except PySparkException as error:
        raise SparkError(f"the Spark job failed: {str(error).strip().splitlines()[0]}") from error
    found: dict[int, ReplicaFacts] = {
        row["replica"]: pickle.loads(row["facts"])
        for row in read.to_pylist()  # written by our own workers
    }
    facts = facts_of(directory, [found[number] for number in range(len(audited))], metadata, paths=paths)
    return conclude(facts, settings)


def reader(shares: list[list[Task]], folder: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: takes batches of numbers of shares, gives the facts of their replicas.

    Args:
        folder: where paths that are not absolute count from.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_folder(folder):
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                for task in shares[number]:
                    columns = [pa.array([task.replica], pa.int32()), pa.array([_facts(task)], pa.binary())]
                    yield pa.RecordBatch.from_arrays(columns, ["replica", "facts"])

    return read


def _facts(task: Task) -> bytes:
    return pickle.dumps(replica_facts(task.partition, expiration_ms=task.expiration_ms, handed_out=task.handed_out))


def _is_small(directory: LogDirectory) -> bool:
    return sum(file_size(file) for partition in directory.partitions for file in partition.segments) < SMALL_BYTES
