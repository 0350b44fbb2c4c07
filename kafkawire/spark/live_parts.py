"""Parts of segments that a broker may clean, merge, cut off or remove between the plan of a task and the task.

The positions in a plan are hints: what is read are offsets. Where the batch at a part's beginning is no longer the one
that was planned, the offsets are looked for in the files that are there now.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kafkawire import logdir
from kafkawire.logdir.splits import pieces
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches
from kafkawire.spark.log_points import Header, LogPoints, anchor_of, header_of
from kafkawire.spark.segment_parts import SegmentPart
from kafkawire.spark.segment_positions import log_start, stretches

Piece = Batches | Batch | Damage
#: So often a file may change while it is looked for.
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
    items = pieces(part.file, part.start, part.end, check_crc=check_crc)
    if not part.live:
        return items
    try:
        first = next(items, None)
    except FileNotFoundError:
        return None
    if part.anchor is not None and _header(first) != part.anchor and anchor_of(part.file, part.start) != part.anchor:
        return None
    return items if first is None else chain((first,), items)


def _header(item: Piece | None) -> Header | None:
    return None if item is None or isinstance(item, Damage) else header_of(item)


def _relocated(part: SegmentPart) -> Iterator[SegmentPart]:
    """The parts that have the offsets of a part now."""
    low, high = part.offsets.first or 0, part.offsets.end or 0
    try:
        listed = logdir.open(part.file.folder).partitions
    except OSError as error:
        yield part._replace(problem=Damage.unreadable(error))
        return
    replica = next((one for one in listed if one.path == part.file.folder and one.segments), None)
    if replica is None:
        yield part._replace(problem=Damage(part.start, "unreadable", "the replica was removed while it was read"))
        return
    least = log_start(replica, of_consumers=False)
    if low < least:
        missing = f"offsets {low} to {min(least, high) - 1} were removed before they were read"
        yield part._replace(problem=Damage(0, "out_of_range", missing))
    for one in stretches(replica, low, high, LogPoints()):
        anchor = anchor_of(one.file, one.begin)
        offsets = part.offsets._replace(first=one.first, end=one.after)
        yield part._replace(file=one.file, start=one.begin, end=one.end, offsets=offsets, anchor=anchor)
