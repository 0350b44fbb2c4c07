"""What a selection leaves: the same, whether indexes are used to get there or everything is read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir import Options, Selection
from kafkawire.logdir.seek import start_position, wanted_files
from kafkawire.records import Record, build, build_marker

SEGMENTS = 4
PER_SEGMENT = 20  # batches of 5 offsets, the last record of each compacted away


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments with indexes; timestamps grow, but for one batch in each that is late by far."""
    folder = tmp_path_factory.mktemp("selection") / "t-0"
    folder.mkdir()
    offset = 0
    for _ in range(SEGMENTS):
        base, position, newest = offset, 0, -1
        log, index, times = b"", b"", b""
        for number in range(PER_SEGMENT):
            producer = number % 3
            time = 1_000 + offset * 10 if number != 7 else 50
            if number % 10 == 9:
                batch = build_marker(
                    "COMMIT", offset=offset, timestamp=time, producer_id=producer, producer_epoch=0, coordinator_epoch=0
                )
                last = offset
            else:
                listed = [Record(b"key%d" % (i % 2), b"v", offset=offset + i, timestamp=time + i) for i in range(4)]
                batch = build(
                    listed, base_offset=offset, last_offset=offset + 4, producer_id=producer, producer_epoch=0
                )
                last = offset + 4
            if number % 4 == 3:
                index += struct.pack(">ii", last - base, position)
            if time > newest and number % 5 == 4:
                newest = time + (0 if number % 10 == 9 else 3)
                times += struct.pack(">qi", newest, last - base)
            log += batch
            position += len(batch)
            offset = last + 1
        (folder / f"{base:020}.log").write_bytes(log)
        (folder / f"{base:020}.index").write_bytes(index + bytes(80))
        (folder / f"{base:020}.timeindex").write_bytes(times + bytes(120))
    return folder


ranges = st.tuples(st.none() | st.integers(-5, 450), st.none() | st.integers(-5, 450))
selections = st.builds(
    Selection,
    offsets=st.none() | ranges,
    times=st.none() | st.tuples(st.none() | st.integers(0, 5000), st.none() | st.integers(0, 5000)),
    producer_id=st.none() | st.integers(0, 3),
    key=st.none() | st.sampled_from([b"key0", b"key1", b"other"]),
    control=st.none() | st.booleans(),
)


def within(wanted: Any, value: int) -> bool:
    return wanted is None or ((wanted[0] is None or value >= wanted[0]) and (wanted[1] is None or value < wanted[1]))


@given(selection=selections)
def test_records_that_are_asked_for_and_no_others(partition: Path, selection: Selection) -> None:
    everything = [
        row for file in logdir.open(partition).files for row in logdir.rows_of(file, Options(deep=True, payloads=True))
    ]
    expected = [
        row.offset
        for row in everything
        if isinstance(row, rows.Record)
        and within(selection.offsets, row.offset)
        and within(selection.times, row.timestamp)
        and selection.producer_id in (None, row.producer_id)
        and (selection.key is None or row.key == selection.key.decode())
        and (selection.control is None or selection.control == (row.control is not None))
    ]  # fmt: skip
    found: list[rows.Row] = []
    for file in wanted_files(logdir.open(partition).files, selection):
        found += logdir.rows_of(file, Options(deep=True, payloads=True, selection=selection))
    assert [row.offset for row in found if isinstance(row, rows.Record)] == expected
    if selection.offsets is None:  # a batch may cover offsets of which compaction left no record
        batches = {row.position for row in found if isinstance(row, rows.Batch)}
        assert {row.position for row in found if isinstance(row, rows.Record)} == batches


def test_segments_are_skipped_by_name_and_by_time_index(partition: Path) -> None:
    files = logdir.open(partition).files
    bases = sorted(file.offset or 0 for file in files if file.kind == "log")

    def left(**criteria: Any) -> list[int | None]:
        return [file.offset for file in wanted_files(files, Selection(**criteria)) if file.kind == "log"]

    assert left() == bases
    assert left(offsets=(bases[1], bases[2])) == [bases[1]]
    assert left(offsets=(None, 1)) == [bases[0]]
    assert left(offsets=(bases[-1] + 5, None)) == [bases[-1]]
    # The last segment may still grow: its time index does not tell the newest.
    assert left(times=(1 << 40, None)) == [bases[-1]]
    assert left(times=(None, 10)) == bases  # old timestamps may be anywhere


def test_reading_begins_where_the_index_says(partition: Path) -> None:
    first = next(file for file in logdir.open(partition).files if file.kind == "log")
    (end,) = [entry for entry in logdir.rows_of(first.beside("index")) if isinstance(entry, rows.Index)][-1:]
    assert start_position(first, Selection(offsets=(end.offset, None))) == end.log_position
    assert start_position(first, Selection(offsets=(end.offset - 1, None))) < end.log_position
    assert start_position(first, Selection(offsets=(0, None))) == 0
    assert start_position(first, Selection(times=(1 << 40, None))) > 0
    assert start_position(first, Selection(producer_id=1)) == 0


@pytest.mark.parametrize("entry", [(80, 1), (80, 1 << 30), (0, 61), (-1, -1)])
def test_an_index_that_lies_is_not_believed(partition: Path, tmp_path: Path, entry: tuple[int, int]) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes((partition / log.name).read_bytes())
    log.with_suffix(".index").write_bytes(struct.pack(">ii", *entry))
    (file,) = logdir.open(log).files
    selection = Selection(offsets=(86, 88))
    found = list(logdir.rows_of(file, Options(deep=True, selection=selection)))
    assert [row.offset for row in found if isinstance(row, rows.Record)] == [86, 87]


def test_small_files_are_selected_by_what_they_speak_of(tmp_path: Path) -> None:
    from kafkawire.messages import AbortedTxn

    path = tmp_path / "t-0" / f"{0:020}.txnindex"
    path.parent.mkdir()
    entries = [(7, 0, 10), (8, 5, 20), (7, 15, 30)]
    path.write_bytes(
        b"".join(AbortedTxn(producer_id=p, first_offset=f, last_offset=n).encode_prefixed(0) for p, f, n in entries)
    )
    (file,) = logdir.open(path).files

    def found(**criteria: Any) -> list[int]:
        listed = logdir.rows_of(file, Options(selection=Selection(**criteria)))
        return [row.first_offset for row in listed if isinstance(row, rows.TxnIndex)]

    assert found() == [0, 5, 15]
    assert found(producer_id=7) == [0, 15]
    assert found(offsets=(21, None)) == [15]
    assert found(offsets=(10, 16)) == [0, 5, 15]
    assert found(key=b"k") == found(control=True) == found(times=(0, 5)) == []


def test_max_bytes(partition: Path) -> None:
    (file, *_) = [file for file in logdir.open(partition).files if file.kind == "log"]
    first, second, *_ = [row for row in logdir.rows_of(file) if isinstance(row, rows.Batch)]
    for most, expected in ((0, []), (first.size - 1, []), (first.size, [0]), (second.position + second.size, [0, 5])):
        found = list(logdir.rows_of(file, Options(max_bytes=most)))
        assert [getattr(row, "base_offset", row.kind) for row in found] == expected  # type: ignore[attr-defined]
