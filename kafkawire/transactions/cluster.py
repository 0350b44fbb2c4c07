"""`Cluster`: the facts of one cluster, the replicas that count, and what follows from them at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from kafkawire.transactions.copies import CoordinatorLog
from kafkawire.transactions.facts import TRANSACTION_STATE, Facts, Metadata, Partition, Place
from kafkawire.transactions.metadata import handed_out
from kafkawire.transactions.settings import Resolved, Settings, resolve


class Cluster(msgspec.Struct, frozen=True, dict=True):
    """All that was read of one cluster.

    Attributes:
        cluster_id: None where the log directories do not say it.
    """

    facts: Facts
    settings: Settings
    cluster_id: str | None = None

    @cached_property
    def chosen(self) -> dict[Place, Partition]:
        """Of each partition the replica that counts."""
        return {partition.place: partition for partition in choose_replicas(self.facts.partitions)}

    @cached_property
    def of_ids(self) -> dict[int, Partition]:
        """The partitions of `__transaction_state`, by number."""
        return {p.place.partition: p for p in self.chosen.values() if p.place.topic == TRANSACTION_STATE}

    @cached_property
    def resolved(self) -> Resolved:
        """Its settings."""
        return resolve(self.settings, self.facts.metadata.values(), list(self.of_ids))

    @cached_property
    def metadata(self) -> Metadata | None:
        """The newest copy of its metadata log."""
        copies = self.facts.metadata.values()
        return max(copies, key=lambda one: (one.newest or 0, one.place), default=None)

    @cached_property
    def handed_out(self) -> int | None:
        """The first producer id that was not handed out yet; None where it is not known."""
        return handed_out(self.facts.metadata.values())

    @cached_property
    def log(self) -> CoordinatorLog:
        """How much of the coordinator's log was read."""
        of_ids = self.of_ids
        damaged = (n for n, p in of_ids.items() if p.damaged or p.place in self.facts.unreadable_ids)
        return CoordinatorLog(
            partitions=self.resolved.transaction_state_partitions.value,
            read=tuple(sorted(of_ids)),
            damaged=tuple(sorted(damaged)),
            leader_epochs={number: partition.leader_epoch for number, partition in of_ids.items()},
            newest=max((p.broker_time for p in of_ids.values() if p.broker_time is not None), default=None),
        )

    @cached_property
    def clock(self) -> tuple[int | None, str | None]:
        """The time as of which ages count, epoch milliseconds, and where it comes from."""
        if self.settings.as_of is not None:
            return self.settings.as_of, "as given"
        timed = [(p.broker_time, p.place) for p in self.facts.partitions if p.broker_time is not None]
        if not timed:
            return None, None
        newest, place = max(timed)
        return newest, f"newest time that a broker wrote, in {place} of {place.copy}"

    @cached_property
    def covered(self) -> dict[str, int]:
        """For each log directory the newest broker-side time in it: until then, at least, it was copied."""
        covered: dict[str, int] = {}
        for partition in self.facts.partitions:
            if partition.broker_time is not None:
                copy = partition.place.copy
                covered[copy] = max(covered.get(copy, partition.broker_time), partition.broker_time)
        return covered

    def clock_of(self, place: Place) -> int | None:
        """The clock for what ought to have happened since: a copy shows nothing that came after it was made, however
        much later others were. A clock that was given is taken to be all copies'."""
        as_of, _ = self.clock
        if as_of is None or self.settings.as_of is not None:
            return as_of
        return min(as_of, self.covered.get(place.copy, as_of))

    @cached_property
    def has_transactions(self) -> bool:
        """Whether any partition holds a transaction's batch: otherwise no transactional id can matter."""
        return any(partition.transactional for partition in self.facts.partitions) or bool(self.facts.opens)


def choose_replicas(partitions: Iterable[Partition]) -> list[Partition]:
    """Of each partition the replica that reaches furthest: the highest leader epoch, then the most offsets."""
    best: dict[tuple[str, int], Partition] = {}
    for partition in partitions:
        key = (partition.place.topic, partition.place.partition)
        if key not in best or _reach(best[key]) < _reach(partition):
            best[key] = partition
    return list(best.values())


def _reach(partition: Partition) -> tuple[int, int, int, str]:
    high_watermark = -1 if partition.high_watermark is None else partition.high_watermark
    return partition.leader_epoch, partition.log_end, high_watermark, partition.place.copy
