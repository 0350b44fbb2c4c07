"""`EqualRecordSearch`: records that repeat earlier ones under another producer id, epoch or sequence. Pure.

A producer whose state a broker has lost resets its sequence, or gets a new epoch or id, and sends again what was not
acknowledged (KIP-360). The broker cannot know that it has these records already.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from kafkawire.logdir.transaction_states import ABORTED, STATES, Outcomes
from kafkawire.records import Batch, Record
from kafkawire.rows import EqualRecords, RowOrigin

#: The number of records that are remembered, at least.
WINDOW = 1 << 20


class _Seen(NamedTuple):
    """Where a record was, and whose it is."""

    offset: int
    producer_id: int
    epoch: int
    sequence: int
    state: int


class _Repeat(NamedTuple):
    """Records in a row that repeat others in a row."""

    first: _Seen
    last: int
    earlier: _Seen
    earlier_last: int
    number: int


class EqualRecordSearch:
    """Takes batches in order. Records of aborted transactions are left out: no consumer of committed data gets them.

    Args:
        outcomes: of the log. origin: of the rows.
        window: a record is compared with at least this number of records before it, and with at most twice as many.
    """

    def __init__(self, outcomes: Outcomes, origin: RowOrigin, window: int = WINDOW) -> None:
        self._outcomes = outcomes
        self._origin = origin
        self._window = window
        self._newer: dict[bytes, _Seen] = {}
        self._older: dict[bytes, _Seen] = {}
        self._repeat: _Repeat | None = None

    def add(self, batch: Batch) -> Iterator[EqualRecords]:
        """Take the next batch. Raises RecordError: its records, from one on, cannot be read."""
        if batch.is_control or (state := self._outcomes.state(batch)) == ABORTED:
            return
        for record in batch.records:
            seen = _Seen(record.offset, batch.producer_id, batch.producer_epoch, record.sequence, state)
            yield from self._take(_digest(batch, record), seen)

    def finish(self) -> Iterator[EqualRecords]:
        """The end of the log."""
        if self._repeat is not None:
            yield self._row(self._repeat)
            self._repeat = None

    def _take(self, digest: bytes, seen: _Seen) -> Iterator[EqualRecords]:
        earlier = self._newer.get(digest) or self._older.get(digest)
        repeats = earlier is not None and earlier[1:4] != seen[1:4] and max(earlier.producer_id, seen.producer_id) >= 0
        one = self._repeat
        if earlier is None or not repeats:
            yield from self.finish()
        elif one is not None and one.earlier_last < earlier.offset and _same(one, seen, earlier):
            self._repeat = one._replace(last=seen.offset, earlier_last=earlier.offset, number=one.number + 1)
        else:
            yield from self.finish()
            self._repeat = _Repeat(seen, seen.offset, earlier, earlier.offset, 1)
        if earlier is None:
            self._newer[digest] = seen
            if len(self._newer) >= self._window:
                self._older, self._newer = self._newer, {}

    def _row(self, one: _Repeat) -> EqualRecords:
        return EqualRecords(
            **self._origin,
            first_offset=one.first.offset,
            last_offset=one.last,
            offsets=one.number,
            producer_id=one.first.producer_id,
            producer_epoch=one.first.epoch,
            sequence=one.first.sequence,
            transaction=STATES[one.first.state],
            earlier_first_offset=one.earlier.offset,
            earlier_last_offset=one.earlier_last,
            earlier_producer_id=one.earlier.producer_id,
            earlier_producer_epoch=one.earlier.epoch,
            earlier_sequence=one.earlier.sequence,
            earlier_transaction=STATES[one.earlier.state],
        )


def _same(one: _Repeat, seen: _Seen, earlier: _Seen) -> bool:
    """Whether a record and the one that it repeats have the producers and the transactions' states of a repeat."""
    of = (one.first.producer_id, one.first.epoch, one.first.state)
    of_earlier = (one.earlier.producer_id, one.earlier.epoch, one.earlier.state)
    return of == (seen[1], seen[2], seen[4]) and of_earlier == (earlier[1], earlier[2], earlier[4])


def _digest(batch: Batch, record: Record) -> bytes:
    """A digest of the parts of a record that a producer sends again unchanged: a timestamp that a broker sets is not
    among them."""
    digest = blake2b(digest_size=16)
    parts = [None if batch.timestamp_type == "LogAppendTime" else b"%d" % record.timestamp, record.key, record.value]
    for header in record.headers:
        parts += [header.key.encode("utf-8", "surrogateescape"), header.value]
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.digest()
