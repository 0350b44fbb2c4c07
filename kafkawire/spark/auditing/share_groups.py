"""Share groups on Spark: the rules of `audit`, and `share_offsets`, what each offset is to each group, as a table.

A task takes partitions of `__share_group_state`, and reads what the groups in them have read, range by range, with the
code of one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.offsets.copied_shares import explained_shares, groups_in
from kafkawire.offsets.group_records import GroupLog
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import clusters, partition_answers
from kafkawire.offsets.share_copies import STATE_TOPIC
from kafkawire.rows import ShareRange
from kafkawire.rows.arrow import arrow_text
from kafkawire.spark.auditing.audit_tables import found_rows
from kafkawire.spark.auditing.outcome_rows import FOUND
from kafkawire.spark.errors import SparkError
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.task_sizing import Rows, TaskLimits, by_task
from kafkawire.transactions.answers import every_breach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkawire.transactions.facts import Place

SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("delivery_count", pa.int32()),
        ("doubt", pa.string()),
    ]
)


class StatePartition(NamedTuple):
    """A partition of `__share_group_state`; `cluster`: as `offsets.share_audit.clusters` names it."""

    cluster: str | None
    number: int


def state_partitions(places: Collection[Place], ids: dict[str, str]) -> list[StatePartition]:
    """The partitions of `__share_group_state` among the places of replicas. `ids`: of clusters, by log directory."""
    several = len({*ids.values()}) > 1
    return sorted(
        {
            StatePartition(ids.get(place.copy, place.copy) if several else None, place.partition)
            for place in places
            if place.topic == STATE_TOPIC
        }
    )


def share_answers(
    spark: SparkSession,
    paths: Sequence[str],
    chosen: Sequence[StatePartition],
    tier_keys: Sequence[str],
    *,
    whole: bool,
) -> DataFrame:
    """The answers of the rules of share groups, as rows of `outcome_rows.FOUND`.

    Args:
        chosen: a task for each, as far as the session allows. whole: with every violation.
    """

    def judge(replicas: LeadingReplicas, one: StatePartition) -> Iterator[pa.RecordBatch]:
        with every_breach(whole):
            answers = partition_answers(replicas, one.number)
        yield from found_rows(answers, whole=whole)

    return _by_state_partition(spark, paths, chosen, tier_keys, judge, FOUND.spark)


def share_offsets(paths: Sequence[str], spark: SparkSession, *, tier_keys: Sequence[str] = ()) -> DataFrame:
    """What each offset is to each share group (KIP-932), as a table: the ranges of `kafkawire explain --share-group` of
    all groups, with the names of topics and states.

    Columns: cluster, group, topic, topic_id, partition, first_offset, last_offset (both included), offsets (their
    number), status, reason, delivery_count (docs/share-groups.md), doubt (what of the state could not be read; null
    where all was). `topic` is null where no copy names the id.

    Args:
        paths: log directories, or folders that contain some; workers read them under the same paths.
        spark: the session.
        tier_keys: files with the RSA private keys (PEM) of encrypted tiers; workers read them, too.

    Raises:
        OSError: a path that is not there or may not be read.
    """
    directory = logdir.open(*paths, tier_keys=tier_keys)
    chosen = [
        StatePartition(name, number)
        for name, part in clusters(directory)
        for number in LeadingReplicas(part).numbers(STATE_TOPIC)
    ]
    return _by_state_partition(spark, paths, chosen, tier_keys, _ranges, from_arrow_schema(SCHEMA))


# On the workers ------------------------------------------------------------------------------------------------------


def _by_state_partition(
    spark: SparkSession,
    paths: Sequence[str],
    chosen: Sequence[StatePartition],
    tier_keys: Sequence[str],
    read: Callable[[LeadingReplicas, StatePartition], Iterator[pa.RecordBatch]],
    schema: Any,
) -> DataFrame:
    """What tasks read of partitions of the state. The directories are listed once in a task."""
    paths, tier_keys, listed = tuple(paths), tuple(tier_keys), tuple(chosen)

    def of_task(numbers: Rows) -> Iterator[pa.RecordBatch]:
        parts: dict[str | None, LeadingReplicas] = {}
        for row in numbers:
            if not parts:
                directory = logdir.open(*paths, tier_keys=tier_keys)
                parts = {name: LeadingReplicas(part) for name, part in clusters(directory)}
            one = listed[row["id"]]
            # Without replicas where the files of the cluster were removed since they were listed.
            yield from read(parts.get(one.cluster) or LeadingReplicas(logdir.LogDirectory([])), one)

    tasks = max(1, min(len(listed), TaskLimits.of(spark).tasks))
    return by_task(spark.range(0, len(listed), 1, tasks), of_task, schema)


def _ranges(replicas: LeadingReplicas, one: StatePartition) -> Iterator[pa.RecordBatch]:
    leading = replicas.of(STATE_TOPIC, one.number)
    if leading is None:
        raise SparkError(f"{STATE_TOPIC}-{one.number} is not there any more: it was removed since it was listed")
    yield from as_batches(_cells(replicas, leading.partition, one.number), SCHEMA)


def _cells(replicas: LeadingReplicas, partition: logdir.Partition, number: int) -> Iterator[tuple[Any, ...]]:
    cluster = partition.broker.cluster_id
    for group in groups_in(GroupLog(partition)):
        for share in explained_shares(replicas, group, number=number)[0]:
            key, doubt = share.source.key, "; ".join(share.source.problems) or None
            for row in share.rows(None):
                if isinstance(row, ShareRange):
                    yield (
                        cluster, arrow_text(group), row.topic, str(key.topic_id), key.partition, row.first_offset,
                        row.last_offset, row.offsets, row.status, row.reason, row.delivery_count, doubt,
                    )  # fmt: skip
