"""The checks of an audit by what answers them, in the order of their answers."""

from __future__ import annotations

from kafkawire.transactions import answers
from kafkawire.transactions.log.batch_rules import RULES

#: The checks of every batch of a log.
BATCH_CHECKS = tuple(rule.name for rule in RULES)
_SECOND = BATCH_CHECKS.index(answers.COORDINATOR_EPOCH_MONOTONIC)

#: The checks of transactions, in the order of their answers.
CHECKS = (
    *BATCH_CHECKS[:_SECOND],
    answers.MARKER_EPOCH,
    *BATCH_CHECKS[_SECOND:],
    answers.OPEN_TRANSACTION,
    answers.TRANSACTION_UNKNOWN_TO_COORDINATOR,
    answers.LATE_TRANSACTION,
    answers.LSO,
    answers.TXNINDEX_EQUALS_LOG,
    answers.SNAPSHOT_EQUALS_REPLAY,
    answers.SNAPSHOT_GHOST,
    answers.PREPARE_COMPLETED,
    answers.ONE_OUTCOME,
    answers.LEGAL_TRANSITION,
    answers.TRANSITION_FIELDS,
    answers.EPOCH_STEP,
    answers.PREVIOUS_PRODUCER_ID,
    answers.PRODUCER_ID_UNIQUE,
    answers.ID_IN_ITS_PARTITION,
    answers.REPLICAS_AGREE,
)
#: The checks that are only answered where a tier was given (KIP-405), in the order of their answers.
TIER_CHECKS = (
    answers.TIER_COPY_FINISHED,
    answers.TIER_OBJECT_KNOWN,
    answers.TIER_OBJECT_PRESENT,
    answers.TIER_COVERS_LOG,
)

#: The checks of share groups (KIP-932), in the order of their answers; they are only answered where a copy of
#: `__share_group_state` is. The rules are above this package: `offsets.share_rules`.
SHARE_CHECKS = (
    "share_transition", "share_start_offset", "share_epochs", "share_snapshot", "share_delivered_first",
    "share_delivery_limit", "share_offsets_exist", "share_committed_only", "share_dead_letter",
    "share_dead_letter_once", "share_topic_exists",
)  # fmt: skip

#: The checks that the files of one replica of a partition answer by themselves, in the order of their answers.
LOG_CHECKS = (*BATCH_CHECKS, answers.TXNINDEX_EQUALS_LOG, answers.SNAPSHOT_EQUALS_REPLAY)

#: The checks that the records of one partition of `__transaction_state` answer by themselves, in the order of their
#: answers.
ID_CHECKS = (answers.LEGAL_TRANSITION, answers.TRANSITION_FIELDS, answers.EPOCH_STEP, answers.PREVIOUS_PRODUCER_ID)

#: The checks that need `__transaction_state`.
OF_IDS = frozenset(
    {*ID_CHECKS, answers.ONE_OUTCOME, answers.MARKER_EPOCH, answers.PREPARE_COMPLETED, answers.ID_IN_ITS_PARTITION}
)

#: The checks that an open transaction breaks, which a finding reports as well.
OF_FINDINGS = frozenset({answers.TRANSACTION_UNKNOWN_TO_COORDINATOR, answers.LATE_TRANSACTION, answers.SNAPSHOT_GHOST})
