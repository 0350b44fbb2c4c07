"""The rows of `txn watch`: what changed, and how each poll went."""

from __future__ import annotations

import msgspec

from kafkawire.rows.audits import Finding
from kafkawire.rows.base import Row


class Change(Row, frozen=True, kw_only=True):
    """Something that is different from the poll before.

    Attributes:
        time: of the poll, epoch milliseconds. `poll`: its number.
        change: of a finding `appeared`, `changed` (its verdict or reason) or `gone`; of coverage `lost` or `regained`.
        subject: the transaction, or what could not be read.
        before: the verdict and reason that a finding had.
        text: why, as a sentence.
        finding: as it is now; of one that is gone, as it was last.
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
    """One poll.

    Attributes:
        time: when it began, epoch milliseconds. `poll`: its number, from 1 on; `duration_ms` how long it took.
        outcome: `complete`, `incomplete` (something could not be read, or not judged) or `failed` (nothing could).
        error: why it failed.
        missed: polls that were due since the last one and did not take place, because that took so long.
        brokers: of the cluster. `partitions`: that were read; `failed_partitions` that could not be.
        transactions: open ones, by verdict and reason. `gaps`: what is missing, in sentences.
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
