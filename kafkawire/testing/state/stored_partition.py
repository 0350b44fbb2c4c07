"""`PartitionLog`: one partition in memory, as its leader keeps it: batches, producer state, aborted transactions.

Appends follow Kafka's `UnifiedLog` and `ProducerAppendInfo`; offsets are assigned here. Every record is replicated as
soon as it is appended: the high watermark is the end of the log.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire import records
from kafkawire.errors import RecordError
from kafkawire.kafka_errors import CODES
from kafkawire.messages import AbortedTxn
from kafkawire.records.header import MAGIC
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION
from kafkawire.testing.state.memory import ABORTED, BATCH, PARTITION, PRODUCER, Memory
from kafkawire.transactions.log.producer_append import Append, append_of
from kafkawire.transactions.log.producer_state import Producer
from kafkawire.transactions.log.replay import Replay

CORRUPT_MESSAGE = CODES["CORRUPT_MESSAGE"]
MESSAGE_TOO_LARGE = CODES["MESSAGE_TOO_LARGE"]
OUT_OF_ORDER_SEQUENCE_NUMBER = CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
INVALID_PRODUCER_EPOCH = CODES["INVALID_PRODUCER_EPOCH"]
INVALID_TXN_STATE = CODES["INVALID_TXN_STATE"]
TRANSACTION_COORDINATOR_FENCED = CODES["TRANSACTION_COORDINATOR_FENCED"]
INVALID_RECORD = CODES["INVALID_RECORD"]

#: Epochs whose first offsets are kept.
_MOST_EPOCHS = 1000
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4


class Stored(NamedTuple):
    """A batch of the log."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes


class AppendedBatches(NamedTuple):
    """The result of an append: an error code, 0 for none, and the offset of the first record."""

    error: int
    base_offset: int = -1


class PartitionLog:
    """See the module.

    Args:
        max_bytes: the oldest batches are dropped when the log has more bytes.
        max_batch_bytes: largest accepted batch, compressed and decompressed.
        memory: of the broker; a batch for which it has no room is refused. None: of this log alone.

    Attributes:
        batches: in order of offset. `start`, `end`: first offset, and the offset after the last.
        replay: the state of the producers. `aborted`: aborted transactions, in order of their markers.
        leader: the node that leads it. `leader_epoch`: raised with each new leader.
    """

    def __init__(self, max_bytes: int, max_batch_bytes: int, memory: Memory | None = None) -> None:
        self.batches: list[Stored] = []
        self.start = self.end = 0
        self.replay = Replay()
        self.aborted: list[AbortedTxn] = []
        self.leader = 1
        self.leader_epoch = 0
        self._epochs = [(0, 0)]
        self._bytes = 0
        self._max_bytes = max_bytes
        self._max_batch_bytes = max_batch_bytes
        self._memory = memory or Memory(sys.maxsize)
        self._account()

    @property
    def last_stable_offset(self) -> int:
        return self.replay.last_stable_offset(self.end, self.start)

    def lead(self, node: int) -> None:
        """Another node leads the partition, in a new epoch."""
        self.leader = node
        self.leader_epoch += 1
        if self._epochs[-1][1] == self.end:
            self._epochs.pop()  # nothing was written in that one
        self._epochs = [*self._epochs[-_MOST_EPOCHS:], (self.leader_epoch, self.end)]

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to the given one that the log has, and the offset where it ends; -1 and -1 for one to come.

        As Kafka's `LeaderEpochFileCache.endOffsetFor`.
        """
        if epoch == self.leader_epoch:
            return epoch, self.end
        known = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        if known == len(self._epochs):
            return -1, -1
        return self._epochs[known - 1][0] if known else epoch, self._epochs[known][1]

    # Appends ----------------------------------------------------------------------------------------------------------

    def checked(self, data: bytes) -> records.Batch | int:
        """The batch in a Produce request; an error code where the request may not be appended."""
        if len(data) > self._max_batch_bytes:
            return MESSAGE_TOO_LARGE
        found = list(islice(records.read(data, max_batch_bytes=self._max_batch_bytes), 2))
        if any(isinstance(batch, records.Damage) for batch in found):
            return CORRUPT_MESSAGE
        if len(found) != 1:
            return INVALID_RECORD  # since Produce 3 exactly one
        batch = found[0]
        assert isinstance(batch, records.Batch)
        if batch.magic != MAGIC or batch.is_control or batch.record_count != batch.last_offset_delta + 1:
            return INVALID_RECORD
        try:
            count = sum(1 for _ in batch.records)
        except RecordError:
            return CORRUPT_MESSAGE
        return batch if count else INVALID_RECORD

    def append(self, batch: records.Batch, now_ms: int) -> AppendedBatches:
        """Appends a batch of data; a batch that is already in the log has its first offset (idempotence)."""
        append = append_of(batch)
        if append is not None:
            self.replay.expire(now_ms)
            known = self.replay.producers.get(batch.producer_id)
            if known is None and len(self.replay.producers) >= MAX_ENTRIES:
                return AppendedBatches(POLICY_VIOLATION)
            duplicate = known and known.epoch == batch.producer_epoch and known.duplicate(append)
            if duplicate:
                return AppendedBatches(0, duplicate.last_offset - duplicate.offset_delta)
            if error := _sequence_error(known, append):
                return AppendedBatches(error)
        if not self._memory.has_room(batch.size + BATCH + (append is not None) * PRODUCER):
            return AppendedBatches(POLICY_VIOLATION)
        base_offset = self.end
        last_offset = base_offset + batch.last_offset_delta
        if append is not None:
            self.replay.add(replace(append, base_offset=base_offset, last_offset=last_offset))
        self._store(
            Stored(base_offset, last_offset, batch.max_timestamp, batch.rebased(base_offset, self.leader_epoch))
        )
        return AppendedBatches(0, base_offset)

    def mark(self, name: str, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int) -> int:
        """Appends the marker of a transaction. Returns the error code, 0 for none.

        Args:
            name: COMMIT or ABORT.
            producer_id, epoch: of the transaction.
            coordinator_epoch: of its coordinator.
            now_ms: the broker's clock, epoch milliseconds.
        """
        known = self.replay.producers.get(producer_id)
        if known is None and len(self.replay.producers) >= MAX_ENTRIES:
            return POLICY_VIOLATION
        if producer_id not in self.replay.ongoing and not self._memory.has_room(PRODUCER + BATCH):
            return POLICY_VIOLATION  # an open transaction always ends
        if known is not None and epoch < known.epoch:
            return INVALID_PRODUCER_EPOCH
        if known is not None and coordinator_epoch < known.coordinator_epoch:
            return TRANSACTION_COORDINATOR_FENCED
        offset = self.end
        data = records.build_marker(
            name,
            offset=offset,
            timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            partition_leader_epoch=self.leader_epoch,
        )
        ended = self.replay.add(Append(offset, offset, now_ms, producer_id, epoch, name, coordinator_epoch))
        if ended is not None and ended.aborted is not None:
            self.aborted.append(ended.aborted)
        self._store(Stored(offset, offset, now_ms, data))
        return 0

    def _store(self, stored: Stored) -> None:
        self.batches.append(stored)
        self.end = stored.last_offset + 1
        self._bytes += len(stored.data)
        dropped = 0
        while self._bytes > self._max_bytes and dropped < len(self.batches) - 1:
            self._bytes -= len(self.batches[dropped].data)
            dropped += 1
        if dropped:
            del self.batches[:dropped]
            self.start = self.batches[0].base_offset
            self.aborted = [entry for entry in self.aborted if entry.last_offset >= self.start]
        self._account()

    def _account(self) -> None:
        kept = len(self.batches) * BATCH + len(self.replay.producers) * PRODUCER + len(self.aborted) * ABORTED
        self._memory.keep(self, PARTITION + self._bytes + kept)

    # Reads ------------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, below: int, at_least_one: bool = False) -> list[Stored]:
        """The batches from the one that holds an offset, which is in the log, on.

        Args:
            max_bytes: of all of them. `at_least_one`: the first one even if it is larger (KIP-74).
            below: batches that begin before this offset: the end of the log, or the last stable offset.
        """
        taken: list[Stored] = []
        for stored in self.batches[self._place(offset) :]:
            max_bytes -= len(stored.data)
            if stored.base_offset >= below or (max_bytes < 0 and (taken or not at_least_one)):
                break
            taken.append(stored)
        return taken

    def _place(self, offset: int) -> int:
        return bisect_left(self.batches, offset, key=lambda stored: stored.last_offset)

    def aborted_between(self, first: int, last: int) -> list[AbortedTxn]:
        """The aborted transactions with a part in [first, last], in order of their first offsets."""
        found = [entry for entry in self.aborted if entry.last_offset >= first and entry.first_offset <= last]
        return sorted(found, key=lambda entry: entry.first_offset)

    def offset_for(self, timestamp: int, *, below: int) -> tuple[int, int]:
        """Timestamp and offset that answer a ListOffsets; -1 and -1 for none.

        Args:
            timestamp: epoch milliseconds: the first record that is not older; or one of ListOffsets' negative numbers.
            below: the end of the log, or the last stable offset.
        """
        if timestamp == _LATEST:
            return -1, below
        if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
            return -1, self.start
        if timestamp == _MAX_TIMESTAMP:
            newest = max(self.batches, key=lambda stored: stored.max_timestamp, default=None)
            timestamp = -1 if newest is None else newest.max_timestamp
        if timestamp >= 0:
            for stored in self.batches:
                if stored.max_timestamp >= timestamp and stored.base_offset < below:
                    for record in self._batch(stored).records:
                        if record.timestamp >= timestamp:
                            return record.timestamp, record.offset
        return -1, -1

    def _batch(self, stored: Stored) -> records.Batch:
        (batch,) = records.read(stored.data, check_crc=False, max_batch_bytes=self._max_batch_bytes)
        assert isinstance(batch, records.Batch)
        return batch

    def visible(self, *, committed: bool) -> list[records.Record]:
        """The records that a consumer gets: no markers; `committed`: none of open and of aborted transactions."""
        below = self.last_stable_offset if committed else self.end
        aborted = [(entry.producer_id, range(entry.first_offset, entry.last_offset)) for entry in self.aborted]
        found: list[records.Record] = []
        for stored in self.batches:
            batch = self._batch(stored)
            if batch.is_control or batch.base_offset >= below:
                continue
            hidden = committed and batch.transactional
            if hidden and any(batch.producer_id == who and batch.base_offset in where for who, where in aborted):
                continue
            found += batch.records
        return found


def _sequence_error(known: Producer | None, append: Append) -> int:
    """The error code of a batch of data that a producer may not append now (Kafka's `ProducerAppendInfo`)."""
    if known is None:
        return 0
    if append.producer_epoch < known.epoch:
        return INVALID_PRODUCER_EPOCH
    if known.first_offset >= 0 and not append.transactional:
        return INVALID_TXN_STATE
    if append.base_sequence < 0:
        return 0
    if append.producer_epoch != known.epoch:
        return OUT_OF_ORDER_SEQUENCE_NUMBER if append.base_sequence else 0
    return 0 if known.follows(append.base_sequence) else OUT_OF_ORDER_SEQUENCE_NUMBER
