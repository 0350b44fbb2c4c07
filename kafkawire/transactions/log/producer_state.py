"""`Producer`: what a broker keeps of one producer id in one partition (KIP-98; Kafka's `ProducerStateEntry`).

State is keyed by the producer id. The epoch is an attribute: transaction version 2 raises it with every transaction
(KIP-890), below it stays. Nothing here asks for a transaction's version, since a partition's log does not carry it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import EMPTY, MARKER_CODES
from kafkawire.transactions.log.producer_append import NO_EPOCH, Append

#: Number of last batches that a broker remembers: a retry of one of them is not written again.
BATCHES_TO_RETAIN = 5

_SEQUENCES = 1 << 31


class Retained(NamedTuple):
    """A batch that the broker remembers (Kafka's `BatchMetadata`)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % _SEQUENCES


class Producer:
    """The state after the producer's last batch or marker.

    Attributes:
        epoch: of its last batch or marker, -1 for none. `coordinator_epoch`: of its last marker, -1 for none.
        timestamp: of its last batch or marker, epoch milliseconds.
        first_offset: of its open transaction in the partition, -1 for none. `first_timestamp`, `open_batches`: of its
            first batch, and their number; -1 where the transaction began before the `.snapshot` that the state is from.
        batches: its last batches of data in this epoch, at most five.
        last_append: last offset of its last batch or marker.
        data_known_from: where no offset is missing from here on, no data of this epoch is missing.
        written_after: the newest timestamp (the broker's clock) of the markers of all producers before the last batch
            of its transaction.
        written_by: the timestamp of the first batch on or after that one that shows when the broker appended it
            (`Append.stamp`): by then it was in the log. `Replay` sets it. None where there is none yet.
        marked_at: the timestamp of its last marker; -1 for none.
        rewritten: compaction changed its last batch or marker, so that a broker that saw it whole knows more.
        doubted: where its last batch does not follow the one before: epochs and last sequence numbers that the next
            batch may follow as well, as if that batch were not there, or had followed.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "data_known_from",
        "doubted",
        "epoch",
        "first_offset",
        "first_timestamp",
        "last_append",
        "marked_at",
        "open_batches",
        "producer_id",
        "rewritten",
        "timestamp",
        "written_after",
        "written_by",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = -1
        self.coordinator_epoch = -1
        self.timestamp = -1
        self.first_offset = self.first_timestamp = -1
        self.open_batches = 0
        self.batches: deque[Retained] = deque(maxlen=BATCHES_TO_RETAIN)
        self.last_append = -1
        self.data_known_from = 0
        self.written_after: int | None = None
        self.written_by: int | None = None
        self.marked_at = -1
        self.rewritten = False
        self.doubted: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, entry: ProducerEntry) -> Producer:
        """The state in an entry of a `.snapshot`, which has one batch."""
        producer = cls(entry.producer_id)
        producer.epoch = entry.epoch
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.timestamp = entry.timestamp
        if entry.current_txn_first_offset >= 0:
            producer.begin(entry.current_txn_first_offset, -1, -1)
        producer.last_append = producer.data_known_from = entry.last_offset
        if entry.last_offset >= 0:
            producer.batches.append(
                Retained(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        return producer

    def entry(self) -> ProducerEntry:
        """The entry that a broker writes to a `.snapshot`."""
        last = self.batches[-1] if self.batches else Retained(-1, -1, 0, -1)
        return ProducerEntry(
            producer_id=self.producer_id,
            epoch=self.epoch,
            last_sequence=last.last_sequence,
            last_offset=last.last_offset,
            offset_delta=last.offset_delta,
            timestamp=self.timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=self.first_offset,
        )

    def add(self, append: Append, first_offset: int, marker_time: int | None) -> None:
        """Take the next batch of data.

        Args:
            first_offset: of its transaction (`logdir.ongoing`); -1: it is in none.
            marker_time: the newest timestamp of the partition's markers before it.
        """
        if append.transactional:
            self.data(append)
            self.written_after = marker_time
            if self.first_offset < 0:
                self.begin(first_offset, append.timestamp, 0)
            if self.open_batches >= 0:
                self.open_batches += 1
        elif self.first_offset < 0:
            self.data(append)
        else:  # it is refused, even when a log is recovered
            self.doubted = ((append.producer_epoch, append.last_sequence),)

    def end(self, append: Append) -> None:
        """Take a COMMIT, an ABORT, or what compaction left of one: no transaction is open after it."""
        if append.control == EMPTY:  # nothing is known of it but that it was there
            self.rewritten = True
        else:
            self.marker(append)
        self.first_offset = -1
        self.last_append = append.last_offset

    def begin(self, first_offset: int, timestamp: int, batches: int) -> None:
        """Open a transaction.

        Args:
            first_offset, timestamp: of its first batch. `batches`: number that it has so far. -1: not known.
        """
        self.first_offset, self.first_timestamp, self.open_batches = first_offset, timestamp, batches

    def ending(self, append: Append) -> tuple[int, ...]:
        """The values of `endings.PACKED` where this marker ends the open transaction."""
        epoch = append.coordinator_epoch
        return (
            self.producer_id, append.base_offset, append.timestamp, self.first_offset, self.epoch,
            append.producer_epoch, MARKER_CODES[append.control or ""], self.last_append, self.first_timestamp,
            self.timestamp, self.open_batches, NO_EPOCH if epoch is None else epoch,
        )  # fmt: skip

    def data(self, append: Append) -> None:
        """Take a batch of data."""
        epoch, last = self.epoch, self.last_sequence
        if epoch < 0 or self._in_order(append) or self.may_follow(append):
            self.doubted = ()
        else:
            count = append.last_offset - append.base_offset + 1
            self.doubted = ((epoch, last), (epoch, (last + count) % _SEQUENCES))
        if append.producer_epoch != epoch:
            self.batches.clear()
            self.epoch = append.producer_epoch
        base_offset, last_offset, timestamp = append.base_offset, append.last_offset, append.timestamp
        self.batches.append(Retained(append.last_sequence, last_offset, last_offset - base_offset, timestamp))
        self.timestamp = timestamp
        self.last_append = self.data_known_from = last_offset
        self.rewritten = append.compacted

    def marker(self, append: Append) -> None:
        """Take the numbers of a COMMIT or ABORT. One that raises the epoch forgets the batches."""
        if append.producer_epoch != self.epoch:
            self.batches.clear()
            self.doubted = tuple(one for one in self.doubted if one[0] == append.producer_epoch)
            self.epoch = append.producer_epoch
            self.data_known_from = max(self.last_append, 0)
        if append.coordinator_epoch is not None:
            self.coordinator_epoch = append.coordinator_epoch
        self.timestamp = self.marked_at = append.timestamp
        self.rewritten = False

    @property
    def last_sequence(self) -> int:
        """The last sequence number of its last batch in this epoch; -1 for none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_data_offset(self) -> int:
        """Last offset of its last batch in this epoch; -1 for none."""
        return self.batches[-1].last_offset if self.batches else -1

    def follows(self, sequence: int) -> bool:
        """Whether a batch that begins with this sequence number comes next."""
        return sequence == (self.last_sequence + 1) % _SEQUENCES

    def may_follow(self, append: Append) -> bool:
        """Whether a batch or marker comes next if its last batch, which did not, does not count."""
        sequence, marker = append.base_sequence, append.control is not None
        return any(
            append.producer_epoch >= epoch
            if marker
            else append.producer_epoch == epoch and sequence == (last + 1) % _SEQUENCES
            for epoch, last in self.doubted
        )

    def _in_order(self, append: Append) -> bool:
        """Whether a batch comes next."""
        if append.producer_epoch < self.epoch:
            return False
        if append.base_sequence < 0:
            return self.last_sequence < 0
        begins = append.producer_epoch > self.epoch or not self.batches
        return append.base_sequence == 0 if begins else self.follows(append.base_sequence)

    def duplicate(self, append: Append) -> Retained | None:
        """Among its last five, the batch with the range of sequence numbers of this one, which is of the same epoch."""
        wanted = append.base_sequence, append.last_sequence
        return next((b for b in self.batches if (b.first_sequence, b.last_sequence) == wanted), None)
