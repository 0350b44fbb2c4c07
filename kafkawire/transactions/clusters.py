"""Log directories of several clusters in one audit: told apart by the id in `meta.properties`, never joined."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.transactions.answers import merged
from kafkawire.transactions.facts import Facts
from kafkawire.transactions.wording import when


def by_cluster(facts: Facts) -> list[tuple[str | None, Facts]]:
    """The facts of each cluster, with its id.

    Directories that do not say theirs belong to the only cluster there is, or else are a group of their own. Damage and
    gaps, which name their files, are with the first.
    """
    ids = sorted(set(facts.clusters.values()))
    if len(ids) <= 1:
        return [(ids[0] if ids else None, facts)]
    groups: list[tuple[str | None, Facts]] = []
    copies = {partition.place.copy for partition in facts.partitions}
    for cluster in (*ids, None):
        own = {copy for copy in copies if facts.clusters.get(copy) == cluster}
        if not own:
            continue
        part = replace(
            facts,
            partitions=[partition for partition in facts.partitions if partition.place.copy in own],
            opens=[open_ for open_ in facts.opens if open_.place.copy in own],
            answers=[placed for placed in facts.answers if placed.place.copy in own],
            owners=[owner for owner in facts.owners if owner.newest.place.copy in own],
            unreadable_ids=frozenset(place for place in facts.unreadable_ids if place.copy in own),
            metadata={copy: said for copy, said in facts.metadata.items() if copy in own},
            histories=None
            if facts.histories is None
            else {place: history for place, history in facts.histories.items() if place.copy in own},
            endings=[endings for endings in facts.endings if endings.place.copy in own],
            producers=[producers for producers in facts.producers if producers.place.copy in own],
            clusters={copy: known for copy, known in facts.clusters.items() if copy in own},
        )
        groups.append((cluster, replace(part, damage=(), gaps=()) if groups else part))
    return groups


def joined(audits: Sequence[tuple[str | None, rows.Audit]]) -> rows.Audit:
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
        ),
        findings=tuple(finding for _, audit in audits for finding in audit.findings),
        violations=tuple(violation for _, audit in audits for violation in audit.violations),
        damage=tuple(damage for _, audit in audits for damage in audit.damage),
        answers=merged(audit.answers for _, audit in audits),
    )


def _name(cluster: str | None) -> str:
    return f"cluster {cluster}" if cluster is not None else "directories that name no cluster"
