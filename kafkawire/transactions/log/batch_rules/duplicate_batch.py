"""No batch is written twice."""

from __future__ import annotations

from kafkawire.transactions.answers import DUPLICATE_BATCH, Tally
from kafkawire.transactions.log.batch_rules.batch_rule import DOUBT, EXPIRED, GAP, BatchRule, Step


def _judge(step: Step, tally: Tally) -> None:
    append, before = step.append, step.before
    if before is None:
        return
    if step.expired:
        if append.base_sequence >= 0:
            tally.lack(EXPIRED)
    elif step.in_doubt:
        tally.lack(DOUBT)
    elif step.is_refused or append.producer_epoch > before.epoch or append.base_sequence < 0:
        return
    elif before.data_known_from < append.intact_from:
        tally.lack(GAP)
    elif not before.batches:
        return
    elif before.follows(append.base_sequence) or (first := before.duplicate(append)) is None:
        tally.held += 1
    else:
        since = first.last_offset - first.offset_delta
        what = (
            f"sequence numbers {append.base_sequence} to {append.last_sequence} again, "
            f"after offsets {since} to {first.last_offset}"
        )
        step.breach(tally, what, since=since)


RULE = BatchRule(
    name=DUPLICATE_BATCH,
    sentence="No batch is written twice.",
    source="KIP-98; Kafka's ProducerStateEntry.findDuplicateBatch",
    judge=_judge,
    control=False,
    numbers=True,
    faults={
        "the-last": ((0, 0, 2), (0, 0, 2)),
        "one-of-five": ((0, 0, 1), (0, 1, 2), (0, 3, 1), (0, 1, 2)),
        # What follows goes on as if the batch that breaks the rule were not there.
        "goes-on": ((0, 0, 1), (0, 1, 2), (0, 0, 1), (0, 3, 1)),
    },
)
