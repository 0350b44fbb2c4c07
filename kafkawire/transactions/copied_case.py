"""Cases from copied log directories: what copies of different moments can prove, and what they leave in doubt."""

from __future__ import annotations

from functools import cached_property

import msgspec

from kafkawire.messages import TransactionLogValue
from kafkawire.rows import Premise
from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.case import EXPIRED, PLACE, REACH, SOUNDNESS, Case, met, unmet
from kafkawire.transactions.cluster_traits import ClusterTraits
from kafkawire.transactions.coordinator_rules import state_name
from kafkawire.transactions.facts import TRANSACTION_STATE, Open, Owner, PartitionFacts, Place
from kafkawire.transactions.formatting import count, numbers, when
from kafkawire.transactions.replay import last_stable_offset


class CoordinatorLog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
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

    @cached_property
    def missing(self) -> list[int]:
        return sorted(set(range(self.partitions)) - set(self.read))

    @property
    def complete(self) -> bool:
        """Whether an id that was found nowhere does not exist."""
        return not self.missing and not self.damaged


class CopiedCase(Case, frozen=True, kw_only=True, dict=True):
    """An open transaction in a copied log.

    Attributes:
        partition: the replica that it was found in.
        owner: the transactional id of its producer id, None where no record names it.
        log: how much of the coordinator's log was read.
        covered_until: newest broker-side time in the log directory that the partition was read from.
    """

    partition: PartitionFacts
    owner: Owner | None
    log: CoordinatorLog
    covered_until: int | None = None

    @property
    def log_start(self) -> int:
        return self.partition.log_start

    @property
    def high_watermark(self) -> int | None:
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int | None:
        high = self.partition.high_watermark
        return None if high is None else last_stable_offset(high, self.first_start, self.partition.log_start)

    @property
    def last_offset(self) -> int | None:
        return self.open.last_offset

    @property
    def transactional_id(self) -> str | None:
        return self.owner.newest.transactional_id if self.owner else None

    @property
    def value(self) -> TransactionLogValue | None:
        return self.owner.newest.value if self.owner else None

    @property
    def record_place(self) -> Place | None:
        return self.owner.newest.place if self.owner else None

    @property
    def writer_epoch(self) -> int:
        return self.log.leader_epochs.get(self.owner.newest.place.partition, -1) if self.owner else -1

    @property
    def decided_epoch(self) -> int | None:
        return self.owner.newest.leader_epoch if self.owner else None

    @property
    def expired(self) -> bool:
        return self.owner is not None and self.owner.newest.value is None

    @property
    def coordinator_place(self) -> str:
        return f"the leader of {TRANSACTION_STATE}-{self.state_partition}, the coordinator"

    @property
    def leader_place(self) -> str:
        return f"the leader of {self.open.place.topic}-{self.open.place.partition}"

    @property
    def state_partition(self) -> int | None:
        return self.owner.newest.place.partition if self.owner else None

    @property
    def too_old(self) -> str:
        return "That record is older than the data: the copy of the coordinator's log ends too early."

    @property
    def certainty(self) -> str:
        return "read what was missing, or query the live cluster (kafkawire txn find-hanging)"

    @property
    def data(self) -> str:
        open_ = self.open
        return (
            f"{open_.place}: transactional data of producer id {open_.producer_id}, epoch {open_.producer_epoch}, in "
            f"offsets {open_.start_offset} to {open_.last_offset}, and no marker of it up to the end of the log "
            f"({self.partition.log_end})."
        )

    @property
    def coordinator_view(self) -> str:
        owner, log = self.owner, self.log
        if owner is None:
            read = len(log.read)
            where = f"{count(read, 'partition')} of {TRANSACTION_STATE}"
            return f"No record in the {where} that were read names the producer id."
        newest = owner.newest
        value = newest.value
        who = f"Transactional id {newest.transactional_id!r}"
        record = f"({newest.place}, offset {newest.offset}, {when(newest.timestamp)})"
        if value is None:
            return f"{who} has expired {record}: {EXPIRED}."
        return (
            f"{who} is {state_name(value.transaction_status)}, producer id {value.producer_id}, "
            f"epoch {value.producer_epoch} {record}{self.meaning}."
        )

    @property
    def of_coordinators(self) -> tuple[Premise, ...]:
        log, owner = self.log, self.owner
        if owner is not None:
            partition = owner.newest.place.partition
            name = f"{TRANSACTION_STATE}-{partition}"
            if partition in log.damaged:
                what = f"{name} is damaged: a newer record of the id may be lost."
                return (unmet(SOUNDNESS, what, f"give another copy of {name}", name),)
            return (met(SOUNDNESS, f"All that was copied of {name} could be read.", name),)
        found = []
        if log.missing:
            missing = numbers(log.missing)
            what = (
                f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read ({missing}): "
                "its transactional id may be there."
            )
            found.append(unmet(REACH, what, f"give a copy of these partitions of {TRANSACTION_STATE}"))
        if log.damaged:
            damaged = numbers(list(log.damaged))
            what = f"{TRANSACTION_STATE} is damaged in partitions {damaged}: its id may be lost."
            found.append(unmet(SOUNDNESS, what, f"give another copy of these partitions of {TRANSACTION_STATE}"))
        whole = f"All {log.partitions} partitions of {TRANSACTION_STATE} were read, and none is damaged."
        return tuple(found) or (met(REACH, whole, TRANSACTION_STATE),)

    @property
    def of_held(self) -> tuple[Premise, ...]:
        return ()

    @property
    def of_unheld(self) -> tuple[Premise, ...]:
        """Copies of different times. What follows from two of them holds only for times that both cover."""
        found = []
        needs = "copy the coordinator's log after the data, or stop the broker cleanly before copying"
        written = max(self.open.last_timestamp, self.open.written_after or -1)
        if self.log.newest is None:
            what = f"{TRANSACTION_STATE} holds no record: nothing shows that it was copied after the data."
            found.append(unmet(REACH, what, needs))
        elif self.log.newest <= written:
            what = (
                f"{TRANSACTION_STATE} holds no record written after the data ({when(written)}; its newest is of "
                f"{when(self.log.newest)}): it may have been copied too early."
            )
            found.append(unmet(REACH, what, needs))
        newest = self.owner.newest if self.owner else None
        if newest is not None and (self.covered_until is None or newest.timestamp > self.covered_until):
            what = (
                f"The coordinator's record is of {when(newest.timestamp)}, and the log directory of {self.open.place} "
                f"shows nothing after {when(self.covered_until)}: the marker may have come later."
            )
            found.append(unmet(REACH, what, f"copy {self.open.place} again"))
        return tuple(found)

    @property
    def of_partition(self) -> tuple[Premise, ...]:
        found = []
        gap, start, high = self.partition.gap, self.open.start_offset, self.partition.high_watermark
        if gap is not None and (gap.end is None or gap.end > start):
            end = "on" if gap.end is None else f"to {gap.end - 1}"
            what = f"Offsets from {gap.start} {end} could not be read: a marker may be among them."
            found.append(unmet(SOUNDNESS, what, f"give another replica of {self.open.place}"))
        if high is not None and start >= high:
            what = f"Its data is not below the high watermark {high}: a follower may still truncate it."
            found.append(unmet(PLACE, what, f"copy {self.open.place} from its leader"))
        return tuple(found) or (met(SOUNDNESS, "No offset is missing from its first batch on.", self.open.place.copy),)


class OtherReplica(msgspec.Struct, frozen=True):
    """A replica of a partition that is not the one that counts. `first_start`: of its earliest open transaction."""

    copy: str
    leader_epoch: int
    log_start: int
    log_end: int
    first_start: int | None


class CaseContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the open transactions of a cluster are judged with. It grows with log directories, not with what is in them.

    Attributes:
        cluster_id: None where the log directories do not have it.
        as_of: the time as of which ages count, epoch milliseconds. `given`: by an option, so that it holds for all.
        covered: for each log directory the newest broker-side time in it: until then, at least, it was copied.
        traits: what decides between causes.
        blocked_after_ms: as of `Settings`.
        without_open: by partition the replicas in which its earliest open transaction has ended.
    """

    cluster_id: str | None
    log: CoordinatorLog
    as_of: int | None
    given: bool
    covered: dict[str, int]
    max_timeout_ms: int
    traits: ClusterTraits = ClusterTraits()
    without_open: dict[tuple[str, int], list[OtherReplica]] = {}
    blocked_after_ms: int = BLOCKED_AFTER_MS

    def case(self, open_: Open, partition: PartitionFacts, first_start: int, owner: Owner | None) -> CopiedCase:
        """An open transaction of a replica.

        Args:
            open_: the transaction. `partition`: the replica.
            first_start: offset where the earliest of the replica's open transactions begins.
            owner: the transactional id of its producer id; None where no record names it.
        """
        return CopiedCase(
            open=open_,
            partition=partition,
            first_start=first_start,
            owner=owner,
            log=self.log,
            covered_until=self.covered.get(open_.place.copy),
            as_of=self.as_of,
            max_timeout_ms=self.max_timeout_ms,
            cluster_id=self.cluster_id,
            blocked_after_ms=self.blocked_after_ms,
            traits=self.traits,
            diverged=self._diverged(open_, partition),
        )

    def _diverged(self, open_: Open, mine: PartitionFacts) -> str | None:
        """A sentence on another replica in which an open transaction has ended; None where there is none.

        Replicas are equal up to the shorter one's end, unless one that was not in sync became leader: then the marker
        was truncated in the others.
        """
        for other in self.without_open.get((open_.place.topic, open_.place.partition), ()):
            ended = other.first_start is None or other.first_start > open_.start_offset
            if ended and other.log_start <= open_.start_offset and other.log_end > open_.last_offset + 1:
                return (
                    f"The replica in {other.copy} (leader epoch {other.leader_epoch}) has the transaction ended; that "
                    f"in {mine.place.copy} (leader epoch {mine.leader_epoch}) lacks the marker."
                )
        return None

    def clock_of(self, place: Place) -> int | None:
        """The clock for what should have happened since: a copy shows nothing that came after it was made, however
        much later others were."""
        if self.as_of is None or self.given:
            return self.as_of
        return min(self.as_of, self.covered.get(place.copy, self.as_of))
