"""The checks of an audit by what answers them, in the order of their answers."""

from __future__ import annotations

from kafkawire.transactions.answers import (
    COORDINATOR_EPOCH_MONOTONIC,
    EPOCH_STEP,
    ID_IN_ITS_PARTITION,
    LATE_TRANSACTION,
    LEGAL_TRANSITION,
    LSO,
    MARKER_EPOCH,
    ONE_OUTCOME,
    OPEN_TRANSACTION,
    PREPARE_COMPLETED,
    PREVIOUS_PRODUCER_ID,
    PRODUCER_ID_UNIQUE,
    REPLICAS_AGREE,
    SNAPSHOT_EQUALS_REPLAY,
    SNAPSHOT_GHOST,
    TIER_COPY_FINISHED,
    TIER_COVERS_LOG,
    TIER_OBJECT_KNOWN,
    TIER_OBJECT_PRESENT,
    TRANSACTION_UNKNOWN_TO_COORDINATOR,
    TRANSITION_FIELDS,
    TXNINDEX_EQUALS_LOG,
)
from kafkawire.transactions.log.batch_rules import RULES

#: The checks of every batch of a log.
BATCH_CHECKS = tuple(rule.name for rule in RULES)
_SECOND = BATCH_CHECKS.index(COORDINATOR_EPOCH_MONOTONIC)

#: The checks of transactions, in the order of their answers.
CHECKS = (
    *BATCH_CHECKS[:_SECOND],
    MARKER_EPOCH,
    *BATCH_CHECKS[_SECOND:],
    OPEN_TRANSACTION,
    TRANSACTION_UNKNOWN_TO_COORDINATOR,
    LATE_TRANSACTION,
    LSO,
    TXNINDEX_EQUALS_LOG,
    SNAPSHOT_EQUALS_REPLAY,
    SNAPSHOT_GHOST,
    PREPARE_COMPLETED,
    ONE_OUTCOME,
    LEGAL_TRANSITION,
    TRANSITION_FIELDS,
    EPOCH_STEP,
    PREVIOUS_PRODUCER_ID,
    PRODUCER_ID_UNIQUE,
    ID_IN_ITS_PARTITION,
    REPLICAS_AGREE,
)
#: The checks that are only answered where a tier was given (KIP-405), in the order of their answers.
TIER_CHECKS = (TIER_COPY_FINISHED, TIER_OBJECT_KNOWN, TIER_OBJECT_PRESENT, TIER_COVERS_LOG)

#: The checks of share groups (KIP-932), in the order of their answers; they are only answered where a copy of
#: `__share_group_state` is. The rules are above this package: `offsets.share_rules`.
SHARE_CHECKS = (
    "share_transition", "share_start_offset", "share_epochs", "share_snapshot", "share_delivered_first",
    "share_delivery_limit", "share_offsets_exist", "share_committed_only", "share_dead_letter",
    "share_dead_letter_once", "share_topic_exists",
)  # fmt: skip

#: The checks that the files of one replica of a partition answer by themselves, in the order of their answers.
LOG_CHECKS = (*BATCH_CHECKS, TXNINDEX_EQUALS_LOG, SNAPSHOT_EQUALS_REPLAY)

#: The checks that the records of one partition of `__transaction_state` answer by themselves, in the order of their
#: answers.
ID_CHECKS = (LEGAL_TRANSITION, TRANSITION_FIELDS, EPOCH_STEP, PREVIOUS_PRODUCER_ID)

#: The checks that need `__transaction_state`.
OF_IDS = frozenset({*ID_CHECKS, ONE_OUTCOME, MARKER_EPOCH, PREPARE_COMPLETED, ID_IN_ITS_PARTITION})

#: The checks that an open transaction breaks, which a finding reports as well.
OF_FINDINGS = frozenset({TRANSACTION_UNKNOWN_TO_COORDINATOR, LATE_TRANSACTION, SNAPSHOT_GHOST})
