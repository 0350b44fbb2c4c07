"""Which transactions may be committed for their owners."""

from __future__ import annotations

import pytest

from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import STATES
from kafkawire.transactions.verdict.abort_rules import Refused
from kafkawire.transactions.verdict.commit_rules import EpochHistory, RecordedTransaction, permit_commit

OWN = RecordedTransaction("flink-1", 7, 3)
NUMBERS = {name: number for number, name in STATES.items()}


def history(*records: tuple[str, int, int]) -> EpochHistory:
    """Of records: state, epoch, transaction version of the client."""
    found = EpochHistory(OWN)
    for state, epoch, version in records:
        found.take(
            TransactionLogValue(
                producer_id=7,
                producer_epoch=epoch,
                transaction_status=NUMBERS[state],
                client_transaction_version=version,
            )
        )
    return found


def refused(state: str, epoch: int, found: EpochHistory) -> str:
    with pytest.raises(Refused) as caught:
        permit_commit(OWN, state, (7, epoch), found)
    return caught.value.reason


@pytest.mark.parametrize("version", [0, 2])
def test_only_transaction_of_its_epoch_is_committed(version: int) -> None:
    found = history(("Empty", 3, version), ("Ongoing", 3, version), ("Ongoing", 3, version))
    assert permit_commit(OWN, "Ongoing", (7, 3), found)


def test_epoch_that_had_transactions_before_version_2_is_refused() -> None:
    """Its producer went on: the open transaction is not the one that was recorded."""
    first = [("Empty", 3, 0), ("Ongoing", 3, 0), ("PrepareCommit", 3, 0), ("CompleteCommit", 3, 0)]
    assert refused("Ongoing", 3, history(*first, ("Ongoing", 3, 0))) == "epoch_reused"
    assert permit_commit(OWN, "CompleteCommit", (7, 3), history(*first)) is False
    aborted = [("Ongoing", 3, 0), ("PrepareAbort", 3, 0), ("CompleteAbort", 3, 0)]
    assert refused("CompleteAbort", 3, history(*first, *aborted)) == "epoch_reused"


def test_epoch_whose_beginning_is_compacted_away() -> None:
    assert refused("Ongoing", 3, history(("Ongoing", 3, 0))) == "not_identified"
    assert permit_commit(OWN, "Ongoing", (7, 3), history(("Ongoing", 3, 2)))


def test_end_of_the_transaction_before_begins_an_epoch_in_version_2() -> None:
    before = [("Ongoing", 2, 2), ("PrepareCommit", 3, 2), ("CompleteCommit", 3, 2)]
    assert permit_commit(OWN, "Ongoing", (7, 3), history(*before, ("Ongoing", 3, 2)))
    committed = [("Ongoing", 3, 2), ("PrepareCommit", 4, 2), ("CompleteCommit", 4, 2)]
    assert permit_commit(OWN, "CompleteCommit", (7, 4), history(*before, *committed)) is False
    assert permit_commit(OWN, "Ongoing", (7, 4), history(*before, *committed, ("Ongoing", 4, 2))) is False
    assert permit_commit(OWN, "CompleteCommit", (7, 4), history(("CompleteCommit", 4, 2))) is False


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_that_its_coordinator_has_aborted(version: int) -> None:
    """At the timeout, or for a new instance: the epoch is raised in both versions."""
    ended = [
        ("Empty", 3, version),
        ("Ongoing", 3, version),
        ("PrepareAbort", 4, version),
        ("CompleteAbort", 4, version),
    ]
    assert refused("CompleteAbort", 4, history(*ended)) == "aborted"
    assert refused("Empty", 5, history(*ended, ("Empty", 5, version))) == "aborted"


def test_epoch_that_moved_on_without_a_trace() -> None:
    assert refused("Empty", 9, history(("Empty", 9, 0))) == "epoch_moved"
    assert refused("Ongoing", 9, history()) == "epoch_moved"
    found = history(("Ongoing", 3, 2))
    found.take(None)
    assert refused("Empty", 0, found) == "epoch_moved"
