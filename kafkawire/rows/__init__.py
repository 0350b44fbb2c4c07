"""Rows: the elements of jsonl and csv output, Parquet files and Spark tables. Each kind of row has a class.

Fields are in the order in which they are printed, and their names are public. Timestamps are epoch milliseconds unless
the name has another unit. An unknown value is None. A field that was not requested (payloads, bodies) is `UNSET` and is
left out of the output. Text has surrogate escapes (PEP 383) for bytes that are no UTF-8.

Each name is imported on first use: a command loads the rows that it prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire._first_use import on_first_use

if TYPE_CHECKING:
    from kafkawire.rows.audits import (
        Audit,
        CheckAnswer,
        Coverage,
        Finding,
        Omitted,
        Outcome,
        Setting,
        Unread,
        Violation,
    )
    from kafkawire.rows.base import Columns, Json, Lines, LogRow, Row, RowOrigin, field_names, text_or_base64, to_dict
    from kafkawire.rows.blockers import Blocker, FillShare, HistoryEvent, Hold, Subject, Wait, Why
    from kafkawire.rows.captures import Exchange, ExchangeStatistics, OldClient, TimelineStep
    from kafkawire.rows.causes import Cause
    from kafkawire.rows.checkups import Checkup, IdCensus, ProducerCensus, Risk
    from kafkawire.rows.comparisons import ComparedPartition, CopyDifference, MirroredOffset
    from kafkawire.rows.elections import PartitionEvent
    from kafkawire.rows.explanations import (
        CoordinatorStep,
        EqualRecords,
        OffsetStanding,
        PartialTransaction,
        PartialTransactionTotal,
        ReplicaBounds,
        StatusRange,
        StatusTotal,
        TransactionStory,
    )
    from kafkawire.rows.impacts import GroupLag, HeldCompaction, Impact, OffsetRange, TransactionData, TransactionRecord
    from kafkawire.rows.lags import Lag, LagCount
    from kafkawire.rows.logs import (
        LOG_ROWS,
        Check,
        Checkpoint,
        Epoch,
        Index,
        PropertyRow,
        Snapshot,
        Stats,
        TimeIndex,
        TxnIndex,
    )
    from kafkawire.rows.premises import Premise
    from kafkawire.rows.segments import BatchRow, DamageRow, HeaderRow, RecordRow
    from kafkawire.rows.share_groups import DeadLetter, SharePartitionState, ShareRange, ShareStep, ShareTotal
    from kafkawire.rows.watches import Change, Poll
    from kafkawire.rows.witnesses import (
        BatchEvidence,
        CommitAnomaly,
        CommitTotal,
        DeliveryAnomaly,
        FateTotal,
        OrderAnomaly,
        ReadAnomaly,
        ReadTotal,
        TransactionAnomaly,
        TransactionTotal,
        WitnessSummary,
    )

#: Module -> its names.
_NAMES = {
    "audits": "Audit CheckAnswer Coverage Finding Omitted Outcome Setting Unread Violation",
    "base": "Columns Json Lines LogRow Row RowOrigin field_names text_or_base64 to_dict",
    "blockers": "Blocker FillShare HistoryEvent Hold Subject Wait Why",
    "captures": "Exchange ExchangeStatistics OldClient TimelineStep",
    "causes": "Cause",
    "checkups": "Checkup IdCensus ProducerCensus Risk",
    "comparisons": "ComparedPartition CopyDifference MirroredOffset",
    "explanations": (
        "CoordinatorStep EqualRecords OffsetStanding PartialTransaction PartialTransactionTotal ReplicaBounds "
        "StatusRange StatusTotal TransactionStory"
    ),
    "impacts": "GroupLag HeldCompaction Impact OffsetRange TransactionData TransactionRecord",
    "lags": "Lag LagCount",
    "logs": "LOG_ROWS Check Checkpoint Epoch Index PropertyRow Snapshot Stats TimeIndex TxnIndex",
    "premises": "Premise",
    "segments": "BatchRow DamageRow HeaderRow RecordRow",
    "elections": "PartitionEvent",
    "share_groups": "DeadLetter SharePartitionState ShareRange ShareStep ShareTotal",
    "watches": "Change Poll",
    "witnesses": (
        "BatchEvidence CommitAnomaly CommitTotal DeliveryAnomaly FateTotal OrderAnomaly ReadAnomaly ReadTotal "
        "TransactionAnomaly TransactionTotal WitnessSummary"
    ),
}

__all__ = [
    "LOG_ROWS",
    "Audit",
    "BatchEvidence",
    "BatchRow",
    "Blocker",
    "Cause",
    "Change",
    "Check",
    "CheckAnswer",
    "Checkpoint",
    "Checkup",
    "Columns",
    "CommitAnomaly",
    "CommitTotal",
    "ComparedPartition",
    "CoordinatorStep",
    "CopyDifference",
    "Coverage",
    "DamageRow",
    "DeadLetter",
    "DeliveryAnomaly",
    "Epoch",
    "EqualRecords",
    "Exchange",
    "ExchangeStatistics",
    "FateTotal",
    "FillShare",
    "Finding",
    "GroupLag",
    "HeaderRow",
    "HeldCompaction",
    "HistoryEvent",
    "Hold",
    "IdCensus",
    "Impact",
    "Index",
    "Json",
    "Lag",
    "LagCount",
    "Lines",
    "LogRow",
    "MirroredOffset",
    "OffsetRange",
    "OffsetStanding",
    "OldClient",
    "Omitted",
    "OrderAnomaly",
    "Outcome",
    "PartialTransaction",
    "PartialTransactionTotal",
    "PartitionEvent",
    "Poll",
    "Premise",
    "ProducerCensus",
    "PropertyRow",
    "ReadAnomaly",
    "ReadTotal",
    "RecordRow",
    "ReplicaBounds",
    "Risk",
    "Row",
    "RowOrigin",
    "Setting",
    "SharePartitionState",
    "ShareRange",
    "ShareStep",
    "ShareTotal",
    "Snapshot",
    "Stats",
    "StatusRange",
    "StatusTotal",
    "Subject",
    "TimeIndex",
    "TimelineStep",
    "TransactionAnomaly",
    "TransactionData",
    "TransactionRecord",
    "TransactionStory",
    "TransactionTotal",
    "TxnIndex",
    "Unread",
    "Violation",
    "Wait",
    "Why",
    "WitnessSummary",
    "field_names",
    "text_or_base64",
    "to_dict",
]

if not TYPE_CHECKING:  # checkers report names that are not there
    __getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
