"""Batch reads of `kafka_segment` where a log directory changes between the plan of a query and its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions
from tests.spark.growing_logs import GrowingLog


class Planned:
    """A query that was planned."""

    def __init__(self, log: GrowingLog, **options: str) -> None:
        self.reader = SegmentReader(
            from_arrow_schema(RECORDS), SourceOptions({"path": str(log.root), "mode": "PERMISSIVE", **options})
        )
        self.tasks = self.reader.partitions()

    def rows(self) -> Iterator[dict[str, Any]]:
        for task in self.tasks:
            for batch in self.reader.read(task):
                yield from batch.to_pylist()


@pytest.fixture
def log(tmp_path: Path) -> GrowingLog:
    log = GrowingLog(tmp_path / "logs", Random(1))
    written(log)
    return log


def written(log: GrowingLog) -> None:
    """Records whose values are new, in the same segments each time."""
    log.random = Random(1)
    for _ in range(9):
        log.append()
        log.roll()
    log.append()


@pytest.mark.parametrize("size", ["32m", "100"])
def test_a_topic_that_is_created_again_before_the_tasks_read_is_not_taken_for_the_planned_one(
    log: GrowingLog, size: str
) -> None:
    """Its segments have the names of those that were planned, and its records other contents."""
    planned, strict = Planned(log, maxPartBytes=size), Planned(log, maxPartBytes=size, failOnDataLoss="true")
    segments, former = sorted(log.segments), log.topic_id
    log.create()
    written(log)
    assert sorted(log.segments) == segments
    found = list(planned.rows())
    assert {row["value"] for row in found} == {None}
    errors = {row["error"] for row in found}
    created = (
        f"out_of_range: the log was removed before it was read: the topic {former} was deleted, and created again "
        f"with the id {log.topic_id}"
    )
    assert created in errors
    assert all(error == created or error.startswith("truncated: ") for error in errors)
    with pytest.raises(SourceError, match=f"was deleted, and created again with the id {log.topic_id}"):
        list(strict.rows())


def test_a_new_directory_without_a_topic_id_is_not_taken_for_the_planned_one(log: GrowingLog) -> None:
    """A broker writes `partition.metadata` after it has made the directory."""
    planned, former = Planned(log, maxPartBytes="32m"), log.topic_id
    log.create()
    log.append()
    (log.folder / "partition.metadata").unlink()
    errors = {row["error"] for row in planned.rows()}
    assert f"unreadable: the directory has no topic id any more; it had {former}" in errors
    assert all(error.startswith("unreadable: ") for error in errors)


def test_what_was_planned_of_the_same_topic_is_read(log: GrowingLog) -> None:
    planned = Planned(log)
    expected = {one.value for one in log.records}
    log.append()
    log.roll()
    log.append()
    found = list(planned.rows())
    assert [row["error"] for row in found] == [None] * len(found)
    assert expected <= {row["value"] for row in found}


def test_a_log_without_a_topic_id_is_read_as_it_is(log: GrowingLog) -> None:
    (log.folder / "partition.metadata").unlink()
    assert sorted(row["value"] for row in Planned(log).rows()) == sorted(one.value for one in log.records)
