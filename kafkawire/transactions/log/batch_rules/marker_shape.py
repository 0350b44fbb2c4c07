"""A marker is one control record, of the form that Kafka writes."""

from __future__ import annotations

from kafkawire.transactions.answers import MARKER_SHAPE, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    problem = step.append.problem
    if problem is None:
        tally.held += 1
    else:
        step.breach(tally, problem)


RULE = BatchRule(
    name=MARKER_SHAPE,
    sentence="A marker is one control record, of the form that Kafka writes.",
    source="KIP-98; Kafka's EndTransactionMarker",
    judge=_judge,
    data=False,
)
