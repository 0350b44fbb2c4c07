"""Offsets of a log that an unclean leader election dropped, as other copies of the partition show them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.entries import EpochLine
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.tiers import (
    content_of,
    copied_end,
    copied_epochs,
    epoch_damage,
    epoch_lines,
    leaves_lineage,
    segment_id,
)
from kafkawire.records import Damage


class Copy(NamedTuple):
    """Another replica, or a segment in a tier: its path, first offset, the one after the last, leader epochs."""

    path: str
    base: int
    end: int
    epochs: list[EpochLine]
    tiered: bool = False


class Dropped(NamedTuple):
    """Offsets up to `end` are in a copy only, in a leader epoch that the newest log does not have there."""

    end: int
    path: str
    epoch: int
    newer: int


def lineage(partition: Partition) -> list[EpochLine]:
    """The leader epochs of a replica."""
    return [line for file in partition.files if _is_epochs(file) for line in epoch_lines(content_of(file))]


def lineage_damage(partition: Partition) -> list[tuple[LogFile, Damage]]:
    """The damage in the file of a replica's leader epochs."""
    return [one for file in partition.files if _is_epochs(file) for one in epoch_damage(file, content_of(file))]


def tier_copies(partition: Partition) -> Iterator[tuple[Copy, LogFile]]:
    """The segments of a partition in its tiers, whether they are part of its log or not."""
    metadata = partition.tier_metadata()
    for tier in (partition, *partition.tiers):
        for file in tier.files:
            if file.kind == "log" and file.state == TIERED:
                known = metadata.get(segment_id(file))
                end = copied_end(file)[0] if known is None or known.end < 0 else known.end + 1
                yield Copy(file.path, file.offset or 0, end, copied_epochs(file), True), file


def divergence(own: Sequence[EpochLine], base: int, end: int, others: Iterable[Copy]) -> int | None:
    """The first offset of a log at which another replica has a newer leader epoch; None: there is none.

    Args:
        own: the log's leader epochs.
        base, end: its first offset, and the one after its last.
        others: copies of the partition.
    """
    newest = _newest(one.epochs for one in others if not one.tiered)
    if not own or not newest or newest[-1].epoch <= own[-1].epoch:
        return None
    left = leaves_lineage(own, newest, base)
    return left if left is not None and left < end else None


def dropped(own: Sequence[EpochLine], end: int, others: Sequence[Copy]) -> Dropped | None:
    """What copies have from the end of a log on, in leader epochs that the newest of all logs has left. `own`: the
    log's leader epochs. `end`: its end. `others`: copies."""
    newest = _newest([list(own), *(one.epochs for one in others if not one.tiered)])
    found = None
    for one in others:
        reached = max(end, one.base)
        at = _epoch_at(one.epochs, reached)
        now = _epoch_at(newest, reached)
        if one.end > reached and at is not None and now is not None and at < now:
            stop = min([one.end, *(line.start_offset for line in one.epochs if line.epoch >= now)])
            if stop > reached and (found is None or stop > found.end):
                found = Dropped(stop, one.path, at, now)
    return found


def _newest(lines: Iterable[list[EpochLine]]) -> list[EpochLine]:
    return max(lines, key=lambda one: (one[-1].epoch, one[-1].start_offset) if one else (-1, -1), default=[])


def _epoch_at(lines: Sequence[EpochLine], offset: int) -> int | None:
    at = bisect_right([line.start_offset for line in lines], offset) - 1
    return lines[at].epoch if at >= 0 else None


def _is_epochs(file: LogFile) -> bool:
    return file.kind == "epochs" and file.state != TIERED
