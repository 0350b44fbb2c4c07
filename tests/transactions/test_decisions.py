"""The decisions of a coordinator, from its log, record by record."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.messages import TransactionLogValue
from kafkawire.testing.coordinator_machine import TransactionMetadata
from kafkawire.transactions.coordinator.coordinator_rules import MAX_EPOCH
from kafkawire.transactions.coordinator.decisions import Decision, Decisions, decision_of
from kafkawire.transactions.facts import Place, Registration

PLACE = Place("logs", "__transaction_state", 0)
PARTITIONS = frozenset({("orders", 0), ("orders", 1)})


def value(state: str, epoch: int, **more: Any) -> TransactionLogValue:
    given = {"producer_id": 7, "timeout_ms": 1, "partitions": PARTITIONS, "started": 100, "updated": 200} | more
    return TransactionMetadata(epoch=epoch, state=state, **given).record()


def record(found: TransactionLogValue | None, offset: int = 5) -> Registration:
    return Registration(place=PLACE, offset=offset, timestamp=300 + offset, transactional_id="t", value=found)


def decided(before: TransactionLogValue | None, after: TransactionLogValue) -> Decision:
    found = decision_of(before, record(after))
    assert found is not None
    return found


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "Dead", "PrepareEpochFence"])
def test_undecided_states_give_no_decision(state: str) -> None:
    assert decision_of(None, record(value(state, 3))) is None


def test_an_id_that_has_expired_decides_nothing() -> None:
    assert decision_of(value("Ongoing", 3), record(None)) is None


@pytest.mark.parametrize(
    ("before", "after", "lowest", "highest", "outcome"),
    [
        # The Ongoing record has the epoch of the data, whatever the marker's is.
        (value("Ongoing", 4), value("PrepareCommit", 4), 4, 4, "COMMIT"),
        (value("Ongoing", 4), value("PrepareAbort", 5), 4, 4, "ABORT"),
        (value("Ongoing", 4, version=2), value("PrepareCommit", 5, version=2), 4, 4, "COMMIT"),
        # Without it: version 2 raises the epoch at every end; before, aborts may have raised it.
        (None, value("PrepareCommit", 5, version=2), 4, 4, "COMMIT"),
        (None, value("PrepareAbort", 5, version=2), 4, 4, "ABORT"),
        (None, value("PrepareCommit", 5), 5, 5, "COMMIT"),
        (None, value("PrepareAbort", 5), 4, 5, "ABORT"),
        (None, value("CompleteAbort", 5, version=1), 4, 5, "ABORT"),
        # An Ongoing record of another producer, or too far away, shows nothing of this one.
        (value("Ongoing", 4, producer_id=8), value("PrepareAbort", 5), 4, 5, "ABORT"),
        (value("Ongoing", 2), value("PrepareCommit", 5), 5, 5, "COMMIT"),
    ],
)
def test_derives_the_epochs_of_the_data(
    before: TransactionLogValue | None, after: TransactionLogValue, lowest: int, highest: int, outcome: str
) -> None:
    found = decided(before, after)
    assert (found.lowest_epoch, found.highest_epoch, found.outcome) == (lowest, highest, outcome)
    assert found.marker_epoch == after.producer_epoch


def test_a_prepare_record_names_the_partitions_and_a_complete_one_does_not() -> None:
    prepare = decided(None, value("PrepareCommit", 4))
    assert (prepare.partitions, prepare.since, prepare.until) == (PARTITIONS, 200, None)
    complete = decided(None, value("CompleteCommit", 4, partitions=frozenset()))
    assert (complete.partitions, complete.since, complete.until) == (None, 100, 305)


def test_an_exhausted_producer_id_keeps_its_decision() -> None:
    """The transaction was that of the id before, which the Complete record names."""
    after = value("CompleteCommit", 0, producer_id=9, previous_producer_id=7, version=2)
    found = decided(None, after)
    assert (found.producer_id, found.marker_epoch, found.lowest_epoch) == (7, MAX_EPOCH, MAX_EPOCH - 1)
    assert decided(None, value("CompleteCommit", 1, producer_id=9, previous_producer_id=7)).producer_id == 9


def test_a_complete_record_ends_the_prepare_before_it() -> None:
    decisions = Decisions()
    ongoing, prepare = record(value("Ongoing", 4), 0), record(value("PrepareCommit", 4), 1)
    complete = record(value("CompleteCommit", 4, partitions=frozenset()), 2)
    for before, found in ((None, ongoing), (ongoing, prepare), (prepare, complete)):
        decisions.add(before, found)
    (only,) = decisions.found[7]
    assert (only.offset, only.partitions, only.until) == (1, PARTITIONS, 302)


def test_a_complete_record_alone_is_a_decision_of_its_own() -> None:
    """Compaction removed its Prepare; the next transaction's is another, of which the beginning could not be read."""
    decisions = Decisions()
    complete = record(value("CompleteAbort", 4), 3)
    decisions.add(None, complete)
    decisions.add(complete, record(value("PrepareCommit", 4), 9))
    assert [(found.offset, found.outcome) for found in decisions.found[7]] == [(3, "ABORT"), (9, "COMMIT")]


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_drained_decisions_are_those_of_the_whole_log(every: int) -> None:
    """However often; what waits for its Complete record stays."""
    whole, drained = Decisions(), Decisions()
    found: list[Decision] = []
    before = None
    states = ["Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort"] * 4
    for offset, state in enumerate(states):
        after = record(value(state, offset // 3 % 3), offset)
        for decisions in (whole, drained):
            decisions.add(before, after)
        before = after
        if offset % every == 0:
            found += drained.drain()
            assert sum(map(len, drained.found.values())) <= 1
    found += drained.drain(last=True)
    assert found == whole.found[7]
    assert len(found) == 8
    assert not drained.found
