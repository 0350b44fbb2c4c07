"""The checks that follow from the verdicts: what is open, unknown to its coordinator, late, a ghost or never completed,
and where the last stable offset lies. Each open transaction is checked by the one rule that its verdict is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kafkawire import rows
from kafkawire.transactions.answers import (
    LATE_TRANSACTION,
    LSO,
    OPEN_TRANSACTION,
    PREPARE_COMPLETED,
    SNAPSHOT_GHOST,
    TRANSACTION_UNKNOWN_TO_COORDINATOR,
    Placed,
    Tally,
)
from kafkawire.transactions.case import GRACE_MS
from kafkawire.transactions.cluster_facts import ClusterFacts
from kafkawire.transactions.coordinator_rules import begun_ms, state_name
from kafkawire.transactions.copied_case import CopiedCase
from kafkawire.transactions.facts import Place
from kafkawire.transactions.formatting import duration, when
from kafkawire.transactions.replay import last_stable_offset
from kafkawire.transactions.verdicts import HANGING, UNKNOWN

_Tallies = dict[tuple[Place, str], Tally]

_RUNNING = "the broker was running when it was copied, and its checkpoints lag behind or run ahead"
_DAMAGED = "the partition is damaged: the id's newer record may be lost"
_NO_END = "the end of the log could not be read"
_NO_CHECKPOINT = "no replication-offset-checkpoint: the high watermark is not known"


def case_answers(cluster: ClusterFacts, judged: Sequence[tuple[CopiedCase, rows.Finding]]) -> Iterator[Placed]:
    """The answers.

    Args:
        judged: every open transaction, with the verdict on it.
    """
    tallies: _Tallies = {}
    for check in (OPEN_TRANSACTION, TRANSACTION_UNKNOWN_TO_COORDINATOR, LATE_TRANSACTION, SNAPSHOT_GHOST):
        for place in cluster.chosen:
            tallies[place, check] = Tally(check)
    for case, finding in judged:
        _open(cluster, case, finding, tallies)
    _prepared(cluster, [finding for _, finding in judged], tallies)
    _stable(cluster, tallies)
    for (place, _), tally in tallies.items():
        yield Placed(place, tally.answer())


def _open(cluster: ClusterFacts, case: CopiedCase, finding: rows.Finding, tallies: _Tallies) -> None:
    """An open transaction: noted, and checked by the rule that its verdict is about."""
    open_ = case.open
    place, offset, producer_id = open_.place, open_.start_offset, open_.producer_id
    tallies[place, OPEN_TRANSACTION].noted += 1
    ghost, unknown = tallies[place, SNAPSHOT_GHOST], tallies[place, TRANSACTION_UNKNOWN_TO_COORDINATOR]
    late = tallies[place, LATE_TRANSACTION]
    if finding.reason == "ghost":
        what = f"open since offset {offset} in its snapshot, and the log starts at {case.log_start}: no data is left"
        ghost.breach(offset, producer_id, what, transactional_id=finding.transactional_id)
        return
    ghost.held += 1
    if finding.verdict == UNKNOWN:
        unknown.lack("whether a coordinator knows the transaction is not known: see the findings")
        late.lack("whether a coordinator knows the transaction is not known: see the findings")
    elif finding.verdict == HANGING:
        what = f"{finding.reason}: {case.coordinator_view}"
        unknown.breach(offset, producer_id, what, transactional_id=finding.transactional_id)
    elif finding.reason == "young":
        unknown.lack("the transaction is too young: its producer may be about to register it")
    else:
        unknown.held += 1
        _late(cluster, case, finding, late)


def _late(cluster: ClusterFacts, case: CopiedCase, finding: rows.Finding, late: Tally) -> None:
    """A transaction that its coordinator holds. It counts from its record there: clients invent timestamps."""
    value = case.value
    if finding.reason != "late" or value is None or case.owner is None:
        late.held += 1
        return
    clock = cluster.clock_of(case.owner.newest.place)
    assert clock is not None
    begun = begun_ms(value)
    over = clock - begun - value.transaction_timeout_ms
    if over <= GRACE_MS:
        late.lack(
            "past its timeout by less than 5 min when its coordinator's log was copied: it may be about to abort it"
        )
        return
    what = (
        f"Ongoing since {when(begun)} with a timeout of {duration(value.transaction_timeout_ms)}: its coordinator "
        f"should have aborted it {duration(over)} before the clock"
    )
    late.breach(case.open.start_offset, case.open.producer_id, what, transactional_id=finding.transactional_id)


# Prepare -------------------------------------------------------------------------------------------------------------


def _prepared(cluster: ClusterFacts, findings: Iterable[rows.Finding], tallies: _Tallies) -> None:
    """Ids that are in a Prepare state: on their way, or for ever."""
    stuck: dict[str, list[rows.Finding]] = defaultdict(list)
    for finding in findings:
        if finding.reason == "stuck_prepare" and finding.transactional_id is not None:
            stuck[finding.transactional_id].append(finding)
    limit = cluster.resolved.max_timeout.value + GRACE_MS
    for place in (partition.place for partition in cluster.of_ids.values()):
        tally = tallies[place, PREPARE_COMPLETED] = Tally(PREPARE_COMPLETED)
        as_of = cluster.clock_of(place)
        history = cluster.histories.get(place)
        if history is None:
            continue
        tally.held += history.ids
        for record in history.prepared:
            value = record.value
            assert value is not None
            tally.held -= 1
            since = value.transaction_last_update_timestamp_ms
            where = stuck.get(record.transactional_id)
            assert as_of is not None  # this record has a time that a broker wrote
            if place.partition in cluster.log.damaged:
                tally.lack(_DAMAGED)
            elif not where and as_of - since <= limit:
                tally.lack(
                    "the transaction was decided a short time before the copy was made: its markers may be on their way"
                )
            else:
                what = f"{state_name(value.transaction_status)} since {when(since)}, {duration(as_of - since)}"
                if where:
                    what += f"; its marker is missing in {where[0].topic}-{where[0].partition}"
                tally.breach(record.offset, value.producer_id, what, transactional_id=record.transactional_id)


# Last stable offset ---------------------------------------------------------------------------------------------------


def _stable(cluster: ClusterFacts, tallies: _Tallies) -> None:
    """log start <= last stable offset <= high watermark <= log end. No file stores the last stable offset: it is
    computed from the others."""
    for partition in cluster.facts.partitions:
        place, high, start = partition.place, partition.high_watermark, partition.log_start
        tally = tallies[place, LSO] = Tally(LSO)
        if high is None:
            tally.lack(_NO_CHECKPOINT)
            continue
        stable = last_stable_offset(high, cluster.first_starts.get(place, high), start)
        if start <= stable <= high <= partition.log_end:
            tally.held += 1
        elif partition.gap is not None and partition.gap.end is None:
            tally.lack(_NO_END)
        elif place.copy not in cluster.facts.stopped:
            tally.lack(_RUNNING)
        else:
            what = (
                f"log start {start}, last stable offset {stable}, high watermark {high} and log end "
                f"{partition.log_end} are out of order, and the broker was stopped cleanly"
            )
            tally.breach(stable, -1, what)
