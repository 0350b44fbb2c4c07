"""How the transactions of partitions ended, from their segments and what else their directories have of them.

Headers are read once, from the first segment to the end of the log. Where offsets are missing between segments, the
`.snapshot` of the one behind them shows what was open there, and `.txnindex` files show what was aborted in between.
Without a snapshot a segment may be missing there, in a compacted log, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kafkawire.logdir.directory import Partition, open
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.indexes import aborted_transactions, producer_snapshot
from kafkawire.logdir.located_file import LocatedFile, Stamp
from kafkawire.logdir.remote import without_secrets
from kafkawire.logdir.splits import pieces
from kafkawire.logdir.stretches import Stretch, table_of
from kafkawire.logdir.transaction_states import NO_OFFSET, Outcomes, TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import HEADERS_WINDOW, Batches


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
    """`outcomes_of`. `proven` gets the segments that hold batches of magic 2 with right checksums, and nothing else."""
    limit = partition.high_watermark if high_watermark is None else high_watermark
    start = partition.local_start_offset or 0
    snapshots = {file.offset or 0: file for file in partition.snapshots}
    segments = [file for file in partition.segments if since is None or (file.offset or 0) >= since]
    base = segments[0].offset or 0 if segments else since or 0
    ongoing, damaged = _ongoing_at(snapshots, base)
    scan = TransactionScan(base, ongoing)
    scan.thinned = (partition.topic, partition.partition) in partition.broker.cleaned
    unstable = _read(scan, segments, snapshots, limit, proven)
    reached = base if scan.end is None else scan.end
    later = max(snapshots, default=0)
    if later > reached and (resumed := ongoing_in(snapshots[later])) is not None:
        scan.resume(later, resumed)
    indexed = list(_indexed(partition.txn_indexes, scan.unsure))
    ends = [limit or 0, later, *(one.end for one in indexed if one.producer_id in scan.open)]
    continues = max(ends) > (reached if scan.end is None else scan.end)
    if unstable is None:
        unstable = NO_OFFSET if continues else scan.first_unstable
    found = scan.finish(continues=continues)
    mark = reached if limit is None else min(limit, reached)
    return msgspec.structs.replace(
        found,
        start=start,
        aborted=table_of([*scan.aborted, *indexed]),
        high_watermark=mark,
        last_stable_offset=min(mark, max(start, unstable)),
        damage=(*partition.damage, *_missing(partition, segments), *damaged),
    )


def _missing(partition: Partition, segments: Iterable[LocatedFile]) -> Iterator[tuple[str, Damage]]:
    """The offsets that neither a tier nor the directory has, each range at the segment behind it."""
    following = {file.offset or 0: file.path for file in segments}
    for first, end in partition.joined.missing:
        if end in following:
            yield following[end], Damage(0, "missing", f"offsets {first} to {end - 1}, before this, are in no file")


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
            _read(scan, [file], {}, None, {})
            return scan.finish(continues=True)
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
        """With all files of the partition's directories, where single ones were given."""
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


def _read(
    scan: TransactionScan,
    segments: Iterable[LocatedFile],
    snapshots: Mapping[int, LocatedFile],
    limit: int | None,
    proven: dict[str, Stamp],
) -> int | None:
    """Read headers. Returns the first offset of the earliest transaction that is open at the offset `limit`; None where
    no batch has that. `proven`: as of `_outcomes`."""
    unstable: int | None = None
    for file in segments:
        base = file.offset or 0
        if scan.first is not None and (scan.end or 0) < base:
            ongoing = ongoing_in(snapshots[base]) if base in snapshots else None
            if ongoing is None:
                scan.skip(base)
            else:
                scan.resume(base, ongoing)
        stamp = file.stamp
        try:
            for item in pieces(file, window=HEADERS_WINDOW):
                if not isinstance(item, Batches):
                    stamp = None
                if isinstance(item, Damage):
                    if not item.harmless and item.reason != "offset_backwards":
                        scan.damage(f"{file.path}: at byte {item.position}: {item.reason}: {item.detail}")
                elif isinstance(item, Batch):
                    scan.add_old(item.measured())
                elif limit is None or unstable is not None or item.base_offset[-1] < limit:
                    scan.add(item)
                else:
                    below = item.base_offset < limit
                    if below.any():
                        scan.add(item.where(below))
                    unstable = scan.first_unstable
                    scan.add(item.where(~below))
        except OSError as error:
            scan.damage(f"{file.path}: {error.strerror or error}")
            stamp = None
        if stamp is not None:
            proven[file.path] = stamp
    return unstable


def _ongoing_at(
    snapshots: Mapping[int, LocatedFile], base: int
) -> tuple[dict[int, int], tuple[tuple[str, Damage], ...]]:
    """The transactions that are open before the first segment: as its `.snapshot` has them; or those of the newest one
    that began before. And the damage of those that were asked and cannot be read."""
    damaged: list[tuple[str, Damage]] = []
    for offset in dict.fromkeys(one for one in (base, max(snapshots, default=base)) if one in snapshots):
        found = _open_in(snapshots[offset])
        if not isinstance(found, Damage):
            return {producer_id: first for producer_id, first in found.items() if first < base}, tuple(damaged)
        damaged.append((snapshots[offset].path, found))
    return {}, tuple(damaged)


def ongoing_in(snapshot: LocatedFile) -> dict[int, int] | None:
    """The open transactions of a `.snapshot`: producer id -> first offset; None where it cannot be read."""
    found = _open_in(snapshot)
    return None if isinstance(found, Damage) else found


def _open_in(snapshot: LocatedFile) -> dict[int, int] | Damage:
    """`ongoing_in`, or the damage."""
    try:
        data = snapshot.content()
    except OSError as error:
        return Damage.unreadable(error)
    entries = [data] if isinstance(data, Damage) else list(producer_snapshot(data))
    for entry in entries:
        if isinstance(entry, Damage):
            return entry
    producers = (entry.producer for entry in entries if isinstance(entry, SnapshotEntry))
    return {one.producer_id: one.current_txn_first_offset for one in producers if one.current_txn_first_offset >= 0}


def _indexed(files: Iterable[LocatedFile], producers: set[int]) -> Iterator[Stretch]:
    """The aborted transactions of some producers, by `.txnindex` files."""
    for file in files if producers else ():
        try:
            with file.source() as source:
                for entry in aborted_transactions(source):
                    if isinstance(entry, AbortedEntry) and entry.aborted.producer_id in producers:
                        yield Stretch(entry.aborted.producer_id, entry.aborted.first_offset, entry.aborted.last_offset)
        except OSError:
            continue  # what it would show stays unknown
