"""`CutPart`: a part of a segment that is cut where a checksum proves a batch, without a look at what is before it.

Such a place can lie within a batch, whose records can be anything. So a part may be taken only where the part before it
ends with its last batch, and has no damage (`is_whole`); where it does not, the segment is read in one go from there
on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire.logdir import LogFile
from kafkawire.logdir.located_file import known_size
from kafkawire.records import find_batch
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_scan import count_parts, read_range

#: What is read at once where a batch is searched.
_WINDOW = 1 << 14


class Cuts:
    """The places at which a segment is cut.

    Args:
        part_bytes: from one to the next, about.

    Attributes:
        size: of the file, in bytes, when it was cut.
        count: of the parts.
    """

    def __init__(self, file: LogFile, part_bytes: int) -> None:
        self.file = file
        self._part_bytes = part_bytes
        self.size = known_size(file)
        self.count = count_parts(self.size, part_bytes)
        self._found: dict[int, int | None] = {0: 0}

    def at(self, number: int) -> int | None:
        """Where a part begins; None where no batch is found there.

        Raises:
            OSError: the file cannot be read.
        """
        if number not in self._found:
            start = number * self._part_bytes
            with self.file.source(_WINDOW) as source:
                end = start + self._part_bytes
                found = find_batch(source, start, end, max_batch_bytes=self._part_bytes)
            return self._found.setdefault(number, found)  # one place for all threads
        return self._found[number]


class CutPart:
    """A part of a segment that is to be read.

    Args:
        segment: index of the segment.
        number: of the part, from 0 on.

    Attributes:
        size: see `Cuts`.
    """

    def __init__(self, segment: int, cuts: Cuts, number: int) -> None:
        self.segment = segment
        self.size = cuts.size
        self._cuts = cuts
        self._number = number

    def read(self) -> PartColumns | None:
        """Read the part; None: one before it has what it would have.

        Raises:
            OSError: the file cannot be searched for its place.
        """
        start = self._cuts.at(self._number)
        if start is None:
            return None
        ends = (self._cuts.at(number) for number in range(self._number + 1, self._cuts.count))
        end = next((end for end in ends if end is not None), None)
        return read_range(self._cuts.file, start, end, self.size)


def cut_parts(segments: Iterable[tuple[int, LogFile]], part_bytes: int) -> Iterator[CutPart]:
    """The parts of segments, each with its index, in order."""
    for segment, file in segments:
        cuts = Cuts(file, part_bytes)
        for number in range(cuts.count):
            yield CutPart(segment, cuts, number)


def is_whole(part: PartColumns) -> bool:
    """Whether the part's batches are all from its start to its end, and nothing else is there."""
    scan = part.scan
    undamaged = not scan.damage and scan.zeros_at is None and not scan.shortened
    return undamaged and part.end is not None and part.start + scan.bytes == part.end
