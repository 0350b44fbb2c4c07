"""Indexes and snapshots: known bytes, tails and damage; and any bytes for every reader of small files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import indexes, text_files
from kafkawire.logdir.entries import (
    AbortedEntry,
    OffsetEntry,
    SnapshotEntry,
    TimeEntry,
)
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage, Memory
from tests.logdir.logged import reasons


def aborted_transactions(data: bytes) -> Iterator[Any]:
    return indexes.aborted_transactions(Memory(data))


def offset_index(data: bytes) -> Iterator[Any]:
    return indexes.offset_index(Memory(data))


def time_index(data: bytes) -> Iterator[Any]:
    return indexes.time_index(Memory(data))


# .txnindex -----------------------------------------------------------------------------------------------------------

ENTRY = bytes.fromhex("00000000000000000fa100000000000000050000000000000009000000000000000a")
ABORTED = AbortedTxn(producer_id=4001, first_offset=5, last_offset=9, last_stable_offset=10)


def test_reads_aborted_transactions() -> None:
    assert len(ENTRY) == 34
    assert list(aborted_transactions(ENTRY * 2)) == [
        AbortedEntry(0, 0, ABORTED),
        AbortedEntry(34, 0, ABORTED),
    ]
    assert list(aborted_transactions(b"")) == []


@pytest.mark.parametrize("cut", range(1, 34))
def test_torn_transaction_index_is_damage(cut: int) -> None:
    items = list(aborted_transactions(ENTRY + ENTRY[:cut]))
    assert items[0] == AbortedEntry(0, 0, ABORTED)
    assert reasons(iter(items)) == [("truncated", 34)]


def test_invalid_entry_is_damage_and_reading_continues() -> None:
    items = list(aborted_transactions(ENTRY + b"\0\5" + ENTRY[2:] + ENTRY))
    assert [type(item).__name__ for item in items] == ["AbortedEntry", "Damage", "AbortedEntry"]
    assert isinstance(items[1], Damage)
    assert (items[1].position, items[1].reason, items[1].resumed_at) == (34, "bad_entry", 68)
    assert "version 5" in items[1].detail


# .snapshot -----------------------------------------------------------------------------------------------------------

PRODUCERS = struct.pack(">i", 2) + b"".join(
    struct.pack(">qhiqiqiq", 4000 + i, 3, 7, 99 + i, 2, 1700000000000, -1, 98 if i else -1) for i in range(2)
)
SNAPSHOT = struct.pack(">hI", 1, crc32c.crc32c(PRODUCERS)) + PRODUCERS


def test_reads_producer_snapshots() -> None:
    first, second = indexes.producer_snapshot(SNAPSHOT)
    assert first == SnapshotEntry(10, ProducerEntry(4000, 3, 7, 99, 2, 1700000000000, -1, -1))
    assert isinstance(second, SnapshotEntry)
    assert (second.position, second.producer.current_txn_first_offset) == (56, 98)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ("truncated", 0)),
        (SNAPSHOT[:9], ("truncated", 0)),
        (SNAPSHOT[:-1], ("bad_snapshot", 0)),
        (SNAPSHOT + b"x", ("bad_snapshot", 0)),
        (b"\0\2" + SNAPSHOT[2:], ("bad_snapshot", 0)),
        (SNAPSHOT[:-1] + b"x", ("crc_mismatch", 0)),
        (SNAPSHOT[:6] + b"\x7f\xff\xff\xff", ("bad_snapshot", 0)),
    ],
)
def test_damaged_snapshots_have_no_entries(data: bytes, expected: tuple[str, int]) -> None:
    assert reasons(indexes.producer_snapshot(data)) == [expected]


# .index and .timeindex -----------------------------------------------------------------------------------------------


def test_reads_indexes_without_their_preallocated_tails() -> None:
    index = struct.pack(">iiii", 10, 4096, 256, 8192)
    entries = [OffsetEntry(0, 10, 4096), OffsetEntry(8, 256, 8192)]
    for tail in (0, 8, 1 << 16):
        assert list(offset_index(index + bytes(tail))) == entries
    times = struct.pack(">qiqi", 1700000000000, 10, 1700000000256, 256)
    wanted = [TimeEntry(0, 1700000000000, 10), TimeEntry(12, 1700000000256, 256)]
    for tail in (0, 12, 12 * 999):
        assert list(time_index(times + bytes(tail))) == wanted
    assert list(time_index(bytes(1200))) == []


def test_torn_index_is_damage() -> None:
    assert reasons(offset_index(struct.pack(">iii", 10, 4096, 256))) == [("truncated", 8)]
    assert reasons(time_index(struct.pack(">qiq", 17, 4, 256))) == [("truncated", 12)]


# Text files ----------------------------------------------------------------------------------------------------------


ALL = [
    aborted_transactions,
    text_files.json_properties,
    text_files.leader_epochs,
    text_files.offset_checkpoint,
    offset_index,
    indexes.producer_snapshot,
    text_files.properties,
    time_index,
]


@pytest.mark.slow
@pytest.mark.parametrize("reader", ALL)
@given(data=st.binary(max_size=200) | st.text("0123 \n-=:x#\\", max_size=80).map(str.encode))
def test_any_bytes_give_entries_or_damage(reader: Callable[[bytes], Iterator[Any]], data: bytes) -> None:
    for item in reader(data):
        assert 0 <= item.position <= len(data)


def test_reads_a_first_entry_of_zeros() -> None:
    """Alone in a file that was cut to its entries, it is one; in front of another, too."""
    assert list(offset_index(bytes(8))) == [OffsetEntry(0, 0, 0)]
    assert list(offset_index(bytes(8) + struct.pack(">ii", 5, 70))) == [OffsetEntry(0, 0, 0), OffsetEntry(8, 5, 70)]
    assert list(offset_index(bytes(16))) == []
