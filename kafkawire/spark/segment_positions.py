"""How far a stream has read each replica, as its checkpoint has it; and what is between two positions."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.located_file import known_size
from kafkawire.logdir.splits import written
from kafkawire.records import Batch, Damage
from kafkawire.spark.admission import BYTES, FILES

#: What was read is recognised by this many bytes before its end: the checksums of batches are among them.
_MARK_BYTES = 4096
_UNREADABLE = -1


class Position(NamedTuple):
    """How far a replica has been read.

    Attributes:
        segment: the first offset of a segment, from its name; all before it has been read.
        end: bytes of the segment that have been read.
        mark: a checksum of the bytes before `end`; None in checkpoints that had none yet.
        offset: the first that has not been read; None in checkpoints that listed segments.
    """

    segment: int
    end: int
    mark: int | None = None
    offset: int | None = None


class SegmentStretch(NamedTuple):
    """Bytes of a segment that are to be read, and their offsets: `first` and the one after the last."""

    file: LogFile
    begin: int
    end: int
    first: int
    after: int

    def size(self, option: str) -> int:
        """How much that is by the limit of an option."""
        return {FILES: 1, BYTES: self.end - self.begin}.get(option, max(0, self.after - self.first))


def positions(offset: Mapping[str, Any]) -> dict[str, Position]:
    """The positions in a checkpoint, by path: `{root: {directory: [segment, end, mark, offset]}}`. Earlier versions
    listed segments: `{path: [end, mark]}`.

    Raises:
        ValueError: it is neither.
    """
    found: dict[str, Position] = {}
    listed: dict[str, list[Position]] = {}
    try:
        for path, value in offset.items():
            if isinstance(value, dict):
                found |= {os.path.join(path, name): Position(*numbers) for name, numbers in value.items()}
                continue
            directory, name = os.path.split(path)
            end, mark = value if isinstance(value, list) else (value, None)
            listed.setdefault(directory, []).append(Position(int(name.removesuffix(".log")), end, mark))
    except (TypeError, ValueError):
        raise ValueError(
            f"the checkpoint is not one of kafka_segment: {str(offset)[:100]}; start with another"
        ) from None
    for directory, segments in listed.items():
        # Segments behind the one that was being read had been read up to byte 0.
        found[directory] = max((one for one in segments if one.end), default=min(segments))
    return found


def as_offset(found: Mapping[str, Position]) -> dict[str, dict[str, list[int | None]]]:
    """The positions as a checkpoint has them."""
    offset: dict[str, dict[str, list[int | None]]] = {}
    for directory, position in found.items():
        root, name = os.path.split(directory)
        offset.setdefault(root, {})[name] = list(position)
    return offset


def position_at(file: LogFile, end: int, offset: int | None) -> Position:
    """The position behind some bytes of a segment.

    Args:
        end: their number. `offset`: the first behind them; None: not known.
    """
    return Position(file.offset or 0, end, _mark(file, end), offset)


def beginning(replica: Partition) -> Position:
    """The position before all that is there."""
    return position_at(replica.segments[0], 0, replica.segments[0].offset)


def stretches(replica: Partition, start: Position | None, end: Position) -> Iterator[SegmentStretch]:
    """What is between two positions of a replica.

    Args:
        start, end: the positions; `start` None: all before `end`.
    """
    segments = replica.segments
    for number, file in enumerate(segments):
        base = file.offset or 0
        if base > end.segment or (start is not None and base < start.segment):
            continue
        begin, first = (start.end, start.offset) if start is not None and base == start.segment else (0, base)
        following = segments[number + 1].offset if number + 1 < len(segments) else None
        last = base == end.segment
        stop, after = (end.end, end.offset) if last else (known_size(file), following)
        if begin < stop:
            first = base if first is None else first
            yield SegmentStretch(file, begin, stop, first, first if after is None else after)


def advanced(found: list[SegmentStretch], option: str, share: int) -> tuple[Position | None, int]:
    """The position after about as much as a share of stretches, at least a batch; and how much that is.

    Args:
        found: in the order of the log. `option`: of the limit, by which `share` counts files, bytes or offsets.
    """
    position, taken = None, 0
    for stretch in found:
        size = stretch.size(option)
        if taken + size <= share:
            position, taken = position_at(stretch.file, stretch.end, stretch.after), taken + size
            continue
        if option == FILES:
            break
        left = share - taken
        by_bytes = {"until": stretch.begin + left} if option == BYTES else {"before": stretch.first + left}
        end, after = written(stretch.file, stretch.begin, **by_bytes)
        if end <= stretch.begin and position is None:
            end, after = _one_batch(stretch)
        if end > stretch.begin:
            end = min(end, stretch.end)
            cut = stretch._replace(end=end, after=stretch.after if after is None else after)
            position, taken = position_at(stretch.file, end, cut.after), taken + cut.size(option)
        break
    return position, taken


def _one_batch(stretch: SegmentStretch) -> tuple[int, int | None]:
    item = next(stretch.file.batches(start=stretch.begin, check_crc=False), None)
    if isinstance(item, Batch):
        return item.position + item.size, item.last_offset + 1
    return (stretch.end if item is None or item.resumed_at is None else max(item.resumed_at, stretch.begin + 1)), None


def problem_at(replica: Partition, start: Position) -> Damage | None:
    """What is wrong with what had been read, or with what follows it."""
    file = next((one for one in replica.segments if one.offset == start.segment), None)
    if file is None:
        following = next((one.offset or 0 for one in replica.segments if (one.offset or 0) > start.segment), None)
        if following is None:
            detail = (
                f"segment {start.segment}, of which {start.end} bytes had been read, is gone, and so is what followed"
            )
            return Damage(0, "truncated", detail)
        if start.offset is not None and following > start.offset:
            detail = f"offsets {start.offset} to {following - 1} were removed before they were read"
            return Damage(0, "out_of_range", detail)
        return None
    size = known_size(file)
    if size < start.end:
        return Damage(size, "truncated", f"the file became shorter: {size} bytes, of which {start.end} had been read")
    if start.end and start.mark is not None and _mark(file, start.end) not in (start.mark, _UNREADABLE):
        detail = f"what was read, up to byte {start.end}, was cut off, and other batches were written in its place"
        return Damage(start.end, "truncated", detail)
    return None


def still_there(replica: Partition, position: Position) -> bool:
    """Whether the bytes before a position are there, whatever they are."""
    return any(one.offset == position.segment and known_size(one) >= position.end for one in replica.segments)


def _mark(file: LogFile, end: int) -> int:
    """A checksum of the bytes right before that one."""
    size = min(end, _MARK_BYTES)
    if not size:
        return 0
    try:
        with file.source(_MARK_BYTES) as source:
            return zlib.crc32(source.at(end - size, size))
    except OSError:
        return _UNREADABLE
