"""The timeline of a transaction: order and distance of its events."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.report.transaction_timeline import CLOCK, COORDINATOR, PARTITION, timeline
from kafkawire.rows import Finding
from tests.report.audits import HOUR, NOON, finding

TIMES = st.none() | st.integers(-(2**62), 2**62)


def events_of(of: Finding, as_of: int | None = NOON) -> list[tuple[int, str, str]]:
    found = timeline(of, as_of)
    return [] if found is None else [(event.time, event.lane, event.what) for event in found.events]


def test_events_are_sorted_by_time() -> None:
    assert events_of(finding()) == [
        (NOON - 5 * HOUR, COORDINATOR, "the newest transaction of the id began"),
        (NOON - 4 * HOUR, PARTITION, "the newest marker before the last batch of the data"),
        (NOON - 4 * HOUR, COORDINATOR, "CompleteCommit (all markers of the commit are written)"),
        (NOON - 3 * HOUR, PARTITION, "last batch of the data, up to offset 12 (the client's clock)"),
        (NOON, CLOCK, "the clock of this report"),
    ]


def test_timeout_after_the_clock_is_ahead() -> None:
    ongoing = finding(
        coordinator_state="Ongoing",
        transaction_start_timestamp=NOON - HOUR,
        transaction_last_update_timestamp=NOON - HOUR,
        transaction_timeout_ms=2 * HOUR,
        marker_timestamp=None,
    )
    found = timeline(ongoing, NOON)
    assert found is not None
    assert [(event.lane, event.ahead) for event in found.events] == [
        (PARTITION, False), (COORDINATOR, False), (CLOCK, False), (COORDINATOR, True),
    ]  # fmt: skip
    assert found.events[-1].time == NOON + HOUR


def test_two_phase_commit_has_no_timeout() -> None:
    ongoing = finding(coordinator_state="Ongoing", transaction_timeout_ms=2**31 - 1)
    assert not [what for _, _, what in events_of(ongoing) if "timeout" in what]


def test_clock_is_derived_from_the_findings_age() -> None:
    assert events_of(finding(), as_of=NOON + HOUR)[-1][0] == NOON


def test_single_event_gives_no_timeline() -> None:
    alone = Finding(verdict="unknown", reason="x", topic="a", partition=0, producer_id=1, producer_epoch=0,
                    last_timestamp=NOON)  # fmt: skip
    assert timeline(alone, None) is None


@given(TIMES, TIMES, TIMES, TIMES, TIMES, st.sampled_from(["Ongoing", "PrepareCommit", "Empty", "Next"]))
def test_events_keep_their_distance_and_order(
    last: int | None, marker: int | None, begun: int | None, changed: int | None, as_of: int | None, state: str
) -> None:
    found = timeline(
        finding(
            last_timestamp=last,
            age_ms=None,
            marker_timestamp=marker,
            transaction_start_timestamp=begun,
            transaction_last_update_timestamp=changed,
            coordinator_state=state,
        ),
        as_of,
    )
    if found is None:
        return
    places = [event.x for event in found.events]
    assert all(after - before > 6.9 for before, after in itertools.pairwise(places))
    assert places[0] >= 3
    assert places[-1] <= 97
    assert [event.time for event in found.events] == sorted(event.time for event in found.events)
    assert all(span.x >= 0 and span.width >= 0 and span.x + span.width <= 100 for span in found.spans)
