"""No record is delivered more often than the limit allows."""

from __future__ import annotations

from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.share_groups.delivery_states import AVAILABLE
from kafkawire.transactions.answers import Tally

_NO_LIMIT = (
    "the delivery count limit is not known: neither share.delivery.count.limit of the group nor "
    "group.share.delivery.count.limit of the brokers is in the metadata log"
)


def _judge(step: ShareStep, tally: Tally) -> None:
    runs = step.step.record.runs
    if not runs:
        return
    if step.limit is None:
        tally.lack(_NO_LIMIT)
        return
    for run in runs:
        if run.deliveries > step.limit:
            step.breach(
                tally, f"offset {run.first} was delivered {run.deliveries} times, and the limit is {step.limit}"
            )
            return
        if run.deliveries == step.limit and run.state == AVAILABLE:
            step.breach(tally, f"offset {run.first} is available after delivery {run.deliveries}, the limit")
            return
    tally.held += 1


RULE = StepRule(
    name="share_delivery_limit",
    sentence="No record is delivered more often than the delivery count limit, or available after the last delivery.",
    source="KIP-932, `InFlightState`",
    judge=_judge,
    faults={
        "above": (BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 2, 6),))),
        "available": (BEGIN, ("update", 0, 0, 1, 1, ((0, 3, 0, 5),))),
    },
)
