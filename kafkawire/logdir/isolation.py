"""How the transactions of partitions ended, from their segments, their `.snapshot` and `.txnindex` files, and
checkpoints.

Headers are read once, from the first segment to the end of the log. Where offsets are missing, because bytes are
damaged or a segment is not there, the next `.snapshot` after them shows what was open at its offset, and `.txnindex`
files show what was aborted in between. Without a snapshot a transaction that began among them may be open: the last
stable offset is at most the first of them. Between two segments of a compacted log, too, one may be missing.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from kafkawire.logdir.cleaning import Cleaned
from kafkawire.logdir.data_ranges import DataRange, table_of
from kafkawire.logdir.directory import Partition, open
from kafkawire.logdir.indexes import aborted_transactions, snapshot_producers
from kafkawire.logdir.located_file import LocatedFile, Stamp
from kafkawire.logdir.ongoing import last_stable_offset
from kafkawire.logdir.remote import without_secrets
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_doubts import Unstable
from kafkawire.logdir.transaction_states import Outcomes, TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import HEADERS_WINDOW, Batches
from kafkawire.records.damage import UNKNOWN_OUTCOME


def outcomes_of(partition: Partition, *, high_watermark: int | None = None, since: int | None = None) -> Outcomes:
    """How the transactions of a partition ended, and where its consumers begin and stop.

    Args:
        high_watermark: consumers get no offset from it on; None: the broker's checkpoint, where that names the
            partition, otherwise the end of the log.
        since: the first offset of a segment: segments before it are not read, and transactions that were open there are
            known from its `.snapshot` only. None: all are read.
    """
    return _outcomes(partition, high_watermark, since, {})


def _outcomes(
    partition: Partition, high_watermark: int | None, since: int | None, proven: dict[str, Stamp]
) -> Outcomes:
    """Does the work of `outcomes_of`. `proven` gets the paths and stamps of the segments in which all is batches of
    magic 2 with right checksums."""
    limit = partition.high_watermark if high_watermark is None else high_watermark
    start = partition.local_start_offset or 0
    segments = [file for file in partition.segments if since is None or (file.offset or 0) >= since]
    base = segments[0].offset or 0 if segments else since or 0
    snapshots = _Snapshots(partition.snapshots)
    ongoing = snapshots.before(base)
    scan = TransactionScan(base, ongoing, cleaned(partition))
    log_start = partition.log_start_offset
    if since is None and ongoing is None and log_start is not None and log_start < base:
        scan.begin_behind(log_start)
    reading = _Reading(scan, snapshots, limit, proven)
    for file in segments:
        reading.read(file)
    reading.end()
    reached = base if scan.end is None else scan.end
    indexed, unindexed = _indexed(partition.txn_indexes, scan.unsure)
    after = max([limit or 0, snapshots.last, *(one.end for one in indexed if one.producer_id in scan.open)])
    for one in indexed:
        if one.first <= scan.open.get(one.producer_id, -1) < one.end and (limit is None or one.end < limit):
            del scan.open[one.producer_id]
    ends = [reading.unstable or scan.unstable(limit)]
    if snapshots.last > reached and (behind := snapshots.ongoing(snapshots.last)) is not None:
        scan.settle(snapshots.last, behind)
        if reading.unstable is None:
            # A marker that is missing may be at the high watermark or above it.
            ends = [*(ends if limit is not None and limit < snapshots.last else ()), scan.unstable()]
    continues = after > (reached if scan.end is None else scan.end)
    found = scan.finish(continues=continues)
    mark = reached if limit is None else min(limit, reached)
    least = min(one.among(scan.cleaned_to) for one in ends)
    least = min([least, *(low for low, _ in found.repeated)])  # also those after the high watermark
    certain = mark if len(ends) > 1 or (continues and reading.unstable is None) else ends[0].certain
    # Without its first segments, whether the log begins where these do, or where a checkpoint has it, is not known.
    stable = last_stable_offset(mark, least, min(start, log_start or 0))
    at_most = last_stable_offset(mark, max(least, certain), start)
    return msgspec.structs.replace(
        reading.bounded(found, segments, stable, at_most),
        start=start,
        aborted=table_of([*scan.aborted, *indexed]),
        high_watermark=mark,
        damage=(*partition.damage, *_missing(partition, segments), *snapshots.damage, *unindexed),
    )


def _missing(partition: Partition, segments: Iterable[LocatedFile]) -> Iterator[tuple[str, Damage]]:
    """The offsets that neither a tier nor the directory has, each range at the segment after it."""
    following = {file.offset or 0: file.path for file in segments}
    for first, end in partition.joined.missing:
        if end in following:
            yield following[end], Damage(0, "missing", f"offsets {first} to {end - 1}, before this, are in no file")


def cleaned(partition: Partition) -> Cleaned:
    """How far a cleaner has been in a replica, by its broker's checkpoint; without one, a batch that shows one does for
    all but the active segment."""
    to = partition.cleaned_to
    if to is not None:
        return Cleaned(to, 0)
    segments = partition.segments
    return Cleaned(0, (segments[-1].offset or 0) if segments else 0)


class OutcomesByFile:
    """The outcomes of the partitions that files belong to; those of the last one are kept.

    Args:
        partitions: that were opened.
        paths: those that were given. Of a partition of which single files were given, here or in a tier, the others
            are used, too.

    Attributes:
        segments: in use, by path, in order. A tier's are those of the replica whose log they begin.
        named: `paths`, as files have them.
    """

    def __init__(self, partitions: Iterable[Partition], paths: Iterable[str]) -> None:
        listed = list(partitions)
        held = {tier.path for one in listed for tier in one.copies}
        owners = [one for one in listed if one.path not in held]
        self.segments = {file.path: file for one in owners for file in one.segments}
        self._owners = {file.path: one for one in owners for file in one.segments}
        self.named = frozenset(map(without_secrets, paths))
        self._last: tuple[str, Outcomes] | None = None
        self._proven: dict[str, Stamp] = {}

    def of(self, file: LocatedFile) -> Outcomes:
        """The outcomes of the file's partition; of a file that is none of its segments, what it shows itself."""
        partition = self._owners.get(file.path)
        if partition is None:
            scan = TransactionScan()
            reading = _Reading(scan, _Snapshots(()), None, {})
            reading.read(file)
            least, found = scan.unstable(), scan.finish(continues=True)
            stable = least.among(scan.cleaned_to)
            return reading.bounded(found, [file], stable, max(stable, found.end)) if stable < found.end else found
        return self.of_partition(partition)

    def proven(self, file: LocatedFile) -> bool:
        """Whether the checksums in a segment of the last partition were right, and it has not changed since."""
        known = self._proven.get(file.path)
        return known is not None and known == file.stamp

    def of_partition(self, partition: Partition) -> Outcomes:
        """The outcomes of a partition."""
        if self._last is None or self._last[0] != partition.path:
            self._proven = {}
            self._last = partition.path, _outcomes(self._whole(partition), None, None, self._proven)
        return self._last[1]

    def _whole(self, partition: Partition) -> Partition:
        """The partition with all files of its directories, also where single files were given."""
        folders = (partition, *partition.copies)
        files = [file for one in folders for file in one.files]
        if not any(file.path in self.named for file in files):
            return partition
        keys = dict.fromkeys(key for file in files for key in file.tier_keys)
        found = open(*(one.files[0].folder for one in folders), tier_keys=keys).partitions
        place = os.path.normpath(partition.path)
        whole = next((one for one in found if os.path.normpath(one.path) == place), partition)
        whole.tier_metadata = partition.tier_metadata
        return whole


class _DamagedAt(NamedTuple):
    """Damage in a segment, and the offset that was reached before it."""

    offset: int
    path: str
    position: int


class _Reading:
    """Reads headers, segment after segment, into a scan.

    Args:
        scan: gets the batches. snapshots: of the partition.
        limit: the high watermark; None: not known. proven: see `_outcomes`.

    Attributes:
        unstable: what is open at the offset `limit`; None where no batch has that.
        damaged: what cannot be read.
    """

    def __init__(
        self, scan: TransactionScan, snapshots: _Snapshots, limit: int | None, proven: dict[str, Stamp]
    ) -> None:
        self.unstable: Unstable | None = None
        self.damaged: list[_DamagedAt] = []
        self._scan = scan
        self._snapshots = snapshots
        self._limit = limit
        self._proven = proven
        self._cuts = np.array(sorted({*snapshots.offsets, *([] if limit is None else [limit])}), np.int64)

    def read(self, file: LocatedFile) -> None:
        """The next segment."""
        scan, base = self._scan, file.offset or 0
        if scan.first is not None and (scan.end or 0) < base:
            if self._limit is not None and self._limit < base:
                self._take_unstable(self._limit)
            ongoing = self._snapshots.ongoing(base)
            if ongoing is None:
                scan.skip(base)
            else:
                scan.settle(base, ongoing)
        stamp = file.stamp
        try:
            for item in batches_of(file, window=HEADERS_WINDOW):
                if not isinstance(item, Batches):
                    stamp = None
                if isinstance(item, Damage):
                    if not item.harmless and item.reason != "offset_backwards":
                        self._damage(file, item.position, f"at byte {item.position}: {item.reason}: {item.detail}")
                elif isinstance(item, Batch):
                    measured = item.measured()
                    self._reach(measured.base_offset)
                    scan.add(measured)
                else:
                    for part in self._up_to_snapshots(item):
                        scan.add(part)
        except OSError as error:
            self._damage(file, 0, error.strerror or str(error))
            stamp = None
        if stamp is not None:
            self._proven[file.path] = stamp

    def end(self) -> None:
        """The end of the log."""
        damaged = self._scan.damaged
        self._settle(self._scan.end or 0)
        if damaged:
            self._scan.damaged = True

    def _damage(self, file: LocatedFile, position: int, text: str) -> None:
        self.damaged.append(_DamagedAt(self._scan.end or 0, file.path, position))
        self._scan.damage(f"{file.path}: {text}")

    def bounded(self, found: Outcomes, segments: Sequence[LocatedFile], stable: int, at_most: int) -> Outcomes:
        """The outcomes with the least and the highest last stable offset that is possible, and the damage that the
        offsets between them are."""
        undecided = None
        if stable < at_most:
            first = segments[0].path if segments else ""
            path, position = next((file.path for file in reversed(segments) if (file.offset or 0) <= stable), first), 0
            for one in self.damaged:
                if one.offset <= stable:
                    path, position = one.path, one.position
            why = found.why(stable) or "the ends of transactions are not here"
            detail = (
                f"offsets {stable} to {at_most - 1}: whether a transaction from before them is open is unknown: {why}"
            )
            undecided = path, Damage(position, UNKNOWN_OUTCOME, detail)
        return msgspec.structs.replace(
            found, last_stable_offset=stable, last_stable_at_most=at_most, undecided=undecided
        )

    def _up_to_snapshots(self, found: Batches) -> Iterator[Batches]:
        """The batches, in parts: before each, what snapshots show up to it has been taken."""
        base = found.base_offset
        reached = np.maximum.accumulate(base)
        near = self._cuts[(self._cuts > reached[0]) & (self._cuts <= reached[-1])]
        cuts = [0, *np.unique(reached.searchsorted(near)).tolist(), len(base)]
        for first, end in pairwise(cuts):
            self._reach(int(base[first]))
            yield found if end - first == len(base) else found.where(slice(first, end))

    def _reach(self, offset: int) -> None:
        """The next batch begins at an offset."""
        limit = self._limit
        if limit is None or self.unstable is not None or offset < limit:
            self._settle(offset)
            return
        self._take_unstable(limit)
        self._settle(offset)

    def _take_unstable(self, limit: int) -> None:
        """The high watermark is reached, or lies among offsets that are missing before the next batch or segment: what
        a later snapshot shows is no longer what was open there."""
        if self.unstable is None:
            self._settle(limit)
            self.unstable = self._scan.unstable(limit)

    def _settle(self, offset: int) -> None:
        """Take the snapshots of the offsets from the one that was reached up to another, where they show more than the
        log before them."""
        scan = self._scan
        for at in self._snapshots.between(scan.end or 0, offset) if scan.first is not None or scan.in_doubt else ():
            damaged = scan.damaged
            missing = (scan.end or 0) < at and (damaged or at > scan.cleaned_to)
            if (missing or scan.in_doubt) and (ongoing := self._snapshots.ongoing(at)) is not None:
                scan.settle(at, ongoing)
                if damaged:
                    scan.damaged = True


class _Snapshots:
    """The `.snapshot` files of a partition, by offset; each is read when it is asked for, and once. `damage`: of those
    that were asked and cannot be read, each with its file's path."""

    def __init__(self, files: Iterable[LocatedFile]) -> None:
        self._files = {file.offset or 0: file for file in files}
        self._ongoing: dict[int, dict[int, int] | None] = {}
        self.offsets = sorted(self._files)
        self.damage: list[tuple[str, Damage]] = []

    @property
    def last(self) -> int:
        """The highest offset; 0: there is none."""
        return self.offsets[-1] if self.offsets else 0

    def between(self, first: int, last: int) -> list[int]:
        """The offsets from one up to another, with it."""
        return self.offsets[bisect_left(self.offsets, first) : bisect_right(self.offsets, last)]

    def ongoing(self, offset: int) -> dict[int, int] | None:
        """The transactions that are open at an offset: producer id -> first offset; None where no snapshot of it can be
        read."""
        if offset not in self._files:
            return None
        if offset not in self._ongoing:
            self._ongoing[offset] = ongoing_in(self._files[offset], self.damage)
        return self._ongoing[offset]

    def before(self, base: int) -> dict[int, int] | None:
        """The transactions that are open before the first segment: as its snapshot has them; or those of the newest one
        that began before."""
        for offset in dict.fromkeys((base, self.last)):
            found = self.ongoing(offset)
            if found is not None:
                return {producer_id: first for producer_id, first in found.items() if first < base}
        return None


def ongoing_in(snapshot: LocatedFile, damage: list[tuple[str, Damage]]) -> dict[int, int] | None:
    """The open transactions of a `.snapshot`: producer id -> first offset; None where it cannot be read: `damage` gets
    why, with its path."""
    producers, damaged = snapshot_producers(snapshot)
    if damaged:
        damage.append((snapshot.path, damaged[0]))
        return None
    return {one.producer_id: one.current_txn_first_offset for one in producers if one.current_txn_first_offset >= 0}


def _indexed(files: Iterable[LocatedFile], producers: set[int]) -> tuple[list[DataRange], list[tuple[str, Damage]]]:
    """The aborted transactions of some producers, by `.txnindex` files; and what cannot be read of these, each with its
    file's path: what it would show stays unknown."""
    found: list[DataRange] = []
    damaged: list[tuple[str, Damage]] = []
    for file in files if producers else ():
        try:
            with file.source() as source:
                for entry in aborted_transactions(source):
                    if isinstance(entry, Damage):
                        damaged.append((file.path, entry))
                    elif entry.aborted.producer_id in producers:
                        aborted = entry.aborted
                        found.append(DataRange(aborted.producer_id, aborted.first_offset, aborted.last_offset))
        except OSError as error:
            damaged.append((file.path, Damage.unreadable(error)))
    return found, damaged
