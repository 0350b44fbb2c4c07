"""The rows of a watch: tables, and properties of any sequence of polls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.client import TopicPartition
from kafkawire.client.watch.state import PollAttempt, WatchState, advance, noteworthy
from kafkawire.rows import Change, Finding, Poll
from tests.client.watching import MINUTE_MS, ORDERS, T0, attempt, finding, observation

OTHER = TopicPartition("orders", 1)
HUNG, LIVE, UNKNOWN = "transaction_ended", "live", "coverage_incomplete"
FAILED = None
Reported = tuple[str, str | None]


def changes(*seen: Any, everything: bool = False) -> list[Reported]:
    """(change, before) of the last of some polls."""
    state, reported = WatchState(), []
    for number, one in enumerate(seen, 1):
        state, reported = advance(state, attempt(number, one), everything=everything)
    return [(row.change, row.before) for row in reported if isinstance(row, Change)]


CASES: dict[str, tuple[list[Any], list[Reported]]] = {
    "one that hangs": ([observation(finding())], [("appeared", None)]),
    "and still does": ([observation(finding()), observation(finding(age_ms=99))], []),
    "a live one is no news": ([observation(finding(reason=LIVE))], []),
    "nor is its end": ([observation(finding(reason=LIVE)), observation()], []),
    "a live one that hangs": (
        [observation(finding(reason=LIVE)), observation(finding())],
        [("appeared", "not_hanging live")],
    ),
    "one that is live again": (
        [observation(finding()), observation(finding(reason=LIVE))],
        [("changed", "hanging transaction_ended")],
    ),
    "a live one that blocks readers for too long": (
        [observation(finding(reason=LIVE)), observation(finding(reason=LIVE, attention="blocked"))],
        [("appeared", "not_hanging live")],
    ),
    "one that blocks readers and hangs then": (
        [observation(finding(reason=LIVE, attention="blocked")), observation(finding())],
        [("changed", "not_hanging live, blocked")],
    ),
    "one in doubt": (
        [observation(finding()), observation(finding(reason=UNKNOWN))],
        [("changed", "hanging transaction_ended")],
    ),
    "another reason": (
        [observation(finding()), observation(finding(reason="epoch_bumped"))],
        [("changed", "hanging transaction_ended")],
    ),
    "ended": ([observation(finding()), observation()], [("gone", None)]),
    "ended, and followed by another": (
        [observation(finding()), observation(finding(start_offset=50))],
        [("gone", None), ("appeared", None)],
    ),
    "followed by a live one": (
        [observation(finding()), observation(finding(reason=LIVE, start_offset=50))],
        [("gone", None)],
    ),
    "a failed poll ends nothing": ([observation(finding()), FAILED, observation(finding())], []),
    "nor does a partition that cannot be read": (
        [observation(finding()), observation(described=(), errors={ORDERS: "no leader"})],
        [],
    ),
    "nor a topic that cannot": (
        [observation(finding()), observation(described=(OTHER,), gaps={"topic orders": "denied"})],
        [("lost", None)],
    ),
    "ended while it could not be read": (
        [observation(finding()), observation(described=(), errors={ORDERS: "no leader"}), observation()],
        [("gone", None)],
    ),
    "a partition that is not there any more": (
        [observation(finding()), observation(described=(OTHER,))],
        [("gone", None)],
    ),
    "coverage is lost once": ([observation(gaps={"broker 2": "down"}), observation(gaps={"broker 2": "still"})], []),
    "and regained": ([observation(gaps={"broker 2": "down"}), FAILED, observation()], [("regained", None)]),
}


@pytest.mark.parametrize(("seen", "reported"), CASES.values(), ids=CASES)
def test_reports_changes(seen: list[Any], reported: list[Reported]) -> None:
    assert changes(*seen) == reported


def test_everything_reports_live_and_young_transactions() -> None:
    assert changes(observation(finding(reason=LIVE)), everything=True) == [("appeared", None)]
    assert changes(observation(finding(reason=LIVE)), observation(), everything=True) == [("gone", None)]


def test_a_change_names_its_transaction_and_contains_the_finding() -> None:
    state, (appeared, _) = advance(WatchState(), attempt(1, observation(finding())))
    assert isinstance(appeared, Change)
    assert (appeared.time, appeared.poll) == (T0 + MINUTE_MS, 1)
    assert appeared.subject == "orders-0, producer id 7, offset 40"
    assert appeared.finding == finding()
    state, (gone, _) = advance(state, attempt(2, observation(described=(OTHER,))))
    assert isinstance(gone, Change)
    assert gone.text == "Its partition is not visible any more: deleted, or hidden from the principal."
    assert gone.finding == finding()
    state, (lost, _) = advance(state, attempt(3, observation(gaps={"broker 2": "broker 2: refused"})))
    assert isinstance(lost, Change)
    assert (lost.subject, lost.text, lost.finding) == ("broker 2", "broker 2: refused", None)


def test_a_poll_counts_partitions_transactions_and_gaps() -> None:
    seen = observation(
        finding(),
        finding(reason=LIVE, producer_id=8),
        finding(reason=LIVE, producer_id=9),
        errors={OTHER: "no leader"},
        gaps={"topic orders": "orders-1: no leader"},
    )
    _, reported = advance(WatchState(), attempt(3, seen, missed=2))
    assert reported[-1] == Poll(
        time=T0 + 3 * MINUTE_MS,
        poll=3,
        duration_ms=1000,
        outcome="incomplete",
        missed=2,
        brokers=(1, 2),
        partitions=1,
        failed_partitions=1,
        transactions={"hanging transaction_ended": 1, "not_hanging live": 2},
        gaps=("orders-1: no leader",),
    )
    state, reported = advance(WatchState(), attempt(4, None, "no connection"))
    assert reported == [
        Poll(time=T0 + 4 * MINUTE_MS, poll=4, duration_ms=1000, outcome="failed", error="no connection")
    ]
    assert state.success is None


@pytest.mark.slow
def test_counts_failures_by_broker() -> None:
    state = WatchState()
    errors = {ORDERS: "refused", OTHER: "no leader"}
    seen = observation(described=(), errors=errors, leaders={ORDERS: 2, OTHER: -1}, silent=[2, 3])
    for number in (1, 2):
        state, _ = advance(state, attempt(number, seen))
    assert state.failures == {2: 2, 3: 2}
    assert state.failed == {ORDERS: 2, OTHER: -1}
    for number in range(2000):
        state, _ = advance(state, attempt(3, observation(silent=[number])))
    assert len(state.failures) == 1000
    assert 1999 in state.failures


def test_duration_is_the_longest_that_is_known() -> None:
    """Since its last batch, since its start at the coordinator, or since it was first seen."""

    def seen(**fields: Any) -> int:
        state = WatchState()
        for number in (1, 2):
            state, _ = advance(state, attempt(number, observation(finding(**fields))))
        (one,) = state.seen.values()
        return one.duration_ms

    now = T0 + 2 * MINUTE_MS + 1000
    assert seen(age_ms=5000) == MINUTE_MS
    assert seen(age_ms=None) == MINUTE_MS
    assert seen(age_ms=10 * MINUTE_MS) == 10 * MINUTE_MS
    begun = {"transaction_start_timestamp": now - 20 * MINUTE_MS}
    assert seen(age_ms=10 * MINUTE_MS, reason=LIVE, **begun) == 20 * MINUTE_MS
    # The coordinator speaks of another transaction.
    assert seen(age_ms=10 * MINUTE_MS, reason=HUNG, **begun) == 10 * MINUTE_MS


# Any sequence of polls ------------------------------------------------------------------------------------------------

PLACES = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in (0, 1)]
SUBJECTS = ["broker 2", "topic a", "hidden topics"]


@st.composite
def attempts(draw: st.DrawFn) -> list[PollAttempt]:
    made = []
    for number in range(1, draw(st.integers(1, 8)) + 1):
        missed = draw(st.integers(0, 2))
        if draw(st.integers(0, 4)) == 0:
            made.append(attempt(number, None, missed=missed))
            continue
        described = draw(st.sets(st.sampled_from(PLACES)))
        errors = draw(st.sets(st.sampled_from(PLACES))) - described
        found = [
            finding(
                place,
                draw(st.sampled_from([LIVE, HUNG, "epoch_bumped", "late", UNKNOWN])),
                producer_id=producer_id,
                start_offset=draw(st.integers(0, 1)),
            )
            for place in sorted(described)
            for producer_id in draw(st.sets(st.integers(1, 2)))
        ]
        gaps = dict.fromkeys(draw(st.sets(st.sampled_from(SUBJECTS))), "why")
        seen = observation(*found, described=described, errors=dict.fromkeys(errors, "why"), gaps=gaps)
        made.append(attempt(number, seen, missed=missed))
    return made


@pytest.mark.slow
@given(attempts(), st.booleans())
def test_changes_rebuild_the_state(polls: list[PollAttempt], everything: bool) -> None:
    """The changes alone give the state, and each poll has one row with its outcome."""
    state = WatchState()
    known: dict[str, Finding] = {}
    gaps: dict[str, str | None] = {}
    outcomes = []
    for one in polls:
        before = state
        state, reported = advance(state, one, everything=everything)
        *changed, poll = reported
        assert isinstance(poll, Poll)
        assert (poll.poll, poll.missed, poll.error) == (one.number, one.missed, one.error)
        outcomes.append(poll.outcome)
        for row in changed:
            assert isinstance(row, Change)
            if row.change == "lost":
                assert row.subject not in gaps
                gaps[row.subject] = row.text
            elif row.change == "regained":
                del gaps[row.subject]
            elif row.change == "gone":
                assert known.pop(row.subject) == row.finding
            else:
                assert row.finding is not None
                assert (row.subject in known) == (row.change == "changed")
                known[row.subject] = row.finding
                if not everything and not noteworthy(row.finding):
                    del known[row.subject]  # a transaction in normal use: its end is not reported
        wanted = {key: f for key, f in state.findings.items() if everything or noteworthy(f)}
        assert sorted(known.values(), key=str) == sorted(wanted.values(), key=str)
        assert gaps.keys() == state.gaps.keys()
        if one.observation is None:
            assert (state.seen, state.gaps, changed) == (before.seen, before.gaps, [])
        else:
            assert set(state.findings.values()) >= set(one.observation.audit.findings)
    assert state.outcomes == {outcome: outcomes.count(outcome) for outcome in ("complete", "incomplete", "failed")}
    assert state.missed == sum(one.missed for one in polls)


@pytest.mark.slow
@given(attempts())
def test_nothing_unread_is_reported_as_gone(polls: list[PollAttempt]) -> None:
    state = WatchState()
    for one in polls:
        before, (state, reported) = state, advance(state, one)
        gone = {row.subject for row in reported if isinstance(row, Change) and row.change == "gone"}
        for (place, producer_id), seen in before.seen.items():
            subject = f"{place}, producer id {producer_id}, offset {seen.finding.start_offset}"
            if one.observation is not None and place in one.observation.errors:
                assert subject not in gone
                assert state.seen[place, producer_id] == seen
