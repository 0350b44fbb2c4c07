"""Transactions that plainly agree with their coordinator, judged as columns: the answers are those of one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions.checks import agreeing
from kafkawire.transactions.checks.agreeing import JoinedDecisions, judge_agreeing
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import PACKED, Endings, JoinedEndings, packed
from tests.references.sequential_replay import in_any_order

PLACES = [Place("logs", "orders", 0), Place("logs", "orders", 1), Place("logs", "payments", 0)]
COORDINATORS = [Place("logs", "__transaction_state", number) for number in range(2)]


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    epoch, version = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    lowest = epoch - draw(st.integers(0, 1)) if version < 2 else epoch
    since = draw(st.integers(0, 20)) * 1000
    return Decision(
        transactional_id=draw(st.sampled_from("ab")),
        place=draw(st.sampled_from(COORDINATORS)),
        offset=draw(st.integers(0, 50)),
        producer_id=draw(st.sampled_from([7, 8, 7 + (1 << 48)])),
        lowest_epoch=lowest,
        highest_epoch=epoch,
        marker_epoch=epoch + (version == 2) + (draw(st.integers(0, 9)) == 0),
        outcome=draw(st.sampled_from(["COMMIT", "ABORT"])),
        version=version,
        partitions=draw(st.none() | st.frozensets(st.sampled_from([("orders", 0), ("orders", 1), ("payments", 0)]))),
        since=since,
        until=draw(st.none() | st.just(since + 5)),
    )


@st.composite
def endings(draw: st.DrawFn, made: list[Decision]) -> tuple[Place, tuple[int, ...]]:
    """Most are of a decision."""
    base = draw(st.sampled_from(made)) if made and draw(st.integers(0, 4)) else draw(decisions())
    row: dict[str, Any] = dict.fromkeys(PACKED.names or (), 0)
    row |= {
        "producer_id": base.producer_id,
        "offset": draw(st.integers(0, 1000)),
        "timestamp": base.since + draw(st.sampled_from([1, 1, 30_000])),
        "data_epoch": base.highest_epoch,
        "marker_epoch": base.marker_epoch + (draw(st.integers(0, 9)) == 0),
        "outcome": int(base.outcome == "COMMIT") ^ (draw(st.integers(0, 9)) == 0),
    }
    listed = sorted(base.partitions or ())
    topic, partition = draw(st.sampled_from(listed)) if listed and draw(st.integers(0, 9)) else ("orders", 0)
    return Place("logs", topic, partition), tuple(row.values())


@pytest.mark.parametrize("engine", [True, False])
@pytest.mark.parametrize("table", [1 << 22, 0])
@given(st.data())
def test_the_answers_are_those_of_one_by_one(engine: bool, table: int, data: st.DataObject) -> None:
    made = data.draw(st.lists(decisions(), max_size=6))
    ended = data.draw(st.lists(endings(made), max_size=12, unique_by=lambda one: (one[0], one[1][1])))
    of_place = {place: Endings(place, whole=False) for place in PLACES}
    for place, row in ended:
        of_place[place].add(packed([row]))
    decided = [Decided.listed(place, [one for one in made if one.place == place]) for place in COORDINATORS]
    answers = []
    for as_columns in (False, True):
        tallies = Tallies()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agreeing, "_TABLE", table)
            if not engine:
                patch.setattr(agreeing, "native", None)
            joined = JoinedDecisions(decided)
            for rows, number, count in JoinedEndings.groups(of_place.values()):
                left = judge_agreeing(rows, joined.group(number, count), tallies) if as_columns else rows
                by_id = joined.objects(left.rows["producer_id"])
                for producer_id, of_producer in left.by_producer():
                    judge(of_producer, by_id.get(producer_id, ()), tallies, decided_until=40_000)
        answers.append(
            {
                (place, tally.check): in_any_order(tally.answer())
                for place, tally in tallies.all()
                if tally.held or tally.violated or tally.not_checkable
            }
        )
    assert answers[1] == answers[0]


def test_a_plain_transaction_is_left_to_none() -> None:
    one = Decision(
        transactional_id="a", place=COORDINATORS[0], offset=3, producer_id=7, lowest_epoch=4, highest_epoch=4,
        marker_epoch=5, outcome="COMMIT", version=2, partitions=frozenset({("orders", 0)}), since=1, until=9,
    )  # fmt: skip
    ended = Endings(PLACES[0])
    ended.add(packed([(7, 9, 5, 8, 4, 5, 1, 8, 1, 1, 1, 0)]))
    (rows, number, count) = next(JoinedEndings.groups([ended]))
    tallies = Tallies()
    decided = JoinedDecisions([Decided.listed(COORDINATORS[0], [one])])
    left = judge_agreeing(rows, decided.group(number, count), tallies)
    assert not len(left.rows)
    assert (tallies.outcome[PLACES[0]].held, tallies.epoch[PLACES[0]].held) == (1, 1)
    np.testing.assert_array_equal(left.numbers, [])
