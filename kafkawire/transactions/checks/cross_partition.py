"""The checks that join several partitions: markers with the coordinator's decisions, producer ids with their owners and
with those that were handed out, transactional ids with their partition of `__transaction_state`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from kafkawire import rows
from kafkawire.transactions import answers
from kafkawire.transactions.checks.agreeing import JoinedDecisions
from kafkawire.transactions.checks.check_names import CHECKS, OF_IDS
from kafkawire.transactions.checks.marker_outcomes import UNKNOWN, Tallies, judge
from kafkawire.transactions.checks.timed_decisions import CLOCK_SKEW_MS
from kafkawire.transactions.checks.undecided import EndedColumns, judge_undecided, undecided
from kafkawire.transactions.coordinator.coordinator_log import IdFacts
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.facts import (
    TRANSACTION_STATE,
    AssignedProducerIds,
    ClusterMetadata,
    Place,
    ProducerIdsBlock,
    ProducerIdUse,
    ReplicaProducers,
    UnassignedProducerId,
)
from kafkawire.transactions.formatting import when
from kafkawire.transactions.log.endings import Each, Endings, JoinedEndings
from kafkawire.transactions.log.spill import GROUPS
from kafkawire.transactions.parts.part_threads import Threads
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts

#: Producer ids in a block (Kafka's `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
BLOCK_SIZE = 1000

_NO_METADATA = "no __cluster_metadata with producer ids was read: it is not known which were handed out"
_OLD_METADATA = "__cluster_metadata may have been copied before the producer id was handed out"
_LATER_METADATA = "a later __cluster_metadata has the producer id: no marker shows whether it was in use before"
_DAMAGED_METADATA = "__cluster_metadata is damaged or has gaps: a record that hands out producer ids may be missing"
_NEVER = "it was never handed out: the first free producer id is {}"
_COUNT_ASSUMED = "the number of partitions of __transaction_state is assumed"


def joined_answers(cluster: ClusterFacts, jobs: int = 1) -> Iterator[answers.Placed]:
    """The answers. `jobs`: number of threads."""
    if jobs > 1:
        with Threads(jobs - 1) as threads:
            yield from _outcomes(cluster, lambda work, numbers: threads.in_order(numbers, work), jobs)
    else:
        yield from _outcomes(cluster, map, jobs)
    yield from _producer_ids(cluster)
    yield from _owners(cluster)
    yield from _partitions_of_ids(cluster)
    yield from _without_steps(cluster)


def _outcomes(cluster: ClusterFacts, each: Each, jobs: int) -> Iterator[answers.Placed]:
    """one_outcome and marker_epoch."""
    histories = cluster.histories
    owners = {use.producer_id: place for place, history in histories.items() for use in history.uses}
    until, until_of = decided_until(cluster)
    known = max((time for time in (until, *until_of.values()) if time is not None), default=None)
    tallies = Tallies()
    chosen = [endings for endings in cluster.facts.endings if endings.place in cluster.chosen]
    for endings in chosen:
        if endings.undecided:
            tallies.lack(endings.place, UNKNOWN, endings.undecided)
    for some, of_some in _in_memory(chosen, [history.decisions for history in histories.values()]):
        decided = JoinedDecisions(of_some)
        for ended in JoinedEndings.groups(decided.settle(some, tallies, each, jobs), each):
            decisions = decided.objects(ended.rows["producer_id"])
            columns = EndedColumns.of(ended)
            alone, early = undecided(columns, decisions)
            left = judge_undecided(columns, tallies, alone=alone, early=early, decided_until=known)
            for producer_id, of_producer in ended.where(left).by_producer():
                owner = owners.get(producer_id)
                judge(
                    of_producer,
                    decisions.get(producer_id, ()),
                    tallies,
                    decided_until=until if owner is None else until_of[owner],
                )
    for place, tally in tallies.all():
        yield answers.Placed(place, tally.answer())


def _in_memory(
    ended: Sequence[Endings], decided: Sequence[Decided]
) -> Iterator[tuple[Sequence[Endings], Sequence[Decided]]]:
    """All of them; or where some were written to a file, those of each group of producer ids in turn."""
    if not (any(one.blocks for one in ended) or any(one.blocks for one in decided)):
        yield ended, decided
        return
    for number in range(GROUPS):
        yield [one.group(number) for one in ended], [one.group(number) for one in decided]


def _until(cluster: ClusterFacts, place: Place, skew_ms: int) -> int | None:
    history, partition = cluster.histories[place], cluster.chosen[place]
    time = partition.broker_time
    lacking = partition.damaged or place.partition in cluster.log.lost
    if time is None or not history.intact or lacking or cluster.clocks.is_far(time):
        return None
    return time - skew_ms


def decided_until(cluster: ClusterFacts) -> tuple[int | None, dict[Place, int | None]]:
    """Up to when no id can have decided anything that no record says: of any id, and of those in each partition of
    `__transaction_state`; None: at no time."""
    # Copies of running brokers are of several moments, which only their clocks tell apart.
    in_order = cluster.is_one_moment or cluster.facts.decisions_last
    skew_ms = 0 if in_order else max(0, cluster.skew_ms - CLOCK_SKEW_MS)
    known = {place: _until(cluster, place, skew_ms) for place in cluster.histories}
    times = [time for time in known.values() if time is not None]
    # A copy without a batch has no history, and lacks all where its partition has a high watermark.
    empty = (one for place, one in cluster.chosen.items() if place.topic == TRANSACTION_STATE and place not in known)
    whole = cluster.log.complete and not any(one.log_end < (one.high_watermark or 0) for one in empty)
    return min(times) if whole and times and len(times) == len(known) else None, known


# Producer ids --------------------------------------------------------------------------------------------------------


def _producer_ids(cluster: ClusterFacts) -> Iterator[answers.Placed]:
    """Every producer id was handed out before it was in use, and none twice.

    Each copy of the metadata log and each replica is evidence of its own: one pair of them proves that a producer id
    was in use before it was handed out. So another copy, of another time, or with a checkpoint where records were,
    takes nothing back.
    """
    yield from _blocks(cluster.facts.metadata.values())
    by_partition: dict[tuple[str, int], list[ReplicaProducers]] = defaultdict(list)
    for producers in sorted(cluster.facts.producers, key=lambda producers: producers.place not in cluster.chosen):
        if producers.count:
            by_partition[producers.place.topic, producers.place.partition].append(producers)
    for replicas in by_partition.values():
        tallies = {producers.place: answers.Tally(answers.PRODUCER_ID_UNIQUE) for producers in replicas}
        chosen = replicas[0]
        tally = tallies[chosen.place]
        if cluster.handed_out is None:
            tally.lack(_NO_METADATA, chosen.count)
        elif not cluster.assignments:
            tally.lack(_DAMAGED_METADATA, chosen.count)
        else:
            proven: set[int] = set()
            doubtful: dict[int, str] = {}
            for producers in replicas:
                for beyond in producers.beyond:
                    what, doubt = _unassigned(cluster, producers.place, beyond)
                    if what is not None and beyond.producer_id not in proven:
                        tallies[producers.place].breach(beyond.offset, beyond.producer_id, what)
                        proven.add(beyond.producer_id)
                    elif doubt is not None:
                        doubtful.setdefault(beyond.producer_id, doubt)
            for producer_id in proven:
                doubtful.pop(producer_id, None)
            for doubt in doubtful.values():
                tally.lack(doubt)
            aside = {beyond.producer_id for beyond in chosen.beyond} & (proven | doubtful.keys())
            tally.held += chosen.count - len(aside)
        yield from (
            answers.Placed(place, tally.answer())
            for place, tally in tallies.items()
            if place in cluster.chosen or tally.violated
        )


def _unassigned(cluster: ClusterFacts, place: Place, beyond: UnassignedProducerId) -> tuple[str | None, str | None]:
    """How a producer id was in use before it was handed out; or why that is not known."""
    copies = cluster.assignments
    never = cluster.handed_out is not None and beyond.producer_id >= cluster.handed_out
    by = beyond.in_use_by
    free = None if by is None else _first_free(copies, by)
    if by is not None and free is not None and beyond.producer_id >= free:
        if never:
            return _never(cluster), None
        return f"it was in use by {when(by)}, when the first free producer id was {free}: it was handed out later", None
    shown = _shown_until(cluster, place)
    free = None if shown is None else _first_free(copies, max(shown, beyond.timestamp))
    if free is not None and beyond.producer_id >= free:
        return (_never(cluster), None) if never else (None, _LATER_METADATA)
    return None, _OLD_METADATA if never else None


def _never(cluster: ClusterFacts) -> str:
    return _NEVER.format(cluster.handed_out)


def _first_free(copies: Iterable[AssignedProducerIds], time: int) -> int | None:
    """The least first free producer id that a copy of the metadata log proves for that time."""
    known = (copy.first_free(time) for copy in copies)
    return min((number for number in known if number is not None), default=None)


def _shown_until(cluster: ClusterFacts, place: Place) -> int | None:
    """A time of the broker's at which the replica was certainly not copied yet."""
    time = cluster.broker_times.get(place)
    return cluster.covered.get(place.copy) if time is None else time


def _blocks(metadata: Iterable[ClusterMetadata]) -> Iterator[answers.Placed]:
    """The blocks of all copies: a record that a checkpoint has replaced in one may still be in another."""
    copies = sorted(metadata, key=lambda copy: (copy.newest or 0, copy.place), reverse=True)
    found: dict[int, tuple[ProducerIdsBlock, ClusterMetadata]] = {}
    for copy in copies:
        for block in copy.handed_out.blocks:
            found.setdefault(block.offset, (block, copy))
    tallies = {copy.place: answers.Tally(answers.PRODUCER_ID_UNIQUE) for copy in copies}
    neighbours = {
        (before.offset, after.offset)
        for copy in copies
        if copy.handed_out.newest is not None
        for before, after in pairwise(copy.handed_out.blocks)
    }
    known: ProducerIdsBlock | None = None
    in_doubt = False
    for offset, (block, copy) in sorted(found.items()):
        tally, number = tallies[copy.place], block.next_producer_id
        before = -1 if known is None else known.next_producer_id
        what = None
        if number <= before:
            what = f"the next producer id is {number}, after {before}: it was handed out before"
        elif known is not None and (known.offset, offset) in neighbours and (number - before) % BLOCK_SIZE:
            what = f"the next producer id is {number}, after {before}: blocks are of {BLOCK_SIZE}"
        if what is None or in_doubt:  # one of two neighbours is wrong
            tally.held += what is None
            in_doubt = False
        else:
            tally.breach(offset, number, what)
            in_doubt = True
        known = block
    for copy in copies:
        tally = tallies[copy.place]
        if tally.held or tally.violated:
            yield answers.Placed(copy.place, tally.answer(), copy.path)


def _owners(cluster: ClusterFacts) -> Iterator[answers.Placed]:
    """A producer id belongs to one transactional id for ever."""
    uses: dict[int, list[tuple[bool, ProducerIdUse]]] = defaultdict(list)
    for place, history in cluster.facts.histories.items():
        for use in history.uses:
            uses[use.producer_id].append((place in cluster.histories, use))
    tallies: dict[Place, answers.Tally] = defaultdict(lambda: answers.Tally(answers.PRODUCER_ID_UNIQUE))
    handed_out = handed_out_until(cluster)
    for of_producer in uses.values():
        judge_owner(of_producer, tallies, handed_out)
    for place, tally in tallies.items():
        yield answers.Placed(place, tally.answer())


def handed_out_until(cluster: ClusterFacts) -> tuple[int, int] | None:
    """The first producer id that was not handed out, and up to when that is known (the controller's clock); None: it is
    not."""
    times = [copy.newest for copy in cluster.assignments if copy.newest is not None]
    return None if cluster.handed_out is None or not times else (cluster.handed_out, max(times))


def judge_owner(
    uses: Iterable[tuple[bool, ProducerIdUse]], tallies: dict[Place, answers.Tally], handed_out: tuple[int, int] | None
) -> None:
    """Judge the uses of one producer id, of all replicas: compaction may have removed what another still has. `uses`:
    each with whether its replica counts. `handed_out`: as `handed_out_until` gives it."""
    owner: ProducerIdUse | None = None
    seen: set[tuple[int, int]] = set()
    for _, use in sorted(uses, key=lambda pair: (not pair[0], pair[1].place, pair[1].offset)):
        same = use.place.partition, use.offset
        if same in seen:
            continue
        seen.add(same)
        owner = owner or use
        if (
            handed_out is not None
            and handed_out[0] <= use.producer_id
            and use.timestamp + CLOCK_SKEW_MS < handed_out[1]
        ):
            what = _NEVER.format(handed_out[0])
            tallies[use.place].breach(use.offset, use.producer_id, what, transactional_id=use.transactional_id)
        elif owner.transactional_id == use.transactional_id:
            tallies[use.place].held += 1
        else:
            what = (
                f"belongs to the transactional id {owner.transactional_id!r} already ({owner.place}, offset "
                f"{owner.offset})"
            )
            tallies[use.place].breach(use.offset, use.producer_id, what, transactional_id=use.transactional_id)


# Transactional ids ---------------------------------------------------------------------------------------------------


def _partitions_of_ids(cluster: ClusterFacts) -> Iterator[answers.Placed]:
    """Each id is in its partition of `__transaction_state`."""
    setting = cluster.resolved.transaction_state_partitions
    for place, history in cluster.histories.items():
        tally = answers.Tally(answers.ID_IN_ITS_PARTITION)
        for use in first_uses(history):
            judge_partition_of_id(use, setting, tally)
        yield answers.Placed(place, tally.answer())


def first_uses(history: IdFacts) -> Iterable[ProducerIdUse]:
    """The first of each transactional id."""
    return {use.transactional_id: use for use in reversed(history.uses)}.values()


def judge_partition_of_id(use: ProducerIdUse, partitions: rows.Setting, tally: answers.Tally) -> None:
    """Judge whether a transactional id is in its partition of `__transaction_state`. `use`: the first of the id.
    `partitions`: how many the topic has. `tally`: of ID_IN_ITS_PARTITION; it counts the answer."""
    expected = partition_of_id(use.transactional_id, partitions.value)
    if expected == use.place.partition:
        tally.held += 1
    elif partitions.source == rows.Setting.DEFAULT:
        tally.lack(_COUNT_ASSUMED)
    else:
        what = f"of {partitions.value} partitions, the id's is {expected}"
        tally.breach(use.offset, use.producer_id, what, transactional_id=use.transactional_id)


def _without_steps(cluster: ClusterFacts) -> Iterator[answers.Placed]:
    """Every check has an answer, also where there was nothing to judge."""
    missing = cluster.has_transactions and not cluster.of_ids
    place = min(cluster.chosen, default=Place("", TRANSACTION_STATE, 0))
    for check in CHECKS:
        if check in OF_IDS and missing:
            why = (f"no partition of {TRANSACTION_STATE} was read",)
            yield answers.Placed(place, answers.Answer(check=check, not_checkable=1, lacked=why))
        elif check != answers.REPLICAS_AGREE:
            yield answers.Placed(place, answers.Answer(check=check))
