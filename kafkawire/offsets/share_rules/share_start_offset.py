"""The start offset of a share group never goes back."""

from __future__ import annotations

from kafkawire.messages import ShareUpdateValue
from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.transactions.answers import Tally


def _judge(step: ShareStep, tally: Tally) -> None:
    found = step.neighbours(tally)
    if found is None:
        return
    before, after = found
    value = step.step.record.value
    kept = isinstance(value, ShareUpdateValue) and value.start_offset == -1
    kind = "a snapshot" if step.step.record.snapshot else "an update"
    what = f"the start offset goes back from {before.start_offset} to {after.start_offset} in {kind}"
    step.judged(tally, what if after.start_offset < before.start_offset and not kept else None)


RULE = StepRule(
    name="share_start_offset",
    sentence="A share group's start offset never goes back, unless an administrator sets it.",
    source="KIP-932, `ShareCoordinatorShard`",
    judge=_judge,
    faults={
        "update": (BEGIN, ("update", 7, 0, 1, 1, ()), ("update", 5, 0, 1, 1, ())),
        "snapshot": (BEGIN, ("update", 7, 0, 1, 1, ((7, 8, 0, 1),)), ("snapshot", 5, 1, 1, 1, ((7, 8, 0, 1),))),
    },
)
