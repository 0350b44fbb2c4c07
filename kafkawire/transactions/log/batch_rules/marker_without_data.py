"""A marker that ended nothing: for information, it is legal."""

from __future__ import annotations

from kafkawire.records.control import MALFORMED
from kafkawire.transactions.answers import MARKER_WITHOUT_DATA, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    producer = step.producer
    if producer is not None and producer.first_offset >= 0:
        tally.held += 1
    elif step.append.control != MALFORMED:
        tally.noted += 1


RULE = BatchRule(
    name=MARKER_WITHOUT_DATA,
    sentence="A marker that ended nothing: for information, it is legal.",
    source="KIP-890: transaction version 2 marks partitions without data",
    judge=_judge,
    data=False,
)
