"""The history of a partition: its leaders, and the replicas that were in sync or eligible to lead (KIP-966), by copies
of `__cluster_metadata`."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import msgspec

from kafkawire.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.replica import replicas
from kafkawire.rows import DamageRow, PartitionEvent, RowOrigin
from kafkawire.transactions.cluster.cluster_metadata import PartitionState
from kafkawire.transactions.cluster.metadata_log import MetadataLog, MetadataRecord
from kafkawire.transactions.facts import CLUSTER_METADATA

CLEAN, ELIGIBLE, UNCLEAN, NONE = "clean", "eligible", "unclean", "none"
_CHECKPOINT = "as a checkpoint has it: what was before it is not known"
_UNKNOWN_STAKE = "which records the new leader did not have is not known: no copy of a former leader's log is here"


def partition_history(found: LeadingReplicas, topic: str, partition: int) -> Iterator[PartitionEvent | DamageRow]:
    """What each record of the metadata log changed of a partition, in order; then what of the log is missing.

    Args:
        topic, partition: of which; a topic that was made anew has the history of all of that name.

    Raises:
        LookupError: no copy of the metadata log is here, or none of its records is of the partition; with a sentence.
    """
    leading = found.of(CLUSTER_METADATA, 0)
    if leading is None:
        raise LookupError(f"no copy of {CLUSTER_METADATA} is here")
    log, fold = MetadataLog(history=True), _Fold(topic, partition)
    place: RowOrigin = {"file": leading.partition.path, "topic": topic, "partition": partition}
    stake = _Stake(found, topic, partition)
    events = 0
    for entry in log.entries(leading.partition):
        row = fold.take(entry, place)
        if row is not None:
            events += 1
            yield msgspec.structs.replace(row, at_stake=stake.text) if row.election == UNCLEAN else row
    for gap in log.gaps:
        yield DamageRow(file=leading.partition.path, position=0, reason="missing", detail=gap)
    if not events:
        raise LookupError(f"no record of {leading.partition.path} is of {topic}-{partition}")


class _Stake:
    """The offsets that copies of former leaders have, and the present log does not."""

    def __init__(self, found: LeadingReplicas, topic: str, partition: int) -> None:
        self._found, self._place = found, (topic, partition)
        self._text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = self._read()
        return self._text

    def _read(self) -> str:
        try:
            copies = replicas(self._found.directory, *self._place)
        except LookupError:
            return _UNKNOWN_STAKE
        lost = [
            f"broker {one.bounds.broker} has offsets {one.bounds.diverges_at} to {one.bounds.log_end_offset - 1}, "
            "which the log of the newest leader has not as they were"
            for one in copies
            if one.bounds.diverges_at is not None and one.bounds.diverges_at < one.bounds.log_end_offset
        ]
        return "; ".join(lost) or _UNKNOWN_STAKE


class _Fold:
    """The partition after each record."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._ids: set[UUID] = set()
        self._states: dict[UUID, PartitionState] = {}

    def take(self, entry: MetadataRecord, place: RowOrigin) -> PartitionEvent | None:
        """The next record; None where it is of something else."""
        record = entry.message
        if isinstance(record, TopicRecord):
            if record.name == self._topic:
                self._ids.add(record.topic_id)
            return None
        if isinstance(record, RemoveTopicRecord):
            before = self._states.pop(record.topic_id, None)
            return None if before is None else self._event(entry, place, before, before, "the topic is removed")
        if not isinstance(record, PartitionRecord | PartitionChangeRecord):
            return None
        if record.topic_id not in self._ids or record.partition_id != self._partition:
            return None
        before = self._states.get(record.topic_id)
        after = (before or PartitionState()).after(record)
        self._states[record.topic_id] = after
        return self._event(entry, place, before, after, None)

    @staticmethod
    def _event(
        entry: MetadataRecord, place: RowOrigin, before: PartitionState | None, after: PartitionState, what: str | None
    ) -> PartitionEvent:
        election = None if before is None else _election(before, after)
        return PartitionEvent(
            **place,
            offset=entry.offset,
            timestamp=entry.timestamp,
            snapshot=entry.snapshot,
            leader=None if after.leader < 0 else after.leader,
            leader_epoch=after.epoch,
            replicas=after.replicas,
            isr=after.isr,
            elr=after.elr,
            last_known_elr=after.last_known_elr,
            election=election,
            recovering=after.recovery == 1,
            what=what or _change(before, after, election, entry),
        )


def _election(before: PartitionState, after: PartitionState) -> str:
    """What kind of election made the leader. KIP-966: eligible replicas have all that was committed."""
    if after.leader < 0 or (after.leader == before.leader and after.epoch == before.epoch):
        return NONE
    if after.recovery == 1 and before.recovery != 1:
        return UNCLEAN
    if after.leader in before.isr:
        return CLEAN
    return ELIGIBLE if after.leader in before.elr else UNCLEAN


def _change(before: PartitionState | None, after: PartitionState, election: str | None, entry: MetadataRecord) -> str:
    if before is None:
        if entry.snapshot:
            return _CHECKPOINT
        made = isinstance(entry.message, PartitionRecord)
        return "the partition is made" if made else "the first record that is left: what was before it is not known"
    parts = []
    if election == UNCLEAN:
        parts.append(f"broker {after.leader} is elected, which was neither in sync nor eligible: an unclean election")
    elif election == ELIGIBLE:
        parts.append(f"broker {after.leader} is elected, an eligible leader replica: it has all that was committed")
    elif election == CLEAN:
        parts.append(f"broker {after.leader} leads")
    elif after.leader < 0 <= before.leader:
        parts.append(f"no broker leads: broker {before.leader} has gone")
    for name, was, now in (("in sync", before.isr, after.isr), ("eligible", before.elr, after.elr)):
        gone, come = sorted(set(was) - set(now)), sorted(set(now) - set(was))
        parts += [f"broker {one} is {name} no more" for one in gone] + [f"broker {one} is {name}" for one in come]
    if before.recovery == 1 and after.recovery == 0:
        parts.append("the leader has recovered")
    if before.replicas != after.replicas:
        parts.append(f"the replicas are {', '.join(map(str, after.replicas))}")
    return "; ".join(parts) or "nothing of these changes"
