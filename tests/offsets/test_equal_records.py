"""Records that were written twice (KIP-360), and those that only look alike."""

from __future__ import annotations

import crc32c
import pytest

from kafkawire.errors import RecordError
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.offsets.equal_records import EqualRecordSearch
from kafkawire.records import Batch, Record, build, read
from kafkawire.rows import EqualRecords


def batch(
    offset: int, values: list[bytes], producer: int = 1, epoch: int = 0, sequence: int = 0, *, append: int | None = None
) -> bytes:
    listed = [Record(key=b"k", value=value, timestamp=100 + n) for n, value in enumerate(values)]
    return build(
        listed, base_offset=offset, producer_id=producer, producer_epoch=epoch,
        base_sequence=sequence if producer >= 0 else -1, append_time=append,
    )  # fmt: skip


def search(*batches: bytes, window: int = 100) -> list[EqualRecords]:
    of = EqualRecordSearch(TransactionScan().finish(), {"topic": "orders", "partition": 0}, window)
    found = [row for item in read(b"".join(batches)) if isinstance(item, Batch) for row in of.add(item)]
    return [*found, *of.finish()]


def places(found: list[EqualRecords]) -> list[tuple[int, int, int, int]]:
    return [(row.first_offset, row.last_offset, row.earlier_first_offset, row.earlier_last_offset) for row in found]


def test_equal_records_under_another_id_epoch_or_sequence_are_one_row() -> None:
    values = [b"a", b"b", b"c"]
    for again in ({"producer": 2}, {"epoch": 1}, {"sequence": 3}):
        (row,) = search(batch(0, values), batch(3, [b"x"], 9), batch(4, values, **again))  # type: ignore[arg-type]
        assert places([row]) == [(4, 6, 0, 2)]
        assert row.offsets == 3
    assert (row.producer_id, row.sequence, row.earlier_sequence) == (1, 3, 0)


def test_records_that_differ_in_anything_are_not_equal() -> None:
    other = build([Record(key=b"other", value=b"a", timestamp=100)], base_offset=1, producer_id=2, producer_epoch=0,
                  base_sequence=0)  # fmt: skip
    later = build([Record(key=b"k", value=b"a", timestamp=101)], base_offset=1, producer_id=2, producer_epoch=0,
                  base_sequence=0)  # fmt: skip
    for second in (other, later, batch(1, [b"b"], 2)):
        assert search(batch(0, [b"a"]), second) == []


def test_records_of_producers_without_ids_are_not_compared() -> None:
    assert search(batch(0, [b"a"], -1), batch(1, [b"a"], -1)) == []


def test_the_broker_s_timestamp_is_no_part_of_a_record() -> None:
    assert places(search(batch(0, [b"a"], append=5), batch(1, [b"a"], 2, append=6))) == [(1, 1, 0, 0)]


def test_memory_is_bounded_by_the_window() -> None:
    others = [batch(n, [b"%d" % n], 5, sequence=n) for n in range(1, 30)]
    assert places(search(batch(0, [b"a"]), *others, batch(30, [b"a"], 2), window=40)) == [(30, 30, 0, 0)]
    assert search(batch(0, [b"a"]), *others, batch(30, [b"a"], 2), window=10) == []


def test_records_that_cannot_be_read_are_an_error_and_not_compared() -> None:
    broken = bytearray(batch(1, [b"a"], 2))
    broken[61] = 0x7F  # the length of the record
    broken[17:21] = crc32c.crc32c(bytes(broken[21:])).to_bytes(4, "big")
    of = EqualRecordSearch(TransactionScan().finish(), {"topic": "orders", "partition": 0})
    first, second, third = read(batch(0, [b"a"]) + bytes(broken) + batch(2, [b"a"], 3))
    assert [*of.add(first)] == []
    with pytest.raises(RecordError):
        list(of.add(second))
    assert places([*of.add(third), *of.finish()]) == [(2, 2, 0, 0)]
