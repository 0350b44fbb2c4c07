"""A file: its batches, and how much of it is read."""

from __future__ import annotations

import os
from pathlib import Path

from kafkawire import logdir
from kafkawire.records import Damage, Record, build
from tests.logdir.logged import all_rows, write


def test_descending_offsets_are_damage(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t-0" / "00000000000000000005.log",
        build([Record()], base_offset=4) + build([Record()], base_offset=9) + build([Record()], base_offset=6),
    )
    (file,) = logdir.open(path).files
    items = list(file.batches())
    assert [getattr(item, "reason", "batch") for item in items] == [
        *("offset_backwards", "batch"),
        "batch",
        *("offset_backwards", "batch"),
    ]
    assert isinstance(items[3], Damage)
    assert items[3].detail == "base offset 6 where 10 or more should follow"


def test_oversized_small_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    (damage,) = all_rows(logdir.open(path))
    assert (damage["kind"], damage["reason"]) == ("damage", "too_large")


def test_modified_is_the_time_of_the_last_write(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0" / "leader-epoch-checkpoint", "0\n0\n")
    os.utime(path, (5, 1_700_000_000))
    (file,) = logdir.open(path).files
    assert (file.modified, file.size) == (1_700_000_000, 4)


def test_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0" / "leader-epoch-checkpoint", "0\n0\n")
    (file,) = logdir.open(path).files
    stamps = [file.stamp, file.stamp]
    os.utime(path, (5, 5))
    stamps.append(file.stamp)
    path.write_text("0\n1\n0 0\n")
    os.utime(path, (5, 5))
    stamps.append(file.stamp)
    other = write(tmp_path / "other", "0\n1\n0 1\n")
    os.utime(other, (5, 5))
    other.replace(path)
    stamps.append(file.stamp)
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 4
    path.unlink()
    assert file.stamp is None
