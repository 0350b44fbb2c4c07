"""`replica_facts`: all facts of one replica of a partition, from its own files, read once.

Engines differ in where they do this: in this process, or in tasks of a cluster. Joining the replicas is the same code
for all (`conclude`). These facts hold no open file and can be sent elsewhere. They grow with the producers,
transactional ids and ended transactions, not with the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kafkawire import logdir, rows
from kafkawire.logdir.located_file import known_size
from kafkawire.logdir.offset_scan import BEFORE
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import ABORT_CODE, COMMIT_CODE
from kafkawire.records.offset_gap import OffsetGap
from kafkawire.transactions.answers import Answer, Placed
from kafkawire.transactions.auditing.id_history import IdHistory, id_history
from kafkawire.transactions.checks.check_names import LOG_CHECKS
from kafkawire.transactions.checks.replica_checks import PartitionChecks
from kafkawire.transactions.cluster.clock_offsets import MarkerTimes, has_own_epochs
from kafkawire.transactions.coordinator.coordinator_log import IdFacts
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    AssignedProducerIds,
    Open,
    PartitionFacts,
    Place,
    ReplicaProducers,
    Segment,
    UnassignedProducerId,
    partition_of,
)
from kafkawire.transactions.impact.held_back import TopicPolicy
from kafkawire.transactions.impact.impact_scan import with_impacts
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.endings import Endings
from kafkawire.transactions.log.ordered_replay import OrderedReplay, ordered_replay
from kafkawire.transactions.log.range_digests import DIGEST, Digests, joined
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS, Replay
from kafkawire.transactions.log.spill import Spill
from kafkawire.transactions.parts.coordinator_walk import Walked
from kafkawire.transactions.parts.lost_records import with_missing
from kafkawire.transactions.parts.lost_tail import lost_tail
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_scan import PART_BYTES, PartTask, count_parts
from kafkawire.transactions.parts.producer_walk import Content
from kafkawire.transactions.parts.replica_files import place_of, read_snapshot
from kafkawire.transactions.parts.segment_scan import PartScan, SegmentState, read_part


class AuditedReplica(NamedTuple):
    """A replica to read, and what its rules need from its cluster.

    Attributes:
        producer_expiration_ms: producer.id.expiration.ms of the brokers.
        id_expiration_ms: transactional.id.expiration.ms; None where it is neither given nor in the metadata log.
        handed_out: the producer ids that were handed out, as each copy of the metadata log has it.
        topics: settings of topics that have some of their own; None where no metadata log was read.
        show_records: number of records of each open transaction to keep.
        impacts: count what open transactions hold back, for which the log is read again.
        without_decisions: no copy of `__transaction_state` is there (`Endings`).
        spill: takes the facts that are too many for memory, in this process; None: none are.
    """

    partition: logdir.Partition
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    id_expiration_ms: int | None = None
    handed_out: tuple[AssignedProducerIds, ...] = ()
    topics: dict[str, TopicPolicy] | None = None
    show_records: int = 0
    impacts: bool = True
    without_decisions: bool = False
    spill: Spill | None = None


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one replica.

    Attributes:
        partition: how much was read. `path`: of its directory.
        opens: the transactions that are open after the last batch.
        answers: of `LOG_CHECKS` and, of `__transaction_state`, of `ID_CHECKS`.
        endings: the transactions with data that have ended.
        producers: its producer ids.
        ids: of `__transaction_state`, the facts of its records.
        damage: of its snapshots, and of the leader epochs along which a tier is joined to it.
        digests: of its batches (`range_digests.DIGEST`).
    """

    partition: PartitionFacts
    path: str
    opens: tuple[Open, ...] = ()
    answers: tuple[Placed, ...] = ()
    endings: Endings
    producers: ReplicaProducers
    ids: IdFacts | None = None
    damage: tuple[rows.DamageRow, ...] = ()
    digests: bytes = b""

    @property
    def first_start(self) -> int | None:
        """Where the earliest transaction begins that holds the last stable offset; None where none does."""
        unreplicated = self.partition.unreplicated
        held = [] if unreplicated is None else [unreplicated]
        return min([*held, *(open_.start_offset for open_ in self.opens)], default=None)


def replica_facts(replica: AuditedReplica) -> ReplicaFacts:
    """Read one replica: replay its producers, and check it against the rules that its own files can prove."""
    merge = ReplicaMerge(replica)
    merge.read_all()
    return merge.facts()


def check(partition: logdir.Partition, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> list[Answer]:
    """Check one replica of a partition against the rules that its own files can prove.

    Args:
        expiration_ms: producer.id.expiration.ms of the broker.

    Returns:
        The answer of each of `LOG_CHECKS`.

    Raises:
        OSError: the directory is gone.
    """
    found = replica_facts(AuditedReplica(partition, producer_expiration_ms=expiration_ms))
    return [placed.answer for placed in found.answers if placed.answer.check in LOG_CHECKS]


def parts_of(
    replica: AuditedReplica, part_bytes: int = PART_BYTES, sizes: Sequence[int] | None = None
) -> Iterator[tuple[int, PartTask]]:
    """The parts of all segments in order, each with the index of its segment. Only sizes are looked at.

    Args:
        sizes: bytes of the segments, as a listing has them; None: of the files, now.
    """
    for segment, file in enumerate(replica.partition.segments):
        size = known_size(file) if sizes is None else sizes[segment]
        count = count_parts(size, part_bytes)
        for number in range(count):
            yield segment, PartTask(file, number, count, size // count, part_bytes)


class ReplicaMerge:
    """Merges the parts of a replica, in the order of the log. One whose offsets go back below those of the parts before
    is read again: which offsets are missing in it depends on these.

    Args:
        whole: keep all fields of ended transactions.

    Attributes:
        endings: the transactions that have ended so far; they may be taken out.
    """

    def __init__(self, replica: AuditedReplica, *, whole: bool = False) -> None:
        partition = replica.partition
        self._replica = replica
        self._place = place_of(partition)
        found, damaged = read_snapshot(partition)
        entries = [one for one in found if one.current_txn_first_offset < (partition.local_start_offset or 0)]
        self._damage = [*damaged, *(rows.DamageRow.of(one, **file.place) for file, one in partition.joined.damage)]
        seeded = [ordered_replay(entries)] if entries else []
        self._checks = PartitionChecks(partition, expiration_ms=replica.producer_expiration_ms, others=seeded)
        self._opens = seeded[0] if seeded else self._checks.replay
        self.endings = Endings(
            self._place, whole=whole, without_decisions=replica.without_decisions, spill=replica.spill
        )
        self._ids: IdHistory | None = None
        self._segments: list[Segment] = []
        self._state: SegmentState | None = None
        self._last_marker: tuple[int, int] | None = None
        self._times: MarkerTimes | None = None
        self._digests: list[Digests] = []
        self._unreplicated: list[int] = []
        self.read_again = 0

    def take(self, segment: int, part: PartColumns) -> None:
        """Take the next part.

        Args:
            segment: index in the partition's `segments`.
        """
        while len(self._segments) < segment:
            self._end_segment()
        state = self._begun()
        first = part.scan.first_offset
        if first is not None and first < state.scan.reached:
            self.read_again += 1
            for _ in self._steps(part.start, part.end):
                pass
            return
        for appends in part.appends:
            intact_from = appends.intact_from
            known = np.where(intact_from == BEFORE, state.scan.begins_at(first), intact_from)
            self._append(msgspec.structs.replace(appends, intact_from=known))
        for record in part.records:
            self._id_history().take(record)
        state.take(part.scan)

    def read(self, segment: int, seen: Callable[[int], None] | None = None, start: int = 0, size: int = 0) -> None:
        """Read a whole segment, the next: what `take` does with its parts, but no part has to be found or kept.

        Args:
            segment: index in the partition's `segments`. `seen`: see `read_part`.
            start: the end of the part of it that was taken last. `size`: see `batches_of`.
        """
        for _ in self.reading(segment, seen, start, size):
            pass

    def read_all(self, seen: Callable[[int], None] | None = None) -> None:
        """Read all segments. `seen`: see `read_part`."""
        for segment in range(len(self._replica.partition.segments)):
            self.read(segment, seen)

    def reading(
        self, segment: int, seen: Callable[[int], None] | None = None, start: int = 0, size: int = 0
    ) -> Iterator[None]:
        """What `read` does, in steps: between two, what has ended so far may be taken out. Arguments as for `read`."""
        while len(self._segments) < segment:
            self._end_segment()
        yield from self._steps(start, size=size, seen=seen)

    def _begun(self) -> SegmentState:
        """The state of the segment that is read."""
        if self._state is None:
            file = self._replica.partition.segments[len(self._segments)]
            self._state = SegmentState(file.offset or 0, self._segments[-1] if self._segments else None)
        return self._state

    def _steps(
        self, start: int = 0, end: int | None = None, size: int = 0, seen: Callable[[int], None] | None = None
    ) -> Iterator[None]:
        file, state = self._replica.partition.segments[len(self._segments)], self._begun()
        records = self if file.topic == TRANSACTION_STATE else None
        for fact in read_part(file, state, start=start, end=end, size=size, seen=seen, records=records):
            if isinstance(fact, Appends):
                self._append(fact)
            elif isinstance(fact, PartScan):
                state.take(fact)
            else:
                self._id_history().read(fact)
            yield

    def walk(self, content: Content, following: int | None, max_batch_bytes: int) -> Walked:
        """Take the batches of `__transaction_state` at the beginning of a content: see `RecordWalk`."""
        history = self._ids or id_history(self._place, self._replica.id_expiration_ms)
        found = history.walk(content, following, max_batch_bytes)
        self._ids = history if found.batches else self._ids
        return found

    def _append(self, appends: Appends) -> None:
        """Take the next batches. A marker at or above the high watermark may still be undone."""
        ended = self._checks.take(appends)
        self.endings.add(ended)
        if self._times is None and has_own_epochs(ended):
            epoch = self._replica.partition.newest_epoch
            self._times = MarkerTimes(None if epoch is None else epoch.start_offset)
        if self._times is not None:
            self._times.add(ended)
        of_brokers = np.flatnonzero((appends.control == ABORT_CODE) | (appends.control == COMMIT_CODE))
        if len(of_brokers):
            last = of_brokers[-1]
            self._last_marker = int(appends.timestamp[last]), int(appends.last_offset[last])
        high_watermark = self._replica.partition.high_watermark
        if high_watermark is not None:
            undone = ended["first_offset"][ended["offset"] >= high_watermark]
            self._unreplicated += [int(undone.min())] if len(undone) else []

    def _end_segment(self) -> None:
        state = self._begun()
        segment = state.segment()
        self._segments.append(segment)
        self._digests.append(np.frombuffer(state.scan.digests, DIGEST))
        self._state = None
        self._checks.end_segment(segment, last=len(self._segments) == len(self._replica.partition.segments))

    def _id_history(self) -> IdHistory:
        """The history of the coordinator's records, made when the first is read."""
        if self._ids is None:
            self._ids = id_history(self._place, self._replica.id_expiration_ms)
        return self._ids

    def decided(self, *, last: bool = False) -> Decided:
        """Take out what coordinators have decided so far, of `__transaction_state`: see `Decisions.drain`."""
        return Decided.none(self._place) if self._ids is None else self._ids.decided(last=last)

    def open_in_log(self) -> Iterator[Open]:
        """The transactions that are open after the last batch, without those that only a snapshot names."""
        return open_transactions(self._place, self._checks.replay)

    def _all_open(self, behind: Iterable[ProducerEntry]) -> Iterator[Open]:
        """The transactions that are open after the last batch, and those that began among offsets that could not be
        read: as the last snapshot after these has them.

        Args:
            behind: of the `.snapshot` of an offset after the last batch.
        """
        seen: set[int] = set()
        start = self._replica.partition.local_start_offset or 0
        snapshots = self._checks.since_snapshot
        for replay in (self._opens, *(() if snapshots is None else (snapshots,)), ordered_replay(behind)):
            for found in open_transactions(self._place, replay):
                if found.producer_id not in seen and (replay is self._opens or found.start_offset >= start):
                    seen.add(found.producer_id)
                    yield found

    def facts(self, check: Callable[[], None] | None = None) -> ReplicaFacts:
        """The facts, once the last part was taken. `check`: see `with_impacts`."""
        partition, place = self._replica.partition, self._place
        while len(self._segments) < len(partition.segments):
            self._end_segment()
        id_facts = None if self._ids is None else self._ids.facts()
        answers = [*self._checks.answers(), *(id_facts.answers if id_facts else ())]
        producers = self._checks.replay
        found = partition_of(
            place, self._segments, log_start=partition.log_start_offset, high_watermark=partition.high_watermark
        )
        stopped_at = partition.recovery_point
        if partition.topic == TRANSACTION_STATE:
            stopped_at = partition.high_watermark if stopped_at is None else stopped_at
        found = msgspec.structs.replace(with_missing(found, partition, self._segments), stopped_at=stopped_at)
        lost = lost_tail(partition, self._segments)
        if lost.damage:
            gap = OffsetGap(found.log_end) if lost.at_end else found.gap
            found = msgspec.structs.replace(found, gap=gap, damaged=True, damage=(*found.damage, *lost.damage))
        opens = tuple(self._all_open(lost.entries))
        epoch = partition.newest_epoch
        if epoch is not None and epoch.start_offset <= found.log_end:
            found = msgspec.structs.replace(found, checkpoint_epoch=epoch.epoch)
        if epoch is not None and epoch.epoch == found.leader_epoch and (opens or self._times is not None):
            markers = () if self._times is None else self._times.found()
            found = msgspec.structs.replace(found, epoch_start=epoch.start_offset, markers=markers)
        if self._replica.impacts:
            opens = with_impacts(partition, opens, self._replica.topics, self._replica.show_records, check)
        beyond = _beyond(producers, self._last_marker, found.broker_time or 0, self._replica.handed_out)
        return ReplicaFacts(
            partition=msgspec.structs.replace(found, unreplicated=min(self._unreplicated, default=None)),
            path=partition.path,
            opens=opens,
            answers=tuple(Placed(place, answer, partition.path) for answer in answers),
            endings=self.endings,
            producers=ReplicaProducers(place, len(producers), tuple(beyond)),
            ids=id_facts,
            damage=tuple(dict.fromkeys([*self._damage, *self._checks.damage])),
            digests=joined(self._digests).tobytes(),
        )


def _beyond(
    producers: OrderedReplay,
    last_marker: tuple[int, int] | None,
    broker_time: int,
    handed_out: tuple[AssignedProducerIds, ...],
) -> Iterator[UnassignedProducerId]:
    """The producer ids that no copy of the metadata log has, or that may have been in use before it had them.

    Args:
        last_marker: timestamp and last offset of the last marker. broker_time: the newest time that a broker wrote.
    """
    # No time below is lower, and later ones leave higher ids free: few producers have to be looked at.
    lowest = _lowest_free(handed_out, broker_time if last_marker is None else min(broker_time, last_marker[0]))
    if lowest is None:
        return
    ids, last_appends, timestamps = producers.last_appends()
    chosen = np.flatnonzero(ids >= lowest)
    for producer_id, last_append, timestamp in zip(
        ids[chosen].tolist(), last_appends[chosen].tolist(), timestamps[chosen].tolist(), strict=True
    ):
        by = last_marker[0] if last_marker is not None and last_append <= last_marker[1] else None
        time = max(timestamp, broker_time)
        free = _lowest_free(handed_out, time if by is None else min(time, by))
        if free is not None and producer_id >= free:
            yield UnassignedProducerId(producer_id, last_append, timestamp, by)


def _lowest_free(handed_out: Iterable[AssignedProducerIds], time: int) -> int | None:
    """The lowest producer id that was not handed out at a time by some copy, up to the copy's own time."""
    found = (copy.first_free(min(time, copy.newest)) for copy in handed_out if copy.newest is not None)
    return min((number for number in found if number is not None), default=None)


def open_transactions(place: Place, replay: Replay | OrderedReplay) -> Iterator[Open]:
    """The transactions that are open after the last batch."""
    for producer in replay.open():
        yield Open(
            place=place,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            start_offset=producer.first_offset,
            last_offset=max(producer.first_offset, producer.last_data_offset),
            last_timestamp=producer.timestamp,
            coordinator_epoch=None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
            written_after=producer.written_after,
            written_by=producer.written_by,
            marked_at=None if producer.marked_at < 0 else producer.marked_at,
            first_timestamp=producer.first_timestamp,
            batches=producer.open_batches,
        )
