"""Whether the replicas of a partition hold the same batches, up to the lower of their high watermarks.

A batch's checksum covers all of it but its offset and leader epoch; so offsets and checksums are compared, and open and
aborted transactions follow. Compaction works on each replica by itself: a batch that it may have removed or rewritten
proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.logdir import Partition
from kafkawire.records import Batch, Damage
from kafkawire.transactions.answers import REPLICAS_AGREE, Placed, Tally
from kafkawire.transactions.replica_files import place_of

if TYPE_CHECKING:
    from kafkawire.records.array_types import Bools, Int64

_NO_CHECKPOINT = "a replica has no replication-offset-checkpoint: its high watermark is not known"
_COMPACTED = "compaction, which each replica does by itself, may have removed or rewritten the batch"
_DAMAGED = "a segment is damaged: what could not be read was not compared"
_ALONE = "no partition was read from two log directories"


def together(partitions: Iterable[Partition], clusters: dict[str, str]) -> list[list[Partition]]:
    """The replicas of each partition, of those that have several.

    Args:
        clusters: the cluster's id, by log directory.
    """
    groups: dict[tuple[str | None, str, int], list[Partition]] = defaultdict(list)
    for partition in partitions:
        groups[clusters.get(partition.broker.root), partition.topic, partition.partition].append(partition)
    return [group for group in groups.values() if len(group) > 1]


def replicas_agree(groups: Sequence[Sequence[Partition]], alone: Partition | None = None) -> Iterator[Placed]:
    """The check's answer for each replica but the first of its group, which the others are compared with.

    Args:
        groups: as `together` gives them. `alone`: where there are none, the partition that the answer is given for.
    """
    for group in groups:
        for other, tally in _compared(group):
            yield Placed(place_of(other), tally.answer(), other.path)
    if not groups and alone is not None:
        tally = Tally(REPLICAS_AGREE)
        tally.lack(_ALONE)
        yield Placed(place_of(alone), tally.answer(), alone.path)


class _ReplicaBatches(NamedTuple):
    """The batches of a replica, an element each. `intact`: compaction has not changed it, as far as it shows.
    `damages`: how many stretches of its bytes could not be read."""

    base: Int64
    last: Int64
    crc: Int64
    producer_id: Int64
    intact: Bools
    damages: int = 0


def _compared(group: Sequence[Partition]) -> Iterator[tuple[Partition, Tally]]:
    first, *others = group
    read: _ReplicaBatches | None = None
    for other in others:
        tally = Tally(REPLICAS_AGREE)
        high = [partition.high_watermark for partition in (first, other)]
        known = [mark for mark in high if mark is not None]
        if len(known) < len(high):
            tally.lack(_NO_CHECKPOINT)
        else:
            try:
                read = _read(first) if read is None else read
                rest = _read(other)
            except OSError as error:
                tally.lack(f"a segment cannot be read: {error.strerror or error}")
                yield other, tally
                continue
            tally.lack(_DAMAGED, read.damages + rest.damages)
            start = max(first.local_start_offset or 0, other.local_start_offset or 0)
            _compare(_within(read, start, min(known)), _within(rest, start, min(known)), first, tally)
        yield other, tally


def _read(partition: Partition) -> _ReplicaBatches:
    import numpy as np

    from kafkawire.logdir.splits import pieces

    parts: list[_ReplicaBatches] = []
    damages = 0
    for file in partition.segments:
        for item in pieces(file, check_crc=False):
            if isinstance(item, Damage):
                damages += not item.harmless
                continue
            if isinstance(item, Batch):
                numbers = item.base_offset, item.last_offset, item.crc, item.producer_id
                base, last, crc, producer_id = (np.array([number], np.int64) for number in numbers)
                parts.append(_ReplicaBatches(base, last, crc, producer_id, np.ones(1, bool)))
            else:
                intact = (item.record_count == item.last_offset_delta + 1) & ~item.delete_horizon
                crc = item.crc.astype(np.int64)
                parts.append(_ReplicaBatches(item.base_offset, item.last_offset, crc, item.producer_id, intact))
    empty = np.empty(0, np.int64)
    parts.append(_ReplicaBatches(empty, empty, empty, empty, empty.astype(bool)))
    return _ReplicaBatches(
        np.concatenate([part.base for part in parts]),
        np.concatenate([part.last for part in parts]),
        np.concatenate([part.crc for part in parts]),
        np.concatenate([part.producer_id for part in parts]),
        np.concatenate([part.intact for part in parts]),
        damages,
    )


def _within(batches: _ReplicaBatches, start: int, end: int) -> _ReplicaBatches:
    """Those that lie whole in the range of offsets."""
    chosen = (batches.base >= start) & (batches.last < end)
    base, last, crc, producer_id, intact, _ = batches
    return _ReplicaBatches(base[chosen], last[chosen], crc[chosen], producer_id[chosen], intact[chosen])


def _compare(one: _ReplicaBatches, other: _ReplicaBatches, first: Partition, tally: Tally) -> None:
    import numpy as np

    _, at_one, at_other = np.intersect1d(one.base, other.base, return_indices=True)
    same = (one.crc[at_one] == other.crc[at_other]) & (one.last[at_one] == other.last[at_other])
    intact = one.intact[at_one] & other.intact[at_other]
    tally.held += int(same.sum())
    tally.lack(_COMPACTED, int((~same & ~intact).sum()))
    for index in at_other[~same & intact].tolist():
        what = f"another batch than in the replica of {first.broker.root}, and both are below the high watermark"
        tally.breach(int(other.base[index]), int(other.producer_id[index]), what)
    lone = np.setdiff1d(np.arange(len(other.base)), at_other)
    crossing = _crossing(one, other, lone)
    for index in lone[crossing].tolist():
        what = f"a batch that lies across others in the replica of {first.broker.root}"
        tally.breach(int(other.base[index]), int(other.producer_id[index]), what)
    missing = len(one.base) - len(at_one)
    tally.lack(_COMPACTED, len(lone) - int(crossing.sum()) + (0 if crossing.any() else missing))


def _crossing(one: _ReplicaBatches, other: _ReplicaBatches, lone: Int64) -> Bools:
    """Which of the batches that begin where no batch of `one` begins have offsets that are in batches of `one`."""
    import numpy as np

    if not len(one.base):
        return np.zeros(len(lone), bool)
    after = np.searchsorted(one.base, other.base[lone])
    before = np.maximum(after - 1, 0)
    inside = (after > 0) & (one.last[before] >= other.base[lone]) & one.intact[before]
    next_ = np.minimum(after, len(one.base) - 1)
    reaching = (after < len(one.base)) & (one.base[next_] <= other.last[lone]) & one.intact[next_]
    found: Bools = (inside | reaching) & other.intact[lone]
    return found
