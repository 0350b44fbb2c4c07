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

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.producer_state import Producer

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
    """

    producer_id: int
    outcome: str
    first_offset: int
    last_offset: int
    last_stable_offset: int
    data_epoch: int = -1
    marker_epoch: int = -1
    timestamp: int = -1

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
        producers: by producer id. `ongoing`: producer id of each open transaction -> its first offset, ascending.
        unreplicated: first offset -> marker's offset of ended transactions whose marker may be undone.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = (), *, high_watermark: int | None = None) -> None:
        self.producers: dict[int, Producer] = {}
        self.ongoing: OrderedDict[int, int] = OrderedDict()
        self.unreplicated: dict[int, int] = {}
        self.high_watermark = high_watermark
        self._marker_time: int | None = None
        for entry in sorted(entries, key=lambda entry: entry.current_txn_first_offset):
            self.producers[entry.producer_id] = Producer.of(entry)
            self.ongoing.pop(entry.producer_id, None)
            if entry.current_txn_first_offset >= 0:
                self.ongoing[entry.producer_id] = entry.current_txn_first_offset

    def add(self, append: Append) -> Ended | None:
        """Take the next batch. Returns the transaction that it ends."""
        producer_id, control = append.producer_id, append.control
        producer = self.producers.get(producer_id)
        if producer is None:
            if control == MALFORMED:
                return None
            producer = self.producers[producer_id] = Producer(producer_id)
        if control is None:
            self._data(producer, append)
            return None
        if control == MALFORMED:
            return None
        if self._marker_time is None or append.timestamp > self._marker_time:
            self._marker_time = append.timestamp
        first_offset, data_epoch = producer.first_offset, producer.epoch
        if control == EMPTY:
            # Nothing is known of the marker but that it was there; compaction never reaches an open transaction.
            producer.first_offset = -1
            producer.rewritten = True
            producer.last_append = append.last_offset
        else:
            producer.marker(append)
        return None if first_offset < 0 else self._ended(append, control, first_offset, data_epoch)

    def _data(self, producer: Producer, append: Append) -> None:
        if not append.transactional:
            if producer.first_offset < 0:  # otherwise it is refused, even when a log is recovered
                producer.data(append)
            return
        producer.data(append)
        producer.written_after = self._marker_time
        if producer.first_offset < 0:
            producer.first_offset = append.base_offset
            self.ongoing[append.producer_id] = append.base_offset

    def _ended(self, append: Append, outcome: str, first_offset: int, data_epoch: int) -> Ended:
        ongoing, producer_id, marker = self.ongoing, append.producer_id, append.base_offset
        stable = marker + 1
        for other, offset in ongoing.items():
            if other != producer_id:
                stable = offset
                break
        ongoing.pop(producer_id, None)
        if self.high_watermark is not None and marker >= self.high_watermark:
            self.unreplicated[first_offset] = marker
        marker_epoch, timestamp = append.producer_epoch, append.timestamp
        return Ended(producer_id, outcome, first_offset, marker, stable, data_epoch, marker_epoch, timestamp)

    def advance(self, high_watermark: int) -> None:
        """Raise the high watermark: what is below it is never undone."""
        self.high_watermark = high_watermark
        for first_offset in [f for f, marker in self.unreplicated.items() if marker < high_watermark]:
            del self.unreplicated[first_offset]

    def expire(self, now: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        """Forget the producers that have written nothing for so long and have no open transaction, as brokers do every
        producer.id.expiration.check.interval.ms. `now`: the broker's clock, epoch milliseconds."""
        idle = [
            producer.producer_id
            for producer in self.producers.values()
            if producer.first_offset < 0 and now - producer.timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.producers[producer_id]

    def open(self) -> Iterator[Producer]:
        """The producers with a transaction that is open after the last batch."""
        return (self.producers[producer_id] for producer_id in self.ongoing)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the earliest transaction that is open, or whose marker may be undone."""
        undecided = next(iter(self.ongoing.values()), None)
        unreplicated = min(self.unreplicated, default=None)
        if undecided is None or unreplicated is None:
            return unreplicated if undecided is None else undecided
        return min(undecided, unreplicated)

    def last_stable_offset(self, high_watermark: int, log_start: int = 0) -> int:
        """Where read_committed readers stop."""
        unstable = self.first_unstable_offset
        return high_watermark if unstable is None else last_stable_offset(high_watermark, unstable, log_start)

    def snapshot(self) -> list[ProducerEntry]:
        """The entries of the `.snapshot` that a broker would write now, by producer id (a broker's are in no order)."""
        return [self.producers[producer_id].entry() for producer_id in sorted(self.producers)]


def last_stable_offset(high_watermark: int, first_unstable: int, log_start: int) -> int:
    """Where read_committed readers stop (Kafka's `UnifiedLog.fetchLastStableOffsetMetadata`).

    Args:
        first_unstable: first offset of the earliest transaction that is open or whose marker stands at or above the
            high watermark; it counts from the log start on.
    """
    return min(high_watermark, max(log_start, first_unstable))
