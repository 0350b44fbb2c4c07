"""Ended transactions that certainly agree with the decision of their coordinator, judged as columns. From transaction
version 2 on these are nearly all: no two transactions share an epoch, so no times are compared. The rest is left to
`marker_outcomes`.

The native engine joins all transactions with all decisions at once. Where it is absent, `judge_agreeing` does, group by
group of producer ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Bytes, Int32, Int64
from kafkawire.records.distinct import distinct
from kafkawire.transactions.checks.marker_outcomes import Tallies
from kafkawire.transactions.coordinator.coordinator_rules import EPOCH_BUMP
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.coordinator.packed_decisions import NOT_KNOWN, Decided
from kafkawire.transactions.log.endings import Each, Endings, JoinedEndings
from kafkawire.transactions.log.spill import Groups, Packed
from kafkawire.wire.backend import native

#: Pairs of a list and a partition that get a place in a table.
_TABLE = 1 << 22
_ABSENT, _SEVERAL = -1, -2


class GroupDecisions(NamedTuple):
    """Decisions about data of some producer ids: fields of `decided.DECIDED`, of several partitions. `partitions`:
    index in `lists`, or as in `DECIDED`."""

    producer_id: Int64
    lowest_epoch: Int32
    highest_epoch: Int32
    marker_epoch: Int32
    partitions: Int32
    version: npt.NDArray[np.int16]
    outcome: npt.NDArray[np.int8]
    lists: Sequence[frozenset[tuple[str, int]]]


class JoinedDecisions:
    """The decisions of all partitions of `__transaction_state`."""

    def __init__(self, decided: Sequence[Decided]) -> None:
        self._decided = [one for one in decided if len(one)]
        self._lists = [partitions for one in self._decided for partitions in one.lists]
        self._groups: list[Groups] = []

    def group(self, number: int, count: int) -> GroupDecisions:
        """The decisions about data of one group of producer ids (`endings.Groups`)."""
        if not self._groups and count > 1:
            self._groups = [Groups(one.rows["producer_id"], count) for one in self._decided]
        columns: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in GroupDecisions._fields[:-1]}
        before = 0
        for place, one in enumerate(self._decided):
            rows = one.rows if count == 1 else self._groups[place].take(one.rows, number)
            for name, listed in columns.items():
                values = rows[name]
                listed.append(np.where(values < 0, values, values + before) if name == "partitions" else values)
            before += len(one.lists)
        joined: dict[str, Any] = {
            name: np.concatenate(listed) if listed else np.empty(0, np.int64) for name, listed in columns.items()
        }
        return GroupDecisions(**joined, lists=self._lists)

    def settle(self, ended: Sequence[Endings], tallies: Tallies, each: Each, shares: int) -> Sequence[Endings]:
        """What `judge_agreeing` does, of all producer ids, by the native engine."""
        if not self._decided:
            return ended
        assert native is not None
        settle_agreeing, lists = native.settle_agreeing, self._lists
        decided = [(_as_bytes(one.rows), len(one.lists)) for one in self._decided]
        chunks = [[_as_bytes(chunk) for chunk in one.chunks] for one in ended]
        names = [(one.place.topic, one.place.partition) for one in ended]

        def is_listed(number: int, place: int) -> bool:
            return names[place] in lists[number]

        def settle(share: int) -> tuple[Int64, list[list[npt.NDArray[np.uint32]]]]:
            of_share: tuple[Int64, list[list[npt.NDArray[np.uint32]]]]
            of_share = settle_agreeing(decided, chunks, is_listed, (share, shares))
            return of_share

        found = list(each(settle, range(shares)))
        left = []
        for number, one in enumerate(ended):
            count = sum(int(held[number]) for held, _ in found)
            if count:
                tallies.outcome[one.place].held += count
                tallies.epoch[one.place].held += count
            of_place = zip(*(of_places[number] for _, of_places in found), strict=True)
            left.append(one.chosen(np.sort(np.concatenate(several)) for several in of_place))
        return left

    def objects(self, producer_ids: Int64) -> dict[int, list[Decision]]:
        """The decisions about data of some producer ids, as objects by producer id."""
        found: dict[int, list[Decision]] = {}
        sought = distinct(producer_ids)
        for one in self._decided if len(sought) else ():
            for decision in one.of(sought):
                found.setdefault(decision.producer_id, []).append(decision)
        return found


def disagreeing(
    ended: Sequence[Endings], decided: JoinedDecisions, tallies: Tallies, *, each: Each = map, shares: int = 1
) -> Iterator[JoinedEndings]:
    """Count the transactions that certainly agree. Returns all others, all of a producer id at once.

    Args:
        each: see `JoinedEndings.groups`. `shares`: in how many it is worth to divide the producer ids for it.
    """
    if native is not None:
        left = decided.settle(ended, tallies, each, shares)
        yield from (joined for joined, _, _ in JoinedEndings.groups(left, each))
        return
    for joined, number, count in JoinedEndings.groups(ended, each):
        yield judge_agreeing(joined, decided.group(number, count), tallies)


def judge_agreeing(ended: JoinedEndings, decided: GroupDecisions, tallies: Tallies) -> JoinedEndings:
    """Count the transactions whose data, outcome, partition and epoch of the marker are those of the one decision about
    the epoch of their data. Returns all others: where one transaction of an epoch is not plain, none of it is."""
    rows = ended.rows
    if not len(decided.producer_id) or not len(rows):
        return ended
    wide = np.flatnonzero(decided.lowest_epoch != decided.highest_epoch)
    keys = np.concatenate(
        [
            _keys(decided.producer_id, decided.lowest_epoch),
            _keys(decided.producer_id[wide], decided.highest_epoch[wide]),
        ]
    )
    producer_id, data_epoch = rows["producer_id"], rows["data_epoch"]
    at = _matched(keys, _keys(producer_id, data_epoch))
    single = (at >= 0) & (at < len(decided.producer_id))
    at = np.where(single, at, 0)
    plain = (
        single
        & (decided.producer_id[at] == producer_id)
        & (decided.lowest_epoch[at] == data_epoch)
        & (decided.highest_epoch[at] == data_epoch)
        & (decided.version[at] >= EPOCH_BUMP)
        & (decided.outcome[at] == rows["outcome"])
        & (decided.marker_epoch[at] == rows["marker_epoch"])
        & (decided.partitions[at] != NOT_KNOWN)
    )
    plain[plain] = _listed(decided, at[plain], ended, plain)
    # A transaction ends once in a partition; what is not plain concerns all of its epoch.
    spoilt = np.bincount(at[single & ~plain], minlength=len(decided.producer_id)) > 0
    if spoilt.any():
        plain &= ~spoilt[at]
    several = np.bincount(at[plain], minlength=len(decided.producer_id)) > 1
    if several.any():
        chosen = np.flatnonzero(plain & several[at])
        pairs = at[chosen].astype(np.int64) * len(ended.places) + ended.numbers[chosen]
        _, numbers, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        twice = np.zeros(len(decided.producer_id), bool)
        twice[at[chosen[counts[numbers] > 1]]] = True
        plain &= ~twice[at]
    for number, count in enumerate(np.bincount(ended.numbers[plain], minlength=len(ended.places)).tolist()):
        if count:
            tallies.outcome[ended.places[number]].held += count
            tallies.epoch[ended.places[number]].held += count
    return ended.where(~plain)


def _listed(decided: GroupDecisions, at: Int32, ended: JoinedEndings, chosen: Bools) -> Bools:
    """Whether the list of the decision names the partition."""
    places = ended.places
    names = [(place.topic, place.partition) for place in places]
    pairs = decided.partitions[at].astype(np.int64) * len(places) + ended.numbers[chosen]

    def is_listed(pair: int) -> bool:
        return pair >= 0 and names[pair % len(places)] in decided.lists[pair // len(places)]

    size = len(decided.lists) * len(places)
    if size > _TABLE:
        distinct, numbers = np.unique(pairs, return_inverse=True)
        return np.array([is_listed(pair) for pair in distinct.tolist()], bool)[numbers]
    table = np.zeros(size + 2 * len(places), bool)  # those of a negative index are at the end, and stay false
    seen = np.zeros_like(table)
    seen[pairs] = True
    for pair in np.flatnonzero(seen[:size]).tolist():
        table[pair] = is_listed(pair)
    found: Bools = table[pairs]
    return found


def _keys(producer_id: Int64, epoch: npt.NDArray[np.signedinteger]) -> Int64:
    """A number for both. Two producer ids that are far apart may share one."""
    found: Int64 = (producer_id << 16) + epoch
    return found


def _matched(keys: Int64, sought: Int64) -> Int32:
    """For each sought key the index of the one that equals it; -1: none does, -2: several do."""
    order = np.argsort(keys, kind="stable").astype(np.int32)
    ordered = keys[order]
    first, behind = np.searchsorted(ordered, sought, "left"), np.searchsorted(ordered, sought, "right")
    one = order[np.minimum(first, len(order) - 1)]
    several = np.where(behind - first > 1, _SEVERAL, one)
    single: Int32 = np.where(behind == first, _ABSENT, several).astype(np.int32, copy=False)
    return single


def _as_bytes(rows: Packed) -> Bytes:
    return np.ascontiguousarray(rows).view(np.uint8)
