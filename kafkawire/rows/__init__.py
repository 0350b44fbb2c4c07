"""The rows that tools read: one Struct a kind, its fields in the order in which they are printed.

jsonl, csv, Arrow and Spark schemas and the documentation derive from these. Field names are public. Timestamps are
epoch milliseconds unless the name says otherwise; what is not known is None. A field that was not asked for (payloads,
bodies) is `UNSET` and does not appear at all. Text may hold surrogate escapes where Kafka carried bytes that are no
UTF-8.
"""

from kafkawire.rows.audits import Audit, CheckAnswer, Coverage, Finding, Outcome, Setting, Unread, Violation
from kafkawire.rows.base import Columns, Json, Lines, Row, RowOrigin, field_names, text_or_base64, to_dict
from kafkawire.rows.captures import Exchange, ExchangeStatistics, Step
from kafkawire.rows.logs import (
    LOG_ROWS,
    Check,
    Checkpoint,
    Epoch,
    Index,
    Metadata,
    Snapshot,
    Stats,
    TimeIndex,
    TxnIndex,
)
from kafkawire.rows.segments import Batch, Damage, Header, Record
from kafkawire.rows.watches import Change, Poll

__all__ = [
    "LOG_ROWS",
    "Audit",
    "Batch",
    "Change",
    "Check",
    "CheckAnswer",
    "Checkpoint",
    "Columns",
    "Coverage",
    "Damage",
    "Epoch",
    "Exchange",
    "ExchangeStatistics",
    "Finding",
    "Header",
    "Index",
    "Json",
    "Lines",
    "Metadata",
    "Outcome",
    "Poll",
    "Record",
    "Row",
    "RowOrigin",
    "Setting",
    "Snapshot",
    "Stats",
    "Step",
    "TimeIndex",
    "TxnIndex",
    "Unread",
    "Violation",
    "field_names",
    "text_or_base64",
    "to_dict",
]
