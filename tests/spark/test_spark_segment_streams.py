"""`kafka_segment` as a stream: nothing twice, nothing left out, whatever is restarted."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.logdir import LogFile
from kafkawire.records import Batch, Record, build
from kafkawire.records import read as read_batches
from kafkawire.spark import register
from kafkawire.spark.sources import source_base
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tests.consumed import RELEASES, Replicas
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def batch(offset: int) -> bytes:
    return build([Record(b"k", b"v%d" % offset)], base_offset=offset)


class Log:
    """A partition that grows."""

    def __init__(self, folder: Path, name: str = "t-0") -> None:
        self.folder = folder / name
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
    """A broker that comes back as a follower cuts its log, and continues with what the new leader has."""
    log.append(3)
    found = stream(log)
    first = found.latestOffset()
    assert offsets(rows(found, {}, first)) == [0, 1, 2]
    new = [build([Record(b"k", value)], base_offset=1 + i) for i, value in enumerate(values)]
    log.path.write_bytes(batch(0) + b"".join(new))
    second = found.latestOffset()
    for again in (found, stream(log)):  # as after a restart, too
        read = rows(again, first, second)
        assert offsets(read) == [3, 4, 5]
        (cut_off,) = (row["error"] for row in read if row["error"])
        assert "before offset 3 were cut off" in cut_off
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
    assert "were cut off" in row["error"]


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


def test_checkpoints_of_earlier_versions_are_read_on(log: Log) -> None:
    log.append(2)
    size = log.path.stat().st_size
    log.append(1)
    after = stream(log).latestOffset()
    for old in (size, [size, zlib.crc32(batch(0) + batch(1))]):
        before = {str(log.path): old, str(log.folder / f"{3:020}.log"): 0}
        assert offsets(rows(stream(log), before, after)) == [2]
        assert offsets(rows(stream(log), {}, before)) == [0, 1]
        assert stream(log).latestOffset(before) == after
    with pytest.raises(
        ValueError, match=r"the checkpoint is not one of kafka_segment: {'files': 3}; start with another"
    ):
        stream(log).latestOffset({"files": 3})


def test_reports_a_segment_that_is_gone(log: Log) -> None:
    log.append(2)
    gone = log.path
    log.roll()
    log.append(1)
    start, end = stream(log).initialOffset(), stream(log).latestOffset()
    gone.unlink()
    read = rows(stream(log), start, end)
    assert offsets(read) == [2]
    assert [row["error"] for row in read if row["error"]] == [
        "out_of_range: offsets 0 to 1 were removed before they were read"
    ]
    log.path.unlink()
    found = stream(log)
    read = rows(found, start, end)
    assert [row["error"] for row in read] == [
        "unreadable: no copy of the log is there any more, of which offset 0 to offset 3 were to be read"
    ]
    assert found.latestOffset(end) == end


def test_reports_a_log_whose_newest_segment_is_gone(log: Log) -> None:
    """A follower that truncates below its newest segment removes that."""
    log.append(2)
    older = log.path
    log.roll()
    log.append(1)
    found = stream(log)
    first = found.latestOffset()
    log.path.unlink()
    older.write_bytes(batch(0))
    second = found.latestOffset(first)
    (row,) = rows(found, first, second)
    assert row["error"].startswith("truncated: the log became shorter: it ends at offset 1, ")
    log.path, log.next = older, 1
    log.append()
    assert offsets(rows(found, second, found.latestOffset(second))) == [1]


def test_offsets_list_partitions_not_segments(log: Log) -> None:
    log.append(1)
    size = len(json.dumps(stream(log).latestOffset()))
    for _ in range(20):
        log.roll()
        log.append(1)
    assert len(json.dumps(stream(log).latestOffset())) < size + 10


def test_an_idle_trigger_lists_only_changed_directories(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it costs does not grow with the number of segments."""
    log.append(1)
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / f"{0:020}.log").write_bytes(batch(0))
    for folder in (tmp_path, tmp_path / "t-0", tmp_path / "u-0"):
        os.utime(folder, (1_000_000_000, 1_000_000_000))
    found = stream(log)
    first = found.latestOffset(found.initialOffset())
    listed: list[str] = []
    opened: list[str] = []
    scandir, source = os.scandir, LogFile.source
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    monkeypatch.setattr(LogFile, "source", lambda self, *given: opened.append(self.path) or source(self, *given))
    assert found.latestOffset(first) == first
    assert (listed, opened) == ([], [])
    log.roll()
    log.append(1)
    second = found.latestOffset(first)
    assert listed == [str(log.folder)]
    metadata = log.folder / "partition.metadata"
    assert set(opened) <= {str(log.path), str(log.path.with_suffix(".index")), str(metadata)}
    assert offsets(rows(found, first, second)) == [1]


def test_replicas_that_are_deleted_or_moved_are_not_read_again(log: Log) -> None:
    log.append(2)
    found = stream(log)
    first = found.latestOffset()
    log.folder.rename(log.folder.with_name(f"t-0.{'0' * 32}-delete"))
    assert rows(found, first, found.latestOffset(first)) == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "earliest"}, [0, 1, 2, 3, 4, 5]),
        ({"startingOffsets": "latest"}, [4, 5]),
        ({"startingOffsets": '{"t":{"0":1}}'}, [1, 2, 3, 4, 5]),
        ({"startingOffsets": '{"t":{"0":3}}', "subscribe": "t"}, [3, 4, 5]),
        ({"subscribePattern": "u"}, []),
    ],
)
def test_begins_where_the_options_say(log: Log, options: dict[str, str], wanted: list[int]) -> None:
    log.path.write_bytes(build([Record(b"k", b"v")] * 2) + build([Record(b"k", b"v")] * 2, base_offset=2))
    start = stream(log, **options).initialOffset()
    log.next = 4
    log.append(1)
    log.roll()
    log.append(1)
    found = stream(log, **options)
    assert offsets(rows(found, start, found.latestOffset(start))) == wanted


def all_batches(found: SegmentStream, start: Any, limit: Any) -> list[list[int]]:
    """The offsets of each micro-batch, until nothing follows."""
    read = []
    while (end := found.latestOffset(start, limit)) != start:
        read.append(offsets(rows(found, start, end)))
        assert len(read) < 100
        start = end
    return read


@pytest.mark.parametrize("indexed", [False, True], ids=["without an index", "with an index"])
@pytest.mark.parametrize(
    ("option", "number", "most"),
    [("maxFilesPerTrigger", 2, 6), ("maxOffsetsPerTrigger", 4, 4), ("maxBytesPerTrigger", 5, 5)],
)
def test_limits_divide_what_is_there(log: Log, option: str, number: int, most: int, indexed: bool) -> None:
    """Nothing twice, nothing left out, no partition starved; a batch is read whatever the limit."""
    size = len(batch(0))
    other = Log(log.folder.parent, "u-0")
    for one, count in ((log, 24), (other, 6)):
        for number_of in range(count):
            if number_of and number_of % 3 == 0:
                one.roll()
            one.append()
            if indexed and number_of % 3 == 1:
                entry = (1).to_bytes(4, "big") + size.to_bytes(4, "big")
                one.path.with_suffix(".index").write_bytes(entry)
    given = number * size if option == "maxBytesPerTrigger" else number
    found = stream(log, **{option: str(given)})
    read = all_batches(found, found.initialOffset(), found.getDefaultReadLimit())
    assert sorted(offset for part in read for offset in part) == sorted([*range(24), *range(6)])
    assert max(len(part) for part in read) <= most
    assert len(read) <= 30 / most + 3
    one = stream(log, **{option: "1"})
    everything = all_batches(one, one.initialOffset(), one.getDefaultReadLimit())
    assert sorted(offset for part in everything for offset in part) == sorted([*range(24), *range(6)])


def test_a_query_for_what_is_there_now_reads_no_more(log: Log) -> None:
    log.append(5)
    found = stream(log, maxOffsetsPerTrigger="2")
    start = found.initialOffset()
    found.prepareForTriggerAvailableNow()
    log.append(3)
    read = all_batches(found, start, found.getDefaultReadLimit())
    assert read == [[0, 1], [2, 3], [4]]


def test_rejects_two_limits(log: Log) -> None:
    with pytest.raises(ValueError, match="only one of maxFilesPerTrigger, maxBytesPerTrigger can be given"):
        stream(log, maxFilesPerTrigger="1", maxBytesPerTrigger="1m")


def test_a_limit_needs_admission_control(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_base, "limits", None)
    with pytest.raises(ValueError, match=r"maxFilesPerTrigger needs PySpark 4.2 or newer"):
        stream(log, maxFilesPerTrigger="1")


def test_limits_make_micro_batches(spark: SparkSession, log: Log, tmp_path_factory: pytest.TempPathFactory) -> None:
    register(spark)
    log.append(6)
    query = (
        spark.readStream.format("kafka_segment")
        .option("maxOffsetsPerTrigger", "2")
        .load(str(log.folder.parent))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [2, 2, 2]


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


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_of_committed_records_waits_for_markers(tmp_path: Path, again: bool) -> None:
    """A log of a broker, batch by batch: what has been read is what a consumer gets, at every point and at last."""
    source = unpacked("read-committed") / "stopped" / "mixed-0"
    consumed = json.loads((unpacked("read-committed") / "consumed.json").read_text("utf-8"))["stopped"]
    options = {"path": str(tmp_path), "isolationLevel": "read_committed"}
    found = SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options))
    read: list[int] = []
    before: Any = {}
    (tmp_path / "mixed-0").mkdir()
    for segment in sorted(source.glob("*.log")):
        data = segment.read_bytes()
        for item in read_batches(data):
            assert isinstance(item, Batch)
            (tmp_path / "mixed-0" / segment.name).write_bytes(data[: item.position + item.size])
            if again:
                found = SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options))
            end = found.latestOffset(before)
            part = rows(found, before, end)
            assert [row["error"] for row in part if row["error"]] == []
            read += offsets(part)
            before = end
            (partition,) = logdir.open(tmp_path).partitions
            stable = logdir.outcomes_of(partition).last_stable_offset
            assert read == [offset for offset, *_ in consumed["records"]["mixed"] if offset < stable]
    assert read == [offset for offset, *_ in consumed["records"]["mixed"]]


@pytest.mark.parametrize("release", RELEASES)
def test_a_stream_of_a_log_that_grows_has_what_a_java_consumer_got(tmp_path: Path, release: str) -> None:
    """Segment by segment, each with its snapshot and index. Nothing is read before it is committed."""
    replicas = Replicas(release, 1)
    for name in ("log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        shutil.copy(replicas.path / name, tmp_path)
    found = SegmentStream(
        from_arrow_schema(RECORDS), SourceOptions({"path": str(tmp_path), "isolationLevel": "read_committed"})
    )
    for topic, records in replicas.records("read_committed").items():
        expected = [offset for offset, *_ in records]
        (tmp_path / f"{topic}-0").mkdir()
        read: list[int] = []
        before: Any = {}
        for segment in sorted((replicas.path / f"{topic}-0").glob("*.log")):
            for file in segment.parent.glob(f"{segment.stem}.*"):
                shutil.copy(file, tmp_path / f"{topic}-0")
            end = found.latestOffset(before)
            part = rows(found, before, end)
            assert [row["error"] for row in part if row["error"]] == []
            read += offsets(part)
            before = end
            assert read == expected[: len(read)]
        assert read == expected
        shutil.rmtree(tmp_path / f"{topic}-0")
