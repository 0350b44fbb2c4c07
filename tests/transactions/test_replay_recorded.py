"""The replay against what brokers have written, entry by entry: the examples, and the recorded directories."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.logdir import Partition
from kafkawire.records import Batch
from kafkawire.transactions import Replay, append_of
from kafkawire.transactions.answers import VIOLATED
from kafkawire.transactions.checks.check_names import CHECKS, LOG_CHECKS
from tests.transactions.replays import assert_replayed, replayed, snapshot_entries, view
from tools.recordings.archive import unpacked

DATA = unpacked("read-committed")
EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
CONSUMED: dict[str, Any] = json.loads((DATA / "consumed.json").read_text("utf-8"))
DIRECTORIES = [*sorted(EXAMPLES.glob("*/broker-*")), DATA / "stopped", DATA / "recovered"]


def partitions(directory: Path) -> list[Partition]:
    return [p for p in logdir.open(directory).partitions if p.topic != "__cluster_metadata"]


def partition_of(directory: Path, topic: str) -> Partition:
    return next(p for p in partitions(directory) if p.topic == topic)


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_replay_equals_recorded_snapshots_and_indexes(directory: Path) -> None:
    compared = [
        assert_replayed(partition, compacted=partition.path == str(DATA / "stopped" / "compacted-0"))
        for partition in partitions(directory)
    ]
    assert sum(compared) > 10


@pytest.mark.parametrize("name", sorted(CONSUMED))
def test_read_committed_is_what_a_consumer_got(name: str) -> None:
    truth = CONSUMED[name]
    found = {partition.topic: view(partition) for partition in partitions(DATA / name)}
    assert {topic: stable for topic, (stable, _) in found.items()} == truth["last_stable_offset"]
    assert {topic: records for topic, (_, records) in found.items()} == truth["records"]


def test_a_hanging_transaction_hides_what_is_behind_it() -> None:
    hanging = partition_of(DATA / "stopped", "hanging")
    stable, records = view(hanging)
    batches = [item for item in hanging if isinstance(item, Batch)]
    behind = [b for b in batches if b.base_offset > stable and not b.is_control]
    assert behind
    assert all(offset < stable for offset, _, _ in records)


def test_sequence_numbers_wrap_around() -> None:
    wrapped = partition_of(DATA / "stopped", "wrapped")
    data = [item for item in wrapped if isinstance(item, Batch) and not item.is_control]
    around = [batch for batch in data if batch.base_sequence > batch.last_sequence >= 0]
    assert len(around) == 2  # outside of transactions, and in one
    (sequence,) = (answer for answer in transactions.check(wrapped) if answer.check == "sequence_contiguous")
    assert (sequence.answer, sequence.held) == ("holds", 3)


def test_records_that_were_deleted_are_remembered_by_snapshots_alone() -> None:
    deleted = partition_of(DATA / "stopped", "deleted")
    last = deleted.snapshots[-1]
    assert deleted.log_start_offset
    states, _ = replayed(deleted, [last.offset or 0], start=deleted.log_start_offset)
    shown, remembered = states[last.offset or 0], snapshot_entries(last)
    assert {entry.producer_id for entry in shown} < {entry.producer_id for entry in remembered}
    assert all(entry in remembered for entry in shown)


def test_compaction_left_emptied_batches() -> None:
    batches = [item for item in partition_of(DATA / "stopped", "compacted") if isinstance(item, Batch)]
    assert any(batch.record_count == 0 and batch.producer_id >= 0 for batch in batches)
    assert any(batch.delete_horizon is not None for batch in batches)
    assert any(after.base_offset > b.last_offset + 1 for b, after in itertools.pairwise(batches))


@pytest.mark.slow
@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_replay_may_stop_anywhere_and_go_on_from_its_snapshot(directory: Path) -> None:
    for partition in partitions(directory):
        appends = [a for b in partition if isinstance(b, Batch) and (a := append_of(b)) is not None]
        whole = Replay()
        for i, append in enumerate(appends):
            rest = Replay(whole.snapshot())
            for after in appends[i:]:
                rest.add(after)
            whole.add(append)
            if i % 7 == 0:
                full = Replay()
                for each in appends:
                    full.add(each)
                assert rest.snapshot() == full.snapshot()
                assert rest.first_unstable_offset == full.first_unstable_offset


@pytest.mark.slow
@pytest.mark.parametrize("directory", [d for d in DIRECTORIES if d.name != "recovered"], ids=lambda path: path.name)
def test_no_check_raises_a_false_alarm(directory: Path) -> None:
    held = dict.fromkeys(LOG_CHECKS, 0)
    for partition in partitions(directory):
        for answer in transactions.check(partition):
            assert answer.answer != VIOLATED, (partition, answer.breaches)
            held[answer.check] += answer.held
    assert all(held.values()), held


@pytest.mark.slow
def test_the_audit_of_real_logs_names_nothing_but_what_hangs() -> None:
    for root in (EXAMPLES, DATA / "stopped"):
        audit = transactions.audit(logdir.open(root))
        named = {(v.check, v.topic, v.partition, v.offset) for v in audit.violations}
        hanging = {(f.topic, f.partition, f.start_offset) for f in audit.findings if f.verdict == "hanging"}
        assert {v[1:] for v in named if v[0] == "transaction_unknown_to_coordinator"} == hanging
        stuck = {f.transactional_id for f in audit.findings if f.reason == "stuck_prepare"}
        assert {v.transactional_id for v in audit.violations if v.check == "prepare_completed"} == stuck
        assert len(named) == len(hanging) + len(stuck)
        assert set(audit.read.checks) <= set(CHECKS)
        assert {answer.check for answer in audit.answers if answer.answer == VIOLATED} == {v[0] for v in named}


def test_snapshots_agree_in_logs_that_break_rules() -> None:
    violated = set()
    for partition in partitions(DATA / "recovered"):
        for answer in transactions.check(partition):
            if partition.topic.startswith("made-up") and answer.answer == VIOLATED:
                violated.add(answer.check)
    assert {"sequence_contiguous", "epoch_not_backwards", "coordinator_epoch_monotonic"} <= violated
    assert not violated & {"txnindex_equals_log", "snapshot_equals_replay", "mixed_batches"}
