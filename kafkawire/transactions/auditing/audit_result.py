"""`conclude`: facts -> the audit's answer, with the replica that counts, the time of the audit, and a verdict for every
open transaction.

Facts of all engines are judged here, so that all engines give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.checks.answer_rows import each_violation, merged, summed, violations
from kafkawire.transactions.checks.cross_partition import joined_answers
from kafkawire.transactions.checks.open_transactions import case_answers
from kafkawire.transactions.checks.violation_causes import without_consequences
from kafkawire.transactions.coordinator.coordinator_copies import NOT_CLEANED
from kafkawire.transactions.facts import TRANSACTION_STATE, Place
from kafkawire.transactions.formatting import numbers, when
from kafkawire.transactions.verdict import premises
from kafkawire.transactions.verdict.case import Case
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts, Facts, by_cluster
from kafkawire.transactions.verdict.settings import Settings
from kafkawire.transactions.verdict.verdicts import judge

#: What an operator must see first.
_ORDER = ("hanging", "stuck_prepare", "unknown", "late", "two_phase_commit", "live", "young", "ghost")


class Concluded(NamedTuple):
    """What `conclude` adds to the answers of the facts, and takes from them.

    Attributes:
        own: the answers that are added. `explained`: the violations in those of the facts that rest on others.
    """

    own: list[Placed]
    explained: set[rows.Violation]


def conclude(
    facts: Facts,
    settings: Settings,
    own: Concluded | None = None,
    judged: Sequence[tuple[Case, rows.Finding]] | None = None,
    *,
    jobs: int = 1,
) -> rows.Audit:
    """Judge every open transaction, each in its own cluster: names, offsets and producer ids repeat over clusters.

    Args:
        own: takes what changes in the answers.
        judged: the open transactions of a live cluster, whose brokers know more of them than logs show; None: judge
            those of the facts.
        jobs: number of threads.
    """
    concluded = own or Concluded([], set())
    audits = [
        (cluster_id, _conclude(ClusterFacts(part, settings, cluster_id), concluded, judged, jobs))
        for cluster_id, part in by_cluster(facts)
    ]
    audit = _joined(audits)
    return replace(
        audit,
        findings=tuple(sorted(audit.findings, key=finding_order)),
        # A tier's damage is that of each replica whose log it begins.
        damage=tuple(sorted(dict.fromkeys(audit.damage), key=damage_order)),
    )


def _conclude(
    cluster: ClusterFacts, concluded: Concluded, judged: Sequence[tuple[Case, rows.Finding]] | None, jobs: int
) -> rows.Audit:
    facts, context = cluster.facts, cluster.context
    if judged is None:
        judged = [(case, judge(case)) for case in _cases(cluster)]
    paths = paths_of(facts)
    placed, added = (
        [one if one.path else replace(one, path=paths.get(one.place)) for one in answers]
        for answers in (
            facts.answers,
            [*case_answers(cluster, judged), *joined_answers(cluster, jobs)],
        )
    )
    of_facts, placed = placed, list(without_consequences([*placed, *added]))
    concluded.own.extend(placed[len(of_facts) :])
    for before, after in zip(of_facts, placed, strict=False):
        if before is not after:
            concluded.explained.update(set(each_violation(before)) - set(each_violation(after)))
    answers = summed(placed)
    damage = *(d for partition in facts.partitions for d in partition.damage), *facts.damage
    coverage = _coverage(cluster)
    return rows.Audit(
        as_of=context.as_of,
        read=replace(
            coverage,
            checks=tuple(answer.check for answer in answers),
            settings=cluster.resolved.rows,
            premises=(_reach(cluster, coverage), premises.soundness(damage, facts.more_damage, facts.paths)),
        ),
        findings=tuple(finding for _, finding in judged),
        violations=tuple(violations(placed)),
        damage=damage,
        answers=answers,
    )


def _cases(cluster: ClusterFacts) -> Iterator[Case]:
    """The open transactions in copied logs."""
    facts, chosen, context = cluster.facts, cluster.chosen, cluster.context
    for open_ in facts.opens:
        if open_.place in chosen:
            start, owner = facts.first_starts[open_.place], cluster.owner(open_.producer_id)
            yield context.case(open_, chosen[open_.place], start, owner)


def paths_of(facts: Facts) -> dict[Place, str]:
    """The directory of each replica that has an answer."""
    return {one.place: one.path for one in facts.answers if one.path}


def _coverage(cluster: ClusterFacts) -> rows.Coverage:
    """Where no partition holds a transaction's batch, no transactional id can be hidden: the coordinator's log is not
    needed for an answer."""
    facts, log, needed = cluster.facts, cluster.log, cluster.has_transactions
    _, clock = cluster.clock
    gaps = list(facts.gaps)
    gaps += cluster.manifest.gaps
    if not facts.partitions:
        gaps.append("no partition's log was found")
    gaps += [
        f"{one.place} of {one.place.copy}: offsets {one.log_start} to {one.segments_start - 1} lie below its first "
        "segment, in a tier or files that were not given"
        for one in cluster.chosen.values()
        if one.segments and one.log_start < one.segments_start
    ]
    if needed and log.missing:
        gaps.append(
            f"{len(log.missing)} of {log.partitions} partitions of {TRANSACTION_STATE} were not read: "
            f"{numbers(log.missing)}"
        )
    if needed and log.damaged:
        gaps.append(f"{TRANSACTION_STATE} is damaged in partitions {numbers(list(log.damaged))}")
    gaps += [
        f"{lost.file}: {lost}, {NOT_CLEANED}"
        for place, lost in cluster.lost.items()
        if place.topic != TRANSACTION_STATE
    ]
    if needed:
        gaps += [f"{lost.file}: {lost}, {NOT_CLEANED}" for lost in log.lost.values()]
    if cluster.has_opens and clock is None:
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


def _reach(cluster: ClusterFacts, coverage: rows.Coverage) -> rows.Premise:
    found = cluster.manifest
    return premises.reach(coverage.partitions, found.sources, coverage.gaps, found.strays, coverage.paths)


def finding_order(finding: rows.Finding) -> tuple[int, str, int, int, int]:
    """The key by which findings are sorted: the most important first."""
    label = finding.reason if finding.verdict == "not_hanging" else finding.verdict
    start = -1 if finding.start_offset is None else finding.start_offset
    return _ORDER.index(label), finding.topic, finding.partition, start, finding.producer_id


def damage_order(damage: rows.DamageRow) -> tuple[str, int]:
    """The key by which damage is sorted: file and position."""
    return damage.file or "", damage.position or 0


def _joined(audits: Sequence[tuple[str | None, rows.Audit]]) -> rows.Audit:
    """One answer for all clusters. `as_of` is the newest of their clocks; each age counts from its own cluster's."""
    if len(audits) == 1:
        return audits[0][1]
    reads = [audit.read for _, audit in audits]
    clocks = {audit.as_of for _, audit in audits if audit.as_of is not None}
    return rows.Audit(
        as_of=max(clocks, default=None),
        read=rows.Coverage(
            paths=reads[0].paths,
            brokers=reads[0].brokers,
            clusters=tuple(cluster for read in reads for cluster in read.clusters),
            partitions=sum(read.partitions for read in reads),
            segments=sum(read.segments for read in reads),
            batches=sum(read.batches for read in reads),
            bytes=sum(read.bytes for read in reads),
            transaction_state=tuple(sorted({number for read in reads for number in read.transaction_state})),
            transaction_state_missing=tuple(
                sorted({number for read in reads for number in read.transaction_state_missing})
            ),
            clock="; ".join(f"{_name(cluster)}: {when(audit.as_of)}, {audit.read.clock}" for cluster, audit in audits),
            complete=all(read.complete for read in reads),
            gaps=tuple(f"{_name(cluster)}: {gap}" for cluster, audit in audits for gap in audit.read.gaps),
            checks=tuple(dict.fromkeys(check for read in reads for check in read.checks)),
            settings=tuple(
                replace(setting, source=f"{_name(cluster)}: {setting.source}")
                for cluster, audit in audits
                for setting in audit.read.settings
            ),
            premises=tuple(
                replace(premise, what=f"{_name(cluster)}: {premise.what}")
                for cluster, audit in audits
                for premise in audit.read.premises
            ),
        ),
        findings=tuple(finding for _, audit in audits for finding in audit.findings),
        violations=tuple(violation for _, audit in audits for violation in audit.violations),
        damage=tuple(damage for _, audit in audits for damage in audit.damage),
        answers=merged(audit.answers for _, audit in audits),
    )


def _name(cluster: str | None) -> str:
    return f"cluster {cluster}" if cluster is not None else "directories that name no cluster"
