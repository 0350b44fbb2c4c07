"""Whether the markers of a transaction are those that its coordinator decided: one_outcome and marker_epoch.

A transaction is one, over all its partitions: its markers have one type, and it is that of its Prepare and Complete
records. What breaks that is lost or half visible data; an abort by hand of a decided transaction does. Markers are
matched by the producer id and the epoch of the data before them, since versions below 2 give many transactions one
epoch; among these the times decide. A pure function over the transactions of one producer id.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, groupby

from kafkawire.transactions.answers import ID_IN_ITS_PARTITION, MARKER_EPOCH, ONE_OUTCOME, PRODUCER_ID_UNIQUE, Tally
from kafkawire.transactions.coordinator_rules import raises_epoch
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.endings import Ending
from kafkawire.transactions.facts import Place

#: Milliseconds by which the clocks of brokers may differ.
CLOCK_SKEW_MS = 5000

#: Decisions whose times are compared with a marker's one by one.
_MOST_LOOKED_AT = 100

_UNKNOWN = "no record of the coordinator's decision was found (compacted, expired or not copied)"
_SEVERAL = "several transactions of that epoch ended about that time, with different outcomes"
_NO_LIST = "the Prepare record was compacted, and with it the list of the transaction's partitions"
_NOT_LISTED = "the coordinator's transaction does not list the partition: an abort by hand"


class Tallies:
    """The answers of the two checks, place by place; and of those of producer ids and transactional ids that are judged
    beside them (`cross_partition`)."""

    def __init__(self) -> None:
        self.outcome: dict[Place, Tally] = defaultdict(lambda: Tally(ONE_OUTCOME))
        self.epoch: dict[Place, Tally] = defaultdict(lambda: Tally(MARKER_EPOCH))
        self.owner: dict[Place, Tally] = defaultdict(lambda: Tally(PRODUCER_ID_UNIQUE))
        self.home: dict[Place, Tally] = defaultdict(lambda: Tally(ID_IN_ITS_PARTITION))

    def all(self) -> Iterator[tuple[Place, Tally]]:
        for tallies in (self.outcome, self.epoch, self.owner, self.home):
            yield from tallies.items()


def judge(
    endings: Iterable[Ending], decisions: Sequence[Decision], tallies: Tallies, *, decided_until: int | None = None
) -> None:
    """Compare the transactions of one producer id with the decisions of its coordinator.

    Args:
        endings: of that producer id, in all partitions.
        decisions: of that producer id, in the order in which they were decided.
        decided_until: up to this time (epoch milliseconds) no decision is missing; None: some may be.
    """
    endings = sorted(endings)
    decided = _DecisionIndex(decisions, {(ending.place.topic, ending.place.partition) for ending in endings})
    orphans: dict[tuple[int, int], list[Ending]] = defaultdict(list)
    for place, of_place in groupby(endings, key=lambda ending: ending.place):
        past: dict[int, int] = {}  # of each epoch, how many candidates no later marker can be of
        for ending in of_place:
            candidates = decided.candidates(ending.data_epoch, place)
            window = candidates.window(ending, past.get(ending.data_epoch, 0))
            past[ending.data_epoch] = window.start
            if window:
                if _compare(ending, candidates, window, tallies) and len(window) == 1:
                    past[ending.data_epoch] = window.stop  # a transaction ends once in a partition
            elif ending.outcome == "ABORT" and len(candidates.decisions) < decided.of_epoch[ending.data_epoch]:
                _lack(ending, tallies, _NOT_LISTED)
            else:
                orphans[ending.data_epoch, ending.marker_epoch].append(ending)
    raised: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions if orphans else ():
        if raises_epoch(decision.version):
            raised[decision.marker_epoch].append(decision)
    for group in orphans.values():
        _undecided(group, raised[group[0].marker_epoch], tallies, decided_until)


class _DecisionIndex:
    """The decisions of one producer id, by epoch and partition.

    Attributes:
        of_epoch: how many there are about data of an epoch.
    """

    def __init__(self, decisions: Sequence[Decision], partitions: Set[tuple[str, int]]) -> None:
        self.of_epoch: Counter[int] = Counter()
        self._decisions = decisions
        self._listing: dict[tuple[int, tuple[str, int]], list[int]] = defaultdict(list)
        self._listing_none: dict[int, list[int]] = defaultdict(list)  # these may be in any partition
        self._candidates: dict[tuple[int, tuple[str, int] | None], _Candidates] = {}
        for number, decision in enumerate(decisions):
            for epoch in range(decision.lowest_epoch, decision.highest_epoch + 1):
                self.of_epoch[epoch] += 1
                if decision.partitions is None:
                    self._listing_none[epoch].append(number)
                else:
                    for partition in decision.partitions & partitions:
                        self._listing[epoch, partition].append(number)

    def candidates(self, epoch: int, place: Place) -> _Candidates:
        """The decisions about data of an epoch in a partition."""
        partition = place.topic, place.partition
        listing = self._listing.get((epoch, partition), [])
        key = epoch, partition if listing else None
        if key not in self._candidates:
            numbers = sorted([*listing, *self._listing_none.get(epoch, [])])
            if not numbers:
                return _NO_CANDIDATES
            self._candidates[key] = _Candidates([self._decisions[number] for number in numbers])
        return self._candidates[key]


class _Candidates:
    """The decisions about data of one epoch in one partition, in order: which of them a marker can be of.

    Each question costs a bisection, not a walk: an id that ends many transactions a second has hundreds within the
    difference of clocks. Times ascend in the log of a coordinator, but for a clock that was set back. So `_earliest`
    (of the decisions in `_timed`) and `_since` are the least from a decision on, and `_until` the greatest up to it.
    """

    def __init__(self, decisions: list[Decision]) -> None:
        self.decisions = decisions
        # From version 2 on no other transaction has the epoch of one: its time is not needed.
        self._timed = [at for at, decision in enumerate(decisions) if not raises_epoch(decision.version)]
        self._earliest = _least_from_each_on(decisions[at].since - CLOCK_SKEW_MS for at in self._timed)
        self._since = _least_from_each_on(decision.since for decision in decisions)
        self._until = list(accumulate((_until(decision) for decision in decisions), max))
        self._commits = list(accumulate((decision.outcome == "COMMIT" for decision in decisions), initial=0))
        self._by_marker_epoch: dict[int, list[int]] = defaultdict(list)
        for at, decision in enumerate(decisions):
            self._by_marker_epoch[decision.marker_epoch].append(at)

    def window(self, ending: Ending, start: int) -> range:
        """Which decisions the marker can be of, of those from `start` on; it begins behind those that are over."""
        while start < len(self.decisions) and _is_over(self.decisions[start], ending):
            start += 1
        ahead = max(bisect_right(self._earliest, ending.timestamp), bisect_left(self._timed, start))
        return range(start, self._timed[ahead] if ahead < len(self._timed) else len(self.decisions))

    def agreeing(self, ending: Ending, window: range) -> int:
        """How many decided the outcome that the marker has."""
        commits = self._commits[window.stop] - self._commits[window.start]
        return commits if ending.outcome == "COMMIT" else len(window) - commits

    def during(self, ending: Ending, window: range) -> range | None:
        """The one decision between whose Prepare and Complete the marker was written, if clocks do not differ; None
        where there are none or several, or where times that go back leave too many to look at."""
        start = max(window.start, bisect_left(self._until, ending.timestamp))
        stop = min(window.stop, bisect_right(self._since, ending.timestamp))
        if stop - start > _MOST_LOOKED_AT:
            return None
        found = [at for at in range(start, stop) if _is_during(self.decisions[at], ending)]
        return range(found[0], found[0] + 1) if len(found) == 1 else None

    def names_marker_epoch(self, epoch: int, window: range) -> bool:
        """Whether the markers of one of them carry that epoch."""
        found = self._by_marker_epoch.get(epoch, [])
        at = bisect_left(found, window.start)
        return at < len(found) and found[at] < window.stop


def _least_from_each_on(times: Iterable[float]) -> list[float]:
    return list(accumulate(reversed(list(times)), min))[::-1]


_NO_CANDIDATES = _Candidates([])


def _until(decision: Decision) -> float:
    return math.inf if decision.until is None else decision.until


def _is_over(decision: Decision, ending: Ending) -> bool:
    """Whether all markers of the transaction were written before this one. From version 2 on no other transaction has
    its epoch, so that times are not needed."""
    return not raises_epoch(decision.version) and _until(decision) + CLOCK_SKEW_MS < ending.timestamp


def _is_during(decision: Decision, ending: Ending) -> bool:
    """Whether the marker was written between Prepare and Complete, if clocks do not differ."""
    return decision.since <= ending.timestamp <= _until(decision)


def _compare(ending: Ending, candidates: _Candidates, window: range, tallies: Tallies) -> bool:
    """Returns whether it could be compared."""
    outcome, epoch = tallies.outcome[ending.place], tallies.epoch[ending.place]
    agreeing = candidates.agreeing(ending, window)
    if 0 < agreeing < len(window):
        exact = candidates.during(ending, window)
        if exact is not None and candidates.agreeing(ending, exact):
            return _compare(ending, candidates, exact, tallies)
        _lack(ending, tallies, _SEVERAL)
        return False
    decision = candidates.decisions[window.start]
    alone = bool(agreeing) and len(window) == 1 and decision.partitions is not None
    own = alone and raises_epoch(decision.version) and _is_during(decision, ending)
    by_hand = ending.outcome == "ABORT" and ending.marker_epoch == ending.data_epoch and not own
    if agreeing:
        outcome.held += 1
    elif by_hand and decision.partitions is None:
        _lack(ending, tallies, _NO_LIST)
        return False
    else:
        what = (
            f"{ending.outcome} of a transaction of epoch {ending.data_epoch}, and its coordinator decided "
            f"{decision.outcome} ({decision.place}, offset {decision.offset})"
        )
        outcome.breach(ending.offset, ending.producer_id, what, transactional_id=decision.transactional_id)
    if by_hand or candidates.names_marker_epoch(ending.marker_epoch, window):
        epoch.held += 1
    elif ending.marker_epoch >= ending.data_epoch:  # below it, epoch_not_backwards is violated
        what = (
            f"a marker of epoch {ending.marker_epoch} for data of epoch {ending.data_epoch}; its coordinator prepared "
            f"epoch {decision.marker_epoch} at transaction version {decision.version}"
        )
        epoch.breach(ending.offset, ending.producer_id, what, transactional_id=decision.transactional_id)
    return True


def _undecided(group: list[Ending], raised: Sequence[Decision], tallies: Tallies, decided_until: int | None) -> None:
    """Markers of one pair of epochs, and no decision. Where the marker raised the epoch they are of one transaction:
    they can be compared with each other. `raised`: decisions whose markers carry that epoch, above that of the data."""
    first = group[0]
    committed = next((ending for ending in group if ending.outcome == "COMMIT"), None)
    aborted = any(ending.outcome == "ABORT" for ending in group)
    several = any(ending.place != first.place for ending in group)
    for ending in group:
        own = _own_of_later_epoch(ending, raised)
        if own is not None:
            what = (
                f"a marker of epoch {ending.marker_epoch} for data of epoch {ending.data_epoch}; its coordinator "
                f"prepared it for data of epoch {own.highest_epoch} at transaction version {own.version}"
            )
            tallies.epoch[ending.place].breach(
                ending.offset, ending.producer_id, what, transactional_id=own.transactional_id
            )
            tallies.outcome[ending.place].lack(_UNKNOWN)
            continue
        tallies.epoch[ending.place].lack(_UNKNOWN)
        tally = tallies.outcome[ending.place]
        if ending.outcome == "COMMIT" and decided_until is not None and ending.timestamp < decided_until:
            what = f"COMMIT of a transaction of epoch {ending.data_epoch}, and no coordinator decided it"
            tally.breach(ending.offset, ending.producer_id, what)
        elif first.marker_epoch <= first.data_epoch:
            tally.lack(_UNKNOWN)
        elif committed is not None and aborted:
            if ending.outcome == "ABORT":
                what = (
                    f"ABORT of a transaction of epoch {ending.data_epoch} that was committed in {committed.place} "
                    f"(offset {committed.offset})"
                )
                tally.breach(ending.offset, ending.producer_id, what)
            else:
                tally.lack("the same transaction was aborted elsewhere")
        elif several:
            tally.held += 1
        else:
            tally.lack(_UNKNOWN)


def _own_of_later_epoch(ending: Ending, decisions: Iterable[Decision]) -> Decision | None:
    """The decision whose marker this is, though the data before it has the marker's epoch: from version 2 on it has a
    lower one."""
    if ending.marker_epoch != ending.data_epoch:
        return None
    where = ending.place.topic, ending.place.partition
    for decision in decisions:
        listed = decision.partitions is not None and where in decision.partitions
        if listed and decision.outcome == ending.outcome and _is_during(decision, ending):
            return decision
    return None


def _lack(ending: Ending, tallies: Tallies, why: str) -> None:
    tallies.outcome[ending.place].lack(why)
    tallies.epoch[ending.place].lack(why)
