"""The replay against a slow and obvious model; and whatever a log holds, nothing raises and nothing is made up."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, read
from kafkawire.transactions import Append, LogChecks, Replay, append_of, last_stable_offset, outcome_of, read_committed
from kafkawire.transactions.log.endings import PACKED
from kafkawire.transactions.log.replay import Ended
from tests.transactions.schedules import (
    NOON,
    Schedule,
    Written,
    naive_state,
    naive_transactions,
    schedules,
    written,
)
from tools.recordings.archive import unpacked

pytestmark = pytest.mark.slow

READ_COMMITTED = unpacked("read-committed")
IN_TMP_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def batches_of(schedule: Schedule) -> list[Batch]:
    found = list(read(b"".join(written.data for written in schedule.batches)))
    assert all(isinstance(item, Batch) for item in found)
    return [item for item in found if isinstance(item, Batch)]


@given(schedules())
def test_appends_have_the_fields_that_were_written(schedule: Schedule) -> None:
    found = [append_of(batch) for batch in batches_of(schedule)]
    assert found == [w.append if w.append.producer_id >= 0 else None for w in schedule.batches]


@given(schedules(), st.data())
def test_state_equals_the_models_at_every_offset(schedule: Schedule, data: st.DataObject) -> None:
    replay = Replay()
    appends = [w.append for w in schedule.batches if w.append.producer_id >= 0]
    for i, append in enumerate(appends):
        replay.add(append)
        if data.draw(st.booleans()) or i + 1 == len(appends):
            assert replay.snapshot() == naive_state(appends[: i + 1])


@given(schedules(), st.data())
def test_replay_resumed_from_a_snapshot_equals_replay_of_the_whole(schedule: Schedule, data: st.DataObject) -> None:
    """But for the batches and the first timestamp of a transaction that is open there: a snapshot has neither."""
    appends = [w.append for w in schedule.batches if w.append.producer_id >= 0]
    cut = data.draw(st.integers(0, len(appends)))
    whole, prefix = Replay(), Replay()
    ended = [whole.add(append) for append in appends]
    assert [prefix.add(append) for append in appends[:cut]] == ended[:cut]
    rest = Replay(prefix.snapshot())
    open_there = set(prefix.ongoing.items())

    def resumed(one: Ended | None) -> Ended | None:
        if one is None or (one.producer_id, one.first_offset) not in open_there:
            return one
        values = dict(zip(PACKED.names or (), one.packed, strict=True)) | {"first_timestamp": -1, "batches": -1}
        return replace(one, packed=tuple(values.values()))

    assert [rest.add(append) for append in appends[cut:]] == [resumed(one) for one in ended[cut:]]
    assert rest.snapshot() == whole.snapshot()
    assert rest.ongoing == whole.ongoing
    for one, same in zip(rest.open(), whole.open(), strict=True):
        known = (one.producer_id, one.first_offset) not in open_there
        expected = (same.first_timestamp, same.open_batches) if known else (-1, -1)
        assert (one.first_timestamp, one.open_batches) == expected


@given(schedules())
def test_aborted_transactions_equal_the_models(schedule: Schedule) -> None:
    appends = [w.append for w in schedule.batches]
    found = naive_transactions(appends)
    expected = []
    for producer_id, first, marker in found:
        if marker is None or marker.control != "ABORT":
            continue
        others = [
            begun
            for other, begun, end in found
            if other != producer_id
            and begun < marker.base_offset
            and (end is None or end.base_offset > marker.base_offset)
        ]
        stable = min(others, default=marker.base_offset + 1)
        expected.append(
            AbortedTxn(
                producer_id=producer_id,
                first_offset=first,
                last_offset=marker.base_offset,
                last_stable_offset=stable,
            )
        )
    aborted, _ = outcome_of(batches_of(schedule))
    assert aborted == sorted(expected, key=lambda entry: entry.last_offset)


@given(schedules(), st.data())
def test_last_stable_offset_equals_the_models(schedule: Schedule, data: st.DataObject) -> None:
    """With the high watermark known before, and raised while reading."""
    appends = [w.append for w in schedule.batches]
    high = data.draw(st.integers(0, schedule.end))
    lower = data.draw(st.integers(0, high))
    unstable = [first for _, first, end in naive_transactions(appends) if end is None or end.base_offset >= high]
    expected = min([high, *unstable])
    batches = batches_of(schedule)
    assert outcome_of(batches, high_watermark=high)[1] == expected
    replay = Replay(high_watermark=lower)
    for append in appends:
        if append.producer_id >= 0:
            replay.add(append)
    replay.advance(high)
    assert replay.last_stable_offset(high) == expected
    assert replay.first_unstable_offset == min(unstable, default=None)


@given(schedules())
def test_read_committed_equals_the_models(schedule: Schedule) -> None:
    appends = [w.append for w in schedule.batches]
    found = naive_transactions(appends)
    stable = min([schedule.end, *(first for _, first, end in found if end is None)])
    expected = []
    for append in appends:
        if append.control or append.base_offset >= stable:
            continue
        ends = [
            end.control
            for producer_id, first, end in found
            if producer_id == append.producer_id and end and first <= append.base_offset < end.base_offset
        ]
        if ends != ["ABORT"]:
            expected.append(append.base_offset)
    batches = batches_of(schedule)
    aborted, last_stable = outcome_of(batches)
    assert last_stable == stable
    assert [batch.base_offset for batch in read_committed(batches, aborted, last_stable)] == expected


@pytest.mark.parametrize(
    ("high_watermark", "first_start", "log_start", "stable"),
    [(10, 4, 0, 4), (3, 4, 0, 3), (10, 4, 6, 6), (5, 4, 6, 5)],
)
def test_last_stable_offset(high_watermark: int, first_start: int, log_start: int, stable: int) -> None:
    assert last_stable_offset(high_watermark, first_start, log_start) == stable


def write_directory(root: Path, schedule: Schedule) -> Path:
    """The files that a broker would have of the log."""
    shutil.rmtree(root, ignore_errors=True)
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    for base, data in schedule.segments().items():
        (directory / f"{base:020}.log").write_bytes(data)
    return directory


def derive(directory: Path, schedule: Schedule) -> None:
    """Its snapshots, by the model, and its transaction indexes."""
    from tests.audit_logs import PartitionLog

    log = PartitionLog(directory)
    aborted, _ = outcome_of(batches_of(schedule))
    for base in [*schedule.rolls[1:], schedule.end]:
        log.snapshot(*naive_state([w.append for w in schedule.batches if w.append.last_offset < base]), offset=base)
    for base, until in zip(schedule.rolls, [*schedule.rolls[1:], schedule.end], strict=True):
        own = [entry for entry in aborted if base <= entry.last_offset < until]
        if own:
            data = b"".join(entry.encode_prefixed(version=0) for entry in own)
            (directory / f"{base:020}.txnindex").write_bytes(data)


@IN_TMP_PATH
@given(schedules())
def test_logs_of_a_broker_violate_no_check(tmp_path: Path, schedule: Schedule) -> None:
    directory = write_directory(tmp_path / "logs", schedule)
    derive(directory, schedule)
    for partition in logdir.open(directory).partitions:
        for answer in transactions.check(partition):
            assert not answer.breaches
            assert not answer.not_checkable, answer


@IN_TMP_PATH
@given(schedules(), st.data())
def test_compaction_causes_no_violation(tmp_path: Path, schedule: Schedule, data: st.DataObject) -> None:
    """Below the first open transaction any batch may be gone, emptied or compacted, and the log's beginning deleted.
    Snapshots and indexes are older than that."""
    first_open = min(
        (first for _, first, end in naive_transactions([w.append for w in schedule.batches]) if end is None),
        default=schedule.end,
    )
    kept: list[Written] = []
    for each in schedule.batches:
        fate = data.draw(st.sampled_from(["keep", "keep", "remove", "empty", "thin"]))
        append = each.append
        if append.base_offset >= min(first_open, schedule.rolls[-1]) or fate == "keep":
            kept.append(each)
        elif fate == "empty" and append.producer_id >= 0 and append.control is None:
            kept.append(Written(append, written(append, 0)))
        elif fate == "thin" and append.control is None and append.last_offset > append.base_offset:
            kept.append(Written(append, written(append, 1)))
    compacted = Schedule(kept, schedule.rolls)
    directory = write_directory(tmp_path / "logs", compacted)
    derive(directory, schedule)
    gone = data.draw(st.integers(0, len(schedule.rolls) - 1))
    for base in schedule.rolls[:gone]:
        for path in directory.glob(f"{base:020}.*"):
            path.unlink()
    for partition in logdir.open(directory).partitions:
        for answer in transactions.check(partition):
            assert not answer.breaches, answer


appends = st.builds(
    Append,
    base_offset=st.integers(0, 60),
    last_offset=st.integers(0, 60),
    timestamp=st.integers(-(2**63), 2**63 - 1),
    producer_id=st.integers(0, 3),
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    control=st.sampled_from([None, "COMMIT", "ABORT", "EMPTY", "MALFORMED"]),
    coordinator_epoch=st.none() | st.integers(-(2**31), 2**31 - 1),
    base_sequence=st.integers(-(2**31), 2**31 - 1),
    transactional=st.booleans(),
    intact_from=st.integers(0, 60),
    compacted=st.booleans(),
    problem=st.none() | st.just("odd"),
)


@given(st.lists(appends, max_size=40), st.none() | st.integers(0, 60))
def test_hostile_batches_never_raise(listed: list[Append], high_watermark: int | None) -> None:
    replay, checks = Replay(high_watermark=high_watermark), LogChecks()
    for append in listed:
        checks.see(replay.producers.get(append.producer_id), append)
        replay.add(append)
        assert len(replay.producers) <= 4
        assert len(replay.ongoing) <= 4
    replay.expire(NOON)
    replay.snapshot()
    replay.last_stable_offset(10)
    assert all(answer.violated <= len(listed) for answer in checks.answers())


@pytest.mark.parametrize("name", ["mixed-0", "compacted-0", "deleted-0", "fenced-0"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
@example(seed=0)
def test_mutated_files_never_raise(tmp_path: Path, name: str, seed: int) -> None:
    draw = random.Random(seed)
    directory = tmp_path / name
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(READ_COMMITTED / "stopped" / name, directory)
    for path in sorted(directory.iterdir()):
        content = bytearray(path.read_bytes())
        for _ in range(draw.randrange(4)):
            if content:
                content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content[: draw.randrange(len(content) + 1)] if draw.random() < 0.2 else content)
    transactions.audit(logdir.open(tmp_path))
    for partition in logdir.open(tmp_path).partitions:
        aborted, stable = outcome_of(partition)
        for batch in read_committed(partition, aborted, stable):
            assert not batch.is_control
