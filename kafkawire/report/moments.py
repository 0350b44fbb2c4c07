"""The story of an open transaction in time: what its partition and its coordinator did, up to the clock."""

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


class Moment(msgspec.Struct, frozen=True):
    """Something that happened.

    Attributes:
        time: epoch milliseconds. `x`: per cent of the picture's width, in order, not to scale where moments are close.
        lane: whose it is: the coordinator's, the partition's, or only the clock.
        ahead: it has not come when the clock stands. `leaves_open`: what it wrote is open from then on.
    """

    time: int
    lane: str
    what: str
    ahead: bool = False
    leaves_open: bool = False
    x: float = 0.0


class Span(msgspec.Struct, frozen=True):
    """From one moment to another on a lane, in per cent: a transaction that its coordinator held, or data left open."""

    lane: str
    x: float
    width: float


class Story(msgspec.Struct, frozen=True):
    """The moments of one transaction, the earliest first."""

    moments: tuple[Moment, ...]
    spans: tuple[Span, ...]


def story(finding: Finding, as_of: int | None) -> Story | None:
    """What is known of it in time; None where fewer than two moments are."""
    moments = sorted(_moments(finding, _clock(finding, as_of)), key=lambda moment: moment.time)
    if len(moments) < 2:
        return None
    placed = tuple(
        msgspec.structs.replace(moment, x=x)
        for moment, x in zip(moments, _places([moment.time for moment in moments]), strict=True)
    )
    return Story(placed, tuple(_spans(finding, placed)))


def _clock(finding: Finding, as_of: int | None) -> int | None:
    """The clock of the finding's own cluster, from which its age counts."""
    if finding.age_ms is None or finding.last_timestamp is None:
        return as_of
    return finding.last_timestamp + finding.age_ms


def _moments(finding: Finding, clock: int | None) -> list[Moment]:
    state, begun = finding.coordinator_state, finding.transaction_start_timestamp
    changed, timeout = finding.transaction_last_update_timestamp, finding.transaction_timeout_ms
    moments = []
    if finding.marker_timestamp is not None:
        moments.append(
            Moment(finding.marker_timestamp, PARTITION, "a marker, the newest before that data's last batch")
        )
    if begun is not None and not (state == "Ongoing" and begun == changed):
        moments.append(Moment(begun, COORDINATOR, "the newest transaction of the id began"))
    if changed is not None and state is not None:
        meaning = _STATES.get(state)
        moments.append(Moment(changed, COORDINATOR, f"{state} ({meaning})" if meaning else state))
    if finding.last_timestamp is not None and finding.last_timestamp >= 0:
        where = "" if finding.last_offset is None else f", up to offset {finding.last_offset}"
        what = f"last batch of the data{where} (the client's clock)"
        moments.append(Moment(finding.last_timestamp, PARTITION, what, leaves_open=True))
    if state == "Ongoing" and timeout not in (None, NEVER):
        since = begun if begun is not None else changed
        if since is not None and timeout is not None:
            due = since + timeout
            ahead = clock is None or due > clock
            then = "the coordinator will abort" if ahead else "the coordinator should have aborted"
            what = f"the timeout of {duration(timeout)}: {then} its transaction"
            moments.append(Moment(due, COORDINATOR, what, ahead))
    if clock is not None:
        moments.append(Moment(clock, CLOCK, "the clock of this report"))
    return moments


def _places(times: Sequence[int]) -> list[float]:
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


def _spans(finding: Finding, moments: Sequence[Moment]) -> list[Span]:
    """Lines on the lanes: the coordinator's transaction, and the partition's from its last batch to the clock."""
    now = next((moment.x for moment in moments if moment.lane == CLOCK), moments[-1].x)
    spans = []
    own = [moment.x for moment in moments if moment.lane == COORDINATOR and not moment.ahead]
    if own:
        held = (finding.coordinator_state or "").startswith(("Ongoing", "Prepare"))
        spans.append(Span(COORDINATOR, own[0], round((max(now, own[-1]) if held else own[-1]) - own[0], 1)))
    spans += [Span(PARTITION, it.x, round(now - it.x, 1)) for it in moments if it.leaves_open and now > it.x]
    return spans
