"""The timeline of an open transaction in time: what its partition and its coordinator did, up to the clock."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kafkawire.rows import Finding
from kafkawire.transactions.model import NEVER
from kafkawire.transactions.wording import duration

COORDINATOR, PARTITION, CLOCK = "coordinator", "partition", "clock"

_STATES = {
    "Empty": "no transaction has begun",
    "Ongoing": "a transaction is in progress",
    "PrepareCommit": "the commit is decided, markers are to be written",
    "PrepareAbort": "the abort is decided, markers are to be written",
    "CompleteCommit": "all markers of the commit are written",
    "CompleteAbort": "all markers of the abort are written",
}

#: Per cent of the picture's width: its edges, and how far apart two numbered dots stand at least.
_LEFT, _RIGHT, _GAP = 3.0, 97.0, 7.0


class TimelineEvent(msgspec.Struct, frozen=True):
    """Something that happened.

    Attributes:
        time: epoch milliseconds. `x`: per cent of the picture's width, in order, not to scale where events are close.
        lane: whose it is: the coordinator's, the partition's, or only the clock.
        ahead: it has not come when the clock stands. `leaves_open`: what it wrote is open from then on.
    """

    time: int
    lane: str
    what: str
    ahead: bool = False
    leaves_open: bool = False
    x: float = 0.0


class TimelineSpan(msgspec.Struct, frozen=True):
    """From one event to another on a lane, in per cent: a transaction that its coordinator held, or data left open."""

    lane: str
    x: float
    width: float


class TransactionTimeline(msgspec.Struct, frozen=True):
    """The events of one transaction, the earliest first."""

    events: tuple[TimelineEvent, ...]
    spans: tuple[TimelineSpan, ...]


def timeline(finding: Finding, as_of: int | None) -> TransactionTimeline | None:
    """What is known of it in time; None where fewer than two events are."""
    events = sorted(_events(finding, _clock(finding, as_of)), key=lambda event: event.time)
    if len(events) < 2:
        return None
    placed = tuple(
        msgspec.structs.replace(event, x=x)
        for event, x in zip(events, _positions([event.time for event in events]), strict=True)
    )
    return TransactionTimeline(placed, tuple(_spans(finding, placed)))


def _clock(finding: Finding, as_of: int | None) -> int | None:
    """The clock of the finding's own cluster, from which its age counts."""
    if finding.age_ms is None or finding.last_timestamp is None:
        return as_of
    return finding.last_timestamp + finding.age_ms


def _events(finding: Finding, clock: int | None) -> list[TimelineEvent]:
    state, begun = finding.coordinator_state, finding.transaction_start_timestamp
    changed, timeout = finding.transaction_last_update_timestamp, finding.transaction_timeout_ms
    events = []
    if finding.marker_timestamp is not None:
        events.append(
            TimelineEvent(finding.marker_timestamp, PARTITION, "a marker, the newest before that data's last batch")
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
    """Ascending times as per cent of the width: to scale, then pushed apart until each has its room."""
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
    """Lines on the lanes: the coordinator's transaction, and the partition's from its last batch to the clock."""
    now = next((event.x for event in events if event.lane == CLOCK), events[-1].x)
    spans = []
    own = [event.x for event in events if event.lane == COORDINATOR and not event.ahead]
    if own:
        held = (finding.coordinator_state or "").startswith(("Ongoing", "Prepare"))
        spans.append(TimelineSpan(COORDINATOR, own[0], round((max(now, own[-1]) if held else own[-1]) - own[0], 1)))
    spans += [TimelineSpan(PARTITION, it.x, round(now - it.x, 1)) for it in events if it.leaves_open and now > it.x]
    return spans
