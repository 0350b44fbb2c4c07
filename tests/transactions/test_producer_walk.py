"""Batches that the engine takes as they lie in the log have the columns and counts of those whose headers are read."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path
from typing import NamedTuple

import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire import logdir, records
from kafkawire.logdir import LogFile
from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.splits import ranges
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.producer_append import Append
from kafkawire.transactions.parts import producer_walk, segment_scan
from kafkawire.transactions.parts.producer_walk import ProducerWalk
from kafkawire.transactions.parts.segment_scan import BatchScan, PartScan, SegmentState, read_part
from kafkawire.wire.backend import native

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is absent")

RECORD = records.Record(b"key", b"value", timestamp=1700)
_BASE, _LEADER_EPOCH, _CRC, _CHECKED = 0, 12, 17, 21
#: Where fields of a batch are that are set at will, and their layouts.
_FIELDS = {
    "attributes": (21, ">h"),
    "delta": (23, ">i"),
    "time": (35, ">q"),
    "producer": (43, ">q"),
    "epoch": (51, ">h"),
    "sequence": (53, ">i"),
    "count": (57, ">i"),
}

#: Batches whose fields are then changed: of data, compressed, of no record, and control batches: markers, one that is
#: no marker, one of two records, one without any, one with a header.
KINDS = (
    records.build([RECORD], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
    records.build([RECORD] * 3, producer_id=1, producer_epoch=0, base_sequence=3),
    records.build([RECORD] * 2),
    records.build([RECORD] * 20, producer_id=2, producer_epoch=0, base_sequence=0, codec="gzip", append_time=1900),
    records.build_marker("COMMIT", producer_id=1, producer_epoch=0, coordinator_epoch=7, offset=0, timestamp=1800),
    records.build_marker("ABORT", producer_id=2, producer_epoch=1, coordinator_epoch=-2, offset=0, timestamp=1800),
    records.build(
        [records.Record(bytes((0, 0, 0, 1)), bytes((0, 1, 0, 0, 0, 5)), timestamp=1700)], producer_id=1,
        producer_epoch=0, transactional=True, control=True,
    ),
    records.build(
        [records.Record(bytes((0, 0, 0, 1)), bytes((0, 0, 0, 0, 0, 5)), timestamp=1700)] * 2, producer_id=1,
        producer_epoch=0, transactional=True, control=True,
    ),
    records.build(
        [records.Record(bytes((0, 0, 0, 2)), bytes((0, 0, 0, 0, 0, 5)), timestamp=1700)], producer_id=1,
        producer_epoch=0, transactional=True, control=True,
    ),
    records.build([], last_offset=0, producer_id=1, producer_epoch=0, transactional=True, control=True),
)  # fmt: skip


class Written(NamedTuple):
    """A batch. `step`: from the offset after the batch before. `changed`: fields with other values."""

    kind: int
    step: int = 0
    leader_epoch: int = 3
    changed: tuple[tuple[str, int], ...] = ()


CHANGES = st.one_of(
    st.tuples(st.just("attributes"), st.sampled_from([0, 8, 16, 24, 32, 48, 49, 56, 64])),
    st.tuples(st.just("delta"), st.integers(0, 4)),
    st.tuples(st.just("time"), st.integers(-1, 2000)),
    st.tuples(st.just("producer"), st.integers(-1, 3)),
    st.tuples(st.just("epoch"), st.integers(-1, 3)),
    st.tuples(st.just("sequence"), st.integers(-2, 5)),
    st.tuples(st.just("count"), st.integers(0, 2)),
)
WRITTEN = st.builds(
    Written,
    st.integers(0, len(KINDS) - 1),
    st.sampled_from([0] * 12 + [1, 5, -1, -7]),
    st.sampled_from([3] * 6 + [2, 4, 5]),
    st.lists(CHANGES, max_size=2).map(tuple) | st.just(()),
)


def written(batches: list[Written]) -> bytes:
    data, following = bytearray(), 10
    for one in batches:
        batch = bytearray(KINDS[one.kind])
        base = max(0, following + one.step)
        struct.pack_into(">q", batch, _BASE, base)
        struct.pack_into(">i", batch, _LEADER_EPOCH, one.leader_epoch)
        for name, value in one.changed:
            at, layout = _FIELDS[name]
            struct.pack_into(layout, batch, at, value)
        struct.pack_into(">I", batch, _CRC, crc32c.crc32c(bytes(batch[_CHECKED:])))
        following = base + struct.unpack_from(">i", batch, 23)[0] + 1
        data += batch
    return bytes(data)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Logs, some with a byte that was overwritten, cut, or followed by something else."""
    data = written(draw(st.lists(WRITTEN, min_size=1, max_size=200)))
    if draw(st.booleans()):
        return data
    at = draw(st.integers(0, len(data) - 1))
    match draw(st.integers(0, 3)):
        case 0:
            return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data + bytes(draw(st.integers(1, 100)))
        case _:
            return data + records.build([RECORD], magic=1) + data


Parts = list[tuple[list[Append], PartScan]]


def read(file: LogFile, size: int, *, whole: bool) -> Parts:
    """Each part's batches of producers, and its counts."""
    found = []
    for start, end in [(0, None)] if whole else ranges(file, size):
        appends = list[Append]()
        for fact in read_part(file, SegmentState(file.offset or 0) if whole else None, start=start, end=end):
            if isinstance(fact, Appends):
                appends += fact
        assert isinstance(fact, PartScan)
        found.append((appends, fact))
    return found


def segment(root: str, data: bytes, topic: str) -> LogFile:
    folder = Path(root) / f"{topic}-0"
    folder.mkdir()
    (folder / f"{10:020}.log").write_bytes(data)
    (file,) = logdir.open(root).partitions[0].segments
    return file


@given(segments(), st.integers(100, 2000), st.booleans(), st.sampled_from(["orders", "__consumer_offsets"]))
@example(written([Written(0), Written(4)] * 100), 500, True, "orders")
def test_columns_and_counts_are_those_of_headers(data: bytes, size: int, whole: bool, topic: str) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        file = segment(root, data, topic)
        found = read(file, size, whole=whole)
        patch.setattr(segment_scan, "ENGINE", False)
        assert found == read(file, size, whole=whole)


@given(segments(), st.integers(1, 3000), st.integers(1, 3000), st.booleans(), st.booleans())
def test_chunks_and_windows_join(data: bytes, chunk: int, window: int, is_local: bool, whole: bool) -> None:
    """Of a file that the engine reads itself, and of another store's."""
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        file = segment(root, data, "orders")
        expected = read(file, 700, whole=whole)
        patch.setattr(producer_walk, "CHUNK", chunk)
        for name in ("AT_ONCE", "WINDOW"):
            patch.setattr(producer_walk, name, window)
        if not is_local:
            patch.setattr(FileSource, "descriptor", None)
        assert read(file, 700, whole=whole) == expected


def test_sound_logs_are_taken_whole_and_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    batches = [Written(0), Written(4), Written(1), Written(0), Written(5)]
    file, sizes = segment(str(tmp_path), written(batches * 60), "orders"), list[int]()
    take = ProducerWalk.take

    def noted(self: ProducerWalk, source: FileSource, position: int, stop: int) -> int:
        sizes.append(take(self, source, position, stop))
        return sizes[-1]

    def refused(self: FileSource, position: int, length: int) -> memoryview:
        raise AssertionError(f"{length} bytes are read again")

    monkeypatch.setattr(ProducerWalk, "take", noted)
    monkeypatch.setattr(FileSource, "at", refused)
    ((appends, scan),) = read(file, 0, whole=True)
    assert (sizes, len(appends), scan.bytes) == ([file.size], 300, file.size)


def test_a_long_batch_is_taken(tmp_path: Path) -> None:
    """Of more bytes than are read at once."""
    batch = records.build(
        [records.Record(None, bytes(300_000), timestamp=1700)], base_offset=10, producer_id=1, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    file = segment(str(tmp_path), batch, "orders")
    with file.source() as source:
        walk = ProducerWalk(BatchScan("orders", None), None)
        assert walk.take(source, 0, len(batch)) == len(batch)
    assert [len(appends) for appends in walk.drain()] == [1]


def test_a_file_that_became_shorter_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = written([Written(0), Written(4)] * 50)
    file = segment(str(tmp_path), data, "orders")
    with file.source() as source:
        os.truncate(file.path, 1000)
        walk = ProducerWalk(BatchScan("orders", None), None)
        assert 0 < walk.take(source, 0, len(data)) <= 1000
        assert walk.take(source, 1000, len(data)) == 0
