"""Batches of all magics and kinds as runs of offsets."""

from __future__ import annotations

import zlib
from pathlib import Path

import crc32c
import pytest

from kafkawire.messages import LeaderChangeMessage
from kafkawire.records import Record, build, build_control, build_marker
from tests.offsets.naive import ranges_of
from tests.offsets.test_offset_walk import LOST, RECORD, found, replica

IDS = {"producer_id": 1, "producer_epoch": 0}


def old(base: int, last: int, *kept: int, magic: int = 1, codec: str = "gzip") -> bytes:
    """A wrapper of magic 0 or 1 with the offsets that are left."""
    records = [Record(b"k", b"v", offset=offset) for offset in kept]
    assert records[-1].offset == last
    return build(records, magic=magic, base_offset=base, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_batches_have_a_record_at_each_offset_and_a_gap_between_them(tmp_path: Path, magic: int) -> None:
    one = replica(tmp_path, old(0, 2, 0, 1, 2, magic=magic) + old(5, 6, 5, 6, magic=magic, codec="none"))
    assert found(one) == [(0, 2, RECORD, None), (3, 4, LOST, "missing"), (5, 6, RECORD, None)]


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_that_compaction_took_from_old_batches_are_compacted(tmp_path: Path, magic: int) -> None:
    one = replica(tmp_path, old(0, 6, 0, 3, 4, 6, magic=magic))
    assert found(one) == [(0, 0, RECORD, None), (1, 2, "compacted", None), (3, 4, RECORD, None),
                          (5, 5, "compacted", None), (6, 6, RECORD, None)]  # fmt: skip


def test_offsets_of_old_batches_that_occur_twice_count_once(tmp_path: Path) -> None:
    one = replica(tmp_path, old(0, 2, 0, 1, 2) + old(0, 2, 0, 1, 2) + old(1, 4, 1, 2, 4))
    assert found(one) == [(0, 2, RECORD, None), (3, 3, "compacted", None), (4, 4, RECORD, None)]


def test_records_of_an_old_batch_that_cannot_be_read_are_unreadable_at_its_place(tmp_path: Path) -> None:
    data = bytearray(old(3, 6, 3, 6))
    data[-12] ^= 0xFF  # within the compressed records
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    one = replica(tmp_path, old(0, 2, 0, 1, 2) + bytes(data))
    broken = ranges_of(one)[-1]
    assert (broken.last_offset, broken.status, broken.reason) == (6, LOST, "bad_records")
    assert broken.position == len(old(0, 2, 0, 1, 2))


def test_a_control_batch_whose_record_cannot_be_read_has_no_control(tmp_path: Path) -> None:
    data = bytearray(build_marker("COMMIT", offset=0, timestamp=1, coordinator_epoch=8, **IDS))
    data[61] = 0x7F  # the length of the record
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    (row,) = ranges_of(replica(tmp_path, bytes(data)))
    assert (row.status, row.control, row.coordinator_epoch) == ("control", "MALFORMED", None)


def test_control_batches_are_named_by_what_they_hold(tmp_path: Path) -> None:
    leader = LeaderChangeMessage(version=0, leader_id=1, voters=(), granting_voters=())
    log = [
        build_control("LEADER_CHANGE", leader, offset=0, timestamp=1),
        build([Record(b"\0", b"")], base_offset=1, control=True, transactional=True, **IDS),  # a key without a type
        build([Record(b"\0\0\0\7", b"")], base_offset=2, control=True, **IDS),
        build([Record(b"\0\0\0\1", b"\0\0\0\0\0\7", timestamp=1)], base_offset=3, base_timestamp=0, control=True,
              transactional=True, **IDS),  # a marker that no broker writes this way
        build([Record(b"\0\0\0\0", b"")], base_offset=4, control=True, transactional=True, **IDS),
        build([], base_offset=5, last_offset=5, control=True, transactional=True, **IDS),
        build_marker("ABORT", offset=6, timestamp=1, coordinator_epoch=8, **IDS),
    ]  # fmt: skip
    one = replica(tmp_path, b"".join(log))
    rows = ranges_of(one)
    assert [(row.first_offset, row.status, row.control, row.coordinator_epoch) for row in rows] == [
        (0, "control", "LEADER_CHANGE", None),
        (1, "control", "MALFORMED", None),
        (2, "control", "UNKNOWN_7", None),
        (3, "marker", "COMMIT", 7),
        (4, "marker", "ABORT", None),
        (5, "compacted", None, None),
        (6, "marker", "ABORT", 8),
    ]


def test_a_record_behind_the_end_of_its_batch_has_no_run(tmp_path: Path) -> None:
    data = bytearray(build([Record(b"k"), Record(b"k", offset=9)], last_offset=9))
    data[23:27] = (5).to_bytes(4, "big")  # last_offset_delta
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    one = replica(tmp_path, bytes(data) + build([Record(b"k")], base_offset=6))
    assert found(one) == [(0, 0, RECORD, None), (1, 5, "compacted", None), (6, 6, RECORD, None)]
