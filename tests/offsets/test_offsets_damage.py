"""What is damaged beside a log, and hides part of an answer, is a row of the answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kafkawire import logdir, offsets, rows
from tests.audit_logs import LogDirectory, PartitionLog, open_entry
from tools.recordings.archive import unpacked


def damage_of(found: Iterable[Any]) -> list[tuple[str, str | None, str]]:
    """(folder, file, reason) of each row of damage."""
    rows_ = [row for row in found if isinstance(row, rows.DamageRow)]
    return [(Path(row.file or "").parent.name, Path(row.file or "").name, row.reason) for row in rows_]


def explained(*roots: Path, topic: str = "orders", **options: Any) -> list[Any]:
    found = offsets.replicas(logdir.open(*roots), topic, 0)
    return [row for one in found for row in offsets.explain(one, **options)]


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    return shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")


def broken_file(root: Path, which: str) -> Path:
    if which == "own":
        return root / "node-1" / "orders-0" / "leader-epoch-checkpoint"
    return sorted((root / "tier").rglob("*.leader_epoch_checkpoint"))[0]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["own", "copied"])
def test_damage_of_the_leader_epochs_that_join_a_tier(tiered: Path, which: str) -> None:
    roots = tiered / "node-1", tiered / "tier"
    assert damage_of(explained(*roots)) == []
    assert damage_of(offsets.story(logdir.open(*roots), "orders", 0, 5)) == []
    path = broken_file(tiered, which)
    path.write_bytes(b"0\n1\nx y\n")
    expected = [(path.parent.name, path.name, "bad_line")]
    assert damage_of(explained(*roots)) == expected
    assert damage_of(offsets.story(logdir.open(*roots), "orders", 0, 5)) == expected
    (partition,) = (one for one in logdir.open(*roots).partitions if one.topic == "orders" and not one.state)
    assert [Path(path).name for path, _ in logdir.outcomes_of(partition).damage] == [path.name]


def test_a_segment_that_a_tier_has_lost(tiered: Path) -> None:
    whole = next(one for one in logdir.open(tiered / "tier").partitions if one.topic == "orders").segments
    Path(whole[1].path).unlink()
    (partition,) = (
        one for one in logdir.open(tiered / "node-1", tiered / "tier").partitions
        if one.topic == "orders" and not one.state
    )  # fmt: skip
    ((first, end),) = partition.joined.missing
    ((path, damage),) = logdir.outcomes_of(partition).damage
    assert damage.detail == f"offsets {first} to {end - 1}, before this, are in no file"
    assert path == next(file.path for file in partition.segments if file.offset == end)


def test_leader_epochs_that_cannot_be_opened_are_damage(tiered: Path) -> None:
    path = broken_file(tiered, "own")
    path.unlink()
    path.symlink_to(path.name)  # a link to itself
    found = explained(tiered / "node-1", tiered / "tier")
    assert damage_of(found) == [("orders-0", "leader-epoch-checkpoint", "unreadable")]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("replication-offset-checkpoint", "0\n1\norders 0 x\n", ["bad_line"]),
        ("replication-offset-checkpoint", "0\n2\norders 0 1\nother 0 x\n", []),  # the partition's line is there
        ("log-start-offset-checkpoint", "0\n2\nother 0 3\n", ["truncated"]),
        ("meta.properties", "broken\n", []),
    ],
)
def test_damage_of_checkpoints_that_may_hide_the_partition(
    tmp_path: Path, name: str, lines: str, expected: list[str]
) -> None:
    logs = LogDirectory(tmp_path, compacted=False)
    logs.partition("orders").data(5, records=3)
    logs.write()
    (tmp_path / name).write_text(lines)
    assert [reason for _, _, reason in damage_of(explained(tmp_path))] == expected
    (partition,) = (one for one in logdir.open(tmp_path).partitions if one.topic == "orders")
    assert [damage.reason for _, damage in logdir.outcomes_of(partition).damage] == expected


def test_damage_of_the_snapshot_that_shows_what_was_open_before_the_log(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path, compacted=False)
    orders = logs.partition("orders", start=10)
    orders.plain(records=3)
    orders.snapshot(open_entry(4, 9), offset=10)
    logs.write()
    assert damage_of(explained(tmp_path)) == []
    (snapshot,) = (tmp_path / "orders-0").glob("*.snapshot")
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    snapshot.write_bytes(data)
    assert damage_of(explained(tmp_path)) == [("orders-0", snapshot.name, "crc_mismatch")]


def damage_batch(path: Path, number: int, *, sealed: bool = False) -> None:
    """Change a batch's records. `sealed`: with a checksum that is right."""
    data = bytearray(path.read_bytes())
    start = 0
    for _ in range(number):
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    end = start + 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    data[start + 61] = 0x7F  # the length of the first record
    if sealed:
        data[start + 17 : start + 21] = crc32c.crc32c(bytes(data[start + 21 : end])).to_bytes(4, "big")
    path.write_bytes(data)


def story_logs(root: Path) -> None:
    """A transaction of two batches behind one that ended, and its coordinator's records."""
    logs = LogDirectory(root, ids=1, compacted=False)
    orders = logs.partition("orders")
    for _ in range(2):
        logs.id("pay", "Ongoing", 5, 0, ("orders", 0))
        orders.data(5)
        orders.data(5)
        logs.id("pay", "PrepareCommit", 5, 0, ("orders", 0))
        orders.marker("COMMIT", 5)
        logs.id("pay", "CompleteCommit", 5, 0)
    logs.write()


@pytest.mark.parametrize(
    ("batch", "expected", "doubt"), [(1, [], True), (3, ["crc_mismatch"], True), (4, ["crc_mismatch"], False)]
)
@pytest.mark.parametrize("settled", [True, False])
def test_a_story_has_the_damage_that_may_hide_a_batch_of_its_transaction(
    tmp_path: Path, batch: int, expected: list[str], doubt: bool, settled: bool
) -> None:
    """And the doubt whether consumers get an offset behind the damage, unless a snapshot shows what is open."""
    story_logs(tmp_path)
    if settled:
        PartitionLog(tmp_path / "orders-0").snapshot(offset=6)
    offset = 4 if batch == 3 else 3
    damage_batch(next((tmp_path / "orders-0").glob("*.log")), batch)
    found = list(offsets.story(logdir.open(tmp_path), "orders", 0, offset))
    assert [reason for _, _, reason in damage_of(found)] == [
        *expected,
        *(["unknown_outcome"] if doubt and not settled else []),
    ]


@pytest.mark.parametrize(("sealed", "reason"), [(False, "crc_mismatch"), (True, "bad_records")])
def test_a_story_has_the_damage_of_the_coordinator_s_log(tmp_path: Path, sealed: bool, reason: str) -> None:
    story_logs(tmp_path)
    (log,) = (path for path in tmp_path.glob("__transaction_state-*/*.log") if path.stat().st_size)
    damage_batch(log, 1, sealed=sealed)
    found = list(offsets.story(logdir.open(tmp_path), "orders", 0, 0))
    assert [row.state for row in found if isinstance(row, rows.CoordinatorStep)] == ["Ongoing", "CompleteCommit"]
    assert [reason for _, _, reason in damage_of(found)] == [reason]


def test_a_story_goes_on_where_the_coordinator_s_log_cannot_be_opened(tmp_path: Path) -> None:
    story_logs(tmp_path)
    (log,) = (path for path in tmp_path.glob("__transaction_state-*/*.log") if path.stat().st_size)
    directory = logdir.open(tmp_path)
    log.unlink()
    log.mkdir()
    found = list(offsets.story(directory, "orders", 0, 3))
    assert damage_of(found) == [(log.parent.name, log.name, "unreadable")]
    assert any(isinstance(row, rows.TransactionStory) for row in found)


def test_a_search_for_equal_records_has_the_damage_of_batches_that_it_cannot_read(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path, compacted=False)
    orders = logs.partition("orders")
    for _ in range(3):
        orders.data(5, transactional=False)
    logs.write()
    damage_batch(next((tmp_path / "orders-0").glob("*.log")), 1, sealed=True)
    asked = {"topic": "orders", "first": 2, "end": 3}
    assert damage_of(explained(tmp_path, **asked)) == []  # headers only, and other offsets
    found = explained(tmp_path, **asked, equal_records=True)
    assert [reason for _, _, reason in damage_of(found)] == ["bad_records"]
