"""A record's state goes on as Kafka's does."""

from __future__ import annotations

from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.share_groups.delivery_states import ARCHIVED, ARCHIVING, STORED, TERMINAL, delivery_state_name
from kafkawire.share_groups.state_runs import Run
from kafkawire.transactions.answers import Tally


def _problem(was: Run | None, now: Run) -> str | None:
    """What is wrong with a change of one offset; None where nothing is."""
    name = delivery_state_name(now.state)
    if now.state not in STORED:
        return f"the state {name}, which is never stored"
    if was is None or was.rank == now.rank:
        return None
    before = delivery_state_name(was.state)
    if was.state in TERMINAL:
        return f"{name} at delivery {now.deliveries} after {before} at delivery {was.deliveries}"
    if was.state == ARCHIVING:
        fits = now.state == ARCHIVED and now.deliveries == was.deliveries
        return None if fits else f"{name} at delivery {now.deliveries} after {before} at delivery {was.deliveries}"
    if now.deliveries <= was.deliveries:
        return (
            f"{name} at delivery {now.deliveries} after {before} at delivery {was.deliveries}: no delivery in between"
        )
    return None


def _judge(step: ShareStep, tally: Tally) -> None:
    found = step.neighbours(tally)
    if found is None:
        return
    before, after = found
    problem = None
    for run in step.step.record.runs:
        if run.last < max(after.start_offset, run.first):
            continue
        overlap = [one for one in before.runs if one.first <= run.last and one.last >= run.first]
        pairs: list[Run | None] = [*overlap] or [None]
        for was in pairs:
            text = _problem(was, run)
            if text is not None:
                first = run.first if was is None else max(run.first, was.first)
                problem = problem or f"offset {first} is {text}"
        if overlap and problem is None and _problem(None, run) is not None:
            problem = f"offset {run.first} is {_problem(None, run)}"
    step.judged(tally, problem)


RULE = StepRule(
    name="share_transition",
    sentence="Acknowledged and archived records stay so; others change with their next delivery.",
    source="KIP-932, `RecordState`",
    judge=_judge,
    faults={
        "available-after-acknowledged": (
            BEGIN,
            ("update", 0, 0, 1, 1, ((0, 3, 2, 1), (4, 9, 0, 1))),
            ("update", 0, 0, 1, 1, ((2, 2, 0, 2),)),
        ),
        "acknowledged-after-archived": (
            BEGIN,
            ("update", 0, 0, 1, 1, ((4, 4, 4, 1),)),
            ("update", 0, 0, 1, 1, ((4, 4, 2, 2),)),
        ),
        "available-after-archiving": (
            BEGIN,
            ("update", 0, 0, 1, 1, ((4, 4, 3, 1),)),
            ("update", 0, 0, 1, 1, ((4, 4, 0, 2),)),
        ),
        "without-a-delivery": (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 0, 1),)), ("update", 0, 0, 1, 1, ((4, 4, 2, 1),))),
        "acquired": (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 0, 1),)), ("update", 0, 0, 1, 1, ((5, 5, 1, 1),))),
        "unknown-state": (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 0, 1),)), ("update", 0, 0, 1, 1, ((4, 4, 9, 2),))),
    },
)
