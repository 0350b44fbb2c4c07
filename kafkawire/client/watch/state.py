"""The state of a watch, and the changes after each poll: pure functions without input or output.

A poll is a `PollAttempt`: it has an `Observation`, or failed. `advance` takes the state before the poll and returns the
state after it with its rows: one `Poll`, and a `Change` for each difference. A transaction that could not be read keeps
its last state and is not reported as gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kafkawire.client.diagnosis.cluster_reading import OpenKey
from kafkawire.client.diagnosis.search import Observation
from kafkawire.client.results import TopicPartition
from kafkawire.rows import Change, Finding, Lag, Poll
from kafkawire.transactions.attention import BLOCKED
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS
from kafkawire.transactions.verdict.verdicts import HELD, UNKNOWN

COMPLETE, INCOMPLETE, FAILED = "complete", "incomplete", "failed"
OUTCOMES = (COMPLETE, INCOMPLETE, FAILED)
APPEARED, CHANGED, GONE, LOST, REGAINED = "appeared", "changed", "gone", "lost", "regained"

#: Reasons of transactions in normal use, which are not reported.
HARMLESS = ("live", "young")
#: The most brokers whose failures are counted: a cluster's broker ids have no bound.
MOST_BROKERS = 1000


class PollAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One poll. `number`: from 1 on. `began`, `ended`: epoch milliseconds. `missed`: polls that were due since the last
    one and were left out. `observation`: None if the poll failed, for the reason in `error`."""

    number: int
    began: int
    ended: int
    missed: int = 0
    observation: Observation | None = None
    error: str | None = None

    @property
    def outcome(self) -> str:
        seen = self.observation
        if seen is None:
            return FAILED
        unknown = any(finding.verdict == UNKNOWN for finding in seen.audit.findings)
        return INCOMPLETE if seen.gaps or unknown else COMPLETE


class WatchedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction as last read, at `at`, and first seen open at `since` (epoch milliseconds). `leader`: the
    broker that described it, -1 if not known."""

    finding: Finding
    since: int
    at: int
    leader: int

    @property
    def duration_ms(self) -> int:
        """The least time for which it has been open: no broker knows when a transaction began in a partition.

        The longest of: since its start at the coordinator, if that still has it (TransactionDurationMs of Kafka's
        TransactionsCommand.DescribeTransactionsCommand); since its last batch (Duration of FindHangingTransactions);
        since this watch first saw it.
        """
        finding = self.finding
        begun = finding.transaction_start_timestamp if finding.reason in HELD else None
        return max(finding.age_ms or 0, self.at - self.since, 0 if begun is None else self.at - begun)


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a watch after a poll.

    Attributes:
        seen: every open transaction. `gaps`: what the last successful poll could not read, by subject.
        last: the last poll. `success`, `complete`: when the last poll ended that read anything, and everything; epoch
            milliseconds.
        outcomes: polls by outcome. `missed`: polls that were left out.
        failures: by broker, the polls in which it left a request unanswered.
        brokers, described, failed: of the last successful poll: its brokers, the number of partitions that were read,
            and, for each partition that could not be read, the broker that should describe it.
        expected: brokers of the cluster at the last successful poll, with those that have replicas and were not there.
        answered: brokers that answered every request of the last poll; empty if it failed.
        max_timeout_ms: transaction.max.timeout.ms, as given or as brokers return it.
        lags: of the groups that are watched, at the last successful poll. unread_groups: those whose lag could not be
            read then, and why.
    """

    seen: dict[OpenKey, WatchedTransaction] = {}
    gaps: dict[str, str] = {}
    last: PollAttempt | None = None
    success: int | None = None
    complete: int | None = None
    outcomes: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    missed: int = 0
    failures: dict[int, int] = {}
    brokers: tuple[int, ...] = ()
    described: int = 0
    failed: dict[TopicPartition, int] = {}
    expected: frozenset[int] = frozenset()
    answered: frozenset[int] = frozenset()
    max_timeout_ms: int = MAX_TIMEOUT_MS
    lags: tuple[Lag, ...] = ()
    unread_groups: dict[str, str] = {}

    @property
    def findings(self) -> dict[OpenKey, Finding]:
        return {key: seen.finding for key, seen in self.seen.items()}


def noteworthy(finding: Finding) -> bool:
    """Whether its start and its end are reported."""
    return finding.reason not in HARMLESS or finding.attention is not None


def advance(
    state: WatchState, attempt: PollAttempt, *, everything: bool = False
) -> tuple[WatchState, list[Change | Poll]]:
    """The state after a poll, and its rows: the changes, then the poll. `everything`: report live and young
    transactions, too."""
    outcomes = {**state.outcomes, attempt.outcome: state.outcomes[attempt.outcome] + 1}
    missed = state.missed + attempt.missed
    observation = attempt.observation
    if observation is None:
        kept = msgspec.structs.replace(state, last=attempt, outcomes=outcomes, missed=missed, answered=frozenset())
        return kept, [_poll(attempt)]
    gaps: dict[str, str] = {}
    for gap in observation.gaps:
        gaps[gap.subject] = f"{gaps[gap.subject]}; {gap.text}" if gap.subject in gaps else gap.text
    now = _seen_now(state, attempt, observation)
    left = {key: old for key, old in state.seen.items() if key not in now}
    kept_as_it_was = {key: old for key, old in left.items() if _unread(key[0], observation, gaps)}
    failed = {place: observation.leaders.get(place, -1) for place in observation.errors}
    failures = dict(state.failures)
    for broker in {*failed.values(), *observation.silent} - {-1}:
        failures[broker] = failures.pop(broker, 0) + 1  # those that failed lately last
    after = WatchState(
        seen=now | kept_as_it_was,
        gaps=gaps,
        last=attempt,
        success=attempt.ended,
        complete=attempt.ended if attempt.outcome == COMPLETE else state.complete,
        outcomes=outcomes,
        missed=missed,
        failures=dict(list(failures.items())[-MOST_BROKERS:]),
        brokers=observation.audit.read.brokers,
        described=len(observation.described),
        failed=failed,
        expected=observation.expected,
        answered=observation.answered,
        max_timeout_ms=observation.max_timeout_ms,
    )
    rows: list[Change | Poll] = [
        *_of_findings(state, after, attempt, observation, everything),
        *_of_coverage(state, after, attempt),
        _poll(attempt),
    ]
    return after, rows


def _seen_now(state: WatchState, attempt: PollAttempt, observation: Observation) -> dict[OpenKey, WatchedTransaction]:
    now: dict[OpenKey, WatchedTransaction] = {}
    for finding in observation.audit.findings:
        place = TopicPartition(finding.topic, finding.partition)
        key = place, finding.producer_id
        old = state.seen.get(key)
        same = old is not None and old.finding.start_offset == finding.start_offset
        since = old.since if old is not None and same else attempt.ended
        leader = observation.leaders.get(place, -1)
        now[key] = WatchedTransaction(finding=finding, since=since, at=attempt.ended, leader=leader)
    return now


def _unread(place: TopicPartition, observation: Observation, gaps: dict[str, str]) -> bool:
    return place in observation.errors or (f"topic {place.topic}" in gaps and place not in observation.described)


# Rows -----------------------------------------------------------------------------------------------------------------


def _of_findings(
    before: WatchState, after: WatchState, attempt: PollAttempt, observation: Observation, everything: bool
) -> Iterator[Change]:
    def reported(finding: Finding) -> bool:
        return everything or noteworthy(finding)

    for key in sorted(before.seen.keys() | after.seen.keys()):
        old = before.seen[key].finding if key in before.seen else None
        new = after.seen[key].finding if key in after.seen else None
        if old is not None and (new is None or new.start_offset != old.start_offset):
            if reported(old):
                seen = key[0] in observation.described
                yield _change(attempt, GONE, old, text=None if seen else _NOT_VISIBLE)
            old = None
        if new is None or (old is not None and _state(old) == _state(new)):
            continue
        if old is not None and reported(old):
            yield _change(attempt, CHANGED, new, before=_state(old))
        elif reported(new):
            yield _change(attempt, APPEARED, new, before=_state(old) if old is not None else None)


_NOT_VISIBLE = "Its partition is not visible any more: deleted, or hidden from the principal."


def _of_coverage(before: WatchState, after: WatchState, attempt: PollAttempt) -> Iterator[Change]:
    for subject in sorted(before.gaps.keys() | after.gaps.keys()):
        if subject not in after.gaps:
            yield Change(time=attempt.began, poll=attempt.number, change=REGAINED, subject=subject)
        elif subject not in before.gaps:
            yield Change(
                time=attempt.began, poll=attempt.number, change=LOST, subject=subject, text=after.gaps[subject]
            )


def _verdict(finding: Finding) -> str:
    return f"{finding.verdict} {finding.reason}"


def _state(finding: Finding) -> str:
    """The verdict, and whether it has blocked readers for too long."""
    return _verdict(finding) + (f", {BLOCKED}" if finding.attention == BLOCKED else "")


def _change(
    attempt: PollAttempt, change: str, finding: Finding, *, before: str | None = None, text: str | None = None
) -> Change:
    where = TopicPartition(finding.topic, finding.partition)
    return Change(
        time=attempt.began,
        poll=attempt.number,
        change=change,
        subject=f"{where}, producer id {finding.producer_id}, offset {finding.start_offset}",
        before=before,
        text=text,
        finding=finding,
    )


def _poll(attempt: PollAttempt) -> Poll:
    observation = attempt.observation
    row = Poll(
        time=attempt.began,
        poll=attempt.number,
        duration_ms=attempt.ended - attempt.began,
        outcome=attempt.outcome,
        error=attempt.error,
        missed=attempt.missed,
    )
    if observation is None:
        return row
    counts: dict[str, int] = {}
    for finding in observation.audit.findings:
        counts[_verdict(finding)] = counts.get(_verdict(finding), 0) + 1
    return msgspec.structs.replace(
        row,
        brokers=observation.audit.read.brokers,
        partitions=len(observation.described),
        failed_partitions=len(observation.errors),
        transactions=dict(sorted(counts.items())),
        gaps=tuple(gap.text for gap in observation.gaps),
    )
