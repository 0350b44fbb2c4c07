"""Whether the markers of a transaction are those that its coordinator decided: one_outcome and marker_epoch.

A transaction is one, over all its partitions: its markers have one type, and it is that of its Prepare and Complete
records. What breaks that is lost or half visible data; an abort by hand of a decided transaction does. Markers are
matched by the producer id and the epoch of the data before them, since versions below 2 give many transactions one
epoch; among these the times decide. A pure function over the transactions of one producer id.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from kafkawire.transactions.checks import MARKER_EPOCH, ONE_OUTCOME, Tally
from kafkawire.transactions.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.model import raises_epoch
from kafkawire.transactions.replay import Ended

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NAMES = ("ABORT", "COMMIT")
_OUTCOMES = {name: number for number, name in enumerate(NAMES)}
_FIELDS = 6

#: Clocks of brokers may differ by so much, milliseconds.
CLOCK_SKEW_MS = 5000

_UNKNOWN = "no record of the coordinator's decision was found (compacted, expired or not copied)"
_SEVERAL = "several transactions of that epoch ended about that time, one so and one so"
_NO_LIST = "the Prepare record was compacted, and with it the list of the transaction's partitions"
_NOT_LISTED = "the coordinator's transaction does not list the partition: an abort by hand"


class Ending(msgspec.Struct, frozen=True, order=True, gc=False):
    """A transaction with data in one partition, and its marker.

    Attributes:
        offset: the marker's. `data_epoch`: of the producer's last batch before it. `timestamp`: the marker's, epoch
            milliseconds, the clock of the partition's leader.
        outcome: COMMIT or ABORT.
    """

    place: Place
    offset: int
    producer_id: int
    data_epoch: int
    marker_epoch: int
    outcome: str
    timestamp: int


class Endings:
    """The ended transactions of one replica, packed: there may be millions."""

    __slots__ = ("_values", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._values) // _FIELDS

    def add(self, ended: Ended) -> None:
        """Take the next. One whose marker was compacted to nothing is left out: its outcome is not known."""
        outcome = _OUTCOMES.get(ended.outcome)
        if outcome is not None:
            self._values.extend(
                (ended.producer_id, ended.last_offset, ended.data_epoch, ended.marker_epoch, outcome, ended.timestamp)
            )

    def columns(self) -> npt.NDArray[np.int64]:
        """A row a transaction: producer id, offset, data's epoch, marker's epoch, outcome, timestamp."""
        import numpy as np

        return np.frombuffer(self._values, np.int64).reshape(-1, _FIELDS)


def by_producer(endings: Iterable[Endings]) -> Iterator[tuple[int, list[Ending]]]:
    """The transactions of each producer id, of all partitions."""
    import numpy as np

    packed = [one for one in endings if len(one)]
    if not packed:
        return
    table = np.concatenate([one.columns() for one in packed])
    places = np.repeat(np.arange(len(packed)), [len(one) for one in packed])
    order = np.argsort(table[:, 0], kind="stable")
    bounds = np.flatnonzero(np.diff(table[order, 0])) + 1
    for chosen in np.split(order, bounds):
        rows, numbers = table[chosen].tolist(), places[chosen].tolist()
        yield (
            rows[0][0],
            [
                Ending(packed[number].place, offset, producer_id, epoch, marker_epoch, NAMES[outcome], timestamp)
                for number, (producer_id, offset, epoch, marker_epoch, outcome, timestamp) in zip(
                    numbers, rows, strict=True
                )
            ],
        )


class Tallies:
    """The answers of the two checks, place by place."""

    def __init__(self) -> None:
        self.outcome: dict[Place, Tally] = defaultdict(lambda: Tally(ONE_OUTCOME))
        self.epoch: dict[Place, Tally] = defaultdict(lambda: Tally(MARKER_EPOCH))

    def all(self) -> Iterator[tuple[Place, Tally]]:
        yield from self.outcome.items()
        yield from self.epoch.items()


def judge(
    endings: Iterable[Ending], decisions: Sequence[Decision], tallies: Tallies, *, decided_until: int | None = None
) -> None:
    """Hold the transactions of one producer id against what its coordinator decided.

    Args:
        endings: of that producer id, in all partitions.
        decisions: of that producer id, in the order in which they were decided.
        decided_until: up to this time (epoch milliseconds) no decision is missing; None: some may be.
    """
    by_epoch: dict[int, list[int]] = defaultdict(list)
    for number, decision in enumerate(decisions):
        for epoch in range(decision.lowest_epoch, decision.highest_epoch + 1):
            by_epoch[epoch].append(number)
    orphans: dict[tuple[int, int], list[Ending]] = defaultdict(list)
    for place, of_place in groupby(sorted(endings), key=lambda ending: ending.place):
        past: dict[int, int] = {}  # of each epoch, how many decisions no later marker can be of
        for ending in of_place:
            of_epoch = by_epoch.get(ending.data_epoch, [])
            low = past.get(ending.data_epoch, 0)
            while low < len(of_epoch) and _is_over(decisions[of_epoch[low]], ending):
                low += 1
            possible = _possible(decisions, of_epoch, low, ending)
            if not possible:
                unlisted = any(not _lists(decisions[number], place) for number in of_epoch)
                if unlisted and ending.outcome == "ABORT":
                    _lack(ending, tallies, _NOT_LISTED)
                else:
                    orphans[ending.data_epoch, ending.marker_epoch].append(ending)
            elif _compare(ending, [decisions[of_epoch[at]] for at in possible], tallies) and len(possible) == 1:
                low = possible[0] + 1  # a transaction ends once in a partition
            past[ending.data_epoch] = low
    for group in orphans.values():
        _undecided(group, tallies, decided_until)


def _possible(decisions: Sequence[Decision], of_epoch: list[int], low: int, ending: Ending) -> list[int]:
    """Places in `of_epoch` of the decisions that the marker can be of."""
    found = []
    for at in range(low, len(of_epoch)):
        decision = decisions[of_epoch[at]]
        if not raises_epoch(decision.version) and ending.timestamp < decision.since - CLOCK_SKEW_MS:
            break  # so are those after it
        if _lists(decision, ending.place):
            found.append(at)
    return found


def _is_over(decision: Decision, ending: Ending) -> bool:
    """Whether all markers of the transaction were written before this one. From version 2 on no other transaction has
    its epoch, so that times need not be asked."""
    if raises_epoch(decision.version) or decision.until is None:
        return False
    return decision.until + CLOCK_SKEW_MS < ending.timestamp


def _lists(decision: Decision, place: Place) -> bool:
    return decision.partitions is None or (place.topic, place.partition) in decision.partitions


def _is_during(decision: Decision, ending: Ending) -> bool:
    """Whether the marker was written between Prepare and Complete, if clocks do not differ."""
    return decision.since <= ending.timestamp and (decision.until is None or ending.timestamp <= decision.until)


def _compare(ending: Ending, decisions: list[Decision], tallies: Tallies) -> bool:
    """Returns whether it could be compared."""
    outcome, epoch = tallies.outcome[ending.place], tallies.epoch[ending.place]
    agreeing = [decision for decision in decisions if decision.outcome == ending.outcome]
    if agreeing and len(agreeing) < len(decisions):
        exact = [decision for decision in decisions if _is_during(decision, ending)]
        if len(exact) == 1 and exact[0].outcome == ending.outcome:
            return _compare(ending, exact, tallies)
        _lack(ending, tallies, _SEVERAL)
        return False
    decision = decisions[0]
    by_hand = ending.outcome == "ABORT" and ending.marker_epoch == ending.data_epoch
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
    if by_hand or any(ending.marker_epoch == other.marker_epoch for other in decisions):
        epoch.held += 1
    elif ending.marker_epoch >= ending.data_epoch:  # below it, epoch_not_backwards says so
        what = (
            f"a marker of epoch {ending.marker_epoch} for data of epoch {ending.data_epoch}; its coordinator prepared "
            f"epoch {decision.marker_epoch} at transaction version {decision.version}"
        )
        epoch.breach(ending.offset, ending.producer_id, what, transactional_id=decision.transactional_id)
    return True


def _undecided(group: list[Ending], tallies: Tallies, decided_until: int | None) -> None:
    """Markers of one pair of epochs, and no decision. Where the marker raised the epoch they are of one transaction:
    they can be compared with each other."""
    first = group[0]
    outcomes = {ending.outcome for ending in group}
    for ending in group:
        tallies.epoch[ending.place].lack(_UNKNOWN)
        tally = tallies.outcome[ending.place]
        if ending.outcome == "COMMIT" and decided_until is not None and ending.timestamp < decided_until:
            what = f"COMMIT of a transaction of epoch {ending.data_epoch}, and no coordinator decided it"
            tally.breach(ending.offset, ending.producer_id, what)
        elif first.marker_epoch <= first.data_epoch:
            tally.lack(_UNKNOWN)
        elif len(outcomes) > 1:
            if ending.outcome == "ABORT":
                other = next(other for other in group if other.outcome == "COMMIT")
                what = (
                    f"ABORT of a transaction of epoch {ending.data_epoch} that was committed in {other.place} "
                    f"(offset {other.offset})"
                )
                tally.breach(ending.offset, ending.producer_id, what)
            else:
                tally.lack("the same transaction was aborted elsewhere")
        elif len({ending.place for ending in group}) > 1:
            tally.held += 1
        else:
            tally.lack(_UNKNOWN)


def _lack(ending: Ending, tallies: Tallies, why: str) -> None:
    tallies.outcome[ending.place].lack(why)
    tallies.epoch[ending.place].lack(why)
