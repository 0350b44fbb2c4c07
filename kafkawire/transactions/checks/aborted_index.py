"""`TransactionIndexCheck`: whether a partition's `.txnindex` files agree with its log (KIP-98; Kafka's
`TransactionIndex`).

An index is derived from the log, and a broker trusts it: a wrong one makes it return aborted records. Each entry is
judged as far as the log still shows what it rests on: where offsets are missing before the marker, a transaction may
have begun among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from kafkawire import rows
from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.entries import AbortedEntry
from kafkawire.logdir.indexes import aborted_transactions
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.selection import Selection
from kafkawire.messages import AbortedTxn
from kafkawire.records import CONTROL_TYPES, Batch, Damage
from kafkawire.records.array_types import Int64
from kafkawire.records.control import ABORT, EMPTY
from kafkawire.records.header import HIGHEST_OFFSET
from kafkawire.transactions.answers import TXNINDEX_EQUALS_LOG, Tally
from kafkawire.transactions.facts import TORN, Segment
from kafkawire.transactions.log.replay import Ended

#: A segment has these, too: one that has a `.txnindex` has at least one of them.
_BESIDE = ("index", "timeindex")

_HOLE = "offsets are missing between the transaction's beginning and its marker"


class _AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """An aborted transaction as replayed. `intact_from`: from where on no offset is missing before its marker."""

    ended: Ended
    intact_from: int


class _SegmentTransactions:
    """The transactions that begin in a segment, and those that are open at its end; from `intact_from` on none is
    missing. Few indexes ask for them: they are put in order for the first question."""

    def __init__(self, ended: list[tuple[Int64, Int64]], ongoing: Mapping[int, int], intact_from: int) -> None:
        self._ended, self._ongoing = ended, ongoing
        self.intact_from = intact_from

    def first_after(self, marker: int, producer_id: int) -> int | None:
        """The first that another producer begins after a marker."""
        offsets, producer_ids, others = self._ordered
        at = int(np.searchsorted(offsets, marker, "right"))
        if at < len(offsets) and producer_ids[at] == producer_id:
            at = int(others[at])
        return int(offsets[at]) if at < len(offsets) else None

    @cached_property
    def _ordered(self) -> tuple[Int64, Int64, Int64]:
        """First offsets, ascending; their producer ids; and for each where the next one of another producer is."""
        chunks = [*self._ended, (np.array([*self._ongoing.values()], np.int64), np.array([*self._ongoing], np.int64))]
        offsets, producer_ids = (np.concatenate([chunk[i] for chunk in chunks]) for i in (0, 1))
        order = np.argsort(offsets)
        offsets, producer_ids = offsets[order], producer_ids[order]
        runs = np.append(np.flatnonzero(np.diff(producer_ids)) + 1, len(offsets))
        return offsets, producer_ids, runs[np.searchsorted(runs, np.arange(len(offsets)), "right")]


class _BatchesByOffset:
    """A segment's batches for offsets that ascend: the segment is read once, from the first of these on."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._following: Iterator[Batch | Damage] | None = None
        self._found: Batch | None = None

    def reaching(self, offset: int) -> Batch | None:
        """The first that ends at an offset or after it; None where there is none. Raises OSError, ValueError: the
        segment cannot be read; after that there is none."""
        if self._following is None:
            start = start_position(self._file, Selection(offsets=(offset, None)))
            self._following = self._file.batches(start=start, check_crc=False)
        while self._found is None or self._found.last_offset < offset:
            item = next(self._following, None)
            if item is None:
                return None
            if isinstance(item, Batch):
                self._found = item
        return self._found


class TransactionIndexCheck:
    """`.txnindex` files against the aborted transactions of the log, segment by segment. `damage`: files that cannot be
    read."""

    def __init__(self, partition: Partition) -> None:
        self.tally = Tally(TXNINDEX_EQUALS_LOG)
        self.damage: list[rows.DamageRow] = []
        self._files = {file.offset or 0: file for file in partition.txn_indexes}
        self._segments = {file.offset or 0: file for file in partition.segments}
        self._bases = sorted(self._segments)
        #: The segments beside which another index was copied.
        self._copied = {file.offset or 0 for kind in _BESIDE for file in partition.used(kind)}
        self._aborts: list[_AbortedTransaction] = []
        self._begun: list[tuple[Int64, Int64]] = []

    def add(self, ended: Ended, intact_from: int) -> None:
        """Take the next transaction that was aborted."""
        self._aborts.append(_AbortedTransaction(ended, intact_from))

    def begun(self, first_offset: Int64, producer_id: Int64) -> None:
        """Take where transactions began that have ended."""
        if self._files:
            self._begun.append((first_offset.copy(), producer_id.copy()))

    def end_segment(self, segment: Segment, ongoing: Mapping[int, int], *, last: bool, written: bool) -> None:
        """The segment has ended: compare its index.

        Args:
            ongoing: producer id of each transaction that is open then -> its first offset.
            last: of the log.
            written: the index was complete when it was copied. It may lag behind the last segment of a running broker.
        """
        aborts, self._aborts = self._aborts, []
        begun, self._begun = _SegmentTransactions(self._begun, ongoing, segment.intact_from), []
        file = self._files.get(segment.base_offset)
        path = None if file is None else file.path
        entries: list[AbortedTxn] = []
        try:
            for item in [] if file is None else _index_entries(file):
                if isinstance(item, AbortedEntry):
                    entries.append(item.aborted)
                elif item.reason != TORN:  # a torn entry is one that is lacking
                    what = f"cannot be read at byte {item.position}: {item.detail}"
                    self.tally.breach(segment.base_offset, -1, what, path)
                    return
        except OSError as error:
            self.tally.lack("the file cannot be read", max(1, len(aborts)))
            assert file is not None
            self.damage.append(rows.DamageRow.of(Damage.unreadable(error), **file.place))
            return
        ordered = self._ascending(entries, path)
        stored = {entry.last_offset: entry for entry in entries}
        reached = max(stored, default=-1)
        for abort in aborts:
            entry = stored.pop(abort.ended.last_offset, None)
            if entry is not None:
                self._judge(entry, abort, begun, path)
            elif abort.intact_from > abort.ended.first_offset:
                self.tally.lack(_HOLE)
            elif file is None and segment.base_offset not in self._copied:
                self.tally.lack("the segment has no index of any kind: they were not copied")
            elif not written and abort.ended.last_offset > reached:
                self.tally.lack("the index may have been copied before its entry was written")
            elif ordered:
                what = f"lacks the transaction from offset {abort.ended.first_offset} on, aborted at this offset"
                first = abort.ended.first_offset
                self.tally.breach(abort.ended.last_offset, abort.ended.producer_id, what, path, since=first)
        following = bisect_right(self._bases, segment.base_offset)
        next_base = self._bases[following] if following < len(self._bases) else HIGHEST_OFFSET
        end = segment.end_offset if last and written else next_base
        if stored and ordered:
            batches = _BatchesByOffset(self._segments[segment.base_offset])
            for entry in stored.values():
                self._judge_alone(entry, segment, path, end, batches)

    def _ascending(self, entries: list[AbortedTxn], path: str | None) -> bool:
        """Whether the entries are in order; if not, that alone is the violation."""
        for before, entry in pairwise(entries):
            if entry.last_offset <= before.last_offset:
                what = f"entries are out of order: last offset {entry.last_offset} after {before.last_offset}"
                self.tally.breach(entry.last_offset, entry.producer_id, what, path)
                return False
        return True

    def _judge(
        self, entry: AbortedTxn, abort: _AbortedTransaction, begun: _SegmentTransactions, path: str | None
    ) -> None:
        ended, intact_from = abort.ended, abort.intact_from
        different: list[str] = []
        since = min(entry.first_offset, entry.last_stable_offset, ended.first_offset, ended.last_stable_offset)
        if entry.producer_id != ended.producer_id:
            different.append(f"producer id {entry.producer_id}, the marker's is {ended.producer_id}")
        first, stable = entry.first_offset, entry.last_stable_offset
        whole = intact_from <= ended.first_offset
        if whole and first != ended.first_offset and not 0 <= first < intact_from:
            different.append(f"first offset {first}, the log has {ended.first_offset}")
        if whole and not _stable_is_right(stable, abort, begun):
            different.append(f"last stable offset {stable}, the log has {ended.last_stable_offset}")
        if different:
            self.tally.breach(
                ended.last_offset,
                ended.producer_id,
                "; ".join(different),
                path,
                concerns=(entry.producer_id,),
                since=since,
            )
        elif not whole:
            self.tally.lack(_HOLE)
        else:
            self.tally.held += 1

    def _judge_alone(
        self, entry: AbortedTxn, segment: Segment, path: str | None, end: int, batches: _BatchesByOffset
    ) -> None:
        """An entry for which the log, as far as it shows, aborts no transaction with data. `end`: the segment's markers
        are before this offset. `batches`: of the segment."""
        what = None
        if entry.last_offset < segment.base_offset:
            what = "has an entry that ends before its segment begins"
        elif segment.damage:
            self.tally.lack("the segment is damaged")
        elif entry.last_offset >= segment.end_offset and segment.zeros_at is not None:
            self.tally.lack("the segment ends with zeros, where the marker was")  # `lost_tail` reports them
        elif entry.last_offset >= end:
            what = f"has an entry, and the segment ends at {end}"
        elif entry.last_offset >= segment.end_offset:
            self.tally.lack("the log ends below the entry")
        elif segment.intact_from <= 0:
            what = "has an entry, and the log aborts no transaction with data there"
        elif not _may_abort(entry, batches):
            what = "has an entry, and no ABORT marker of its producer is there"
        elif entry.first_offset >= segment.intact_from or entry.first_offset < 0:
            what = "has an entry, and the log aborts no transaction with data there"
        else:
            self.tally.lack("offsets are missing below the entry")
        if what is not None:
            self.tally.breach(entry.last_offset, entry.producer_id, what, path, since=entry.first_offset)


def _may_abort(entry: AbortedTxn, batches: _BatchesByOffset) -> bool:
    """Whether an ABORT marker of the entry's producer may be where it ends."""
    try:
        batch = batches.reaching(entry.last_offset)
        if batch is None or batch.base_offset > entry.last_offset:
            return True  # compaction removed it
        marker = batch.control
    except (OSError, ValueError):
        return True  # reading the segment reports the damage
    names = (CONTROL_TYPES[ABORT], EMPTY)
    return marker is not None and marker.name in names and batch.producer_id == entry.producer_id


def _stable_is_right(stable: int, abort: _AbortedTransaction, begun: _SegmentTransactions) -> bool:
    """A follower appends several batches at once, and takes what begins after the marker in them for open already: of
    that the first, where nothing else is open."""
    ended = abort.ended
    after = ended.last_offset + 1
    if stable == ended.last_stable_offset:
        return True
    if ended.last_stable_offset == after and stable > after:
        return begun.intact_from > after or stable == begun.first_after(ended.last_offset, ended.producer_id)
    if ended.last_stable_offset < abort.intact_from:
        return stable <= after  # the marker of what holds it there may be missing
    return 0 <= stable < min(abort.intact_from, after)


def _index_entries(file: LogFile) -> list[AbortedEntry | Damage]:
    with file.source() as source:
        return list(aborted_transactions(source))
