"""`Replay`: the state of all producers of a partition, as a broker computes it from the log (KIP-98; Kafka's
`ProducerStateManager`, and `LogSegment.recover` for the order of things).

    replay = Replay()
    for append in appends:                   # in offset order, however many
        ended = replay.add(append)           # the transaction that a marker ended, or None
    replay.last_stable_offset(high_watermark), replay.snapshot()

Correct for every transaction version: a producer's marker ends its transaction, whatever epochs they carry. Memory
grows with the number of producers, and of ended transactions at or above the high watermark, where one is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from kafkawire.logdir.ongoing import Ongoing, last_stable_offset
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import MALFORMED
from kafkawire.transactions.log.producer_append import Append
from kafkawire.transactions.log.producer_state import Producer

#: Broker default of producer.id.expiration.ms.
PRODUCER_ID_EXPIRATION_MS = 86_400_000

_ABORT = "ABORT"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A transaction that had data in the partition, and its marker (Kafka's `CompletedTxn`).

    Attributes:
        outcome: COMMIT or ABORT; EMPTY where compaction removed the marker's record.
        first_offset: of its data. `last_offset`: of the marker.
        last_stable_offset: first offset of the earliest transaction of another producer that is still open, otherwise
            the offset after the marker.
        data_epoch: of its last batch. `marker_epoch`, `timestamp`: of the marker, epoch milliseconds.
        packed: the values of `endings.PACKED`; `first_timestamp` and `batches` are -1 where the transaction began
            before the `.snapshot` that the replay began from.
    """

    producer_id: int
    outcome: str
    first_offset: int
    last_offset: int
    last_stable_offset: int
    data_epoch: int = -1
    marker_epoch: int = -1
    timestamp: int = -1
    packed: tuple[int, ...] = ()

    @property
    def aborted(self) -> AbortedTxn | None:
        """Its entry in the `.txnindex` of the segment that holds the marker; None where it has none."""
        if self.outcome != _ABORT:
            return None
        return AbortedTxn(
            producer_id=self.producer_id,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            last_stable_offset=self.last_stable_offset,
        )


class Replay:
    """The producers of one partition.

    Args:
        entries: of a `.snapshot`, when the replay begins at its offset.
        high_watermark: what is at or above it may be undone: transactions whose marker is there are kept in
            `unreplicated`, and hold the last stable offset back. None: nothing is undone.

    Attributes:
        producers: by producer id. `ongoing`: the open transactions.
        unreplicated: first offset -> marker's offset of ended transactions whose marker may be undone.
        marker_time: the newest timestamp of a marker; None for none.
        unstamped: the producers with data of a transaction on or after whose last batch no `Append.stamp` was yet.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = (), *, high_watermark: int | None = None) -> None:
        self.producers: dict[int, Producer] = {}
        self.ongoing = Ongoing()
        self.unreplicated: dict[int, int] = {}
        self.high_watermark = high_watermark
        self.marker_time: int | None = None
        self.unstamped: set[int] = set()
        for entry in seeds(entries):
            self.producers[entry.producer_id] = Producer.of(entry)
            self.ongoing.end(entry.producer_id)
            if entry.current_txn_first_offset >= 0:
                self.ongoing.begin(entry.producer_id, entry.current_txn_first_offset)
                self.unstamped.add(entry.producer_id)

    def add(self, append: Append) -> Ended | None:
        """Take the next batch. Returns the transaction that it ends."""
        producer_id, control = append.producer_id, append.control
        producer = self.producers.get(producer_id)
        if producer is None:
            if control == MALFORMED:
                return None
            producer = self.producers[producer_id] = Producer(producer_id)
        if control == MALFORMED:
            return None
        marker_time = self.marker_time
        if control is not None and (marker_time is None or append.timestamp > marker_time):
            self.marker_time = append.timestamp
        if control is None and append.transactional:
            producer.written_by = None
            self.unstamped.add(producer_id)
        stamp = append.stamp
        if stamp is not None:
            self._stamp(stamp)
        if control is None:
            first_offset = self.ongoing.begin(producer_id, append.base_offset) if append.transactional else -1
            producer.add(append, first_offset, marker_time)
            return None
        first_offset, data_epoch = self.ongoing.end(producer_id), producer.epoch
        values = producer.ending(append) if first_offset >= 0 else ()
        producer.end(append)
        return self._ended(append, first_offset, data_epoch, values) if values else None

    def _stamp(self, stamp: int) -> None:
        """The first stamp after the last batches of the producers that have none."""
        for producer_id in self.unstamped:
            self.producers[producer_id].written_by = stamp
        self.unstamped.clear()

    def _ended(self, append: Append, first_offset: int, data_epoch: int, packed: tuple[int, ...]) -> Ended:
        marker = append.base_offset
        if self.high_watermark is not None and marker >= self.high_watermark:
            self.unreplicated[first_offset] = marker
        return Ended(
            append.producer_id, append.control or "", first_offset, marker, self.ongoing.first_unstable(marker + 1),
            data_epoch, append.producer_epoch, append.timestamp, packed,
        )  # fmt: skip

    def advance(self, high_watermark: int) -> None:
        """Raise the high watermark: what is below it is never undone."""
        self.high_watermark = high_watermark
        for first_offset in [f for f, marker in self.unreplicated.items() if marker < high_watermark]:
            del self.unreplicated[first_offset]

    def expire(self, now: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        """Forget the producers without open transaction that have written nothing for `expiration_ms`, as brokers do
        every producer.id.expiration.check.interval.ms. `now`: the broker's clock, epoch milliseconds."""
        idle = [
            producer.producer_id
            for producer in self.producers.values()
            if producer.first_offset < 0 and now - producer.timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.producers[producer_id]
        self.unstamped.difference_update(idle)

    def open(self) -> Iterator[Producer]:
        """The producers with a transaction that is open after the last batch."""
        return (self.producers[producer_id] for producer_id in self.ongoing)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the earliest transaction that is open, or whose marker may be undone."""
        return min((*islice(self.ongoing.values(), 1), *self.unreplicated), default=None)

    def last_stable_offset(self, high_watermark: int, log_start: int = 0) -> int:
        """Where read_committed readers stop."""
        unstable = self.first_unstable_offset
        return high_watermark if unstable is None else last_stable_offset(high_watermark, unstable, log_start)

    def snapshot(self) -> list[ProducerEntry]:
        """The entries of the `.snapshot` that a broker would write now, by producer id (a broker's are in no order)."""
        return [self.producers[producer_id].entry() for producer_id in sorted(self.producers)]


def seeds(entries: Iterable[ProducerEntry]) -> list[ProducerEntry]:
    """The entries of a `.snapshot` in the order in which a replay takes them."""
    return sorted(entries, key=lambda entry: entry.current_txn_first_offset)
