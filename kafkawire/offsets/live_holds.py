"""`LiveHolds`: what a partition holds at its offsets, from batches as they are fetched. Pure.

The batches are those that a read_uncommitted consumer fetches: the markers between the data show how transactions
ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from kafkawire.errors import RecordError
from kafkawire.logdir.transaction_states import ABORTED as ABORTED_CODE
from kafkawire.logdir.transaction_states import COMMITTED as COMMITTED_CODE
from kafkawire.logdir.transaction_states import ended
from kafkawire.offsets.share_fates import Held
from kafkawire.offsets.statuses import joined
from kafkawire.records import Batch
from kafkawire.share_groups.record_fates import ABORTED, DELETED, NO_RECORD, OPEN, RECORD, UNDECIDED, UNREAD

_WHAT = {ABORTED_CODE: ABORTED, COMMITTED_CODE: RECORD}


class LiveHolds:
    """Takes the batches of a partition in order, from its log start offset on. Memory grows with their number, which
    the caller limits."""

    def __init__(self, log_start: int) -> None:
        self._start = log_start
        self._found: list[Held] = []
        self._open: dict[int, list[int]] = {}
        self._reached = log_start

    def take(self, batch: Batch) -> None:
        """Take the next batch."""
        first, end = max(batch.base_offset, self._reached), batch.last_offset + 1
        if first > self._reached:
            self._add(Held(self._reached, first, NO_RECORD))
        if first >= end:
            return
        producer = batch.producer_id
        if batch.is_control:
            what = _WHAT.get(ended(batch), UNDECIDED)
            for place in self._open.pop(producer, ()):
                self._found[place] = self._found[place]._replace(what=what)
            self._add(Held(first, end, NO_RECORD))
            return
        if batch.transactional and producer >= 0:
            self._open.setdefault(producer, []).extend(self._of_batch(batch, first, end, OPEN))
        else:
            self._of_batch(batch, first, end, RECORD)

    def _of_batch(self, batch: Batch, first: int, end: int, what: str) -> list[int]:
        """The offsets of a batch; the places of those that hold records. Compaction leaves gaps in batches."""
        if batch.record_count == end - batch.base_offset:
            return [self._add(Held(first, end, what))]
        places = []
        try:
            for record in batch.records:
                if record.offset < self._reached:
                    continue
                if record.offset > self._reached:
                    self._add(Held(self._reached, record.offset, NO_RECORD))
                places.append(self._add(Held(record.offset, record.offset + 1, what)))
        except RecordError:
            self._add(Held(self._reached, end, UNREAD))
            return places
        if self._reached < end:
            self._add(Held(self._reached, end, NO_RECORD))
        return places

    def _add(self, held: Held) -> int:
        self._found.append(held)
        self._reached = held.end
        return len(self._found) - 1

    def held(self, end: int) -> Iterator[Held]:
        """What the offsets hold, from 0 up to `end`; what was not fetched is unread."""
        if self._start and end:
            yield Held(0, min(self._start, end), DELETED)
        cut = (one._replace(end=min(one.end, end)) for one in self._found)
        yield from joined(takewhile(lambda one: one.first < one.end, cut), Held.and_next)
        if (reached := max(self._reached, self._start)) < end:
            yield Held(reached, end, UNREAD)
