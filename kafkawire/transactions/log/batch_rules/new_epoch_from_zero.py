"""A producer's first batch of a new epoch has sequence number 0."""

from __future__ import annotations

from kafkawire.transactions.answers import NEW_EPOCH_FROM_ZERO, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import EXPIRED, GAP, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    if before is None or append.base_sequence < 0:
        return
    if step.expired:
        tally.lack(EXPIRED)
    elif step.in_doubt or step.is_refused:
        return
    elif append.producer_epoch > before.epoch and step.is_behind_gap:
        tally.lack(GAP)
    elif append.producer_epoch == before.epoch and (before.batches or before.data_known_from < append.intact_from):
        return
    elif append.base_sequence:
        what = f"epoch {append.producer_epoch} begins with sequence number {append.base_sequence}"
        step.breach(tally, what, since=before.data_known_from)
    else:
        tally.held += 1


RULE = BatchRule(
    name=NEW_EPOCH_FROM_ZERO,
    sentence="A producer's first batch of a new epoch has sequence number 0.",
    source="KIP-98, KIP-360; Kafka's ProducerAppendInfo.checkSequence",
    judge=_judge,
    control=False,
    numbers=True,
    faults={"one": ((0, 0, 1), (1, 1, 1)), "goes-on": ((0, 0, 3), (1, 3, 1))},
)
