"""`Case`: an open transaction and all that is known around it. `copied_case` (log directories) and `live_case` (a
cluster) define what was read and what that leaves in doubt."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from functools import cached_property

import msgspec

from kafkawire.messages import TransactionLogValue
from kafkawire.rows import Premise
from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.cluster.cluster_traits import ClusterTraits
from kafkawire.transactions.commands import Reach
from kafkawire.transactions.coordinator import coordinator_log
from kafkawire.transactions.coordinator.coordinator_log import BUMPED, CURRENT, ENDED, NOT_BEGUN
from kafkawire.transactions.coordinator.coordinator_rules import begun_ms
from kafkawire.transactions.facts import Open, Place
from kafkawire.transactions.formatting import when
from kafkawire.transactions.verdict.client_stamps import implausible

#: Kafka's PartitionsWithLateTransactionsCount counts from transaction.max.timeout.ms plus this on.
GRACE_MS = 300_000
#: Broker default of transaction.max.timeout.ms.
MAX_TIMEOUT_MS = 900_000

_MINUTE_MS = 60_000
#: Names of premises.
PLACE, REACH, TIME, SOUNDNESS, DEADLINE = "place", "reach", "time", "soundness", "deadline"

_MEANINGS = {
    ENDED: ": the transaction has ended",
    NOT_BEGUN: ": no transaction has begun in that epoch",
    BUMPED: ": it has gone on to later epochs",
}
#: What follows from an expired id (a tombstone in the coordinator's log): the transaction is not the id's.
EXPIRED = "no coordinator knows its producer id any more, and none forgets an id that has a transaction"


def met(name: str, what: str, source: str | None = None) -> Premise:
    """A premise that holds. `name`: of `PLACE` and so on. `what`: a sentence. `source`: what shows it."""
    return Premise(name=name, holds=True, what=what, source=source)


def unmet(name: str, what: str, needs: str, source: str | None = None) -> Premise:
    """A premise that does not hold. `name`, `what`, `source`: see `met`. `needs`: how to meet it, as the end of a
    sentence."""
    return Premise(name=name, holds=False, what=what, source=source, needs=needs)


def given_limit(max_timeout_ms: int | None) -> tuple[str, ...]:
    """The option by which another command judges with a transaction.max.timeout.ms that was given, in minutes; none for
    None."""
    return () if max_timeout_ms is None else (f"--max-transaction-timeout {-(-max_timeout_ms // _MINUTE_MS)}",)


class IdState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the transactional id that a producer id belongs to.

    Attributes:
        source: where it was read: a file and the offset, or "coordinator broker 2"; empty: nowhere.
        value: the newest state; None for an id that has expired, or where it could not be read (`problem`).
        described: whether it is the coordinator's description, not a record of its log.
        partition: of `__transaction_state`; `coordinator`: the broker that leads it. None where they are not known.
        epoch: of its coordinator (the leader epoch of that partition), which its markers carry; -1 where not known.
        decided_epoch: of the coordinator that wrote the value; None where it is not known: a description lacks it.
        place: the partition of `__transaction_state` with the record of the value; None: its coordinator described it.
    """

    transactional_id: str
    source: str
    value: TransactionLogValue | None
    described: bool = False
    partition: int | None = None
    coordinator: int | None = None
    epoch: int = -1
    problem: str | None = None
    decided_epoch: int | None = None
    place: Place | None = None


class _Abstract(msgspec.StructMeta, ABCMeta):
    """Structs with abstract properties: a class that lacks one of them cannot be instantiated."""


class Case(msgspec.Struct, metaclass=_Abstract, frozen=True, kw_only=True, dict=True):
    """An open transaction and all that is known around it.

    Attributes:
        open: the transaction.
        first_start: first offset of the earliest transaction in the partition that holds the last stable offset.
        as_of: the clock, epoch milliseconds. `max_timeout_ms`: transaction.max.timeout.ms.
        cluster_id: where it is known.
        lasting_ms: between two readings that found it open and its coordinator preparing it; None: it was read once.
        traits: of the cluster: what decides between causes.
        blocked_after_ms: a transaction that has held the last stable offset for longer needs attention.
        diverged: a sentence on another replica that has its marker; None where none is known.
        address: how the cluster is reached, for the commands in `action`: HOST:PORT and what options follow it.
        options: for kafkawire's own commands in `action`: what else the verdict depends on.
    """

    open: Open
    first_start: int
    as_of: int | None = None
    max_timeout_ms: int = MAX_TIMEOUT_MS
    cluster_id: str | None = None
    address: str = "HOST:PORT"
    options: tuple[str, ...] = ()
    lasting_ms: int | None = None
    blocked_after_ms: int = BLOCKED_AFTER_MS
    traits: ClusterTraits = ClusterTraits()
    diverged: str | None = None

    # What each kind of case knows in its own way ----------------------------------------------------------------------

    @property
    @abstractmethod
    def log_start(self) -> int:
        """First offset of the partition's log."""

    @property
    @abstractmethod
    def high_watermark(self) -> int | None: ...

    @property
    @abstractmethod
    def last_stable_offset(self) -> int | None: ...

    @property
    @abstractmethod
    def last_offset(self) -> int | None:
        """The last offset of the transaction's data, where it is known."""

    @property
    @abstractmethod
    def id_state(self) -> IdState | None:
        """Whose producer id it is, and its newest state at its coordinator; None where no coordinator knows it."""

    @property
    @abstractmethod
    def coordinator_place(self) -> str:
        """Which broker coordinates the id: "broker 2, the coordinator"."""

    @property
    @abstractmethod
    def leader_place(self) -> str:
        """Which broker leads the partition: "broker 1, the leader of orders-0"."""

    @property
    @abstractmethod
    def data(self) -> str:
        """What was found in the partition, as a sentence."""

    @property
    @abstractmethod
    def coordinator_view(self) -> str:
        """The state of the id at its coordinator, as a sentence."""

    @property
    @abstractmethod
    def of_coordinators(self) -> tuple[Premise, ...]:
        """What each verdict rests on that uses the coordinator's state, or that there is none."""

    @property
    @abstractmethod
    def of_held(self) -> tuple[Premise, ...]:
        """What else a verdict rests on by which the coordinator holds the transaction."""

    @property
    @abstractmethod
    def of_unheld(self) -> tuple[Premise, ...]:
        """What else a verdict rests on by which no coordinator will end the transaction."""

    @property
    def of_decision(self) -> tuple[Premise, ...]:
        """What else it rests on that what the coordinator has recorded is decided."""
        return ()

    @property
    @abstractmethod
    def of_partition(self) -> tuple[Premise, ...]:
        """What of the partition, and of the replica that was read, a verdict rests on that advises an action."""

    @property
    @abstractmethod
    def too_old(self) -> str:
        """Why the coordinator's state can be older than the data, as a sentence."""

    @property
    @abstractmethod
    def certainty(self) -> str:
        """How to become certain."""

    @property
    def stamp_problem(self) -> str | None:
        """Why the client's stamp of its last batch is not used, the end of a sentence; None where it is plausible. A
        broker's time on or after the batch is a clock, too: the batch was in the log by then."""
        by, as_of = self.open.written_by, self.as_of
        return implausible(self.open.last_timestamp, as_of if as_of is None or by is None else min(as_of, by))

    @property
    def of_time(self) -> Premise:
        """What shows its age, for a verdict by which no coordinator will end it. A client's stamp counts only against
        an alarm, and only where it is plausible."""
        if self.as_of is None:
            return unmet(TIME, "Its age is not known: no clock was found.", "give the clock (--as-of)")
        problem, by = self.stamp_problem, self.open.written_by
        shown = "" if by is None else f"; by {when(by)} it was in the log, by the broker's clock"
        stamp = (
            "Its client's stamp is plausible" if problem is None else f"Its client's stamp does not count, {problem}"
        )
        return met(TIME, f"{stamp}{shown}.", self.open.place.path)

    @property
    def without_age(self) -> str:
        """Why it hangs although its age is not known, as a sentence."""
        return "No age is needed: a producer registers with its coordinator before it writes."

    @property
    def seen_until(self) -> int | None:
        """Until when it was open, epoch milliseconds; None where no clock is known."""
        return self.as_of

    @property
    def coordinator_until(self) -> int | None:
        """Until when its coordinator's state was as it was read, epoch milliseconds; None where that is not known."""
        return self.as_of

    @property
    def waiting_until(self) -> int | None:
        """Until when the coordinator's state was as it was read, and the partition without a marker, epoch
        milliseconds; None where that is not known."""
        return self.as_of

    @property
    def held_since(self) -> int | None:
        """The time from which on the transaction was certainly open, by broker-side times, epoch milliseconds; None
        where that is not known."""
        value = self.value
        if value is None or self.standing != CURRENT or not self.listed:
            return None
        begun = begun_ms(value)
        return begun if begun >= 0 else None

    @property
    def of_clocks(self) -> str | None:
        """How far the coordinator's clock is from the one that it is compared with, a sentence; None where it is not
        known to be far from it."""
        return None

    @property
    def may_block(self) -> bool:
        """Whether it may hold the last stable offset back, for all that is known."""
        return self.blocked

    @property
    def of_attention(self) -> Premise | None:
        """A premise that does not hold: that it has not held the last stable offset for too long; None where times of
        brokers show that it has, or that it has not."""
        return None

    # What follows from it ---------------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str | None:
        return None if self.id_state is None else self.id_state.transactional_id

    @property
    def value(self) -> TransactionLogValue | None:
        """The newest state of the id at its coordinator; None for an id that has expired, too."""
        return None if self.id_state is None else self.id_state.value

    @property
    def writer_epoch(self) -> int:
        return -1 if self.id_state is None else self.id_state.epoch

    @property
    def decided_epoch(self) -> int | None:
        return None if self.id_state is None else self.id_state.decided_epoch

    @property
    def state_partition(self) -> int | None:
        return None if self.id_state is None else self.id_state.partition

    @property
    def record_place(self) -> Place | None:
        return None if self.id_state is None else self.id_state.place

    @property
    def expired(self) -> bool:
        """Whether its transactional id has expired: the coordinator's log has a tombstone."""
        return self.id_state is not None and self.id_state.value is None and self.id_state.problem is None

    @property
    def record_source(self) -> str | None:
        """Where the coordinator's state was read; None: nowhere."""
        return None if self.id_state is None else self.id_state.source or None

    @property
    def aborter(self) -> str:
        """The command that aborts a transaction in one partition, with its address and options."""
        return Reach(self.address, self.options).judging("txn abort")

    @property
    def terminator(self) -> str:
        """The command that ends an id's transaction through its coordinator, up to the id."""
        return Reach(self.address, self.options).judging("txn force-terminate", "--transactional-id")

    @property
    def limit_ms(self) -> int:
        return self.max_timeout_ms + GRACE_MS

    @property
    def age_ms(self) -> int | None:
        """Age as Kafka's tools count it, from the last batch, which a client has stamped; None where that stamp is not
        plausible."""
        if self.as_of is None or self.stamp_problem is not None:
            return None
        return self.as_of - self.open.last_timestamp

    @property
    def blocked(self) -> bool:
        """Whether it, and no other, holds the last stable offset back now."""
        stable, high = self.last_stable_offset, self.high_watermark
        return self.open.start_offset == self.first_start and (stable is None or high is None or stable < high)

    @property
    def deleted(self) -> bool:
        """Whether all its data is known to be deleted."""
        return self.open.last_offset < self.log_start

    @cached_property
    def standing(self) -> str | None:
        if self.value is None:
            return None
        return coordinator_log.standing(self.value, self.open.producer_id, self.open.producer_epoch)

    @property
    def meaning(self) -> str:
        """What the coordinator's state means for the transaction: the end of a sentence, or nothing."""
        if self.standing == CURRENT:
            return f": its transaction {'has' if self.listed else 'does not have'} {self.open.place}"
        return _MEANINGS.get(self.standing or "", "")

    @property
    def listed(self) -> bool:
        """Whether the id's transaction has the partition."""
        place = self.open.place
        return self.value is not None and coordinator_log.lists_partition(self.value, place.topic, place.partition)
