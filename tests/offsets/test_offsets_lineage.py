"""Leader epochs of copies: where a log left the newest one, and what it has lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.logdir.entries import EpochLine
from kafkawire.offsets.lineage import Copy, Dropped, divergence, dropped, lineage, tier_copies
from tools.recordings.archive import unpacked


def epochs(*lines: tuple[int, int]) -> list[EpochLine]:
    """Of (epoch, start offset)."""
    return [EpochLine(0, epoch, start) for epoch, start in lines]


OLD, NEW = epochs((0, 0)), epochs((0, 0), (2, 50))


@pytest.mark.parametrize(
    ("own", "end", "other", "expected"),
    [
        (OLD, 60, NEW, 50),
        (OLD, 50, NEW, None),  # nothing of it was lost
        (NEW, 60, OLD, None),  # its is the newest
        (epochs((0, 0), (1, 40)), 60, NEW, 40),
        (NEW, 60, NEW, None),
        (OLD, 60, [], None),
    ],
)
def test_a_log_diverges_where_a_newer_one_has_another_epoch(
    own: list[EpochLine], end: int, other: list[EpochLine], expected: int | None
) -> None:
    assert divergence(own, 0, end, [Copy("b", 0, 55, other)]) == expected


@pytest.mark.parametrize(
    ("own", "end", "copy", "expected"),
    [
        (NEW, 50, Copy("old", 0, 60, OLD), Dropped(60, "old", 0, 2)),
        (NEW, 55, Copy("old", 0, 60, OLD), Dropped(60, "old", 0, 2)),
        (NEW, 60, Copy("old", 0, 60, OLD), None),
        (OLD, 50, Copy("ahead", 0, 60, NEW), None),  # the log is behind
        (OLD, 40, Copy("ahead", 0, 60, OLD), None),
        (NEW, 50, Copy("later", 54, 60, OLD, True), Dropped(60, "later", 0, 2)),
        (NEW, 50, Copy("both", 0, 60, epochs((1, 0), (2, 57)), True), Dropped(57, "both", 1, 2)),
    ],
)
def test_offsets_of_older_epochs_behind_the_end_were_dropped(
    own: list[EpochLine], end: int, copy: Copy, expected: Dropped | None
) -> None:
    assert dropped(own, end, [copy]) == expected


def test_copies_of_a_tier_end_where_its_metadata_has_their_end(tmp_path: Path) -> None:
    """Also those that cannot be read."""
    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    for path in (root / "tier").rglob("*.log"):
        path.write_bytes(b"")
    partitions = logdir.open(root / "node-1", root / "tier").partitions
    (partition,) = (one for one in partitions if one.topic == "orders" and not one.state)
    assert [(line.epoch, line.start_offset) for line in lineage(partition)] == [(0, 9), (1, 30), (3, 50)]
    ends = {copy.base: copy.end for copy, _ in tier_copies(partition) if copy.base != 50}
    assert ends == {0: 10, 10: 20, 20: 30, 30: 40, 40: 50, 51: 61, 54: 60, 61: 71, 71: 81}
