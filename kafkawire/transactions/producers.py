"""Producer state of a partition, replayed from its batches (KIP-98; Kafka's `ProducerStateManager`), as far as open
transactions need it.

State is keyed by producer id; the epoch is an attribute, since transaction version 2 raises it with every transaction
(KIP-890). A transaction is opened by the first transactional batch and ended by the producer's next marker, whatever
epochs they carry. A marker whose record compaction removed ends it too: compaction never reaches an open transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.transactions.facts import Append, Open, Place


class _Producer:
    __slots__ = ("coordinator_epoch", "epoch", "last_offset", "last_timestamp", "start_offset", "written_after")

    def __init__(self) -> None:
        self.coordinator_epoch: int | None = None
        self.epoch = -1
        self.start_offset = -1
        self.last_offset = -1
        self.last_timestamp = -1
        self.written_after: int | None = None


class Replay:
    """The producers of one partition; `add` takes its transactional batches in offset order."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._producers: dict[int, _Producer] = {}
        self._marker_time: int | None = None

    def add(self, append: Append) -> None:
        producer = self._producers.get(append.producer_id)
        if producer is None:
            producer = self._producers[append.producer_id] = _Producer()
        if append.control is None:
            if producer.start_offset < 0:
                producer.start_offset = append.base_offset
            producer.epoch = append.producer_epoch
            producer.last_offset = append.last_offset
            producer.last_timestamp = append.timestamp
            producer.written_after = self._marker_time
        else:
            producer.start_offset = -1
            if append.coordinator_epoch is not None:
                producer.coordinator_epoch = append.coordinator_epoch
            if self._marker_time is None or append.timestamp > self._marker_time:
                self._marker_time = append.timestamp

    def open(self) -> Iterator[Open]:
        """The transactions that are open after the last batch."""
        for producer_id, producer in self._producers.items():
            if producer.start_offset >= 0:
                yield Open(
                    place=self.place,
                    producer_id=producer_id,
                    producer_epoch=producer.epoch,
                    start_offset=producer.start_offset,
                    last_offset=producer.last_offset,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    written_after=producer.written_after,
                )


def last_stable_offset(high_watermark: int, first_start: int, log_start: int) -> int:
    """Where read_committed readers stop (Kafka's `UnifiedLog.fetchLastStableOffsetMetadata`).

    Args:
        first_start: first offset of the earliest open transaction; it counts from the log start on.

    A transaction whose marker stands at or above the high watermark holds it back as well. It is not open any more and
    not looked at here, so this is an upper bound where such markers are.
    """
    return min(high_watermark, max(log_start, first_start))
