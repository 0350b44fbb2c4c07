"""`LiveCase`: an open transaction on a live cluster, the answers of brokers about it, the proof that these are
complete, and what they may hide.

ListTransactions silently leaves out what the principal may not see, and while a coordinator moves, no broker lists its
ids. So the statement that no coordinator knows a producer id needs a proof (`Absence`), and two readings, apart in
time, that agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kafkawire.messages import TransactionLogValue
from kafkawire.rows import Premise
from kafkawire.transactions.coordinator.coordinator_log import BUMPED, ENDED
from kafkawire.transactions.coordinator.coordinator_rules import partition_list, state_name, status_of
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import duration, when
from kafkawire.transactions.verdict.case import (
    DEADLINE,
    EXPIRED,
    PLACE,
    REACH,
    SOUNDNESS,
    TIME,
    Case,
    IdState,
    met,
    unmet,
)
from kafkawire.transactions.verdict.client_stamps import TOLERANCE_MS

#: How to know for how long a transaction has been open whose client's stamps cannot be used.
_AGE = (
    "kafkawire txn watch counts from its first sight, and kafkawire audit --bootstrap-server reads the times that "
    "brokers have written behind it"
)
#: How to know how a transaction ended whose marker may have been lost.
_OUTCOME = (
    "ask its owner whether it was committed, or audit copies of all replicas, of which another may have its marker; "
    "txn abort takes --force REASON where it was not"
)
#: What a principal lacks that can list ids, but not prove that it sees them all.
HIDDEN = (
    f"An authorizer is there, and it can hide transactional ids from this principal: grant it Read on topic "
    f"{TRANSACTION_STATE}, which names them all."
)


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is proven that an id which no broker named does not exist.

    Attributes:
        proof: why nothing can be hidden. `doubts`: what could hide an id, in sentences; empty where it is proven.
        source: the brokers whose answers show it; None where that was not asked.
    """

    proof: str = ""
    doubts: tuple[str, ...] = ()
    source: str | None = None


class ClockSkew(msgspec.Struct, frozen=True):
    """How far a broker's clock is from this machine's, where that is more than clocks differ by. `broker`: "broker 2".
    `low_ms`, `high_ms`: the least and the most that its clock is ahead, negative where it is behind."""

    broker: str
    low_ms: int
    high_ms: int

    @property
    def text(self) -> str:
        """`the clock of broker 2 is behind the clock here by 1 h to 1 h 2 s`"""
        least, most = sorted((abs(self.low_ms), abs(self.high_ms)))
        way = "ahead of" if self.low_ms > 0 else "behind"
        durations = dict.fromkeys((duration(least), duration(most)))
        return f"the clock of {self.broker} is {way} the clock here by {' to '.join(durations)}"


def skew_of(broker: str, stamp: int, after: int, until: int) -> ClockSkew | None:
    """What a broker's time shows of its clock; None where it may be right.

    Args:
        broker: as in `ClockSkew`. `stamp`: its time of an event, epoch milliseconds.
        after, until: between which times of this machine's clock the event was.
    """
    return skew_between(broker, stamp - until, stamp - after)


def skew_between(broker: str, low_ms: int, high_ms: int) -> ClockSkew | None:
    """A broker's clock that is ahead by `low_ms` at least and `high_ms` at most; None where it may be right."""
    return ClockSkew(broker, low_ms, high_ms) if low_ms > TOLERANCE_MS or high_ms < -TOLERANCE_MS else None


class LiveCase(Case, frozen=True, kw_only=True, dict=True):
    """An open transaction that the leader of a partition remembers. Where its log was not read, its last offset is not
    known: `open.last_offset` is where it began.

    Attributes:
        leader: broker id.
        log_start, last_stable_offset, high_watermark: of the partition; None where they could not be had, the log start
            is then 0.
        id_state: of the id that the producer id belongs to; None where no coordinator named one.
        moved: sentences on what was different from one reading to the next.
        leader_epoch: of the partition, where all brokers name this leader in it; None where that was not checked.
        disputed: a sentence on brokers that name different leaders; None where they do not, or that was not checked.
        read_at: this machine's clock when the partition was read, epoch milliseconds; None where no clock is used.
        first_seen: since when this machine has seen it open, by the same clock; None where it was not seen before.
        agreed: whether an earlier reading found the partition and the coordinator as they are.
        read_to: up to which offset its log was read, from the log start on, without a batch of it; 0 where it was not.
        skew: of the coordinator's clock, where that was measured. uncompared: why it was not, a clause; None where it
            was, or nothing depends on it.
        lost: why its marker may have been lost, a sentence; None where it cannot, or that was not looked at.
    """

    leader: int
    log_start: int = 0
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    id_state: IdState | None = None
    absence: Absence = Absence()
    moved: tuple[str, ...] = ()
    leader_epoch: int | None = None
    disputed: str | None = None
    read_at: int | None = None
    first_seen: int | None = None
    agreed: bool = False
    read_to: int = 0
    skew: ClockSkew | None = None
    uncompared: str | None = None
    lost: str | None = None

    @property
    def last_offset(self) -> int | None:
        return self.open.last_offset if self.open.batches > 0 else None

    @property
    def deleted(self) -> bool:
        """Where its last offset is not known, any record that was not read may be of it."""
        high = self.high_watermark
        known = self.last_offset is not None or (high is not None and high <= max(self.log_start, self.read_to))
        return known and super().deleted

    @cached_property
    def value(self) -> TransactionLogValue | None:
        """A description lacks the transaction's version. It follows from the epoch of an ended transaction: below
        version 2 that is the epoch of the data, from 2 on one more."""
        value = super().value
        if value is None or self.id_state is None or not self.id_state.described:
            return value
        return replace(value, client_transaction_version=2 if value.producer_epoch > self.open.producer_epoch else 0)

    @property
    def data(self) -> str:
        open_ = self.open
        cut = f"; the log starts at {self.log_start}" if open_.start_offset < self.log_start else ""
        return (
            f"{open_.place}: broker {self.leader}, its leader, remembers a transaction of producer id "
            f"{open_.producer_id}, epoch {open_.producer_epoch}, that is open since offset {open_.start_offset}{cut}."
        )

    @property
    def coordinator_view(self) -> str:
        id_state = self.id_state
        if id_state is None:
            proof = f" ({self.absence.proof})" if self.absence.proof else ""
            return f"No coordinator names a transactional id with that producer id{proof}."
        who = f"Transactional id {id_state.transactional_id!r}"
        if id_state.problem is not None:
            return f"{who} has that producer id; nothing more is known of it ({id_state.problem})."
        value = id_state.value
        if value is None:
            return f"{who} has expired ({id_state.source}): {EXPIRED}."
        return (
            f"{who} is {state_name(value.transaction_status)}, producer id {value.producer_id}, "
            f"epoch {value.producer_epoch} ({id_state.source}){self.meaning}."
        )

    @property
    def of_coordinators(self) -> tuple[Premise, ...]:
        id_state, absence = self.id_state, self.absence
        if id_state is None:
            if absence.doubts:
                return tuple(unmet(REACH, doubt, self.certainty, absence.source) for doubt in absence.doubts)
            proof = f": {absence.proof}" if absence.proof else ""
            return (met(REACH, f"No transactional id can be hidden{proof}.", absence.source),)
        if id_state.problem is not None:
            what = f"Its coordinator could not describe it: {id_state.problem}."
            return (unmet(REACH, what, self.certainty, self.coordinator_place),)
        return (met(REACH, "Its coordinator's state was read.", id_state.source),)

    @property
    def of_held(self) -> tuple[Premise, ...]:
        return ()

    @property
    def of_unheld(self) -> tuple[Premise, ...]:
        changes = tuple(unmet(REACH, sentence, self.certainty, f"broker {self.leader}") for sentence in self.moved)
        if self.lost is None:
            return changes
        return (*changes, unmet(SOUNDNESS, self.lost, _OUTCOME, f"broker {self.leader}"))

    @property
    def of_partition(self) -> tuple[Premise, ...]:
        high, leader = self.high_watermark, f"broker {self.leader}"
        if high is not None and self.open.start_offset >= high:
            what = f"Its data is not below the high watermark {high}: it may still be truncated."
            return (unmet(PLACE, what, self.certainty, leader),)
        if self.disputed is not None:
            return (unmet(PLACE, self.disputed, self.certainty, leader),)
        named = "" if self.leader_epoch is None else f"; all brokers name it, in leader epoch {self.leader_epoch}"
        place = met(PLACE, f"The leader of the partition answered{named}.", leader)
        if high is None:
            return place, unmet(SOUNDNESS, "The offsets of its partition could not be read.", self.certainty, leader)
        return place, met(SOUNDNESS, "No answer that it rests on was an error.", leader)

    # Time: this machine's clock, and a client's stamp where it can be the time of a write -----------------------------

    @property
    def least_age_ms(self) -> int | None:
        """For how long it has been open for certain: since this machine first saw it, or since a broker wrote after
        it."""
        until = self.seen_until
        since = min((one for one in (self.first_seen, self.open.written_by) if one is not None), default=None)
        return None if since is None or until is None else until - since

    @property
    def of_time(self) -> Premise:
        """The premise about its age. Without a stamp that counts, it holds by a time for which it was certainly open,
        or by two readings that show that its own transaction has ended. Nothing else shows that it is not about to be
        registered."""
        problem, age, least = self.stamp_problem, self.age_ms, self.least_age_ms
        if age is not None:
            what = f"Its last batch is {duration(age)} old by its client's stamp, which is plausible."
            return met(TIME, what, f"broker {self.leader}")
        stamp = f"Its client's stamp does not count, {problem}" if problem else "No clock was found"
        if least is not None and least > self.limit_ms:
            return met(TIME, f"{stamp}. It has been open for at least {duration(least)}.", "this machine's clock")
        if self.agreed and self.standing in (ENDED, BUMPED):
            what = f"{stamp}. No age is needed: two readings agree that its transaction has ended."
            return met(TIME, what, self.record_source)
        return unmet(TIME, f"{stamp}: its age is not known.", _AGE, f"broker {self.leader}")

    @property
    def without_age(self) -> str:
        return self.of_time.what

    @property
    def seen_until(self) -> int | None:
        return self.as_of if self.read_at is None else self.read_at

    @property
    def coordinator_until(self) -> int | None:
        """Now, by the coordinator's clock, at least."""
        return self.as_of if self.as_of is None or self.skew is None else self.as_of + self.skew.low_ms

    @property
    def waiting_until(self) -> int | None:
        """A coordinator's clock alone does not show that a decision is stuck: two readings do."""
        return None if self.lasting_ms is None else self.coordinator_until

    @property
    def _begun(self) -> int | None:
        """The coordinator's start, by this machine's clock, at the latest."""
        begun = super().held_since
        return begun if begun is None or self.skew is None else begun - self.skew.low_ms

    @property
    def of_clocks(self) -> str | None:
        if self.skew is not None:
            return f"{self.skew.text[:1].upper()}{self.skew.text[1:]}: that is allowed for."
        if self.uncompared is None:
            return None
        place = self.coordinator_place
        return (
            f"The clock of {place}{',' * (',' in place)} was not compared with the clock here ({self.uncompared}): if "
            "it is behind, the transaction is not as late as its start shows."
        )

    @property
    def of_attention(self) -> Premise | None:
        begun, now = self._begun, self.seen_until
        if not self.may_block or begun is None or now is None or begun <= now + TOLERANCE_MS:
            return None
        what = (
            f"It may have held the last stable offset for too long: it began {when(begun)} by the clock of "
            f"{self.coordinator_place}, and by this machine's that is {duration(begun - now)} ahead"
        )
        return unmet(DEADLINE, what, "kafkawire txn watch counts from its first sight", self.coordinator_place)

    @property
    def held_since(self) -> int | None:
        """A coordinator's time counts only where it is not after the clock that it is compared with."""
        begun, now = self._begun, self.seen_until
        since = [one for one in (begun, self.first_seen) if one is not None and (now is None or one <= now)]
        return min(since, default=None)

    @property
    def coordinator_place(self) -> str:
        broker = self.id_state.coordinator if self.id_state else None
        return "the coordinator" if broker is None else f"broker {broker}, the coordinator"

    @property
    def leader_place(self) -> str:
        return f"broker {self.leader}, the leader of {self.open.place.topic}-{self.open.place.partition}"

    @property
    def too_old(self) -> str:
        return "The data has a higher epoch than the coordinator ever gave: its state was lost, or the epoch invented."

    @property
    def certainty(self) -> str:
        return "have what is missing granted or repaired, and look again"


def described(
    state: str,
    *,
    producer_id: int,
    producer_epoch: int,
    timeout_ms: int,
    start_time_ms: int | None,
    partitions: Sequence[tuple[str, int]],
) -> TransactionLogValue:
    """A description by the coordinator (DescribeTransactions) in the form of its log's records.

    The description lacks the time when the state last changed, which is not before the start: the start is taken. It
    also lacks the transaction's version (KIP-890): see `LiveCase.value`.

    Args:
        state: name of the TransactionStatus.
        producer_id, producer_epoch: of the id, as described.
        timeout_ms: of the transaction. `start_time_ms`: epoch milliseconds; None where no transaction is open.
        partitions: of the transaction, as topic and number.
    """
    begun = -1 if start_time_ms is None else start_time_ms
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=status_of(state),
        transaction_partitions=partition_list(partitions),
        transaction_last_update_timestamp_ms=begun,
        transaction_start_timestamp_ms=begun,
    )
