"""How transactions ended, from directories: recorded clusters with what consumers got, and any subset of segments."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.logdir import Partition, View, outcomes_of
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.indexes import producer_snapshot
from kafkawire.logdir.transaction_states import STATES
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, columns
from kafkawire.transactions import append_of, last_stable_offset
from tests.audit_logs import PartitionLog
from tests.consumed import LEVELS, REPLICAS, Replicas
from tests.logdir.test_logdir_outcomes import states
from tests.logdir.test_logdir_transaction_states import truths
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
