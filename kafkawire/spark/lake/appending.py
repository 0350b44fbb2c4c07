"""`append`: one run, which adds new records to the table, and reports the partitions that it held back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkawire.logdir.tier_keys import private_key
from kafkawire.spark.errors import SparkError
from kafkawire.spark.lake.lake_outcomes import BAD_RECORDS
from kafkawire.spark.lake.lake_parts import KNOWN, PART, REFUSED, TABLE_SPARK, Wanted, decided, records
from kafkawire.spark.lake.lake_tables import LakeTable, Progress, lake_table
from kafkawire.spark.listing.fleet_listing import OF_DRIVER, listing, partition_key
from kafkawire.spark.listing.found_replicas import FoundReplicas, found_in
from kafkawire.spark.listing.tier_listing import with_tiers
from kafkawire.spark.session.jobs import job, kept
from kafkawire.spark.session.task_sizing import TaskLimits, tasks_for
from kafkawire.spark.sources.offset_options import EARLIEST, SUBSCRIPTIONS, Place, bounds, subscription
from kafkawire.spark.sources.source_base import PART_BYTES, TIER_KEYS, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

T = TypeVar("T")

_START = "startingOffsets"
_OPTIONS = (*SUBSCRIPTIONS, _START, "highWatermark", "maxPartBytes", TIER_KEYS)


class Held(NamedTuple):
    """A partition that was read to `offset` only. `reason`: why reading stopped there."""

    topic: str
    partition: int
    offset: int
    reason: str


class Appended(NamedTuple):
    """What a run appended.

    Attributes:
        run: identifies its commit; None: there was nothing new, and no commit.
        offsets: of the partitions that moved: the offset before which records are in the table now.
        held: partitions that stopped before the end of their log. Open transactions are no reason to be here.
        unreadable: folders that could not be listed, and why.
    """

    run: str | None
    offsets: dict[Place, int]
    held: tuple[Held, ...] = ()
    unreadable: tuple[str, ...] = ()


def append(
    spark: SparkSession, paths: Sequence[str], table: str, *, format: str, options: Mapping[str, str] = {}
) -> Appended:
    """Append the committed records of log directories that the table does not have.

    The columns are those of Spark's Kafka source (`key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
    `timestampType`, `headers`). Of a partition with several replicas the one that
    reaches furthest is read (`copied_logs`), and before its segments those in a tier.
    Reading a partition stops (`held`) where it is damaged, where records cannot be decoded though their batch has the
    right checksum, where offsets are missing that compaction has not removed, and where a marker cannot be read; the
    other partitions are read on.

    Args:
        paths: log directories of one cluster, or folders that contain some; URIs as well.
        table: its name in a catalog; with a `/`, its path or URI. It is created if it does not exist.
        format: `delta` or `iceberg`, which the session must have.
        options: names in any case.
            `subscribe`, `subscribePattern`, `assign`: as for `kafka_segment`; without `subscribe` or `assign`, internal
            topics are left out.
            `startingOffsets`: JSON, `{"orders":{"0":23}}`: where these partitions go on, not before what the table has:
            after what is held, or in a table whose history no longer has the progress.
            `highWatermark`: `true` (default) reads up to the high watermark that brokers write every 5 s; `false` to
            the end of the files, where brokers may still replace records.
            `maxPartBytes`: bytes of a segment that a task reads, `32m` by default.
            `tierKeys`: files with the private keys of encrypted tiers, with commas between; workers read them, too.

    Raises:
        ValueError: an option that is unknown or has an invalid value.
        OSError: a path that is not there or may not be read.
        SparkError: the job failed, logs of another cluster, a table with rows but without progress, or another run
            committed at the same time. Nothing was appended, unless Spark lost the answer to a commit: the next run
            sees which.
    """
    unknown = sorted(set(map(str.lower, options)) - set(map(str.lower, _OPTIONS)))
    if unknown:
        raise ValueError(f"lake.append has no option {', '.join(unknown)}; the options are {', '.join(_OPTIONS)}")
    given = SourceOptions(options)
    wanted = Wanted(
        subscription(given),
        given.choice("highWatermark", ("true", "false")) == "true",
        given.size("maxPartBytes", PART_BYTES),
    )
    keys = given.texts(TIER_KEYS)
    for key in keys:
        private_key(key)
    return _Run(
        spark, list(map(os.fspath, paths)), lake_table(spark, table, format), wanted, _starts(given), keys
    ).result()


def _starts(options: SourceOptions) -> dict[Place, int]:
    start = bounds(options).start
    if start is None:
        return {}
    if not isinstance(start.value, dict) or EARLIEST in start.value.values():
        raise ValueError(f'{_START} is {{"orders":{{"0":23}}}} here: the offsets where partitions go on')
    return start.value


class _Run(NamedTuple):
    spark: SparkSession
    paths: list[str]
    table: LakeTable
    wanted: Wanted
    starts: dict[Place, int]
    tier_keys: tuple[str, ...] = ()

    def result(self) -> Appended:
        try:
            return self._appended()
        except SparkError as error:
            if BAD_RECORDS not in str(error):
                raise
        # Nothing was appended. To decode all records before is not worth it where, as nearly always, all can be.
        return self._replace(wanted=self.wanted._replace(decode=True))._appended()

    def _appended(self) -> Appended:
        with self._job("read the table's progress"):
            self.table.create(TABLE_SPARK)
            before = self.table.progress()
            recorded = before or Progress("", {})
            forgotten = before is None and not self.spark.table(self.table.name).isEmpty()
        if forgotten and not self.starts:
            raise SparkError(f"{self.table.name} has rows and no commit with progress: give {_START}")
        begin = self._begin(recorded)
        with kept(listing(self.spark, self.paths)) as listed:
            with self._job("list folders"):
                found = found_in(listed.where(OF_DRIVER).toArrow())
                count, tiers, size, files, *_ = found.size
                replicas = with_tiers(listed, tiers, self.tier_keys)
            cluster = _cluster(found, recorded, self.table.name)
            known = self._known(begin, recorded)
            limits = TaskLimits.of(self.spark)
            tasks = tasks_for(size, files, limits.tasks)
            with kept(decided(replicas.join(known, "partition", "left"), self.wanted, count, tasks)) as plan:
                with self._job("read headers"):
                    partitions = plan.where(f"kind <> {PART}").collect()
                self._check(partitions, forgotten)
                moved = {(row.topic, row.partition): row.end for row in partitions if row.end > row.start}
                run = uuid.uuid4().hex if moved else None
                if run is not None:
                    progress = self._progress(run, recorded, begin | moved, partitions, cluster)
                    rows = self._rows(plan, moved, sum(row.bytes for row in partitions), limits.tasks)
                    with self._job("append records"):
                        self.table.append(rows, progress)
        held = sorted(Held(row.topic, row.partition, row.end, row.held) for row in partitions if row.held)
        unreadable = tuple(f"{one.path}: {one.reason}" for one in found.unreadable)
        return Appended(run, moved, tuple(held), unreadable)

    def _begin(self, recorded: Progress) -> dict[Place, int]:
        """Where each partition that is known goes on."""
        return _by_place(recorded.offsets) | self.starts

    def _progress(
        self, run: str, recorded: Progress, ends: Mapping[Place, int], partitions: list[Row], cluster: str | None
    ) -> Progress:
        """The progress after a run. What is held without being read keeps its topic's id and its leader epoch."""
        read = {(row.topic, row.partition): row for row in partitions}
        ids, epochs = _by_place(recorded.topic_ids), _by_place(recorded.epochs)
        for place in ends:
            row = read.get(place)
            if row is not None and (row.end > row.start or place not in ids) and row.topic_id is not None:
                ids[place] = row.topic_id
            if row is not None and row.end > row.start and row.epoch is not None:
                epochs[place] = row.epoch
        return Progress(
            run, _by_topic(ends), cluster or recorded.cluster, topic_ids=_by_topic(ids), epochs=_by_topic(epochs)
        )

    def _check(self, partitions: list[Row], forgotten: bool) -> None:
        for row in partitions:
            if row.kind == REFUSED:
                where = f"{row.topic}-{row.partition} at {row.start}"
                raise SparkError(f"{_START} names {where}; the table has it up to {row.end}")
        there = {(row.topic, row.partition) for row in partitions}
        self.wanted.subscription.check(there)
        missing = sorted(({*there} if forgotten else set()) - set(self.starts)) + sorted(set(self.starts) - there)
        if missing:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in missing[:10])
            which = "each partition that is read" if forgotten else "partitions that are read"
            raise ValueError(f"{_START} must name {which}: {names}")

    def _known(self, begin: Mapping[Place, int], recorded: Progress) -> DataFrame:
        ends = _by_place(recorded.offsets)
        ids, epochs = _by_place(recorded.topic_ids), _by_place(recorded.epochs)
        rows = [
            (bytearray(partition_key(*one)), start, one in self.starts, ends.get(one), ids.get(one), epochs.get(one))
            for one, start in begin.items()
        ]
        return self.spark.createDataFrame(rows, KNOWN)

    def _rows(self, plan: DataFrame, moved: dict[Place, int], size: int, most: int) -> DataFrame:
        """The records up to the ends that were decided: a table that is computed again may come to later ones."""
        places = [(topic, partition, end) for (topic, partition), end in moved.items()]
        ends = self.spark.createDataFrame(places, "topic string, partition int, until bigint")
        parts = plan.where(f"kind = {PART}").join(ends, ["topic", "partition"])
        return records(parts.repartition(tasks_for(size, 0, most)))

    def _job(self, what: str) -> AbstractContextManager[None]:
        return job(self.spark, f"kafkawire lake: {what}")


def _by_place(found: Mapping[str, Mapping[int, T]]) -> dict[Place, T]:
    return {(topic, one): value for topic, values in found.items() for one, value in values.items()}


def _by_topic(found: Mapping[Place, T]) -> dict[str, dict[int, T]]:
    by_topic: dict[str, dict[int, T]] = {}
    for (topic, partition), value in found.items():
        by_topic.setdefault(topic, {})[partition] = value
    return by_topic


def _cluster(found: FoundReplicas, recorded: Progress, name: str) -> str | None:
    """The id of the cluster that the directories are of.

    Raises:
        SparkError: they are of several, or of another than the table's records.
    """
    ids = sorted(set(found.clusters.values()))
    if len(ids) > 1:
        raise SparkError(f"the log directories are of {len(ids)} clusters: {', '.join(ids[:5])}; a table has one")
    cluster = ids[0] if ids else None
    if cluster and recorded.cluster and cluster != recorded.cluster:
        raise SparkError(f"{name} has records of cluster {recorded.cluster}, the log directories are of {cluster}")
    return cluster
