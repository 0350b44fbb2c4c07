"""The checks that follow from the verdicts: what is open, unknown to its coordinator, late, a ghost or never completed,
and where the last stable offset lies. Each open transaction is checked by the one rule that its verdict is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire import rows
from kafkawire.logdir.ongoing import last_stable_offset
from kafkawire.transactions import answers
from kafkawire.transactions.coordinator.coordinator_rules import begun_ms, state_name
from kafkawire.transactions.facts import Place, Registration
from kafkawire.transactions.formatting import duration, when
from kafkawire.transactions.verdict.case import GRACE_MS, Case
from kafkawire.transactions.verdict.case_context import CaseContext
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts
from kafkawire.transactions.verdict.verdicts import HANGING, UNKNOWN

_RUNNING = "the broker was running when it was copied, and its checkpoints lag behind or run ahead"
_DAMAGED = "the partition is damaged: the id's newer record may be lost"
_LOST = "offsets of the partition are missing, where no cleaner has been: the id's newer record may be lost"
_NO_END = "the end of the log could not be read"
_NO_CHECKPOINT = "no replication-offset-checkpoint: the high watermark is not known"


class OpenTallies(dict[tuple[Place, str], answers.Tally]):
    """The answers by place and check."""

    def __missing__(self, key: tuple[Place, str]) -> answers.Tally:
        return self.setdefault(key, answers.Tally(key[1]))

    def placed(self) -> Iterator[answers.Placed]:
        return (answers.Placed(place, tally.answer()) for (place, _), tally in self.items())


def case_answers(cluster: ClusterFacts, judged: Iterable[tuple[Case, rows.Finding]]) -> Iterator[answers.Placed]:
    """The answers. `judged`: the open transactions, with the verdicts on them."""
    tallies = OpenTallies()
    prepared = (record for history in cluster.histories.values() for record in history.prepared)
    judge_opens(cluster.context, judged, prepared, tallies)
    for place, history in cluster.histories.items():
        tallies[place, answers.PREPARE_COMPLETED].held += history.settled
    _stable(cluster, tallies)
    return tallies.placed()


def judge_opens(
    context: CaseContext,
    judged: Iterable[tuple[Case, rows.Finding]],
    prepared: Iterable[Registration],
    tallies: OpenTallies,
) -> None:
    """Add the answers on open transactions, and on ids in a Prepare state: of a whole cluster, or of one producer id.
    That an id is stuck is a verdict on a transaction of its present producer id. `judged`: the open transactions, with
    the verdicts on them. `prepared`: the newest records of such ids."""
    stuck: dict[str, rows.Finding] = {}
    for case, finding in judged:
        _open(context, case, finding, tallies)
        if finding.reason == "stuck_prepare" and finding.transactional_id is not None:
            stuck.setdefault(finding.transactional_id, finding)
    for record in prepared:
        _prepared(context, record, stuck.get(record.transactional_id), tallies[record.place, answers.PREPARE_COMPLETED])


def _open(context: CaseContext, case: Case, finding: rows.Finding, tallies: OpenTallies) -> None:
    """An open transaction: noted, and checked by the rule that its verdict is about."""
    open_ = case.open
    place, offset, producer_id = open_.place, open_.start_offset, open_.producer_id
    tallies[place, answers.OPEN_TRANSACTION].noted += 1
    ghost, unknown = tallies[place, answers.SNAPSHOT_GHOST], tallies[place, answers.TRANSACTION_UNKNOWN_TO_COORDINATOR]
    late = tallies[place, answers.LATE_TRANSACTION]
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
        _late(context, case, finding, late)


def _late(context: CaseContext, case: Case, finding: rows.Finding, late: answers.Tally) -> None:
    """A transaction that its coordinator holds. It counts from its record there: clients invent timestamps."""
    value = case.value
    if finding.reason != "late" or value is None:
        late.held += 1
        return
    begun = begun_ms(value)
    clock = context.as_of if case.record_place is None else context.clock_of(case.record_place, begun)
    assert clock is not None
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


def _prepared(context: CaseContext, record: Registration, stuck: rows.Finding | None, tally: answers.Tally) -> None:
    """An id in a Prepare state: on its way, or for ever."""
    value = record.value
    assert value is not None
    since = value.transaction_last_update_timestamp_ms
    as_of = context.clock_of(record.place, since)
    if record.place.partition in context.log.damaged:
        tally.lack(_DAMAGED)
    elif context.log.lost_after(record) is not None:
        tally.lack(_LOST)
    elif context.log.unreplicated(record) is not None:
        tally.lack("the record is not below the high watermark: replicas lack it, and its coordinator waits for them")
    elif as_of is None:
        tally.lack("the times of the partition are far from those of all other brokers, and do not count")
    elif stuck is None and as_of - since <= context.max_timeout_ms + GRACE_MS:
        tally.lack("the transaction was decided a short time before the copy was made: its markers may be on their way")
    else:
        what = f"{state_name(value.transaction_status)} since {when(since)}, {duration(as_of - since)}"
        if stuck is not None:
            what += f"; its marker is missing in {stuck.topic}-{stuck.partition}"
        tally.breach(record.offset, value.producer_id, what, transactional_id=record.transactional_id)


# Last stable offset ---------------------------------------------------------------------------------------------------


def _stable(cluster: ClusterFacts, tallies: OpenTallies) -> None:
    """log start <= last stable offset <= high watermark <= log end. No file stores the last stable offset: it is
    computed from the others."""
    for partition in cluster.facts.partitions:
        place, high, start = partition.place, partition.high_watermark, partition.log_start
        tally = tallies[place, answers.LSO]
        if high is None:
            tally.lack(_NO_CHECKPOINT)
            continue
        stable = last_stable_offset(high, cluster.facts.first_starts.get(place, high), start)
        if 0 <= start <= stable <= high <= partition.log_end:
            tally.held += 1
        elif partition.gap is not None and partition.gap.end is None:
            tally.lack(_NO_END)
        elif high >= 0 and start >= 0 and place.copy not in cluster.facts.stopped:
            tally.lack(_RUNNING)
        else:
            what = (
                f"log start {start}, last stable offset {stable}, high watermark {high} and log end "
                f"{partition.log_end} are out of order"
            )
            stopped = ", and the broker was stopped cleanly" if place.copy in cluster.facts.stopped else ""
            tally.breach(min(stable, high, partition.log_end), -1, what + stopped)
