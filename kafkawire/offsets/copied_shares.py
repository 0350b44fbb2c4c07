"""The share partitions of a group, explained by copies of log directories (`kafkawire explain --share-group`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from kafkawire.errors import KafkaWireError, RecordError
from kafkawire.logdir import LogFile
from kafkawire.logdir.splits import batches_from, each_batch
from kafkawire.offsets.copied_batches import lacked
from kafkawire.offsets.dead_letters import Letter, letters_of
from kafkawire.offsets.group_records import GroupLog, group_logs
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.replica import Replica, replicas
from kafkawire.offsets.share_copies import STATE_TOPIC, ShareSource, copied_shares, histories, state_records
from kafkawire.offsets.share_explain import PartitionBounds, ShareExplained
from kafkawire.offsets.share_fates import Held, held
from kafkawire.offsets.share_lag import share_lag
from kafkawire.offsets.share_settings import ShareSettings, share_settings
from kafkawire.offsets.story import batch_at
from kafkawire.rows import Lag
from kafkawire.share_groups.record_fates import UNREAD
from kafkawire.transactions.blocking.blockers import Place


class UnknownShareGroupError(KafkaWireError):
    """No record of `__share_group_state` names the group."""


def explained_shares(
    replicas_: LeadingReplicas,
    group: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    limit: int | None = None,
    dead_letter_topic: str | None = None,
    number: int | None = None,
) -> tuple[list[ShareExplained], list[str]]:
    """The share partitions of a group; and why there may be more, a sentence each.

    Args:
        topic, partition: only these.
        number: only those whose state is in this partition of `__share_group_state`.
        limit: the delivery count limit, where the log directories do not have it.
        dead_letter_topic: the dead-letter topic, where the log directories do not name it.

    Raises:
        UnknownShareGroupError: there is nothing to explain.
    """
    found, gaps = chosen_shares(replicas_, group, topic, partition, number)
    settings = share_settings(replicas_.metadata, group, limit, dead_letter_topic)
    return [_explained(replicas_, one, settings) for one in found], gaps


def chosen_shares(
    replicas_: LeadingReplicas, group: str, topic: str | None, partition: int | None, number: int | None = None
) -> tuple[list[ShareSource], list[str]]:
    """The share partitions of a group that are asked for. Raises UnknownShareGroupError: there is none."""
    found, gaps = copied_shares(replicas_, group, number)
    chosen = [
        one
        for one in found
        if (topic is None or one.topic == topic) and (partition is None or one.key.partition == partition)
    ]
    if not chosen:
        what = (
            f"group {group}"
            if topic is None
            else f"group {group} in {topic}" + ("" if partition is None else f"-{partition}")
        )
        why = f": {gaps[0]}" if gaps else ""
        raise UnknownShareGroupError(f"no copy of {STATE_TOPIC} that was read names {what}{why}")
    return chosen, gaps


def copied_share_lags(
    replicas_: LeadingReplicas,
    found: Iterable[ShareExplained],
    as_of: int | None,
    held_by: Mapping[Place, Sequence[str]] | None = None,
) -> Iterator[Lag]:
    """The lag of a share group in each partition of a topic that is still there.

    Args:
        found: its share partitions.
        as_of: the clock, epoch milliseconds; None: not known.
        held_by: what holds the last stable offset of a partition.
    """
    metadata = replicas_.metadata
    for one in found:
        topic, partition = one.source.topic, one.source.key.partition
        if one.source.gone or one.source.history.state is None:
            continue
        settings = None if metadata is None or topic is None else metadata.topic_configs.get(topic, {})
        held = () if held_by is None or topic is None else held_by.get((topic, partition), ())
        leading = None if topic is None else replicas_.of(topic, partition)
        segments = () if leading is None else leading.partition.segments
        oldest = partial(_timestamp, list(segments))
        yield share_lag(one, as_of=as_of, settings=settings, oldest=oldest, held_by=held)


def share_group_names(replicas_: LeadingReplicas) -> tuple[list[str], list[str]]:
    """The share groups that have a state, sorted; and why there may be more, a sentence each."""
    names, gaps = set[str](), list[str]()
    for _, log in group_logs(replicas_, STATE_TOPIC, replicas_.numbers(STATE_TOPIC), gaps):
        names.update(groups_in(log))
        gaps += log.problems
    return sorted(names), gaps


def groups_in(log: GroupLog) -> list[str]:
    """The groups that have a state in a partition of the state, sorted."""
    found = histories(state_records(log, None), None, from_start=False)
    return sorted({key.group for key, history in found.items() if history.state is not None})


def _timestamp(segments: list[LogFile], offset: int) -> int | None:
    found = batch_at(segments, offset)
    try:
        return None if found is None else next((r.timestamp for r in found[1].records if r.offset >= offset), None)
    except RecordError:
        return None


def _explained(replicas_: LeadingReplicas, source: ShareSource, settings: ShareSettings) -> ShareExplained:
    problems: list[str] = []
    replica = _replica(replicas_, source, problems)
    bounds = None
    if replica is not None:
        bounds = _bounds(replica)
        problems += lacked(replica.partition, replica.outcomes)
    return ShareExplained(
        source,
        settings,
        bounds,
        partial(_holds, replica, problems),
        partial(_letters, replicas_, settings.dead_letter_topic, problems),
        problems,
        letters_doubt=_letters_doubt(replicas_, settings.dead_letter_topic),
    )


def _bounds(replica: Replica) -> PartitionBounds:
    """A log that ends before the high watermark of the checkpoint lacks its end: any of that may be records."""
    found, outcomes = replica.bounds, replica.outcomes
    high = max(found.high_watermark, replica.partition.high_watermark or 0)
    cut = outcomes.last_stable_at_most >= outcomes.high_watermark
    at_most = high if cut else outcomes.last_stable_at_most
    return PartitionBounds(found.log_start_offset, found.last_stable_offset, high, at_most)


def _replica(replicas_: LeadingReplicas, source: ShareSource, problems: list[str]) -> Replica | None:
    """The copy of the partition itself; None where none is here. Another topic may have its name by now."""
    if source.topic is None or source.gone:
        return None
    leading = replicas_.of(source.topic, source.key.partition)
    if leading is None or leading.partition.topic_id not in (None, source.key.topic_id):
        return None
    if leading.doubt is not None:
        problems.append(leading.doubt)
    found = replicas(replicas_.directory, source.topic, source.key.partition)
    return next((one for one in found if one.partition is leading.partition), None)


def _holds(replica: Replica | None, problems: list[str], end: int) -> Iterator[Held]:
    if replica is None:
        if end:
            yield Held(0, end, UNREAD)
        return
    yield from held(replica.runs(0, end), end)
    for one in (*replica.damage, *replica.support_damage, *replica.undecided):
        if not one.harmless:
            _add(problems, f"{one.file}: {one.detail or one.reason}")


def _letters(replicas_: LeadingReplicas, topic: str | None, problems: list[str]) -> Iterator[Letter]:
    """All copies in a dead-letter topic."""
    if topic is None:
        return
    numbers, count = replicas_.numbers(topic), replicas_.count_of(topic)
    if not numbers:
        _add(problems, f"no copy of the dead-letter topic {topic} is here: why records were archived is less certain")
    for number in set(range(count or 0)) - set(numbers) if numbers else ():
        _add(problems, f"{topic}-{number}, of the dead-letter topic, is not here")
    for number in numbers:
        leading = replicas_.of(topic, number)
        segments = () if leading is None else leading.partition.segments
        for file, item in batches_from(segments, 0, partial(_add, problems)):
            for batch in each_batch(item):
                try:
                    yield from letters_of(batch, number)
                except RecordError as error:
                    _add(problems, f"{file.path}: offset {batch.base_offset}: {error}")


def _letters_doubt(replicas_: LeadingReplicas, topic: str | None) -> str | None:
    """Why copies in a dead-letter topic may be missing that were there; None where they are not."""
    if topic is None:
        return None
    numbers = replicas_.numbers(topic)
    if len(numbers) != (replicas_.count_of(topic) or -1):
        return f"not all partitions of the dead-letter topic {topic} are here"
    for number in numbers:
        leading = replicas_.of(topic, number)
        if leading is None or leading.doubt is not None or (leading.partition.local_start_offset or 0) > 0:
            return f"copies may have been deleted from {topic}-{number}"
    return None


def _add(problems: list[str], text: str) -> None:
    if text not in problems:
        problems.append(text)
