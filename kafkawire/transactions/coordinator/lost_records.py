"""Records of `__transaction_state` that are lost: their offsets are missing, and no cleaner can have removed them.

Kafka's cleaner removes nothing from its first dirty offset on, which it keeps in `cleaner-offset-checkpoint`, and
nothing of the active segment (`LogCleanerManager`). A replica that was made anew has the log as its leader's cleaner
left it: of all copies of a partition the cleaner that has come furthest explains what is missing in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kafkawire.logdir import Partition
from kafkawire.records.offset_gap import OffsetGap
from kafkawire.transactions.facts import MissingOffsets, PartitionFacts, Segment


def with_missing(facts: PartitionFacts, partition: Partition, segments: Sequence[Segment]) -> PartitionFacts:
    """Facts of a replica with `cleaned_to` and `missing`.

    Args:
        partition: the replica. `segments`: all of it, in order, as they were read.
    """
    cleaned = partition.cleaned_to
    if cleaned is None:
        cleaned = segments[-1].base_offset if segments else 0
    return replace(facts, cleaned_to=cleaned, missing=_missing(facts, partition, segments))


def _missing(facts: PartitionFacts, partition: Partition, segments: Sequence[Segment]) -> MissingOffsets | None:
    """The last offsets that are missing before the last batch. Those before the first batch count, too: a log begins
    with the first offset of its first segment, unless a checkpoint says that it begins later."""
    gap = facts.gap
    if gap is None and segments:
        begins = max(facts.log_start, segments[0].base_offset)
        gap = OffsetGap(begins, segments[0].first_offset) if begins < segments[0].first_offset else None
    if gap is None or gap.end is None:
        return None
    before = [file for file in partition.segments if (file.offset or 0) <= gap.start]
    return MissingOffsets((before or partition.segments)[-1 if before else 0].path, gap.start, gap.end)


def lost_records(of_ids: Mapping[int, PartitionFacts], replicas: Iterable[PartitionFacts]) -> dict[int, MissingOffsets]:
    """The last offsets that are lost, for each partition with lost records, by its number.

    Args:
        of_ids: of each partition the replica that counts. `replicas`: all of the cluster.
    """
    cleaned: dict[int, int] = {}
    for one in replicas:
        number = one.place.partition
        if number in of_ids and of_ids[number].place.topic == one.place.topic:
            cleaned[number] = max(cleaned.get(number, 0), one.cleaned_to)
    found = {number: one.missing for number, one in of_ids.items() if one.missing is not None}
    return {
        number: replace(missing, start=max(missing.start, cleaned[number]))
        for number, missing in found.items()
        if missing.end > cleaned[number]
    }
