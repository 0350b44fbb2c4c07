"""The rules of an id's records, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire.messages import TransactionLogValue
from kafkawire.testing.coordinator_machine import TransactionMetadata
from kafkawire.transactions.answers import LEGAL_TRANSITION, TRANSITION_FIELDS, Answer
from kafkawire.transactions.checks.check_names import ID_CHECKS
from kafkawire.transactions.checks.coordinator_records import IdChecks, epoch_problem, fields_problem, previous_problem
from kafkawire.transactions.coordinator.coordinator_rules import EPOCH_STEPS, NEVER_WRITTEN
from kafkawire.transactions.facts import Place, Registration


def log(state: str, epoch: int, version: int = 0, producer_id: int = 7, next_id: int = -1) -> TransactionLogValue:
    metadata = TransactionMetadata(
        producer_id=producer_id, next_producer_id=next_id, epoch=epoch, timeout_ms=1, state=state, version=version
    )
    return metadata.record()


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (None, log("Empty", 0), None),
        (None, log("Empty", 3), "the first record of the id has epoch 3, not 0"),
        (log("Empty", 0), log("Empty", 1), None),
        (log("Empty", 1), log("Empty", 1), None),
        (log("Empty", 0), log("Empty", 2), "the epoch goes from 0 to 2; at Empty only +0 or +1 is possible"),
        (log("Empty", 4), log("Ongoing", 5), "the epoch goes from 4 to 5; at Ongoing only +0 is possible"),
        (log("Ongoing", 4), log("PrepareCommit", 5), "goes from 4 to 5; at PrepareCommit only +0 is possible"),
        (log("Ongoing", 4), log("PrepareCommit", 4, 2), "goes from 4 to 4; at PrepareCommit only +1 is possible"),
        (log("Ongoing", 4), log("PrepareAbort", 5), None),
        (log("Ongoing", 4, 2), log("PrepareAbort", 5, 2), None),
        (log("Ongoing", 4), log("PrepareAbort", 3), "goes from 4 to 3; at PrepareAbort only +0 or +1 is possible"),
        (log("PrepareAbort", 5, 2), log("CompleteAbort", 5, 2), None),
        (log("PrepareCommit", 5, 2), log("CompleteCommit", 6, 2), "from 5 to 6; at CompleteCommit only +0"),
        (log("Ongoing", 32766, 2), log("PrepareCommit", 32767, 2, 7, 8), None),
        (log("PrepareCommit", 32767, 2, 7, 8), log("CompleteCommit", 0, 2, 8), None),
        (log("PrepareCommit", 32767, 2, 7, 8), log("CompleteCommit", 0, 2, 9), "from 7 to 9, and 8 was announced"),
        (log("PrepareCommit", 3, 0), log("CompleteCommit", 0, 0, 9), "7 to 9 at CompleteCommit, where none can change"),
        (log("CompleteAbort", 32767), log("Empty", 0, 0, 8), None),
        (log("CompleteAbort", 12), log("Empty", 0, 0, 8), "from 7 to 8, and the epoch 12 was not used up"),
        (log("CompleteAbort", 32766), log("Empty", 1, 0, 8), "from 7 to 8, and its epoch is 1, not 0"),
        (log("Ongoing", 3), log("Ongoing", 0, 0, 8), "from 7 to 8 at Ongoing, where none can change"),
        (log("Ongoing", 32767), log("PrepareAbort", 32767, 2), None),
        (log("Empty", 32766), log("Empty", 32767), "the epoch is 32767 at Empty"),
    ],
)
def test_judges_epoch_steps(
    before: TransactionLogValue | None, after: TransactionLogValue, problem: str | None
) -> None:
    problem_found = epoch_problem(before, after)
    assert (problem_found is None) is (problem is None), problem_found
    assert (problem or "") in (problem_found or "")


@given(st.sampled_from(sorted(EPOCH_STEPS)), st.integers(-4, 6))
def test_accepts_no_epoch_step_outside_the_table(row: tuple[str, bool], step: int) -> None:
    state, bumped = row
    version = 2 if bumped else 0
    before = replace(log("Ongoing", 100), client_transaction_version=version)
    assert (epoch_problem(before, log(state, 100 + step, version)) is None) is (step in EPOCH_STEPS[row])
    assert state not in NEVER_WRITTEN


PLACE = Place("logs", "__transaction_state", 0)


def tally_of(
    *values: TransactionLogValue | None,
    at: int,
    expiration: int | None = 1000,
    epochs: tuple[int, ...] = (0, 0),
    check: str = LEGAL_TRANSITION,
) -> Answer:
    """The answer of a check for two records of an id, the second of which was written at that time."""
    checks = IdChecks(expiration)
    before: Registration | None = None
    for offset, (value, epoch) in enumerate(zip(values, epochs, strict=True)):
        found = Registration(
            place=PLACE, offset=offset, timestamp=at, transactional_id="pay", value=value, leader_epoch=epoch
        )
        checks.reach(offset)
        checks.see(before, found)
        before = found
    return checks.answers()[ID_CHECKS.index(check)]


IDLE_ID = replace(log("Empty", 0), transaction_last_update_timestamp_ms=5000)


def test_ids_expire_when_they_were_idle_for_long_enough() -> None:
    assert tally_of(IDLE_ID, None, at=6000).held == 2
    (breach,) = tally_of(IDLE_ID, None, at=5999).breaches
    assert (breach.offset, breach.transactional_id) == (1, "pay")
    assert breach.what == "a tombstone 0 s after the last update, and ids expire after 1 s"


def test_judges_expiry_only_where_the_setting_is_known() -> None:
    """Not by Kafka's default, and not by the clocks of two coordinators."""
    assert tally_of(IDLE_ID, None, at=5001, expiration=None).held == 2
    moved = tally_of(IDLE_ID, None, at=5001, epochs=(3, 4))
    assert (moved.violated, moved.lacked) == (0, ("two coordinators wrote the two records, and their clocks differ",))
    assert tally_of(None, None, at=5001).violated == 0


def test_a_lost_start_violates_transition_fields() -> None:
    before = replace(log("Empty", 0), transaction_start_timestamp_ms=-1)
    assert fields_problem(before, replace(log("Ongoing", 0), transaction_start_timestamp_ms=-1)) == (
        "Ongoing without a start"
    )


def test_the_producer_id_that_was_announced_is_taken() -> None:
    prepared = replace(log("PrepareCommit", 32767, 2, 7, 8), previous_producer_id=7)
    stays = replace(log("CompleteCommit", 32767, 2, 7), previous_producer_id=7)
    problem_found = previous_problem(prepared, stays)
    assert problem_found == "the next producer id 8 was announced, and CompleteCommit has 7"


def test_clocks_of_two_coordinators_are_not_compared() -> None:
    """The last update goes back where the leader epoch, and with it the coordinator, is another one."""
    later = replace(log("Empty", 0), transaction_last_update_timestamp_ms=9000, previous_producer_id=7)
    earlier = replace(later, transaction_last_update_timestamp_ms=8000, producer_epoch=1)
    for epochs, violated, lacked in (((3, 3), 1, ()), ((3, 4), 0, ("two coordinators wrote",))):
        problem_found = tally_of(later, earlier, at=9000, epochs=epochs, check=TRANSITION_FIELDS)
        assert problem_found.violated == violated
        assert len(problem_found.lacked) == len(lacked)


def prepared(state: str, epoch: int, version: int, *, at: int = 9000, start: int = 50) -> TransactionLogValue:
    value = replace(log(state, epoch, version), transaction_start_timestamp_ms=start, previous_producer_id=7)
    return replace(value, transaction_last_update_timestamp_ms=at)


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        # As 4.4.0 wrote them while __transaction_state was below min.insync.replicas, and after it.
        (prepared("PrepareAbort", 1, 2), prepared("PrepareAbort", 1, 2, at=60_000), True),
        (prepared("PrepareCommit", 0, 1), prepared("PrepareAbort", 1, 2, at=60_000), True),
        (prepared("PrepareCommit", 4, 0), prepared("PrepareCommit", 4, 0, at=9001), True),
        # Not of one record before, or of another transaction.
        (prepared("PrepareAbort", 1, 2), prepared("PrepareAbort", 3, 2, at=9001), False),
        (prepared("PrepareCommit", 1, 2), prepared("PrepareCommit", 2, 2, at=9001), False),
        (prepared("PrepareAbort", 1, 2), prepared("PrepareAbort", 1, 2, start=51, at=9001), False),
        (prepared("PrepareAbort", 1, 2), prepared("PrepareAbort", 1, 2, at=9000), False),  # the same record twice
        (prepared("PrepareAbort", 1, 2), replace(prepared("PrepareAbort", 1, 2, at=9001), producer_id=8), False),
        (prepared("PrepareCommit", 1, 2), prepared("Ongoing", 1, 2, at=9001), False),
    ],
)
def test_a_prepare_that_was_not_acknowledged_is_decided_again(
    before: TransactionLogValue, after: TransactionLogValue, again: bool
) -> None:
    """Its append failed, so that the coordinator stayed Ongoing; the record stays in the log. No rule is violated, and
    none is confirmed."""
    one, other = (
        Registration(place=PLACE, offset=offset, timestamp=9000, transactional_id="pay", value=value, leader_epoch=0)
        for offset, value in enumerate((before, after))
    )
    checks = IdChecks()
    checks.judge(one, other)
    legal, *others = checks.answers()
    assert (legal.violated, legal.held) == (not again, 0)
    assert all("decides again" in str(answer.lacked) for answer in (legal, *others)) is again
