"""The rows of an audit: findings on transactions, violations, and what was read."""

from __future__ import annotations

from typing import ClassVar

from kafkawire.rows.base import Row
from kafkawire.rows.segments import Damage


class Finding(Row, frozen=True, kw_only=True):
    """An open transaction in one partition, and the verdict on it (`audit`, `txn find-hanging`).

    Attributes:
        verdict: hanging, not_hanging or unknown; `reason` one word why; `evidence` the sentences it rests on.
        blocked: whether it holds the last stable offset back now.
        start_offset, last_offset: of its data in the partition. `last_timestamp`: of its last batch.
        age_ms: the clock (`as_of`) minus `last_timestamp`.
        coordinator_epoch: of the producer's last marker in the partition.
        transactional_id, coordinator_state: what the coordinator's log knows; None where it knows nothing.
        action: the command to run, or why there is none.
        cluster_id: of the cluster, where it is known.
        log_start_offset: of the partition.
        marker_timestamp: the newest marker's time (the broker's clock) that stands before its last batch.
        transaction_start_timestamp, transaction_last_update_timestamp, transaction_timeout_ms: of the transactional
            id's newest state, as the coordinator says; None where it says nothing.
    """

    kind: str = "finding"
    verdict: str
    reason: str
    blocked: bool | None = None
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int | None = None
    last_offset: int | None = None
    last_timestamp: int | None = None
    age_ms: int | None = None
    coordinator_epoch: int | None = None
    transactional_id: str | None = None
    coordinator_state: str | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    evidence: tuple[str, ...] = ()
    action: str | None = None
    cluster_id: str | None = None
    log_start_offset: int | None = None
    marker_timestamp: int | None = None
    transaction_start_timestamp: int | None = None
    transaction_last_update_timestamp: int | None = None
    transaction_timeout_ms: int | None = None


class Violation(Row, frozen=True, kw_only=True):
    """A rule of the protocol that the logs break: `check` is its name, `place` where, `what` was found.

    Attributes:
        transactional_id: whose record it is, or whose transaction, where that is known.
    """

    kind: str = "violation"
    check: str
    place: str
    what: str
    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer_id: int | None = None
    transactional_id: str | None = None


class Unread(Row, frozen=True, kw_only=True):
    """A partition that was to be read and was not (`txn find-hanging`).

    Attributes:
        broker_id: that was asked, None where the partition has no leader. `reason`: why it was not read.
    """

    kind: str = "unread"
    topic: str
    partition: int
    broker_id: int | None = None
    reason: str


class Outcome(Row, frozen=True, kw_only=True):
    """Whether something was found, and whether the answer is complete: what exit codes go by.

    Attributes:
        found: whether a transaction hangs or is stuck, or a rule is broken.
        complete: whether everything was read and judged. `missing`: what was not, in sentences.
    """

    kind: str = "outcome"
    found: bool
    complete: bool
    missing: tuple[str, ...] = ()


class CheckAnswer(Row, frozen=True, kw_only=True):
    """What a check says of all that was read.

    Attributes:
        answer: violated, holds (also where there was nothing to judge) or not_checkable (nothing could be judged).
        held, violated, not_checkable: how many steps, entries or transactions were judged so.
        noted: how many were found that are worth knowing and break no rule (open transactions, markers without data).
        lacked: why some could not be judged, in words.
    """

    kind: str = "answer"
    check: str
    answer: str
    held: int = 0
    violated: int = 0
    not_checkable: int = 0
    noted: int = 0
    lacked: tuple[str, ...] = ()


class Setting(Row, frozen=True, kw_only=True):
    """A setting of the cluster that the audit counts with: Kafka's name, and where the value comes from."""

    #: The sources that are no cluster's metadata.
    GIVEN: ClassVar = "given"
    DEFAULT: ClassVar = "Kafka's default"

    name: str
    value: int
    source: str


class Coverage(Row, frozen=True, kw_only=True):
    """What an audit has read.

    Attributes:
        paths: as they were given. `brokers`: node ids of the log directories, where they say so.
        clusters: ids of the clusters, where the log directories say so; what is of several is never joined.
        partitions, segments, batches, bytes: how much was read.
        partitions_chosen: how many partitions were to be read; None for copies of logs, where that is not known.
        transaction_state: partitions of `__transaction_state` that were read; `transaction_state_missing` those that
            were not there, as far as their number is known.
        scope: which partitions were chosen, in a sentence; None for all, or for those of topics that were given.
        clock: where `as_of` comes from.
        complete: whether a transactional id could not have been hidden from the audit.
        gaps: what was missing, in sentences.
        checks: the rules that the logs were held against; `Audit.answers` has what each says.
        settings: of the cluster, each with where it comes from.
    """

    kind: str = "read"
    paths: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    clusters: tuple[str, ...] = ()
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    transaction_state: tuple[int, ...] = ()
    transaction_state_missing: tuple[int, ...] = ()
    clock: str | None = None
    complete: bool = False
    gaps: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    scope: str | None = None
    partitions_chosen: int | None = None


class Audit(Row, frozen=True, kw_only=True):
    """The result of `kafkawire audit`: one JSON object; in jsonl each of its parts is a line with a `kind`."""

    as_of: int | None = None
    read: Coverage
    findings: tuple[Finding, ...] = ()
    violations: tuple[Violation, ...] = ()
    damage: tuple[Damage, ...] = ()
    answers: tuple[CheckAnswer, ...] = ()
    unread: tuple[Unread, ...] = ()
