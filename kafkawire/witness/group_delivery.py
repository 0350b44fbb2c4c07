"""`deliveries`: whether a group was given the records below the offsets that it committed. Pure.

Absence of a Fetch response proves nothing. That records were not given is shown by the consumer itself: it asks for
them after the commit, or goes on after them, and no request can be missing in between (`positions`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import COMMITTED, NONE, OPEN, UNKNOWN
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.witness.exchange_rows import Rows
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.positions import Moves, moment

#: Whether the records below a committed offset were given. Before DELIVERED are the reasons for unknown.
NO_COPY, COPY_OLDER, UNREAD, NO_FETCH, NOT_CAPTURED, UNDECIDED, DELIVERED, UNDELIVERED, GAP = range(9)
NAMES = (*("unknown",) * DELIVERED, "delivered", "undelivered", "undelivered")
REASONS = {
    NO_COPY: ("no_copy", "no log that was given is of the partition"),
    COPY_OLDER: ("copy_older", "the newest copy ends before the committed offset"),
    UNREAD: ("unreadable", "bytes of the newest copy below the offset are damaged or missing"),
    NO_FETCH: ("no_fetch", "no capture shows where the group began to read the partition"),
    NOT_CAPTURED: ("fetch_not_captured", "records below the offset are in no Fetch response that was captured"),
    UNDECIDED: (
        "outcome_unknown",
        "records below the offset were not given, and the copy does not show how their transactions ended",
    ),
}
_NEVER = np.iinfo(np.int64).max


class Deliveries(NamedTuple):
    """The judgement of each commit: `seen` by the codes of this module; `batch`: the row in the copy's batches of the
    first one that was not given; -1: none."""

    seen: Int8
    batch: Int64


def deliveries(
    commits: Rows,
    *,
    starts: Rows,
    fetched: Rows | None,
    moves: Moves | None,
    asked: Int64,
    copy: CopyOfPartition | None,
    own: Bools,
) -> Deliveries:
    """Judges the commits of one group for one partition.

    Args:
        commits: `COMMIT`, in the order of the captures. starts: offsets that members were given by OffsetFetch.
        fetched: the batches that members were given (`FETCHED`). moves: of members. asked: offsets that members
            fetched from.
        copy: the newest one. own: whether each commit is of the only client that reads the partition for the group.
    """
    number = len(commits)
    seen, at = np.full(number, NO_COPY, np.int8), np.full(number, -1, np.int64)
    if copy is None:
        return Deliveries(seen, at)
    held = copy.batches
    counted = np.flatnonzero(np.isin(held["state"], (NONE, COMMITTED)) & (held["records"] > 0))
    base, last = held["base"][counted], held["last"][counted]
    given = _first_given(base, fetched)
    # A later copy may have these as committed.
    open_ = np.isin(held["state"], (OPEN, UNKNOWN)) & (held["records"] > 0)
    undecided, undecided_given = held["base"][open_], _first_given(held["base"][open_], fetched)
    sent = moment(commits["file"], commits["packet"])
    known = sorted(zip(moment(starts["file"], starts["packet"]).tolist(), starts["offset"].tolist(), strict=True))
    begun = int(asked.min()) if len(asked) else None
    before: int | None = None
    read = 0
    for one in range(number):
        while read < len(known) and known[read][0] < sent[one]:
            before = known[read][1] if known[read][1] >= 0 else None
            read += 1
        start, offset = begun if before is None else before, int(commits["offset"][one])
        before = offset
        if start is None:
            seen[one] = NO_FETCH
            continue
        first, end = np.searchsorted(base, [start, offset])
        missing = first + np.flatnonzero((given[first:end] > sent[one]) & (last[first:end] < offset))
        if not len(missing):
            left = slice(*np.searchsorted(undecided, [start, offset]))
            if not (undecided_given[left] <= sent[one]).all():
                seen[one] = UNDECIDED
            elif offset > max(copy.log_end, start):
                seen[one] = COPY_OLDER
            else:
                seen[one] = UNREAD if copy.unreadable(start, offset) else DELIVERED
            continue
        # What a client was given before the capture began is not known: then its first position is not, either.
        shown = moves if read else None
        seen[one], which = _proven(base[missing], last[missing], given[missing], sent[one], shown, own=bool(own[one]))
        at[one] = counted[missing[which]]
    return Deliveries(seen, at)


def _first_given(base: Int64, fetched: Rows | None) -> Int64:
    """When each batch was first given to a member, as a `moment`."""
    given = np.full(len(base), _NEVER, np.int64)
    if fetched is not None and len(base):
        place = np.minimum(np.searchsorted(base, fetched["base"]), len(base) - 1)
        there = base[place] == fetched["base"]
        np.minimum.at(given, place[there], moment(fetched["file"], fetched["response_packet"])[there])
    return given


def _proven(base: Int64, last: Int64, given: Int64, sent: int, moves: Moves | None, *, own: bool) -> tuple[int, int]:
    """Whether moves show that one of the batches was not given before, and which one.

    Args:
        base, last: of the batches. given: when each was given, later. sent: when the offset was committed.
    """
    if moves is None or not len(moves.at):
        return NOT_CAPTURED, 0
    around = (moves.before < sent) & (sent < moves.after)
    for one in range(len(base)):
        if own and (around & (moves.to <= base[one])).any():
            return UNDELIVERED, one
        skipped = (moves.at <= base[one]) & (last[one] < moves.to) & (moves.before < sent)
        if given[one] == _NEVER and skipped.any():
            return GAP, one
    return NOT_CAPTURED, 0
