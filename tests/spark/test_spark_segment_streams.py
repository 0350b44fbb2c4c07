"""`kafka_segment` as a stream: nothing twice, nothing left out, whatever is restarted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.records import Record, build
from kafkawire.spark import register
from kafkawire.spark.segment_columns import RECORDS
from kafkawire.spark.segment_streams import SegmentStream
from kafkawire.spark.sources import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def batch(offset: int) -> bytes:
    return build([Record(b"k", b"v%d" % offset)], base_offset=offset)


class Log:
    """A partition that grows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "t-0"
        self.folder.mkdir()
        self.path = self.folder / f"{0:020}.log"
        self.next = 0

    def append(self, count: int = 1) -> None:
        with self.path.open("ab") as file:
            for _ in range(count):
                file.write(batch(self.next))
                self.next += 1

    def roll(self) -> None:
        self.path = self.folder / f"{self.next:020}.log"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def stream(log: Log, **options: str) -> SegmentStream:
    return SegmentStream(from_arrow_schema(RECORDS), SourceOptions({**options, "path": str(log.folder.parent)}))


def rows(found: SegmentStream, start: Any, end: Any) -> list[dict[str, Any]]:
    tasks = found.partitions(start, end)
    return [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]


def offsets(found: list[dict[str, Any]]) -> list[Any]:
    return sorted(row["offset"] for row in found if row["error"] is None)


def test_reads_each_batch_once(log: Log) -> None:
    read: list[dict[str, Any]] = []
    before: Any = stream(log).initialOffset()
    for step in range(6):
        log.append(step * 3)
        if step % 2:
            log.roll()
        found = stream(log, maxPartBytes="150")  # each time another, as after a restart
        end = found.latestOffset()
        part = rows(found, before, end)
        assert rows(found, before, end) == part
        read += part
        before = end
    assert offsets(read) == list(range(log.next))
    assert rows(stream(log), before, before) == []


def test_waits_for_the_end_of_a_half_written_batch(log: Log) -> None:
    log.append(2)
    half = batch(2)[:50]
    with log.path.open("ab") as file:
        file.write(half)
    found = stream(log)
    first = found.latestOffset()
    assert offsets(rows(found, {}, first)) == [0, 1]
    with log.path.open("ab") as file:
        file.write(batch(2)[50:])
    log.next = 3
    log.append()
    second = found.latestOffset()
    assert offsets(rows(found, first, second)) == [2, 3]


def test_a_torn_end_is_damage_once_the_segment_is_closed(log: Log) -> None:
    log.append(2)
    with log.path.open("ab") as file:
        file.write(batch(2)[:50])
    found = stream(log)
    first = found.latestOffset()
    assert not any(row["error"] for row in rows(found, {}, first))
    log.next = 3
    log.roll()
    log.append()
    second = found.latestOffset()
    read = rows(found, first, second)
    assert offsets(read) == [3]
    assert [row["error"][:9] for row in read if row["error"]] == ["truncated"]


def test_reports_a_log_that_became_shorter(log: Log) -> None:
    log.append(3)
    found = stream(log)
    first = found.latestOffset()
    log.path.write_bytes(batch(0))
    second = found.latestOffset()
    (row,) = rows(found, first, second)
    assert "became shorter" in row["error"]
    log.next = 1
    log.append()
    third = found.latestOffset()
    assert offsets(rows(found, second, third)) == [1]


@pytest.mark.parametrize("values", [[b"other"] * 5, [b"v9"] * 5], ids=["of other sizes", "of the same size"])
def test_reports_read_batches_that_were_replaced(log: Log, values: list[bytes]) -> None:
    """A broker that comes back as a follower cuts its log, and goes on with what the new leader has."""
    log.append(3)
    found = stream(log)
    first = found.latestOffset()
    assert offsets(rows(found, {}, first)) == [0, 1, 2]
    new = [build([Record(b"k", value)], base_offset=1 + i) for i, value in enumerate(values)]
    log.path.write_bytes(batch(0) + b"".join(new))
    second = found.latestOffset()
    for again in (found, stream(log)):  # as after a restart, too
        read = rows(again, first, second)
        assert offsets(read)[-2:] == [4, 5]
        (told,) = (row["error"] for row in read if row["error"] and "was cut off" in row["error"])
        assert f"up to byte {3 * len(batch(0))}" in told
    log.next = 6
    log.append(2)
    third = found.latestOffset()
    read = rows(found, second, third)
    assert [row["error"] for row in read] == [None, None]
    assert offsets(read) == [6, 7]


def test_reports_read_batches_that_were_replaced_by_as_many_bytes(log: Log) -> None:
    log.append(3)
    found = stream(log)
    first = found.latestOffset()
    log.path.write_bytes(batch(0) + batch(1) + build([Record(b"k", b"v9")], base_offset=2))
    (row,) = rows(found, first, found.latestOffset())
    assert "was cut off" in row["error"]


def test_reads_up_to_the_high_watermark(log: Log) -> None:
    """What followers may lack is left until the broker writes down that they have it."""
    checkpoint = log.folder.parent / "replication-offset-checkpoint"
    found = stream(log, highWatermark="true")
    log.append(4)
    log.roll()
    log.append(3)
    log.roll()
    log.append(2)
    before: Any = {}
    for high_watermark, expected in ((None, []), (3, [0, 1, 2]), (3, []), (6, [3, 4, 5]), (7, [6]), (9, [7, 8])):
        if high_watermark is not None:
            checkpoint.write_text(f"0\n1\nt 0 {high_watermark}\n")
        end = found.latestOffset()
        assert stream(log, highWatermark="true").latestOffset() == end  # as after a restart
        read = rows(found, before, end)
        assert offsets(read) == expected
        assert [row["error"] for row in read] == [None] * len(expected)
        before = end


def test_a_batch_that_reaches_the_high_watermark_is_left(log: Log) -> None:
    (log.folder.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    log.path.write_bytes(batch(0) + build([Record(b"k", b"v")] * 2, base_offset=1))
    found = stream(log, highWatermark="true")
    assert offsets(rows(found, {}, found.latestOffset())) == [0]


def test_checkpoints_without_checksums_are_read_on(log: Log) -> None:
    log.append(2)
    found = stream(log)
    before = {path: known[0] for path, known in found.latestOffset().items()}  # type: ignore[index]
    log.append(1)
    after = found.latestOffset()
    assert offsets(rows(stream(log), before, after)) == [2]
    assert offsets(rows(stream(log), {}, before)) == [0, 1]


def test_reports_a_segment_that_is_gone(log: Log) -> None:
    log.append(2)
    gone = log.path
    log.roll()
    log.append(1)
    end = stream(log).latestOffset()
    gone.unlink()
    read = rows(stream(log), {}, end)
    assert offsets(read) == [2]
    assert [row["error"] for row in read if row["error"]] == ["unreadable: No such file or directory"]


def test_a_restarted_query_reads_nothing_twice(
    spark: SparkSession, log: Log, tmp_path_factory: pytest.TempPathFactory
) -> None:
    register(spark)
    folder = tmp_path_factory.mktemp("sink")

    def run() -> None:
        query = (
            spark.readStream.format("kafka_segment")
            .load(str(log.folder.parent))
            .select("offset", "value", "error")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start(str(folder / "out"))
        )
        try:
            query.processAllAvailable()
            log.append(2)
            query.processAllAvailable()
        finally:
            query.stop()

    log.append(5)
    run()
    log.append(1)
    log.roll()
    log.append(3)
    run()
    found = spark.read.parquet(str(folder / "out")).collect()
    assert [row.error for row in found] == [None] * len(found)
    assert sorted((row.offset, bytes(row.value)) for row in found) == [(n, b"v%d" % n) for n in range(log.next)]
