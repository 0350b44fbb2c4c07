"""Nothing is acknowledged before it was delivered."""

from __future__ import annotations

from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.share_groups.delivery_states import delivery_state_name
from kafkawire.transactions.answers import Tally


def _judge(step: ShareStep, tally: Tally) -> None:
    for run in step.step.record.runs:
        if run.deliveries < 1:
            what = f"offset {run.first} is {delivery_state_name(run.state)} after {run.deliveries} deliveries"
            step.breach(tally, what)
            return
        if run.first < 0 or run.last < run.first:
            step.breach(tally, f"a run of offsets {run.first} to {run.last}")
            return
    if step.step.record.runs:
        tally.held += 1


RULE = StepRule(
    name="share_delivered_first",
    sentence="A record has a state only after it was delivered.",
    source="KIP-932, `SharePartition`",
    judge=_judge,
    faults={
        "acknowledged": (BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 2, 0),))),
        "archived": (BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 4, 0),))),
        "backwards": (BEGIN, ("update", 0, 0, 1, 1, ((5, 3, 2, 1),))),
    },
)
