"""How transactions ended, from directories: recorded clusters with what consumers got, and any subset of segments."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir import OutcomesByFile, Partition, View, outcomes_of
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.indexes import producer_snapshot
from kafkawire.logdir.transaction_states import STATES
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, Record, build, columns
from kafkawire.transactions import append_of, last_stable_offset
from tests.audit_logs import PartitionLog
from tests.consumed import LEVELS, REPLICAS, Replicas
from tests.logdir.test_logdir_transaction_states import data_of, marker, truths
from tests.transactions.schedules import Schedule, naive_state, naive_transactions, schedules
from tools.recordings.archive import unpacked

DATA = unpacked("read-committed")
CONSUMED: dict[str, Any] = json.loads((DATA / "consumed.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(CONSUMED))
def test_last_stable_offsets_are_those_of_the_broker(name: str) -> None:
    partitions = logdir.open(DATA / name).partitions
    assert {one.topic: outcomes_of(one).last_stable_offset for one in partitions} == CONSUMED[name][
        "last_stable_offset"
    ]


def by_rows(partition: Partition, view: View) -> Iterator[list[Any]]:
    options = logdir.Options(deep=True, payloads=True, view=view)
    for file in partition.segments:
        for row in logdir.rows_of(file, options):
            assert not isinstance(row, rows.DamageRow), row
            if isinstance(row, rows.RecordRow):
                yield [row.offset, row.key, row.value]


def by_batches(partition: Partition, view: View) -> Iterator[list[Any]]:
    for batch in partition:
        assert isinstance(batch, Batch)
        for record in batch.records if view.reads(batch) is True else ():
            if record.offset >= (view.offsets[0] or 0):
                yield [record.offset, *(text and text.decode() for text in (record.key, record.value))]


def by_columns(partition: Partition, view: View) -> Iterator[list[Any]]:
    """As Arrow."""
    pytest.importorskip("pyarrow")
    for file in partition.segments:
        with file.source() as source:
            for item in columns.batches(source):
                assert isinstance(item, columns.Batches)
                for part in columns.records(item.where(view.see(item).kept)):
                    for row in part.to_arrow().to_pylist():
                        if row["offset"] >= (view.offsets[0] or 0):
                            yield [row["offset"], *(text and text.decode() for text in (row["key"], row["value"]))]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_records_and_ends_are_those_of_a_java_consumer(replicas: Replicas, level: Any) -> None:
    expected = replicas.consumed(level)
    partitions = logdir.open(replicas.path).partitions
    assert [one.topic for one in partitions] == [*expected]
    for partition in partitions:
        truth = expected[partition.topic or ""]
        view = View(outcomes=outcomes_of(partition), isolation_level=level)
        assert (*view.offsets, view.offsets[1]) == (truth["start"], truth["end"], truth["position"])
        for read in (by_rows, by_batches, by_columns):
            assert list(read(partition, view)) == truth["records"], (partition, read)


@pytest.mark.parametrize("release", sorted({one.release for one in REPLICAS}))
def test_recorded_logs_have_what_is_hard_to_read(release: str) -> None:
    """Markers alone in a segment, and last ones; aborted data of which compaction left a part; batches that are there
    twice; a transaction whose marker an unclean election cut; and transactions over three segments and more."""
    found = {one.topic: one for one in logdir.open(Replicas(release, 1).path).partitions}
    listed = {
        topic: [[batch for batch in file.batches() if isinstance(batch, Batch)] for file in one.segments]
        for topic, one in found.items()
    }
    borders = [tuple(batch.is_control for batch in segment) for segment in listed["borders"]]
    assert (True,) in borders
    assert sum(one[-1] for one in borders if not one[0]) > 1

    indexed = [one.aborted for one in found["compacted"].aborted_transactions() if isinstance(one, AbortedEntry)]
    left = [
        batch for segment in listed["compacted"] for batch in segment if batch.record_count and not batch.is_control
    ]
    of_aborted = [
        (one.first_offset, [b.base_offset for b in left if b.producer_id == one.producer_id
                            and one.first_offset <= b.base_offset <= one.last_offset])
        for one in indexed
    ]  # fmt: skip
    assert any(offsets and first not in offsets for first, offsets in of_aborted)

    values = [[r.value for r in b.records] for segment in listed["retried"] for b in segment if not b.is_control]
    assert len({*map(tuple, values)}) < len(values) / 2

    unmarked = outcomes_of(found["unmarked"])
    assert unmarked.last_stable_offset < unmarked.high_watermark == unmarked.end

    spans = {
        len({number for number, segment in enumerate(listed["long"]) for b in segment if first <= b.base_offset <= end})
        for _, first, end in transactions_of([batch for segment in listed["long"] for batch in segment])
    }
    assert max(spans) > 3


def transactions_of(batches: list[Batch]) -> Iterator[tuple[int, int, int]]:
    """Producer, first offset and marker of the transactions that ended."""
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.is_control:
            if batch.producer_id in begun:
                yield batch.producer_id, begun.pop(batch.producer_id), batch.base_offset
        elif batch.transactional:
            begun.setdefault(batch.producer_id, batch.base_offset)


@pytest.mark.parametrize("cluster", ["kafka-2.8.2", "kafka-3.9.1"])
def test_committed_batches_are_those_by_the_broker_s_own_index_and_snapshot(cluster: str) -> None:
    """A consumer's algorithm (Kafka's `CompletedFetch`) over what the broker wrote beside the log when it stopped."""
    seen = 0
    for partition in logdir.open(unpacked(cluster) / "data").partitions:
        indexed = [entry.aborted for entry in partition.aborted_transactions() if isinstance(entry, AbortedEntry)]
        found = partition.latest_snapshot()
        if partition.topic == "__cluster_metadata" or found is None:
            continue
        entries = [entry.producer for entry in found[1] if isinstance(entry, SnapshotEntry)]
        begun = [one.current_txn_first_offset for one in entries if one.current_txn_first_offset >= 0]
        stable = min([partition.high_watermark or 0, *begun])
        expected, aborting = [], set[int]()
        for batch in (item for item in partition if isinstance(item, Batch) and item.base_offset < stable):
            aborting |= {one.producer_id for one in indexed if one.first_offset == batch.base_offset}
            if batch.is_control:
                aborting -= {batch.producer_id}
            elif not (batch.transactional and batch.producer_id in aborting):
                expected.append(batch.base_offset)
        view = View(outcomes=outcomes_of(partition), isolation_level="read_committed")
        assert view.outcomes.last_stable_offset == stable
        assert [item.base_offset for item in partition if isinstance(item, Batch) and view.reads(item)] == expected
        seen += len(indexed) + len(begun)
    assert seen > 1


def states(partition: Partition) -> dict[int, str]:
    outcomes = outcomes_of(partition)
    batches = (item for item in partition if isinstance(item, Batch))
    return {batch.base_offset: STATES[outcomes.state(batch)] for batch in batches}


def write(root: Path, schedule: Schedule, *, snapshots: bool, indexes: bool) -> Path:
    """The files that a broker would have of the log."""
    shutil.rmtree(root, ignore_errors=True)
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    appends = [one.append for one in schedule.batches]
    for base, data in schedule.segments().items():
        (directory / f"{base:020}.log").write_bytes(data)
    for base in [*schedule.rolls, schedule.end] if snapshots else []:
        state = naive_state([append for append in appends if append.last_offset < base])
        PartitionLog(directory).snapshot(*state, offset=base)
    for base, until in zip(schedule.rolls, [*schedule.rolls[1:], schedule.end], strict=True) if indexes else []:
        entries = [
            AbortedTxn(producer_id=producer_id, first_offset=first, last_offset=end.base_offset).encode_prefixed(0)
            for producer_id, first, end in naive_transactions(appends)
            if end is not None and end.control == "ABORT" and base <= end.base_offset < until
        ]
        if entries:
            (directory / f"{base:020}.txnindex").write_bytes(b"".join(entries))
    return directory


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(), st.data())
def test_no_subset_of_segments_gives_a_wrong_outcome(tmp_path: Path, schedule: Schedule, data: st.DataObject) -> None:
    snapshots, indexes = data.draw(st.booleans()), data.draw(st.booleans())
    directory = write(tmp_path / "logs", schedule, snapshots=snapshots, indexes=indexes)
    gone = {base for base in schedule.rolls if data.draw(st.integers(0, 2)) == 0}
    for base in gone:
        (directory / f"{base:020}.log").unlink()
    (partition,) = logdir.open(tmp_path).partitions or [None]
    if partition is None or not partition.segments:
        return
    truth = truths([one.append for one in schedule.batches])
    ends_early = schedule.rolls[-1] in gone
    for offset, state in states(partition).items():
        wrong = {"unknown"} if gone else set()
        if ends_early and not snapshots:
            wrong.add("open")  # nothing shows that the log went on
        assert state in {truth[offset], *wrong}, offset
        if indexes and snapshots and truth[offset] == "aborted":
            assert state == "aborted"
    if not gone:
        appends = [one.append for one in schedule.batches]
        first = min((first for _, first, end in naive_transactions(appends) if end is None), default=schedule.end)
        assert outcomes_of(partition).last_stable_offset == first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(), st.data())
def test_the_high_watermark_holds_the_last_stable_offset_back(
    tmp_path: Path, schedule: Schedule, data: st.DataObject
) -> None:
    write(tmp_path / "logs", schedule, snapshots=False, indexes=False)
    (partition,) = logdir.open(tmp_path).partitions
    ends = [0, *(one.append.last_offset + 1 for one in schedule.batches)]
    high = data.draw(st.sampled_from(ends))
    appends = [one.append for one in schedule.batches]
    unstable = [first for _, first, end in naive_transactions(appends) if end is None or end.base_offset >= high]
    expected = last_stable_offset(high, min(unstable, default=high), 0)
    assert outcomes_of(partition, high_watermark=high).last_stable_offset == expected


@pytest.mark.slow
def test_any_subset_of_a_recorded_log_gives_committed_records_alone(tmp_path: Path) -> None:
    """With snapshots, `.txnindex` files and checkpoints or without. Where an outcome is unknown, a segment between the
    data and its marker is missing, and neither a snapshot nor an index shows the rest."""
    draw = random.Random(22)
    unknown = 0
    for replicas, partition in 8 * [(one, p) for one in REPLICAS for p in logdir.open(one.path).partitions]:
        target = tmp_path / str(replicas) / f"{partition.topic}-0"
        target.mkdir(parents=True)
        chance = draw.choice([0.3, 0.6, 0.9])
        segments = [file for file in partition.segments if draw.random() < chance]
        kinds = [kind for kind in ("snapshots", "txn_indexes") if draw.random() < 0.6]
        for file in [*segments, *(file for kind in kinds for file in getattr(partition, kind))]:
            shutil.copy(file.path, target)
        for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
            if draw.random() < 0.8:
                shutil.copy(replicas.path / name, target.parent)
        if segments:
            (found,) = (one for one in logdir.open(target).partitions if one.segments)
            unknown += assert_subset(replicas, partition, found)
        shutil.rmtree(tmp_path / str(replicas))
    assert unknown > 10


def assert_subset(replicas: Replicas, whole: Partition, subset: Partition) -> int:
    """Holds what is read of a part of a log against the consumer of the whole. Returns the number of unknown ones."""
    appends = [append for batch in whole if isinstance(batch, Batch) and (append := append_of(batch)) is not None]
    truth = truths(appends)
    ends = {(pid, first): end for pid, first, end in naive_transactions(appends)}
    consumed = replicas.consumed("read_committed")[whole.topic or ""]
    committed = {offset for offset, *_ in consumed["records"]}
    bases = [file.offset or 0 for file in whole.segments]
    here = {file.offset or 0 for file in subset.segments}
    snapshots = {file.offset or 0: file for file in subset.snapshots}
    indexed = [one.aborted for one in subset.aborted_transactions() if isinstance(one, AbortedEntry)]
    outcomes = outcomes_of(subset)
    view = View(outcomes=outcomes, isolation_level="read_committed")
    unknown = 0
    for batch in (item for item in subset if isinstance(item, Batch) and item.record_count):
        base, pid = batch.base_offset, batch.producer_id
        place = f"{replicas} {whole.topic} {base}"
        state = STATES[outcomes.state(batch)]
        if view.reads(batch) is True:
            assert truth.get(base, "none") in ("none", "committed"), place
            first = outcomes.start
            read = {record.offset for record in batch.records if record.offset >= max(first, consumed["start"])}
            assert base >= consumed["end"] or read <= committed, place
        if batch.is_control or not batch.transactional:
            assert state == truth.get(base, "none"), place
            continue
        (marker,) = (end for (one, first), end in ends.items() if one == pid and first <= base
                     and (end is None or base < end.base_offset))  # fmt: skip
        last = bases[-1] if marker is None else max(one for one in bases if one <= marker.base_offset)
        gaps = gaps_of([one for one in bases if base < one <= last], here)
        bridged = all(after in snapshots and pid in open_at(snapshots[after], base) for after in gaps)
        in_index = any(one.producer_id == pid and one.first_offset <= base <= one.last_offset for one in indexed)
        if bridged or in_index:
            assert state == truth[base], place
        else:
            unknown += state == "unknown"
            assert state in ("unknown", "open" if marker is None or last not in here else truth[base], truth[base]), (
                place
            )
    return unknown


def gaps_of(chain: list[int], here: set[int]) -> list[int | None]:
    """Of each run of missing segments the first offset of the segment behind it; None: there is none."""
    runs = [(is_here, [*run]) for is_here, run in groupby(chain, key=here.__contains__)]
    after: list[int | None] = [run[0] for _, run in runs[1:]]
    return [following for (is_here, _), following in zip(runs, [*after, None], strict=False) if not is_here]


def open_at(snapshot: Any, base: int) -> set[int]:
    """The producers whose transactions, by a snapshot, have been open since the offset or before."""
    entries = [one.producer for one in producer_snapshot(snapshot.read_bytes())
               if isinstance(one, SnapshotEntry)]  # fmt: skip
    return {one.producer_id for one in entries if 0 <= one.current_txn_first_offset <= base}


def log_directory(root: Path, segments: dict[int, bytes], high_watermark: int | None = None) -> Partition:
    folder = root / "orders-0"
    folder.mkdir(exist_ok=True)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    if high_watermark is not None:
        (root / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    (partition,) = logdir.open(root).partitions
    return partition


def test_a_transaction_from_before_the_first_segment_ends_as_its_marker_says(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {5: data_of(5) + marker("ABORT", 6) + data_of(7, 2) + marker("COMMIT", 8, 2)})
    assert states(partition) == {5: "aborted", 6: "aborted", 7: "committed", 8: "committed"}


def test_a_ghost_in_the_snapshot_holds_consumers_at_the_log_start(tmp_path: Path) -> None:
    """As in a broker: the last stable offset is not below the log start."""
    partition = log_directory(tmp_path, {5: data_of(5) + marker("COMMIT", 6)})
    assert outcomes_of(partition).last_stable_offset == 7
    ghost = naive_state([truth.append for truth in _ghost().batches])
    PartitionLog(tmp_path / "orders-0").snapshot(*ghost, offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).last_stable_offset == 5
    assert states(partition) == {5: "committed", 6: "committed"}


def test_a_missing_segment_of_a_compacted_log_hides_outcomes(tmp_path: Path) -> None:
    """Compaction leaves gaps, and no marker in one; between segments, a whole one may be missing."""
    thin = build([Record(b"k")], base_offset=2, last_offset=5)
    parts = {0: data_of(0), 1: marker("ABORT", 1) + thin, 6: data_of(6) + marker("COMMIT", 7)}
    assert set(states(log_directory(tmp_path, parts)).values()) == {"aborted", "none", "committed"}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    (tmp_path / "orders-0" / f"{1:020}.log").unlink()
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {0: "unknown", 6: "committed", 7: "committed"}
    assert outcomes_of(partition).why(0) == "offsets 1 to 5 are missing"


@pytest.mark.parametrize(
    ("checkpoint", "state", "stable"),
    [
        ("0\n1\norders 0 2\n", "committed", (4, 4)),  # the cleaner has been there
        ("0\n1\norders 0 1\n", "unknown", (1, 4)),
        ("0\n1\nother 0 2\n", "unknown", (1, 4)),  # a partition that it does not name was never cleaned
        (None, "unknown", (1, 4)),  # nothing shows a cleaner
    ],
)
def test_offsets_that_are_missing_where_no_cleaner_has_been_are_lost(
    tmp_path: Path, checkpoint: str | None, state: str, stable: tuple[int, int]
) -> None:
    root = log_directory(tmp_path, {0: data_of(0) + data_of(2) + marker("COMMIT", 3)})
    if checkpoint is not None:
        (tmp_path / "cleaner-offset-checkpoint").write_text(checkpoint)
    (partition,) = logdir.open(tmp_path).partitions
    assert states(root) == {0: state, 2: "committed", 3: "committed"}
    found = outcomes_of(partition)
    assert (found.last_stable_offset, found.last_stable_at_most) == stable


def test_without_a_checkpoint_the_active_segment_was_not_cleaned(tmp_path: Path) -> None:
    thin = build([Record(b"k")], base_offset=1, last_offset=3)
    parts = {0: data_of(0) + thin + data_of(5) + marker("COMMIT", 6), 7: data_of(7) + data_of(9) + marker("COMMIT", 10)}
    found = states(log_directory(tmp_path, parts))
    assert found == {
        0: "committed",
        1: "none",
        5: "committed",
        6: "committed",
        7: "unknown",
        9: "committed",
        10: "committed",
    }


def _ghost() -> Schedule:
    """Producer 9 has a transaction open since offset 1."""
    from kafkawire.transactions import Append
    from tests.transactions.schedules import Written

    append = Append(base_offset=1, last_offset=1, timestamp=1, producer_id=9, producer_epoch=0, base_sequence=0)
    return Schedule([Written(append, b"")])


def test_what_is_open_is_unknown_where_the_high_watermark_lies_behind_the_log(tmp_path: Path) -> None:
    """A log that was cut: the marker may have been behind it."""
    log = data_of(0, 1) + data_of(1, 2) + marker("COMMIT", 2, 2)
    assert set(states(log_directory(tmp_path, {0: log})).values()) == {"open", "committed"}
    cut = log_directory(tmp_path, {0: log}, high_watermark=4)
    assert states(cut) == {0: "unknown", 1: "committed", 2: "committed"}
    outcomes = outcomes_of(cut)
    assert (outcomes.last_stable_offset, outcomes.last_stable_at_most) == (0, 3)
    assert outcomes.why(0) == "the log from offset 3 on is not here"


def test_a_file_alone_uses_the_segments_beside_it(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: data_of(0), 1: data_of(1) + marker("ABORT", 2)})
    path = str(tmp_path / "orders-0" / f"{0:020}.log")
    directory = logdir.open(path)
    (file,) = directory.files
    (batch,) = (item for item in file.batches() if isinstance(item, Batch))
    assert STATES[OutcomesByFile(directory.partitions, [path]).of(file).state(batch)] == "aborted"
    assert STATES[OutcomesByFile(directory.partitions, []).of(file).state(batch)] == "open"
    renamed = tmp_path / "orders-0" / f"{0:020}.log.deleted"
    shutil.copy(path, renamed)
    directory = logdir.open(str(renamed))
    assert STATES[OutcomesByFile(directory.partitions, [str(renamed)]).of(directory.files[0]).state(batch)] == "unknown"


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://{}?unused=1", ""])
def test_a_file_uses_the_segments_beside_it_whatever_its_path_looks_like(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_directory(tmp_path, {0: data_of(0), 1: data_of(1) + marker("ABORT", 2)})
    monkeypatch.chdir(tmp_path / "orders-0")
    name = f"{0:020}.log"
    path = form.format(tmp_path / "orders-0" / name) or name
    directory = logdir.open(path)
    outcomes = OutcomesByFile(directory.partitions, [path])
    (file,) = directory.files
    assert file.path in outcomes.named
    (batch,) = (item for item in file.batches() if isinstance(item, Batch))
    assert STATES[outcomes.of(file).state(batch)] == "aborted"


def test_a_segment_is_proven_while_it_has_nothing_but_right_checksums_and_does_not_change(tmp_path: Path) -> None:
    wrong = bytearray(data_of(2))
    wrong[-1] ^= 1
    partition = log_directory(tmp_path, {0: data_of(0) + marker("COMMIT", 1), 2: bytes(wrong)})
    outcomes = OutcomesByFile([partition], [])
    sound, damaged = partition.segments
    assert not outcomes.proven(sound)
    outcomes.of(sound)
    assert (outcomes.proven(sound), outcomes.proven(damaged)) == (True, False)
    with open(sound.path, "ab") as file:
        file.write(data_of(2))
    assert not outcomes.proven(sound)


def test_batches_without_producers_stand_beside_transactions(tmp_path: Path) -> None:
    """A log that began before transactions: messages of magic 1."""
    old = build([Record(b"k", offset=0), Record(b"k", offset=1)], magic=1, codec="gzip")
    partition = log_directory(tmp_path, {0: old + data_of(2) + marker("ABORT", 3)})
    assert states(partition) == {0: "none", 2: "aborted", 3: "aborted"}
    assert outcomes_of(partition).last_stable_offset == 4


def test_a_segment_that_goes_while_it_is_read_leaves_outcomes_unknown(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {0: data_of(0), 1: marker("COMMIT", 1), 2: data_of(2) + marker("ABORT", 3)})
    gone = Path(partition.segments[1].path)
    gone.unlink()
    outcomes = outcomes_of(partition)
    batches = [item for file in (partition.segments[0], partition.segments[2]) for item in file.batches()]
    assert [STATES[outcomes.state(item)] for item in batches if isinstance(item, Batch)] == [
        "unknown", "aborted", "aborted",
    ]  # fmt: skip
    assert outcomes.why(0) == f"{gone}: No such file or directory"


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"\0" * 9)], ids=["gone", "damaged"])
def test_a_snapshot_that_cannot_be_read_shows_nothing(tmp_path: Path, harm: Any) -> None:
    """Behind the segments, and in a gap between them."""
    log_directory(tmp_path, {1: data_of(1, 9), 6: marker("COMMIT", 6, 9)})
    for offset, open_there in ((6, [_ghost().batches[0].append]), (9, [])):
        PartitionLog(tmp_path / "orders-0").snapshot(*naive_state(open_there), offset=offset)
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {1: "committed", 6: "committed"}
    for snapshot in partition.snapshots:
        harm(Path(snapshot.path))
    assert states(partition) == {1: "unknown", 6: "committed"}
    assert outcomes_of(partition).why(1) == "offsets 2 to 5 are missing"


def test_a_later_snapshot_shows_what_was_open_before_the_first_segment(tmp_path: Path) -> None:
    log_directory(tmp_path, {5: data_of(5, 2) + marker("COMMIT", 6, 2)})
    PartitionLog(tmp_path / "orders-0").snapshot(*naive_state([_ghost().batches[0].append]), offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).ongoing.cover(np.array([9]), np.array([1])).tolist() == [True]


def test_an_index_of_aborted_transactions_that_cannot_be_read_leaves_outcomes_unknown(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: data_of(0), 6: data_of(6, 2)})
    index = tmp_path / "orders-0" / f"{0:020}.txnindex"
    index.write_bytes(AbortedTxn(producer_id=1, first_offset=0, last_offset=3).encode_prefixed(0))
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {0: "aborted", 6: "open"}
    index.unlink()
    assert states(partition) == {0: "unknown", 6: "open"}


def test_an_empty_segment_has_no_outcomes_and_nothing_is_open(tmp_path: Path) -> None:
    """A broker rolls to one."""
    outcomes = outcomes_of(log_directory(tmp_path, {7: b""}))
    assert (outcomes.start, outcomes.last_stable_offset, outcomes.high_watermark) == (7, 7, 7)
    assert outcomes.aborted.producer_id.size == 0


def test_each_partition_has_its_own_outcomes(tmp_path: Path) -> None:
    for name, kind in (("orders-0", "ABORT"), ("orders-1", "COMMIT")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(data_of(0) + marker(kind, 1))
    partitions = logdir.open(tmp_path).partitions
    both = OutcomesByFile(partitions, [])
    found = [both.of(one.segments[0]) for one in partitions]
    assert [one.aborted.producer_id.size for one in found] == [1, 0]
    assert both.of(partitions[1].segments[0]) is found[1]


def test_a_snapshot_behind_the_log_shows_what_holds_consumers_back(tmp_path: Path) -> None:
    """The segments before it are missing, and with them the data of producer 9, whose transaction is still open."""
    log_directory(tmp_path, {0: data_of(0, 2) + marker("COMMIT", 1, 2)})
    assert outcomes_of(logdir.open(tmp_path).partitions[0]).last_stable_offset == 2
    PartitionLog(tmp_path / "orders-0").snapshot(*naive_state([_ghost().batches[0].append]), offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).last_stable_offset == 1
