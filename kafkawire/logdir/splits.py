"""Positions at which a segment can be split into parts that together have all its batches; the batches of a part, of
segments from an offset on, and the end of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kafkawire.logdir.file_source import FileSource
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.seek import entries_of, leads, start_position, wanted_files
from kafkawire.logdir.selection import Selection
from kafkawire.records import Batch, Damage, columns, read
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.records.damage import described
from kafkawire.records.header import HIGHEST_OFFSET

L = TypeVar("L", bound=LocatedFile)

#: What is selected of a log whose end is looked for.
_END = Selection(offsets=(HIGHEST_OFFSET, None))

#: How much of a log is looked at in one go between an index's entry and the place that is wanted.
_WINDOW = 1 << 18


def ranges(file: LocatedFile, size: int) -> list[tuple[int, int | None]]:
    """Parts of a segment of about `size` bytes each, which together are all of it; the last one's end is None.

    Parts begin where a batch begins that its checksum proves. The segment's index has positions of batches; where it
    has none, headers are walked over. After damage a segment is not split. Raises OSError: the file cannot be read."""
    if file.size <= size:
        return [(0, None)]
    points = [0, *_points(file, size)]
    return [*pairwise(points), (points[-1], None)]


class BatchTaker(Protocol):
    """Takes batches before they become columns.

    Attributes:
        following: the offset after the last batch, below which the next does not begin; None where that is not known.
    """

    following: int | None

    def take(self, source: FileSource, position: int, stop: int) -> int:
        """Take batches between two positions, from the first on, whose checksums it compares. Returns their bytes."""


def batches_of(
    file: LocatedFile,
    start: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = True,
    window: int = columns.WINDOW,
    size: int = 0,
    taker: BatchTaker | None = None,
) -> Iterator[Batches | Batch | Damage]:
    """The batches that begin in a part of a segment, many at a time, and the damage: `records.columns.batches` and the
    check of `LocatedFile.batches`. Offsets that go back are damage too, detected from the part before.

    Args:
        start, end: one of the `ranges`. Where the file has become shorter since, so that some of the part is gone, the
            last item is damage.
        check_crc: compare every checksum. `window`: bytes that are read at a time.
        size: the bytes that the file had before. It is read as if it had been opened then.
        taker: takes batches, which are then not given. See `columns.batches`.

    Raises:
        OSError: the file cannot be read.
    """
    following = file.least_offset if not start else None
    least = start if end is None else end
    take = None
    with file.source() as source:
        source.size = source.needed = max(source.size, size)
        if end is not None:
            source.needed = end
        if taker is not None:
            taker.following = following
            take = partial(_take, taker, source, source.size if end is None else min(end, source.size))
        # One byte more: damage ends at the part's end, where a batch is, and that one's offset is looked at.
        stop = None if end is None else end + 1
        for item in columns.batches(source, start=start, end=stop, check_crc=check_crc, window=window, take=take):
            if isinstance(item, Damage):
                if end is None or item.position < end:
                    yield item
                continue
            base, last, at = header_arrays(item, "base_offset", "last_offset", "position")
            if not len(at):
                yield item
                continue
            following = following if taker is None else taker.following
            before = np.concatenate(([base[0] if following is None else following], last[:-1] + 1))
            following = int(last[-1]) + 1
            if taker is not None:
                taker.following = following
            first = 0
            for index in np.flatnonzero(base < before).tolist():
                yield from _between(item, at, first, index, end)
                detail = f"base offset {base[index]} where {before[index]} or more should follow"
                yield Damage(int(at[index]), "offset_backwards", detail, int(at[index]))
                first = index
            yield from _between(item, at, first, len(at), end)
        if source.size < least:
            yield Damage.of_shortened(source.size, source.size, least)


def batches_from(
    files: Iterable[L], first: int, problem: Callable[[str], object], *, check_crc: bool = True
) -> Iterator[tuple[L, Batches | Batch]]:
    """The batches of segments from an offset on, and some before it, each with its file.

    Args:
        first: the offset. problem: called with a sentence for what cannot be read.
        check_crc: compare every checksum.
    """
    wanted = Selection(offsets=(first, None))
    for file in wanted_files(files, wanted):
        try:
            for item in batches_of(file, start_position(file, wanted), check_crc=check_crc):
                if not isinstance(item, Damage):
                    yield file, item
                elif not item.harmless:
                    problem(f"{file.path}: {described(item)}")
        except OSError as error:
            problem(f"{file.path}: {error.strerror or error}")


def each_batch(item: Batches | Batch) -> Iterator[Batch]:
    """The batches of an item, one by one."""
    return iter((item,)) if isinstance(item, Batch) else map(item.batch, range(len(item)))


def _take(taker: BatchTaker, source: FileSource, stop: int, position: int) -> int:
    return taker.take(source, position, stop) if position < stop else 0


def _between(
    item: Batches | Batch, at: npt.NDArray[np.int64], first: int, stop: int, end: int | None
) -> Iterator[Batches | Batch]:
    """The batches of an item from index `first` to `stop`, without those at the position `end` and after it."""
    until = stop if end is None else min(stop, int(np.searchsorted(at, end)))
    if first >= until:
        return
    if isinstance(item, Batch) or until - first == len(at):
        yield item
    else:
        chosen = np.arange(len(at))
        yield item.where((chosen >= first) & (chosen < until))


def end_offset(segments: Sequence[LocatedFile]) -> int:
    """The offset after the last whole batch of a log: its last segment is read from the last entry of its index on.
    Without a batch, the first offset of that segment. Raises OSError: it cannot be read."""
    if not segments:
        return 0
    last = segments[-1]
    end = last.offset or 0
    for item in batches_of(last, start_position(last, _END), check_crc=False):
        if not isinstance(item, Damage):
            end = int(header_arrays(item, "last_offset")[0][-1]) + 1
    return end


def _points(file: LocatedFile, size: int) -> Iterator[int]:
    index = entries_of(file.beside("index")) if file.offset is not None else None
    with file.source(_WINDOW) as source:
        point, wanted = 0, size
        while wanted < source.size:
            start = point
            if index is not None:
                before = int(index["log_position"].searchsorted(wanted, "right")) - 1
                entry = index[before]
                offset = (file.offset or 0) + int(entry["relative_offset"])
                if before >= 0 and entry["log_position"] > point and leads(file, int(entry["log_position"]), offset):
                    start = int(entry["log_position"])
            found = _first_batch(source, start, wanted)
            if found is None:
                return
            yield found
            point, wanted = found, found + size


def _first_batch(source: FileSource, start: int, wanted: int) -> int | None:
    """Position of the first proven batch at `wanted` or after, found by headers from `start` on."""
    for item in columns.batches(source, start=start, check_crc=False, window=_WINDOW):
        if isinstance(item, Damage):
            return None
        (positions,) = header_arrays(item, "position")
        for position in positions[positions >= wanted].tolist():
            if isinstance(next(read(source, start=position), None), Batch):
                return int(position)
    return None
