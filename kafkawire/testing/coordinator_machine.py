"""The transaction coordinator as a state machine: an id's state and a request give its next state and the answer.

    before = TransactionMetadata.of(value)                         # a record of `__transaction_state`
    after, error = end(before, before.producer_id, before.epoch, committed=True, version=2, now=1000)
    after.record()                                                 # the next one

Pure functions, after Kafka 4.4.0's `TransactionCoordinator` and `TransactionMetadata`: time, new producer ids and the
transaction version come from the caller. Pending transitions and failed appends, which no log shows, are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import (
    IDLE,
    MAX_EPOCH,
    PREPARED,
    is_exhausted,
    partition_list,
    partitions_of,
    raises_epoch,
    state_name,
    status_of,
)

NONE = 0
UNKNOWN_SERVER_ERROR = -1
INVALID_REQUEST = 42
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
PRODUCER_FENCED = 90  # INVALID_PRODUCER_EPOCH (47) to InitProducerId before version 4

Partitions = frozenset[tuple[str, int]]


class TransactionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator keeps of a transactional id (Kafka's class of the same name).

    Attributes:
        previous_producer_id, next_producer_id: -1 for none. `epoch`: -1 before the first InitProducerId.
        last_epoch: the one before, for retries (KIP-360); held in memory only, -1 where it is not known.
        started, updated: epoch milliseconds; `started` is -1 without a transaction.
        version: of the transaction (client transaction version).
    """

    producer_id: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    epoch: int = -1
    last_epoch: int = -1
    timeout_ms: int
    state: str = "Empty"
    partitions: Partitions = frozenset()
    started: int = -1
    updated: int = -1
    version: int = 0

    @classmethod
    def of(cls, value: TransactionLogValue) -> TransactionMetadata:
        """The state that a coordinator loads from a record of its log."""
        return cls(
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=state_name(value.transaction_status),
            partitions=partitions_of(value),
            started=value.transaction_start_timestamp_ms,
            updated=value.transaction_last_update_timestamp_ms,
            version=value.client_transaction_version,
        )

    def record(self) -> TransactionLogValue:
        """The record that a coordinator writes (`TransactionLog.valueToBytes`), topics and partitions in order."""
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=status_of(self.state),
            transaction_partitions=None if self.state == "Empty" else partition_list(self.partitions),
            transaction_last_update_timestamp_ms=self.updated,
            transaction_start_timestamp_ms=self.started,
            client_transaction_version=self.version,
        )


class Transition(NamedTuple):
    """The result of a request: the id's state after it (unchanged where it is refused), and Kafka's error code."""

    after: TransactionMetadata
    error: int = NONE


# InitProducerId (KIP-98, KIP-360) -------------------------------------------------------------------------------------


def create(producer_id: int, timeout_ms: int, now: int) -> TransactionMetadata:
    """An id that was never used: what InitProducerId finds then.

    Args:
        timeout_ms: of its transactions. `now`: epoch milliseconds.
    """
    return TransactionMetadata(producer_id=producer_id, timeout_ms=timeout_ms, updated=now)


def timeout_of(wanted_ms: int, max_timeout_ms: int) -> int | None:
    """The timeout that an id gets; None: INVALID_TRANSACTION_TIMEOUT."""
    return wanted_ms if 0 < wanted_ms <= max_timeout_ms else None


def init_producer_id(
    before: TransactionMetadata,
    *,
    timeout_ms: int,
    now: int,
    new_producer_id: int,
    expected: tuple[int, int] | None = None,
    version: int = 0,
) -> Transition:
    """A producer begins, or continues after an error.

    Args:
        new_producer_id: the one that is taken where the epochs of the present one are used up.
        expected: the producer id and epoch that it believes to have (KIP-360); None: none, which always fences.
        version: transaction version of the cluster, for a transaction that has to be aborted first.
    """
    if expected is not None and -1 in expected:
        return Transition(before, INVALID_REQUEST)  # half of it is missing (`KafkaApis`)
    if expected is not None and not _is_own(before, *expected):
        return Transition(before, PRODUCER_FENCED)
    if before.state in PREPARED:
        return Transition(before, CONCURRENT_TRANSACTIONS)
    if before.state == "Ongoing":
        return Transition(
            fence(before, now=now, version=version, new_producer_id=new_producer_id), CONCURRENT_TRANSACTIONS
        )
    assert before.state in IDLE, before.state
    fresh = replace(
        before,
        previous_producer_id=before.producer_id,
        timeout_ms=timeout_ms,
        state="Empty",
        partitions=frozenset(),
        started=-1,
        updated=now,
    )
    epoch = before.epoch
    if is_exhausted(epoch) and (expected is None or expected[1] == epoch):
        last = -1 if expected is None else epoch
        return Transition(replace(fresh, producer_id=new_producer_id, epoch=0, last_epoch=last))
    if is_exhausted(epoch):
        return Transition(before, UNKNOWN_SERVER_ERROR)  # Kafka's IllegalStateException
    if expected is None:
        return Transition(replace(fresh, epoch=epoch + 1, last_epoch=-1))
    if epoch == -1 or expected[1] == epoch:
        return Transition(replace(fresh, epoch=epoch + 1, last_epoch=epoch))
    if expected[1] == before.last_epoch:
        return Transition(fresh)  # a retry: the answer was lost
    return Transition(before, PRODUCER_FENCED)


def _is_own(before: TransactionMetadata, producer_id: int, epoch: int) -> bool:
    """Whether a producer that comes back can be the owner of the transactional id: it has the same producer id, or the
    previous one, whose epochs are used up. Any producer can own an id that is new (after it had expired)."""
    if before.epoch == -1 or producer_id == before.producer_id:
        return True
    return producer_id == before.previous_producer_id and is_exhausted(epoch)


# AddPartitionsToTxn ---------------------------------------------------------------------------------------------------


def add_partitions(
    before: TransactionMetadata,
    producer_id: int,
    epoch: int,
    partitions: Collection[tuple[str, int]],
    *,
    now: int,
    version: int = 0,
) -> Transition:
    """Partitions (those of a group's offsets, too) become part of the transaction, which begins where none has.

    Args:
        version: of the transaction: 2 where a broker asks on behalf of Produce 12 and later, else 0.
    """
    if producer_id != before.producer_id:
        return Transition(before, INVALID_PRODUCER_ID_MAPPING)
    if epoch != before.epoch:
        return Transition(before, PRODUCER_FENCED)
    if before.state in PREPARED:
        return Transition(before, CONCURRENT_TRANSACTIONS)
    if before.state == "Ongoing" and before.partitions.issuperset(partitions):
        return Transition(before)
    after = replace(
        before,
        previous_producer_id=before.producer_id,
        state="Ongoing",
        partitions=before.partitions.union(partitions),
        started=now if before.state in IDLE else before.started,
        updated=now,
        version=version,
    )
    return Transition(after)


# EndTxn and what the coordinator ends by itself -----------------------------------------------------------------------

#: State, and whether COMMIT is asked for -> the answer to an EndTxn of a transaction below version 2, where it has the
#: right producer id and epoch; None: the transaction ends.
_END = {
    ("Empty", True): INVALID_TXN_STATE,
    ("Empty", False): INVALID_TXN_STATE,
    ("Ongoing", True): None,
    ("Ongoing", False): None,
    ("PrepareCommit", True): CONCURRENT_TRANSACTIONS,
    ("PrepareCommit", False): INVALID_TXN_STATE,
    ("PrepareAbort", True): INVALID_TXN_STATE,
    ("PrepareAbort", False): CONCURRENT_TRANSACTIONS,
    ("CompleteCommit", True): NONE,
    ("CompleteCommit", False): INVALID_TXN_STATE,
    ("CompleteAbort", True): INVALID_TXN_STATE,
    ("CompleteAbort", False): NONE,
}

#: From version 2 on, where the epoch tells a retry from the next request: a retry is answered as above, and what is
#: none may abort where nothing has begun.
_END_NEXT = _END | {
    ("Empty", False): None,
    ("CompleteCommit", True): INVALID_TXN_STATE,
    ("CompleteCommit", False): None,
    ("CompleteAbort", False): None,
}


def end(
    before: TransactionMetadata,
    producer_id: int,
    epoch: int,
    *,
    committed: bool,
    now: int,
    version: int = 0,
    new_producer_id: int = -1,
) -> Transition:
    """EndTxn of a producer: PrepareCommit or PrepareAbort; `complete` follows when the markers are written.

    Args:
        version: of the transaction: 2 for EndTxn 5 and later where the cluster has it, else 0.
        new_producer_id: the one that is taken where version 2 uses up the epochs of the present one.
    """
    answers = _END
    retry = False
    if raises_epoch(version):
        overflown = before.previous_producer_id == producer_id and epoch == MAX_EPOCH - 1 and before.epoch == 0
        retry = overflown or before.epoch == epoch + 1
        answers = _END if retry else _END_NEXT
        same = producer_id == before.producer_id or overflown
        if before.state in PREPARED:
            current = before.epoch == epoch + 1
        elif before.state in ("CompleteCommit", "CompleteAbort"):
            current = retry or epoch == before.epoch
        else:
            current = epoch == before.epoch
    else:
        same, current = producer_id == before.producer_id, epoch == before.epoch
    if not same:
        return Transition(before, INVALID_PRODUCER_ID_MAPPING)
    if not current:
        return Transition(before, PRODUCER_FENCED)
    error = answers[before.state, committed]
    if error is not None:
        return Transition(before, error)
    state = "PrepareCommit" if committed else "PrepareAbort"
    return Transition(_prepare(before, state, now, version, new_producer_id))


def fence(before: TransactionMetadata, *, now: int, version: int, new_producer_id: int = -1) -> TransactionMetadata:
    """An Ongoing transaction that the coordinator aborts by itself, over its time or for a new producer: the epoch is
    raised so that the present producer is fenced.

    Args:
        version: transaction version of the cluster.
    """
    assert before.state == "Ongoing", before.state
    if raises_epoch(version):
        return _prepare(before, "PrepareAbort", now, version, new_producer_id)
    raised = replace(before, epoch=min(before.epoch + 1, MAX_EPOCH), last_epoch=-1)
    return _prepare(raised, "PrepareAbort", now, version, new_producer_id)


def _prepare(
    before: TransactionMetadata, state: str, now: int, version: int, new_producer_id: int
) -> TransactionMetadata:
    after = replace(
        before,
        previous_producer_id=before.producer_id,
        next_producer_id=-1,
        state=state,
        started=now if before.state in IDLE else before.started,
        updated=now,
        version=version if raises_epoch(version) else 0,
    )
    if not raises_epoch(version):
        return after
    rotated = new_producer_id if is_exhausted(before.epoch) else -1
    raised = min(before.epoch + 1, MAX_EPOCH)
    return replace(after, epoch=raised, last_epoch=before.epoch, next_producer_id=rotated)


def complete(before: TransactionMetadata, *, now: int) -> TransactionMetadata:
    """The state once all markers are written. Where the epochs were used up, the id goes on with its next producer id
    at epoch 0."""
    assert before.state in PREPARED, before.state
    rotates = raises_epoch(before.version) and before.next_producer_id != -1
    return replace(
        before,
        producer_id=before.next_producer_id if rotates else before.producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=-1,
        epoch=0 if rotates else before.epoch,
        state=before.state.replace("Prepare", "Complete"),
        partitions=frozenset(),
        updated=now,
    )
