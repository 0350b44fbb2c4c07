"""Causes before consequences: a violation that another explains is not checkable."""

from __future__ import annotations

import pytest

from kafkawire.transactions.answers import MAX_BREACHES, MAX_KEPT, Answer, Breach, Placed
from kafkawire.transactions.checks.answer_rows import violations
from kafkawire.transactions.checks.violation_causes import FOLLOWS, NOT_COMPARED, without_consequences
from kafkawire.transactions.facts import Place

HERE, COPY = Place("broker-1", "orders", 0), Place("broker-2", "orders", 0)
ELSEWHERE, IDS = Place("broker-1", "orders", 1), Place("broker-1", "__transaction_state", 3)


def breach(
    check: str, offset: int, producer_id: int = 7, *, since: int | None = None, name: str | None = None
) -> Breach:
    return Breach(check, offset, producer_id, "", transactional_id=name, since=since)


def kept(*found: tuple[Place, Breach]) -> list[str]:
    answers = [Placed(place, Answer(check=one.check, violated=1, breaches=(one,))) for place, one in found]
    after = list(without_consequences(answers))
    for placed in after:
        answer = placed.answer
        assert answer.violated + answer.not_checkable == 1
        assert (FOLLOWS in answer.lacked) is (answer.violated == 0)
    return [placed.answer.check for placed in after if placed.answer.violated]


SNAPSHOT = breach("snapshot_equals_replay", 20, since=15)


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        ((HERE, breach("sequence_contiguous", 10)), (HERE, SNAPSHOT)),
        ((HERE, breach("mixed_batches", 18, 8)), (HERE, SNAPSHOT)),  # among the batches that the entry is about
        ((HERE, breach("marker_shape", 10)), (COPY, breach("prepare_completed", 3))),
        ((HERE, breach("duplicate_batch", 12, 8)), (HERE, breach("sequence_contiguous", 14, since=11))),
        ((COPY, breach("replicas_agree", 10)), (HERE, breach("epoch_not_backwards", 10))),
        ((HERE, breach("one_outcome", 20)), (COPY, breach("txnindex_equals_log", 20))),
        ((IDS, breach("epoch_step", 4, name="a")), (HERE, breach("marker_epoch", 9))),
        ((IDS, breach("epoch_step", 4, 99, name="a")), (IDS, breach("prepare_completed", 6, name="a"))),
        ((HERE, breach("txnindex_equals_log", 10)), (HERE, SNAPSHOT)),
        ((HERE, breach("epoch_not_backwards", 9)), (HERE, breach("one_outcome", 20))),
    ],
    ids=lambda one: one[1].check,
)
def test_a_cause_explains_what_rests_on_it(cause: tuple[Place, Breach], effect: tuple[Place, Breach]) -> None:
    assert kept(effect, cause) == [cause[1].check]


def test_of_two_that_could_explain_each_other_the_first_is_named() -> None:
    marker, batch = breach("marker_epoch", 10), breach("epoch_not_backwards", 12, since=10)
    assert kept((HERE, marker), (HERE, batch)) == ["marker_epoch"]
    first, again = breach("new_epoch_from_zero", 10, since=8), breach("duplicate_batch", 14, since=10)
    assert kept((HERE, first), (HERE, again)) == ["new_epoch_from_zero"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((HERE, breach("sequence_contiguous", 21)), (HERE, SNAPSHOT)),  # behind the snapshot
        ((HERE, breach("sequence_contiguous", 10, 8)), (HERE, SNAPSHOT)),  # of another producer, before the entry's
        ((ELSEWHERE, breach("sequence_contiguous", 10)), (HERE, SNAPSHOT)),
        ((COPY, breach("sequence_contiguous", 10)), (HERE, SNAPSHOT)),
        ((HERE, breach("duplicate_batch", 10, 8)), (HERE, breach("sequence_contiguous", 14, since=11))),
        ((HERE, breach("replicas_agree", 10)), (ELSEWHERE, breach("epoch_not_backwards", 10))),
        ((IDS, breach("epoch_step", 4, 99, name="a")), (HERE, breach("marker_epoch", 9, name="b"))),
        # What is open has to be ended, whatever made it so; and who aborted by hand is asked about both.
        ((HERE, breach("producer_id_unique", 10)), (HERE, breach("transaction_unknown_to_coordinator", 10))),
        ((HERE, breach("one_outcome", 20)), (IDS, breach("prepare_completed", 3))),
        ((HERE, breach("sequence_contiguous", 10)), (HERE, breach("one_outcome", 20))),
    ],
    ids=lambda one: one[1].check,
)
def test_violations_apart_are_all_named(one: tuple[Place, Breach], other: tuple[Place, Breach]) -> None:
    assert kept(one, other) == [one[1].check, other[1].check]


def many(check: str, numbers: range, kept: int = MAX_KEPT) -> Answer:
    """A violation by each producer id, of which the first are kept."""
    breaches = tuple(breach(check, 2 * number, number) for number in numbers)[:kept]
    return Answer(check=check, violated=len(numbers), breaches=breaches)


def test_rows_are_counted_after_what_follows_from_causes_is_gone() -> None:
    """The first 100 violations rest on others; those behind them have rows."""
    cause = Placed(IDS, many("transition_fields", range(MAX_BREACHES + 10)))
    found = list(without_consequences([cause, Placed(HERE, many("one_outcome", range(3 * MAX_BREACHES)))]))
    assert [placed.answer.violated for placed in found] == [MAX_BREACHES + 10, 2 * MAX_BREACHES - 10]
    rows = [row for row in violations(found) if row.check == "one_outcome"]
    assert rows[0].producer_id == MAX_BREACHES + 10
    assert len(rows) == MAX_BREACHES + 1
    assert rows[-1].what == f"{MAX_BREACHES - 10} more, after the first {MAX_BREACHES}"


def test_what_is_only_counted_is_not_checkable_where_all_that_was_kept_has_a_cause() -> None:
    cause = Placed(IDS, many("transition_fields", range(MAX_KEPT)))
    effect = Placed(HERE, many("one_outcome", range(MAX_KEPT + 50)))
    found = list(without_consequences([cause, effect]))[1].answer
    assert (found.violated, found.not_checkable) == (0, MAX_KEPT + 50)
    assert found.lacked == (FOLLOWS, NOT_COMPARED)
    assert {row.check for row in violations(without_consequences([cause, effect]))} == {"transition_fields"}
