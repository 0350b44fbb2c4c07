"""`replicas_agree`: whether the replicas of a partition hold the same batches, up to the lower of their high
watermarks.

A batch's checksum covers all of it but its offset and leader epoch; so offsets and checksums are compared, and open and
aborted transactions follow. Compaction works on each replica by itself: a batch that it may have removed or rewritten
proves nothing. Parts of the logs give a digest a range of offsets (`range_digests`); batches are read again only where
digests differ, and at the ends of what is compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from kafkawire import rows
from kafkawire.logdir import Partition
from kafkawire.logdir.seek import start_position, wanted_files
from kafkawire.logdir.selection import Selection
from kafkawire.logdir.splits import batches_of
from kafkawire.records import Damage
from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.records.header import HIGHEST_OFFSET
from kafkawire.transactions.answers import REPLICAS_AGREE, Placed, Tally
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.range_digests import DIGEST, RANGE_OFFSETS
from kafkawire.transactions.parts.replica_files import place_of

#: Ranges whose batches are in memory at a time, at most.
_RANGES_AT_ONCE = 16
#: Reason of damage of a batch whose header can be read: its checksum as it was stored is compared.
_MISMATCH = "crc_mismatch"

_NO_CHECKPOINT = "a replica has no replication-offset-checkpoint: its high watermark is not known"
_COMPACTED = "compaction, which each replica does by itself, may have removed or rewritten the batch"
_DAMAGED = "a segment is damaged: what could not be read was not compared"
_ALONE = "no partition was read from two log directories"


def together(found: Iterable[ReplicaDigests], clusters: Mapping[str, str]) -> list[list[ReplicaDigests]]:
    """The replicas of each partition, of those that have several. `clusters`: the cluster's id, by log directory."""
    groups: dict[tuple[str | None, str, int], list[ReplicaDigests]] = defaultdict(list)
    for one in found:
        partition = one.partition
        groups[clusters.get(partition.broker.root), partition.topic, partition.partition].append(one)
    return [group for group in groups.values() if len(group) > 1]


def replicas_agree(groups: Iterable[Sequence[ReplicaDigests]]) -> Iterator[Placed]:
    """The check's answer for each replica but the first of its group (`together`), which the others are compared
    with."""
    for group in groups:
        for other, tally in _compared(group):
            yield Placed(place_of(other), tally.answer(), other.path)


def alone(place: Place, path: str) -> Placed:
    """The check's answer where no partition has several replicas: given for one of them."""
    return Placed.lacking(place, REPLICAS_AGREE, _ALONE, path)


class ReplicaDigests(NamedTuple):
    """A replica to compare. `digests`: packed (`range_digests.DIGEST`). `damage`: of its segments."""

    partition: Partition
    digests: bytes
    damage: Sequence[rows.DamageRow] = ()


class _ReplicaBatches(NamedTuple):
    """Batches of a replica, an element each. `intact`: compaction has not changed it, as far as it shows."""

    base: Int64
    last: Int64
    crc: Int64
    producer_id: Int64
    intact: Bools

    def where(self, chosen: Bools | Int64) -> _ReplicaBatches:
        base, last, crc, producer_id, intact = self
        return _ReplicaBatches(base[chosen], last[chosen], crc[chosen], producer_id[chosen], intact[chosen])


class _Kept(NamedTuple):
    """What a replica certainly has of what was appended. `start`: from this offset on compaction has removed nothing.
    `bases`: of its segments, ascending. `whole`: every segment could be read."""

    start: int
    bases: Int64
    whole: bool

    @classmethod
    def of(cls, replica: ReplicaDigests) -> _Kept:
        partition = replica.partition
        bases = np.array(sorted(file.offset or 0 for file in partition.segments), np.int64)
        start = HIGHEST_OFFSET if partition.cleaned_to is None else partition.cleaned_to
        return cls(start, bases, not any(damage.reason != _MISMATCH for damage in replica.damage))

    def lacks(self, offset: Int64, present: Int64) -> Bools:
        """Which offsets were certainly here and are not: the batch that follows is in the segment where they belong, so
        that no segment is missing. A batch that begins there is here, whatever else its header has: its checksum may be
        wrong. `offset`: of batches of the other replica. `present`: of the batches here,
        ascending."""
        after = np.searchsorted(present, offset)
        following = np.append(present, -1)[after]
        same = np.searchsorted(self.bases, following, "right") == np.searchsorted(self.bases, offset, "right")
        found: Bools = (offset >= self.start) & (following > offset) & same & self.whole
        return found


def _compared(group: Sequence[ReplicaDigests]) -> Iterator[tuple[Partition, Tally]]:
    first, *others = group
    for other in others:
        tally = Tally(REPLICAS_AGREE)
        high = [one.partition.high_watermark for one in (first, other)]
        known = [mark for mark in high if mark is not None]
        unreadable = [damage.detail for one in (first, other) for damage in one.damage if damage.reason == "unreadable"]
        if len(known) < len(high):
            tally.lack(_NO_CHECKPOINT)
        elif unreadable:
            tally.lack(f"a segment cannot be read: {unreadable[0]}")
        else:
            tally.lack(_DAMAGED, sum(damage.reason != _MISMATCH for one in (first, other) for damage in one.damage))
            start = max(one.partition.local_start_offset or 0 for one in (first, other))
            try:
                _compare(first, other, start, min(known), tally)
            except OSError as error:
                tally.lack(f"a segment cannot be read: {error.strerror or error}")
        yield other.partition, tally


def _compare(first: ReplicaDigests, other: ReplicaDigests, start: int, end: int, tally: Tally) -> None:
    """Compare the batches that lie whole in a range of offsets: digests, and batches where these differ."""
    one, two = (np.frombuffer(replica.digests, DIGEST) for replica in (first, other))
    one, two = (all_[(all_["last"] >= start) & (all_["first"] < end)] for all_ in (one, two))
    _, at_one, at_two = np.intersect1d(one["number"], two["number"], return_indices=True)
    whole = (one["first"] >= start) & (one["last"] < end)
    same = whole[at_one] & (one["digest"][at_one] == two["digest"][at_two])
    same &= one["batches"][at_one] == two["batches"][at_two]
    tally.held += int(one["batches"][at_one[same]].sum())
    different = np.setdiff1d(np.union1d(one["number"], two["number"]), one["number"][at_one[same]])
    kept = _Kept.of(first), _Kept.of(other)
    for run in np.split(different, np.flatnonzero(np.diff(different) != 1) + 1):
        for begin in range(0, len(run), _RANGES_AT_ONCE):
            numbers = run[begin : begin + _RANGES_AT_ONCE].tolist()
            lowest, behind = numbers[0] * RANGE_OFFSETS, (numbers[-1] + 1) * RANGE_OFFSETS
            found = [
                _read(replica.partition, lowest, behind, of.start)
                for replica, of in zip((first, other), kept, strict=True)
            ]
            near, near_other = (_within(batches, start, end) for batches in found)
            lacks = [partial(of.lacks, present=np.sort(batches.base)) for of, batches in zip(kept, found, strict=True)]
            for number in numbers:
                _compare_range(near, near_other, lacks, number, first.partition, tally)


def _read(partition: Partition, start: int, end: int, kept_from: int) -> _ReplicaBatches:
    """The batches with offsets in a range, and some beside it. `kept_from`: where compaction has not been."""
    empty = np.empty(0, np.int64)
    parts = [_ReplicaBatches(empty, empty, empty, empty, empty.astype(bool))]
    selection = Selection(offsets=(max(start - 1, 0), end))
    for file in wanted_files(partition.segments, selection):
        for item in batches_of(file, start_position(file, selection), check_crc=False):
            if isinstance(item, Damage):
                continue
            base, last, crc, producer_id = header_arrays(item, "base_offset", "last_offset", "crc", "producer_id")
            intact = np.ones(len(base), bool)
            if isinstance(item, Batches):
                intact = (item.record_count == item.last_offset_delta + 1) & ~item.delete_horizon
                intact |= base >= kept_from
            parts.append(_ReplicaBatches(base, last, crc, producer_id, intact))
            if base[0] > end:
                break
    base, last, crc, producer_id, intact = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return _ReplicaBatches(base, last, crc, producer_id, intact.astype(bool))


def _within(batches: _ReplicaBatches, start: int, end: int) -> _ReplicaBatches:
    """The batches that lie whole in the range of offsets."""
    _, first = np.unique(batches.base, return_index=True)  # offsets go back in a damaged log
    batches = batches.where(first)
    return batches.where((batches.base >= start) & (batches.last < end))


def _compare_range(
    near: _ReplicaBatches,
    near_other: _ReplicaBatches,
    lacks: Sequence[Callable[[Int64], Bools]],
    number: int,
    first: Partition,
    tally: Tally,
) -> None:
    """Compare the batches that begin in a range of offsets. `near`: of the first replica, some beside it as well.
    `lacks`: which offsets of batches each replica certainly had and lacks."""
    one, other = (batches.where(batches.base // RANGE_OFFSETS == number) for batches in (near, near_other))
    _, at_one, at_other = np.intersect1d(one.base, other.base, return_indices=True)
    same = (one.crc[at_one] == other.crc[at_other]) & (one.last[at_one] == other.last[at_other])
    intact = one.intact[at_one] & other.intact[at_other]
    tally.held += int(same.sum())
    tally.lack(_COMPACTED, int((~same & ~intact).sum()))
    root = first.broker.root
    for index, of_first in zip(at_other[~same & intact].tolist(), at_one[~same & intact].tolist(), strict=True):
        what = f"another batch than in the replica of {root}, and both are below the high watermark"
        tally.breach(
            int(other.base[index]), int(other.producer_id[index]), what, concerns=(int(one.producer_id[of_first]),)
        )
    lone = np.setdiff1d(np.arange(len(other.base)), at_other)
    alone = np.setdiff1d(np.arange(len(one.base)), at_one)
    crossing = _crossing(near, other, lone)
    surplus = ~crossing & lacks[0](other.base[lone])
    missing = np.zeros(len(alone), bool) if crossing.any() else lacks[1](one.base[alone])
    for what, batches, chosen in (
        (f"a batch that lies across others in the replica of {root}", other, lone[crossing]),
        (f"a batch that the replica of {root} lacks, and both are below the high watermark", other, lone[surplus]),
        (f"lacks a batch of the replica of {root}, and both are below the high watermark", one, alone[missing]),
    ):
        for index in chosen.tolist():
            tally.breach(int(batches.base[index]), int(batches.producer_id[index]), what)
    judged = int(crossing.sum() + surplus.sum() + missing.sum())
    tally.lack(_COMPACTED, len(lone) + (0 if crossing.any() else len(alone)) - judged)


def _crossing(one: _ReplicaBatches, other: _ReplicaBatches, lone: Int64) -> Bools:
    """Which of the batches that begin where no batch of `one` begins have offsets that are in batches of `one`."""
    if not len(one.base):
        return np.zeros(len(lone), bool)
    after = np.searchsorted(one.base, other.base[lone])
    before = np.maximum(after - 1, 0)
    inside = (after > 0) & (one.last[before] >= other.base[lone]) & one.intact[before]
    next_ = np.minimum(after, len(one.base) - 1)
    reaching = (after < len(one.base)) & (one.base[next_] <= other.last[lone]) & one.intact[next_]
    found: Bools = (inside | reaching) & other.intact[lone]
    return found
