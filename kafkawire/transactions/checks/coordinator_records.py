"""The rules of `__transaction_state`: what the next record of a transactional id may hold (KIP-98, KIP-890, KIP-939;
Kafka's `TransactionMetadata.completeTransitionTo` and `TransactionLog.valueToBytes`).

Each rule is a function of two neighbours, `before` (None: no record, or a tombstone) and `after`, and returns what is
wrong, or None. Compaction removes any record but the last, so neighbours are only judged where no offset is missing
between them; `IdChecks` ensures that while it takes one partition's records.
"""

from __future__ import annotations

from kafkawire.messages import TransactionLogValue
from kafkawire.transactions.answers import (
    EPOCH_STEP,
    LEGAL_TRANSITION,
    PREVIOUS_PRODUCER_ID,
    TRANSITION_FIELDS,
    Answer,
    Tally,
)
from kafkawire.transactions.checks.check_names import ID_CHECKS
from kafkawire.transactions.coordinator import coordinator_rules as rules
from kafkawire.transactions.coordinator.coordinator_log import producer_ids
from kafkawire.transactions.facts import Registration
from kafkawire.transactions.formatting import duration

_Value = TransactionLogValue

_GAP = "compaction removed records between the id's record and the one before"
_CLOCKS = "two coordinators wrote the two records, and their clocks differ"
_ILLEGAL = "the step, or the one before, violates a rule already"
_AGAIN = (
    "a coordinator decides again where the Prepare record before was not acknowledged: too few replicas were in sync, "
    "or it timed out"
)
_OLD = "the record is of a version that does not carry previous producer ids"


def transition_problem(before: _Value | None, after: _Value | None) -> str | None:
    """legal_transition: the state follows the one before. `after` None is a tombstone."""
    was = None if before is None else rules.state_name(before.transaction_status)
    state = None if after is None else rules.state_name(after.transaction_status)
    version = 0 if after is None else after.client_transaction_version
    if rules.follows(was, state, version):
        return None
    return f"{state or 'a tombstone'} after {was or 'nothing'}, at transaction version {version}"


def decides_again(before: _Value | None, after: _Value | None) -> bool:
    """Whether a Prepare record replaces the one before, of the same transaction: a coordinator whose append fails stays
    in the state before, and the record stays in the log, where it may reach the replicas later (Kafka's
    `TransactionStateManager.appendTransactionToLog`)."""
    if before is None or after is None or not {_state(before), _state(after)} <= rules.PREPARED:
        return False
    same = before.producer_id == after.producer_id and rules.partitions_of(before) == rules.partitions_of(after)
    if not same or before.transaction_start_timestamp_ms != after.transaction_start_timestamp_ms:
        return False
    if before.transaction_last_update_timestamp_ms >= after.transaction_last_update_timestamp_ms:
        return False
    # Both follow one record: some epoch of it permits either step.
    return any(
        step in _steps(after) for step in (after.producer_epoch - before.producer_epoch + one for one in _steps(before))
    )


def _state(value: _Value) -> str:
    return rules.state_name(value.transaction_status)


def _steps(value: _Value) -> frozenset[int]:
    return rules.EPOCH_STEPS[_state(value), rules.raises_epoch(value.client_transaction_version)]


def fields_problem(before: _Value | None, after: _Value) -> str | None:
    """transition_fields: partitions, start and timeout are those of the transaction. For legal transitions only.
    For `transactionLastUpdateTimestampMs`, which needs to know who wrote the two, see `clock_problem`."""
    state = rules.state_name(after.transaction_status)
    start = after.transaction_start_timestamp_ms
    if state == "Empty":
        if after.transaction_partitions is not None:
            return "Empty with a list of partitions"
        return f"Empty with the start {start}" if start != -1 else None
    assert before is not None
    if after.transaction_timeout_ms != before.transaction_timeout_ms:
        return f"the timeout goes from {before.transaction_timeout_ms} to {after.transaction_timeout_ms} ms at {state}"
    if start < 0:
        return f"{state} without a start"
    if state in rules.COMPLETE and after.client_transaction_version != before.client_transaction_version:
        was = before.client_transaction_version
        return f"the transaction version goes from {was} to {after.client_transaction_version} at {state}"
    begun = rules.state_name(before.transaction_status) in ("Ongoing", *rules.PREPARED)
    if begun and start != before.transaction_start_timestamp_ms:
        return f"the start goes from {before.transaction_start_timestamp_ms} to {start} at {state}"
    if state in rules.PREPARED and begun and after.transaction_partitions == before.transaction_partitions:
        return None  # as nearly always
    return _partitions_problem(state, rules.partitions_of(before) if begun else frozenset(), rules.partitions_of(after))


def impossible_field(value: _Value) -> str | None:
    """transition_fields, of a record by itself."""
    if value.transaction_last_update_timestamp_ms < 0:
        return f"the last update is {value.transaction_last_update_timestamp_ms}"
    if value.transaction_timeout_ms <= 0:
        return f"the timeout is {value.transaction_timeout_ms} ms"
    if not 0 <= value.client_transaction_version <= rules.NEWEST_VERSION:
        return f"the transaction version is {value.client_transaction_version}"
    return None


def _partitions_problem(
    state: str, earlier: frozenset[tuple[str, int]], listed: frozenset[tuple[str, int]]
) -> str | None:
    if state == "Ongoing":
        if not listed:
            return "Ongoing without partitions"
        return _change(state, "loses", earlier - listed)
    if state in rules.PREPARED:
        return _change(state, "loses", earlier - listed) or _change(state, "gains", listed - earlier)
    return _change(state, "still has", listed)


def _change(state: str, verb: str, partitions: frozenset[tuple[str, int]]) -> str | None:
    if not partitions:
        return None
    topic, number = min(partitions)
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return f"{state} {verb} the partition {topic}-{number}{more}"


def epoch_problem(before: _Value | None, after: _Value) -> str | None:
    """epoch_step: the producer id stays and its epoch changes by a step that Kafka takes, or another producer id begins
    at epoch 0 where the epochs of the one before are used up. For legal transitions only."""
    state, epoch = rules.state_name(after.transaction_status), after.producer_epoch
    if before is None:
        return None if epoch == 0 else f"the first record of the id has epoch {epoch}, not 0"
    bumped = rules.raises_epoch(after.client_transaction_version)
    if after.producer_id != before.producer_id:
        return _new_producer_id(before, after, state)
    if epoch < 0:
        return f"the epoch is {epoch}"
    steps = rules.EPOCH_STEPS[state, bumped]
    step = epoch - before.producer_epoch
    if before.producer_epoch == rules.MAX_EPOCH and step == 0:
        return None  # nowhere to go: Kafka lets it abort with the epoch that it has
    if step not in steps:
        allowed = " or ".join(f"{one:+d}" for one in sorted(steps))
        return f"the epoch goes from {before.producer_epoch} to {epoch}; at {state} only {allowed} is possible"
    if epoch == rules.MAX_EPOCH and state in ("Empty", "Ongoing"):
        return f"the epoch is {epoch} at {state}: no producer gets that one, it is left to fencing"
    return None


def _new_producer_id(before: _Value, after: _Value, state: str) -> str | None:
    """A producer id follows another where the epochs of that one are used up: at InitProducerId, or, from transaction
    version 2 on, when a transaction ends; then the Prepare record names it beforehand."""
    change = f"the producer id goes from {before.producer_id} to {after.producer_id}"
    if after.producer_epoch != 0:
        return f"{change}, and its epoch is {after.producer_epoch}, not 0"
    if state == "Empty":
        if rules.is_exhausted(before.producer_epoch):
            return None
        return f"{change}, and the epoch {before.producer_epoch} was not used up"
    if state in rules.COMPLETE and rules.raises_epoch(after.client_transaction_version):
        if before.next_producer_id == after.producer_id:
            return None
        return f"{change}, and {before.next_producer_id} was announced"
    return f"{change} at {state}, where none can change"


def clock_problem(before: _Value | None, after: _Value) -> str | None:
    """transition_fields, of two records that one coordinator wrote: the time of the last update never goes back."""
    if before is None:
        return None
    was, now = before.transaction_last_update_timestamp_ms, after.transaction_last_update_timestamp_ms
    return f"the last update goes back from {was} to {now}" if now < was else None


def previous_problem(before: _Value | None, after: _Value) -> str | None:
    """previous_producer_id: the record names the producer id of the one before, and the next one only when the epochs
    are used up. Only for records that carry these (`carries_previous`): version 0, and older brokers, do not."""
    expected = after.producer_id if before is None else before.producer_id
    if after.previous_producer_id != expected:
        return f"the previous producer id is {after.previous_producer_id}, and the id's record before has {expected}"
    if after.next_producer_id < -1:
        return f"the next producer id is {after.next_producer_id}"
    state = rules.state_name(after.transaction_status)
    if after.transaction_timeout_ms == rules.NEVER:
        return None  # two-phase commit (KIP-939) announces producer ids at other times
    if after.next_producer_id != -1 and not (state in rules.PREPARED and after.producer_epoch == rules.MAX_EPOCH):
        return f"the next producer id {after.next_producer_id} is set at {state}, epoch {after.producer_epoch}"
    if before is not None and before.next_producer_id >= 0 and after.producer_id == before.producer_id:
        return f"the next producer id {before.next_producer_id} was announced, and {state} has {after.producer_id}"
    return None


def carries_previous(value: TransactionLogValue) -> bool:
    """Whether a record has the producer id that the id had before (tag 0 of version 1)."""
    return value.previous_producer_id != -1


class IdChecks:
    """Takes the records of one partition of `__transaction_state` in offset order, and checks neighbours of an id
    by the rules above.

    Attributes:
        intact_from: the lowest offset from which up to the last record no offset is missing.

    Args:
        expiration_ms: transactional.id.expiration.ms of the brokers; None where it is not known. Kafka's default is
            no proof that a tombstone is wrong.
    """

    def __init__(self, expiration_ms: int | None = None) -> None:
        self._expiration_ms = expiration_ms
        self._tallies = {check: Tally(check) for check in ID_CHECKS}
        self._doubted: dict[str, int] = {}  # the offset of an id's newest record, where it violates a rule
        self._next = -1
        self.intact_from = 0

    def answers(self) -> list[Answer]:
        """One for each of `ID_CHECKS`."""
        return [tally.answer() for tally in self._tallies.values()]

    def reach(self, offset: int) -> None:
        """Note a record at this offset, of whatever content. If the offset follows the one before, no record between
        them is missing."""
        if offset != self._next:
            self.intact_from = offset
        self._next = offset + 1

    def see(self, before: Registration | None, found: Registration) -> None:
        """Judge the step to a record, after `reach` of its offset, from the id's record before."""
        if (0 if before is None else before.offset) < self.intact_from:
            self.count(0, 0, 1)
        else:
            self.judge(before, found)

    def count(self, held: int, without_previous: int, after_gap: int) -> None:
        """Count steps that were judged elsewhere. `held`: keep all rules, `without_previous` of them without a previous
        producer id. `after_gap`: follow missing records."""
        for check, tally in self._tallies.items():
            tally.lack(_GAP, after_gap)
            tally.held += held - (without_previous if check == PREVIOUS_PRODUCER_ID else 0)
        self._tallies[PREVIOUS_PRODUCER_ID].lack(_OLD, without_previous)

    def judge(self, before: Registration | None, found: Registration) -> None:
        """Judge the step to a record, with none missing since the id's record before."""
        was, value = None if before is None else before.value, found.value
        if decides_again(was, value):
            for tally in self._tallies.values():
                tally.lack(_AGAIN)
            return
        problems = {LEGAL_TRANSITION: transition_problem(was, value) or self._too_soon(before, found)}
        if value is not None and problems[LEGAL_TRANSITION] is None:
            problems[EPOCH_STEP] = epoch_problem(was, value)
            problems[TRANSITION_FIELDS] = self._fields(before, found, value)
            if carries_previous(value):
                problems[PREVIOUS_PRODUCER_ID] = previous_problem(was, value)
            else:
                self._tallies[PREVIOUS_PRODUCER_ID].lack(_OLD)
        elif value is not None:
            for tally in list(self._tallies.values())[1:]:
                tally.lack(_ILLEGAL)
        doubted = before is not None and self._doubted.pop(found.transactional_id, -1) == before.offset
        for check, problem in problems.items():
            if problem is None:
                self._tallies[check].held += 1
            elif doubted:  # until a step holds
                self._tallies[check].lack(_ILLEGAL)
                self._doubted[found.transactional_id] = found.offset
            else:
                self._doubted[found.transactional_id] = found.offset
                doubted = True
                self._breach(check, before, found, problem)

    def _too_soon(self, before: Registration | None, found: Registration) -> str | None:
        """legal_transition, of a tombstone: the id was idle for as long as brokers remember one."""
        expiration = self._expiration_ms
        if found.value is not None or before is None or before.value is None or expiration is None:
            return None
        updated = before.value.transaction_last_update_timestamp_ms
        if rules.may_expire(rules.state_name(before.value.transaction_status), updated, found.timestamp, expiration):
            return None
        if before.leader_epoch != found.leader_epoch:
            self._tallies[LEGAL_TRANSITION].lack(_CLOCKS)
            return None
        idle = duration(found.timestamp - updated)
        return f"a tombstone {idle} after the last update, and ids expire after {duration(expiration)}"

    def _fields(self, before: Registration | None, found: Registration, value: TransactionLogValue) -> str | None:
        was = None if before is None else before.value
        problem = fields_problem(was, value) or impossible_field(value)
        clock = clock_problem(was, value)
        if problem is None and clock is not None:
            if before is not None and before.leader_epoch == found.leader_epoch:
                return clock
            self._tallies[TRANSITION_FIELDS].lack(_CLOCKS)
        return problem

    def _breach(self, check: str, before: Registration | None, found: Registration, problem: str) -> None:
        """What a record names wrongly is in doubt for all its producer ids."""
        values = [one.value for one in (before, found) if one is not None and one.value is not None]
        self._tallies[check].breach(
            found.offset,
            -1 if found.value is None else found.value.producer_id,
            problem,
            transactional_id=found.transactional_id,
            concerns=tuple(producer_id for value in values for producer_id in producer_ids(value)),
        )
