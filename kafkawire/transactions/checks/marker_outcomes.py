"""Whether the markers of a transaction are those that its coordinator decided: one_outcome and marker_epoch.

A transaction is one, over all its partitions: its markers have one type, and it is that of its Prepare and Complete
records. What breaks that is lost or half visible data; an abort by hand of a decided transaction does. Markers are
matched by the producer id and the epoch of the data before them, since versions below 2 give many transactions one
epoch; among these the times decide (`timed_decisions`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from kafkawire.transactions import answers
from kafkawire.transactions.checks import timed_decisions as timed
from kafkawire.transactions.coordinator.coordinator_rules import raises_epoch
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import Ending

#: Why nothing is known of a transaction without a decision.
UNKNOWN = "no record of the coordinator's decision was found (compacted, expired or not copied)"
_SEVERAL = "several transactions of that epoch ended about that time, with different outcomes"
_LATER = "the records of the coordinator end before the marker: it may be of a later decision"
_OTHER_TIME = "the coordinator decided it at another time: the clocks of its broker and of the marker's differ"
_NO_LIST = "the Prepare record was compacted, and with it the list of the transaction's partitions"
_NOT_LISTED = "the coordinator's transaction does not list the partition: an abort by hand"


class Tallies:
    """The answers of the two checks, place by place; and of those of producer ids and transactional ids that are judged
    beside them (`cross_partition`)."""

    def __init__(self) -> None:
        self.outcome: dict[Place, answers.Tally] = defaultdict(lambda: answers.Tally(answers.ONE_OUTCOME))
        self.epoch: dict[Place, answers.Tally] = defaultdict(lambda: answers.Tally(answers.MARKER_EPOCH))
        self.owner: dict[Place, answers.Tally] = defaultdict(lambda: answers.Tally(answers.PRODUCER_ID_UNIQUE))
        self.home: dict[Place, answers.Tally] = defaultdict(lambda: answers.Tally(answers.ID_IN_ITS_PARTITION))

    def all(self) -> Iterator[tuple[Place, answers.Tally]]:
        for tallies in (self.outcome, self.epoch, self.owner, self.home):
            yield from tallies.items()

    def lack(self, place: Place, why: str, count: int = 1) -> None:
        """Neither of the two checks can be made. `place`: of the markers. `why`: the reason. `count`: number of
        transactions."""
        self.outcome[place].lack(why, count)
        self.epoch[place].lack(why, count)


def judge(
    endings: Iterable[Ending], decisions: Iterable[Decision], tallies: Tallies, *, decided_until: int | None = None
) -> None:
    """Compare the transactions of one producer id with the decisions of its coordinator.

    Args:
        endings: of that producer id, in all partitions.
        decisions: of that producer id, in the order in which they were decided.
        decided_until: up to this time (epoch milliseconds) no decision is missing; None: some may be.
    """
    decided = [
        ((epoch, timed.begins(decision), 0, number), decision)
        for number, decision in enumerate(decisions)
        for epoch in timed.epochs(decision)
    ]
    ended = [
        ((ending.data_epoch, ending.timestamp, 1, number), ending) for number, ending in enumerate(sorted(endings))
    ]
    listed: list[tuple[tuple[int, float, int, int], Decision | Ending]] = sorted([*decided, *ended], key=itemgetter(0))
    for epoch, of_epoch in groupby(listed, key=lambda one: one[0][0]):
        judge_epoch(epoch, (one for _, one in of_epoch), tallies, decided_until=decided_until)


def judge_epoch(
    epoch: int, listed: Iterable[Decision | Ending], tallies: Tallies, *, decided_until: int | None = None
) -> None:
    """Compare the transactions of one producer id with data of one epoch with the decisions that have it (`epochs`).

    Args:
        listed: in the order of time, which is that of a marker, and of a decision when it `begins`. At equal times
            decisions come first.
        decided_until: as for `judge`.
    """
    decided = timed.Decisions()
    orphans = _Orphans(tallies, decided_until)
    for one in listed:
        if isinstance(one, Decision):
            if one.lowest_epoch <= epoch <= one.highest_epoch:
                decided.take(one)
            else:
                orphans.later.append(one)
            continue
        candidates = decided.candidates(one)
        if candidates:
            decided.found(one, candidates)
            if _compare(one, candidates, tallies, decided_until, orphans) and len(candidates) == 1:
                candidates.clear()  # a transaction ends once in a partition
        else:
            orphans.take(one)
    orphans.judge(decided)


def _compare(
    ending: Ending, candidates: timed.Candidates, tallies: Tallies, decided_until: int | None, orphans: _Orphans
) -> bool:
    """Returns whether it could be compared. `decided_until`: as for `judge`. A marker at a later time may be of a
    decision that is not there."""
    outcome, epoch = tallies.outcome[ending.place], tallies.epoch[ending.place]
    agreeing, decision, count = candidates.agreeing(ending), candidates.first, len(candidates)
    names_epoch = candidates.names_marker_epoch(ending.marker_epoch)
    if 0 < agreeing < count:
        exact = candidates.during(ending)
        if exact is None or exact.outcome != ending.outcome:
            tallies.lack(ending.place, _SEVERAL)
            return False
        decision, names_epoch, count = exact, exact.marker_epoch == ending.marker_epoch, 1
    alone = bool(agreeing) and count == 1 and decision.partitions is not None
    own = alone and raises_epoch(decision.version) and timed.is_during(decision, ending)
    by_hand = ending.outcome == "ABORT" and ending.marker_epoch == ending.data_epoch and not own
    named = by_hand or names_epoch
    other_epoch = None
    if not named and ending.marker_epoch >= ending.data_epoch:  # below it, epoch_not_backwards is violated
        other_epoch = (
            f"a marker of epoch {ending.marker_epoch} for data of epoch {ending.data_epoch}; its coordinator prepared "
            f"epoch {decision.marker_epoch} at transaction version {decision.version}"
        )
    if agreeing:
        outcome.held += 1
    elif by_hand and candidates.unlisted:
        tallies.lack(ending.place, _NO_LIST)
        return False
    elif candidates.permit_others(ending, decided_until):
        tallies.lack(ending.place, _LATER)
        return False
    else:
        what = (
            f"{ending.outcome} of a transaction of epoch {ending.data_epoch}, and its coordinator decided "
            f"{decision.outcome} ({decision.place}, offset {decision.offset})"
        )
        if not candidates.any_raised:
            orphans.take_untimed(_Untimed(ending, what, decision, other_epoch))
            other_epoch = None
        else:
            outcome.breach(ending.offset, ending.producer_id, what, transactional_id=decision.transactional_id)
    if named:
        epoch.held += 1
    elif other_epoch is not None:
        epoch.breach(ending.offset, ending.producer_id, other_epoch, transactional_id=decision.transactional_id)
    return True


class _Untimed(NamedTuple):
    """A marker at a time of which no decision is missing, and none has its outcome.

    Attributes:
        what: what is wrong. `decision`: at that time; None: none is.
        other_epoch: what is wrong with the marker's epoch by that decision; None: nothing.
    """

    ending: Ending
    what: str
    decision: Decision | None = None
    other_epoch: str | None = None


class _Orphans:
    """Markers after data of one epoch that no decision was found for. Those that raised the epoch are of one
    transaction: they can be compared with each other. Of the others there may be any number. `later`: decisions whose
    markers carry that epoch, above that of their data."""

    def __init__(self, tallies: Tallies, decided_until: int | None) -> None:
        self.later: list[Decision] = []
        self._tallies = tallies
        self._decided_until = decided_until
        self._raised: dict[int, list[Ending]] = defaultdict(list)
        self._aborted: Counter[Place] = Counter()
        self._untimed: dict[tuple[str, Place], list[_Untimed]] = defaultdict(list)
        self._count: Counter[tuple[str, Place]] = Counter()

    def take(self, ending: Ending) -> None:
        if ending.marker_epoch > ending.data_epoch:
            self._raised[ending.marker_epoch].append(ending)
        elif (own := self._own_of_later_epoch(ending)) is not None:
            what = (
                f"a marker of epoch {ending.marker_epoch} for data of epoch {ending.data_epoch}; its coordinator "
                f"prepared it for data of epoch {own.highest_epoch} at transaction version {own.version}"
            )
            self._tallies.epoch[ending.place].breach(
                ending.offset, ending.producer_id, what, transactional_id=own.transactional_id
            )
            self._tallies.outcome[ending.place].lack(UNKNOWN)
        elif ending.outcome == "ABORT":
            self._aborted[ending.place] += 1
        elif not self._is_read(ending):
            self._tallies.lack(ending.place, UNKNOWN)
        else:
            self.take_untimed(_Untimed(ending, _not_decided(ending)))

    def take_untimed(self, untimed: _Untimed) -> None:
        """Take a marker with which no decision of its time agrees."""
        key = untimed.ending.outcome, untimed.ending.place
        self._count[key] += 1
        if len(self._untimed[key]) < answers.MAX_BREACHES:
            self._untimed[key].append(untimed)

    def judge(self, decided: timed.Decisions) -> None:
        """Judge what needs all decisions."""
        for place, count in self._aborted.items():
            self._tallies.lack(place, UNKNOWN if decided.may_have(place) else _NOT_LISTED, count)
        for key, untimed in self._untimed.items():
            self._judge_untimed(untimed, self._count[key], decided.spare(*key))
        for group in self._raised.values():
            others = []
            for ending in group:
                if ending.outcome == "ABORT" and not decided.may_have(ending.place):
                    self._tallies.lack(ending.place, _NOT_LISTED)
                else:
                    others.append(ending)
            self._compare(others)

    def _compare(self, group: list[Ending]) -> None:
        """Markers of one transaction."""
        committed = min((ending for ending in group if ending.outcome == "COMMIT"), default=None)
        aborted = any(ending.outcome == "ABORT" for ending in group)
        several = len({ending.place for ending in group}) > 1
        for ending in group:
            if self._is_decided_by_none(ending):
                continue
            self._tallies.epoch[ending.place].lack(UNKNOWN)
            tally = self._tallies.outcome[ending.place]
            if committed is not None and aborted:
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
                tally.lack(UNKNOWN)

    def _judge_untimed(self, untimed: list[_Untimed], count: int, spare: int) -> None:
        """Decisions at other times may be those of markers, where clocks differ by more: as many as no other marker was
        found for. `untimed`: the first of them, of one outcome in one partition. `count`: of all. `spare`: of these
        decisions."""
        place = untimed[0].ending.place
        outcome, epoch = self._tallies.outcome[place], self._tallies.epoch[place]
        for number in range(count):
            ending, what, decision, other_epoch = untimed[min(number, len(untimed) - 1)]
            who = None if decision is None else decision.transactional_id
            if decision is None:
                epoch.lack(UNKNOWN)
            if number < spare:
                outcome.lack(_OTHER_TIME)
                epoch.lack(_OTHER_TIME, 0 if other_epoch is None else 1)
                continue
            outcome.breach(ending.offset, ending.producer_id, what, transactional_id=who)
            if other_epoch is not None:
                epoch.breach(ending.offset, ending.producer_id, other_epoch, transactional_id=who)

    def _is_read(self, ending: Ending) -> bool:
        """Whether its decision would be among those that were read, by any broker's clock."""
        return self._decided_until is not None and ending.timestamp + timed.CLOCK_SKEW_MS < self._decided_until

    def _is_decided_by_none(self, ending: Ending) -> bool:
        """Whether it is a COMMIT at a time of which no decision is missing."""
        if ending.outcome != "COMMIT" or not self._is_read(ending):
            return False
        self._tallies.epoch[ending.place].lack(UNKNOWN)
        self._tallies.outcome[ending.place].breach(ending.offset, ending.producer_id, _not_decided(ending))
        return True

    def _own_of_later_epoch(self, ending: Ending) -> Decision | None:
        """The decision whose marker this is, though the data before it has the marker's epoch: from version 2 on it has
        a lower one."""
        if ending.marker_epoch != ending.data_epoch:
            return None
        where = ending.place.topic, ending.place.partition
        for decision in self.later:
            listed = decision.partitions is not None and where in decision.partitions
            if listed and decision.outcome == ending.outcome and timed.is_during(decision, ending):
                return decision
        return None


def _not_decided(ending: Ending) -> str:
    return f"COMMIT of a transaction of epoch {ending.data_epoch}, and no coordinator decided it"
