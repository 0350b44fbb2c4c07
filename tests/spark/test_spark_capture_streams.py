"""`kafka_pcap` as a stream: each capture once, whatever is restarted."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.logdir import LogFile
from kafkawire.spark import register
from kafkawire.spark.capture_source import CaptureStream
from kafkawire.spark.sources.capture_reader import EXCHANGES
from kafkawire.spark.sources.source_base import SourceOptions
from tests.capture.wiretap import Conversation, ask, ethernet, pcap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def bytes_of(number: int) -> bytes:
    """A capture whose client has a port of its own."""
    talk = Conversation(("10.0.0.1", 10_000 + number))
    for one in (1, 2):
        ask(talk, one)
    return pcap(map(ethernet, talk.close().packets))


def write(folder: Path, number: int, name: str | None = None) -> Path:
    """A capture that is moved there when it is whole."""
    path = folder / (name or f"{number:03}.pcap")
    part = folder / "_part"
    part.write_bytes(bytes_of(number))
    part.rename(path)
    return path


def stream(folder: Path, **options: str) -> CaptureStream:
    given = SourceOptions({"settleSeconds": "0", **options, "path": str(folder)})
    return CaptureStream(from_arrow_schema(EXCHANGES), given)


def rows(found: CaptureStream, start: Any, end: Any) -> list[dict[str, Any]]:
    tasks = found.partitions(start, end)
    return [row for task in tasks for batch in found.read(task) for row in batch.to_pylist()]


def clients(found: list[dict[str, Any]]) -> list[int]:
    """The number of the capture of each exchange."""
    return sorted(int(row["client"].rpartition(":")[2]) - 10_000 for row in found if row["problem"] is None)


def problems(found: list[dict[str, Any]]) -> list[str]:
    return [row["problem"] for row in found if row["problem"] is not None]


def test_reads_each_capture_once(tmp_path: Path) -> None:
    read: list[dict[str, Any]] = []
    before: Any = stream(tmp_path).initialOffset()
    written = 0
    for step in range(5):
        for _ in range(step):
            write(tmp_path, written)
            written += 1
        found = stream(tmp_path, maxPartBytes="300")  # each time another, as after a restart
        end = found.latestOffset()
        part = rows(found, before, end)
        assert sorted(rows(stream(tmp_path), before, end), key=str) == sorted(part, key=str)
        read += part
        before = end
    assert clients(read) == sorted([*range(written)] * 2)
    assert problems(read) == []
    assert rows(stream(tmp_path), before, before) == []


def test_a_capture_that_is_written_to_is_not_read_yet(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    found = stream(tmp_path, settleSeconds="3600")
    assert found.latestOffset() == {}
    long_ago = path.stat().st_mtime - 7200
    os.utime(path, (long_ago, long_ago))
    end = found.latestOffset()
    assert clients(rows(found, {}, end)) == [1, 1]
    with path.open("ab") as file:
        file.write(b"\0")
    assert found.latestOffset() == end
    restarted = stream(tmp_path, settleSeconds="3600")
    assert restarted.latestOffset(end, None) == end


def test_reports_a_capture_that_grew_after_it_was_read(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    found = stream(tmp_path)
    first = found.latestOffset()
    with path.open("ab") as file:
        file.write(bytes_of(2)[24:])
    # As it was when it was listed, though more is there.
    assert clients(rows(found, {}, first)) == [1, 1]
    second = found.latestOffset()
    (problem,) = problems(rows(found, first, second))
    assert problem == f"the file grew by {len(bytes_of(2)) - 24} bytes after it had been read; they are not read"
    assert rows(found, second, found.latestOffset()) == []


def test_reads_a_new_capture_under_an_old_name(tmp_path: Path) -> None:
    write(tmp_path, 1, "ring0")
    write(tmp_path, 2, "ring1")
    found = stream(tmp_path)
    first = found.latestOffset()
    write(tmp_path, 3, "ring0")
    second = found.latestOffset()
    assert clients(rows(found, first, second)) == [3, 3]
    # A task that comes too late for one reports it.
    assert problems(rows(found, {}, first)) == ["another file stands where a capture was, before that was read"]


def test_reports_a_capture_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and may not be read: it is not taken for one that is gone. When it can be read, it is."""
    write(tmp_path, 1)
    found = stream(tmp_path)

    def denied(_: LogFile) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "opened", denied)
        first = found.latestOffset()
        assert problems(rows(found, {}, first)) == ["Permission denied"]
        assert rows(found, first, found.latestOffset()) == []
    second = found.latestOffset()
    assert clients(rows(found, first, second)) == [1, 1]


def test_reports_a_capture_that_is_gone(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    found = stream(tmp_path)
    end = found.latestOffset()
    path.unlink()
    (row,) = rows(stream(tmp_path), {}, end)
    assert (row["file"], row["problem"]) == (str(path), "the file is gone before it was read")
    assert rows(found, end, found.latestOffset()) == []


def test_a_restarted_query_reads_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    folder = tmp_path / "captures"
    folder.mkdir()
    written = 0

    def add(count: int) -> None:
        nonlocal written
        for _ in range(count):
            write(folder, written)
            written += 1

    def run() -> None:
        query = (
            spark.readStream.format("kafka_pcap")
            .option("settleSeconds", "0")
            .load(str(folder))
            .select("client", "api", "problem")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start(str(tmp_path / "out"))
        )
        try:
            query.processAllAvailable()
            add(2)
            query.processAllAvailable()
        finally:
            query.stop()

    add(3)
    run()
    add(2)
    run()
    found = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert clients(found) == sorted([*range(written)] * 2)
    assert problems(found) == []


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_limits_take_the_oldest_captures_first(tmp_path: Path, option: str) -> None:
    for number in range(5):
        path = write(tmp_path, number, f"{9 - number}.pcap")
        os.utime(path, (number + 1, number + 1))
    size = len(bytes_of(0))
    found = stream(tmp_path, **{option: str(2 * size if option == "maxBytesPerTrigger" else 2)})
    start: Any = found.initialOffset()
    found.prepareForTriggerAvailableNow()
    write(tmp_path, 7)
    read = []
    while (end := found.latestOffset(start, found.getDefaultReadLimit())) != start:
        read.append(sorted(set(clients(rows(found, start, end)))))
        start = end
    assert read == [[0, 1], [2, 3], [4]]
    small = stream(tmp_path, maxBytesPerTrigger="1")
    assert len(small.latestOffset({}, small.getDefaultReadLimit())) == 1


def test_an_idle_trigger_opens_no_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)
    found = stream(tmp_path)
    first = found.latestOffset({})
    monkeypatch.setattr(LogFile, "opened", None)
    assert found.latestOffset(first) == first
