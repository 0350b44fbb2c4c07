"""`tier_answers`: whether a tier (KIP-405) holds what `__remote_log_metadata` names, and all of the log below the local
segments.

Copies of a tier, of its metadata and of a broker are of different moments: the newest objects may be missing from one,
and then nothing is proved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.tiers import COPY_FINISHED, COPY_STARTED, DELETE_FINISHED, TieredSegment, segment_id
from kafkawire.transactions.answers import (
    TIER_COPY_FINISHED,
    TIER_COVERS_LOG,
    TIER_OBJECT_KNOWN,
    TIER_OBJECT_PRESENT,
    Placed,
    Tally,
)
from kafkawire.transactions.formatting import when
from kafkawire.transactions.parts.replica_files import place_of
from kafkawire.wire.json_form import uuid_text

_NO_METADATA = "no copy of __remote_log_metadata has an event of the partition"
_NO_OBJECTS = "no objects of the partition were given"
_PARTIAL = "events may be missing: {}"
_MAY_RUN = "the newest copy may have been running"
#: A copy is late when it began longer ago. A broker copies one segment of a partition at a time, and one that failed is
#: started again after seconds: for a segment of the default size, 1 GiB, an hour is 300 kB/s.
LATE_COPY_MS = 3_600_000
_MAY_BE_NEWER = "the newest objects and the metadata may be copies of different moments"
_DELETED = "without __remote_log_metadata: the segments below may have been deleted"
_UNREADABLE = "an object cannot be read up to its end"
#: What each copy of a segment has; a `.txnindex` only where something was aborted.
_KINDS = ("log", "index", "timeindex", "snapshot", "epochs")

Segments = Mapping[UUID, TieredSegment]


def tier_answers(
    replicas: Sequence[Partition], clocks: Mapping[str, int | None] = {}, *, given: bool = False
) -> Iterator[Placed]:
    """The answers for all partitions with a tier, and for those whose objects were not given; none where no tier was.

    Args:
        replicas: as `replica_files.replicas` gives them. `given`: a tier was, of whatever partition.
        clocks: by log directory the time of the audit, epoch milliseconds. Where it is not known, the newest event of a
            partition counts.
    """
    if not given and not any(one.copies or one.state == TIERED for one in replicas):
        return
    seen: set[tuple[str, int]] = set()
    for replica in replicas:
        copies = replica.copies or ((replica,) if replica.state == TIERED else ())
        name = replica.topic, replica.partition
        known = replica.tier_metadata()
        tallies = []
        if name not in seen and (copies or known):
            seen.add(name)
            clock = clocks.get(replica.broker.root)
            if clock is None:
                clock = max((one.since for one in known.values()), default=-1)
            tallies += _objects(copies, known, clock)
        if replica.tiers or replica.state == TIERED:
            tallies.append(_covered(replica, known))
        if known.partial:  # what would be missing may only not have been read
            for tally in tallies:
                tally.lack(_PARTIAL.format(known.partial), tally.violated)
                tally.violated = 0
                tally.breaches.clear()
        yield from (Placed(place_of(replica), tally.answer(), replica.path) for tally in tallies)


def _objects(copies: Sequence[Partition], known: Segments, clock: int) -> list[Tally]:
    """The segments of a partition, in objects and in the metadata, of all topics of its name."""
    finished, named, present = Tally(TIER_COPY_FINISHED), Tally(TIER_OBJECT_KNOWN), Tally(TIER_OBJECT_PRESENT)
    found: dict[UUID | None, dict[UUID, list[LogFile]]] = defaultdict(lambda: defaultdict(list))
    for copy in copies:
        for file in copy.files:
            if file.state == TIERED:
                found[copy.topic_id][segment_id(file)].append(file)
    for topic in dict.fromkeys((*(one.topic_id for one in known.values()), *found)):
        events = {id: one for id, one in known.items() if one.topic_id == topic}
        if events:
            _check_copies(events, found[topic], finished, clock)
            _check_objects(events, found[topic], present)
        _check_names(events, found[topic], named)
    return [finished, named, present]


def _check_names(events: Segments, found: Mapping[UUID, Sequence[LogFile]], tally: Tally) -> None:
    newest = max((one.start for one in events.values()), default=-1)
    for id, files in found.items():
        base, event = files[0].offset or 0, events.get(id)
        if not events:
            tally.lack(_NO_METADATA)
        elif event is None and base > newest:
            tally.lack(_MAY_BE_NEWER)
        elif event is None:
            tally.breach(base, -1, f"no event names the object of segment {uuid_text(id)}", files[0].path)
        elif event.state == DELETE_FINISHED:
            tally.breach(base, -1, f"the object of segment {uuid_text(id)} is there after its deletion", files[0].path)
        else:
            tally.held += 1


def _check_copies(events: Segments, found: Mapping[UUID, Sequence[LogFile]], tally: Tally, clock: int) -> None:
    *_, newest = events
    for id, one in events.items():
        if one.state != COPY_STARTED:
            tally.held += 1
        elif id == newest and (one.since < 0 or clock - one.since <= LATE_COPY_MS):
            tally.lack(_MAY_RUN)
        else:
            files = found.get(id, ())
            offsets = f"offsets {one.start} to {one.end}"
            what = f"the copy of segment {uuid_text(id)}, {offsets}, was started and never finished"
            if id == newest:
                what += f" from {when(one.since)} to {when(clock)}: it is late since {when(one.since + LATE_COPY_MS)}"
            path = files[0].path if files else None
            tally.breach(max(one.start, 0), -1, f"{what}; {'it has objects' if files else 'it has no object'}", path)


def _check_objects(events: Segments, found: Mapping[UUID, Sequence[LogFile]], tally: Tally) -> None:
    newest = max((files[0].offset or 0 for files in found.values()), default=-1)
    for id, one in events.items():
        if one.state != COPY_FINISHED:
            continue
        files = found.get(id, ())
        lost = [kind for kind in _KINDS if kind not in {file.kind for file in files}]
        if files and files[0].in_objects and not any(file.kind == "rsm-manifest" for file in files):
            lost.append("rsm-manifest")
        if not lost:
            tally.held += 1
        elif not found:
            tally.lack(_NO_OBJECTS)
        elif one.start > newest:
            tally.lack(_MAY_BE_NEWER)
        elif not files:
            tally.breach(one.start, -1, f"the copy of segment {uuid_text(id)} was finished, and it has no object")
        else:
            tally.breach(one.start, -1, f"segment {uuid_text(id)} has no {', '.join(lost)}", files[0].path)


def _covered(replica: Partition, known: Segments) -> Tally:
    """Whether the copies of the replica's lineage have all offsets from its log start to its local log start."""
    tally = Tally(TIER_COVERS_LOG)
    joined = replica.joined
    used = {file.path for file in joined.segments if file.state == TIERED}
    tally.held += len(used)
    tally.noted += sum(file.limit is not None for file in joined.segments if file.path in used)
    unknown = any(file.path in used for file in joined.unknown_ends)
    held = (file for copy in replica.tiers or (replica,) for file in copy.files)
    copies = [file for file in held if file.kind == "log" and file.state == TIERED]
    present = {segment_id(file) for file in copies}
    explained = [one for id, one in known.items() if one.state != COPY_FINISHED or id not in present]
    unnamed = {file.offset for file in copies if segment_id(file) not in known}
    newest = max((one.end for one in known.values()), default=-1)
    first = min((file.offset or 0 for file in joined.segments if file.path in used), default=replica.local_log_start)
    for start, end in joined.missing:
        if start in unnamed or _within(start, end, explained):  # deleted, or what another rule names
            tally.noted += 1
        elif unknown:
            tally.lack(_UNREADABLE)
        elif not known and end == first:
            tally.lack(_DELETED)
        elif end == replica.local_log_start and start > newest:
            tally.lack(_MAY_BE_NEWER)
        else:
            tally.breach(start, -1, f"no copy in the tier has offsets {start} to {end - 1}", replica.path)
    return tally


def _within(start: int, end: int, segments: Sequence[TieredSegment]) -> bool:
    """Whether segments together have all offsets of a range."""
    for one in sorted(segments, key=lambda one: one.start):
        if one.start <= start:
            start = max(start, one.end + 1)
    return start >= end
