"""The coordinator as a machine: against what brokers of three releases wrote, and as a table of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import records
from kafkawire.messages import TransactionLogValue
from kafkawire.testing import coordinator_machine
from kafkawire.testing.coordinator_machine import TransactionMetadata, Transition
from kafkawire.transactions.checks.coordinator_records import epoch_problem
from kafkawire.transactions.coordinator.coordinator_log import coordinator_records, registration
from kafkawire.transactions.coordinator.coordinator_rules import IDLE, MAX_EPOCH, follows, partition_of_id, state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, CoordinatorRecord, Place, Registration
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

ROOT = Path(__file__).parents[2]
#: Log directories of brokers of 2.8.2, 3.9.1 and 4.4.0 with transaction versions 0 and 2.
RECORDED = (ROOT / "examples" / "kafka-logs", *map(unpacked, (*LOG_DIRECTORIES, "hanging-transactions")))
WRITTEN = sorted(path for folder in RECORDED for path in folder.glob(f"**/{TRANSACTION_STATE}-*"))

Pair = tuple[TransactionLogValue | None, TransactionLogValue]


def recorded(path: Path) -> dict[str, list[TransactionLogValue | None]]:
    """The records of each id in a partition's log, in order."""
    found: dict[str, list[TransactionLogValue | None]] = defaultdict(list)
    for file in sorted(path.glob("*.log")):
        for batch in records.read(file.read_bytes()):
            if isinstance(batch, records.Batch):
                for record in coordinator_records(batch):
                    assert isinstance(record, CoordinatorRecord)
                    registered = registration(Place("", TRANSACTION_STATE, 0), record)
                    assert isinstance(registered, Registration)
                    found[registered.transactional_id].append(registered.value)
    return found


def neighbours(path: Path) -> Iterator[tuple[str, TransactionLogValue | None, TransactionLogValue | None]]:
    for name, values in recorded(path).items():
        yield from ((name, before, after) for before, after in zip([None, *values], values, strict=False))


def candidates(before: TransactionLogValue | None, after: TransactionLogValue) -> Iterator[Transition]:
    """What every request could make of an id, at the time when the next record was written."""
    now = after.transaction_last_update_timestamp_ms
    if before is None:
        new = coordinator_machine.create(after.producer_id, after.transaction_timeout_ms, now)
        yield coordinator_machine.init_producer_id(
            new, timeout_ms=after.transaction_timeout_ms, now=now, new_producer_id=-1
        )
        return
    had = TransactionMetadata.of(before)
    own = (had.producer_id, had.epoch)
    wanted = TransactionMetadata.of(after)
    new_id = after.next_producer_id if after.next_producer_id != -1 else after.producer_id
    if had.state in IDLE:
        for expected in (None, own):
            yield coordinator_machine.init_producer_id(
                had, timeout_ms=after.transaction_timeout_ms, now=now, new_producer_id=new_id, expected=expected
            )
    for version in (0, 2):
        added = wanted.partitions - had.partitions
        yield coordinator_machine.add_partitions(had, *own, added, now=now, version=version)
        for committed in (True, False):
            yield coordinator_machine.end(
                had, *own, committed=committed, now=now, version=version, new_producer_id=new_id
            )
        if had.state == "Ongoing":
            yield Transition(coordinator_machine.fence(had, now=now, version=version, new_producer_id=new_id))
    if had.state.startswith("Prepare"):
        yield Transition(coordinator_machine.complete(had, now=now))


def written(value: TransactionLogValue, after: TransactionLogValue) -> TransactionLogValue:
    """As a broker of that age writes it: before Kafka 4 records have version 0, without the tags."""
    value = replace(
        value,
        transaction_partitions=value.transaction_partitions
        and tuple(
            replace(topic, partition_ids=tuple(sorted(topic.partition_ids)))
            for topic in sorted(value.transaction_partitions, key=lambda topic: topic.topic)
        ),
    )
    if after.previous_producer_id == -1:
        value = replace(value, previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)
    return value


def test_every_recorded_cluster_has_a_coordinator_log() -> None:
    assert all(any(folder in path.parents for path in WRITTEN) for folder in RECORDED)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_recorded_transition_is_one_of_the_machine(path: Path) -> None:
    """Field by field: some request, at the time of the record, makes exactly that record of the one before."""
    count = len(list(path.parent.glob(f"{TRANSACTION_STATE}-*")))
    for name, before, after in neighbours(path):
        assert partition_of_id(name, count) == int(path.name.rpartition("-")[2])
        state = None if after is None else state_name(after.transaction_status)
        version = 0 if after is None else after.client_transaction_version
        assert follows(None if before is None else state_name(before.transaction_status), state, version)
        if after is None:
            continue
        assert epoch_problem(before, after) is None
        made = [written(step.after.record(), after) for step in candidates(before, after) if not step.error]
        assert written(after, after) in made, (name, before, after)


def test_the_log_directories_hold_what_matters() -> None:
    """Commits and aborts of both transaction versions, a fenced transaction, a second InitProducerId."""
    seen = set()
    for path in WRITTEN:
        for _, before, after in neighbours(path):
            if before is not None and after is not None:
                step = after.producer_epoch - before.producer_epoch
                seen.add((state_name(after.transaction_status), after.client_transaction_version, step))
    assert seen >= {
        ("Empty", 0, 1),
        ("Empty", 2, 1),
        ("Ongoing", 0, 0),
        ("Ongoing", 2, 0),
        ("PrepareCommit", 0, 0),
        ("PrepareCommit", 2, 1),
        ("PrepareAbort", 0, 0),
        ("PrepareAbort", 2, 1),
        ("CompleteCommit", 0, 0),
        ("CompleteCommit", 2, 0),
        ("CompleteAbort", 0, 0),
    }


def test_records_and_metadata_are_one_form() -> None:
    for path in WRITTEN:
        for values in recorded(path).values():
            for value in values:
                if value is not None:
                    assert TransactionMetadata.of(value).record() == written(value, value)


# Requests -------------------------------------------------------------------------------------------------------------

BASE = TransactionMetadata(
    producer_id=7, previous_producer_id=6, epoch=5, last_epoch=4, timeout_ms=1000, state="Empty", updated=1
)


@pytest.mark.parametrize(
    ("had", "expected", "epoch", "last", "error"),
    [
        # KIP-360: none, the current epoch, the last one (a retry), anything else
        (BASE, None, 6, -1, 0),
        (BASE, (7, 5), 6, 5, 0),
        (BASE, (7, 4), 5, 4, 0),
        (BASE, (7, 3), 5, 4, 90),
        (BASE, (7, 6), 5, 4, 90),
        (BASE, (7, -1), 5, 4, 42),
        # a producer id that is not the id's: of an id that has expired, and after a rotation
        (BASE, (6, 5), 5, 4, 90),
        (BASE, (9, 0), 5, 4, 90),
        (replace(BASE, epoch=-1, last_epoch=-1), (9, 3), 0, -1, 0),
        (replace(BASE, epoch=0, last_epoch=32766), (6, 32766), 0, 32766, 0),
    ],
)
def test_init_producer_id(
    had: TransactionMetadata, expected: tuple[int, int] | None, epoch: int, last: int, error: int
) -> None:
    step = coordinator_machine.init_producer_id(had, timeout_ms=1000, now=9, new_producer_id=8, expected=expected)
    assert (step.after.epoch, step.after.last_epoch, step.error) == (epoch, last, error)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (
            coordinator_machine.add_partitions(BASE, 9, 5, {("t", 0)}, now=9),
            coordinator_machine.INVALID_PRODUCER_ID_MAPPING,
        ),
        (coordinator_machine.add_partitions(BASE, 7, 4, {("t", 0)}, now=9), coordinator_machine.PRODUCER_FENCED),
        (coordinator_machine.add_partitions(replace(BASE, state="PrepareAbort"), 7, 5, {("t", 0)}, now=9), 51),
        (coordinator_machine.end(BASE, 9, 5, committed=True, now=9), coordinator_machine.INVALID_PRODUCER_ID_MAPPING),
        (coordinator_machine.end(BASE, 7, 4, committed=True, now=9), coordinator_machine.PRODUCER_FENCED),
        (coordinator_machine.end(BASE, 7, 5, committed=True, now=9), coordinator_machine.INVALID_TXN_STATE),
        (
            coordinator_machine.init_producer_id(
                replace(BASE, epoch=32767), timeout_ms=1, now=9, new_producer_id=8, expected=(7, 32766)
            ),
            coordinator_machine.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_what_is_refused_changes_nothing(step: Transition, error: int) -> None:
    assert step.error == error
    assert (step.after.producer_id, step.after.epoch >= 5, step.after.updated) == (7, True, 1)


@pytest.mark.parametrize("expected", [None, (7, 32766)])
def test_a_producer_id_that_is_used_up_is_replaced(expected: tuple[int, int] | None) -> None:
    step = coordinator_machine.init_producer_id(
        replace(BASE, epoch=32766), timeout_ms=1, now=9, new_producer_id=8, expected=expected
    )
    after = step.after
    assert (after.producer_id, after.previous_producer_id, after.epoch, step.error) == (8, 7, 0, 0)
    assert after.last_epoch == (-1 if expected is None else 32766)


def test_a_transaction_uses_the_last_epoch_up() -> None:
    """Version 2: the Prepare has the epoch that no producer gets, and names the next producer id."""
    open_ = replace(BASE, state="Ongoing", epoch=32766, version=2)
    prepared = coordinator_machine.end(open_, 7, 32766, committed=True, now=9, version=2, new_producer_id=8).after
    assert (prepared.epoch, prepared.next_producer_id) == (MAX_EPOCH, 8)
    done = coordinator_machine.complete(prepared, now=10)
    assert (done.producer_id, done.previous_producer_id, done.epoch, done.state) == (8, 7, 0, "CompleteCommit")
    assert coordinator_machine.end(done, 7, 32766, committed=True, now=11, version=2).error == 0, "a retry"


@pytest.mark.parametrize(("version", "epoch"), [(0, 6), (2, 6)])
def test_a_coordinator_that_aborts_by_itself_raises_the_epoch_once(version: int, epoch: int) -> None:
    open_ = replace(BASE, state="Ongoing", version=version)
    step = coordinator_machine.init_producer_id(open_, timeout_ms=1, now=9, new_producer_id=8, version=version)
    assert (step.after.state, step.after.epoch, step.error) == ("PrepareAbort", epoch, 51)
    again = coordinator_machine.init_producer_id(
        coordinator_machine.complete(step.after, now=10), timeout_ms=1, now=11, new_producer_id=8, version=version
    )
    assert (again.after.state, again.after.epoch, again.error) == ("Empty", epoch + 1, 0)


def test_timeouts_that_an_id_gets() -> None:
    assert coordinator_machine.timeout_of(60_000, 900_000) == 60_000
    assert coordinator_machine.timeout_of(900_001, 900_000) is None
    assert coordinator_machine.timeout_of(0, 900_000) is None


# Properties -----------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[TransactionLogValue]:
    """What a coordinator writes of one id for random requests; epochs may begin near their end."""
    now, fresh = 1000, 100
    held = coordinator_machine.create(1, 1000, now)
    if draw(st.booleans()):
        held = replace(held, epoch=draw(st.integers(32750, 32765)))
    first = coordinator_machine.init_producer_id(held, timeout_ms=1000, now=now, new_producer_id=2).after
    made, held = [first.record()], first
    for _ in range(draw(st.integers(1, 40))):
        now, fresh = now + 1, fresh + 1
        version = draw(st.sampled_from([0, 2]))
        own = (held.producer_id, held.epoch)
        what = draw(st.sampled_from(["init", "retry", "add", "commit", "abort", "complete"]))
        step = Transition(held)
        if what in ("init", "retry"):
            expected = (own[0], held.last_epoch) if what == "retry" else draw(st.sampled_from([None, own]))
            step = coordinator_machine.init_producer_id(
                held, timeout_ms=1000, now=now, new_producer_id=fresh, expected=expected, version=version
            )
        elif what == "add":
            step = coordinator_machine.add_partitions(
                held, *own, {("t", draw(st.integers(0, 3)))}, now=now, version=version
            )
        elif what == "complete":
            if held.state.startswith("Prepare"):
                step = Transition(coordinator_machine.complete(held, now=now))
        else:
            step = coordinator_machine.end(
                held, *own, committed=what == "commit", now=now, version=version, new_producer_id=fresh
            )
        if step.after is not held:
            held = step.after
            made.append(held.record())
    return made


@given(histories())
def test_whatever_the_machine_writes_is_legal(made: list[TransactionLogValue]) -> None:
    for before, after in pairwise(made):
        states = state_name(before.transaction_status), state_name(after.transaction_status)
        assert follows(*states, after.client_transaction_version), (before, after)
        assert epoch_problem(before, after) is None, (before, after)
