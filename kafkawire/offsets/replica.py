"""`Replica`: the offsets of one replica of a partition, explained by its files, its broker's checkpoints, and the other
copies of the partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from kafkawire.logdir import LogDirectory, LogFile, Outcomes, Partition, outcomes_of
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.file_rows import damage_as_rows
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.offsets.lineage import Copy, divergence, dropped, lineage, lineage_damage, tier_copies
from kafkawire.offsets.offset_walk import OffsetWalk
from kafkawire.offsets.statuses import ABOVE, DELETED, NO_DETAIL, TRUNCATED, UNREADABLE, Runs, Why
from kafkawire.records import Batch
from kafkawire.records.columns import HEADERS_WINDOW, Batches
from kafkawire.rows import DamageRow, ReplicaBounds

#: The log's end does not depend on how transactions ended.
_NO_OUTCOMES = TransactionScan().finish()
#: Called with the batches of a replica, in order.
Look = Callable[[Batches], None]


class Replica:
    """A replica of a partition.

    Args:
        partition: the replica.
        others: other copies of the partition: replicas, and segments of its tiers.

    Attributes:
        damage: what could not be read, by the last walk over its offsets.
        old_batches: number of batches of magic 0 and 1 that the walk found.
    """

    def __init__(self, partition: Partition, others: Sequence[Copy] = ()) -> None:
        self.partition = partition
        self.others = others
        self.damage: list[DamageRow] = []
        self.old_batches = 0

    @cached_property
    def outcomes(self) -> Outcomes:
        """How its transactions ended.

        Raises:
            OSError: a file cannot be read.
        """
        return outcomes_of(self.partition)

    @cached_property
    def support_damage(self) -> tuple[DamageRow, ...]:
        """What is damaged of the files beside the log by which its offsets are explained: checkpoints, leader epochs,
        snapshots. What they hide could change any row."""
        epochs = ((file.path, damage) for file, damage in lineage_damage(self.partition))
        place = self.partition.topic, self.partition.partition
        return tuple(
            DamageRow.of(damage, file=path, topic=place[0], partition=place[1])
            for path, damage in dict.fromkeys((*self.outcomes.damage, *epochs))
        )

    @property
    def undecided(self) -> tuple[DamageRow, ...]:
        """The damage between the least and the highest last stable offset that is possible."""
        if self.outcomes.undecided is None:
            return ()
        path, damage = self.outcomes.undecided
        return (DamageRow.of(damage, file=path, topic=self.partition.topic, partition=self.partition.partition),)

    @cached_property
    def bounds(self) -> ReplicaBounds:
        """Where its offsets begin and end. Reads the headers of all batches."""
        one, end = self.partition, log_end(self.partition)
        start = one.log_start_offset or 0
        high = end if one.high_watermark is None else min(one.high_watermark, end)
        local = [file.offset or 0 for file in one.segments if file.state != TIERED]
        return ReplicaBounds(
            file=one.path,
            topic=one.topic,
            partition=one.partition,
            broker=one.broker.node_id,
            state=one.state,
            log_start_offset=start,
            local_start_offset=max(start, min(local, default=end)),
            last_stable_offset=min(high, self.outcomes.last_stable_offset),
            high_watermark=high,
            log_end_offset=end,
            end_offset=max(start, self._shown(end)[0]),
            compacted=self.outcomes.cleaned_to > 0,
            diverges_at=divergence(lineage(one), start, end, self.others),
        )

    def runs(self, first: int = 0, end: int | None = None, look: Look | None = None) -> Iterator[Runs]:
        """The offsets from `first` up to `end` (None: the end of the replica), as runs that follow one another.

        Args:
            look: is called with all batches of the segments that are read.
        """
        last = self.bounds.end_offset
        end = None if end is None or end >= last else end
        for runs in self._statuses(first, end, look):
            _, wanted, _ = runs.parts(first, last if end is None else end)
            if wanted:
                yield wanted

    def _statuses(self, first: int, end: int | None, look: Look | None) -> Iterator[Runs]:
        """Runs by the log start offset and the high watermark."""
        start = self.bounds.log_start_offset
        for runs in self._read(first, end, look):
            below, within, above = runs.parts(start, max(start, self.bounds.high_watermark))
            if below:
                why = Why("delete_records", "below the log start offset; their segment is still there")
                why = runs.why if runs.code[0] == DELETED else why
                yield Runs.one(int(below.first[0]), int(below.end[-1]), DELETED, why)
            if within:
                yield within
            if above:
                present = (above.code != UNREADABLE) & (above.code != TRUNCATED)
                code, detail = above.code.copy(), above.detail.copy()
                code[present], detail[present] = ABOVE, NO_DETAIL
                yield above._replace(code=code, detail=detail).collapsed()

    def _read(self, first: int, end: int | None, look: Look | None) -> Iterator[Runs]:
        """Runs from offset 0 on, by the segments that have offsets from `first` up to `end`."""
        self.damage, self.old_batches = [], 0
        segments, start = self.partition.segments, self.bounds.log_start_offset
        base = segments[0].offset or 0 if segments else start
        if start := min(start, base):
            why = Why("no_segment", "retention or DeleteRecords has removed their segments, or the log began there")
            yield Runs.one(0, start, DELETED, why)
        if start < base:
            why = Why("in_tier", "part of the log, and older than the segments: in a tier or files that were not given")
            yield Runs.one(start, base, UNREADABLE, why)
        bases = [*(file.offset or 0 for file in segments), None]
        chosen = [
            file
            for file, after in zip(segments, bases[1:], strict=True)
            if (after is None or after > first) and (end is None or (file.offset or 0) < end)
        ]
        walk = OffsetWalk(chosen[0].offset or 0 if chosen else base, self.outcomes)
        for file in chosen:
            yield from walk.segment(file.path, file.offset or 0)
            yield from self._segment(walk, file, look)
        if chosen and chosen[-1] is not segments[-1]:
            after = segments[segments.index(chosen[-1]) + 1]
            yield from walk.segment(after.path, after.offset or 0)
            yield from walk.up_to(after.offset or 0)
            return
        yield from walk.finish()
        if chosen:  # a last segment without batches begins where the log ends
            yield from walk.up_to(chosen[-1].offset or 0)
        shown, why = self._shown(walk.reached)
        if shown > walk.reached:
            code = TRUNCATED if walk.damaged is None else UNREADABLE
            yield Runs.one(walk.reached, shown, code, walk.damaged or why)

    def _segment(self, walk: OffsetWalk, file: LogFile, look: Look | None) -> Iterator[Runs]:
        items: Iterator[Batches | Batch | DamageRow] = damage_as_rows(file, batches_of(file, window=HEADERS_WINDOW))
        for item in items:
            if isinstance(item, DamageRow):
                self.damage.append(item)
                walk.damage(item)
                continue
            if not isinstance(item, Batches):
                self.old_batches += 1
            elif look is not None:
                look(item)
            yield from walk.add(item.measured() if isinstance(item, Batch) else item)

    def _shown(self, end: int) -> tuple[int, Why]:
        """The highest end of the log that anything shows, at least `end`, and what shows it."""
        one = self.partition
        place = one.topic, one.partition
        shown = [
            (one.broker.high_watermarks.get(place, 0), "high_watermark", "replication-offset-checkpoint has"),
            (one.broker.recovery_points.get(place, 0), "recovery_point", "recovery-point-offset-checkpoint has"),
            (max((file.offset or 0 for file in one.snapshots), default=0), "snapshot", "there is a snapshot of"),
        ]
        highest, reason, what = max(shown)
        found, why = end, Why()
        if highest > end:
            found, why = highest, Why(reason, f"the log ends at offset {end}, and {what} offset {highest}")
        lost = dropped(lineage(one), end, self.others)
        if lost is not None and lost.end > found:
            text = f"{lost.path} has them in leader epoch {lost.epoch}, which leader epoch {lost.newer} has replaced"
            found, why = lost.end, Why("unclean_election", text, lost.path)
        return found, why


def replicas(directory: LogDirectory, topic: str, partition: int) -> list[Replica]:
    """The replicas of a partition; where only a tier has it, what the tier has.

    Args:
        directory: log directories and tiers.

    Raises:
        LookupError: no file is of the topic, or of the partition; with a sentence.
    """
    named = [one for one in directory.partitions if one.topic == topic]
    found = [one for one in named if one.partition == partition]
    if not found:
        raise LookupError(_unknown(directory, topic, partition, sorted({one.partition for one in named})))
    held = {tier.path for one in found for tier in one.tiers}
    used = [one for one in found if not one.state] or [one for one in found if one.path not in held]
    copies = {one.path: [Copy(one.path, 0, log_end(one), lineage(one))] if len(used) > 1 else [] for one in used}
    tiered = {one.path: {copy.path: copy for copy, _ in tier_copies(one)} for one in used}
    made = []
    for one in used:
        alike = [other for other in used if _same_log(directory, one, other)]
        others = [copy for other in alike if other is not one for copy in copies[other.path]]
        segments = {path: copy for other in alike for path, copy in tiered[other.path].items()}
        made.append(Replica(one, [*others, *segments.values()]))
    return made


def _same_log(directory: LogDirectory, one: Partition, other: Partition) -> bool:
    """Whether two partitions of one name are copies of one log: a topic that was deleted may have had the name, and
    another cluster's topic may have it."""
    ids = {one.topic_id, other.topic_id} - {None}
    return len(ids) < 2 and directory.same_cluster(one.broker, other.broker)


def log_end(partition: Partition) -> int:
    """The offset after the last batch of a replica."""
    if not partition.segments:
        return partition.log_start_offset or 0
    last = partition.segments[-1]
    walk = OffsetWalk(last.offset or 0, _NO_OUTCOMES)
    for _ in Replica(partition)._segment(walk, last, None):
        pass
    for _ in walk.finish():
        pass
    return walk.reached


def _unknown(directory: LogDirectory, topic: str, partition: int, numbers: Sequence[int]) -> str:
    from difflib import get_close_matches

    if numbers:
        return f"the paths hold no partition {partition} of {topic}; there are {', '.join(map(str, numbers[:20]))}"
    near = get_close_matches(topic, {one.topic for one in directory.partitions}, n=3)
    return f"the paths hold no topic {topic!r}" + (f"; near: {', '.join(near)}" if near else "")
