"""The position at which reading begins, by names of files and by indexes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, rows
from kafkawire.logdir import Options, Selection
from kafkawire.logdir.seek import start_position, wanted_files
from kafkawire.records import Record, build
from tests.logdir.logged import write


def test_segments_are_skipped_by_name_and_by_time_index(indexed: Path) -> None:
    files = logdir.open(indexed).files
    bases = sorted(file.offset or 0 for file in files if file.kind == "log")

    def left(**criteria: Any) -> list[int | None]:
        return [file.offset for file in wanted_files(files, Selection(**criteria)) if file.kind == "log"]

    assert left() == bases
    assert left(offsets=(bases[1], bases[2])) == [bases[1]]
    assert left(offsets=(None, 1)) == [bases[0]]
    assert left(offsets=(bases[-1] + 5, None)) == [bases[-1]]
    # The last segment may still grow: its time index does not have the newest timestamp.
    assert left(times=(1 << 40, None)) == [bases[-1]]
    assert left(times=(None, 10)) == bases  # old timestamps may be anywhere


def test_reading_begins_at_the_index_position(indexed: Path) -> None:
    first = next(file for file in logdir.open(indexed).files if file.kind == "log")
    (end,) = [entry for entry in logdir.rows_of(first.beside("index")) if isinstance(entry, rows.Index)][-1:]
    assert start_position(first, Selection(offsets=(end.offset, None))) == end.log_position
    assert start_position(first, Selection(offsets=(end.offset - 1, None))) < end.log_position
    assert start_position(first, Selection(offsets=(0, None))) == 0
    assert start_position(first, Selection(times=(1 << 40, None))) > 0
    assert start_position(first, Selection(producer_id=1)) == 0


@pytest.mark.parametrize("entry", [(80, 1), (80, 1 << 30), (0, 61), (-1, -1)])
def test_wrong_index_is_ignored(indexed: Path, tmp_path: Path, entry: tuple[int, int]) -> None:
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes((indexed / log.name).read_bytes())
    log.with_suffix(".index").write_bytes(struct.pack(">ii", *entry))
    (file,) = logdir.open(log).files
    selection = Selection(offsets=(86, 88))
    found = list(logdir.rows_of(file, Options(deep=True, selection=selection)))
    assert [row.offset for row in found if isinstance(row, rows.RecordRow)] == [86, 87]


def test_files_without_an_offset_are_always_selected(indexed: Path, tmp_path: Path) -> None:
    write(tmp_path / "t-0" / "leader-epoch-checkpoint", "0\n0\n")
    write(tmp_path / "t-0" / f"{0:020}.log", b"")
    files = logdir.open(tmp_path).files
    assert [file.kind for file in wanted_files(files, Selection(offsets=(None, 0)))] == ["epochs"]


def test_a_time_index_that_ends_with_zeros_excludes_no_segment(tmp_path: Path) -> None:
    """A killed broker leaves them, and its last entries may be lost."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 1):
        batch = build([Record(b"k", timestamp=5000 + base)], base_offset=base)
        (folder / f"{base:020}.log").write_bytes(batch)
    index = folder / f"{0:020}.timeindex"
    asked = Selection(times=(4000, None))
    for tail, expected in ((b"", 1), (bytes(12), 2), (b"\0", 2)):
        index.write_bytes(struct.pack(">qi", 3000, 0) + tail)
        segments = logdir.open(folder).partitions[0].segments
        assert len(list(wanted_files(segments, asked))) == expected
