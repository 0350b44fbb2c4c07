"""Records that are lost: their offsets are missing, and no cleaner can have removed them (`logdir.cleaning`).

A replica that was made anew has the log as its leader's cleaner left it: of all copies of a partition the cleaner that
has come furthest explains what is missing in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kafkawire.logdir import Partition
from kafkawire.logdir.cleaning import Cleaned
from kafkawire.logdir.isolation import cleaned
from kafkawire.logdir.offset_scan import gaps_between
from kafkawire.logdir.splits import batches_of
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import HEADERS_WINDOW, Batches, header_arrays
from kafkawire.records.offset_gap import OffsetGap
from kafkawire.transactions.facts import TRANSACTION_STATE, MissingOffsets, PartitionFacts, Place, Segment


def with_missing(facts: PartitionFacts, partition: Partition, segments: Sequence[Segment]) -> PartitionFacts:
    """Facts of a replica with `cleaned_to` and `missing`.

    Args:
        partition: the replica. `segments`: all of it, in order, as they were read.
    """
    gap = _last_gap(facts, segments)
    if partition.topic == TRANSACTION_STATE:
        to = partition.cleaned_to
        if to is None:
            to = segments[-1].base_offset if segments else 0
        missing = None if gap is None or gap.end is None else _named(partition, gap.start, gap.end)
        return replace(facts, cleaned_to=to, missing=missing)
    known = cleaned(partition)
    if facts.damaged or gap is None or gap.end is None or gap.end <= max(known.to, facts.segments_start):
        return replace(facts, cleaned_to=known.to)
    try:
        known, found = _by_headers(facts, partition, known)
    except OSError:  # they were read a moment ago: the gap of the first reading stands
        found = gap.start, gap.end
    missing = None if found is None or found[1] <= known.to else _named(partition, *found)
    return replace(facts, cleaned_to=known.to, missing=missing)


def _last_gap(facts: PartitionFacts, segments: Sequence[Segment]) -> OffsetGap | None:
    """The last offsets that are missing before the last batch. Those before the first batch count, too: a log begins
    with the first offset of its first segment, unless a checkpoint says that it begins later."""
    gap = facts.gap
    if gap is None and segments:
        begins = max(facts.log_start, segments[0].base_offset)
        gap = OffsetGap(begins, segments[0].first_offset) if begins < segments[0].first_offset else None
    return gap


def _named(partition: Partition, start: int, end: int) -> MissingOffsets:
    before = [file for file in partition.segments if (file.offset or 0) <= start]
    return MissingOffsets((before or partition.segments)[-1 if before else 0].path, start, end)


def _by_headers(facts: PartitionFacts, partition: Partition, known: Cleaned) -> tuple[Cleaned, tuple[int, int] | None]:
    """How far a cleaner has been, and the last offsets that are missing, by all headers. The first reading does not
    show them: of a batch of magic 0 or 1 it has the last offset, and a batch may lack records. Ranges that a tier lacks
    do not count: `tier_covers_log` judges them.

    Raises:
        OSError: a file cannot be read.
    """
    reached, gap, damaged = max(facts.log_start, facts.segments_start), None, False
    judged = {end for _, end in partition.joined.missing}
    for file in partition.segments:
        if file.offset in judged:
            reached = max(reached, file.offset)
        for item in batches_of(file, check_crc=False, window=HEADERS_WINDOW):
            if isinstance(item, Damage):
                damaged = damaged or not item.harmless
                continue
            found = item.measured() if isinstance(item, Batch) else item
            known = known.seen(found) if isinstance(found, Batches) else known
            base, last = header_arrays(found, "base_offset", "last_offset")
            reached = max(reached, int(base[0])) if damaged else reached  # the damage is a row
            *_, gap = gap, *gaps_between(base, last + 1, reached)
            reached, damaged = max(reached, int(last.max()) + 1), False
    final = partition.segments[-1].offset or 0
    return known, (reached, final) if reached < final and not damaged else gap


def lost_records(chosen: Iterable[PartitionFacts], replicas: Iterable[PartitionFacts]) -> dict[Place, MissingOffsets]:
    """The last offsets that are lost, of each replica with lost records.

    Args:
        chosen: of each partition the replica that counts. `replicas`: all of the cluster.
    """
    found = {(one.place.topic, one.place.partition): one for one in chosen if one.missing is not None}
    reached = dict.fromkeys(found, 0)
    for one in replicas if found else ():
        key = one.place.topic, one.place.partition
        if key in reached:
            reached[key] = max(reached[key], one.cleaned_to)
    return {
        one.place: replace(one.missing, start=max(one.missing.start, reached[key]))
        for key, one in found.items()
        if one.missing is not None and one.missing.end > reached[key]
    }
