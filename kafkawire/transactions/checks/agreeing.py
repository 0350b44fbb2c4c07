"""Ended transactions that certainly agree with the decision of their coordinator, judged as columns. From transaction
version 2 on these are nearly all: no two transactions share an epoch, so no times are compared. The rest is left to
`marker_outcomes`, which judges all of them where the native engine is absent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bytes, Int64
from kafkawire.records.distinct import distinct
from kafkawire.transactions.checks.marker_outcomes import Tallies
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.log.endings import Each, Endings
from kafkawire.transactions.log.spill import Packed
from kafkawire.wire.backend import native


class JoinedDecisions:
    """The decisions of all partitions of `__transaction_state`."""

    def __init__(self, decided: Sequence[Decided]) -> None:
        self._decided = [one for one in decided if len(one)]
        self._lists = [partitions for one in self._decided for partitions in one.lists]

    def settle(self, ended: Sequence[Endings], tallies: Tallies, each: Each, shares: int) -> Sequence[Endings]:
        """Count the transactions whose data, outcome, partition and epoch of the marker are those of the one decision
        about the epoch of their data. Returns all others: where one transaction of an epoch is not plain, none is.

        Args:
            each: see `JoinedEndings.groups`. `shares`: in how many it is worth to divide the producer ids.
        """
        if not self._decided or native is None:
            return ended
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


def _as_bytes(rows: Packed) -> Bytes:
    return np.ascontiguousarray(rows).view(np.uint8)
