"""The facts of a replica from its batches one by one, by the reference: what merged parts are compared with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kafkawire.logdir import Partition
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.auditing import id_history
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.coordinator import id_columns
from kafkawire.transactions.coordinator.coordinator_log import IdFacts
from kafkawire.transactions.facts import Registration
from kafkawire.transactions.log import ordered_replay
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.segment_scan import PartScan


def replayed(partition: Partition, **settings: Any) -> ReplicaFacts:
    """The facts where the reference replays every segment, read from the state of those before."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (ordered_replay, id_history, id_columns):
            patch.setattr(module, "ENGINE", False)
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
    found["answers"] = [(placed.place, placed.path, in_any_order(placed.answer)) for placed in facts.answers]
    found["ids"] = None if facts.ids is None else comparable_ids(facts.ids)
    return found


def comparable_ids(facts: IdFacts) -> dict[str, Any]:
    """Likewise, of `__transaction_state`; decisions by the producer id of their data."""
    found = {name: getattr(facts, name) for name in facts.__struct_fields__}
    decisions = sorted(facts.decisions, key=lambda decision: decision.producer_id)
    return found | {
        "owners": {key: msgspec.structs.replace(one, newest=_known(one.newest)) for key, one in facts.owners.items()},
        "prepared": list(map(_known, facts.prepared)),
        "decisions": decisions,
        "answers": list(map(in_any_order, facts.answers)),
    }


def _known(record: Registration) -> Registration:
    """Without tagged fields that no schema knows: no rule reads them, and columns do not have them."""
    value = record.value
    if value is None:
        return record
    listed = value.transaction_partitions
    known = None if listed is None else tuple(entry.replace(unknown_tagged_fields=()) for entry in listed)
    return msgspec.structs.replace(record, value=value.replace(unknown_tagged_fields=(), transaction_partitions=known))


def in_any_order(answer: Answer) -> Answer:
    return msgspec.structs.replace(answer, lacked=tuple(sorted(answer.lacked)))
