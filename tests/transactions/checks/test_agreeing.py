"""Transactions that plainly agree with their coordinator, judged as columns: the answers are those of one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions.checks.agreeing import JoinedDecisions
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import PACKED, Endings, JoinedEndings, packed
from kafkawire.wire.backend import native
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


pytestmark = pytest.mark.skipif(native is None, reason="without the engine all are judged one by one")
Left = set[tuple[Place, tuple[int, ...]]]


def replicas(ended: list[tuple[Place, tuple[int, ...]]], cuts: int) -> list[Endings]:
    """The ended transactions of each place, in chunks of so many."""
    of_place = {place: Endings(place) for place in PLACES}
    for place, found in of_place.items():
        rows = [row for where, row in ended if where == place]
        for at in range(0, len(rows), cuts):
            found.add(packed(rows[at : at + cuts]))
    return list(of_place.values())


def answers_of(tallies: Tallies) -> dict[tuple[Place, str], Any]:
    return {
        (place, tally.check): in_any_order(tally.answer())
        for place, tally in tallies.all()
        if tally.held or tally.violated or tally.not_checkable
    }


def joined_decisions(made: list[Decision]) -> JoinedDecisions:
    return JoinedDecisions(
        [Decided.listed(place, [one for one in made if one.place == place]) for place in COORDINATORS]
    )


def judged(ended: list[Endings], made: list[Decision], *, shares: int = 1) -> tuple[Any, Left]:
    """The answers, and what was not settled as columns."""
    decided, tallies, left = joined_decisions(made), Tallies(), set()
    for joined in JoinedEndings.groups(decided.settle(ended, tallies, map, shares)):
        rest(joined, decided, tallies)
        left |= {
            (joined.places[at], row) for at, row in zip(joined.numbers.tolist(), joined.rows.tolist(), strict=True)
        }
    return answers_of(tallies), left


def one_by_one(ended: list[tuple[Place, tuple[int, ...]]], made: list[Decision]) -> dict[tuple[Place, str], Any]:
    """The answers where nothing is settled as columns."""
    tallies, decided = Tallies(), joined_decisions(made)
    for joined in JoinedEndings.groups(replicas(ended, 100)):
        rest(joined, decided, tallies)
    return answers_of(tallies)


def rest(joined: JoinedEndings, decided: JoinedDecisions, tallies: Tallies) -> None:
    by_id = decided.objects(joined.rows["producer_id"])
    for producer_id, of_producer in joined.by_producer():
        judge(of_producer, by_id.get(producer_id, ()), tallies, decided_until=40_000)


@given(st.data())
def test_the_answers_are_those_of_one_by_one(data: st.DataObject) -> None:
    made = data.draw(st.lists(decisions(), max_size=6))
    ended = data.draw(st.lists(endings(made), max_size=12, unique_by=lambda one: (one[0], one[1][1])))
    shares, cuts = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    answers, _ = judged(replicas(ended, cuts), made, shares=shares)
    assert answers == one_by_one(ended, made)


@pytest.mark.parametrize("seed", range(4))
def test_most_of_a_history_with_faults_is_settled(seed: int) -> None:
    """In chunks and shares of any number."""
    made, ended = history(random.Random(seed))
    answers, left = judged(replicas(ended, 100), made)
    assert left
    assert len(left) < len(ended) / 2
    assert answers == one_by_one(ended, made)
    for cuts, shares in ((1, 1), (3, 1), (7, 2), (1000, 3)):
        assert judged(replicas(ended, cuts), made, shares=shares) == (answers, left)


def history(drawn: random.Random) -> tuple[list[Decision], list[tuple[Place, tuple[int, ...]]]]:
    """Decisions of some producer ids in turn, and their markers. Of some what a coordinator never does."""
    made, ended = [], []
    for number in range(300):
        producer_id, epoch = 7 + number % 5, number // 5
        outcome = drawn.choice(["COMMIT", "ABORT"])
        places = drawn.sample(PLACES, drawn.randint(1, 3))
        one = Decision(
            transactional_id=f"id-{producer_id}",
            place=COORDINATORS[producer_id % 2],
            offset=3 * number,
            producer_id=producer_id,
            lowest_epoch=epoch - (drawn.random() < 0.02),
            highest_epoch=epoch,
            marker_epoch=epoch + 1,
            outcome=outcome,
            version=2 - (drawn.random() < 0.02),
            partitions=None if drawn.random() < 0.02 else frozenset((place.topic, place.partition) for place in places),
            since=1000 * number,
            until=1000 * number + 5,
        )
        made += [one] * (0 if drawn.random() < 0.02 else 2 if drawn.random() < 0.02 else 1)
        for place in places * (2 if drawn.random() < 0.02 else 1):
            row = dict.fromkeys(PACKED.names or (), 0)
            row |= {
                "producer_id": producer_id,
                "offset": 10 * len(ended),
                "timestamp": one.since + 1,
                "data_epoch": epoch,
                "marker_epoch": epoch + 1 - (drawn.random() < 0.02),
                "outcome": (outcome == "COMMIT") ^ (drawn.random() < 0.02),
            }
            ended.append((drawn.choice(PLACES) if drawn.random() < 0.02 else place, tuple(map(int, row.values()))))
    drawn.shuffle(made)
    return made, ended


def test_a_plain_transaction_is_left_to_none() -> None:
    one = Decision(
        transactional_id="a", place=COORDINATORS[0], offset=3, producer_id=7, lowest_epoch=4, highest_epoch=4,
        marker_epoch=5, outcome="COMMIT", version=2, partitions=frozenset({("orders", 0)}), since=1, until=9,
    )  # fmt: skip
    answers, left = judged(replicas([(PLACES[0], (7, 9, 5, 8, 4, 5, 1, 8, 1, 1, 1, 0))], 1), [one])
    assert not left
    assert {check: answer.held for (_, check), answer in answers.items()} == {"one_outcome": 1, "marker_epoch": 1}
