"""A producer's sequence numbers follow each other without gap or step back."""

from __future__ import annotations

from kafkawire.transactions.answers import SEQUENCE_CONTIGUOUS, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import DOUBT, EXPIRED, GAP, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    sequence = append.base_sequence
    if sequence < -1 and append.producer_epoch >= 0:
        step.breach(tally, f"sequence number {sequence}")
    elif before is None:
        return
    elif step.expired:
        if sequence >= 0:
            tally.lack(EXPIRED)
    elif step.in_doubt:
        tally.lack(DOUBT)
    elif step.is_refused or append.producer_epoch > before.epoch:
        return
    elif sequence < 0:
        if before.last_sequence >= 0:
            step.breach(tally, f"no sequence number after {before.last_sequence}")
    elif before.data_known_from < append.intact_from:
        tally.lack(GAP)
    elif not before.batches:
        return
    elif before.follows(sequence):
        tally.held += 1
    elif before.duplicate(append) is None:
        step.breach(tally, f"sequence number {sequence} after {before.last_sequence}", since=before.data_known_from)


RULE = BatchRule(
    name=SEQUENCE_CONTIGUOUS,
    sentence="A producer's sequence numbers follow each other without gap or step back.",
    source="KIP-98; Kafka's ProducerAppendInfo.checkSequence",
    judge=_judge,
    control=False,
    numbers=True,
    faults={
        "gap": ((0, 0, 2), (0, 3, 1)),
        "step-back": ((0, 0, 4), (0, 2, 3)),
        "gap-over-the-wrap": ((0, 2**31 - 2, 2), (0, 1, 1)),
        # What follows goes on as if the batch that breaks the rule were not there.
        "gap-of-one-batch": ((0, 0, 2), (0, 5, 1), (0, 3, 1)),
    },
)
