"""Files that change while they are read, files that are none, and files that are large."""

from __future__ import annotations

import os
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, rows
from kafkawire.logdir import Options
from kafkawire.logdir.splits import batches_of, ranges
from kafkawire.records import Damage, Record, build
from kafkawire.records.header import HEADER
from tests.shortened import cut_when_read

NAME = f"{0:020}"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "t-0"
    folder.mkdir()
    return folder


def large(path: Path, batches: int, value: bytes = b"v" * 200, **options: Any) -> int:
    """A log of many batches of 100 records; returns its size."""
    one = bytearray(build([Record(b"k", value) for _ in range(100)], **options))
    with path.open("wb") as file:
        for number in range(batches):
            one[:8] = (number * 100).to_bytes(8, "big")
            file.write(one)
    return path.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("options", [Options(), Options(deep=True, payloads=True)])
def test_reports_a_log_truncated_while_it_is_read(partition: Path, options: Options) -> None:
    path = partition / f"{NAME}.log"
    size = large(path, 1000)
    (file,) = logdir.open(path).files
    found = logdir.rows_of(file, options)
    first = list(islice(found, 50))
    os.truncate(path, size // 1000 + 1)
    rest = list(found)
    assert not any(isinstance(row, rows.DamageRow) for row in first)
    *whole, last = rest
    assert isinstance(last, rows.DamageRow)
    assert (last.reason, last.harmless) == ("truncated", False)
    assert not any(isinstance(row, rows.DamageRow) for row in whole)


def test_reads_a_growing_log(partition: Path) -> None:
    """What was there when it was opened is read, and nothing else: the end may be half written."""
    path = partition / f"{NAME}.log"
    large(path, 1000)
    data = path.read_bytes()
    (file,) = logdir.open(path).files
    found = logdir.rows_of(file)
    read = [next(found)]
    with path.open("ab") as growing:
        growing.write(data[:100])
    read += found
    assert [type(row) for row in read] == [rows.BatchRow] * 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex"])
def test_reads_an_index_truncated_while_it_is_read(partition: Path, kind: str) -> None:
    path = partition / f"{NAME}.{kind}"
    path.write_bytes(bytes(2) + b"".join(bytes([1, *bytes(6), number % 256]) for number in range(100_000)))
    (file,) = logdir.open(path).files
    found = logdir.rows_of(file)
    next(found)
    os.truncate(path, 5)
    for row in found:
        position = getattr(row, "position", 0)
        assert 0 <= position < 800_002


_ENTRIES = {"index": (4, 4), "timeindex": (8, 4), "txnindex": (2, 8, 8, 8, 8)}


@pytest.mark.parametrize("kind", _ENTRIES)
@pytest.mark.parametrize("mode", ["show", "verify"])
def test_reports_an_index_truncated_while_it_is_read(
    partition: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: Any
) -> None:
    size = sum(_ENTRIES[kind])
    path = partition / f"{NAME}.{kind}"
    entries = (
        (number if size > width else 0).to_bytes(width, "big") for number in range(9) for width in _ENTRIES[kind]
    )
    path.write_bytes(b"".join(entries) if kind != "txnindex" else bytes(9 * size))
    for cut in (0, 3 * size, 3 * size + 1):
        path.write_bytes(path.read_bytes().ljust(9 * size, b"\0"))
        with monkeypatch.context() as patched:
            cut_when_read(patched, path, cut)
            (file,) = logdir.open(path).files
            damaged = [row for row in logdir.rows_of(file, Options(indexes=mode)) if isinstance(row, rows.DamageRow)]
        without_log = [one.reason for one in damaged if one.reason == "missing"]
        assert without_log == (["missing"] if mode == "verify" else [])
        *_, damage = (one for one in damaged if one.reason != "missing")
        assert (damage.reason, damage.position, damage.harmless) == ("truncated", cut - cut % size, False)
        assert damage.detail == f"ended at {cut}, was {9 * size} when opened"


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_reports_a_log_truncated_while_its_index_is_checked(
    partition: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is no mismatch of the index, and the check has not passed."""
    log = partition / f"{NAME}.log"
    size = large(log, 200)
    path = partition / f"{NAME}.{kind}"
    offsets = [(number * 100 + 99, number * (size // 200)) for number in range(200)]
    if kind == "index":
        path.write_bytes(b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in offsets))
    else:
        path.write_bytes(b"".join(n.to_bytes(8, "big") + o.to_bytes(4, "big") for n, (o, _) in enumerate(offsets)))
    cut_when_read(monkeypatch, log, size // 2)
    (file,) = (file for file in logdir.open(partition).files if file.kind == kind)
    *damage, check = logdir.rows_of(file, Options(indexes="verify"))
    assert isinstance(check, rows.Check)
    assert not check.passed
    assert isinstance(damage[-1], rows.DamageRow)
    assert damage[-1].detail == f"the log ended at {size // 2}, was {size} when opened: not every entry was checked"
    if kind == "index":
        assert len(damage) == 1


def test_reports_small_files_truncated_while_they_are_read(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is gone must not look like one that was never there."""
    for name in ("leader-epoch-checkpoint", "partition.metadata", f"{NAME}.snapshot"):
        path = partition / name
        path.write_bytes(b"version: 0\ntopic_id: A\n")
        with monkeypatch.context() as patched:
            cut_when_read(patched, path, 11)
            (file,) = logdir.open(path).files
            (damage,) = logdir.rows_of(file)
        assert isinstance(damage, rows.DamageRow)
        assert (damage.reason, damage.detail) == ("truncated", "ended at 11, was 23 when opened")
    found = logdir.open(partition).partitions[0].latest_snapshot()
    assert found is not None
    path.write_bytes(bytes(23))
    cut_when_read(monkeypatch, path, 11)
    found = logdir.open(partition).partitions[0].latest_snapshot()
    assert found is not None
    assert [(item.reason, item.shortened) for item in found[1] if isinstance(item, Damage)] == [("truncated", True)]


def test_reads_a_segment_with_a_truncated_time_index(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last entry would be the newest timestamp."""
    for base in (0, 100):
        log = partition / f"{base:020}.log"
        log.write_bytes(build([Record(b"k", timestamp=5000)] * 100, base_offset=base))
    times = partition / f"{NAME}.timeindex"
    times.write_bytes(b"".join(n.to_bytes(8, "big") + o.to_bytes(4, "big") for n, o in ((1000, 9), (5000, 99))))
    cut_when_read(monkeypatch, times, 12)
    segments = logdir.open(partition).partitions[0].segments
    found = logdir.wanted_files(segments, logdir.Selection(times=(4000, None)))
    assert [file.offset for file in found] == [0, 100]


def test_reports_a_part_truncated_after_the_split(partition: Path) -> None:
    """As where another process reads it, later."""
    path = partition / f"{NAME}.log"
    size = large(path, 200)
    (file,) = logdir.open(path).files
    (first, *_, last) = ranges(file, size // 4)
    os.truncate(path, size // 200)
    for start, end in (first, last):
        *_, damage = batches_of(file, start, end)
        assert isinstance(damage, Damage)
        assert damage.shortened
        assert damage.detail == f"ended at {size // 200}, was {end or start} when opened"


def test_index_check_survives_removal_of_the_log(partition: Path) -> None:
    log = partition / f"{NAME}.log"
    size = large(log, 200)
    index = partition / f"{NAME}.index"
    entries = [(number * 100 + 99, number * (size // 200)) for number in range(200)]
    index.write_bytes(b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in entries))
    (file,) = logdir.open(index).files
    found = logdir.rows_of(file)
    next(found)
    log.unlink()
    assert len(list(found)) == 199  # it is still open


def test_removed_file_is_reported(partition: Path) -> None:
    path = partition / f"{NAME}.log"
    path.write_bytes(b"")
    (file,) = logdir.open(path).files
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(logdir.rows_of(file))


def test_refuses_a_pipe(partition: Path) -> None:
    """Opening one to read would wait for a writer for ever."""
    os.mkfifo(partition / f"{NAME}.log")
    os.mkfifo(partition / "leader-epoch-checkpoint")
    (partition / f"{NAME}.index").write_bytes(bytes(7) + b"\1")
    for file in logdir.open(partition).files:
        if file.kind == "index":
            _, damage = file  # nothing to check it against
            assert isinstance(damage, rows.DamageRow)
            assert damage.detail == "the log beside it: not a regular file: no entry was checked"
        else:
            with pytest.raises(OSError, match="not a regular file"):
                list(file)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("options", [Options(), Options(deep=True, payloads=True)])
def test_memory_is_bounded(partition: Path, codec: str, options: Options) -> None:
    path = partition / f"{NAME}.log"
    batches = 40  # of 2 MB
    large(path, batches, b"v" * 20_000, codec=codec)
    (file,) = logdir.open(path).files
    for _ in islice(logdir.rows_of(file, options), 3):
        pass  # imports are no part of it
    tracemalloc.start()
    try:
        read = sum(isinstance(row, rows.BatchRow) for row in logdir.rows_of(file, options))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == batches
    assert peak < 20 << 20


def test_headers_are_read_without_payloads(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkawire.records import batch

    def none(*_: object) -> object:
        raise AssertionError("a payload was looked into")

    large(partition / f"{NAME}.log", 20, codec="gzip")
    monkeypatch.setattr(batch, "decompress", none)
    monkeypatch.setattr(batch, "read_records", none)
    (file,) = logdir.open(partition).files
    found = list(logdir.rows_of(file))
    assert len(found) == 20
    assert all(isinstance(row, rows.BatchRow) and row.size > HEADER.size for row in found)


@pytest.mark.slow
def test_reads_a_preallocated_log(partition: Path) -> None:
    path = partition / f"{NAME}.log"
    size = large(path, 3)
    os.truncate(path, 100 << 20)
    (file,) = logdir.open(path).files
    *batches, tail = logdir.rows_of(file)
    assert [type(row) for row in batches] == [rows.BatchRow] * 3
    assert isinstance(tail, rows.DamageRow)
    assert (tail.position, tail.reason, tail.harmless) == (size, "preallocated", True)


def test_index_of_zeros_is_empty(partition: Path) -> None:
    for kind in ("index", "timeindex"):
        path = partition / f"{NAME}.{kind}"
        with path.open("wb") as file:
            file.truncate(40 << 20)  # more than a piece
        assert list(logdir.open(path).files[0]) == []
    with (partition / f"{NAME}.index").open("wb") as file:
        file.truncate(3 << 30)
    (row,) = logdir.open(partition / f"{NAME}.index").files[0]
    assert isinstance(row, rows.DamageRow)
    assert row.reason == "too_large"


def test_reads_indexes_of_tiered_storage(tmp_path: Path) -> None:
    cache = tmp_path / "remote-log-index-cache"
    cache.mkdir()
    path = cache / "23_0Q2rH1XuTrKMeE3vqs_3yA.index"
    path.write_bytes(bytes.fromhex("0000000500000400"))
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\n")
    directory = logdir.open(tmp_path)
    assert [(broker.root, broker.node_id) for broker in directory.brokers] == [(str(tmp_path), 3)]
    (entry,) = [row for file in directory.files for row in file if isinstance(row, rows.Index)]
    assert (entry.offset, entry.log_position, entry.topic) == (28, 1024, None)
