"""The transaction coordinator's rules as tables: states, epochs, timeouts, where an id lives (KIP-98, 890, 939).

Tests compare them with the classes of Kafka 4.4.0. `coordinator_machine` applies them to requests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafkawire.messages import TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema

#: TransactionStatus of TransactionLogValue (Kafka's `TransactionState`).
STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}

#: States without a transaction: a new one can begin, and the id can expire (`TransactionState.isExpirationAllowed`).
IDLE = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
#: Decided, and markers are being written.
PREPARED = frozenset({"PrepareCommit", "PrepareAbort"})
#: All its partitions have the marker.
COMPLETE = frozenset({"CompleteCommit", "CompleteAbort"})
#: State -> what it says of the transaction, which was decided with the first of the two.
OUTCOMES = {"PrepareCommit": "COMMIT", "CompleteCommit": "COMMIT", "PrepareAbort": "ABORT", "CompleteAbort": "ABORT"}
#: A coordinator passes through them; in its log there is a tombstone, or PrepareAbort with a raised epoch, instead.
NEVER_WRITTEN = frozenset({"Dead", "PrepareEpochFence"})

#: State -> the states that it may follow (`TransactionState.validPreviousStates`).
PREVIOUS = {
    "Empty": IDLE,
    "Ongoing": IDLE | {"Ongoing"},
    "PrepareCommit": frozenset({"Ongoing"}),
    "PrepareAbort": IDLE | {"Ongoing", "PrepareEpochFence"},
    "CompleteCommit": frozenset({"PrepareCommit"}),
    "CompleteAbort": frozenset({"PrepareAbort"}),
    "Dead": IDLE,
    "PrepareEpochFence": frozenset({"Ongoing"}),
}

#: The first transaction version that raises the epoch at every end, and aborts where none has begun (KIP-890).
EPOCH_BUMP = 2
#: The newest one (`TransactionVersion` of Kafka 4.4); a coordinator does not load a record with another.
NEWEST_VERSION = 2
#: The highest epoch there is; producers never get it, so that a producer with the one below can still be fenced.
MAX_EPOCH = 2**15 - 1

#: Timeout of a transaction under two-phase commit: never (KIP-939).
NEVER = 2**31 - 1

#: State, and whether the transaction's version raises epochs -> by how much its record's epoch may exceed that of the
#: record before, under the same producer id. At Empty 0 is the answer to a retry (KIP-360). At PrepareAbort below
#: version 2 the coordinator raises it where it aborts by itself; Kafka 4.0.0 did so twice in version 2 (KAFKA-19367).
EPOCH_STEPS = {
    ("Empty", False): frozenset({0, 1}),
    ("Empty", True): frozenset({0, 1}),
    ("Ongoing", False): frozenset({0}),
    ("Ongoing", True): frozenset({0}),
    ("PrepareCommit", False): frozenset({0}),
    ("PrepareCommit", True): frozenset({1}),
    ("PrepareAbort", False): frozenset({0, 1}),
    ("PrepareAbort", True): frozenset({1, 2}),
    ("CompleteCommit", False): frozenset({0}),
    ("CompleteCommit", True): frozenset({0}),
    ("CompleteAbort", False): frozenset({0}),
    ("CompleteAbort", True): frozenset({0}),
}


def state_name(status: int) -> str:
    """Name of a TransactionStatus; `UNKNOWN_<n>` for one that Kafka does not name."""
    name = STATES.get(status)
    return f"UNKNOWN_{status}" if name is None else name


def status_of(name: str) -> int:
    """The TransactionStatus of a name; -1 for one that is not known."""
    return next((status for status, known in STATES.items() if known == name), -1)


def raises_epoch(version: int) -> bool:
    """Whether a transaction of that version raises the epoch when it ends (`TransactionVersion.supportsEpochBump`)."""
    return version >= EPOCH_BUMP


def is_exhausted(epoch: int) -> bool:
    """Whether a producer id with that epoch is used up: its id gets another one (`isEpochExhausted`)."""
    return epoch >= MAX_EPOCH - 1


def follows(before: str | None, after: str | None, version: int) -> bool:
    """Whether one record of an id may come right after another.

    Args:
        before: the state before; None: no record, or a tombstone.
        after: the state of the next record; None: a tombstone. `version`: the transaction version that it names.
    """
    if before is None:
        return after in (None, "Empty")
    if after is None:
        return before in IDLE
    if after in NEVER_WRITTEN or before not in PREVIOUS.get(after, frozenset()):
        return False
    # Only from version 2 on may a producer abort what has not begun.
    return after != "PrepareAbort" or before == "Ongoing" or raises_epoch(version)


def may_expire(state: str, updated_ms: int, now_ms: int, expiration_ms: int) -> bool:
    """Whether a coordinator forgets an id (a tombstone in its log).

    Args:
        state: name of the id's state.
        updated_ms, now_ms: its last update and the coordinator's clock, epoch milliseconds.
        expiration_ms: transactional.id.expiration.ms.
    """
    return state in IDLE and updated_ms <= now_ms - expiration_ms


def timed_out(state: str, started_ms: int, timeout_ms: int, now_ms: int) -> bool:
    """Whether a coordinator aborts an id's transaction by itself; never under two-phase commit.

    Args:
        state: name of the id's state.
        started_ms, now_ms: its start and the coordinator's clock, epoch milliseconds.
        timeout_ms: of the transaction, `NEVER` under two-phase commit.
    """
    return state == "Ongoing" and timeout_ms != NEVER and started_ms + timeout_ms < now_ms


def partition_of_id(transactional_id: str, count: int) -> int:
    """The partition of `__transaction_state` that an id belongs to, of `count`: Java's `String.hashCode`, which counts
    UTF-16 units, and `Utils.abs`, for which the smallest int is 0 (Kafka's `TransactionStateManager.partitionFor`)."""
    data = transactional_id.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % count


# Records --------------------------------------------------------------------------------------------------------------

_NO_PARTITIONS: frozenset[tuple[str, int]] = frozenset()


def partitions_of(value: TransactionLogValue) -> frozenset[tuple[str, int]]:
    """The partitions of an id's transaction. A Prepare record has all of them, whatever has ended since."""
    if not value.transaction_partitions:
        return _NO_PARTITIONS
    return frozenset((entry.topic, number) for entry in value.transaction_partitions for number in entry.partition_ids)


def partition_list(partitions: Iterable[tuple[str, int]]) -> tuple[PartitionsSchema, ...]:
    """The partitions of a transaction in the form of a record, in order (Kafka's are in none)."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsSchema(topic=topic, partition_ids=tuple(ids)) for topic, ids in topics.items())


def begun_ms(value: TransactionLogValue) -> int:
    """When an id's transaction began, epoch milliseconds; where no start is known, its last update, which is later."""
    start = value.transaction_start_timestamp_ms
    return value.transaction_last_update_timestamp_ms if start < 0 else start
