"""The state of share groups (KIP-932): what the records of `__share_group_state` add up to. Pure.

- `delivery_states`: the names of states, of brokers' numbers
- `state_runs`: runs of offsets in one state, and how two are combined
- `fold`: records, in the order of the log, to the state of each group in each partition
- `record_fates`: the state beside the offsets of the partition: what became of each
- `rules`: what must hold of every record, a file each
"""

from kafkawire.records.named_values import DELIVERY_STATES
from kafkawire.share_groups.delivery_states import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    delivery_state_name,
)
from kafkawire.share_groups.fold import ShareFold, SharePartition, ShareRecord, ShareState, Step
from kafkawire.share_groups.state_runs import Run, combined, difference, joined

__all__ = [
    "ACKNOWLEDGED",
    "ACQUIRED",
    "ARCHIVED",
    "ARCHIVING",
    "AVAILABLE",
    "DELIVERY_STATES",
    "Run",
    "ShareFold",
    "SharePartition",
    "ShareRecord",
    "ShareState",
    "Step",
    "combined",
    "delivery_state_name",
    "difference",
    "joined",
]
