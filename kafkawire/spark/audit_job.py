"""`audit`: the audit of `transactions` as a Spark job: workers read the replicas, one a task, the driver joins them.

There is no shuffle: the facts of one replica (`transactions.replica_facts`) are small beside its batches. The same
functions as on one machine join and judge them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.spark.jobs import Progress, job
from kafkawire.spark.session import QUICK_START, session_on
from kafkawire.spark.task_sizing import file_size, on_workers
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.audit_result import conclude
from kafkawire.transactions.checks.replica_agreement import replicas_agree, together
from kafkawire.transactions.cluster_metadata import read_metadata
from kafkawire.transactions.local_audit import cluster_ids, facts_of, to_read
from kafkawire.transactions.replica_facts import Replica, ReplicaFacts, replica_facts
from kafkawire.transactions.replica_files import replicas
from kafkawire.transactions.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Below this, a job is over before the Java runtime's optimising compiler has paid for itself.
SMALL_BYTES = 1 << 30

_SCHEMA = "task int, facts binary"


class ReplicaGroup(NamedTuple):
    """A task: the replicas of a partition to compare."""

    replicas: list[Partition]


AuditTask = Replica | ReplicaGroup


def audit(
    directory: LogDirectory,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = {},
    progress: Progress | None = None,
) -> rows.Audit:
    """Find and judge every open transaction in copied log directories, and check the logs against the rules. The
    result is that of `transactions.audit`. A replica of a partition is read by one task, and replicas of the same one
    are compared by one task.

    Args:
        paths: the names of the directories in the result.
        spark: the session to use; None: the running one, or one for this call. Its workers must see the directories
            under the same paths, and have this package (`ship`).
        master: where that one runs: `local[N]` (by default all cores), `spark://HOST:PORT`, `yarn`, `k8s://HOST:PORT`,
            or `sc://HOST:PORT` for Spark Connect.
        conf: settings of Spark.
        progress: is called with a description of a job, and how many of its tasks are done and there are.

    Raises:
        SparkError: Spark did not start, or the job failed.
        MissingExtraError: no Java that Spark accepts.
    """
    if spark is not None:
        return _audit(directory, settings, paths, spark, progress)
    with session_on(master, settings=QUICK_START if _is_small(directory) else {}, conf=conf) as session:
        return _audit(directory, settings, paths, session, progress)


def _audit(
    directory: LogDirectory, settings: Settings, paths: tuple[str, ...], spark: SparkSession, progress: Progress | None
) -> rows.Audit:
    audited = replicas(directory)
    metadata = read_metadata(audited)
    clusters = cluster_ids(directory)
    groups = together(audited, clusters)
    with job(spark, "kafkawire audit: read replicas", progress):
        found = _done([*to_read(audited, settings, metadata, clusters), *map(ReplicaGroup, groups)], spark)
    facts = facts_of(directory, found[: len(audited)], metadata, paths=paths)
    agreement = [placed for answers in found[len(audited) :] for placed in answers]
    if not groups:
        agreement = list(replicas_agree((), next(iter(audited), None)))
    return conclude(replace(facts, answers=[*facts.answers, *agreement]), settings)


def _done(tasks: list[AuditTask], spark: SparkSession) -> list[Any]:
    """What the tasks give, in their order: `ReplicaFacts` of a replica, the answers of a group."""
    answers = on_workers(spark, list(enumerate(tasks)), lambda task: _size(task[1]), _answer, _SCHEMA).toArrow()
    found = {row["task"]: row["facts"] for row in answers.to_pylist()}
    return [pickle.loads(found[number]) for number in range(len(tasks))]  # written by our own workers


def _answer(numbered: tuple[int, AuditTask]) -> Iterator[pa.RecordBatch]:
    number, task = numbered
    columns = [pa.array([number], pa.int32()), pa.array([pickle.dumps(_do(task))], pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, ["task", "facts"])


def _do(task: AuditTask) -> ReplicaFacts | list[Placed]:
    if isinstance(task, ReplicaGroup):
        return list(replicas_agree([task.replicas]))
    return replica_facts(task)


def _size(task: AuditTask) -> int:
    """Bytes to read."""
    partitions = task.replicas if isinstance(task, ReplicaGroup) else [task.partition]
    return sum(file_size(file) for partition in partitions for file in partition.segments)


def _is_small(directory: LogDirectory) -> bool:
    return sum(file_size(file) for partition in directory.partitions for file in partition.segments) < SMALL_BYTES
