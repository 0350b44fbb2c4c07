"""Segments that were being replaced, as a broker finds them at its start (Kafka's `LogLoader`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.logdir.stats import by_partition
from kafkawire.records import Record, build

#: Names of `.log` files in a folder, each with the offsets of its records -> the names of those in use.
CASES = {
    "a swap alone is the segment": ({"0.log.swap": (0, 5)}, ["0.log.swap"]),
    "it replaces those in its range": (
        {"0.log.swap": (0, 19), "0.log": (0, 9), "10.log": (10, 19), "20.log": (20, 29)},
        ["0.log.swap", "20.log"],
    ),
    "some were renamed to .deleted": (
        {"0.log.swap": (0, 19), "0.log.deleted": (0, 9), "10.log": (10, 19)},
        ["0.log.swap"],
    ),
    "a split gives several": (
        {"0.log.swap": (0, 9), "10.log.swap": (10, 19), "0.log": (0, 19), "20.log": (20, 20)},
        ["0.log.swap", "10.log.swap", "20.log"],
    ),
    "one of them was renamed already": ({"0.log": (0, 9), "10.log.swap": (10, 19)}, ["0.log", "10.log.swap"]),
    "what is still written is not": (
        {"0.log.cleaned": (0, 19), "0.log": (0, 9), "10.log": (10, 19)},
        ["0.log", "10.log"],
    ),
    "nor a swap behind that": ({"0.log.cleaned": (0, 3), "0.log.swap": (0, 19), "0.log": (0, 19)}, ["0.log"]),
    "a swap before that is": (
        {"10.log.cleaned": (10, 12), "0.log.swap": (0, 5), "0.log": (0, 9), "10.log": (10, 19)},
        ["0.log.swap", "10.log"],
    ),
    "an empty swap takes the place of its name": (
        {"5.log.swap": (), "5.log": (5, 9), "10.log": (10, 11)},
        ["5.log.swap", "10.log"],
    ),
    "what was deleted is not": ({"0.log.deleted": (0, 9), "10.log": (10, 19)}, ["10.log"]),
}  # fmt: skip


def write(folder: Path, files: dict[str, tuple[int, ...]]) -> Path:
    folder.mkdir(parents=True)
    for name, offsets in files.items():
        number, _, suffix = name.partition(".")
        data = b"".join(build([Record(value=b"v", offset=offset)], base_offset=offset) for offset in offsets)
        (folder / f"{int(number):020}.{suffix}").write_bytes(data)
    return folder


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES.keys())
def test_segments_are_those_of_the_next_start(
    tmp_path: Path, files: dict[str, tuple[int, ...]], expected: list[str]
) -> None:
    directory = logdir.open(write(tmp_path / "orders-0", files))
    (partition,) = directory.partitions
    names = [f"{int(file.name[:20])}{file.name[20:]}" for file in partition.segments]
    assert names == expected
    (of_stats,) = by_partition(directory.files)
    assert [file.path for file in of_stats] == [file.path for file in partition.segments]


def test_indexes_follow_their_segments(tmp_path: Path) -> None:
    folder = write(tmp_path / "orders-0", {"0.log.swap": (0, 9), "0.log": (0, 4), "5.log": (5, 9), "10.log": (10, 11)})
    for name in ("0.txnindex", "0.txnindex.swap", "5.txnindex", "10.txnindex", "11.snapshot"):
        number, _, suffix = name.partition(".")
        (folder / f"{int(number):020}.{suffix}").touch()
    (partition,) = logdir.open(folder).partitions
    assert [file.name.lstrip("0") for file in partition.txn_indexes] == [".txnindex.swap", "10.txnindex"]
    assert len(partition.snapshots) == 1


def test_a_swap_that_cannot_be_read_is_a_segment(tmp_path: Path) -> None:
    folder = write(tmp_path / "orders-0", {"10.log": (10, 11)})
    (folder / f"{0:020}.log.swap").symlink_to("gone")
    (partition,) = logdir.open(folder).partitions
    assert [file.offset for file in partition.segments] == [0, 10]
