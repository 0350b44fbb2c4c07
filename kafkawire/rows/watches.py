"""Rows of `txn watch`: changes, and polls."""

from __future__ import annotations

import msgspec

from kafkawire.rows.audits import Finding
from kafkawire.rows.base import Row


class Change(Row, frozen=True, kw_only=True):
    """A difference between two successive polls.

    Attributes:
        time: time of the later poll, epoch milliseconds.
        poll: number of the later poll.
        change: `appeared`, `changed` (verdict, reason, or blocked for too long) or `gone` for a finding; `lost` or
            `regained` for coverage.
        subject: the transaction, or what could not be read.
        before: the previous verdict and reason of the finding.
        text: the reason of the change, as a sentence.
        finding: the finding of the later poll; if it is gone, that of the earlier one.
    """

    kind: str = "change"
    time: int
    poll: int
    change: str
    subject: str
    before: str | None = None
    text: str | None = None
    finding: Finding | None = None


class Poll(Row, frozen=True, kw_only=True):
    """One poll of a cluster.

    Attributes:
        time: start of the poll, epoch milliseconds.
        poll: its number, from 1.
        duration_ms: its duration.
        outcome: `complete`; `incomplete` if something could not be read or judged; `failed` if nothing could be read.
        error: the reason of a failed poll.
        missed: number of polls that were due and skipped since the previous one, because it took too long.
        brokers: node ids of the cluster.
        partitions: number of partitions that were read.
        failed_partitions: number of partitions that could not be read.
        transactions: number of open transactions by verdict and reason.
        gaps: sentences on what is missing.
    """

    kind: str = "poll"
    time: int
    poll: int
    duration_ms: int
    outcome: str
    error: str | None = None
    missed: int = 0
    brokers: tuple[int, ...] = ()
    partitions: int = 0
    failed_partitions: int = 0
    transactions: dict[str, int] = msgspec.field(default_factory=dict)
    gaps: tuple[str, ...] = ()
