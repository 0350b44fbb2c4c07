"""The coordinator epoch of a producer's markers never goes back."""

from __future__ import annotations

from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.answers import COORDINATOR_EPOCH_MONOTONIC, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import EXPIRED, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    epoch = append.coordinator_epoch
    if before is None:
        if epoch is not None and epoch < -1 and append.producer_epoch >= 0 and append.control not in (MALFORMED, EMPTY):
            step.breach(tally, f"a marker of coordinator epoch {epoch}")
    elif step.expired:
        tally.lack(EXPIRED)
    elif step.is_refused or epoch is None or before.coordinator_epoch < 0:
        return
    elif epoch < before.coordinator_epoch:
        step.breach(tally, f"a marker of coordinator epoch {epoch} after one of {before.coordinator_epoch}")
    else:
        tally.held += 1


RULE = BatchRule(
    name=COORDINATOR_EPOCH_MONOTONIC,
    sentence="The coordinator epoch of a producer's markers never goes back.",
    source="KIP-98; Kafka's ProducerAppendInfo.checkCoordinatorEpoch",
    judge=_judge,
    data=False,
)
