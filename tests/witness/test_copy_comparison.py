"""Copies compared by offsets and by order."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.records import Record, build
from kafkawire.rows import ComparedPartition, CopyDifference, Row
from kafkawire.witness import CopyComparison
from kafkawire.witness.copy_comparison import NAMES, SAME, Side, runs_of
from kafkawire.witness.record_order import OrderedRecords, by_order
from tests.audit_logs import LogDirectory


def ordered(values: list[int]) -> OrderedRecords:
    return OrderedRecords(np.arange(len(values)), np.array(values, np.uint64), ())


def kinds(a: list[int], b: list[int]) -> tuple[list[str], list[str]]:
    in_a, in_b = by_order(ordered(a), ordered(b))
    return [NAMES[kind] for kind in in_a.tolist()], [NAMES[kind] for kind in in_b.tolist()]


@pytest.mark.parametrize(
    ("a", "b", "of_a", "of_b"),
    [
        ([1, 2, 3], [1, 2, 3], ["same"] * 3, ["same"] * 3),
        ([1, 2, 3], [1, 3], ["same", "lost", "same"], ["same", "same"]),
        ([1, 2, 3], [1, 2], ["same", "same", "behind"], ["same", "same"]),
        ([1, 2, 3], [2, 3], ["before", "same", "same"], ["same", "same"]),
        ([1, 2, 3], [1, 2, 2, 3], ["same"] * 3, ["same", "same", "repeated", "same"]),
        ([1, 2, 3], [1, 2, 3, 2, 3], ["same"] * 3, ["same"] * 3 + ["repeated"] * 2),
        ([1, 2, 3], [1, 9, 2, 3], ["same"] * 3, ["same", "extra", "same", "same"]),
        ([1, 2, 3], [1, 3, 2], ["same"] * 3, ["same", "reordered", "same"]),
        ([1, 1, 1], [1, 1, 1], ["same"] * 3, ["same"] * 3),
        ([1, 1, 1], [1, 1], ["same", "same", "behind"], ["same", "same"]),
        ([1, 2], [], ["behind"] * 2, []),
        ([], [1], [], ["behind"]),
        ([1], [2], ["behind"], ["behind"]),
    ],
)
def test_by_order(a: list[int], b: list[int], of_a: list[str], of_b: list[str]) -> None:
    assert kinds(a, b) == (of_a, of_b)


@given(st.lists(st.integers(0, 20), max_size=40), st.data())
def test_what_a_mirror_leaves_out_and_repeats_is_counted(values: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    mirror = [value for value, keep in zip(values, kept, strict=True) if keep]
    in_a, in_b = kinds(values, mirror)
    assert in_b.count("same") + in_b.count("reordered") == len(mirror)
    assert len(values) - in_a.count("same") == kept.count(False)
    again = data.draw(st.integers(0, len(mirror)))
    _, in_b = kinds(values, [*values, *mirror[:again]])
    assert in_b.count("repeated") == again


@given(st.lists(st.integers(0, len(NAMES) - 1), max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_differences_cover_all_that_is_not_the_same(listed: list[int], cuts: list[int]) -> None:
    """In one go, and in parts of which each goes on where the last one ended."""
    found = np.array(listed, np.int8)
    offsets = np.arange(len(found)) * 3
    whole = Side(100).add(runs_of(found, offsets, offsets + 2)).finish()
    assert sum(one.number for one in whole.differences) == len(found) - listed.count(SAME)
    assert sum(whole.counts.values()) == len(found)
    assert whole.counts == {NAMES[kind]: listed.count(kind) for kind in sorted(set(listed))}
    for one in whole.differences:
        assert one.last_offset - one.first_offset == 3 * one.number - 1
    parts, bounds = Side(100), [0, *sorted(min(cut, len(found)) for cut in cuts), len(found)]
    for first, end in itertools.pairwise(bounds):
        parts.add(runs_of(found[first:end], offsets[first:end], offsets[first:end] + 2))
    assert parts.finish().differences == whole.differences
    assert (parts.counts, parts.broken) == (whole.counts, whole.broken)


def compared(a: LogDirectory, b: LogDirectory, **options: str) -> tuple[CopyComparison, list[Row]]:
    found = CopyComparison(logdir.open(a.write()), logdir.open(b.write()), topic="t", **options)  # type: ignore[arg-type]
    return found, list(found.rows())


def filled(root: Path, numbers: list[int], *, changed: int | None = None, high: int | None = None) -> LogDirectory:
    """A log with a batch a number, whose record depends on it."""
    logs = LogDirectory(root, ids=1)
    log = logs.partition("t")
    for number in numbers:
        value = b"%d" % number + (b"!" if number == changed else b"")
        log._append(build([Record(b"k", value, timestamp=number)], base_offset=log.end), 1)
    logs.high_watermark("t", 0, log.end if high is None else high)
    return logs


def test_offsets_that_differ_are_named_with_their_reason(tmp_path: Path) -> None:
    a = filled(tmp_path / "a", [0, 1, 2, 3, 4, 5])
    b = filled(tmp_path / "b", [0, 1, 2, 3], changed=2)
    found, (row, *others) = compared(a, b)
    assert isinstance(row, ComparedPartition)
    assert row.by == "offsets"
    assert row.of_a == {"same": 3, "behind": 2, "changed": 1}
    assert row.of_b == {"same": 3, "changed": 1}
    listed = [
        (one.side, one.difference, one.first_offset, one.last_offset)
        for one in others
        if isinstance(one, CopyDifference)
    ]
    assert listed == [("a", "changed", 2, 2), ("a", "behind", 4, 5), ("b", "changed", 2, 2)]
    assert found.found == 2


def test_what_is_above_a_high_watermark_is_no_loss(tmp_path: Path) -> None:
    a = filled(tmp_path / "a", [0, 1, 2, 3], changed=3, high=3)
    b = filled(tmp_path / "b", [0, 1, 2, 3], high=3)
    found, (row, *_) = compared(a, b)
    assert isinstance(row, ComparedPartition)
    assert row.of_a == row.of_b == {"same": 3, "uncommitted": 1}
    assert not found.found


def test_deleted_offsets_are_expired(tmp_path: Path) -> None:
    a = filled(tmp_path / "a", [0, 1, 2, 3])
    b = filled(tmp_path / "b", [0, 1, 2, 3])
    b.checkpoint("log-start-offset-checkpoint", "t", 0, 2)
    size = len(a.partitions["t", 0].segments[0][1]) // 4
    b.partitions["t", 0].segments = [(2, bytearray(a.partitions["t", 0].segments[0][1][2 * size :]))]
    _, (row, *_) = compared(a, b)
    assert isinstance(row, ComparedPartition)
    assert row.of_a == {"same": 2, "expired": 2}


def test_a_mirror_is_compared_by_order(tmp_path: Path) -> None:
    a = filled(tmp_path / "a", [0, 1, 2, 3, 4])
    b = filled(tmp_path / "b", [1, 2, 2, 4])
    _, (row, *_) = compared(a, b, by="order")
    assert isinstance(row, ComparedPartition)
    assert row.of_a == {"same": 3, "before": 1, "lost": 1}
    assert row.of_b == {"same": 3, "repeated": 1}


def test_a_partition_of_one_side_is_not_compared(tmp_path: Path) -> None:
    a = filled(tmp_path / "a", [0])
    b = LogDirectory(tmp_path / "b", ids=1)
    found, (row,) = compared(a, b)
    assert isinstance(row, ComparedPartition)
    assert row.b is None
    assert found.incomplete == ["t-0: only A has a copy"]


@pytest.mark.parametrize(("cleaned", "kind"), [(0, "unreadable"), (1, "unreadable"), (2, "compacted")])
def test_what_is_not_there_is_compacted_where_the_cleaner_came_across(tmp_path: Path, cleaned: int, kind: str) -> None:
    a = filled(tmp_path / "a", [0, 1, 2])
    b = LogDirectory(tmp_path / "b", ids=1)
    log = b.partition("t")
    for number in (0, 2):
        log.end = number
        log._append(build([Record(b"k", b"%d" % number, timestamp=number)], base_offset=number), 1)
    b.high_watermark("t", 0, 3)
    b.checkpoint("cleaner-offset-checkpoint", "t", 0, cleaned)
    found, (row, *_) = compared(a, b, by="offsets")
    assert isinstance(row, ComparedPartition)
    assert row.of_a == {"same": 2, kind: 1}
    assert (found.found, len(found.incomplete)) == (0, int(kind != "compacted"))


@pytest.mark.parametrize(
    ("keys", "cleaned", "kind"),
    [
        ([1, 2, 1, 3], 3, "compacted"),  # a later record of the key is there
        ([1, 2, 3, 4], 3, "compaction_not_proven"),  # there is none: it may have been a tombstone
        ([1, 2, 1, 3], 0, "lost"),  # the cleaner has not come across
        ([0, 2, 0, 3], 3, "lost"),  # without a key nothing is compacted
    ],
)
def test_a_mirror_that_was_compacted(keys: list[int], cleaned: int, kind: str) -> None:
    offset, digest, key = np.arange(4), np.array([5, 6, 7, 8], np.uint64), np.array(keys, np.uint64)
    first = OrderedRecords(np.append(-1, offset), np.append(np.uint64(4), digest), (), np.append(np.uint64(9), key), 0)
    kept = np.array([True, False, True, True, True])
    second = OrderedRecords(
        np.arange(4), first.digest[kept], (), first.key[kept] if first.key is not None else None, cleaned
    )
    in_a, in_b = by_order(first, second)
    assert [NAMES[one] for one in in_a.tolist()] == ["same", kind, "same", "same", "same"]
    assert set(in_b.tolist()) == {0}
