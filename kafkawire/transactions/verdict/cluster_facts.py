"""`ClusterFacts`: the facts of one cluster, the replicas that count, and what follows from them directly.

Log directories of several clusters may be in one audit: the id in `meta.properties` separates them, and their facts are
never joined (`by_cluster`; `audit_result` puts their answers together).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.cluster.broker_clocks import BrokerClocks, broker_clocks
from kafkawire.transactions.cluster.clock_offsets import Differences, differences, far_apart, spread_ms
from kafkawire.transactions.cluster.cluster_metadata import distinct_assignments, handed_out, newest_of
from kafkawire.transactions.cluster.cluster_traits import ClusterTraits, copied_traits
from kafkawire.transactions.coordinator.coordinator_copies import ONE_CLOCK_MS, SKEW_MS, CoordinatorLog, PartitionLeader
from kafkawire.transactions.coordinator.coordinator_log import IdFacts, pick_owner
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    AssignedProducerIds,
    ClusterMetadata,
    Leader,
    MissingOffsets,
    Open,
    Owner,
    PartitionFacts,
    Place,
    ReplicaProducers,
)
from kafkawire.transactions.formatting import duration, when
from kafkawire.transactions.log.endings import Endings
from kafkawire.transactions.parts.lost_records import lost_records
from kafkawire.transactions.parts.manifest import DirectoryContent, Manifest, manifest
from kafkawire.transactions.verdict.case import given_limit
from kafkawire.transactions.verdict.case_context import CaseContext, OtherReplica
from kafkawire.transactions.verdict.settings import ResolvedSettings, Settings, resolve

T = TypeVar("T")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that an engine has read.

    Attributes:
        opens: of all replicas, where this process judges them.
        first_starts: of each replica with transactions that hold the last stable offset, where the earliest begins.
        metadata: from the `__cluster_metadata` of each log directory that has one, by directory.
        histories: the content of each copy of a partition of `__transaction_state` that has records.
        endings, producers: of all replicas.
        stopped: the log directories whose brokers were stopped cleanly.
        clusters: the cluster's id, by log directory; without directories that have none.
        damage: of other files than segments. `more_damage`: number of damaged places that are not here. `gaps`:
            sentences on what could not be looked at.
        answers: of the checks that need one replica, or several of one partition.
        directories: the brokers' log directories, and what they must hold.
        decisions_last: `__transaction_state` was read after the data, each partition to its high watermark: a Prepare
            record is replicated before its markers are sent, so that the decision of every marker was read.
    """

    paths: tuple[str, ...]
    brokers: tuple[int, ...]
    partitions: Sequence[PartitionFacts]
    opens: Sequence[Open] = ()
    first_starts: dict[Place, int] = {}
    metadata: dict[str, ClusterMetadata] = {}
    histories: dict[Place, IdFacts] = {}
    endings: Sequence[Endings] = ()
    producers: Sequence[ReplicaProducers] = ()
    stopped: frozenset[str] = frozenset()
    clusters: dict[str, str] = {}
    damage: tuple[rows.DamageRow, ...] = ()
    gaps: tuple[str, ...] = ()
    more_damage: int = 0
    answers: Sequence[Placed] = ()
    directories: Sequence[DirectoryContent] = ()
    decisions_last: bool = False


class ClusterFacts(msgspec.Struct, frozen=True, dict=True):
    """All that was read of one cluster. `cluster_id`: None where the log directories do not have it."""

    facts: Facts
    settings: Settings
    cluster_id: str | None = None

    @cached_property
    def chosen(self) -> dict[Place, PartitionFacts]:
        """The replica that counts, of each partition."""
        return {partition.place: partition for partition in choose_replicas(self.facts.partitions)}

    @cached_property
    def of_ids(self) -> dict[int, PartitionFacts]:
        """The partitions of `__transaction_state`, by number."""
        return {p.place.partition: p for p in self.chosen.values() if p.place.topic == TRANSACTION_STATE}

    @cached_property
    def histories(self) -> dict[Place, IdFacts]:
        """The content of those that have records."""
        places = [partition.place for partition in self.of_ids.values()]
        return {place: self.facts.histories[place] for place in places if place in self.facts.histories}

    def owner(self, producer_id: int) -> Owner | None:
        """The transactional id that a producer id belongs to; None where no record names it."""
        named = (history.owners.get(producer_id) for history in self.histories.values())
        return pick_owner(owner for owner in named if owner is not None)

    @cached_property
    def resolved(self) -> ResolvedSettings:
        """Its settings."""
        return resolve(self.settings, self.facts.metadata.values(), list(self.of_ids))

    @cached_property
    def metadata(self) -> ClusterMetadata | None:
        """The newest copy of its metadata log."""
        return newest_of(self.facts.metadata.values())

    @cached_property
    def manifest(self) -> Manifest:
        """What its log directories must hold, and what of it was not read."""
        facts = self.facts
        return manifest(facts.directories, facts.partitions, self.chosen.values(), facts.metadata, self.metadata)

    @cached_property
    def handed_out(self) -> int | None:
        """The first producer id that was not handed out yet; None where it is not known."""
        return handed_out(self.facts.metadata.values())

    @cached_property
    def assignments(self) -> tuple[AssignedProducerIds, ...]:
        """What the copies of its metadata log show of producer ids, those with no gap."""
        return distinct_assignments(self.facts.metadata.values())

    @cached_property
    def log(self) -> CoordinatorLog:
        """How much of the coordinator's log was read."""
        of_ids = self.of_ids
        unreadable = {place for place, history in self.histories.items() if history.unreadable is not None}
        damaged = {n for n, p in of_ids.items() if p.damaged or p.place in unreadable}
        high: dict[int, int] = {}
        for one in self.facts.partitions:
            if one.place.topic == TRANSACTION_STATE and one.high_watermark is not None:
                high[one.place.partition] = max(one.high_watermark, high.get(one.place.partition, 0))
        return CoordinatorLog(
            partitions=self.resolved.transaction_state_partitions.value,
            assumed=self.resolved.transaction_state_partitions.source == rows.Setting.DEFAULT,
            read=tuple(sorted(of_ids)),
            damaged=tuple(sorted(damaged)),
            leader_epochs={number: partition.leader_epoch for number, partition in of_ids.items()},
            newest={
                number: time
                for number, partition in of_ids.items()
                if (time := partition.leader_newest) is not None and not self.clocks.is_far(time)
            },
            places={number: partition.place for number, partition in of_ids.items()},
            lost={
                number: self.lost[partition.place]
                for number, partition in sorted(of_ids.items())
                if partition.place in self.lost and number not in damaged
            },
            high_watermarks=high,
            until={
                number: self.covered[partition.place.copy]
                for number, partition in of_ids.items()
                if partition.place.copy in self.facts.stopped and partition.place.copy in self.covered
                if partition.as_left and (TRANSACTION_STATE, number) not in self.manifest.short
            },
        )

    @cached_property
    def lost(self) -> dict[Place, MissingOffsets]:
        """The last offsets that are lost, of each replica that counts and has lost records."""
        return lost_records(self.chosen.values(), self.facts.partitions)

    @cached_property
    def traits(self) -> ClusterTraits:
        """What decides between causes."""
        newest = self.metadata
        return copied_traits(
            {} if newest is None else newest.features,
            {} if newest is None else newest.configs,
            first_free_producer_id=self.handed_out,
            id_expiration_ms=self.resolved.transactional_id_expiration.value,
        )

    @cached_property
    def without_open(self) -> dict[tuple[str, int], list[OtherReplica]]:
        """The replicas, by partition, in which the earliest open transaction of the one that counts is not open."""
        starts = {
            (place.topic, place.partition): start
            for place, start in self.facts.first_starts.items()
            if place in self.chosen
        }
        found: dict[tuple[str, int], list[OtherReplica]] = {}
        for one in self.facts.partitions if starts else ():
            key = one.place.topic, one.place.partition
            if key not in starts or one.place in self.chosen or one.gap is not None or one.damaged:
                continue
            first = self.facts.first_starts.get(one.place)
            if one.log_start <= starts[key] < one.log_end and (first is None or first > starts[key]):
                found.setdefault(key, []).append(
                    OtherReplica(one.place.copy, one.newest_epoch, one.log_start, one.log_end, first)
                )
        return found

    @cached_property
    def clock(self) -> tuple[int | None, str | None]:
        """The time as of which ages count, epoch milliseconds, and where it comes from."""
        if self.settings.as_of is not None:
            return self.settings.as_of, "as given"
        clocks = self.clocks
        newest, far = clocks.newest, clocks.far
        if newest is None:
            return None, None
        source = f"newest time that a broker wrote, in {newest.place} of {newest.place.copy}"
        for broker, stamp in sorted(clocks.behind.items()):
            source += (
                f"; broker {broker} wrote nothing after {when(stamp.time)}, in {stamp.place} of {stamp.place.copy}, or "
                "its clock is behind: its times are not compared with later ones"
            )
        if far is not None:
            source += (
                f"; {when(far.time)} in {far.place} of {far.place.copy} is far from all others, and does not count"
            )
        apart = far_apart(self.clock_differences)
        source += "".join(
            f"; the clock of broker {one.broker} is ahead of broker {one.other}'s by {duration(one.least_ms)} to "
            f"{duration(one.most_ms)}, as ended transactions show"
            for one in apart[:_FEW_CLOCKS]
        )
        return newest.time, source

    @cached_property
    def clocks(self) -> BrokerClocks:
        """The clocks of its brokers."""
        return broker_clocks(self.facts.partitions, self.leaders)

    @cached_property
    def leaders(self) -> Mapping[tuple[str, int], Leader]:
        """The leader of each partition, by the newest copy of the metadata log."""
        return {} if self.metadata is None else self.metadata.leaders

    @cached_property
    def broker_times(self) -> dict[Place, int | None]:
        """The newest time in each replica that a broker wrote."""
        return {partition.place: partition.broker_time for partition in self.facts.partitions}

    @cached_property
    def covered(self) -> dict[str, int]:
        """For each log directory the newest broker-side time in it: until then, at least, it was copied. In one whose
        broker was stopped cleanly only what is as it was then shows that."""
        covered: dict[str, int] = {}
        for partition in self.facts.partitions:
            time, copy = partition.broker_time, partition.place.copy
            counts = partition.as_left or copy not in self.facts.stopped
            if counts and time is not None and not self.clocks.is_far(time):
                covered[copy] = max(covered.get(copy, time), time)
        return covered

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The broker's id, by log directory; without directories that have none."""
        return {one.root: one.node_id for one in self.facts.directories if one.node_id is not None}

    @cached_property
    def moments(self) -> dict[str, dict[int, int]]:
        """For each log directory of a broker that was stopped cleanly, the ends of the partitions of
        `__transaction_state` in all of that broker's directories: all of them are of one moment, but those that are not
        as the broker left them."""
        stopped, nodes = self.facts.stopped, self.nodes
        ends: dict[object, dict[int, int]] = {}
        for one in self.facts.partitions:
            name = one.place.topic, one.place.partition
            of_moment = one.place.copy in stopped and one.as_left and name not in self.manifest.short
            if one.place.topic == TRANSACTION_STATE and of_moment:
                ends.setdefault(nodes.get(one.place.copy, one.place.copy), {})[one.place.partition] = one.log_end
        return {copy: ends.get(nodes.get(copy, copy), {}) for copy in stopped}

    @cached_property
    def led(self) -> dict[tuple[str, int], PartitionLeader]:
        """The leaders of the partitions with an open transaction, and of those of `__transaction_state`, where the
        metadata log names one, and no newer one led when the replica that counts was written."""
        found: dict[tuple[str, int], PartitionLeader] = {}
        opens = {(place.topic, place.partition) for place in self.facts.first_starts}
        read: set[tuple[str, int, int | None]] = (
            {(one.place.topic, one.place.partition, self.nodes.get(one.place.copy)) for one in self.facts.partitions}
            if self.leaders
            else set()
        )
        for place, partition in self.chosen.items():
            key = place.topic, place.partition
            leader = self.leaders.get(key) if key in opens or place.topic == TRANSACTION_STATE else None
            if leader is not None and self.metadata is not None and leader.epoch >= partition.newest_epoch:
                found[key] = PartitionLeader(
                    leader.broker, leader.epoch, (*key, leader.broker) in read, self.metadata.path
                )
        return found

    @property
    def skew_ms(self) -> int:
        """The largest possible difference between the clocks that wrote its logs: none where one broker leads all
        partitions."""
        return ONE_CLOCK_MS if len({leader.broker for leader in self.leaders.values()}) == 1 else SKEW_MS

    @cached_property
    def measured_skew_ms(self) -> int | None:
        """The largest difference between the clocks of the brokers that lead the compared partitions, as ended
        transactions show; None where they do not."""
        leaders = {key: self.leaders.get(key) for key in self._compared}
        brokers = {leader.broker for leader in leaders.values() if leader is not None}
        spread = None if None in leaders.values() else spread_ms(self.clock_differences, brokers)
        return None if spread is None else spread + ONE_CLOCK_MS

    @cached_property
    def clock_differences(self) -> Differences:
        """The differences between the clocks of brokers, as ended transactions show."""
        if self.clocks.newest is None:
            return {}
        markers = [
            (leader.broker, marker)
            for place, partition in self.chosen.items()
            if (leader := self.leaders.get((place.topic, place.partition))) is not None
            and leader.epoch == partition.leader_epoch
            for marker in partition.markers
        ]
        decisions = [
            (leader.broker, decision)
            for place, history in self.histories.items()
            if (leader := self.leaders.get((place.topic, place.partition))) is not None
            for decision in history.completed
            if decision.leader_epoch == leader.epoch
        ]
        return differences(markers, decisions, self.clocks.newest.time)

    @cached_property
    def is_one_moment(self) -> bool:
        """Whether all that counts is of one broker that was stopped cleanly."""
        copies, as_left = {place.copy for place in self.chosen}, all(one.as_left for one in self.chosen.values())
        return as_left and copies <= self.facts.stopped and len({self.nodes.get(copy, copy) for copy in copies}) == 1

    @property
    def _compared(self) -> set[tuple[str, int]]:
        """The partitions whose times are compared with others."""
        places = *self.facts.first_starts, *(partition.place for partition in self.of_ids.values())
        return {(place.topic, place.partition) for place in places}

    @cached_property
    def context(self) -> CaseContext:
        """What its open transactions are judged with."""
        return CaseContext(
            cluster_id=self.cluster_id,
            log=self.log,
            as_of=self.clock[0],
            id_expiration_ms=self.resolved.transactional_id_expiration.value,
            skew_ms=self.skew_ms,
            measured_skew_ms=self.measured_skew_ms if self.has_opens else None,
            given=self.settings.as_of is not None,
            covered=self.covered,
            moments=self.moments,
            with_metadata=frozenset(self.facts.metadata),
            leaders=self.led,
            clocks=self.clocks.of(self._compared, self.leaders),
            max_timeout_ms=self.resolved.max_timeout.value,
            traits=self.traits,
            without_open=self.without_open,
            blocked_after_ms=self.settings.blocked_after_ms,
            options=given_limit(self.settings.max_timeout_ms),
        )

    @cached_property
    def has_opens(self) -> bool:
        """Whether a transaction is open in any of its replicas."""
        return any(partition.place in self.facts.first_starts for partition in self.facts.partitions)

    @cached_property
    def has_transactions(self) -> bool:
        """Whether any partition holds a transaction's batch: otherwise no transactional id can change an answer."""
        return self.has_opens or any(partition.transactional for partition in self.facts.partitions)


def choose_replicas(partitions: Iterable[PartitionFacts]) -> list[PartitionFacts]:
    """The replica of each partition that reaches furthest: the highest leader epoch, then the most offsets."""
    best: dict[tuple[str, int], PartitionFacts] = {}
    for partition in partitions:
        key = (partition.place.topic, partition.place.partition)
        if key not in best or reach(best[key]) < reach(partition):
            best[key] = partition
    return list(best.values())


def reach(partition: PartitionFacts) -> tuple[int, int, int, str]:
    """How far a replica reaches, to be compared with others of the partition."""
    high_watermark = -1 if partition.high_watermark is None else partition.high_watermark
    return partition.newest_epoch, partition.log_end, high_watermark, partition.place.copy


# Several clusters --------------------------------------------------------------------------------------------------


def by_cluster(facts: Facts) -> list[tuple[str | None, Facts]]:
    """The facts of each cluster, with its id.

    Directories without an id belong to the only cluster there is, or else are a group of their own. Damage and gaps,
    which name their files, are with the first.
    """
    ids = sorted(set(facts.clusters.values()))
    if len(ids) <= 1:
        return [(ids[0] if ids else None, facts)]
    of_replicas = {name: _grouped(facts, getattr(facts, name), lambda one: one.place.copy) for name in _OF_REPLICAS}
    of_copies = {name: _grouped(facts, getattr(facts, name).items(), lambda item: item[0]) for name in _OF_COPIES}
    histories = _grouped(facts, facts.histories.items(), lambda item: item[0].copy)
    directories = _grouped(facts, facts.directories, lambda one: one.root)
    groups: list[tuple[str | None, Facts]] = []
    for cluster in (*ids, None):
        named = (one.named for one in directories[cluster])
        if cluster not in of_replicas["partitions"] and not any(any(lines.values()) for lines in named):
            continue
        part = replace(
            facts,
            **{name: found[cluster] for name, found in of_replicas.items()},
            **{name: dict(found[cluster]) for name, found in of_copies.items()},
            histories=dict(histories[cluster]),
            directories=directories[cluster],
        )
        groups.append((cluster, replace(part, damage=(), gaps=(), more_damage=0) if groups else part))
    return groups


def clocks(facts: Facts, settings: Settings) -> dict[str, int | None]:
    """The time of the audit of each log directory's cluster, epoch milliseconds; None where it has no clock."""
    found: dict[str, int | None] = {}
    for cluster_id, part in by_cluster(facts):
        clock, _ = ClusterFacts(part, settings, cluster_id).clock
        found |= dict.fromkeys((one.place.copy for one in part.partitions), clock)
    return found


#: The fields of `Facts` with an element a replica or more, and those with a log directory as key.
_OF_REPLICAS = ("partitions", "opens", "answers", "endings", "producers")
_OF_COPIES = ("metadata", "clusters")
#: The most brokers with differing clocks that are named.
_FEW_CLOCKS = 3


def _grouped(facts: Facts, values: Iterable[T], copy_of: Callable[[T], str]) -> defaultdict[str | None, list[T]]:
    """The facts by the cluster of the log directory that they were read from; None: it has no cluster id."""
    groups: defaultdict[str | None, list[T]] = defaultdict(list)
    for value in values:
        groups[facts.clusters.get(copy_of(value))].append(value)
    return groups
