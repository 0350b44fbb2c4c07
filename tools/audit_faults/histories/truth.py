"""The truth of a history: the fate of each transaction, and the records that consumers get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.records import Batch, read
from tools.audit_faults.histories.history import History
from tools.audit_faults.histories.true_cluster import DATA, Place, TrueLog


class TrueTransaction(NamedTuple):
    """A transaction in one partition.

    Attributes:
        start: its first offset. `opened`: the event at which that was appended.
        ended: the event of the marker that ends it; None: nothing ever does.
        committed: by its marker.
        begun: when the producer's first partition of it got data.
    """

    place: Place
    producer_id: int
    start: int
    opened: int
    ended: int | None = None
    committed: bool = False
    begun: int = 0

    def open_at(self, event: int) -> bool:
        """Whether it has begun and not ended."""
        return self.opened <= event and (self.ended is None or self.ended > event)


class Truth(NamedTuple):
    """Of a history.

    Attributes:
        transactions: by partition and first offset.
        consumed: by partition, the offsets of records that a read_committed consumer gets.
    """

    transactions: dict[tuple[Place, int], TrueTransaction]
    consumed: dict[Place, list[int]]


def truth_of(history: History) -> Truth:
    """Of all partitions of data."""
    transactions: dict[tuple[Place, int], TrueTransaction] = {}
    consumed = {}
    for place in DATA:
        found, consumed[place] = _replayed(place, history.logs[place])
        transactions |= {(place, one.start): one for one in found}
    return Truth(
        {key: one._replace(begun=_begun(one, transactions.values())) for key, one in transactions.items()}, consumed
    )


def _begun(one: TrueTransaction, all_: Iterable[TrueTransaction]) -> int:
    """The first event of what its producer had open when it opened."""
    return min(other.opened for other in all_ if other.producer_id == one.producer_id and other.open_at(one.opened))


def _replayed(place: Place, log: TrueLog) -> tuple[list[TrueTransaction], list[int]]:
    """From a producer's first transactional batch to its next marker is a transaction."""
    running: dict[int, TrueTransaction] = {}
    ended: dict[int, TrueTransaction] = {}
    data: list[tuple[range, int | None]] = []
    for appended in log.appended:
        for batch in read(appended.data):
            assert isinstance(batch, Batch)
            producer = batch.producer_id
            if batch.is_control:
                if (one := running.pop(producer, None)) is not None:
                    committed = batch.control is not None and batch.control.name == "COMMIT"
                    ended[one.start] = one._replace(ended=appended.event, committed=committed)
                continue
            if batch.transactional and producer not in running:
                running[producer] = TrueTransaction(place, producer, batch.base_offset, appended.event)
            start = running[producer].start if batch.transactional else None
            data.append((range(batch.base_offset, batch.last_offset + 1), start))
    stable = min([log.end, *(one.start for one in running.values())])
    read_ = [
        offset
        for offsets, start in data
        if offsets.start < stable and (start is None or ended[start].committed)
        for offset in offsets
    ]
    return [*ended.values(), *running.values()], read_
