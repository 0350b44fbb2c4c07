"""Logs with gaps, damage and wrong offsets: each offset has one status, and a reason with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, offsets, rows
from kafkawire.records import Record, build
from tests.offsets.naive import name_of, ranges_of


def batch(offset: int, count: int = 10, *, left: range | None = None) -> bytes:
    """A batch of offsets, of which compaction has left some."""
    kept = [Record(offset=n, value=b"%d" % n, timestamp=1) for n in (left or range(offset, offset + count))]
    return build(kept, base_offset=offset, last_offset=offset + count - 1)


def moved(data: bytes, offset: int) -> bytes:
    """The batch with another base offset, which is under no checksum."""
    return offset.to_bytes(8, "big") + data[8:]


def broken(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def replica(root: Path, *segments: bytes, at: tuple[int, ...] = (0,), **checkpoints: int) -> offsets.Replica:
    folder = root / "orders-0"
    folder.mkdir()
    for base, data in zip(at, segments, strict=True):
        (folder / f"{base:020}.log").write_bytes(data)
    for name, value in checkpoints.items():
        (root / f"{name.replace('_', '-')}-checkpoint").write_text(f"0\n1\norders 0 {value}\n")
    (found,) = offsets.replicas(logdir.open(root), "orders", 0)
    return found


def found(one: offsets.Replica) -> list[tuple[int, int, str, str | None]]:
    return [(row.first_offset, row.last_offset, name_of(row), row.reason) for row in ranges_of(one)]


RECORD, LOST = "record_none", "unreadable"


def test_offsets_that_damage_hides_are_unreadable_at_its_place(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + broken(batch(10)) + batch(20))
    assert found(one) == [(0, 9, RECORD, None), (10, 19, LOST, "crc_mismatch"), (20, 29, RECORD, None)]
    row = ranges_of(one)[1]
    assert (row.segment, row.position) == (str(tmp_path / "orders-0" / f"{0:020}.log"), len(batch(0)))
    assert [(damage.position, damage.reason) for damage in one.damage] == [(len(batch(0)), "crc_mismatch")]


def test_damage_at_the_end_of_a_segment_hides_offsets_up_to_the_next(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + batch(10)[:-5], batch(20), at=(0, 20))
    assert found(one) == [(0, 9, RECORD, None), (10, 19, LOST, "truncated"), (20, 29, RECORD, None)]


def test_a_segment_that_is_gone_is_missing_unless_compaction_explains_it(tmp_path: Path) -> None:
    gone = replica(tmp_path, batch(0), batch(20), at=(0, 20))
    assert found(gone) == [(0, 9, RECORD, None), (10, 19, LOST, "missing"), (20, 29, RECORD, None)]
    (tmp_path / "compacted").mkdir()
    one = replica(tmp_path / "compacted", batch(0), batch(20), at=(0, 20), cleaner_offset=20)
    assert found(one) == [(0, 9, RECORD, None), (10, 19, "compacted", None), (20, 29, RECORD, None)]


def test_offsets_that_compaction_took_from_batches_are_compacted(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0, left=range(3, 5)) + batch(12), cleaner_offset=12)
    assert found(one) == [(0, 2, "compacted", None), (3, 4, RECORD, None), (5, 11, "compacted", None),
                          (12, 21, RECORD, None)]  # fmt: skip


@pytest.mark.parametrize("at", [500, 1 << 60])
def test_a_base_offset_that_is_too_high_hides_its_own_batch_only(tmp_path: Path, at: int) -> None:
    one = replica(tmp_path, batch(0) + moved(batch(10), at) + batch(20) + batch(30))
    assert found(one) == [(0, 9, RECORD, None), (10, 19, LOST, "offset_backwards"), (20, 39, RECORD, None)]
    assert ranges_of(one)[1].position == len(batch(0))


def test_a_base_offset_that_is_too_high_of_a_batch_without_offsets_of_its_own_hides_none(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + moved(batch(10), 500) + batch(10))
    assert found(one) == [(0, 19, RECORD, None)]


def test_a_base_offset_that_is_too_high_at_the_end_of_a_segment_is_known_by_the_next(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + moved(batch(10), 500), batch(20), at=(0, 20))
    assert found(one) == [(0, 9, RECORD, None), (10, 19, LOST, "offset_backwards"), (20, 29, RECORD, None)]


def test_a_base_offset_that_is_too_high_behind_damage_is_hidden_by_that(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + broken(batch(10)) + moved(batch(20), 500), batch(30), at=(0, 30))
    assert found(one) == [(0, 9, RECORD, None), (10, 29, LOST, "crc_mismatch"), (30, 39, RECORD, None)]


def test_a_partition_without_segments_ends_where_it_starts(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    (one,) = offsets.replicas(logdir.open(tmp_path), "orders", 0)
    assert (one.bounds.log_start_offset, one.bounds.log_end_offset) == (7, 7)
    assert found(one) == [(0, 6, "deleted", "no_segment")]


def test_offsets_that_occur_twice_count_once(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + batch(5) + batch(15))
    assert found(one) == [(0, 24, RECORD, None)]


def test_below_the_log_start_offsets_are_deleted_with_their_reason(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(10) + batch(20), at=(10,), log_start_offset=14)
    assert found(one) == [(0, 9, "deleted", "no_segment"), (10, 13, "deleted", "delete_records"),
                          (14, 29, RECORD, None)]  # fmt: skip


def test_a_log_that_starts_before_its_first_segment_is_in_a_tier_or_lost(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(10), at=(10,), log_start_offset=4)
    assert found(one) == [(0, 3, "deleted", "no_segment"), (4, 9, LOST, "in_tier"), (10, 19, RECORD, None)]


@pytest.mark.parametrize(
    ("epochs", "below"),
    [
        ("0\n1\n0 0\n", [(0, 9, LOST, "in_tier")]),
        ("0\n1\n3 6\n", [(0, 5, "deleted", "no_segment"), (6, 9, LOST, "in_tier")]),
        ("0\n2\n3 10\n4 15\n", [(0, 9, "deleted", "no_segment")]),
        ("0\n1\n0 x\n", [(0, 9, "deleted", "no_segment")]),
    ],
)
def test_a_log_whose_leader_epochs_start_before_its_first_segment_lacks_segments(
    tmp_path: Path, epochs: str, below: list[tuple[object, ...]]
) -> None:
    """A broker that deletes segments moves the start of the first leader epoch."""
    replica(tmp_path, batch(10), at=(10,))
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text(epochs)
    (one,) = offsets.replicas(logdir.open(tmp_path), "orders", 0)
    assert found(one) == [*below, (10, 19, RECORD, None)]


def test_records_not_below_the_high_watermark_are_not_consumed_yet(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + batch(10) + broken(batch(20)) + batch(30), replication_offset=15)
    assert found(one) == [(0, 14, RECORD, None), (15, 19, "above_high_watermark", None), (20, 29, LOST, "crc_mismatch"),
                          (30, 39, "above_high_watermark", None)]  # fmt: skip


@pytest.mark.parametrize(
    ("checkpoint", "reason"), [("replication_offset", "high_watermark"), ("recovery_point_offset", "recovery_point")]
)
def test_what_a_checkpoint_has_behind_the_end_was_truncated(tmp_path: Path, checkpoint: str, reason: str) -> None:
    one = replica(tmp_path, batch(0), **{checkpoint: 13})
    assert found(one) == [(0, 9, RECORD, None), (10, 12, "truncated", reason)]
    assert (one.bounds.log_end_offset, one.bounds.end_offset, one.bounds.high_watermark) == (10, 13, 10)


def test_what_a_checkpoint_has_behind_damage_is_unreadable(tmp_path: Path) -> None:
    one = replica(tmp_path, batch(0) + broken(batch(10)), replication_offset=20)
    assert found(one) == [(0, 9, RECORD, None), (10, 19, LOST, "crc_mismatch")]


def test_records_that_are_left_of_a_batch_and_cannot_be_read_are_unreadable(tmp_path: Path) -> None:
    import crc32c

    data = bytearray(batch(10, left=range(12, 14)))
    data[61] = 0x7F  # the length of the first record
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    one = replica(tmp_path, batch(0, left=range(5)) + bytes(data) + batch(20))
    assert found(one) == [(0, 4, RECORD, None), (5, 9, "compacted", None), (10, 19, LOST, "bad_records"),
                          (20, 29, RECORD, None)]  # fmt: skip


@pytest.mark.parametrize(("first", "end"), [(20, 25), (0, 10)])
def test_a_part_reads_only_its_segments(tmp_path: Path, first: int, end: int) -> None:
    one = replica(tmp_path, batch(0), broken(batch(10)), batch(20), at=(0, 10, 20))
    part = [row for row in offsets.explain(one, first, end) if not isinstance(row, rows.ReplicaBounds)]
    assert [type(row) for row in part] == [rows.StatusRange, rows.StatusTotal, rows.DamageRow]
    assert part[2].reason == "unknown_outcome"  # where consumers stop is a matter of the whole log


def test_damage_that_hides_no_known_offset_is_reported(tmp_path: Path) -> None:
    one = replica(tmp_path, broken(batch(0)))
    assert found(one) == []
    assert [(damage.position, damage.reason) for damage in one.damage] == [(0, "crc_mismatch")]


def test_many_offsets_take_no_time(tmp_path: Path) -> None:
    end = 10**15
    one = replica(tmp_path, batch(0, left=range(5)) + moved(batch(10), end), cleaner_offset=end)
    assert found(one) == [(0, 4, RECORD, None), (5, end - 1, "compacted", None), (end, end + 9, RECORD, None)]


def test_an_empty_partition_has_no_offsets(tmp_path: Path) -> None:
    assert found(replica(tmp_path, b"")) == []
