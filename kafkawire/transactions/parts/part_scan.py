"""`PartTask`: a part of a segment -> its `PartColumns`."""

from __future__ import annotations

import os

import msgspec

from kafkawire import rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.file_names import is_uri
from kafkawire.logdir.splits import ranges
from kafkawire.records import Damage
from kafkawire.transactions.coordinator.id_columns import CoordinatorFact, coordinator_facts
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.segment_scan import PartScan, read_part

#: Bytes of a part, by default.
PART_BYTES = 64 << 20

_found: dict[tuple[str | int, ...], list[tuple[int, int | None]]] = {}
_FOUND_FILES = 16


def count_parts(size: int, part_bytes: int = PART_BYTES) -> int:
    """The number of parts of a segment of that many bytes."""
    return max(1, -(-size // part_bytes))


def bounds(file: LogFile, number: int, count: int, part_bytes: int) -> tuple[int, int | None] | None:
    """The first byte of a part and the one after its last, both where a batch begins; None: the end of the file.

    Args:
        number, count: as in `PartTask`. `part_bytes`: by which `count_parts` counted them.

    Returns:
        None for a part without any batch: batches are large, or the segment is damaged and not split after that.

    Raises:
        OSError: the file cannot be read.
    """
    if count == 1:
        return 0, None
    found = _ranges(file, part_bytes)
    if number >= len(found):
        return None
    start, end = found[number]
    return start, None if number + 1 == count else end


def _ranges(file: LogFile, part_bytes: int) -> list[tuple[int, int | None]]:
    """`ranges`, found once for all parts of a local file: without an index that is a walk over all headers."""
    if is_uri(file.path):
        return ranges(file, part_bytes)
    stat = os.stat(file.path)
    key = file.path, part_bytes, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
    if key not in _found:
        while len(_found) >= _FOUND_FILES:
            del _found[next(iter(_found))]
        _found[key] = ranges(file, part_bytes)
    return _found[key]


class PartTask(msgspec.Struct, frozen=True):
    """A part of a segment that is to be read.

    Attributes:
        number: of the part, from 0 on, of `count` (`count_parts` of the file's size).
        size: about how many bytes the part has. `part_bytes`: by which the parts were counted.
    """

    file: LogFile
    number: int
    count: int
    size: int
    part_bytes: int = PART_BYTES

    def read(self) -> PartColumns:
        """Read the part."""
        try:
            found = bounds(self.file, self.number, self.count, self.part_bytes)
        except OSError as error:
            if self.number:
                damage = rows.DamageRow.of(Damage.unreadable(error), **self.file.place)
                return PartColumns(start=0, end=0, scan=PartScan(damage=(damage,)))
            found = (0, None)  # reading it reports the damage
        if found is None:
            return PartColumns(start=0, end=0, scan=PartScan())
        return read_range(self.file, *found)


def read_range(file: LogFile, start: int = 0, end: int | None = None, size: int = 0) -> PartColumns:
    """Read a range of bytes of a segment.

    Args:
        start, end: byte positions where a batch begins; `end` None: to the end of the file.
        size: see `batches_of`.
    """
    records: list[CoordinatorFact] = []
    scan = PartScan()
    found: list[Appends] = []
    for fact in read_part(file, None, start=start, end=end, size=size):
        if isinstance(fact, Appends):
            found.append(fact)
        elif isinstance(fact, PartScan):
            scan = fact
        else:
            records += coordinator_facts(fact)
    return PartColumns(start=start, end=end, scan=scan, appends=tuple(found), records=tuple(records))
