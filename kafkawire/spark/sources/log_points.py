"""Places in segments by offset, found by headers: the position of a batch, the leader epoch before it.

Positions that were found are remembered as hints. Cleaning and truncation write segments anew: a hint is used only if
the batch before it is still the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire.logdir import LogFile, Partition, Selection
from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.seek import start_position
from kafkawire.records import Batch, Damage, columns

#: The leader epoch of a batch that has none (magic 0 and 1), and where there is no batch before.
NO_EPOCH = -1
_FAR = int(np.iinfo(np.int64).max)
_HEADER_WINDOW = 1 << 16
#: What is looked at in one go between a hint, or an index's entry, and the place that is wanted.
_WINDOW = 1 << 18
#: The hints of a segment.
_MOST_HINTS = 4


class Header(NamedTuple):
    """A batch, as it is recognised."""

    position: int
    base_offset: int
    crc: int
    epoch: int = NO_EPOCH


class Point(NamedTuple):
    """A place in a segment.

    Attributes:
        position: in bytes. `offset`: the one after the last before it.
        last: the batch before it; None: there is none in the segment.
    """

    position: int
    offset: int
    last: Header | None = None


class LogPoints:
    """See the module."""

    def __init__(self) -> None:
        self._hints: dict[str, list[Point]] = {}

    def find(self, file: LogFile, *, before: int | None = None, until: int | None = None) -> Point:
        """The place after the last whole batch that ends below these bounds.

        Args:
            before: an offset: no further than to the batch that has it, or the first after it.
            until: a position: no further than to the batch that goes beyond it.

        Raises:
            OSError: the file cannot be read.
        """
        with file.source(_WINDOW) as source:
            hint = self._hint(file, source, before, until)
            point = hint or Point(0, file.offset or 0)
            begin = point.position
            if hint is None and until is None and (before is None or before > point.offset):
                begin = start_position(file, Selection(offsets=(_FAR if before is None else before - 1, None)))
            found = _walked(source, point, begin, before, until)
            if found.last is None and begin:  # the index is of another segment
                found = _walked(source, point, 0, before, until)
        self._remember(file, found)
        return found

    def before(self, replica: Partition, offset: int) -> Point | None:
        """The place after the last batch before an offset; None where there is none.

        Raises:
            OSError: a file cannot be read.
        """
        for file in reversed(replica.segments):
            if (file.offset or 0) < offset:
                found = self.find(file, before=offset)
                if found.last is not None:
                    return found
        return None

    def around(self, replica: Partition, offset: int) -> Header | None:
        """The batch that has an offset and begins below it; None where there is none.

        Raises:
            OSError: a file cannot be read.
        """
        file = next((one for one in reversed(replica.segments) if (one.offset or 0) < offset), None)
        found = None if file is None else anchor_of(file, self.find(file, before=offset).position)
        return found if found is not None and found.base_offset < offset else None

    def _hint(self, file: LogFile, source: FileSource, before: int | None, until: int | None) -> Point | None:
        hints = self._hints.get(file.path, [])
        for hint in sorted(hints, reverse=True):
            if (before is not None and hint.offset > before) or (until is not None and hint.position > until):
                continue
            if header_at(source, hint.last.position) == hint.last if hint.last else False:
                return hint
            hints.remove(hint)
        return None

    def _remember(self, file: LogFile, point: Point) -> None:
        if point.last is None:
            return
        hints = self._hints.setdefault(file.path, [])
        if point in hints:
            hints.remove(point)
        hints.append(point)
        del hints[:-_MOST_HINTS]


def _walked(source: FileSource, point: Point, begin: int, before: int | None, until: int | None) -> Point:
    """The place after the batches from `begin` on that end below the bounds; `point`: where there are none."""
    stop = None if until is None else until + 1
    for item in columns.batches(source, start=begin, end=stop, check_crc=False, window=_WINDOW):
        if isinstance(item, Damage):
            continue
        base, last, at, crc, size = columns.header_arrays(item, "base_offset", "last_offset", "position", "crc", "size")
        end = at + size
        beyond = np.zeros(len(at), bool)
        if before is not None:
            beyond |= last >= before
        if until is not None:
            beyond |= end > until
        count = int(beyond.argmax()) if beyond.any() else len(at)
        if count:
            number = count - 1
            header = Header(int(at[number]), int(base[number]), int(crc[number]), _epochs(item)[number])
            point = Point(int(end[number]), int(last[number]) + 1, header)
        if count < len(at):
            return point._replace(position=int(at[count]))
    return point


def header_at(source: FileSource, position: int) -> Header | None:
    """The batch at a position; None where none begins there."""
    found = columns.batches(source, start=position, end=position + 1, check_crc=False, window=_HEADER_WINDOW)
    item = next(found, None)
    if item is None or isinstance(item, Damage):
        return None
    header = header_of(item)
    return header if header.position == position else None


def anchor_of(file: LogFile, position: int) -> Header | None:
    """`header_at` a position of a file; None also where it cannot be read, which reading it reports."""
    try:
        with file.source(_HEADER_WINDOW) as source:
            return header_at(source, position)
    except OSError:
        return None


def header_of(item: columns.Batches | Batch, number: int = 0) -> Header:
    """One of some batches: the first, or that of a number; -1: the last."""
    at, base, crc = (int(one[number]) for one in columns.header_arrays(item, "position", "base_offset", "crc"))
    return Header(at, base, crc, _epochs(item)[number])


def _epochs(item: columns.Batches | Batch) -> list[int]:
    return [item.partition_leader_epoch] if isinstance(item, Batch) else item.leader_epoch.tolist()
