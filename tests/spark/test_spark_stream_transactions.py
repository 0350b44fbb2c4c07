"""A stream of committed records: what is open is known from what was appended, as from the whole log."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.logdir.file_source import FileSource
from kafkawire.records import Record, build
from kafkawire.records.builder import build_marker
from kafkawire.spark.sources.log_points import LogPoints
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from kafkawire.spark.sources.stream_transactions import StreamTransactions
from tests.spark.test_spark_segment_streams import offsets, rows

pytestmark = pytest.mark.spark


class Log:
    """Transactions of three producers, one inside of another."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root, self.random, self.end, self.base = root, random, 0, 0
        self.folder = root / "t-0"
        self.folder.mkdir(parents=True)
        self.open: set[int] = set()
        self.ends = [0]
        self.append()

    def append(self, batches: int = 1, size: int = 1) -> None:
        for _ in range(batches):
            producer = self.random.randint(0, 3)
            if producer in self.open and self.random.random() < 0.5:
                self.open.discard(producer)
                name = self.random.choice(["COMMIT", "ABORT"])
                data = build_marker(
                    name, offset=self.end, timestamp=1, producer_id=producer, producer_epoch=0, coordinator_epoch=0
                )
                count = 1
            else:
                count = self.random.randint(1, 3)
                of_producer: Any = (
                    {"producer_id": producer, "producer_epoch": 0, "transactional": True} if producer else {}
                )
                data = build([Record(b"k", b"v" * size)] * count, base_offset=self.end, **of_producer)
                self.open |= {producer} - {0}
            path = self.folder / f"{self.base:020}.log"
            entry = struct.pack(">ii", self.end + count - 1 - self.base, path.stat().st_size if path.exists() else 0)
            with path.open("ab") as file, path.with_suffix(".index").open("ab") as index:
                file.write(data)
                index.write(entry)
            self.end += count
            self.ends.append(self.end)

    def roll(self) -> None:
        self.base = self.end
        (self.folder / f"{self.base:020}.log").touch()


@pytest.mark.parametrize("seed", range(20))
def test_the_outcomes_are_those_of_the_whole_log(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log = Log(tmp_path, random)
    transactions, position, mark = StreamTransactions(LogPoints()), 0, 0
    for _ in range(40):
        log.append(random.randint(0, 4))
        if random.random() < 0.2:
            log.roll()
        if random.random() < 0.3:
            mark = random.choice([end for end in log.ends if end >= mark])
            (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {mark}\n")
        if random.random() < 0.2:
            transactions = StreamTransactions(LogPoints())  # as after a restart
        (replica,) = logdir.open(tmp_path).partitions
        found, whole = transactions.outcomes(replica, position), logdir.outcomes_of(replica)
        assert found is not None
        assert (found.start, found.last_stable_offset, found.high_watermark) == (
            whole.start,
            whole.last_stable_offset,
            whole.high_watermark,
        )
        for batch in (one for file in replica.segments for one in file.batches()):
            if position <= batch.base_offset < whole.last_stable_offset:  # type: ignore[union-attr]
                assert found.state(batch) == whole.state(batch)  # type: ignore[arg-type]
        most, mark = max(position, whole.last_stable_offset), whole.high_watermark
        position = random.choice([end for end in log.ends if position <= end <= most])


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_trigger_costs_what_was_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """Not what the active segment holds; nor a restart."""
    log = Log(tmp_path, Random(1))
    log.append(1000, size=20_000)

    def stream() -> SegmentStream:
        options = {"path": str(tmp_path), "isolationLevel": level}
        return SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options))

    found, before = stream(), {}
    before = found.latestOffset(found.initialOffset())
    log.append(2)
    before = found.latestOffset(before)
    read: list[int] = []
    whole = FileSource._read
    monkeypatch.setattr(
        FileSource, "_read", lambda self, *given: read.append(len(whole(self, *given))) or whole(self, *given)
    )
    size = sum(path.stat().st_size for path in log.folder.iterdir())
    for restarted in (False, True):
        log.append(4)
        read.clear()
        found = stream() if restarted else found
        after = found.latestOffset(before)
        found.partitions(before, after)
        assert sum(read) < size / 10
        before = after


def test_delivered_is_what_is_committed(tmp_path: Path) -> None:
    random = Random(3)
    log = Log(tmp_path, random)
    options = {"path": str(tmp_path), "isolationLevel": "read_committed", "maxOffsetsPerTrigger": "5"}
    found, read = SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options)), []
    before = found.initialOffset()
    for _ in range(150):
        log.append(random.randint(0, 2))
        if random.random() < 0.3:
            found = SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options))
        after = found.latestOffset(before, found.getDefaultReadLimit())
        read += offsets(rows(found, before, after))
        before = after
    while (after := found.latestOffset(before, found.getDefaultReadLimit())) != before:
        read += offsets(rows(found, before, after))
        before = after
    (replica,) = logdir.open(tmp_path).partitions
    view = logdir.View(outcomes=logdir.outcomes_of(replica), isolation_level="read_committed")
    batches = [batch for file in replica.segments for batch in file.batches()]
    expected = [record.offset for batch in batches if view.reads(batch) is True for record in batch.records]  # type: ignore[arg-type,union-attr]
    assert read == expected
    assert len(expected) > 20
