"""The faults that the audit need not name, as data: structure, field, change, and and why it misleads no reader."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

from kafkawire.transactions.coordinator_rules import NEVER
from tools.audit_faults.faults import Fault


class Harmless(NamedTuple):
    """Kinds of faults that are harmless.

    Attributes:
        structure, field, change: patterns (`fnmatch`).
        when: of these, which; None: all that the audit does not name.
    """

    structure: str
    field: str
    change: str
    reason: str
    when: Callable[[Fault], bool] | None = None


_UNSAID = "offsets are missing: what rests on them is reported as not checkable"
_CLOCK = "a time that no other record contradicts"
_NOT_COPIED = "a file that may not have been copied: what needs it is reported as not checkable"
_FIRST = "the log does not show what was before: the producer's first batch may have any number and epoch"
_DELETED = "the log below is deleted: the file alone knows"

#: The first that fits counts.
HARMLESS: tuple[Harmless, ...] = (
    Harmless("*", "partitionLeaderEpoch", "*", "not under the checksum; which leader wrote a batch decides no rule"),
    Harmless("*", "baseTimestamp", "*", "records count their times from it; rules use the newest"),
    Harmless("*", "timestampType", "*", "whose clock it is; no rule rests on it"),
    Harmless("*", "maxTimestamp", "*", _CLOCK),
    Harmless("batch", "recordsCount", "*", "rules count offsets, not records; `dump` reports what cannot be read"),
    Harmless("batch", "lastOffsetDelta", "*", _UNSAID),
    Harmless("batch*", "baseOffset", "*", _UNSAID),
    Harmless("marker*", "baseOffset", "*", _UNSAID),
    Harmless("batch", "", "removed", _UNSAID),
    Harmless("marker", "", "removed", _UNSAID),
    Harmless("batch", "baseSequence", "*", _FIRST),
    Harmless("batch", "producerEpoch", "*", _FIRST),
    Harmless("batch", "producerId", "*", "a batch of no transaction, by a producer of which nothing else is there"),
    Harmless("batch", "isTransactional", "*", "its transaction is committed: all readers get it either way"),
    Harmless("batch", "isControl", "*", "of no producer: no marker, and no rule of transactions is about it"),
    Harmless("marker", "keyVersion", "*", "Kafka reads later versions as the one that it knows"),
    Harmless("marker", "valueVersion", "*", "Kafka reads later versions as the one that it knows"),
    Harmless("marker", "coordinatorEpoch", "*", "an epoch is compared with those before; later elections are legal"),
    Harmless("marker", "producerId", "*", "a marker that ends nothing, as coordinators may write"),
    Harmless("marker", "isControl", "*", "its transaction had no data: the marker ended nothing"),
    Harmless("TransactionLogValue", "timestamp", "*", _CLOCK),
    Harmless("TransactionLogValue", "transaction_last_update_timestamp_ms", "*", _CLOCK),
    Harmless("TransactionLogValue", "transaction_timeout_ms", "*", "a producer may ask for any timeout when it begins"),
    Harmless("TransactionLogValue", "client_transaction_version", "*", "clients of any version may go on with an id"),
    Harmless("TransactionLogValue", "next_producer_id", "*", "under two-phase commit (KIP-939) ids are announced at "
             "other times", lambda fault: fault.row["transaction_timeout_ms"] == NEVER),
    Harmless("TransactionLogValue", "next_producer_epoch", "*", "brokers neither write nor read it (KIP-939)"),
    Harmless("TransactionLogValue", "partitions", "one repeated", "a set: Kafka counts a partition once"),
    Harmless("TransactionLogValue", "partitions", "one added", "a transaction may list a partition without data"),
    Harmless("TransactionLogValue", "", "removed", _UNSAID),
    Harmless("TransactionLogValue", "", "repeated*", "a retry is answered by the same record (KIP-360)"),
    Harmless("TransactionLogValue", "", "swapped*", "records of different ids are in no order"),
    Harmless("* of one replica", "*", "*", "not below both high watermarks, or the last of a segment: what follows it "
             "may not have been copied"),
    Harmless("ProducerIdsRecord", "timestamp", "*", _CLOCK),
    Harmless("ProducerIdsRecord", "broker_*", "*", "who asked for the block; nothing follows from it"),
    Harmless("ProducerIdsRecord", "", "removed", _UNSAID),
    Harmless(".txnindex", "first_offset", "*", "the transaction may have begun where the log is deleted"),
    Harmless(".txnindex", "last_stable_offset", "*", "what held it may have begun where the log is deleted, or in the "
             "same append"),
    Harmless(".snapshot", "", "removed", "brokers forget idle producers"),
    Harmless(".snapshot", "", "repeated", "Kafka keeps the last entry of a producer"),
    Harmless(".snapshot", "", "swapped*", "entries are in no order"),
    Harmless(".snapshot", "producer_id", "*", "brokers forget idle producers; of another one the log is deleted"),
    Harmless(".snapshot", "coordinator_epoch", "*", "-1: the producer was forgotten and has come back"),
    Harmless(".snapshot", "*", "*", _DELETED),
    Harmless(".snapshot file", "", "named*", _DELETED),
    Harmless("checkpoint", "offset", "*", "a replica may lag: it is written every 5 s"),
    Harmless("checkpoint", "*", "*", _NOT_COPIED),
    Harmless("* file", "", "removed", _NOT_COPIED),
    Harmless("* file", "", "emptied", _NOT_COPIED),
    Harmless("*checkpoint file", "", "last byte missing", "the end of the last line: Kafka reads it"),
)  # fmt: skip


def reason_of(fault: Fault) -> str | None:
    """Why the audit need not name a fault; None where it must."""
    for one in HARMLESS:
        alike = zip(one[:3], (fault.structure, fault.field, fault.change), strict=True)
        if all(fnmatchcase(value, pattern) for pattern, value in alike) and (one.when is None or one.when(fault)):
            return one.reason
    return None
