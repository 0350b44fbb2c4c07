"""Verdicts on open transactions: hanging, not_hanging or unknown, each with its reason and what it rests on.

Pure functions over facts. *Hanging* means that nothing will ever end the transaction but an abort by hand, which is
destructive where it is wrong. Each verdict rests on premises (`rows.Premise`); where one does not hold, the verdict is
*unknown* and names it. Which premises there are depends on where the facts come from: `copied_case` (log
directories) and `live_case` (a cluster) state them, each for its kind of `Case`. The decision is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire.rows import Finding, Premise
from kafkawire.transactions.attention import attention_of
from kafkawire.transactions.commands import quoted
from kafkawire.transactions.coordinator.coordinator_log import AHEAD, BUMPED, CURRENT, ENDED, NOT_BEGUN
from kafkawire.transactions.coordinator.coordinator_rules import NEVER, begun_ms, state_name, timed_out
from kafkawire.transactions.formatting import count, duration, when
from kafkawire.transactions.verdict.case import DEADLINE, GRACE_MS, REACH, SOUNDNESS, Case, met, unmet
from kafkawire.transactions.verdict.client_stamps import TOLERANCE_MS
from kafkawire.transactions.verdict.known_defects import cause_of
from kafkawire.transactions.verdict.stuck_prepare import log_line, marker_command, resolution

HANGING, NOT_HANGING, UNKNOWN = "hanging", "not_hanging", "unknown"

_HANGING_REASONS = {
    ENDED: "transaction_ended",
    BUMPED: "epoch_bumped",
    NOT_BEGUN: "partition_not_in_transaction",
    CURRENT: "partition_not_in_transaction",
}
#: Reasons of transactions that their coordinator holds; and every verdict with every reason that it can have.
HELD = ("live", "late", "stuck_prepare", "two_phase_commit")
REASONS = (
    *((HANGING, reason) for reason in ("no_transactional_id", *dict.fromkeys(_HANGING_REASONS.values()))),
    *((NOT_HANGING, reason) for reason in (*HELD, "ghost", "young")),
    (UNKNOWN, "coverage_incomplete"),
)


class _Verdict(NamedTuple):
    verdict: str
    reason: str
    evidence: list[str]
    action: str
    premises: Sequence[Premise] = ()
    until: int | None = None
    waits_for: str | None = None


def judge(case: Case) -> Finding:
    """The verdict on an open transaction."""
    decision = _decide(case)
    open_, value = case.open, case.value
    finding = Finding(
        verdict=decision.verdict,
        reason=decision.reason,
        blocked=case.blocked or (None if case.may_block else False),
        topic=open_.place.topic,
        partition=open_.place.partition,
        producer_id=open_.producer_id,
        producer_epoch=open_.producer_epoch,
        start_offset=open_.start_offset,
        last_offset=case.last_offset,
        last_timestamp=open_.last_timestamp,
        age_ms=case.age_ms,
        coordinator_epoch=open_.coordinator_epoch,
        transactional_id=case.transactional_id,
        coordinator_state=state_name(value.transaction_status) if value else None,
        last_stable_offset=case.last_stable_offset,
        high_watermark=case.high_watermark,
        evidence=(case.data, *decision.evidence, *_clocks(case), *_unmarked(case, decision), *_holds(case)),
        action=decision.action,
        cluster_id=case.cluster_id,
        log_start_offset=case.log_start,
        marker_timestamp=_known(open_.written_after),
        transaction_start_timestamp=_known(value.transaction_start_timestamp_ms) if value else None,
        transaction_last_update_timestamp=_known(value.transaction_last_update_timestamp_ms) if value else None,
        transaction_timeout_ms=value.transaction_timeout_ms if value else None,
        cause=cause_of(case, decision.reason),
        impact=open_.impact,
        premises=tuple(decision.premises),
        blocked_since=case.held_since if case.may_block else None,
        blocked_until=decision.until if case.may_block else None,
        waits_for=decision.waits_for,
    )
    attention = attention_of(finding, case.seen_until, case.blocked_after_ms)
    doubt = case.of_attention if attention is None and finding.verdict != UNKNOWN else None
    return replace(finding, attention=attention, premises=(*finding.premises, *([] if doubt is None else [doubt])))


def _known(timestamp: int | None) -> int | None:
    """Kafka writes -1 for a time that it does not know."""
    return None if timestamp is None or timestamp < 0 else timestamp


def _decide(case: Case) -> _Verdict:
    if case.deleted:
        return _ghost(case)
    evidence = [case.coordinator_view]
    value, standing = case.value, case.standing
    premises = list(case.of_coordinators)
    if value is not None:
        if standing is None:
            state = f"No coordinator writes the state {state_name(value.transaction_status)}."
            premises.append(unmet(SOUNDNESS, state, case.certainty, case.record_source))
        elif standing == AHEAD:
            premises.append(unmet(REACH, case.too_old, case.certainty, case.record_source))
        elif standing == CURRENT and case.listed:
            premises += case.of_held
            return _unknown(case, evidence, premises) if _missing(premises) else _held(case, evidence, premises)
    premises += (*case.of_unheld, *case.of_partition, case.of_time)
    if _missing(premises):
        return _unknown(case, evidence, premises)
    reason = "no_transactional_id" if standing is None else _HANGING_REASONS[standing]
    age, until = case.age_ms, None
    if age is not None and age <= case.limit_ms:
        until = case.open.last_timestamp + case.limit_ms
        young = f"its last batch is only {duration(age)} old"
    elif age is None and (most := _most(case)) is not None and most <= case.limit_ms:
        until = (case.as_of or 0) - most + case.limit_ms
        young = f"its last batch is {duration(most)} old at most, by the marker before it"
    if until is not None:
        sentence = (
            f"It would be hanging ({reason}), but {young}: below {_limit(case)} its producer may still be at work."
        )
        again = f"its producer; it is judged again at {when(until)}"
        action = "none yet: look again when it is older"
        return _Verdict(NOT_HANGING, "young", [*evidence, sentence], action, premises, until, again)
    if age is None:
        old = case.without_age
    else:
        old = f"Its last batch is {duration(age)} old, and the limit is {_limit(case)}."
    return _Verdict(HANGING, reason, [*evidence, old], _abort(case), premises, None, "an abort by hand")


def _most(case: Case) -> int | None:
    """The most that its age can be, by broker-side times; None where there are none."""
    after = case.open.written_after
    return None if after is None or case.as_of is None or after > case.as_of else case.as_of - after


def _missing(premises: Iterable[Premise]) -> list[Premise]:
    """The premises that do not hold."""
    return [premise for premise in premises if not premise.holds]


def _limit(case: Case) -> str:
    """The age from which a transaction may be called hanging, and what it is the sum of."""
    parts = f"transaction.max.timeout.ms {duration(case.max_timeout_ms)} + {duration(GRACE_MS)} grace"
    return f"{duration(case.limit_ms)} ({parts})"


def _ghost(case: Case) -> _Verdict:
    """Its data is deleted. Where it still holds the last stable offset, a marker alone lets readers move on: a broker
    never forgets a producer with an open transaction."""
    below = f"Its data lies below the log start offset {case.log_start}: only producer state names it."
    if not case.blocked:
        action = "none: its data is deleted, so there is nothing to abort or to commit"
        return _Verdict(NOT_HANGING, "ghost", [below], action)
    premises = (*case.of_coordinators, *case.of_partition)
    missing = _missing(premises)
    if missing or case.standing == AHEAD:
        action = f"none before it is certain that no coordinator will end it: {case.certainty}"
    elif case.standing == CURRENT and case.listed:
        action = f"none on the partition: its coordinator must end it, by itself or on {_force(case)}"
    else:
        command = marker_command(case, max(case.open.coordinator_epoch or 0, 0))
        action = f"readers wait until a marker is written: {command}"
    doubts = [premise.what for premise in missing]
    return _Verdict(NOT_HANGING, "ghost", [below, case.coordinator_view, *doubts], action, premises)


def _held(case: Case, evidence: list[str], premises: list[Premise]) -> _Verdict:
    """The coordinator holds this transaction, with this partition: whatever its age, it is not hanging."""
    value = case.value
    assert value is not None
    force, who = _force(case), repr(case.transactional_id)
    if state_name(value.transaction_status) != "Ongoing":
        return _prepared(case, evidence, premises)
    if value.transaction_timeout_ms == NEVER:
        never = "Its timeout is that of two-phase commit: it is never late, and its owner decides."
        return _Verdict(
            NOT_HANGING, "two_phase_commit", [*evidence, never], "none: its owner must commit or abort it", premises
        )
    begun = begun_ms(value)
    ends = begun + value.transaction_timeout_ms
    timeout = f"It began {when(begun)} and may take {duration(value.transaction_timeout_ms)}"
    clock = case.coordinator_until
    deadline = f"{timeout}: it is late from {when(ends)} on.{'' if case.of_clocks is None else f' {case.of_clocks}'}"
    premises = [*premises, met(DEADLINE, deadline, case.record_source)]
    if clock is not None and timed_out("Ongoing", begun, value.transaction_timeout_ms, clock):
        late = f"{timeout}: the coordinator should have aborted it {duration(clock - ends)} before the clock."
        action = f"none on the partition: its coordinator must end it, by itself or on {force}"
        return _Verdict(
            NOT_HANGING,
            "late",
            [*evidence, late],
            action,
            premises,
            None,
            f"{case.coordinator_place}: late since {when(ends)}",
        )
    action = f"none: its producer ends it, or the coordinator at {when(ends)}; to end it now: {force}"
    return _Verdict(
        NOT_HANGING,
        "live",
        [*evidence, f"{timeout}."],
        action,
        premises,
        ends,
        f"the producer of {who}; live until {when(ends)}",
    )


def _prepared(case: Case, evidence: list[str], premises: list[Premise]) -> _Verdict:
    """Decided, and the marker is not in this partition: on its way, or stuck for ever."""
    value = case.value
    assert value is not None
    outcome = "COMMIT" if state_name(value.transaction_status) == "PrepareCommit" else "ABORT"
    writer = case.writer_epoch
    fence = case.open.coordinator_epoch
    until = case.waiting_until
    waited = None if until is None else until - value.transaction_last_update_timestamp_ms
    if fence is not None and fence > writer >= 0:
        why = (
            f"The partition has seen a marker of coordinator epoch {fence}, and the coordinator's epoch is {writer}: "
            f"the partition refuses its {outcome} marker (TRANSACTION_COORDINATOR_FENCED)."
        )
    elif waited is not None and waited > case.limit_ms:
        why = f"It decided {outcome} {duration(waited)} before the clock, and its marker has not arrived."
    elif case.lasting_ms is not None:
        # A coordinator writes markers at once, and leaders that answer take them at once.
        why = f"So it was in two readings, {case.lasting_ms / 1000:.1f} s apart: its {outcome} marker does not arrive."
        if fence is not None and writer < 0:
            why += (
                f" The partition has seen a marker of coordinator epoch {fence}: it refuses the coordinator's where "
                "that one's epoch is lower (Describe on topic __transaction_state would show it)."
            )
    else:
        decided = f"It decided {outcome} {when(value.transaction_last_update_timestamp_ms)}: the marker is on its way."
        return _Verdict(
            NOT_HANGING,
            "live",
            [*evidence, decided],
            "none: the coordinator is ending it",
            premises,
            None,
            f"{case.coordinator_place}: its {outcome} is on its way",
        )
    premises = [*premises, *case.of_decision, *case.of_partition]
    if _missing(premises):
        return _unknown(case, [*evidence, why], premises)
    never = f"none: never abort it, {outcome} is decided and other partitions may have it; {resolution(case, outcome)}"
    return _Verdict(
        NOT_HANGING, "stuck_prepare", [*evidence, why, log_line(case)], never, premises, None, case.coordinator_place
    )


def _unknown(case: Case, evidence: list[str], premises: Sequence[Premise]) -> _Verdict:
    missing = [premise.what for premise in _missing(premises)]
    action = f"none before it is certain: {case.certainty}"
    return _Verdict(
        UNKNOWN, "coverage_incomplete", [*evidence, *missing], action, premises, None, "what is missing for a verdict"
    )


def _abort(case: Case) -> str:
    open_ = case.open
    command = (
        f"{case.aborter} --topic {quoted(open_.place.topic)} "
        f"--partition {open_.place.partition} --start-offset {open_.start_offset}"
    )
    if case.diverged is None:
        return command
    return f"none before its marker in the other replica was looked at: where that is no COMMIT, {command}"


def _force(case: Case) -> str:
    return f"{case.terminator} {quoted(case.transactional_id or '')}"


# Evidence ------------------------------------------------------------------------------------------------------------


def _clocks(case: Case) -> list[str]:
    """Where broker-side evidence disagrees with the clock of the client that stamped the batches."""
    open_ = case.open
    ahead = _ahead(case)
    problem = case.stamp_problem
    if problem is not None and open_.last_timestamp >= 0:
        return [*ahead, f"Its last batch has the time {when(open_.last_timestamp)}, which does not count: {problem}."]
    if case.as_of is not None and open_.last_timestamp > case.as_of:
        return [*ahead, f"The client's clock is ahead: its last batch has the time {when(open_.last_timestamp)}."]
    if open_.written_after is not None and open_.written_after > open_.last_timestamp >= 0:
        return [
            *ahead,
            f"The client's clock is behind: its last batch has the time {when(open_.last_timestamp)}, and follows a "
            f"marker that the broker wrote {when(open_.written_after)}.",
        ]
    return ahead


def _ahead(case: Case) -> list[str]:
    """A coordinator's clock that is far from the clock here, or ahead of it: then its times show no lateness."""
    if case.of_clocks is not None:
        return [case.of_clocks]
    begun = case.value.transaction_start_timestamp_ms if case.value else -1
    if case.as_of is None or begun <= case.as_of + TOLERANCE_MS:
        return []
    place = case.coordinator_place
    return [
        f"The clock of {place}{',' * (',' in place)} is ahead of the clock here by {duration(begun - case.as_of)} or "
        f"more: the transaction began {when(begun)} by it."
    ]


def _unmarked(case: Case, decision: _Verdict) -> list[str]:
    """Why an abort sends another coordinator epoch than the partition's."""
    epoch = case.open.coordinator_epoch
    marked = epoch is not None and epoch >= 0
    if marked or (decision.verdict == NOT_HANGING and decision.reason != "young"):
        return []
    return [
        "The partition has seen no marker of this producer id (coordinator epoch -1): an abort sends 0, the lowest "
        "epoch of a coordinator."
    ]


def _holds(case: Case) -> list[str]:
    start = max(case.first_start, case.log_start)
    if case.open.start_offset != case.first_start:
        return [f"An earlier transaction holds the last stable offset, at {start}."]
    if not case.blocked:
        return []
    high = case.high_watermark
    behind = "" if high is None else f", {count(high - start, 'offset')} below the high watermark {high}"
    return [f"It holds the last stable offset at {start}{behind}."]
