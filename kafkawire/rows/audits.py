"""Rows of audits: findings, violations, answers of checks, and coverage."""

from __future__ import annotations

from typing import ClassVar

from kafkawire.rows.base import Row
from kafkawire.rows.causes import Cause
from kafkawire.rows.impacts import Impact
from kafkawire.rows.premises import Premise
from kafkawire.rows.segments import DamageRow


class Finding(Row, frozen=True, kw_only=True):
    """An open transaction in one partition, and the verdict on it (`audit`, `txn find-hanging`).

    Attributes:
        verdict: hanging, not_hanging or unknown.
        reason: the rule from which the verdict follows.
        blocked: whether the transaction holds back the last stable offset now.
        start_offset, last_offset: first and last offset of its data in the partition.
        last_timestamp: timestamp of its last batch, from the client's clock.
        age_ms: the clock of the audit (`as_of`) minus `last_timestamp`.
        coordinator_epoch: coordinator epoch of the producer's last marker in the partition.
        transactional_id, coordinator_state: from the coordinator's log; None if it has no record of the producer id.
        last_stable_offset, high_watermark, log_start_offset: of the partition.
        evidence: the facts that the verdict rests on, one sentence each.
        action: the command to run, or the reason why there is none.
        cluster_id: id of the cluster, if it is known.
        marker_timestamp: time of the newest marker before the last batch, from the broker's clock.
        transaction_start_timestamp, transaction_last_update_timestamp, transaction_timeout_ms: from the newest state
            of the transactional id; None if the coordinator has none.
        impact: what it holds back, and what an abort would hide; None if it is not known.
        cause: why it hangs, is stuck or is late; None for other reasons.
        premises: what the verdict rests on.
        attention: `hanging`, `stuck` (decided, and its marker does not arrive) or `blocked` (it has held the last
            stable offset for longer than `--blocked-after`); None: nothing needs to be done.
        blocked_since: the time since which it has certainly held the last stable offset, by times that brokers wrote or
            since it was first seen, epoch milliseconds; None where that is not known.
        blocked_until: until when it does at the latest, or when it can be judged again, epoch milliseconds; None where
            that is not known.
        waits_for: who must act, and until when: a sentence.
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
    impact: Impact | None = None
    cause: Cause | None = None
    premises: tuple[Premise, ...] = ()
    attention: str | None = None
    blocked_since: int | None = None
    blocked_until: int | None = None
    waits_for: str | None = None


class Violation(Row, frozen=True, kw_only=True):
    """A place where the logs break a rule of the protocol.

    Attributes:
        check: name of the rule.
        place: the partition and the offset, as text.
        what: what was found there.
        transactional_id: the id of the record or transaction, if it is known.
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
    """A chosen partition that could not be read (`txn find-hanging`).

    Attributes:
        broker_id: node id of the broker to which the request was sent; None if the partition has no leader.
        reason: why it was not read.
    """

    kind: str = "unread"
    topic: str
    partition: int
    broker_id: int | None = None
    reason: str


class Omitted(Row, frozen=True, kw_only=True):
    """The number of rows that were left out of an answer: an audit on Spark returns the first ones, and saves all of
    them.

    Attributes:
        rows: their kind: finding or damage.
        verdict, reason, blocked, harmless: of each of them, as the rows of that kind have it.
        count: how many there are.
    """

    kind: str = "omitted"
    rows: str
    verdict: str | None = None
    reason: str
    blocked: bool | None = None
    harmless: bool | None = None
    count: int


class Outcome(Row, frozen=True, kw_only=True):
    """The result as the exit code states it: whether something was found, and whether the answer is complete.

    Attributes:
        found: whether a transaction hangs, is stuck or blocks readers for too long, or a rule is broken.
        hanging, stuck, blocked: number of findings that need attention for that.
        complete: whether everything was read and judged.
        missing: sentences on what was not read or judged.
    """

    kind: str = "outcome"
    found: bool
    hanging: int = 0
    stuck: int = 0
    blocked: int = 0
    complete: bool
    missing: tuple[str, ...] = ()


class CheckAnswer(Row, frozen=True, kw_only=True):
    """The answer of a check for all that was read.

    Attributes:
        answer: violated, holds (also if there was nothing to judge) or not_checkable (nothing could be judged).
        held, violated, not_checkable: number of steps, entries or transactions with this result.
        noted: number of those that break no rule and are worth reporting (open transactions, markers without data).
        lacked: reasons why some could not be judged.
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
    """A setting of the cluster that verdicts depend on: Kafka's name of it, its value, and the value's source."""

    #: The sources of values that do not come from a cluster's metadata.
    GIVEN: ClassVar = "given"
    DEFAULT: ClassVar = "Kafka's default"

    name: str
    value: int
    source: str


class Coverage(Row, frozen=True, kw_only=True):
    """What an audit has read.

    Attributes:
        paths: the paths as given.
        brokers: node ids of the log directories that have one (`meta.properties`).
        clusters: cluster ids of the log directories that have one. Facts of different clusters are never joined.
        partitions, segments, batches, bytes: the amount that was read.
        transaction_state: partitions of `__transaction_state` that were read.
        transaction_state_missing: partitions of `__transaction_state` that were not found, as far as their number is
            known.
        clock: the source of `as_of`.
        complete: whether no transactional id can be hidden from the audit.
        gaps: sentences on what was missing.
        checks: names of the checks. Their answers are in `Audit.answers`.
        settings: settings of the cluster, with their sources.
        scope: a sentence on the chosen partitions; None for all partitions, or for those of given topics.
        partitions_chosen: number of partitions that were to be read; None for copies of logs, where it is unknown.
        premises: what an all-clear rests on.
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
    premises: tuple[Premise, ...] = ()


class Audit(Row, frozen=True, kw_only=True):
    """The result of `kafkawire audit`: one JSON object. In jsonl, each of its parts is a line with a `kind`.

    Attributes:
        omitted: how many more findings and damaged places there are.
    """

    as_of: int | None = None
    read: Coverage
    findings: tuple[Finding, ...] = ()
    violations: tuple[Violation, ...] = ()
    damage: tuple[DamageRow, ...] = ()
    answers: tuple[CheckAnswer, ...] = ()
    unread: tuple[Unread, ...] = ()
    omitted: tuple[Omitted, ...] = ()
