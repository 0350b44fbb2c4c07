"""The facts of a replica from its batches one by one, by the reference: what merged parts are compared with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kafkawire.logdir import Partition
from kafkawire.transactions import ordered_replay
from kafkawire.transactions.part_columns import PartColumns
from kafkawire.transactions.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.segment_scan import PartScan


def replayed(partition: Partition, **settings: Any) -> ReplicaFacts:
    """The facts where the reference replays every segment, read from the state of those before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered_replay, "ENGINE", False)
        merge = ReplicaMerge(AuditedReplica(partition, **settings), whole=True)
        for segment, _ in enumerate(partition.segments):
            below = PartScan(first_offset=-1)  # offsets go back: the part is read again
            merge.take(segment, PartColumns(start=0, end=None, scan=below))
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
