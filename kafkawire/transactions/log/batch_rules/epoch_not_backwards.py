"""A producer's epoch never goes back."""

from __future__ import annotations

from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.answers import EPOCH_NOT_BACKWARDS, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import DOUBT, EXPIRED, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    epoch = append.producer_epoch
    if epoch < 0:
        if append.control not in (MALFORMED, EMPTY):
            step.breach(tally, f"epoch {epoch}")
    elif before is None:
        return
    elif step.expired:
        tally.lack(EXPIRED)
    elif step.in_doubt:
        tally.lack(DOUBT)
    elif epoch < before.epoch:
        step.breach(tally, f"epoch {epoch} after epoch {before.epoch}", since=before.last_append)
    else:
        tally.held += 1


RULE = BatchRule(
    name=EPOCH_NOT_BACKWARDS,
    sentence="A producer's epoch never goes back.",
    source="KIP-98; Kafka's ProducerAppendInfo.checkProducerEpoch",
    judge=_judge,
    faults={
        "data": ((3, 0, 1), (2, 0, 1)),
        # What follows goes on as if the batch that breaks the rule were not there.
        "goes-on": ((3, 0, 2), (2, 7, 1), (3, 2, 1)),
    },
)
