"""Sound logs of which something is missing: what was not copied, copied too early, or compacted breaks no rule."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.records import Batch, read
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR, LogDirectory, PartitionLog
from tests.worlds import World

SEEDS = range(16)


def sound(root: Path, seed: int) -> World:
    world = World(root, seed)
    world.run(10)
    return world


def audit(world: World) -> Audit:
    return transactions.audit(logdir.open(world.root), Settings(as_of=world.now - HOUR))


def cut(log: PartitionLog, draw: random.Random, *, kept: int = 0) -> None:
    """The log ends earlier, behind any of its batches. `kept`: how many are left at least."""
    ends = [
        (number, item.position + item.size, item.last_offset + 1)
        for number, (_, data) in enumerate(log.segments)
        for item in read(bytes(data))
        if isinstance(item, Batch)
    ]
    if len(ends) > kept:
        number, position, end = draw.choice(ends[kept:])
        del log.segments[number][1][position:]
        del log.segments[number + 1 :]
        log.end = end


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_uncopied_files_cause_no_violation(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    world = sound(tmp_path, seed)
    world.finish()
    world.replicate().write()
    for path in sorted(tmp_path.rglob("*")):
        if path.exists() and draw.random() < 0.15 and path.suffix != ".log" and path.parent != tmp_path:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert audit(world).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_different_times_cause_no_violation(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    world = sound(tmp_path, seed)
    world.finish()
    (world.logs.root / ".kafka_cleanshutdown").unlink()
    shutil.rmtree(world.logs.root)
    for (topic, _), log in world.logs.partitions.items():
        if draw.random() < 0.4:
            # The topic and its partitions were made long before.
            cut(log, draw, kept=6 if topic == "__cluster_metadata" else 0)
    world.logs.write()
    assert audit(world).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_compacted_coordinator_records_cause_no_violation(tmp_path: Path, seed: int) -> None:
    """Of `__transaction_state` any record may be gone but the newest of an id."""
    draw = random.Random(seed)
    world = sound(tmp_path, seed)
    world.finish()
    for (topic, _), log in world.logs.partitions.items():
        if topic == "__transaction_state":
            items = [item for item in read(bytes(log.segments[0][1])) if isinstance(item, Batch)]
            newest = {next(iter(item.records)).key: item.base_offset for item in items}
            kept = [i for i in items if i.base_offset in newest.values() or draw.random() < 0.6]
            log.segments[0][1][:] = b"".join(bytes(item.data) for item in kept)
    world.logs.write()
    found = audit(world)
    assert found.violations == ()
    assert {answer.check for answer in found.answers if answer.not_checkable} >= {"legal_transition", "epoch_step"}


@pytest.mark.parametrize("prepared", [False, True])
def test_a_much_later_copy_of_another_broker_causes_no_violation(tmp_path: Path, prepared: bool) -> None:
    """The second copy proves nothing of what was under way in the first. A clock that is given holds for both."""
    world = World(tmp_path, 3)
    producer = world.producer("at-work")
    world.begin(producer, 0)
    if prepared:
        world.prepare(producer, True)
        world.marker(producer, 0, True)
    world.logs.write()
    later = LogDirectory(tmp_path / "broker-1", ids=0)
    later.partition("payments").data(-1, -1, at=world.now + HOUR, append_time=world.now + HOUR, transactional=False)
    later.write()
    directory = logdir.open(tmp_path)
    assert transactions.audit(directory).as_of == world.now + HOUR
    assert transactions.audit(directory).violations == ()
    given = transactions.audit(directory, Settings(as_of=world.now + HOUR))
    check = "prepare_completed" if prepared else "late_transaction"
    assert {row.check for row in given.violations} == {check}
