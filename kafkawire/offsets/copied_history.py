"""The story of a group or transactional id, from copies of its coordinator's log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.logdir import LogFile, TopicIds
from kafkawire.offsets.copied_batches import copied_batches
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.subject_history import SubjectHistory
from kafkawire.rows import DamageRow, HistoryEvent, Subject
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id

#: The topics with records of each kind of subject.
TOPICS = {"group": ("__consumer_offsets", "__share_group_state"), "transactional_id": ("__transaction_state",)}


def copied_history(replicas: LeadingReplicas, subject: Subject) -> Iterator[HistoryEvent | DamageRow]:
    """What the records of a group or a transactional id changed, in the order of its log; and what is damaged.
    `replicas`: of the log directories of one cluster. `subject`: a group, or a transactional id."""
    kind = "group" if subject.group is not None else "transactional_id"
    name = subject.group if subject.group is not None else subject.transactional_id or ""
    names = TopicIds(replicas.directory)
    for topic in TOPICS[kind]:
        count, here = replicas.count_of(topic), replicas.numbers(topic)
        known = count is not None and topic != "__share_group_state"  # those are by partition, not by group
        wanted = [partition_of_id(name, count)] if known and count is not None else here
        for number in wanted:
            leading = replicas.of(topic, number)
            if leading is None:
                yield DamageRow(topic=topic, partition=number, reason="missing", detail="no copy of it is here")
                continue
            history = SubjectHistory(topic, number, name, names)
            for item in copied_batches(leading, LogFile.batches):
                yield from [item] if isinstance(item, DamageRow) else history.take(item)
