"""The decisions that a marker can be of: those about data of its epoch, in its partition, at its time.

Decisions are taken in the order in which they begin, and markers in the order of time; what is over is forgotten, so
that of an epoch only what lies within the difference of clocks is in memory.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from kafkawire.transactions.coordinator.coordinator_rules import raises_epoch
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import Ending

#: Milliseconds by which the clocks of brokers may differ.
CLOCK_SKEW_MS = 5000

#: Decisions whose times are compared with a marker's one by one.
_MOST_LOOKED_AT = 100
#: Decisions that are over are removed when there are as many of them.
_OVER = 64


def epochs(decision: Decision) -> list[int]:
    """The epochs in which a decision is looked for: those that its data may have, and that of its markers where these
    raise it."""
    own = range(decision.lowest_epoch, decision.highest_epoch + 1)
    raised = raises_epoch(decision.version) and decision.marker_epoch not in own
    return [*own, decision.marker_epoch] if raised else list(own)


def begins(decision: Decision) -> float:
    """The time from which on (epoch milliseconds) a marker can be of a decision. From version 2 on no other transaction
    has the epoch of one: its time is not needed."""
    return -math.inf if raises_epoch(decision.version) else decision.since - CLOCK_SKEW_MS


def _is_over(decision: Decision, time: float) -> bool:
    """Whether all markers of the transaction were written before that time."""
    return _until(decision) + CLOCK_SKEW_MS < time


def _is_timed(decision: Decision) -> bool:
    """Whether its time matters, so that it can be over."""
    return decision.until is not None and not raises_epoch(decision.version)


def _until(decision: Decision) -> float:
    return math.inf if decision.until is None else decision.until


def is_during(decision: Decision, ending: Ending) -> bool:
    """Whether the marker was written between Prepare and Complete, if clocks do not differ."""
    return decision.since <= ending.timestamp <= _until(decision)


class Decisions:
    """The decisions about data of one epoch of a producer id. `count`: how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._everywhere = 0  # of how many the partitions are not known
        # By outcome and partition how many there are, those whose partitions are not known under None; and by place
        # how many markers agree with one of their time.
        self._decided: Counter[tuple[str, tuple[str, int] | None]] = Counter()
        self._agreed: Counter[tuple[str, Place]] = Counter()
        self._listing: Counter[tuple[str, int]] = Counter()
        self._now = Candidates()
        self._by_partition: dict[tuple[str, int], Candidates] = {}

    def take(self, decision: Decision) -> None:
        """Take the next that begins."""
        self.count += 1
        self._now.add(decision)
        listed: Iterable[tuple[str, int] | None] = [None] if decision.partitions is None else decision.partitions
        self._decided.update((decision.outcome, key) for key in listed)
        if decision.partitions is None:
            self._everywhere += 1
            for candidates in self._by_partition.values():
                candidates.add(decision)
        else:
            self._listing.update(decision.partitions)
            for partition in decision.partitions & self._by_partition.keys():
                self._by_partition[partition].add(decision)

    def candidates(self, ending: Ending) -> Candidates:
        """The decisions that a marker can be of."""
        partition = ending.place.topic, ending.place.partition
        found = self._by_partition.get(partition)
        if found is None:
            found = self._by_partition[partition] = Candidates()
            for decision in self._now:
                if decision.partitions is None or partition in decision.partitions:
                    found.add(decision)
        found.forget(ending.timestamp)
        return found

    def found(self, ending: Ending, candidates: Candidates) -> None:
        """Note a marker whose outcome one of them decided at its time."""
        self._agreed[ending.outcome, ending.place] += candidates.agreeing(ending) > 0

    def spare(self, outcome: str, place: Place) -> int:
        """How many decided an outcome, at any time, for which no such marker was found in a partition."""
        decided = self._decided[outcome, (place.topic, place.partition)] + self._decided[outcome, None]
        return max(0, decided - self._agreed[outcome, place])

    def may_have(self, place: Place) -> bool:
        """Whether every transaction may have been in a partition."""
        return self._everywhere + self._listing[place.topic, place.partition] == self.count


class Candidates:
    """The decisions that a marker in one partition can be of: they have begun, and are not over.

    Each question costs a bisection, not a walk: an id that ends many transactions a second has hundreds within the
    difference of clocks. Decisions are taken in the order in which they begin; they end in that order, but for a clock
    that was set back. So `_until` is the greatest up to a decision.
    """

    __slots__ = (
        "_commits", "_last_of", "_lasting", "_lasting_commits", "_lasting_epochs", "_removed", "_since", "_start",
        "_timed", "_unlisted", "_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self._lasting: list[Decision] = []  # never over; of their markers, how many commit, and the epochs
        self._lasting_commits = 0
        self._lasting_epochs: set[int] = set()
        self._timed: list[Decision] = []
        self._start = self._removed = 0
        self._since: list[int] = []
        self._until: list[float] = []
        self._commits = [0]  # among the timed ones before each
        self._unlisted = [0]  # among the timed ones before each, those whose partitions are not known
        self._last_of: dict[int, int] = {}  # by the epoch of its markers, the number of the last timed one

    def __len__(self) -> int:
        return len(self._lasting) + len(self._timed) - self._start

    def __iter__(self) -> Iterator[Decision]:
        return chain(self._lasting, self._timed[self._start :])

    @property
    def first(self) -> Decision:
        return self._lasting[0] if self._lasting else self._timed[self._start]

    def add(self, decision: Decision) -> None:
        """Take the next that begins."""
        if not _is_timed(decision):
            self._lasting.append(decision)
            self._lasting_commits += decision.outcome == "COMMIT"
            self._lasting_epochs.add(decision.marker_epoch)
            return
        self.forget(begins(decision))
        self._last_of[decision.marker_epoch] = self._removed + len(self._timed)
        self._timed.append(decision)
        self._since.append(decision.since)
        self._until.append(max(_until(decision), self._until[-1] if self._until else -math.inf))
        self._commits.append(self._commits[-1] + (decision.outcome == "COMMIT"))
        self._unlisted.append(self._unlisted[-1] + (decision.partitions is None))

    def forget(self, time: float) -> None:
        """Remove those that are over. `time`: ascends."""
        while self._start < len(self._timed) and _is_over(self._timed[self._start], time):
            self._start += 1
        if self._start >= _OVER and 2 * self._start > len(self._timed):
            for values in (self._timed, self._since, self._until, self._commits, self._unlisted):
                del values[: self._start]
            self._removed += self._start
            self._start = 0

    def clear(self) -> None:
        """Remove all."""
        self._lasting.clear()
        self._lasting_epochs.clear()
        self._lasting_commits = 0
        self._start = len(self._timed)

    def agreeing(self, ending: Ending) -> int:
        """How many decided the outcome that the marker has."""
        commits = self._lasting_commits + self._commits[-1] - self._commits[self._start]
        return commits if ending.outcome == "COMMIT" else len(self) - commits

    @property
    def unlisted(self) -> bool:
        """Whether the partitions of one of them are not known."""
        timed = self._unlisted[-1] - self._unlisted[self._start]
        return timed > 0 or any(one.partitions is None for one in self._lasting)

    def during(self, ending: Ending) -> Decision | None:
        """The one decision between whose Prepare and Complete the marker was written, if clocks do not differ; None
        where there are none or several, or too many to look at."""
        start, stop = self._about(ending)
        if max(stop - start, 0) + len(self._lasting) > _MOST_LOOKED_AT:
            return None
        found = [one for one in chain(self._lasting, self._timed[start:stop]) if is_during(one, ending)]
        return found[0] if len(found) == 1 else None

    def _about(self, ending: Ending) -> tuple[int, int]:
        """The first of the timed decisions that can have been made at the time of a marker, and the one after the
        last."""
        return max(self._start, bisect_left(self._until, ending.timestamp)), bisect_right(self._since, ending.timestamp)

    @property
    def any_raised(self) -> bool:
        """Whether one of them has the epoch for itself: no time is needed to know that the marker is of it."""
        return any(raises_epoch(one.version) for one in self._lasting)

    def permit_others(self, ending: Ending, decided_until: int | None) -> bool:
        """Whether the marker may be of another decision about that epoch, one that was not read: the records of the
        coordinator end before it, none of these has the epoch for itself, and none was being carried out then.
        `decided_until`: as for `judge`."""
        if decided_until is not None and ending.timestamp + CLOCK_SKEW_MS < decided_until:
            return False
        if self.any_raised:
            return False
        # Of a Prepare record without a Complete record, the latter may be among what was not read.
        read = decided_until is not None and ending.timestamp < decided_until
        start, stop = self._about(ending)
        return not any(
            is_during(one, ending) and (read or one.until is not None)
            for one in chain(self._lasting, self._timed[start:stop])
        )

    def names_marker_epoch(self, epoch: int) -> bool:
        """Whether the markers of one of them carry that epoch."""
        return epoch in self._lasting_epochs or self._last_of.get(epoch, -1) >= self._removed + self._start
