"""The transaction coordinator's state, from its log: `__transaction_state` (KIP-98, KIP-890, KIP-939).

Each record replaces the one before of its transactional id. A producer id belongs to one transactional id for ever, so
what an id has used stays its own: older records, and the previous and next producer ids of newer ones, are looked at
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from kafkawire.errors import KafkaWireError
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.records import Batch, decode_key, decode_value
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.coordinator.coordinator_rules import raises_epoch, state_name
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    CoordinatorRecord,
    DecisionTime,
    Owner,
    Place,
    ProducerIdUse,
    Registration,
)

if TYPE_CHECKING:
    from kafkawire.transactions.coordinator.packed_decisions import Decided

#: Keys that are kept decoded: an id has a record for each step of each transaction.
_KEYS = 1 << 14

#: The state, by the newest record of its id, of the transaction that a batch of an epoch belongs to.
CURRENT = "current"  # it is the id's present transaction
ENDED = "ended"  # it has ended
NOT_BEGUN = "not_begun"  # no transaction has begun in that epoch
BUMPED = "bumped"  # the id has gone on to later epochs
AHEAD = "ahead"  # the batch is newer than the record

#: By state, and whether the transaction's version is 2: epochs that the record is ahead of the data -> what that means.
#: Version 2 raises the epoch when a transaction is prepared. Below it, a coordinator that aborts by itself (timeout, a
#: new InitProducerId) raises it too. In Prepare both are taken for the present transaction: it must never be aborted.
_ONGOING = {0: CURRENT}
_PREPARED = {0: CURRENT, 1: CURRENT}
_EPOCHS = {
    ("Empty", False): {0: NOT_BEGUN},
    ("Empty", True): {0: NOT_BEGUN},
    ("Ongoing", False): _ONGOING,
    ("Ongoing", True): _ONGOING,
    ("PrepareCommit", False): _PREPARED,
    ("PrepareCommit", True): _PREPARED,
    ("PrepareAbort", False): _PREPARED,
    ("PrepareAbort", True): _PREPARED,
    ("CompleteCommit", False): {0: ENDED},
    ("CompleteCommit", True): {0: NOT_BEGUN, 1: ENDED},
    ("CompleteAbort", False): {0: ENDED, 1: ENDED},
    ("CompleteAbort", True): {0: NOT_BEGUN, 1: ENDED},
}


def standing(value: TransactionLogValue, producer_id: int, producer_epoch: int) -> str | None:
    """The state, by its id's newest record, of the transaction that a batch belongs to.

    Args:
        value: the newest record of the transactional id.
        producer_id, producer_epoch: of the batch.

    Returns:
        CURRENT, ENDED, NOT_BEGUN, BUMPED or AHEAD; None for a record in a state that is never written.
    """
    if value.producer_id != producer_id:
        # Producer ids follow each other only when the epochs of one are used up, after its last transaction.
        return AHEAD if value.next_producer_id == producer_id else ENDED
    epochs = _EPOCHS.get((state_name(value.transaction_status), raises_epoch(value.client_transaction_version)))
    if epochs is None:
        return None
    ahead = value.producer_epoch - producer_epoch
    return AHEAD if ahead < 0 else epochs.get(ahead, BUMPED)


def lists_partition(value: TransactionLogValue, topic: str, partition: int) -> bool:
    """Whether the id's transaction has a partition. A Prepare record has the whole set, whatever has ended since.

    Args:
        value: the newest record of the id.
        topic, partition: name and number.
    """
    return any(
        topic == entry.topic and partition in entry.partition_ids for entry in value.transaction_partitions or ()
    )


class UnreadableRecord(msgspec.Struct, frozen=True, tag=True):
    """A record of `__transaction_state` that could not be decoded, so that what an id did is not known."""

    offset: int
    problem: str


def coordinator_records(batch: Batch) -> Iterator[CoordinatorRecord | UnreadableRecord]:
    """The records of a batch of `__transaction_state`, in order. Never raises."""
    if batch.is_control:
        return
    leader_epoch = batch.partition_leader_epoch
    try:
        for record in batch.records:
            yield CoordinatorRecord(record.offset, record.timestamp, record.key, record.value, leader_epoch)
    except KafkaWireError as error:
        yield UnreadableRecord(batch.base_offset, str(error))


def registration(place: Place, record: CoordinatorRecord) -> Registration | UnreadableRecord | None:
    """A record of `__transaction_state`, decoded; None for one that is about no transactional id."""
    transactional_id, problem = _id_of(record.key)
    if problem is not None:
        return UnreadableRecord(record.offset, problem)
    if transactional_id is None:
        return None
    decoded = decode_value(TRANSACTION_STATE, record.key, record.value)
    if decoded is not None and not isinstance(decoded.message, TransactionLogValue):
        return UnreadableRecord(record.offset, decoded.problem or "no TransactionLogValue")
    return Registration(
        place=place,
        offset=record.offset,
        timestamp=record.timestamp,
        transactional_id=transactional_id,
        value=None if decoded is None else decoded.message,
        leader_epoch=record.leader_epoch,
    )


@lru_cache(maxsize=_KEYS)
def _id_of(key: bytes | None) -> tuple[str | None, str | None]:
    """The transactional id in a key, or why it cannot be read; neither of a key that is about none."""
    decoded = decode_key(TRANSACTION_STATE, key)
    if decoded is None or decoded.name is None:
        return None, None  # Kafka passes over keys of types that it does not know
    if not isinstance(decoded.message, TransactionLogKey):
        return None, decoded.problem or decoded.name
    return decoded.message.transactional_id, None


def producer_ids(value: TransactionLogValue) -> tuple[int, ...]:
    """The producer ids that a record names, its own first; each once."""
    named = (value.producer_id, value.previous_producer_id, value.next_producer_id)
    return tuple(dict.fromkeys(producer_id for producer_id in named if producer_id >= 0))


class IdLog:
    """One partition of `__transaction_state`: the newest record of each id, and which producer ids each has used."""

    def __init__(self) -> None:
        self._newest: dict[str, Registration] = {}
        self._owners: dict[int, tuple[bool, str]] = {}
        self.unreadable: UnreadableRecord | None = None

    def add(self, found: Registration | UnreadableRecord) -> None:
        """Take the next record, in offset order."""
        if isinstance(found, UnreadableRecord):
            self.unreadable = found
            return
        self._newest[found.transactional_id] = found
        if found.value is None:
            return
        for producer_id in producer_ids(found.value):
            current = producer_id == found.value.producer_id
            if current or not self._owners.get(producer_id, (False, ""))[0]:
                self._owners[producer_id] = (current, found.transactional_id)

    def newest(self, transactional_id: str) -> Registration | None:
        """The newest record of an id."""
        return self._newest.get(transactional_id)

    def records(self) -> Iterable[Registration]:
        """The newest record of each id."""
        return self._newest.values()

    def producer_ids(self) -> Iterable[int]:
        """Every producer id that a record names."""
        return self._owners.keys()

    def owner(self, producer_id: int) -> Owner | None:
        """The transactional id that the producer id belongs to; None where no record names it."""
        if producer_id not in self._owners:
            return None
        current, transactional_id = self._owners[producer_id]
        return Owner(producer_id=producer_id, current=current, newest=self._newest[transactional_id])


class IdFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one partition of `__transaction_state`.

    Attributes:
        settled: number of ids that have not expired and are in no Prepare state. `prepared`: the newest records of
            those in one, in the order of their first records.
        owners: by producer id.
        uses: every producer id that an id has had as its own, in the order of their first records.
        decisions: the transactions that its ids have decided.
        unreadable: the last record that could not be decoded.
        intact: no record is missing, from the first offset on.
        answers: of `ID_CHECKS`.
        completed: some of the decisions that were carried out.
    """

    settled: int
    prepared: tuple[Registration, ...]
    owners: Mapping[int, Owner]
    uses: tuple[ProducerIdUse, ...]
    decisions: Decided
    unreadable: UnreadableRecord | None
    intact: bool
    answers: tuple[Answer, ...]
    completed: tuple[DecisionTime, ...] = ()


def pick_owner(owners: Iterable[Owner]) -> Owner | None:
    """One of several: ids never share a producer id; where logs disagree, the newest record that names it counts."""

    def rank(owner: Owner) -> tuple[bool, int, int]:
        return owner.current, owner.newest.timestamp, owner.newest.place.partition

    return max(owners, key=rank, default=None)
