"""The position at which to begin reading for a selection: from the names of segments, and from their indexes.

An index is only a hint: where it leads to no batch with a valid checksum, or too far, reading begins at the segment's
beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from os.path import dirname
from typing import TYPE_CHECKING, Any, TypeVar

from kafkawire.errors import RecordError
from kafkawire.logdir.located_file import LocatedFile, known_size
from kafkawire.logdir.selection import Selection
from kafkawire.records import Batch, Damage, read

if TYPE_CHECKING:
    import numpy as np

L = TypeVar("L", bound=LocatedFile)

#: Kinds of files whose name is the first of their offsets.
_SEGMENT_KINDS = ("log", "index", "timeindex")
_INDEX_BYTES = 64 << 20


def wanted_files(files: Iterable[L], selection: Selection) -> Iterator[L]:
    """The files that may contain selected rows. A segment's offsets end where the next one's begin; of a segment that
    has a successor, the last entry of the time index is the newest timestamp."""
    listed = list(files)
    if selection.offsets is None and selection.times is None:
        yield from listed
        return
    following = _following(listed)
    for file in listed:
        after = following.get(file.path)
        if file.kind in _SEGMENT_KINDS and file.offset is not None:
            if selection.offsets is not None:
                first, end = selection.offsets
                if end is not None and file.offset >= end:
                    continue
                if first is not None and after is not None and after <= first:
                    continue
            if selection.times is not None and selection.times[0] is not None and after is not None:
                newest = _newest(file)
                if newest is not None and newest < selection.times[0]:
                    continue
        yield file


def start_position(file: LocatedFile, selection: Selection) -> int:
    """A position in a segment, of a batch, before which nothing is selected; 0 where no index gives one."""
    if file.kind != "log" or file.offset is None:
        return 0
    first = selection.offsets[0] if selection.offsets else None
    if selection.times and selection.times[0] is not None:
        times = entries_of(file.beside("timeindex"))
        older = 0 if times is None else int(times["timestamp"].searchsorted(selection.times[0]))
        if times is not None and older:
            first = max(first or 0, file.offset + int(times["relative_offset"][older - 1]) + 1)
    index = None if first is None else entries_of(file.beside("index"))
    if index is None or first is None:
        return 0
    before = int(index["relative_offset"].searchsorted(first - file.offset, "right"))
    position = int(index["log_position"][before - 1]) if before else 0
    return position if position > 0 and leads(file, position, first) else 0


def offset_of_time(segments: Iterable[L], timestamp: int) -> int | None:
    """Offset of the first record of a replica that is as new as a timestamp, or newer, as brokers answer ListOffsets
    (`LogSegment.findOffsetByTimestamp`); None where there is none. Raises OSError: a file cannot be read."""
    asked = Selection(times=(timestamp, None))
    for file in wanted_files(segments, asked):
        for batch in file.batches(start=start_position(file, asked), check_crc=False):
            if isinstance(batch, Batch) and batch.measured().max_timestamp >= timestamp:
                try:
                    found = next((one.offset for one in batch.records if one.timestamp >= timestamp), None)
                except RecordError:
                    found = batch.base_offset  # its records are damage where they are read
                if found is not None:
                    return found
    return None


def entries_of(file: LocatedFile) -> np.ndarray[Any, Any] | None:
    """The entries of an `.index` or `.timeindex` as a hint: None where there are none, where it cannot be read or is
    damaged, and where NumPy is not installed."""
    try:
        found = index_entries(file)
    except (ImportError, OSError):
        return None
    return None if isinstance(found, Damage) or not len(found) else found


def index_entries(file: LocatedFile) -> np.ndarray[Any, Any] | Damage:
    """The entries of an `.index` or `.timeindex`, without the zeros at its end; or the damage, where it became shorter
    while it was read or does not ascend. Raises OSError: it cannot be read. ImportError: NumPy is not installed."""
    import numpy as np

    from kafkawire.logdir.entry_layouts import OFFSET_ENTRY, TIME_ENTRY, dtype_of

    kind = dtype_of({"index": OFFSET_ENTRY, "timeindex": TIME_ENTRY}[file.kind])
    with file.source(0) as source:
        size = min(source.size, _INDEX_BYTES)
        data = source.at(0, size)
    if len(data) < size:
        return Damage.of_shortened(0, len(data), size)
    found = np.frombuffer(data[: len(data) - len(data) % kind.itemsize], kind)
    used = np.flatnonzero(found != np.zeros(1, kind))
    found = found[: used[-1] + 1 if len(used) else 0]
    for column in (found["relative_offset"], found[(kind.names or ())[0]]):
        falls = np.flatnonzero(np.diff(column.astype("i8")) < 0)
        if len(falls):
            at = (int(falls[0]) + 1) * kind.itemsize
            return Damage(at, "not_ascending", "an entry is below the one before")
    return found


def leads(file: LocatedFile, position: int, offset: int) -> bool:
    """Whether a batch begins at a position of a segment, with that offset in it or after it. `position`: in bytes.
    `offset`: an offset of a record."""
    with file.source(1 << 16) as source:
        found = next(read(source, start=position, end=position + 1), None)
    return isinstance(found, Batch) and found.base_offset <= offset


def _newest(file: LocatedFile) -> int | None:
    """The newest timestamp of a segment that has a successor. A broker cuts a time index to its entries when it rolls
    the segment: one that ends with anything else, as after kill -9, may lack the newest."""
    index = file.beside("timeindex")
    times = entries_of(index)
    if times is None or known_size(index) != times.nbytes:
        return None
    return int(times["timestamp"][-1])


def _following(files: list[L]) -> dict[str, int]:
    """Path of each file of a segment -> first offset of the next segment in the same directory."""
    groups: dict[tuple[str, str, str], list[L]] = {}
    for file in files:
        if file.kind in _SEGMENT_KINDS and file.offset is not None:
            groups.setdefault((dirname(file.path), file.kind, file.state), []).append(file)
    found = {}
    for group in groups.values():
        group.sort(key=lambda file: file.offset or 0)
        for one, other in pairwise(group):
            found[one.path] = other.offset or 0
    return found
