"""The answer of `kafkawire why`, from an audit or a search: the same for copies and live clusters. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from kafkawire.rows import Audit, Blocker, Lag, Outcome, Subject, Why
from kafkawire.transactions.attention import BLOCKED, HANGING, STUCK
from kafkawire.transactions.blocking.blockers import Fills, GroupView, Place, blockers_of, concerning, together, urgency
from kafkawire.transactions.commands import Reach
from kafkawire.transactions.verdict import completeness


def answer(
    audit: Audit,
    subject: Subject,
    reach: Reach,
    *,
    group: GroupView | None = None,
    lags: Sequence[Lag] = (),
    fills: Mapping[Place, Fills] | None = None,
    places: Collection[Place] | None = None,
    others: Sequence[Blocker] = (),
    gaps: Sequence[str] = (),
) -> Why:
    """What blocks a subject.

    Args:
        audit: of the subject's partitions, or of more.
        reach: for the commands. `group`, `lags`: of a group.
        fills: what fills partitions of `__consumer_offsets`.
        places: the partitions of an id's transaction, as its coordinator describes it; None: they are not known.
        others: blockers that are no part of the audit. `gaps`: what else could not be read, sentences.
    """
    about = concerning(audit, subject, group)
    if places is None and subject.topic is None and subject.group is None:
        places = {(one.topic, one.partition) for one in about.findings}
    blockers = tuple(sorted((*blockers_of(about, reach, group, fills, places), *others), key=urgency))
    missing = [*completeness.not_read(about), *completeness.not_judged(about)]
    if group is not None:
        missing += [*group.gaps, *([] if group.doubt is None else [group.doubt])]
    missing += [f"{lag.topic}-{lag.partition}: {problem}" for lag in lags for problem in lag.problems]
    missing = list(dict.fromkeys((*missing, *gaps)))
    needs = [one.attention for one in blockers]
    outcome = Outcome(
        found=any(needs),
        hanging=needs.count(HANGING),
        stuck=needs.count(STUCK),
        blocked=needs.count(BLOCKED),
        complete=not missing,
        missing=tuple(missing),
    )
    return Why(
        as_of=about.as_of,
        subject=subject,
        blockers=blockers,
        lags=tuple(lags),
        read=replace(about.read, complete=not missing),
        together=together(blockers, reach),
        outcome=outcome,
    )


def nothing_blocks(found: Why) -> bool:
    """Whether it is certain that nothing blocks the subject."""
    return not found.blockers and found.outcome.complete and all(one.holds for one in found.read.premises)
