"""The facts of a replica from its batches one by one: what merged summaries of parts are compared with."""

from __future__ import annotations

from typing import Any

import msgspec

from kafkawire.logdir import Partition
from kafkawire.transactions.part_summary import PartSummary
from kafkawire.transactions.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.segment_scan import PartScan
from kafkawire.transactions.span import Span


def replayed(partition: Partition, **settings: Any) -> ReplicaFacts:
    """The facts where every segment is replayed batch by batch."""
    merge = ReplicaMerge(AuditedReplica(partition, **settings), whole=True)
    for segment, _ in enumerate(partition.segments):
        nothing = Span(rows=0, regular=False)  # fits no state
        merge.take(segment, PartSummary(start=0, end=None, scan=PartScan(), spans=(nothing,)))
    assert merge.read_again == len(partition.segments)
    return merge.facts()


def comparable(facts: ReplicaFacts) -> dict[str, Any]:
    """All fields; reasons in any order."""
    found = {name: getattr(facts, name) for name in facts.__struct_fields__}
    found["endings"] = [row for chunk in facts.endings.chunks for row in chunk.tolist()]
    found["answers"] = [
        (placed.place, placed.path, msgspec.structs.replace(placed.answer, lacked=tuple(sorted(placed.answer.lacked))))
        for placed in facts.answers
    ]
    return found
