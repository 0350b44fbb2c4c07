"""What consumers get of a damaged log: never a record that they do not get of the sound one, however it is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir, offsets, rows
from kafkawire.logdir import Outcomes, Partition, View, outcomes_of
from kafkawire.logdir.segment_arrays import columns_of
from kafkawire.logdir.splits import batches_of, ranges
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.records import Damage, Record, build
from kafkawire.records.columns import Batches, records
from tests.audit_logs import PartitionLog
from tests.logdir.test_logdir_isolation import write
from tests.logdir.test_logdir_outcomes import log_directory
from tests.logdir.test_logdir_transaction_states import data_of, marker, truths
from tests.transactions.schedules import Schedule, Written, naive_state, naive_transactions, schedules


def by_rows(partition: Partition, view: View) -> Iterator[tuple[int, str | None]]:
    for file in partition.segments:
        for row in logdir.rows_of(file, logdir.Options(deep=True, payloads=True, view=view)):
            if isinstance(row, rows.RecordRow):
                yield row.offset, row.key


def by_columns(partition: Partition, view: View) -> Iterator[tuple[int, str | None]]:
    for file in partition.segments:
        options = logdir.Options(deep=True, payloads=True, view=view)
        for made in columns_of(file, options, encode=lambda value: b""):
            if isinstance(made, rows.Columns):
                found = {name: made.arrays[name].to_pylist() for name in ("kind", "offset", "key")}
                for kind, offset, key in zip(*found.values(), strict=True):
                    if kind == "record":
                        yield offset, key
            elif isinstance(made, rows.RecordRow):
                yield made.offset, made.key


def by_parts(partition: Partition, view: View) -> Iterator[tuple[int, str | None]]:
    """As Spark's tasks: each a part of a segment, with what the part needs of the outcomes."""
    for file in partition.segments:
        for start, end in ranges(file, 200):
            for item in batches_of(file, start, end):
                if isinstance(item, Batches):
                    near = view.within(int(item.base_offset.min()), int(item.last_offset.max()) + 1)
                    for part in records(item.where(near.see(item).kept)):
                        keys = part.arrow_keys().to_pylist()
                        for offset, key in zip(part.offset.tolist(), keys, strict=True):
                            yield offset, key.decode()


class Truth(NamedTuple):
    """Of the sound log: the last stable offset, and the records of a read_committed consumer."""

    last_stable_offset: int
    records: set[tuple[int, str]]


def truth_of(schedule: Schedule, high_watermark: int) -> Truth:
    appends = [one.append for one in schedule.batches]
    unstable = [
        first for _, first, end in naive_transactions(appends) if end is None or end.base_offset >= high_watermark
    ]
    stable = min([high_watermark, *unstable])
    states = truths(appends)
    return Truth(stable, {
        (one.append.base_offset + number, key.decode())
        for one in schedule.batches
        if one.append.base_offset < stable and states[one.append.base_offset] in ("none", "committed")
        for number, key in enumerate(one.keys)
    })  # fmt: skip


def damage(data: st.DataObject, path: Path, *, traced: bool) -> None:
    """Change any bytes, cut the file, or remove it; the first segment where something shows that it was there."""
    content = bytearray(path.read_bytes())
    if not content:
        return
    start = data.draw(st.integers(0, len(content) - 1))
    stop = min(len(content), start + data.draw(st.integers(1, 300)))
    match data.draw(st.sampled_from(["flip", "zeros", "bytes", "cut", "zero tail", "lost"])):
        case "flip":
            content[start] ^= 1 << data.draw(st.integers(0, 7))
        case "zeros":
            content[start:stop] = bytes(stop - start)
        case "bytes":
            content[start:stop] = data.draw(st.binary(min_size=stop - start, max_size=stop - start))
        case "cut":
            del content[start:]
        case "zero tail":
            content[start:] = bytes(len(content) - start)
        case _ if not traced and path.name == f"{0:020}.log":
            del content[start:]
        case _:
            path.unlink()
            return
    path.write_bytes(content)


def prove_sound(partition: Partition, outcomes: Outcomes, truth: Truth) -> None:
    """No record that a consumer of the sound log does not get, in any way of reading."""
    assert outcomes.last_stable_offset <= max(truth.last_stable_offset, outcomes.start)
    assert outcomes.last_stable_offset <= outcomes.last_stable_at_most
    assert (outcomes.undecided is None) == (outcomes.last_stable_offset == outcomes.last_stable_at_most)
    view = View(outcomes=outcomes, isolation_level="read_committed")
    found = set(by_rows(partition, view))
    assert found <= truth.records
    for way in (by_columns, by_parts):
        assert set(way(partition, view)) == found, way


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(schedules(), st.data())
def test_no_damage_gives_consumers_a_record_that_they_do_not_get(
    tmp_path: Path, schedule: Schedule, data: st.DataObject
) -> None:
    """Any bytes of any segments; with `.snapshot` files, `.txnindex` files and checkpoints, or without."""
    snapshots, indexes = data.draw(st.booleans()), data.draw(st.booleans())
    directory = write(tmp_path / "logs", schedule, snapshots=snapshots, indexes=indexes)
    high = schedule.end
    if data.draw(st.booleans()):
        high = data.draw(st.sampled_from([0, *(one.append.last_offset + 1 for one in schedule.batches)]))
        (directory.parent / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high}\n")
    traced = data.draw(st.booleans())
    if traced:
        (directory.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    for _ in range(data.draw(st.integers(1, 3))):
        damage(data, data.draw(st.sampled_from(sorted(directory.iterdir()))), traced=traced)
        if not any(directory.glob("*.log")):
            return
    (partition,) = logdir.open(directory.parent).partitions
    outcomes = outcomes_of(partition)
    prove_sound(partition, outcomes, truth_of(schedule, high))
    (replica,) = offsets.replicas(logdir.open(directory.parent), "orders", 0)
    assert replica.bounds.last_stable_offset == outcomes.last_stable_offset


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(), st.data())
def test_a_snapshot_at_the_end_decides_what_damage_hides(
    tmp_path: Path, schedule: Schedule, data: st.DataObject
) -> None:
    """Batches of which a byte under the checksum is wrong: the last stable offset is that of the sound log, unless a
    batch is alone between two of them."""
    directory = write(tmp_path / "logs", schedule, snapshots=True, indexes=False)
    for path in sorted(directory.glob("*.log")):
        content = bytearray(path.read_bytes())
        start = 0
        while start < len(content):
            size = 12 + int.from_bytes(content[start + 8 : start + 12], "big")
            if not data.draw(st.integers(0, 3)):
                content[start + 40] ^= 1
            start += size
        path.write_bytes(content)
    (partition,) = logdir.open(directory.parent).partitions
    outcomes, truth = outcomes_of(partition), truth_of(schedule, schedule.end)
    prove_sound(partition, outcomes, truth)
    if not outcomes.repeated:
        assert outcomes.undecided is None
        assert outcomes.last_stable_offset == min(truth.last_stable_offset, outcomes.high_watermark)


def broken(batch: bytes) -> bytes:
    """With a wrong checksum."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def plain(offset: int) -> bytes:
    return build([Record(b"%d" % offset)], base_offset=offset)


def state(offset: int, producer_id: int = 1) -> list[Any]:
    """Of a snapshot: the producer has a transaction that is open since an offset."""
    from kafkawire.transactions import Append

    append = Append(
        base_offset=offset, last_offset=offset, timestamp=1, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
    return naive_state([Written(append, b"").append])


OPENED = plain(0) + broken(data_of(1)) + plain(2) + plain(3)


def stable(partition: Partition) -> tuple[int, int]:
    outcomes = outcomes_of(partition)
    return outcomes.last_stable_offset, outcomes.last_stable_at_most


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_snapshot_behind_a_damaged_batch_shows_the_transaction_that_it_opened(tmp_path: Path, at: int) -> None:
    """Behind the batch, later in the segment, at the end of the log: in each place a broker may have written one."""
    partition = log_directory(tmp_path, {0: OPENED})
    PartitionLog(tmp_path / "orders-0").snapshot(*state(1), offset=at)
    (partition,) = logdir.open(tmp_path).partitions
    assert stable(partition) == (1, 1)


def test_a_snapshot_of_a_later_segment_shows_that_nothing_is_open(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {0: OPENED, 4: plain(4)})
    assert stable(partition) == (1, 5)
    PartitionLog(tmp_path / "orders-0").snapshot(offset=4)
    (partition,) = logdir.open(tmp_path).partitions
    assert stable(partition) == (5, 5)


def test_without_a_snapshot_the_offsets_behind_damage_are_undecided(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {0: OPENED})
    outcomes = outcomes_of(partition)
    assert (outcomes.last_stable_offset, outcomes.last_stable_at_most) == (1, 4)
    path, found = outcomes.undecided or ("", None)
    assert (path, found and found.position) == (partition.segments[0].path, len(plain(0)))
    assert found is not None
    assert found.reason == "unknown_outcome"
    assert found.detail.startswith("offsets 1 to 3: whether a transaction from before them is open is unknown: ")
    assert View(outcomes=outcomes, isolation_level="read_uncommitted").damage == ()


def test_a_snapshot_that_cannot_be_read_decides_nothing_and_is_damage(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: OPENED})
    snapshot = tmp_path / "orders-0" / f"{3:020}.snapshot"
    snapshot.write_bytes(b"\0" * 99)
    outcomes = outcomes_of(logdir.open(tmp_path).partitions[0])
    assert (outcomes.last_stable_offset, outcomes.last_stable_at_most) == (1, 4)
    assert [(path, one.reason) for path, one in outcomes.damage] == [(str(snapshot), "bad_snapshot")]


def test_of_two_damaged_ranges_a_snapshot_between_them_decides_the_first(tmp_path: Path) -> None:
    parts = plain(0) + broken(plain(1)) + plain(2), plain(3) + broken(plain(4)) + plain(5)
    log_directory(tmp_path, {0: parts[0], 3: parts[1]})
    PartitionLog(tmp_path / "orders-0").snapshot(offset=3)
    assert stable(logdir.open(tmp_path).partitions[0]) == (4, 6)


def test_a_lost_marker_leaves_its_transaction_undecided(tmp_path: Path) -> None:
    """By a snapshot the transaction has ended: how, is not known, and consumers go on."""
    log = plain(0) + data_of(1) + broken(marker("COMMIT", 2)) + plain(3)
    partition = log_directory(tmp_path, {0: log})
    assert stable(partition) == (1, 4)
    PartitionLog(tmp_path / "orders-0").snapshot(offset=4)
    (partition,) = logdir.open(tmp_path).partitions
    assert stable(partition) == (4, 4)
    view = View(outcomes=outcomes_of(partition), isolation_level="read_committed")
    assert set(by_rows(partition, view)) == {(0, "0"), (3, "3")}
    assert [one.reason for one in (view.reads(b) for b in partition if not isinstance(b, Damage))
            if isinstance(one, Damage)] == ["unknown_outcome"]  # fmt: skip


def test_a_snapshot_above_the_high_watermark_does_not_decide_what_was_open_at_it(tmp_path: Path) -> None:
    """Segment 2 lost its content: data at offset 3, and a marker at 4, which consumers do not have yet."""
    log_directory(tmp_path, {0: plain(0) + plain(1), 2: b"", 6: b""}, high_watermark=4)
    PartitionLog(tmp_path / "orders-0").snapshot(offset=6)
    assert stable(logdir.open(tmp_path).partitions[0])[0] == 2


def test_damage_in_a_compacted_log_bounds_the_last_stable_offset(tmp_path: Path) -> None:
    """Offsets are missing by compaction, too: only those behind damage count."""
    thin = build([Record(b"k")], base_offset=2, last_offset=5)
    log_directory(tmp_path, {0: plain(0) + thin + plain(8) + broken(plain(9)) + plain(12)})
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    assert stable(logdir.open(tmp_path).partitions[0]) == (9, 13)


def test_offsets_that_go_back_bound_the_last_stable_offset(tmp_path: Path) -> None:
    """A base offset is under no checksum: the batch may be any other."""
    partition = log_directory(tmp_path, {0: plain(0) + plain(700) + plain(2) + plain(3)})
    assert stable(partition)[0] == 1
    PartitionLog(tmp_path / "orders-0").snapshot(offset=4)
    assert stable(logdir.open(tmp_path).partitions[0])[0] == 2
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(plain(0) + plain(1) + plain(2) + plain(0))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    assert stable(logdir.open(tmp_path).partitions[0])[0] == 0


def test_segments_that_are_missing_before_the_first_hide_what_is_open(tmp_path: Path) -> None:
    """The log begins at 0, by the checkpoint, and the first segment at 5: a transaction may be open from 0 on."""
    partition = log_directory(tmp_path, {5: plain(5)})
    assert stable(partition) == (6, 6)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    (partition,) = logdir.open(tmp_path).partitions
    assert stable(partition) == (0, 6)
    PartitionLog(tmp_path / "orders-0").snapshot(offset=5)
    (partition,) = logdir.open(tmp_path).partitions
    assert stable(partition) == (6, 6)


def test_an_index_shows_that_a_transaction_ended_in_what_is_missing(tmp_path: Path) -> None:
    from kafkawire.messages import AbortedTxn

    log_directory(tmp_path, {0: plain(0) + data_of(1) + plain(2)}, high_watermark=9)
    assert stable(logdir.open(tmp_path).partitions[0]) == (1, 3)
    index = tmp_path / "orders-0" / f"{0:020}.txnindex"
    index.write_bytes(AbortedTxn(producer_id=1, first_offset=1, last_offset=4).encode_prefixed(0))
    assert stable(logdir.open(tmp_path).partitions[0]) == (3, 3)
    index.write_bytes(AbortedTxn(producer_id=1, first_offset=1, last_offset=9).encode_prefixed(0))
    assert stable(logdir.open(tmp_path).partitions[0]) == (1, 3)


def test_an_index_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: data_of(0), 6: data_of(6, 2)})
    index = tmp_path / "orders-0" / f"{0:020}.txnindex"
    index.mkdir()
    (partition,) = logdir.open(tmp_path).partitions
    broken_index = partition.segments[0].beside("txnindex")
    partition.__dict__["txn_indexes"] = (broken_index,)
    assert [(path, one.reason) for path, one in outcomes_of(partition).damage] == [(str(index), "unreadable")]
    shutil.rmtree(index)
    index.write_bytes(b"\0\7" + bytes(32))
    assert [one.reason for _, one in outcomes_of(logdir.open(tmp_path).partitions[0]).damage] == ["bad_entry"]


def test_a_file_that_is_no_segment_in_use_has_a_bound_of_its_own(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: plain(0) + data_of(1) + plain(2)})
    renamed = tmp_path / "orders-0" / f"{0:020}.log.deleted"
    (tmp_path / "orders-0" / f"{0:020}.log").rename(renamed)
    directory = logdir.open(str(renamed))
    outcomes = logdir.OutcomesByFile(directory.partitions, [str(renamed)]).of(directory.files[0])
    assert (outcomes.last_stable_offset, outcomes.last_stable_at_most) == (1, 3)


def test_parts_that_are_scanned_alone_have_the_bound_of_the_whole() -> None:
    from kafkawire.records.columns import batches

    def scanned(data: bytes) -> TransactionScan:
        scan = TransactionScan()
        for item in batches(data):
            if isinstance(item, Batches):
                scan.add(item)
            else:
                scan.damage("damage")
        return scan

    joined = TransactionScan(0)
    for part in (plain(0), broken(data_of(1)), plain(2) + plain(5), plain(6)):
        joined.take(scanned(part))
    assert (joined.unstable().least, joined.unstable().gap) == (1, 3)


@pytest.mark.parametrize("offset", [0, 2])
def test_the_story_of_an_offset_has_the_doubt(tmp_path: Path, offset: int) -> None:
    log_directory(tmp_path, {0: OPENED})
    found = list(offsets.story(logdir.open(tmp_path), "orders", 0, offset))
    (standing,) = (row for row in found if isinstance(row, rows.OffsetStanding))
    reasons = [row.reason for row in found if isinstance(row, rows.DamageRow)]
    assert (standing.read_committed, reasons) == ((True, []) if offset == 0 else (None, ["unknown_outcome"]))
    assert offset == 0 or "read_committed consumers may stop at offset 1: " in (standing.detail or "")


@pytest.mark.parametrize("ends_at", [3, 9])
def test_a_batch_behind_damage_that_nothing_continues_may_have_another_offset(tmp_path: Path, ends_at: int) -> None:
    """The damage may reach into its base offset, which no checksum covers."""
    moved = bytearray(plain(3))
    moved[:8] = bytes(8)
    parts = bytes(len(plain(0))) + bytes(moved)
    log_directory(tmp_path, {0: parts + b"".join(map(plain, range(4, ends_at + 1)))})
    PartitionLog(tmp_path / "orders-0").snapshot(offset=ends_at + 1)
    PartitionLog(tmp_path / "orders-0").snapshot(offset=0)
    assert stable(logdir.open(tmp_path).partitions[0])[0] == 0
