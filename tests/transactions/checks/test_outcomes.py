"""one_outcome and marker_epoch where the coordinator's log tells less: what is still proven, and what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.records import Batch, read
from kafkawire.rows import Audit
from kafkawire.transactions.checks import Answer
from kafkawire.transactions.checks.outcomes import Ending, Tallies, judge
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.facts import Place
from tests.injected.cases import CASES
from tests.worlds import World


def audit(world: World) -> Audit:
    return transactions.audit(logdir.open(world.logs.root))


def broken(root: Path, name: str) -> World:
    """A world with one of the injected breaches, not written yet."""
    world = World(root, 2)
    world.run()
    (case,) = (case for case in CASES if case.seed == 2 and case.injection.name == name and case.injection.early)
    assert case.injection.early is not None
    case.injection.early(world)
    return world


def compact(world: World) -> None:
    """Of `__transaction_state` only the newest record of each id is left."""
    for (topic, _), log in world.logs.partitions.items():
        if topic == "__transaction_state":
            items = [item for item in read(bytes(log.segments[0][1])) if isinstance(item, Batch)]
            newest = {next(iter(item.records)).key: item for item in items}
            kept = sorted(newest.values(), key=lambda item: item.base_offset)
            log.segments[0][1][:] = b"".join(bytes(item.data) for item in kept)


#: Of each breach: whether it is named where only Complete records are left, and where none are.
LESS = {
    "aborted-as-by-a-coordinator": (True, True),  # the markers of one epoch contradict each other
    "committed": (True, True),
    "aborted-by-hand": (False, False),  # it may have been a batch that was never in the transaction
    "aborted-by-hand-below-2": (False, False),
    "committed-below-2": (True, False),  # one epoch has many transactions
    "committed-by-nobody": (False, False),
}


@pytest.mark.parametrize("name", LESS)
def test_only_complete_records_are_left(tmp_path: Path, name: str) -> None:
    world = broken(tmp_path, name)
    compact(world)
    world.finish()
    found = audit(world)
    assert {row.check for row in found.violations} == ({"one_outcome"} if LESS[name][0] else set())
    assert any(answer.not_checkable for answer in found.answers if answer.check == "one_outcome") or LESS[name][0]


@pytest.mark.parametrize("name", LESS)
def test_no_record_was_copied(tmp_path: Path, name: str) -> None:
    world = broken(tmp_path, name)
    world.finish()
    for path in world.logs.root.glob("__transaction_state-*"):
        shutil.rmtree(path)
    found = audit(world)
    assert {row.check for row in found.violations} == ({"one_outcome"} if LESS[name][1] else set())
    (answer,) = (answer for answer in found.answers if answer.check == "legal_transition")
    assert (answer.answer, answer.lacked) == ("not_checkable", ("no partition of __transaction_state was read",))


def test_a_hanging_batch_that_was_aborted_by_hand_breaks_nothing(tmp_path: Path) -> None:
    """What `kafkawire txn abort` does to a partition that the transaction does not have, in either version."""
    world = World(tmp_path, 4)
    for version in (0, 2):
        producer = world.producer(f"repaired-{version}", version)
        world.begin(producer, 0)
        world.data(producer, 1)
        epoch = producer.epoch
        world.end(producer, True)
        world.marker(producer, 1, False, epoch=epoch)
    world.finish()
    found = audit(world)
    assert found.violations == ()
    (answer,) = (answer for answer in found.answers if answer.check == "one_outcome")
    assert answer.lacked == ("the coordinator's transaction does not list the partition: an abort by hand",)


def test_many_transactions_of_one_epoch_are_told_apart_by_time(tmp_path: Path) -> None:
    """Below version 2, and within less than clocks may differ by: what lies between Prepare and Complete is certain."""
    world = World(tmp_path, 4)
    world.step = 10
    producer = world.producer("fast", 0)
    for number in range(30):
        world.begin(producer, number % 3)
        world.end(producer, number % 2 == 0)
    world.finish()
    found = audit(world)
    assert found.violations == ()
    (answer,) = (answer for answer in found.answers if answer.check == "one_outcome")
    assert (answer.held, answer.not_checkable) == (30, 0)


PLACE = Place("logs", "orders", 0)


def decided(outcome: str, since: int, until: int, version: int = 0) -> Decision:
    """A decision about data of epoch 3 in `PLACE`."""
    marker_epoch = 3 + (version >= 2)
    return Decision(
        transactional_id="pay",
        place=Place("logs", "__transaction_state", 0),
        offset=since,
        producer_id=7,
        lowest_epoch=3,
        highest_epoch=3,
        marker_epoch=marker_epoch,
        outcome=outcome,
        version=version,
        partitions=frozenset({("orders", 0)}),
        since=since,
        until=until,
    )


def ended(outcome: str, timestamp: int, marker_epoch: int = 3) -> Ending:
    return Ending(PLACE, timestamp, 7, 3, marker_epoch, outcome, timestamp)


def test_two_decisions_that_are_too_close_to_tell_apart() -> None:
    """One to commit and one to abort, and a marker at a time that is of neither: clocks differ."""
    tallies = Tallies()
    judge([ended("COMMIT", 2500)], [decided("ABORT", 1000, 2000), decided("COMMIT", 3000, 4000)], tallies)
    for tally in (tallies.outcome[PLACE], tallies.epoch[PLACE]):
        said = tally.answer()
        assert (said.held, said.violated, said.not_checkable) == (0, 0, 1)
    between = Tallies()
    judge([ended("COMMIT", 3500)], [decided("ABORT", 1000, 2000), decided("COMMIT", 3000, 4000)], between)
    assert between.outcome[PLACE].answer().held == 1


def test_an_epoch_that_goes_back_is_told_by_another_rule() -> None:
    tallies = Tallies()
    judge([ended("COMMIT", 1500, marker_epoch=2)], [decided("COMMIT", 1000, 2000, version=2)], tallies)
    assert tallies.outcome[PLACE].answer().held == 1
    assert tallies.epoch[PLACE].answer() == Answer(check="marker_epoch")
