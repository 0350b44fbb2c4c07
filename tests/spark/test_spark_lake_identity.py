"""The lake knows a log by the id of its topic and by leader epochs: a topic that was created again, an election that
cut off what the table has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark import lake
from kafkawire.spark.errors import SparkError
from kafkawire.spark.lake import appending
from kafkawire.spark.lake.lake_tables import LakeTable, Progress
from tests.spark.growing_logs import GrowingLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class FilesTable(LakeTable):
    """Parquet files, and the progress beside them: Delta and Iceberg need jars."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, "lake_of_files")
        self.folder = folder

    def create(self, columns: str) -> None:
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING parquet LOCATION '{self.folder / 'rows'}'"
        )

    def progress(self) -> Progress | None:
        path = self.folder / "progress"
        return Progress.read(path.read_text()) if path.exists() else None

    def append(self, rows: DataFrame, progress: Progress) -> None:
        rows.write.insertInto(self.name)
        (self.folder / "progress").write_text(progress.text())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilesTable]:
    (tmp_path / "table").mkdir()
    made = FilesTable(spark, tmp_path / "table")
    monkeypatch.setattr(appending, "lake_table", lambda *_: made)
    yield made
    spark.sql(f"DROP TABLE IF EXISTS {made.name}")


@pytest.fixture
def log(tmp_path: Path) -> GrowingLog:
    log = GrowingLog(tmp_path / "logs", Random(1))
    log.append()
    return log


def append(table: FilesTable, log: GrowingLog, **options: str) -> lake.Appended:
    return lake.append(table.spark, [str(log.root)], "t", format="delta", options={"highWatermark": "false", **options})


def values(table: FilesTable) -> list[bytes]:
    return sorted(bytes(row.value) for row in table.spark.table(table.name).collect())


def append_while(change: Callable[[], None], table: FilesTable, log: GrowingLog) -> lake.Appended:
    """An append whose log changes after headers were read, and before the records are."""
    append_rows = table.append

    def changed(rows: DataFrame, progress: Progress) -> None:
        change()
        append_rows(rows, progress)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table, "append", changed)
        return append(table, log)


def assert_no_row_while(change: Callable[[], None], table: FilesTable, log: GrowingLog) -> None:
    """The run fails and writes nothing; the next one reads what the log has."""
    with pytest.raises(SparkError, match="t-0 changed while it was read"):
        append_while(change, table, log)
    assert (values(table), table.progress()) == ([], None)
    append(table, log)
    assert values(table) == sorted(one.value for one in log.records)


def test_a_topic_that_is_created_again_is_held(table: FilesTable, log: GrowingLog) -> None:
    append(table, log)
    before, former, end = [one.value for one in log.records], log.topic_id, log.end
    progress = table.progress()
    assert progress is not None
    assert (progress.cluster, progress.topic_ids, progress.epochs) == (
        "b7f2c1d0T0uKkP4cQ3v1xA",
        {"t": {0: str(former)}},
        {"t": {0: 0}},
    )
    log.create()
    while log.end <= end:  # further than the table has the log before
        log.append()
    (held,) = append(table, log).held
    assert held.reason == (
        f"the topic was created again: its id is {log.topic_id}, the table has that of {former} up to offset {end}; "
        "startingOffsets names where the new one begins"
    )
    assert values(table) == sorted(before)
    done = append(table, log, startingOffsets='{"t":{"0":0}}')
    assert (done.offsets, done.held) == ({("t", 0): log.end}, ())
    assert values(table) == sorted([*before, *(one.value for one in log.records)])
    log.append()
    assert append(table, log).offsets == {("t", 0): log.end}
    with pytest.raises(SparkError, match=f"startingOffsets names t-0 at 1; the table has it up to {log.end}"):
        append(table, log, startingOffsets='{"t":{"0":1}}')


def test_a_copy_of_the_former_topic_is_read_on_beside_the_new_one(table: FilesTable, log: GrowingLog) -> None:
    append(table, log)
    other = GrowingLog(log.root.parent / "other", Random(2))
    other.create()
    other.append()
    log.append()
    done = lake.append(
        table.spark, [str(log.root), str(other.root)], "t", format="delta", options={"highWatermark": "false"}
    )
    assert done.offsets == {("t", 0): log.end}
    (held,) = done.held
    assert str(other.topic_id) in held.reason
    assert values(table) == sorted(one.value for one in log.records)


def test_what_an_election_cut_off_of_the_table_is_held(table: FilesTable, log: GrowingLog) -> None:
    while log.end < 20:
        log.append()
    append(table, log)
    end = log.end
    while log.end == end:
        log.elect()
    cut, epoch = log.epochs[-1][1], 0
    log.append()
    (held,) = append(table, log).held
    assert held.reason == (
        f"offsets {cut} to {end - 1}, which the table has up to leader epoch {epoch}, were cut off after a "
        "change of leader; startingOffsets names where to go on"
    )


def test_a_topic_that_is_created_again_while_a_run_reads_it_is_no_row_of_the_table(
    table: FilesTable, log: GrowingLog
) -> None:
    """Headers had been read, and at their offsets are other records now."""
    end = log.end

    def create() -> None:
        log.create()
        while log.end <= end:
            log.append()

    assert_no_row_while(create, table, log)


def test_what_an_election_cuts_off_while_a_run_reads_it_is_no_row_of_the_table(
    table: FilesTable, log: GrowingLog
) -> None:
    """Headers had been read, and a leader that has other records at these offsets is elected before these are: the
    first batch of the segment is still the same."""
    while log.end < 40:
        log.append()
    first, end = log.records[0], log.end

    def elect() -> None:
        while log.end == end:
            log.elect()
        while log.end <= end:
            log.append()

    assert_no_row_while(elect, table, log)
    assert log.records[0] == first


def test_an_election_that_cuts_off_nothing_of_what_a_run_reads_changes_nothing(
    table: FilesTable, log: GrowingLog
) -> None:
    expected = [one.value for one in log.records]

    def elect() -> None:
        log.epochs.append((7, log.end))
        log._write_epochs()
        log.append()

    assert append_while(elect, table, log).held == ()
    assert values(table) == sorted(expected)
