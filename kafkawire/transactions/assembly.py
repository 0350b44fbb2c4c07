"""From facts to the audit's answer: which replica counts, what the clock says, a verdict for every open transaction.

Whichever engine gathered the facts, this is where they are judged, so that all engines answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.transactions.answers import summed, violations
from kafkawire.transactions.clusters import by_cluster, joined
from kafkawire.transactions.coordinator import pick_owner
from kafkawire.transactions.copies import CoordinatorLog, CopiedCase
from kafkawire.transactions.facts import TRANSACTION_STATE, Facts, Owner, Partition, Place
from kafkawire.transactions.verdicts import MAX_TIMEOUT_MS, judge
from kafkawire.transactions.wording import numbers

#: Broker default of transaction.state.log.num.partitions.
TRANSACTION_STATE_PARTITIONS = 50

#: What an operator must see first.
_ORDER = ("hanging", "stuck_prepare", "unknown", "late", "two_phase_commit", "live", "young", "ghost")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs do not say.

    Attributes:
        as_of: the clock, epoch milliseconds; None: the newest time that a broker wrote.
        max_timeout_ms: transaction.max.timeout.ms of the brokers.
        transaction_state_partitions: transaction.state.log.num.partitions; None: from `__cluster_metadata` where it was
            copied, otherwise the default, or more where more are there.
    """

    as_of: int | None = None
    max_timeout_ms: int = MAX_TIMEOUT_MS
    transaction_state_partitions: int | None = None


def conclude(facts: Facts, settings: Settings) -> rows.Audit:
    """Judge every open transaction, each in its own cluster: names, offsets and producer ids repeat over clusters."""
    audits = [(cluster, _conclude(part, settings, cluster)) for cluster, part in by_cluster(facts)]
    audit = joined(audits)
    return replace(audit, findings=tuple(sorted(audit.findings, key=_order)))


def _conclude(facts: Facts, settings: Settings, cluster: str | None) -> rows.Audit:
    chosen = {partition.place: partition for partition in choose_replicas(facts.partitions)}
    log = _coordinator_log(facts, settings, chosen.values())
    as_of, clock = _clock(settings, facts.partitions)
    opens = [open_ for open_ in facts.opens if open_.place in chosen]
    owners: dict[int, list[Owner]] = defaultdict(list)
    for owner in facts.owners:
        if owner.newest.place in chosen:
            owners[owner.producer_id].append(owner)
    first_starts: dict[Place, int] = {}
    for open_ in opens:
        first_starts[open_.place] = min(first_starts.get(open_.place, open_.start_offset), open_.start_offset)
    covered = _covered_until(facts.partitions)
    findings = [
        judge(
            CopiedCase(
                open=open_,
                partition=chosen[open_.place],
                first_start=first_starts[open_.place],
                owner=pick_owner(owners[open_.producer_id]),
                log=log,
                covered_until=covered.get(open_.place.copy),
                as_of=as_of,
                max_timeout_ms=settings.max_timeout_ms,
                cluster_id=cluster,
            )
        )
        for open_ in opens
    ]
    answers = summed(facts.answers)
    damage = (*(d for partition in facts.partitions for d in partition.damage), *facts.damage)
    return rows.Audit(
        as_of=as_of,
        read=replace(_coverage(facts, log, clock), checks=tuple(answer.check for answer in answers)),
        findings=tuple(findings),
        violations=tuple(violations(facts.answers)),
        answers=answers,
        damage=tuple(sorted(damage, key=lambda d: (d.file or "", d.position or 0))),
    )


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


def _coordinator_log(facts: Facts, settings: Settings, chosen: Iterable[Partition]) -> CoordinatorLog:
    of_ids = {p.place.partition: p for p in chosen if p.place.topic == TRANSACTION_STATE}
    counted = max(facts.transaction_state_partitions.values(), default=None)
    expected = settings.transaction_state_partitions or counted
    if expected is None:
        expected = max([TRANSACTION_STATE_PARTITIONS, *(number + 1 for number in of_ids)])
    damaged = (n for n, p in of_ids.items() if p.damaged or p.place in facts.unreadable_ids)
    return CoordinatorLog(
        partitions=expected,
        read=tuple(sorted(of_ids)),
        damaged=tuple(sorted(damaged)),
        leader_epochs={number: partition.leader_epoch for number, partition in of_ids.items()},
        newest=max((p.broker_time for p in of_ids.values() if p.broker_time is not None), default=None),
    )


def _clock(settings: Settings, partitions: Iterable[Partition]) -> tuple[int | None, str | None]:
    if settings.as_of is not None:
        return settings.as_of, "as given"
    timed = [(p.broker_time, p.place) for p in partitions if p.broker_time is not None]
    if not timed:
        return None, None
    newest, place = max(timed)
    return newest, f"newest time that a broker wrote, in {place} of {place.copy}"


def _covered_until(partitions: Iterable[Partition]) -> dict[str, int]:
    """For each log directory the newest broker-side time in it: until then, at least, it was copied."""
    covered: dict[str, int] = {}
    for partition in partitions:
        if partition.broker_time is not None:
            copy = partition.place.copy
            covered[copy] = max(covered.get(copy, partition.broker_time), partition.broker_time)
    return covered


def _coverage(facts: Facts, log: CoordinatorLog, clock: str | None) -> rows.Coverage:
    """Where no partition holds a transaction's batch, no transactional id can be hidden: the coordinator's log is not
    needed for an answer."""
    needed = any(partition.transactional for partition in facts.partitions) or bool(facts.opens)
    gaps = list(facts.gaps)
    if not facts.partitions:
        gaps.append("no partition's log was found")
    if needed and log.missing:
        gaps.append(
            f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read: "
            f"{numbers(log.missing)}"
        )
    if needed and log.damaged:
        gaps.append(f"{TRANSACTION_STATE} is damaged in partitions {numbers(list(log.damaged))}")
    if facts.opens and clock is None:
        gaps.append("no clock: no broker-side time was found, and none was given")
    return rows.Coverage(
        paths=facts.paths,
        brokers=facts.brokers,
        clusters=tuple(sorted(set(facts.clusters.values()))),
        partitions=len(facts.partitions),
        segments=sum(partition.segments for partition in facts.partitions),
        batches=sum(partition.batches for partition in facts.partitions),
        bytes=sum(partition.bytes for partition in facts.partitions),
        transaction_state=log.read,
        transaction_state_missing=tuple(log.missing),
        clock=clock,
        complete=not gaps,
        gaps=tuple(gaps),
    )


def _order(finding: rows.Finding) -> tuple[int, str, int, int, int]:
    word = finding.reason if finding.verdict == "not_hanging" else finding.verdict
    start = -1 if finding.start_offset is None else finding.start_offset
    return _ORDER.index(word), finding.topic, finding.partition, start, finding.producer_id
