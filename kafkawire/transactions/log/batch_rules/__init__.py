"""The rules of producers' batches: a file each, registered here once, in the order of their answers."""

from __future__ import annotations

from kafkawire.transactions.log.batch_rules import (
    coordinator_epoch_monotonic,
    duplicate_batch,
    epoch_not_backwards,
    marker_shape,
    marker_without_data,
    mixed_batches,
    new_epoch_from_zero,
    sequence_contiguous,
)
from kafkawire.transactions.log.batch_rules.batch_rule import BatchRule

RULES: tuple[BatchRule, ...] = (
    sequence_contiguous.RULE,
    new_epoch_from_zero.RULE,
    duplicate_batch.RULE,
    epoch_not_backwards.RULE,
    coordinator_epoch_monotonic.RULE,
    marker_shape.RULE,
    marker_without_data.RULE,
    mixed_batches.RULE,
)
