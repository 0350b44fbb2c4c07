"""Completeness of an answer: what was found, what was not read, and what could not be judged.

Headlines, exit codes and the JSON of `audit` and `find-hanging` follow from it.
"""

from __future__ import annotations

from collections import Counter

from kafkawire import rows
from kafkawire.transactions.attention import BLOCKED, HANGING, STUCK, attention_of
from kafkawire.transactions.verdict.case import DEADLINE
from kafkawire.transactions.verdict.verdicts import UNKNOWN


def found(audit: rows.Audit) -> bool:
    """Whether something was found: a transaction that hangs, is stuck or blocks readers for too long, or a rule that is
    broken."""
    return bool(audit.violations) or any(map(attention, audit.findings))


def attention(finding: rows.Finding) -> str | None:
    """What a finding needs attention for; what a later reading made of it counts, too."""
    return finding.attention or attention_of(finding, None)


def not_read(audit: rows.Audit) -> tuple[str, ...]:
    """What was not read, as sentences: gaps, and damage that is not harmless."""
    damage = [f"{d.file}: at byte {d.position}: {d.detail or d.reason}" for d in audit.damage if not d.harmless]
    omitted = sum(more.count for more in audit.omitted if more.harmless is False)
    if omitted:
        damage.append(f"{omitted:,} more damaged places are not listed")
    gaps = audit.read.gaps or (() if audit.read.complete else ("what was read is not complete",))
    return tuple(dict.fromkeys((*gaps, *damage)))


def not_judged(audit: rows.Audit) -> tuple[str, ...]:
    """Transactions without a verdict, and those that may have held a last stable offset for too long, as sentences."""
    unknown = [
        f"{one.topic}-{one.partition}, offset {one.start_offset}: could not be judged"
        for one in audit.findings
        if one.verdict == UNKNOWN
    ]
    unknown += [
        f"{one.topic}-{one.partition}, offset {one.start_offset}: {premise.what}"
        for one in audit.findings
        for premise in one.premises
        if one.verdict != UNKNOWN and premise.name == DEADLINE and not premise.holds
    ]
    omitted = sum(more.count for more in audit.omitted if more.verdict == UNKNOWN)
    return (*unknown, f"{omitted:,} more transactions could not be judged") if omitted else tuple(unknown)


def outcome(audit: rows.Audit) -> rows.Outcome:
    """What was found, and what keeps the answer from being complete."""
    missing = (*not_read(audit), *not_judged(audit))
    needs = Counter(map(attention, audit.findings))
    return rows.Outcome(
        found=found(audit),
        hanging=needs[HANGING],
        stuck=needs[STUCK],
        blocked=needs[BLOCKED],
        complete=not missing,
        missing=missing,
    )
