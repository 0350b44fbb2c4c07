"""The state of share groups in copies of `__share_group_state`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kafkawire.offsets.group_records import GroupLog, group_logs, mentions
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.share_groups.fold import ShareFold, SharePartition, ShareRecord, Step
from kafkawire.share_groups.removed_offsets import ShareHistory
from kafkawire.share_groups.state_runs import Run

STATE_TOPIC = "__share_group_state"

#: The records of a partition of the state, in order, anew each time.
Records = Callable[[], Iterator[ShareRecord]]


class ShareSource(NamedTuple):
    """The records of one share group in one partition.

    Attributes:
        key: group, topic id and partition. topic: its name; None where it is not known.
        gone: the topic was removed.
        path: of the copy; None of a live cluster. number: partition of `__share_group_state`.
        records: all of that partition's records that may be of the group. from_start: none was removed before them.
        history: of the first pass.
        problems: what could not be read, a sentence each.
        removed_at: when the topic was removed, epoch milliseconds; None: it was not, as far as is known.
    """

    key: SharePartition
    topic: str | None
    gone: bool
    path: str | None
    number: int
    records: Records
    from_start: bool
    history: ShareHistory
    problems: tuple[str, ...] = ()
    removed_at: int | None = None

    def steps(self) -> Iterator[Step]:
        """Its steps, in order."""
        return steps_of(self.records(), self.key, from_start=self.from_start)

    def finished(self) -> Iterator[Run]:
        """What became of the offsets below the start offset, as far as records say."""
        return self.history.finished(self.steps())


def steps_of(records: Iterable[ShareRecord], key: SharePartition, *, from_start: bool) -> Iterator[Step]:
    """The steps of one share partition."""
    fold = ShareFold(from_start=from_start)
    for record in records:
        if record.key == key:
            yield fold.take(record)


def histories(
    records: Iterable[ShareRecord], group: str | None, *, from_start: bool
) -> dict[SharePartition, ShareHistory]:
    """The first pass over a partition of the state: of each share partition of a group, or of all (None)."""
    fold, found = ShareFold(from_start=from_start), dict[SharePartition, ShareHistory]()
    for record in records:
        if group is None or record.key.group == group:
            found.setdefault(record.key, ShareHistory()).take(fold.take(record))
    return found


def copied_shares(
    replicas: LeadingReplicas, group: str, only: int | None = None
) -> tuple[list[ShareSource], list[str]]:
    """The share partitions of a group, by topic and partition; and why there may be more, a sentence each.

    Args:
        only: those whose state is in this partition of `__share_group_state`; None: in any.
    """
    gaps, found = list[str](), list[ShareSource]()
    removed = {} if replicas.metadata is None else replicas.metadata.removed_at
    count = replicas.count_of(STATE_TOPIC)
    numbers = replicas.numbers(STATE_TOPIC)
    chosen = [number for number in numbers if only in (None, number)]
    if count is None:
        gaps.append(f"how many partitions {STATE_TOPIC} has is not known (no __cluster_metadata)")
    else:
        missing = sorted(set(range(count)) - set(numbers))
        gaps += [f"{STATE_TOPIC}-{number}, which may keep states of the group, is not here" for number in missing]
    for leading, log in group_logs(replicas, STATE_TOPIC, chosen, gaps):
        number = log.partition.partition
        records = partial(state_records, log, group)
        from_start = begins_at_zero(log)
        kept = histories(records(), group, from_start=from_start)
        problems = (*log.problems, *(() if leading.doubt is None else (leading.doubt,)))
        gaps += problems
        found += [
            ShareSource(
                key=key,
                topic=replicas.name_of(key.topic_id),
                gone=key.topic_id in removed,
                path=leading.partition.path,
                number=number,
                records=records,
                from_start=from_start,
                history=history,
                problems=problems,
                removed_at=removed.get(key.topic_id),
            )
            for key, history in kept.items()
        ]
    return sorted(found, key=lambda one: (one.topic or "", str(one.key.topic_id), one.key.partition)), gaps


def begins_at_zero(log: GroupLog) -> bool:
    """Whether no record was removed from the front of a log. The share coordinator deletes what no longer counts."""
    segments = log.partition.segments
    return not (log.partition.log_start_offset or 0) and bool(segments) and not (segments[0].offset or 0)


def state_records(log: GroupLog, group: str | None) -> Iterator[ShareRecord]:
    """The records of a copy of a partition of the state that may be of a group, or all (None); what cannot be read is
    among the log's problems."""
    start, place = log.partition.log_start_offset or 0, f"{STATE_TOPIC}-{log.partition.partition}"
    for one in log.records() if group is None else log.records(mentions(group)):
        record = None if one.problem is not None else ShareRecord.of(one.offset, one.timestamp, one.key, one.value)
        if record is None:
            log.problems[f"{place}: offset {one.offset}: {one.problem or 'no state of a share group'}"] = None
        elif one.offset >= start:
            yield record
