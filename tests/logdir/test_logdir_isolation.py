"""How transactions ended, from directories: recorded clusters with what consumers got, and any subset of segments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import OutcomesByFile, Partition, View, outcomes_of
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.transaction_states import STATES
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, Record, build
from kafkawire.transactions import last_stable_offset
from tests.audit_logs import PartitionLog
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
    assert (outcomes.last_stable_offset, outcomes.why(0)) == (3, "the log from offset 3 on is not here")


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
