"""The timeline of an open transaction: events of its partition and its coordinator, and the report's clock."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kafkawire.rows import Finding
from kafkawire.transactions.coordinator.coordinator_rules import NEVER
from kafkawire.transactions.formatting import duration

COORDINATOR, PARTITION, CLOCK = "coordinator", "partition", "clock"

_STATES = {
    "Empty": "no transaction has begun",
    "Ongoing": "a transaction is in progress",
    "PrepareCommit": "the commit is decided, markers are to be written",
    "PrepareAbort": "the abort is decided, markers are to be written",
    "CompleteCommit": "all markers of the commit are written",
    "CompleteAbort": "all markers of the abort are written",
}

#: In per cent of the width: the left and right margin, and the minimum distance of two numbered dots.
_LEFT, _RIGHT, _GAP = 3.0, 97.0, 7.0


class TimelineEvent(msgspec.Struct, frozen=True):
    """An event of a timeline.

    Attributes:
        time: epoch milliseconds.
        lane: COORDINATOR, PARTITION or CLOCK.
        what: a description.
        ahead: whether the event is after the clock.
        leaves_open: whether data that it wrote is open from then on.
        x: position in per cent of the width. Close events are moved apart, so the scale is approximate.
    """

    time: int
    lane: str
    what: str
    ahead: bool = False
    leaves_open: bool = False
    x: float = 0.0


class TimelineSpan(msgspec.Struct, frozen=True):
    """A line between two events of a lane, in per cent: an ongoing transaction of the coordinator, or open data."""

    lane: str
    x: float
    width: float


class TransactionTimeline(msgspec.Struct, frozen=True):
    """The events of one transaction, the earliest first, and the lines between them."""

    events: tuple[TimelineEvent, ...]
    spans: tuple[TimelineSpan, ...]


def timeline(finding: Finding, as_of: int | None) -> TransactionTimeline | None:
    """The timeline of a finding; None if fewer than two events are known.

    Args:
        finding: the finding.
        as_of: the clock of the audit in epoch milliseconds, for findings without an age.
    """
    events = sorted(_events(finding, _clock(finding, as_of)), key=lambda event: event.time)
    if len(events) < 2:
        return None
    placed = tuple(
        msgspec.structs.replace(event, x=x)
        for event, x in zip(events, _positions([event.time for event in events]), strict=True)
    )
    return TransactionTimeline(placed, tuple(_spans(finding, placed)))


def _clock(finding: Finding, as_of: int | None) -> int | None:
    """The clock of the finding's cluster: the time against which its age was counted."""
    if finding.age_ms is None or finding.last_timestamp is None:
        return as_of
    return finding.last_timestamp + finding.age_ms


def _events(finding: Finding, clock: int | None) -> list[TimelineEvent]:
    state, begun = finding.coordinator_state, finding.transaction_start_timestamp
    changed, timeout = finding.transaction_last_update_timestamp, finding.transaction_timeout_ms
    events = []
    if finding.marker_timestamp is not None:
        events.append(
            TimelineEvent(finding.marker_timestamp, PARTITION, "the newest marker before the last batch of the data")
        )
    if begun is not None and not (state == "Ongoing" and begun == changed):
        events.append(TimelineEvent(begun, COORDINATOR, "the newest transaction of the id began"))
    if changed is not None and state is not None:
        meaning = _STATES.get(state)
        events.append(TimelineEvent(changed, COORDINATOR, f"{state} ({meaning})" if meaning else state))
    if finding.last_timestamp is not None and finding.last_timestamp >= 0:
        where = "" if finding.last_offset is None else f", up to offset {finding.last_offset}"
        what = f"last batch of the data{where} (the client's clock)"
        events.append(TimelineEvent(finding.last_timestamp, PARTITION, what, leaves_open=True))
    if state == "Ongoing" and timeout not in (None, NEVER):
        since = begun if begun is not None else changed
        if since is not None and timeout is not None:
            due = since + timeout
            ahead = clock is None or due > clock
            then = "the coordinator will abort" if ahead else "the coordinator should have aborted"
            what = f"the timeout of {duration(timeout)}: {then} its transaction"
            events.append(TimelineEvent(due, COORDINATOR, what, ahead))
    if clock is not None:
        events.append(TimelineEvent(clock, CLOCK, "the clock of this report"))
    return events


def _positions(times: Sequence[int]) -> list[float]:
    """Positions of ascending times in per cent of the width: to scale, then moved apart to the minimum distance."""
    low, high = times[0], times[-1]
    scale = (_RIGHT - _LEFT) / max(1, high - low)
    places = [_LEFT + (time - low) * scale for time in times]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _GAP)
    edge = _RIGHT
    for i in reversed(range(len(places))):
        places[i] = min(places[i], edge)
        edge = places[i] - _GAP
    return [round(place, 1) for place in places]


def _spans(finding: Finding, events: Sequence[TimelineEvent]) -> list[TimelineSpan]:
    """The lines of both lanes: the coordinator's transaction, and open data from its last batch to the clock."""
    now = next((event.x for event in events if event.lane == CLOCK), events[-1].x)
    spans = []
    own = [event.x for event in events if event.lane == COORDINATOR and not event.ahead]
    if own:
        held = (finding.coordinator_state or "").startswith(("Ongoing", "Prepare"))
        spans.append(TimelineSpan(COORDINATOR, own[0], round((max(now, own[-1]) if held else own[-1]) - own[0], 1)))
    spans += [TimelineSpan(PARTITION, it.x, round(now - it.x, 1)) for it in events if it.leaves_open and now > it.x]
    return spans
