"""`CoordinatorStory`: the records of `__transaction_state` about one transaction."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.logdir import BrokerDirectory, LogDirectory, LogFile, Partition
from kafkawire.records import Batch, Damage
from kafkawire.rows import CoordinatorStep, DamageRow, TransactionStory
from kafkawire.transactions.coordinator.coordinator_log import (
    UnreadableRecord,
    coordinator_records,
    lists_partition,
    producer_ids,
    registration,
)
from kafkawire.transactions.coordinator.coordinator_rules import state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, Place, Registration


class CoordinatorStory:
    """What coordinators recorded of a transaction, in the copies of `__transaction_state` of its cluster.

    Args:
        broker: the log directory that the transaction is in.

    Attributes:
        transactional_id: that the producer id belongs to; None where no record names it.
        damage: of the log that has its records; of all logs where none has them.
    """

    def __init__(self, directory: LogDirectory, broker: BrokerDirectory, transaction: TransactionStory) -> None:
        self._transaction = transaction
        self._number = transaction.producer_id.to_bytes(8, "big", signed=True)
        self._log: Partition | None = None
        self.transactional_id: str | None = None
        self.damage: list[DamageRow] = []
        self._find(_copies(directory, broker))

    def _find(self, logs: list[Partition]) -> None:
        """The log that names the producer id, and the transactional id there."""
        for log in logs:
            for one in self._registrations(log, self._number):
                if one.value is not None and self._transaction.producer_id in producer_ids(one.value):
                    self._log, self.transactional_id = log, one.transactional_id
                    if one.value.producer_id == self._transaction.producer_id:
                        return

    def steps(self) -> Iterator[CoordinatorStep]:
        """The records of the transaction; where there are none (any more), the last one of its id.

        A transaction is found by producer id and epoch; of several in one epoch it is the one whose record is nearest
        to the marker in time.
        """
        if self._log is None or self.transactional_id is None:
            return
        groups: list[list[Registration]] = []
        last: Registration | None = None
        self.damage.clear()
        for one in self._registrations(self._log, self.transactional_id.encode("utf-8", "surrogateescape")):
            if one.transactional_id == self.transactional_id:
                begins = _state(one) in (None, "Empty", "Ongoing") and _state(last) != "Ongoing"
                if begins or not groups:
                    groups.append([])
                groups[-1].append(one)
                last = one
        fitting = [group for group in groups if self._fits(group)]
        chosen = min(fitting, key=self._distance) if fitting else groups[-1][-1:]
        for one in chosen:
            yield self._step(one)

    def _registrations(self, log: Partition, having: bytes) -> Iterator[Registration]:
        """The records of a copy that hold these bytes, decoded. Coordinators do not compress."""
        place = Place(log.path, log.topic, log.partition)
        for file in log.segments:
            try:
                for item in file.batches():
                    if isinstance(item, Damage):
                        self._note(item, file)
                    elif item.codec != "none" or having in bytes(item.data):
                        for found in _decoded(place, item, having):
                            if isinstance(found, Registration):
                                yield found
                            else:
                                self._note(Damage(item.position, "bad_records", found.problem), file)
            except OSError as error:
                self._note(Damage.unreadable(error), file)

    def _note(self, damage: Damage, file: LogFile) -> None:
        if not damage.harmless:
            self.damage.append(DamageRow.of(damage, **file.place))

    def _fits(self, group: list[Registration]) -> bool:
        """Whether the records may be of the transaction: the Ongoing record has the epoch of the data; without it, the
        decision has that one or the next, or epoch 0 of the producer id that follows."""
        of = self._transaction
        begun = [one for one in group if _state(one) == "Ongoing"]
        epochs = range(of.producer_epoch, of.producer_epoch + (1 if begun else 2))
        values = [one.value for one in begun or group if one.value is not None and _state(one) != "Empty"]
        return any(
            (value.producer_id == of.producer_id and value.producer_epoch in epochs)
            or (not begun and value.previous_producer_id == of.producer_id and value.producer_epoch == 0)
            for value in values
        )

    def _distance(self, group: list[Registration]) -> tuple[bool, int]:
        """How well a group fits. An open transaction is in the last one."""
        when = self._transaction.marker_timestamp
        if when is None:
            return False, -group[-1].offset
        ended = group[-1].timestamp
        return _state(group[-1]) == "Ongoing", abs(ended - when)

    def _step(self, one: Registration) -> CoordinatorStep:
        assert self._log is not None
        value, of = one.value, self._transaction
        return CoordinatorStep(
            file=self._log.path,
            topic=TRANSACTION_STATE,
            partition=self._log.partition,
            offset=one.offset,
            timestamp=one.timestamp,
            transactional_id=one.transactional_id,
            state=_state(one),
            producer_id=None if value is None else value.producer_id,
            producer_epoch=None if value is None else value.producer_epoch,
            has_partition=value is not None and lists_partition(value, of.topic or "", of.partition or 0),
            last_update_timestamp=None if value is None else value.transaction_last_update_timestamp_ms,
        )


def _copies(directory: LogDirectory, broker: BrokerDirectory) -> list[Partition]:
    """One replica of each partition of the cluster's `__transaction_state`: the one with most bytes."""
    longest: dict[int, tuple[int, Partition]] = {}
    for one in directory.partitions:
        if one.topic == TRANSACTION_STATE and not one.state and directory.same_cluster(one.broker, broker):
            size = sum(file.size for file in one.segments)
            if one.partition not in longest or size > longest[one.partition][0]:
                longest[one.partition] = size, one
    return [one for _, one in longest.values()]


def _decoded(place: Place, batch: Batch, having: bytes) -> Iterator[Registration | UnreadableRecord]:
    """The records of a batch that hold these bytes, and those that cannot be read."""
    for record in coordinator_records(batch):
        if isinstance(record, UnreadableRecord):
            yield record
        elif having in (record.key or b"") + (record.value or b""):
            found = registration(place, record)
            if found is not None:
                yield found


def _state(one: Registration | None) -> str | None:
    return None if one is None or one.value is None else state_name(one.value.transaction_status)
