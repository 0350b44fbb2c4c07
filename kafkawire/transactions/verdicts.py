"""Verdicts on open transactions: hanging, not_hanging or unknown, each with its reason and what it rests on.

Pure functions over `facts`. *Hanging* means that nothing will ever end the transaction but an abort by hand, which is
destructive where it is wrong: whatever is doubtful is *unknown*. A doubt is something that was not read and could turn
the verdict around: a missing partition of the coordinator's log, damage, copies of different moments.
"""

from __future__ import annotations

import shlex
from functools import cached_property
from typing import NamedTuple

import msgspec

from kafkawire.rows import Finding
from kafkawire.transactions import coordinator
from kafkawire.transactions.coordinator import AHEAD, BUMPED, CURRENT, ENDED, NEVER, NOT_BEGUN, state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, Open, Owner, Partition
from kafkawire.transactions.replay import last_stable_offset
from kafkawire.transactions.wording import count, duration, numbers, when

HANGING, NOT_HANGING, UNKNOWN = "hanging", "not_hanging", "unknown"

#: Kafka's PartitionsWithLateTransactionsCount counts from transaction.max.timeout.ms plus this on.
GRACE_MS = 300_000
#: Broker default of transaction.max.timeout.ms.
MAX_TIMEOUT_MS = 900_000

#: Kafka's own tool: it ships with every broker from 3.0 on.
_TOOL = "kafka-transactions.sh --bootstrap-server HOST:PORT"

_HANGING_REASONS = {
    ENDED: "transaction_ended",
    BUMPED: "epoch_bumped",
    NOT_BEGUN: "partition_not_in_transaction",
    CURRENT: "partition_not_in_transaction",
}


class CoordinatorLog(msgspec.Struct, frozen=True, kw_only=True):
    """How much of `__transaction_state` was read.

    Attributes:
        partitions: how many it has. `read`, `damaged`: their numbers, ascending.
        leader_epochs: highest leader epoch of each partition: its coordinator's epoch.
        newest: time of its newest record, the broker's clock; None where it holds none.
    """

    partitions: int
    read: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    leader_epochs: dict[int, int] = {}
    newest: int | None = None

    @property
    def missing(self) -> list[int]:
        return sorted(set(range(self.partitions)) - set(self.read))

    @property
    def complete(self) -> bool:
        """Whether an id that was found nowhere does not exist."""
        return not self.missing and not self.damaged


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An open transaction and all that is known around it.

    Attributes:
        open: the transaction. `partition`: the replica that it was found in.
        first_start: first offset of the earliest open transaction in the partition.
        owner: the transactional id of its producer id, None where no record names it.
        log: how much of the coordinator's log was read.
        covered_until: newest broker-side time in the log directory that the partition was read from.
        as_of: the clock, epoch milliseconds. `max_timeout_ms`: transaction.max.timeout.ms.
        cluster_id: where it is known.
    """

    open: Open
    partition: Partition
    first_start: int
    owner: Owner | None
    log: CoordinatorLog
    covered_until: int | None = None
    as_of: int | None = None
    max_timeout_ms: int = MAX_TIMEOUT_MS
    cluster_id: str | None = None

    @property
    def limit_ms(self) -> int:
        return self.max_timeout_ms + GRACE_MS

    @property
    def age_ms(self) -> int | None:
        """Age as Kafka's tools count it: from the last batch, which a client has stamped."""
        last = self.open.last_timestamp
        return None if self.as_of is None or last < 0 else self.as_of - last

    @property
    def last_stable_offset(self) -> int | None:
        high = self.partition.high_watermark
        return None if high is None else last_stable_offset(high, self.first_start, self.partition.log_start)

    @property
    def blocked(self) -> bool:
        """Whether it, and no other, holds the last stable offset back now."""
        stable, high = self.last_stable_offset, self.partition.high_watermark
        return self.open.start_offset == self.first_start and (stable is None or high is None or stable < high)

    @cached_property
    def standing(self) -> str | None:
        value = self.owner.newest.value if self.owner else None
        if value is None:
            return None
        return coordinator.standing(value, self.open.producer_id, self.open.producer_epoch)


class _Decision(NamedTuple):
    verdict: str
    reason: str
    evidence: list[str]
    action: str


def judge(case: Case) -> Finding:
    """The verdict on an open transaction."""
    decision = _decide(case)
    open_, owner = case.open, case.owner
    value = owner.newest.value if owner else None
    return Finding(
        verdict=decision.verdict,
        reason=decision.reason,
        blocked=case.blocked,
        topic=open_.place.topic,
        partition=open_.place.partition,
        producer_id=open_.producer_id,
        producer_epoch=open_.producer_epoch,
        start_offset=open_.start_offset,
        last_offset=open_.last_offset,
        last_timestamp=open_.last_timestamp,
        age_ms=case.age_ms,
        coordinator_epoch=open_.coordinator_epoch,
        transactional_id=owner.newest.transactional_id if owner else None,
        coordinator_state=state_name(value.transaction_status) if value else None,
        last_stable_offset=case.last_stable_offset,
        high_watermark=case.partition.high_watermark,
        evidence=(_data(case), *decision.evidence, *_clocks(case), *_holds(case)),
        action=decision.action,
        cluster_id=case.cluster_id,
    )


def _decide(case: Case) -> _Decision:
    if case.open.last_offset < case.partition.log_start:
        below = f"Its data lies below the log start offset {case.partition.log_start}: only producer state names it."
        return _Decision(
            NOT_HANGING, "ghost", [below], "none: its data is deleted, so there is nothing to abort or to commit"
        )
    said = [_coordinator_says(case)]
    owner, standing = case.owner, case.standing
    doubts = _log_doubts(case)
    if owner is not None and owner.newest.value is not None:
        value = owner.newest.value
        if standing is None:
            doubts.append(f"No coordinator writes the state {state_name(value.transaction_status)}.")
        elif standing == AHEAD:
            doubts.append("That record is older than the data: the copy of the coordinator's log ends too early.")
        elif standing == CURRENT and coordinator.lists_partition(
            value, case.open.place.topic, case.open.place.partition
        ):
            return _unknown(said, doubts) if doubts else _held(case, said)
    doubts += [*_join_doubts(case), *_partition_doubts(case)]
    age = case.age_ms
    if age is None:
        doubts.append(
            "Its age is not known: " + ("no clock was found." if case.as_of is None else "its batches carry no time.")
        )
    if doubts or age is None:
        return _unknown(said, doubts)
    reason = "no_transactional_id" if standing is None else _HANGING_REASONS[standing]
    if age <= case.limit_ms:
        young = (
            f"It would be hanging ({reason}), but its last batch is only {duration(age)} old: below "
            f"{duration(case.limit_ms)} (transaction.max.timeout.ms and 5 min) its producer may still be at work."
        )
        return _Decision(NOT_HANGING, "young", [*said, young], "none yet: look again when it is older")
    old = f"Its last batch is {duration(age)} old; {duration(case.limit_ms)} is the limit."
    return _Decision(HANGING, reason, [*said, old], _abort(case.open))


def _held(case: Case, said: list[str]) -> _Decision:
    """The coordinator holds this transaction, with this partition: whatever its age, it is not hanging."""
    assert case.owner is not None
    newest = case.owner.newest
    value = newest.value
    assert value is not None
    force = f"{_TOOL} forceTerminateTransaction --transactionalId {shlex.quote(newest.transactional_id)}"
    if state_name(value.transaction_status) != "Ongoing":
        return _prepared(case, said)
    if value.transaction_timeout_ms == NEVER:
        never = "Its timeout is that of two-phase commit: it is never late, and its owner decides."
        return _Decision(NOT_HANGING, "two_phase_commit", [*said, never], "none: its owner must commit or abort it")
    begun = value.transaction_start_timestamp_ms
    if begun < 0:
        begun = value.transaction_last_update_timestamp_ms
    ends = begun + value.transaction_timeout_ms
    timeout = f"It began {when(begun)} and may take {duration(value.transaction_timeout_ms)}"
    if case.as_of is not None and case.as_of > ends:
        late = f"{timeout}: the coordinator should have aborted it {duration(case.as_of - ends)} before the clock."
        action = f"none on the partition: its coordinator must end it, by itself or on {force}"
        return _Decision(NOT_HANGING, "late", [*said, late], action)
    action = f"none: its producer ends it, or the coordinator at {when(ends)}; to end it now: {force}"
    return _Decision(NOT_HANGING, "live", [*said, f"{timeout}."], action)


def _prepared(case: Case, said: list[str]) -> _Decision:
    """Decided, and the marker is not in this partition: on its way, or stuck for ever."""
    assert case.owner is not None
    newest = case.owner.newest
    value = newest.value
    assert value is not None
    outcome = "COMMIT" if state_name(value.transaction_status) == "PrepareCommit" else "ABORT"
    writer = case.log.leader_epochs.get(newest.place.partition, -1)
    fence = case.open.coordinator_epoch
    waited = None if case.as_of is None else case.as_of - value.transaction_last_update_timestamp_ms
    if fence is not None and fence > writer >= 0:
        why = (
            f"The partition has seen a marker of coordinator epoch {fence}, and the coordinator's epoch is {writer}: "
            f"the partition refuses its {outcome} marker for ever."
        )
    elif waited is not None and waited > case.limit_ms:
        why = f"It decided {outcome} {duration(waited)} before the clock, and its marker has not arrived."
    else:
        decided = f"It decided {outcome} {when(value.transaction_last_update_timestamp_ms)}: the marker is on its way."
        return _Decision(NOT_HANGING, "live", [*said, decided], "none: the coordinator is ending it")
    doubts = _partition_doubts(case)
    if doubts:
        return _unknown([*said, why], doubts)
    never = (
        f"none: never abort it, {outcome} is decided and other partitions may have it; "
        "find out why the marker is not written (leader offline, coordinator epoch)"
    )
    return _Decision(NOT_HANGING, "stuck_prepare", [*said, why], never)


def _unknown(said: list[str], doubts: list[str]) -> _Decision:
    action = (
        "none before it is certain: read what was missing, or ask the live cluster (kafka-transactions.sh find-hanging)"
    )
    return _Decision(UNKNOWN, "coverage_incomplete", [*said, *doubts], action)


def _abort(open_: Open) -> str:
    return (
        f"{_TOOL} abort --topic {shlex.quote(open_.place.topic)} "
        f"--partition {open_.place.partition} --start-offset {open_.start_offset}"
    )


# Doubts --------------------------------------------------------------------------------------------------------------


def _log_doubts(case: Case) -> list[str]:
    """What of the coordinator's log was not read and could hold another word on the transaction."""
    log, owner = case.log, case.owner
    if owner is not None:
        partition = owner.newest.place.partition
        if partition in log.damaged:
            return [f"{TRANSACTION_STATE}-{partition} is damaged: a newer record of the id may be lost."]
        return []
    doubts = []
    if log.missing:
        missing = numbers(log.missing)
        doubts.append(
            f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read ({missing}): "
            "its transactional id may be there."
        )
    if log.damaged:
        doubts.append(f"{TRANSACTION_STATE} is damaged in partitions {numbers(list(log.damaged))}: its id may be lost.")
    return doubts


def _join_doubts(case: Case) -> list[str]:
    """Copies of different moments. What two of them say together holds only for times that both cover."""
    doubts = []
    written = max(case.open.last_timestamp, case.open.written_after or -1)
    if case.log.newest is None:
        doubts.append(f"{TRANSACTION_STATE} holds no record: nothing shows that it was copied after the data.")
    elif case.log.newest <= written:
        doubts.append(
            f"{TRANSACTION_STATE} holds no record written after the data ({when(written)}; its newest is of "
            f"{when(case.log.newest)}): it may have been copied too early."
        )
    newest = case.owner.newest if case.owner else None
    if newest is not None and (case.covered_until is None or newest.timestamp > case.covered_until):
        doubts.append(
            f"The coordinator's record is of {when(newest.timestamp)}, and the log directory of {case.open.place} "
            f"shows nothing after {when(case.covered_until)}: the marker may have come later."
        )
    return doubts


def _partition_doubts(case: Case) -> list[str]:
    """What of the partition could not be read, or is not certain to stay."""
    doubts = []
    gap, start, high = case.partition.gap, case.open.start_offset, case.partition.high_watermark
    if gap is not None and (gap.end is None or gap.end > start):
        end = "on" if gap.end is None else f"to {gap.end - 1}"
        doubts.append(f"Offsets from {gap.start} {end} could not be read: a marker may be among them.")
    if high is not None and start >= high:
        doubts.append(f"Its data is not below the high watermark {high}: a follower may still truncate it.")
    return doubts


# Evidence ------------------------------------------------------------------------------------------------------------


def _data(case: Case) -> str:
    open_ = case.open
    return (
        f"{open_.place}: transactional data of producer id {open_.producer_id}, epoch {open_.producer_epoch}, in "
        f"offsets {open_.start_offset} to {open_.last_offset}, and no marker of it up to the end of the log "
        f"({case.partition.log_end})."
    )


def _coordinator_says(case: Case) -> str:
    owner, log = case.owner, case.log
    if owner is None:
        read = len(log.read)
        return (
            f"No record in the {count(read, 'partition')} of {TRANSACTION_STATE} that were read names the producer id."
        )
    newest = owner.newest
    value = newest.value
    who = f"Transactional id {newest.transactional_id!r}"
    record = f"({newest.place}, offset {newest.offset}, {when(newest.timestamp)})"
    if value is None:
        return f"{who} has expired {record}: no coordinator knows its producer id any more."
    said = (
        f"{who} is {state_name(value.transaction_status)}, producer id {value.producer_id}, "
        f"epoch {value.producer_epoch} {record}"
    )
    if case.standing == ENDED:
        return f"{said}: the transaction has ended."
    if case.standing == NOT_BEGUN:
        return f"{said}: no transaction has begun in that epoch."
    if case.standing == BUMPED:
        return f"{said}: it has gone on to later epochs."
    if case.standing == CURRENT:
        listed = coordinator.lists_partition(value, case.open.place.topic, case.open.place.partition)
        return f"{said}: its transaction {'has' if listed else 'does not have'} {case.open.place}."
    return f"{said}."


def _clocks(case: Case) -> list[str]:
    """Where broker-side evidence disagrees with the clock of the client that stamped the batches."""
    open_ = case.open
    if case.as_of is not None and open_.last_timestamp > case.as_of:
        return [f"The client's clock is ahead: its last batch says {when(open_.last_timestamp)}."]
    if open_.written_after is not None and open_.written_after > open_.last_timestamp >= 0:
        return [
            f"The client's clock is behind: its last batch says {when(open_.last_timestamp)}, and stands after a "
            f"marker that the broker wrote {when(open_.written_after)}."
        ]
    return []


def _holds(case: Case) -> list[str]:
    start = max(case.first_start, case.partition.log_start)
    if case.open.start_offset != case.first_start:
        return [f"An earlier open transaction holds the last stable offset, at {start}."]
    if not case.blocked:
        return []
    high = case.partition.high_watermark
    behind = "" if high is None else f", {count(high - start, 'offset')} below the high watermark {high}"
    return [f"It holds the last stable offset at {start}{behind}."]
