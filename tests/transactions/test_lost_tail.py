"""Evidence that a log went on after its last batch: its end is then damage, and what a snapshot has open is open."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import AbortedTxn
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, replica_facts
from kafkawire.transactions.facts import OffsetGap
from kafkawire.transactions.parts.part_scan import PartTask
from kafkawire.transactions.verdict.completeness import outcome
from tests.audit_logs import LogDirectory, open_entry

ZEROS = bytes(4096)


def found_in(root: Path) -> ReplicaFacts:
    (partition,) = logdir.open(root / "orders-0").partitions
    return replica_facts(AuditedReplica(partition))


def segment(root: Path, base: int = 0) -> Path:
    return root / "orders-0" / f"{base:020}.log"


def orders(root: Path) -> LogDirectory:
    """Two batches without transactions, and one that opens a transaction at offset 2."""
    logs = LogDirectory(root, ids=1, compacted=False)
    log = logs.partition("orders")
    log.plain()
    log.plain()
    log.data(7)
    return logs


def zero_the_transaction(root: Path) -> int:
    """Returns the byte offset from which the segment is zeros."""
    data = segment(root).read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    segment(root).write_bytes(data[: 2 * size] + bytes(len(data) - 2 * size))
    return 2 * size


def damage_of(found: ReplicaFacts) -> list[tuple[str | None, int | None, str, str | None]]:
    return [(Path(one.file or "").name, one.position, one.reason, one.detail) for one in found.partition.damage]


def test_a_zeroed_tail_under_a_snapshot_is_damage_and_what_the_snapshot_has_open_is_open(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    logs.partition("orders").snapshot(open_entry(2, 2, 7))
    logs.write()
    at = zero_the_transaction(tmp_path)
    found = found_in(tmp_path)
    detail = "zero bytes up to the end, where offsets from 2 on were: there is a snapshot of offset 3"
    assert damage_of(found) == [(segment(tmp_path).name, at, "zeros", detail)]
    assert (found.partition.gap, found.partition.damaged) == (OffsetGap(2), True)
    assert [(one.producer_id, one.start_offset) for one in found.opens] == [(7, 2)]


@pytest.mark.parametrize("evidence", ["high watermark", "index", "timeindex", "txnindex"])
def test_a_zeroed_tail_is_damage_where_anything_shows_that_records_were_there(tmp_path: Path, evidence: str) -> None:
    logs = orders(tmp_path)
    if evidence == "high watermark":
        logs.high_watermark("orders", 0, 3)
    logs.write()
    at = zero_the_transaction(tmp_path)
    if evidence == "index":
        segment(tmp_path).with_suffix(".index").write_bytes(struct.pack(">ii", 2, at))
    elif evidence == "timeindex":
        segment(tmp_path).with_suffix(".timeindex").write_bytes(struct.pack(">qi", 9, 2))
    elif evidence == "txnindex":
        segment(tmp_path).with_suffix(".txnindex").write_bytes(AbortedTxn(7, 1, 2, 3).encode_prefixed(version=0))
    found = found_in(tmp_path)
    assert [reason for _, _, reason, _ in damage_of(found)] == ["zeros"]
    assert found.partition.gap == OffsetGap(2)
    assert [one.answer.check for one in found.answers if one.answer.violated] == []


def test_a_preallocated_segment_is_sound(tmp_path: Path) -> None:
    """Index, high watermark and snapshot are of what is there."""
    logs = orders(tmp_path)
    logs.high_watermark("orders", 0, 3)
    logs.partition("orders").snapshot(open_entry(2, 2, 7))
    logs.write()
    segment(tmp_path).with_suffix(".index").write_bytes(struct.pack(">ii", 2, 0) + ZEROS)
    with segment(tmp_path).open("ab") as file:
        file.write(ZEROS)
    found = found_in(tmp_path)
    assert (damage_of(found), found.partition.gap, found.partition.damaged) == ([], None, False)
    assert [one.start_offset for one in found.opens] == [2]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_that_cannot_be_asked_for_a_zeroed_tail_is_damage(tmp_path: Path, kind: str) -> None:
    """It may have the entry that shows the loss."""
    orders(tmp_path).write()
    zero_the_transaction(tmp_path)
    index = segment(tmp_path).with_suffix(f".{kind}")
    form = ">qiqi" if kind == "timeindex" else ">iiii"
    entries = (1, 9, 1, 1) if kind == "timeindex" else (9, 1, 1, 1)
    index.write_bytes(struct.pack(form, *entries))
    found = found_in(tmp_path)
    assert damage_of(found)[0][::2] == (index.name, "not_ascending")
    index.unlink()
    index.write_bytes(b"")
    (partition,) = logdir.open(tmp_path / "orders-0").partitions
    index.unlink()
    index.mkdir()
    found = replica_facts(AuditedReplica(partition))
    assert (damage_of(found)[0][::2], found.partition.damaged) == ((index.name, "unreadable"), True)


def test_an_index_that_cannot_be_read_is_of_no_matter_where_the_log_has_no_zeros(tmp_path: Path) -> None:
    orders(tmp_path).write()
    segment(tmp_path).with_suffix(".index").write_bytes(struct.pack(">iiii", 5, 0, 2, 9))
    assert damage_of(found_in(tmp_path)) == []


def test_zeros_in_front_of_a_later_segment_are_damage_unless_that_continues(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    log = logs.partition("orders")
    log.roll()
    log.plain()
    logs.write()
    with segment(tmp_path).open("ab") as file:
        file.write(ZEROS)
    assert damage_of(found_in(tmp_path)) == []
    at = zero_the_transaction(tmp_path)
    detail = "zero bytes up to the end, where offsets from 2 on were: the next segment begins at offset 3"
    assert damage_of(found_in(tmp_path)) == [(segment(tmp_path).name, at, "zeros", detail)]


def test_a_snapshot_behind_the_last_batch_shows_that_records_are_missing(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    log = logs.partition("orders")
    log.snapshot(open_entry(4, 4, 8), offset=5)
    logs.write()
    found = found_in(tmp_path)
    detail = "the log ends at offset 3, and this is a snapshot of offset 5"
    assert damage_of(found) == [(f"{5:020}.snapshot", 0, "missing", detail)]
    assert [(one.producer_id, one.start_offset) for one in found.opens] == [(7, 2), (8, 4)]


def test_a_snapshot_behind_damage_has_the_transaction_that_the_damage_hides(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    log = logs.partition("orders")
    log.plain()
    log.snapshot(open_entry(2, 2, 7))
    logs.write()
    data = bytearray(segment(tmp_path).read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[2 * size + 40] ^= 1
    segment(tmp_path).write_bytes(data)
    found = found_in(tmp_path)
    assert [reason for _, _, reason, _ in damage_of(found)] == ["crc_mismatch"]
    assert [(one.producer_id, one.start_offset) for one in found.opens] == [(7, 2)]
    log.marker("COMMIT", 7)
    marker = bytes(log.segments[-1][1])[len(data) :]
    segment(tmp_path).write_bytes(bytes(data) + marker)
    assert found_in(tmp_path).opens == ()  # it has ended behind the snapshot


def test_the_audit_of_a_zeroed_tail_is_incomplete(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    logs.partition("orders").snapshot(open_entry(2, 2, 7))
    logs.id("pay", "CompleteCommit", 7, 0)
    logs.write()
    zero_the_transaction(tmp_path)
    answer = transactions.audit(logdir.open(tmp_path))
    assert not outcome(answer).complete
    assert [(one.verdict, one.start_offset) for one in answer.findings] == [("unknown", 2)]


def test_a_transaction_index_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    logs = orders(tmp_path)
    logs.partition("orders").marker("ABORT", 7)
    logs.write()
    index = segment(tmp_path).with_suffix(".txnindex")
    index.write_bytes(b"")
    (partition,) = logdir.open(tmp_path / "orders-0").partitions
    index.unlink()
    index.mkdir()
    found = replica_facts(AuditedReplica(partition))
    assert [(one.file, one.reason) for one in found.damage] == [(str(index), "unreadable")]


def test_a_part_whose_place_cannot_be_found_is_damage(tmp_path: Path) -> None:
    """The first part is read, and then the segment is gone."""
    orders(tmp_path).write()
    (partition,) = logdir.open(tmp_path / "orders-0").partitions
    (file,) = partition.segments
    segment(tmp_path).unlink()
    for number in range(2):
        part = PartTask(file, number, 2, 100, 100).read()
        assert [one.reason for one in part.scan.damage] == ["unreadable"]
