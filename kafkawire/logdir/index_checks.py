"""Checks of indexes against their log, and the check that a starting broker makes.

An index disagrees with its log where a reader that trusts it would miss records: what is checked holds for every index
that brokers of any release write, for compacted segments, and for followers, which append several batches at once. So
an entry names an offset in the batch at its position or in one after it, but in none before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from kafkawire.errors import ended_at
from kafkawire.logdir.entries import AbortedEntry, FileEntry, OffsetEntry, TimeEntry
from kafkawire.logdir.file_source import FileSource, Opened
from kafkawire.logdir.indexes import aborted_transactions, offset_index, time_index
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.seek import entries_of
from kafkawire.records import Batch, Damage, Source, read
from kafkawire.records.source import WatchedSource

_WINDOW = 1 << 18
#: kind of file -> reader of its entries
_READERS: dict[str, Callable[[Source], Iterator[FileEntry | Damage]]] = {"index": offset_index, "timeindex": time_index}
#: How many times over a log may be read for its index.
_MOST_READS = 4
MISMATCH = "index_mismatch"


class LogIndexCheck(ABC):
    """Checks the entries of an index, in order. A context manager: the log is open inside it. Without a log beside
    the index, nothing is found."""

    def __init__(self, file: LocatedFile) -> None:
        self.file = file
        self.base = file.offset or 0
        self.log: _SegmentHeaders | None = None
        self.unread: OSError | None = None

    def __enter__(self) -> Self:
        try:
            opened = self.file.beside("log").opened()
        except FileNotFoundError:
            return self
        except OSError as error:
            self.unread = error
            return self
        self.log = _SegmentHeaders(opened, self.file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.log is not None:
            self.log.file.close()

    @abstractmethod
    def entry(self, entry: Any) -> Damage | None:
        """The damage of an entry, which follows those of earlier calls."""

    def end(self) -> Damage | None:
        """The damage of the index as a whole, or the reason why it could not be checked, after its last entry."""
        if self.unread is not None:
            text = self.unread.strerror or str(self.unread)
            return Damage(0, "unreadable", f"the log beside it: {text}: no entry was checked")
        if self.log is None or self.log.source.ended is None:
            return None
        detail = f"the log {ended_at(self.log.source.ended, self.log.source.size)}: not every entry was checked"
        return Damage(0, "truncated", detail, shortened=True)

    def absent(self) -> Iterator[Damage]:
        """The damage that a comparison has without a log."""
        if self.log is None and self.unread is None:
            yield Damage(0, "missing", "no log is beside it: no entry was checked")

    def mismatch(self, entry: FileEntry, detail: str) -> Damage:
        return Damage(entry.position, MISMATCH, detail)


class OffsetCheck(LogIndexCheck):
    """The check of `.index`: an entry names an offset in the batch at its position, or in one after it."""

    def __init__(self, file: LocatedFile) -> None:
        super().__init__(file)
        self.behind = 0
        self.first_behind: OffsetEntry | None = None

    def entry(self, entry: OffsetEntry) -> Damage | None:
        log = self.log
        if log is None or entry.log_position < 0 or log.exhausted:
            return None
        if entry.log_position >= log.source.size:
            self.behind += 1
            self.first_behind = self.first_behind or entry
            return None
        offset = self.base + entry.relative_offset
        batch = log.batch_at(entry.log_position)
        if batch is None and log.source.ended is not None:
            return None
        if batch is None:
            return self.mismatch(entry, f"offset {offset} at byte {entry.log_position} of the log: no batch is there")
        if batch.measured().base_offset > offset:
            detail = f"offset {offset} at byte {entry.log_position} of the log: there begins {batch.base_offset}"
            return self.mismatch(entry, detail)
        if batch.last_offset < offset and not log.has(offset):
            return self.mismatch(entry, f"offset {offset}, which is not in the log")
        return None

    def end(self) -> Damage | None:
        if self.first_behind is None or self.log is None:
            return super().end()
        detail = f"{self.behind} entries lead behind the end of the log, which has {self.log.source.size} bytes"
        return self.mismatch(self.first_behind, detail)


class TimeCheck(LogIndexCheck):
    """The check of `.timeindex`: an entry names the newest timestamp so far, and the batch that has it."""

    def entry(self, entry: TimeEntry) -> Damage | None:
        if self.log is None or entry.relative_offset < 0:
            return None
        offset = self.base + entry.relative_offset
        batch = self.log.containing(offset)
        if batch is None or batch.measured().base_offset > offset:
            if self.log.damaged:
                return None  # it may have been there
            return self.mismatch(entry, f"timestamp {entry.timestamp} of offset {offset}, which is not in the log")
        if batch.max_timestamp != entry.timestamp:
            detail = f"timestamp {entry.timestamp} of offset {offset}; its batch has {batch.max_timestamp}"
            return self.mismatch(entry, detail)
        return None


class AbortedCheck(LogIndexCheck):
    """The check of `.txnindex`: an entry ends with a marker of its producer."""

    def entry(self, entry: AbortedEntry) -> Damage | None:
        aborted = entry.aborted
        if self.log is None or aborted.last_offset < self.base:
            return None
        batch = self.log.containing(aborted.last_offset)
        if batch is None or batch.base_offset > aborted.last_offset:
            return None  # the marker may have been compacted away
        if batch.is_control and batch.producer_id == aborted.producer_id:
            return None
        detail = f"a marker of producer {aborted.producer_id} at offset {aborted.last_offset}; there is " + (
            f"one of producer {batch.producer_id}" if batch.is_control else "none"
        )
        return self.mismatch(entry, detail)


#: kind of file -> its check
CHECKS: dict[str, type[LogIndexCheck]] = {"index": OffsetCheck, "timeindex": TimeCheck, "txnindex": AbortedCheck}


def sanity(file: LocatedFile) -> Iterator[FileEntry | Damage]:
    """The entries of an index, and the damage for which a starting broker rebuilds it or recovers its segment
    (`sanityCheck` of `OffsetIndex`, `TimeIndex` and `TransactionIndex`).

    The check is of the raw file, as Kafka's is: the last entry is the one at the end of the file. A broker cuts off the
    zeros of an index when it rolls the segment and when it stops; those that it leaves when it is killed, or has while
    it runs, are entries, and a time index that ends with them ends before it begins.
    """
    from kafkawire.logdir.entry_layouts import OFFSET_ENTRY, TIME_ENTRY

    with file.source() as source:
        if file.kind == "txnindex":
            yield from _sane_aborted(source, file.offset or 0)
            return
        yield from (one for one in _READERS[file.kind](source) if not isinstance(one, Damage) or one.shortened)
        entry = OFFSET_ENTRY if file.kind == "index" else TIME_ENTRY
        count, left = divmod(source.size, entry.sizeof())
        if left:
            detail = f"{source.size} bytes, which is no multiple of an entry's {entry.sizeof()}"
            yield Damage(source.size - left, "truncated", detail)
        at = (count - 1) * entry.sizeof()
        ends = [bytes(source.at(position, entry.sizeof())) for position in (0, at)] if count else []
        if ends and all(len(one) == entry.sizeof() for one in ends):
            yield from _sane_ends(entry.parse(ends[0]), entry.parse(ends[1]), at)


def _sane_ends(first: Any, last: Any, at: int) -> Iterator[Damage]:
    """The damage that the first and the last entry show. `at`: position of the last."""
    if "timestamp" in last and last.timestamp < first.timestamp:
        yield Damage(at, "not_ascending", f"the last timestamp is {last.timestamp}, the first {first.timestamp}")
    elif last.relative_offset < 0:
        yield Damage(at, "not_ascending", f"the last entry's relative offset is {last.relative_offset}")


def _sane_aborted(source: FileSource, base: int) -> Iterator[FileEntry | Damage]:
    for entry in aborted_transactions(source):
        if isinstance(entry, Damage):
            if entry.reason != "truncated" or entry.shortened:
                yield entry  # a broker passes over a torn entry at the end
            continue
        yield entry
        if entry.aborted.last_offset < base:
            detail = f"the last offset, {entry.aborted.last_offset}, is below the segment's first, {base}"
            yield Damage(entry.position, "bad_entry", detail)


class _SegmentHeaders:
    """A segment's headers: at positions, and by offsets that ascend. `source.ended`: where it ended before its size."""

    def __init__(self, file: Opened, index: LocatedFile) -> None:
        self.file = file
        self.source = WatchedSource(FileSource(file, _WINDOW))
        self.damaged = False
        self._base = index.offset or 0
        self._index = index
        self._jumps: Any = None
        self._batch: Batch | None = None
        self._walk = self._from(0)
        self._left = _MOST_READS * self.source.size

    @property
    def exhausted(self) -> bool:
        """Whether the limit of reads is reached: a crafted index could cause any number of them."""
        return self._left < 0

    def _from(self, position: int) -> Iterator[Batch | Damage]:
        return iter(read(self.source, start=position, check_crc=False))

    def batch_at(self, position: int) -> Batch | None:
        """The batch at a position. The walk continues from it."""
        found = next(read(self.source, start=position, end=position + 1, check_crc=False), None)
        if not isinstance(found, Batch):
            return None
        self._left -= found.size
        self._batch = found
        self._walk = self._from(position + found.size)
        return found

    def has(self, offset: int) -> bool:
        """Whether a batch after the current one contains an offset; True where the log is damaged."""
        found = self.containing(offset)
        return self.damaged or self.exhausted or (found is not None and found.measured().base_offset <= offset)

    def containing(self, offset: int) -> Batch | None:
        """The first batch that ends at `offset` or later, from the current one on."""
        if self._batch is not None and self._batch.last_offset >= offset:
            return self._batch
        self._jump(offset)
        if self._batch is not None and self._batch.last_offset >= offset:
            return self._batch
        for item in self._walk:
            if isinstance(item, Damage):
                self.damaged = self.damaged or not item.harmless
                continue
            self._batch = item
            self._left -= item.size
            if item.last_offset >= offset:
                return item
            if self.exhausted:
                break
        return None

    def _jump(self, offset: int) -> None:
        """Moves the walk to the offset index's position for `offset`, if the index is right."""
        if self._index.kind == "index":
            return
        if self._jumps is None:
            entries = entries_of(self._index.beside("index"))
            self._jumps = () if entries is None else (entries["relative_offset"], entries["log_position"])
        if not self._jumps:
            return
        before = int(self._jumps[0].searchsorted(offset - self._base, "right"))
        position = int(self._jumps[1][before - 1]) if before else 0
        if position <= (self._batch.position if self._batch else 0):
            return
        found = next(read(self.source, start=position, end=position + 1, check_crc=False), None)
        if isinstance(found, Batch) and found.base_offset <= offset:
            self._batch = found
            self._walk = self._from(position + found.size)
