"""`SegmentPart`: the part of a segment that one task reads.

A broker may clean, merge, cut off or remove a segment between the plan of a task and the task. The positions in a plan
are hints: what is read are offsets. Where the batch at a part's beginning is no longer the one that was planned, the
offsets are looked for in the files of the same topic that are there now. A topic of the same name that was created
since has a log of its own, which the next plan has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from kafkawire import logdir
from kafkawire.logdir import BrokerDirectory, LogFile, Partition, View
from kafkawire.logdir.splits import batches_of
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches
from kafkawire.spark.sources.log_points import NO_EPOCH, Header, LogPoints, anchor_of, header_of
from kafkawire.spark.sources.offset_options import ALL_OFFSETS, RequestedRange
from kafkawire.spark.sources.segment_positions import log_start, segment_ranges


class SegmentPart(NamedTuple):
    """The batches of a segment that begin in `[start, end)`, and their records with these offsets.

    Attributes:
        end: None for the last part.
        number, of: which of how many parts of the segment, whose positions the task finds; of 1: they are known.
        listed: bytes of the segment when it was cut into several parts.
        problem: a part with one is only that row.
        view: which of the batches are read.
        live: whether the file may have changed since the plan: then `anchor` is the batch at `start`, where one is.
        epoch: of a live part: batches of a later leader epoch are not read. They were written since the plan, in the
            place of others; the next plan has them.
        topic_id: in its directory when it was planned; None where that had none, and of a part in a tier.
    """

    file: LogFile
    start: int = 0
    end: int | None = None
    offsets: RequestedRange = ALL_OFFSETS
    problem: Damage | None = None
    view: View | None = None
    live: bool = False
    anchor: Header | None = None
    epoch: int = NO_EPOCH
    topic_id: UUID | None = None
    number: int = 0
    of: int = 1
    listed: int = 0


Piece = Batches | Batch | Damage
#: How many times a file may change while it is looked for.
_MOST_TRIES = 5


def pieces_of(part: SegmentPart, *, check_crc: bool) -> Iterator[tuple[SegmentPart, Piece]]:
    """The batches and the damage of a part, each with the part that it is in now.

    Raises:
        OSError: a file cannot be read.
    """
    found = [part]
    for _ in range(_MOST_TRIES):
        waiting = []
        for one in found:
            items = _unchanged(one, check_crc)
            if items is None:
                waiting += list(_relocated(one))
            else:
                yield from ((one, item) for item in items)
        if not waiting:
            return
        found = waiting
    for one in found:
        yield one, Damage(one.start, "unreadable", "the segment is written anew again and again")


def _unchanged(part: SegmentPart, check_crc: bool) -> Iterator[Piece] | None:
    """What is in a part; None where its file is another one by now."""
    if part.problem is not None:
        return iter((part.problem,))
    items = batches_of(part.file, part.start, part.end, check_crc=check_crc)
    if not part.live and part.topic_id is None:
        return items
    try:
        first = next(items, None)
    except FileNotFoundError:
        if not part.live:
            raise
        return None
    if not part.live:
        # The file is open now: it is read to its end, whatever happens to its directory from here on. (A store may
        # replace the object that is read.) What the listing had is of the plan's time.
        metadata = part.file.elsewhere(os.path.join(os.path.dirname(part.file.path), "partition.metadata"))
        there = Partition((metadata,), BrokerDirectory(part.file.root, part.file))
        problem = _of_another_topic(part, there, "it was read")
        return iter((problem,)) if problem is not None else items if first is None else chain((first,), items)
    if part.anchor is not None and _header(first) != part.anchor and anchor_of(part.file, part.start) != part.anchor:
        return None
    return items if first is None else chain((first,), items)


def _header(item: Piece | None) -> Header | None:
    return None if item is None or isinstance(item, Damage) else header_of(item)


def _relocated(part: SegmentPart) -> Iterator[SegmentPart]:
    """The parts that have the offsets of a part now."""
    low, high = part.offsets.first or 0, part.offsets.end or 0
    try:
        listed: tuple[Partition, ...] = tuple(logdir.open(part.file.folder).partitions)
    except FileNotFoundError:
        listed = ()
    except OSError as error:
        yield part._replace(problem=Damage.unreadable(error))
        return
    replica = next((one for one in listed if one.path == part.file.folder and one.segments), None)
    read = f"it was read from offset {low} to offset {high}"
    problem = _gone(part, low, high) if replica is None else _of_another_topic(part, replica, read)
    if replica is None or problem is not None:
        yield part._replace(problem=problem)
        return
    least = log_start(replica, of_consumers=False)
    if low < least:
        missing = f"offsets {low} to {min(least, high) - 1} were removed before they were read"
        yield part._replace(problem=Damage(0, "out_of_range", missing))
    for one in segment_ranges(replica, low, high, LogPoints()):
        anchor = anchor_of(one.file, one.begin)
        offsets = part.offsets._replace(first=one.first, end=one.after)
        yield part._replace(file=one.file, start=one.begin, end=one.end, offsets=offsets, anchor=anchor)


def _gone(part: SegmentPart, low: int, high: int) -> Damage:
    """The problem of a replica that is not there. Its log directory has to be: a disk that is not mounted has no
    replica either, and nothing was removed of it."""
    if not BrokerDirectory(part.file.root, part.file).properties:
        detail = f"offsets {low} to {high - 1}: neither the replica nor `meta.properties` of its log directory is there"
        return Damage(part.start, "unreadable", detail)
    detail = (
        f"offsets {low} to {high - 1} were removed before they were read: the log directory has no replica "
        f"{part.file.topic}-{part.file.partition} any more; its topic was deleted, or the replica was moved"
    )
    return Damage(0, "out_of_range", detail)


def _of_another_topic(part: SegmentPart, replica: Partition, read: str) -> Damage | None:
    """The problem of a directory that is not known to be that of the topic which was planned.

    Args:
        read: what was to be read of the log.
    """
    if part.topic_id is None or replica.topic_id == part.topic_id:
        return None
    if replica.topic_id is None:
        return Damage(part.start, "unreadable", f"the directory has no topic id any more; it had {part.topic_id}")
    created = f"the topic {part.topic_id} was deleted, and created again with the id {replica.topic_id}"
    return Damage(0, "out_of_range", f"the log was removed before {read}: {created}")
