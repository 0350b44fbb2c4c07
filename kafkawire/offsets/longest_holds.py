"""`LongestHolds`: the transactions that held the last stable offset of a partition the longest, and so blocked
read_committed consumers. Pure: batches in order -> rows.

A transaction holds the last stable offset from its first batch on, or, where one that began before it is still open,
from the end of that one, until its marker. The end of a hold is by a broker's clock (the timestamp of a marker). The
beginning of the first one is by a client's clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count

import msgspec
import numpy as np

from kafkawire.logdir.ongoing import Ongoing
from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, ended
from kafkawire.records import Batch
from kafkawire.records.columns import Batches
from kafkawire.rows import Hold

_OUTCOMES = {COMMITTED: "COMMIT", ABORTED: "ABORT"}


class _Open(msgspec.Struct):
    first_offset: int
    began: int
    epoch: int
    last_offset: int
    records: int


class LongestHolds:
    """Takes the batches of one partition, in the order of its log.

    Args:
        topic, partition: the partition. most: holds that are kept, the longest.
        cut: transactions may have begun before the first batch: the marker of one that is not known may be theirs, and
            holds before it do not count.

    Attributes:
        read_to: the offset after the last batch.
        newest: the newest timestamp of a batch, epoch milliseconds; -1 for none.
    """

    def __init__(self, topic: str, partition: int, most: int, *, cut: bool = False) -> None:
        self.read_to, self.newest = 0, -1
        self._topic, self._partition, self._most, self._cut = topic, partition, most, cut
        self._ongoing = Ongoing()
        self._open: dict[int, _Open] = {}
        self._since = -1
        self._kept: list[tuple[int, int, Hold]] = []
        self._number = count()

    def take(self, item: Batches | Batch) -> None:
        """One batch, or a run of them."""
        if isinstance(item, Batch):
            self._one(item)
            return
        if not len(item):
            return
        self.newest = max(self.newest, int(item.max_timestamp.max()))
        self.read_to = int(item.last_offset[-1]) + 1
        for index in np.flatnonzero(item.transactional).tolist():
            self._one(item.batch(index))

    def _one(self, batch: Batch) -> None:
        self.read_to = max(self.read_to, batch.last_offset + 1)
        self.newest = max(self.newest, batch.max_timestamp)
        if not batch.transactional:
            return
        if batch.is_control:
            self._end(batch)
            return
        mine = self._open.get(batch.producer_id)
        if mine is None:
            began = batch.max_timestamp if batch.base_timestamp < 0 else batch.base_timestamp
            mine = _Open(batch.base_offset, began, batch.producer_epoch, batch.last_offset, 0)
            self._open[batch.producer_id] = mine
            self._ongoing.begin(batch.producer_id, batch.base_offset)
        mine.last_offset = batch.last_offset
        mine.records += max(batch.record_count, 0)

    def _end(self, marker: Batch) -> None:
        mine = self._open.pop(marker.producer_id, None)
        if mine is None:
            if self._cut:
                self._since = max(self._since, marker.max_timestamp)
            return
        if self._holder() == marker.producer_id:
            outcome = _OUTCOMES.get(ended(marker), "unknown")
            self._keep(marker.producer_id, mine, outcome, marker.base_offset, marker.max_timestamp)
            self._since = marker.max_timestamp
        self._ongoing.end(marker.producer_id)

    def _holder(self) -> int | None:
        """The producer of the transaction that holds the last stable offset; None where none is open."""
        return next(iter(self._ongoing), None)

    def _keep(self, producer: int, mine: _Open, outcome: str, marker_offset: int | None, until: int) -> None:
        began = max(mine.began, self._since)
        held = max(0, until - began) if began >= 0 else None
        found = Hold(
            topic=self._topic,
            partition=self._partition,
            producer_id=producer,
            producer_epoch=mine.epoch,
            first_offset=mine.first_offset,
            last_offset=mine.last_offset,
            records=mine.records,
            outcome=outcome,
            marker_offset=marker_offset,
            began=mine.began if mine.began >= 0 else None,
            ended=until if marker_offset is not None else None,
            held_since=began if began >= 0 else None,
            held_ms=held,
        )
        heapq.heappush(self._kept, (-1 if held is None else held, -next(self._number), found))
        if len(self._kept) > self._most:
            heapq.heappop(self._kept)

    def finish(self, as_of: int | None = None) -> list[Hold]:
        """The holds, with the one that lasts. `as_of`: the clock of the one that lasts, epoch milliseconds; None: the
        newest timestamp of the log."""
        holder = self._holder()
        if holder is not None:
            self._keep(holder, self._open[holder], "open", None, self.newest if as_of is None else as_of)
        return longest((hold for _, _, hold in self._kept), self._most)


def longest(holds: Iterable[Hold], most: int) -> list[Hold]:
    """The longest of some holds, in that order."""
    return heapq.nsmallest(
        most, holds, key=lambda one: (-(one.held_ms or 0), one.topic, one.partition, one.first_offset)
    )
