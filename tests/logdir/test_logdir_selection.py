"""What a selection leaves: the same, whether indexes are used to get there or everything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir import Options, Selection
from kafkawire.logdir.seek import wanted_files
from kafkawire.messages import OffsetCommitKey
from kafkawire.records import Record, build

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


@pytest.mark.slow
@given(selection=selections)
def test_selects_exactly_the_matching_records(indexed: Path, selection: Selection) -> None:
    everything = [
        row for file in logdir.open(indexed).files for row in logdir.rows_of(file, Options(deep=True, payloads=True))
    ]
    expected = [
        row.offset
        for row in everything
        if isinstance(row, rows.RecordRow)
        and within(selection.offsets, row.offset)
        and within(selection.times, row.timestamp)
        and selection.producer_id in (None, row.producer_id)
        and (selection.key is None or row.key == selection.key.decode())
        and (selection.control is None or selection.control == (row.control is not None))
    ]  # fmt: skip
    found: list[rows.Row] = []
    for file in wanted_files(logdir.open(indexed).files, selection):
        found += logdir.rows_of(file, Options(deep=True, payloads=True, selection=selection))
    assert [row.offset for row in found if isinstance(row, rows.RecordRow)] == expected
    if selection.offsets is None:  # a batch may cover offsets of which compaction left no record
        batches = {row.position for row in found if isinstance(row, rows.BatchRow)}
        assert {row.position for row in found if isinstance(row, rows.RecordRow)} == batches


def test_selects_entries_by_the_fields_that_they_have(tmp_path: Path) -> None:
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


def test_max_bytes_limits_reading(indexed: Path) -> None:
    (file, *_) = [file for file in logdir.open(indexed).files if file.kind == "log"]
    first, second, *_ = [row for row in logdir.rows_of(file) if isinstance(row, rows.BatchRow)]
    for most, expected in ((0, []), (first.size - 1, []), (first.size, [0]), (second.position + second.size, [0, 5])):
        found = list(logdir.rows_of(file, Options(max_bytes=most)))
        assert [getattr(row, "base_offset", row.kind) for row in found] == expected  # type: ignore[attr-defined]


def test_unreadable_records_are_selected(tmp_path: Path) -> None:
    torn = bytearray(build([Record(b"k")] * 3, codec="lz4"))
    torn[61:70] = b"no frames"
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(bytes(torn))
    (file,) = logdir.open(path).files
    options = Options(check_crc=False, deep=True, selection=Selection(key=b"other"))
    assert [type(row) for row in logdir.rows_of(file, options)] == [rows.BatchRow, rows.DamageRow]


def test_key_of_an_internal_topic_is_its_id_or_group() -> None:
    """A binary key that looks alike is no id in another topic."""
    key = b"\0\1" + OffsetCommitKey(group="shipments", topic="orders", partition=3).encode(0)
    record = Record(key=key)
    options = Options(selection=Selection(key=b"shipments"))
    assert options.selection_of("__consumer_offsets").record(record)
    assert not options.selection_of("orders").record(record)
    assert not options.selection_of("__transaction_state").record(Record(key=key[:6]))
    assert Options(selection=Selection(key=key)).selection_of("__consumer_offsets").record(record)
    decoding = Options(selection=Selection(key=b"shipments"), decode_as="__consumer_offsets")
    assert decoding.selection_of("copied").record(record)


@given(st.binary(max_size=40), st.binary(max_size=8))
def test_any_key_is_looked_at(key: bytes, wanted: bytes) -> None:
    selection = Options(selection=Selection(key=wanted)).selection_of("__share_group_state")
    named = len(key) >= 4 and key[4 : 4 + len(wanted)] == wanted and int.from_bytes(key[2:4]) == len(wanted)
    assert selection.record(Record(key=key)) == (key == wanted or (named and len(key) >= 4 + len(wanted)))
