"""Transactions of a partition that have ended, packed: there may be millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kafkawire.transactions.facts import Place
from kafkawire.transactions.replay import Ended

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NAMES = ("ABORT", "COMMIT")
_OUTCOMES = {name: number for number, name in enumerate(NAMES)}
_FIELDS = 6


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
