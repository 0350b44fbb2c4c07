"""While its transaction is open, a producer writes nothing outside of it."""

from __future__ import annotations

from kafkawire.transactions.answers import MIXED_BATCHES, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import GAP, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    if before is None or step.expired or step.in_doubt or before.first_offset < 0:
        return
    if append.producer_epoch < before.epoch:
        return
    if append.transactional:
        tally.held += 1
    elif step.is_behind_gap:
        tally.lack(GAP)
    else:
        what = f"a batch outside of transactions while the one from offset {before.first_offset} on is open"
        step.breach(tally, what)


RULE = BatchRule(
    name=MIXED_BATCHES,
    sentence="While its transaction is open, a producer writes nothing outside of it.",
    source="KIP-98; Kafka's ProducerAppendInfo.appendDataBatch",
    judge=_judge,
    control=False,
)
