"""`CaseContext`: what the open transactions of a copied cluster are judged with; it makes their cases."""

from __future__ import annotations

from typing import Any

import msgspec

from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.cluster.broker_clocks import BrokerClocks, earlier_of
from kafkawire.transactions.cluster.cluster_traits import ClusterTraits
from kafkawire.transactions.coordinator.coordinator_copies import SKEW_MS, CoordinatorLog, PartitionLeader
from kafkawire.transactions.facts import TRANSACTION_STATE, Open, Owner, PartitionFacts, Place
from kafkawire.transactions.verdict.copied_case import CopiedCase


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
        moments: `CopiedReach.moment` by log directory. `with_metadata`: the directories that have a metadata log.
            `leaders`, `clocks`, `id_expiration_ms`, `skew_ms`: see `CopiedReach`.
        measured_skew_ms: by how much the clocks of today's leaders differ at most; None where it was not measured.
        traits: what decides between causes.
        blocked_after_ms: see `Settings`. `options`: see `Case`.
        without_open: by partition the replicas in which its earliest open transaction has ended.
    """

    cluster_id: str | None
    log: CoordinatorLog
    as_of: int | None
    given: bool
    covered: dict[str, int]
    max_timeout_ms: int
    moments: dict[str, dict[int, int]] = {}
    with_metadata: frozenset[str] = frozenset()
    leaders: dict[tuple[str, int], PartitionLeader] = {}
    clocks: BrokerClocks = BrokerClocks()
    id_expiration_ms: int = 0
    skew_ms: int = SKEW_MS
    measured_skew_ms: int | None = None
    traits: ClusterTraits = ClusterTraits()
    without_open: dict[tuple[str, int], list[OtherReplica]] = {}
    blocked_after_ms: int = BLOCKED_AFTER_MS
    options: tuple[str, ...] = ()

    def case(self, open_: Open, partition: PartitionFacts, first_start: int, owner: Owner | None) -> CopiedCase:
        """An open transaction of a replica.

        Args:
            open_: the transaction. `partition`: the replica.
            first_start: offset where the earliest of the replica's open transactions begins.
            owner: the transactional id of its producer id; None where no record names it.
        """
        of_cluster: dict[str, Any] = {name: getattr(self, name) for name in _OF_CLUSTER}
        of_cluster["skew_ms"] = self._skew_ms(open_, partition, owner)
        return CopiedCase(
            open=open_,
            partition=partition,
            first_start=first_start,
            owner=owner,
            covered_until=self.covered.get(open_.place.copy),
            moment=self.moments.get(open_.place.copy) if partition.as_left else None,
            has_metadata=open_.place.copy in self.with_metadata,
            diverged=self._diverged(open_, partition),
            **of_cluster,
        )

    def _skew_ms(self, open_: Open, partition: PartitionFacts, owner: Owner | None) -> int:
        """The largest difference between the clocks whose times are compared: a measured one holds for today's
        leaders."""
        if self.measured_skew_ms is None:
            return self.skew_ms
        of_data = partition.epoch_start is not None and open_.last_offset >= partition.epoch_start
        newest = None if owner is None else owner.newest
        of_id = newest is None or newest.leader_epoch == self.log.leader_epochs.get(newest.place.partition)
        return self.measured_skew_ms if of_data and of_id else max(self.skew_ms, self.measured_skew_ms)

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
                    f"in {mine.place.copy} (leader epoch {mine.newest_epoch}) lacks the marker."
                )
        return None

    def clock_of(self, place: Place, since: int) -> int | None:
        """The clock for what should have happened since a time of a coordinator's, in a partition of
        `__transaction_state`: a copy shows nothing that came after it was made, however much later others were."""
        if self.as_of is None or self.given:
            return self.as_of
        until = self.log.until.get(place.partition, self.log.newest.get(place.partition))
        return earlier_of(self.clocks.limit((TRANSACTION_STATE, place.partition), since), until)


#: What all cases of a cluster have in common.
_OF_CLUSTER = frozenset(CaseContext.__struct_fields__) & frozenset(CopiedCase.__struct_fields__)
