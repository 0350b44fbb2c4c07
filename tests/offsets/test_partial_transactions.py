"""Transactions of which compaction has left a part: by batches that lost records, and by sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, offsets, rows
from kafkawire.records import Record, build, build_marker


def data(
    offset: int, count: int, sequence: int, *, left: int | None = None, producer: int = 7, epoch: int = 0
) -> bytes:
    listed = [Record(offset=offset + n, value=b"v", timestamp=1) for n in range(count)]
    return build(
        listed[: count if left is None else left], base_offset=offset, last_offset=offset + count - 1,
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True,
    )  # fmt: skip


def marker(offset: int, name: str = "COMMIT", producer: int = 7) -> bytes:
    return build_marker(name, offset=offset, timestamp=1, producer_id=producer, producer_epoch=0, coordinator_epoch=0)


def found(root: Path, log: bytes, most: int | None = 40) -> list[rows.Row]:
    folder = root / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(log)
    (root / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 99\n")
    (replica,) = offsets.replicas(logdir.open(root), "orders", 0)
    kinds = (rows.PartialTransaction, rows.PartialTransactionTotal)
    return [row for row in offsets.explain(replica, most=most) if isinstance(row, kinds)]


@pytest.mark.parametrize(
    ("log", "left", "removed"),
    [
        (data(0, 5, 0, left=2) + marker(5), 2, 3),
        (data(0, 2, 0) + data(8, 2, 8) + marker(10), 4, 6),
        (data(0, 2, 0) + data(5, 4, 5, left=0) + marker(9), 2, 7),  # kept for the producer's state
        (data(0, 2, 2**31 - 2) + data(4, 1, 2) + marker(5), 3, 2),
    ],
    ids=["within a batch", "between batches", "an empty batch", "over the highest sequence"],
)
def test_a_part_is_reported_with_what_is_gone(tmp_path: Path, log: bytes, left: int, removed: int) -> None:
    (row, total) = found(tmp_path, log)
    assert isinstance(row, rows.PartialTransaction)
    assert (row.producer_id, row.transaction, row.left, row.removed) == (7, "committed", left, removed)
    assert total == rows.PartialTransactionTotal(
        file=row.file, topic="orders", partition=0, transactions=1, left=left, removed=removed
    )


@pytest.mark.parametrize(
    "log",
    [
        data(0, 2, 0) + data(2, 2, 2) + marker(4),
        data(0, 2, 0, left=0) + marker(2),
        data(0, 2, 0) + marker(2) + data(9, 2, 9) + marker(11),  # what is between belongs to either, or to another
        marker(4),
    ],
    ids=["whole", "nothing left", "gaps between transactions", "a marker alone"],
)
def test_whole_transactions_and_those_that_are_gone_are_none(tmp_path: Path, log: bytes) -> None:
    assert found(tmp_path, log) == []


def test_as_many_as_fit_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    log = b"".join(data(3 * n, 2, 2 * n, left=1) + marker(3 * n + 2) for n in range(9))
    rows_of = found(tmp_path, log, most=4)
    assert [type(row) for row in rows_of] == [rows.PartialTransaction] * 4 + [rows.PartialTransactionTotal]
    assert (rows_of[-1].transactions, rows_of[-1].left, rows_of[-1].removed) == (9, 9, 9)  # type: ignore[attr-defined]


def test_a_part_without_its_marker_is_reported_at_the_end_of_the_log(tmp_path: Path) -> None:
    (row, total) = found(tmp_path, data(0, 5, 0, left=2))
    assert isinstance(row, rows.PartialTransaction)
    assert (row.transaction, row.first_offset, row.left, row.removed) == ("open", 0, 2, 3)
    assert isinstance(total, rows.PartialTransactionTotal)
