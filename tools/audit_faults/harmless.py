"""The faults that the audit need not name, as data: the reason why they mislead no reader, patterns of the faults, and
a condition."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

from kafkawire.transactions.coordinator.coordinator_rules import NEVER, state_name
from tools.audit_faults.faults import EPOCHS, LogFault
from tools.audit_faults.layouts import Row


class Harmless(NamedTuple):
    """Faults that are harmless for one reason.

    Attributes:
        faults: patterns (`fnmatch`) of `structure.field change`.
        when: which of these; None: all that the audit does not name.
    """

    reason: str
    faults: tuple[str, ...]
    when: Callable[[LogFault], bool] | None = None


def _lags(fault: LogFault) -> bool:
    """Whether a high watermark of these directories is below the end (`sound`)."""
    return fault.seed % 3 == 1


def _is_retained(fault: LogFault) -> bool:
    """Whether a log of these directories begins after deleted segments (`sound`)."""
    return fault.seed % 3 == 2


def _before(holds: Callable[[Row], bool]) -> Callable[[LogFault], bool]:
    """Of the element that is changed."""
    return lambda fault: holds(fault.row)


def _after(holds: Callable[[Row], bool]) -> Callable[[LogFault], bool]:
    """Of what the element becomes."""
    return lambda fault: fault.after is not None and holds(fault.after)


def _state(*names: str) -> Callable[[LogFault], bool]:
    return _before(lambda row: state_name(row["transaction_status"]) in names)


#: The first that fits counts.
HARMLESS = (
    Harmless("not under the checksum; which leader wrote a batch decides no rule", ("*.partitionLeaderEpoch *",)),
    Harmless(
        "records count their times from it; rules use the newest", ("batch.baseTimestamp *", "marker.baseTimestamp *")
    ),
    Harmless("whose clock it is; no rule rests on it", ("batch.timestampType *", "marker.timestampType *")),
    Harmless(
        "a time that no other record contradicts",
        (
            "batch.maxTimestamp *", "marker.maxTimestamp *", "TransactionLogValue.timestamp *",
            "TransactionLogValue.transaction_last_update_timestamp_ms *", "ProducerIdsRecord.timestamp *",
        ),
    ),
    Harmless(
        "offsets are missing: what rests on them is reported as not checkable",
        (
            "batch.baseOffset *", "marker.baseOffset *", "batch.lastOffsetDelta *", "batch removed", "marker removed",
            "TransactionLogValue removed", "ProducerIdsRecord removed",
        ),
    ),
    Harmless("rules count offsets, not records; `dump` reports what cannot be read", ("batch.recordsCount *",)),
    Harmless(
        "of no producer: no rule of transactions is about it",
        ("batch.baseSequence *", "batch.producerEpoch *", "batch.isControl *"),
        _before(lambda row: row["producerId"] < 0),
    ),
    Harmless(
        "of no transaction: a producer without other batches before may begin with any number",
        ("batch.producerId *",),
        _before(lambda row: not row["isTransactional"]),
    ),
    Harmless(
        "the log does not show what was before: the producer's first batch may have any number and epoch",
        ("batch.baseSequence *", "batch.producerEpoch *"),
        _before(lambda row: row["baseSequence"] == 0),
    ),
    Harmless(
        "in a committed transaction, and of no producer then: no rule is about it, and all readers get it either way",
        ("batch.producerId *",),
        _after(lambda row: row["producerId"] < 0),
    ),
    Harmless("its transaction is committed: all readers get it either way", ("batch.isTransactional *",)),
    Harmless("Kafka reads later versions as the one that it knows", ("marker.keyVersion *", "marker.valueVersion *")),
    Harmless("an epoch is compared with those before; later elections are legal", ("marker.coordinatorEpoch *",)),
    Harmless(
        "a producer may ask for any timeout when it begins",
        ("TransactionLogValue.transaction_timeout_ms *",),
        _state("Empty"),
    ),
    Harmless(
        "clients of any version may go on with an id",
        ("TransactionLogValue.client_transaction_version *",),
        _state("Empty", "Ongoing"),
    ),
    Harmless(
        "under two-phase commit (KIP-939) ids are announced at other times",
        ("TransactionLogValue.next_producer_id *",),
        _before(lambda row: row["transaction_timeout_ms"] == NEVER),
    ),
    Harmless("brokers neither write nor read it (KIP-939)", ("TransactionLogValue.next_producer_epoch *",)),
    Harmless(
        "the next record may add it with others", ("TransactionLogValue.partitions one removed",), _state("Ongoing")
    ),
    Harmless("a set: Kafka counts a partition once", ("TransactionLogValue.partitions one repeated",)),
    Harmless("a transaction may list a partition without data", ("TransactionLogValue.partitions one added",)),
    Harmless("a retry is answered by the same record (KIP-360)", ("TransactionLogValue repeated*",)),
    Harmless("those of different ids are in no order", ("TransactionLogValue swapped*", ".snapshot swapped*")),
    Harmless(
        "the last of a segment: what follows it may not have been copied", ("* of one replica removed",)
    ),
    Harmless("not below both high watermarks", ("* of one replica*",), _lags),
    Harmless("who asked for the block; nothing follows from it", ("ProducerIdsRecord.broker_*",)),
    Harmless(
        "the transaction, or what held it, may have begun where the log is deleted",
        (".txnindex.first_offset *", ".txnindex.last_stable_offset *"),
        _is_retained,
    ),
    Harmless(
        "what begins after the marker may be of the same append",
        (".txnindex.last_stable_offset *",),
        _after(lambda row: row["last_stable_offset"] > row["last_offset"]),
    ),
    Harmless(
        "brokers forget idle producers",
        (".snapshot removed", ".snapshot.producer_id *"),
        _before(lambda row: row["current_txn_first_offset"] < 0),
    ),
    Harmless("Kafka keeps the last entry of a producer", (".snapshot repeated",)),
    Harmless(
        "-1: the producer was forgotten and has come back",
        (".snapshot.coordinator_epoch *",),
        _after(lambda row: row["coordinator_epoch"] == -1),
    ),
    Harmless("the log below is deleted: the file alone knows", (".snapshot.*", ".snapshot removed"), _is_retained),
    Harmless(
        "no producer's batch is between the offsets, or the log ends below the file's", (".snapshot file named*",)
    ),
    Harmless("a replica may lag: it is written every 5 s", ("checkpoint.offset *",)),
    Harmless("no tier is here to be joined along it, and no rule of a log rests on it", (f"{EPOCHS}*",)),
    Harmless(
        "a file that may not have been copied: what needs it is reported as not checkable",
        ("checkpoint*", "* file removed", "* file emptied"),
    ),
    Harmless("the end of the last line: Kafka reads it", ("*checkpoint file last byte missing",)),
)  # fmt: skip


def reason_of(fault: LogFault) -> str | None:
    """Why the audit need not name a fault; None where it must."""
    name = f"{fault.structure}.{fault.field} {fault.change}" if fault.field else f"{fault.structure} {fault.change}"
    for one in HARMLESS:
        if any(fnmatchcase(name, pattern) for pattern in one.faults) and (one.when is None or one.when(fault)):
            return one.reason
    return None
