"""Ended transactions that no decision is known for, judged as columns.

Where a coordinator's log is compacted, or was not copied, these are nearly all. What `marker_outcomes` answers on one
of them depends on few values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kafkawire.records.array_types import Bools, Int8, Int16, Int32, Int64
from kafkawire.records.control import COMMIT_CODE
from kafkawire.transactions.checks.marker_outcomes import UNKNOWN, Tallies
from kafkawire.transactions.checks.timed_decisions import CLOCK_SKEW_MS, begins, epochs
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import JoinedEndings

_NEVER = np.iinfo(np.int64).min


class EndedColumns(NamedTuple):
    """Ended transactions, an element of each array a transaction: fields of `endings.JUDGED`, and the index of its
    place in `places`."""

    producer_id: Int64
    data_epoch: Int16 | Int32
    marker_epoch: Int16 | Int32
    outcome: Int8
    timestamp: Int64
    place: Int64
    places: Sequence[Place]

    @classmethod
    def of(cls, ended: JoinedEndings) -> EndedColumns:
        rows = ended.rows
        return cls(
            rows["producer_id"], rows["data_epoch"], rows["marker_epoch"], rows["outcome"], rows["timestamp"],
            ended.numbers, ended.places,
        )  # fmt: skip


def judge_undecided(
    ended: EndedColumns, tallies: Tallies, *, alone: Bools, early: Bools, decided_until: int | None
) -> Bools:
    """Judge what can be judged as columns.

    Args:
        alone: no decision is about data of the producer's epoch. `early`: none of these begins by the time of the
            marker.
        decided_until: see `marker_outcomes.judge`; a later time is permitted.

    Returns:
        Which transactions are left for `judge_epoch`.
    """
    commits = ended.outcome == COMMIT_CODE
    # A COMMIT of a time of which no decision is missing is a violation.
    open_ = ~commits | (ended.timestamp >= (_NEVER if decided_until is None else decided_until - CLOCK_SKEW_MS))
    raised = ended.marker_epoch > ended.data_epoch
    unknown = open_ & ~raised & np.where(commits, early, alone)
    _count(ended, unknown, lambda place, count: tallies.lack(place, UNKNOWN, count))
    left: Bools = ~unknown

    # Those that raised the epoch are of one transaction: its markers are compared with each other.
    rows = np.flatnonzero(raised & alone)
    if len(rows):
        keys = (ended.marker_epoch[rows], ended.data_epoch[rows], ended.producer_id[rows])
        order = np.lexsort(keys)
        rows = rows[order]
        starts = np.flatnonzero(np.append(True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0)))
        commit, place = commits[rows], ended.place[rows]
        mixed = np.logical_or.reduceat(commit, starts) & np.logical_or.reduceat(~commit, starts)
        judged = np.logical_and.reduceat(open_[rows], starts) & ~mixed
        several = np.minimum.reduceat(place, starts) != np.maximum.reduceat(place, starts)
        lengths = np.diff(np.append(starts, len(rows)))
        one, agreeing = np.zeros(len(left), bool), np.zeros(len(left), bool)
        one[rows], agreeing[rows] = np.repeat(judged & ~several, lengths), np.repeat(judged & several, lengths)
        _count(ended, one, lambda place, count: tallies.lack(place, UNKNOWN, count))

        def agree(place: Place, count: int) -> None:
            tallies.outcome[place].held += count
            tallies.epoch[place].lack(UNKNOWN, count)

        _count(ended, agreeing, agree)
        left &= ~(one | agreeing)
    return left


def _count(ended: EndedColumns, chosen: Bools, tally: Callable[[Place, int], None]) -> None:
    counts = np.bincount(ended.place[chosen], minlength=len(ended.places))
    for number in np.flatnonzero(counts).tolist():
        tally(ended.places[number], int(counts[number]))


def undecided(ended: EndedColumns, decisions: Mapping[int, Iterable[Decision]]) -> tuple[Bools, Bools]:
    """Which are `alone`, and which `early`, as `judge_undecided` takes them. `decisions`: by producer id."""
    begun = [
        (producer_id, epoch, begins(decision))
        for producer_id, decided in decisions.items()
        for decision in decided
        for epoch in epochs(decision)
    ]
    if not begun:
        return np.ones(len(ended.producer_id), bool), np.ones(len(ended.producer_id), bool)
    producer_ids, of_epochs, times = zip(*begun, strict=True)
    keys, numbers = np.unique(
        _key(np.array(producer_ids, np.int64), np.array(of_epochs, np.int64)), return_inverse=True
    )
    first = np.full(len(keys), np.inf)
    np.minimum.at(first, numbers, np.array(times, float))
    found = _key(ended.producer_id, ended.data_epoch)
    places = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
    alone = keys[places] != found
    return alone, alone | (ended.timestamp < first[places])


def _key(producer_id: Int64, epoch: Int16 | Int32 | Int64) -> Int64:
    """A number for both. Where two producer ids that are far apart share it, transactions of the one are taken for
    decided, and judged one by one."""
    return (producer_id << 16) + epoch
