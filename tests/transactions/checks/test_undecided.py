"""Transactions without a decision are judged as columns like one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.checks.undecided import EndedColumns, judge_undecided, undecided
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import JUDGED, Ending, JoinedEndings
from kafkawire.transactions.log.producer_append import OUTCOMES

PLACES = [Place("logs", "orders", 0), Place("logs", "orders", 1), Place("logs", "payments", 0)]
#: The second has the key of the first, an epoch later.
PRODUCERS = [7, 7 + (1 << 48), 8]


def answers(tallies: Tallies) -> list[tuple[Place, str, int, int, int, list[str], list[object]]]:
    return sorted(
        (place, tally.check, tally.held, tally.violated, tally.not_checkable, sorted(tally.lacked), tally.breaches)
        for place, tally in tallies.all()
        if tally.held or tally.violated or tally.not_checkable
    )


def joined(rows: Iterable[tuple[int, int, int, int, int, int]]) -> JoinedEndings:
    """Producer id, epoch of the data, of the marker, outcome, timestamp, number of the place."""
    listed = list(rows)
    packed = np.zeros(len(listed), JUDGED)
    for number, (producer_id, data_epoch, marker_epoch, outcome, timestamp, _) in enumerate(listed):
        packed[number] = producer_id, number, timestamp, 0, data_epoch, marker_epoch, outcome
    return JoinedEndings(packed, np.array([row[-1] for row in listed], np.int64), PLACES)


@st.composite
def decisions(draw: st.DrawFn) -> dict[int, list[Decision]]:
    found: dict[int, list[Decision]] = {}
    for producer_id in draw(st.lists(st.sampled_from(PRODUCERS), max_size=3)):
        epoch, version, since = draw(st.integers(0, 2)), draw(st.sampled_from([0, 2])), draw(st.integers(0, 20)) * 1000
        listed = draw(st.sampled_from([None, frozenset({("orders", 0)}), frozenset({("orders", 0), ("payments", 0)})]))
        decision = Decision(
            transactional_id="pay", place=PLACES[0], offset=since, producer_id=producer_id, lowest_epoch=epoch,
            highest_epoch=epoch, marker_epoch=epoch + (version >= 2),
            outcome=draw(st.sampled_from(["COMMIT", "ABORT"])), version=version, partitions=listed, since=since,
            until=since + draw(st.sampled_from([0, 10])),
        )  # fmt: skip
        found.setdefault(producer_id, []).append(decision)
    return {producer_id: sorted(several, key=lambda one: one.since) for producer_id, several in found.items()}


ENDED = st.tuples(
    st.sampled_from(PRODUCERS), st.integers(0, 2), st.integers(0, 3), st.integers(0, 1),
    st.integers(0, 20).map(lambda seconds: seconds * 1000), st.integers(0, len(PLACES) - 1),
)  # fmt: skip


@given(st.lists(ENDED, max_size=25), decisions(), st.sampled_from([None, 0, 9000, 30_000]))
def test_tallies_are_those_of_one_by_one(
    rows: list[tuple[int, int, int, int, int, int]], decided: dict[int, list[Decision]], until: int | None
) -> None:
    ended = joined(rows)
    expected = Tallies()
    for producer_id, endings in ended.by_producer():
        judge(endings, decided.get(producer_id, ()), expected, decided_until=until)
    found = Tallies()
    columns = EndedColumns.of(ended)
    alone, early = undecided(columns, decided)
    left = judge_undecided(columns, found, alone=alone, early=early, decided_until=until)
    for producer_id, endings in ended.where(left).by_producer():
        judge(endings, decided.get(producer_id, ()), found, decided_until=until)
    assert answers(found) == answers(expected)


def test_without_decisions_no_transaction_is_left() -> None:
    """Several partitions, several epochs, markers of the data's epoch and above it."""
    ended = joined((7, number % 5, number % 5 + number % 2, 1, number, number % 3) for number in range(300))
    columns, tallies = EndedColumns.of(ended), Tallies()
    alone, early = undecided(columns, {})
    assert not judge_undecided(columns, tallies, alone=alone, early=early, decided_until=None).any()
    assert sum(tally.held + tally.not_checkable for tally in tallies.epoch.values()) == 300


def test_rows_are_those_of_endings() -> None:
    ended = joined([(8, 1, 2, 0, 5000, 2)])
    ((producer_id, endings),) = ended.by_producer()
    assert (producer_id, endings) == (8, [Ending(PLACES[2], 0, 8, 1, 2, OUTCOMES[0], 5000)])
