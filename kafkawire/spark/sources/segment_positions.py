"""Positions up to which a stream has read each log, in the form of its checkpoint, and the bytes between two of them.

A position is an offset and the leader epoch of the record before it, of a log that is known by its identity
(`copied_logs`): it does not depend on how the log is cut into files, nor on the replica that is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.located_file import known_size
from kafkawire.records import Batch
from kafkawire.spark.listing.copied_logs import CopiedLog, LogId, lineage
from kafkawire.spark.sources.log_points import NO_EPOCH, LogPoints
from kafkawire.spark.sources.source_base import BYTES, FILES

#: In a checkpoint: the logs with a known identity, and the directories whose log is not known or that are read each.
_LOGS, _COPIES = "logs", "copies"


class Position(NamedTuple):
    """How far a log has been read.

    Attributes:
        offset: the first that has not been read.
        epoch: the leader epoch of the batch before; `NO_EPOCH`: not known.
        crc: its checksum, where it has no epoch.
        stable: no transaction that had begun before it was open, up to where the log was known (`stream_transactions`).
    """

    offset: int
    epoch: int = NO_EPOCH
    crc: int | None = None
    stable: bool = False

    @classmethod
    def at(cls, replica: Partition, offset: int, points: LogPoints) -> Position:
        """The position at an offset of a replica.

        Raises:
            OSError: a file cannot be read.
        """
        before = points.before(replica, offset)
        if before is None or before.last is None:
            return cls(offset)
        return cls(offset, before.last.epoch, before.last.crc if before.last.epoch == NO_EPOCH else None)


class _FormerPosition(NamedTuple):
    """How far a replica had been read, in a checkpoint of kafkawire 0.2.0 or before.

    Attributes:
        segment: the first offset of a segment; all before it had been read. `end`: bytes of it that had been read.
        mark: a checksum, which is not used. `offset`: the first that had not been read; None: not known.
    """

    segment: int
    end: int
    mark: int | None = None
    offset: int | None = None


class SegmentRange(NamedTuple):
    """Bytes of a segment that are to be read, and their offsets: `first` and the one after the last."""

    file: LogFile
    begin: int
    end: int
    first: int
    after: int

    def size(self, option: str) -> int:
        """How much that is by the limit of an option."""
        return {FILES: 1, BYTES: self.end - self.begin}.get(option, max(0, self.after - self.first))


# Checkpoints ---------------------------------------------------------------------------------------------------------


def positions(offset: Mapping[str, Any], logs: Iterable[CopiedLog], points: LogPoints) -> dict[LogId, Position]:
    """The positions in a checkpoint, by log. A position of a log that is better known now is that one's.

    Args:
        offset: `{"logs": {cluster: {topic: {topic id: {partition: [offset, epoch, crc, stable]}}}}}`, with the same
            below each directory in `"copies"`; or of kafkawire 0.2.0.
        logs: that there are. `points`: finds the offsets of former positions.

    Raises:
        ValueError: it is no offset of this source.
    """
    there = list(logs)
    try:
        if not offset or {_LOGS, _COPIES} & set(offset):
            found = dict(_of_clusters(offset.get(_LOGS, {}), ""))
            for directory, clusters in offset.get(_COPIES, {}).items():
                found |= _of_clusters(clusters, directory)
        else:
            return _converted(_former(offset), there, points)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"the checkpoint is not one of kafka_segment: {str(offset)[:100]}; start with another"
        ) from None
    for log in there:
        if log.id not in found:
            paths = {one.path for one in log.replicas}
            former = [id for id in found if id.may_be(log.id) and id.directory in {"", log.id.directory, *paths}]
            former = [id for id in former if not any(one.id == id for one in there)]
            if former:
                found[log.id] = max((found.pop(id) for id in former), key=_offset)
    return found


def _of_clusters(clusters: Mapping[str, Any], directory: str) -> Iterator[tuple[LogId, Position]]:
    for cluster, topics in clusters.items():
        for topic, ids in topics.items():
            for topic_id, partitions in ids.items():
                for partition, numbers in partitions.items():
                    yield (
                        LogId(cluster, topic, topic_id, int(partition), directory),
                        _read(*numbers),
                    )


def _read(offset: int, epoch: int, crc: int | None = None, stable: int = 0) -> Position:
    return Position(int(offset), int(epoch), None if crc is None else int(crc), stable == 1)


def as_offset(found: Mapping[LogId, Position]) -> dict[str, Any]:
    """The positions as a checkpoint has them."""
    offset: dict[str, Any] = {_LOGS: {}}
    for id, position in found.items():
        below = offset.setdefault(_COPIES, {}).setdefault(id.directory, {}) if id.directory else offset[_LOGS]
        topics = below.setdefault(id.cluster, {}).setdefault(id.topic, {})
        numbers: list[int | None] = [position.offset, position.epoch]
        numbers += [position.crc, 1] if position.stable else [] if position.crc is None else [position.crc]
        topics.setdefault(id.topic_id, {})[str(id.partition)] = numbers
    return offset


def _former(offset: Mapping[str, Any]) -> dict[str, _FormerPosition]:
    """The positions of 0.2.0, by directory: `{root: {directory: [segment, end, mark, offset]}}`. Versions before listed
    segments: `{path: [end, mark]}`."""
    found: dict[str, _FormerPosition] = {}
    listed: dict[str, list[_FormerPosition]] = {}
    for path, value in offset.items():
        if isinstance(value, dict):
            found |= {os.path.join(path, name): _FormerPosition(*numbers) for name, numbers in value.items()}
            continue
        directory, name = os.path.split(path)
        end = value[0] if isinstance(value, list) else value
        listed.setdefault(directory, []).append(_FormerPosition(int(name.removesuffix(".log")), int(end)))
    for directory, segments in listed.items():
        # Segments after the one that was being read had been read up to byte 0.
        found[directory] = max((one for one in segments if one.end), default=min(segments))
    return found


def _converted(
    former: Mapping[str, _FormerPosition], logs: list[CopiedLog], points: LogPoints
) -> dict[LogId, Position]:
    """The positions of logs, from those of replicas. Where several replicas of a log had been read, the furthest
    position counts."""
    found: dict[LogId, Position] = {}
    for log in logs:
        for replica in log.replicas:
            before = former.get(replica.path)
            if before is not None:
                position = Position(_offset_of(before, replica, points))
                found[log.id] = max(found.get(log.id, position), position, key=_offset)
    known = {one.path for log in logs for one in log.replicas}
    for directory, before in former.items():
        if directory not in known and before.offset is not None:
            topic, _, number = os.path.basename(directory).rpartition("-")
            if number.isdecimal():
                found[LogId("", topic, "", int(number), directory)] = Position(before.offset)
    return found


def _offset(position: Position) -> int:
    return position.offset


def _offset_of(before: _FormerPosition, replica: Partition, points: LogPoints) -> int:
    if before.offset is not None:
        return before.offset
    for file in replica.segments:
        if file.offset == before.segment:
            return points.find(file, until=before.end).offset
        if (file.offset or 0) > before.segment:
            return file.offset or 0
    return before.segment


# Between two positions -----------------------------------------------------------------------------------------------


def segment_ranges(replica: Partition, first: int, end: int, points: LogPoints) -> Iterator[SegmentRange]:
    """Where the offsets from `first` up to `end` are in a replica."""
    segments = replica.segments
    for number, file in enumerate(segments):
        base = file.offset or 0
        following = segments[number + 1].offset if number + 1 < len(segments) else None
        if base >= end:
            break
        if following is not None and following <= first:
            continue
        try:
            begin = points.find(file, before=first).position if first > base else 0
            whole = following is not None and following <= end
            stop = file.size if whole else points.find(file, before=end).position
        except OSError:
            begin, stop = 0, max(1, known_size(file))  # the task that reads the file reports the error
        if begin < stop:
            after = end if following is None else min(end, following)
            yield SegmentRange(file, begin, stop, max(first, base), after)


def advanced(found: list[SegmentRange], option: str, share: int, points: LogPoints) -> tuple[int | None, int]:
    """The offset after about as much as a share of ranges, at least a batch; and how much that is.

    Args:
        found: in the order of the log. `option`: of the limit, by which `share` counts files, bytes or offsets.
    """
    offset, taken = None, 0
    for asked in found:
        size = asked.size(option)
        if taken + size <= share:
            offset, taken = asked.after, taken + size
            continue
        if option == FILES:
            break
        left = share - taken
        by_bytes = {"until": asked.begin + left} if option == BYTES else {"before": asked.first + left}
        point = points.find(asked.file, **by_bytes)
        end, after = point.position, point.offset
        if end <= asked.begin and offset is None:
            end, after = _one_batch(asked)
        if end > asked.begin and after > asked.first:
            cut = asked._replace(end=min(end, asked.end), after=min(after, asked.after))
            offset, taken = cut.after, taken + cut.size(option)
        break
    return offset, taken


def _one_batch(asked: SegmentRange) -> tuple[int, int]:
    for item in asked.file.batches(start=asked.begin, check_crc=False):
        if isinstance(item, Batch):
            return item.position + item.size, item.last_offset + 1
    return asked.end, asked.after


def log_start(replica: Partition, *, of_consumers: bool) -> int:
    """The first offset of a replica; `of_consumers`: that records were not deleted of."""
    first = replica.segments[0].offset or 0
    return max(first, replica.local_start_offset or 0) if of_consumers else first


def divergence(replica: Partition, position: Position, points: LogPoints) -> int | None:
    """Where a replica's log parts from the one that was read up to a position (KIP-320, `OffsetsForLeaderEpoch`): the
    first offset that is of a later leader epoch, below the position. None where it does not.

    The replica's `leader-epoch-checkpoint` shows it, or the batches themselves: a checkpoint may be older than they
    are, or be missing, and compaction leaves epochs as they are.

    Raises:
        OSError: a file cannot be read.
    """
    if position.epoch == NO_EPOCH:
        return None
    later = [line.start_offset for line in lineage(replica) if line.epoch > position.epoch]
    if not later:
        before, around = points.before(replica, position.offset), points.around(replica, position.offset)
        epochs = [one.epoch for one in (before and before.last, around) if one is not None]
        later = [_first_after(replica, position)] if max(epochs, default=NO_EPOCH) > position.epoch else []
    found = min(later, default=position.offset)
    return found if found < position.offset else None


def replaced(replica: Partition, position: Position, points: LogPoints) -> bool:
    """Whether another batch is before a position than the one that was read. Only batches without leader epochs, as
    of magic 0 and 1, show it in this way; cleaning writes batches anew.

    Raises:
        OSError: a file cannot be read.
    """
    if position.crc is None or (replica.topic, replica.partition) in replica.broker.cleaned:
        return False
    found = points.before(replica, position.offset)
    return found is not None and found.last is not None and found.last.crc != position.crc


def _first_after(replica: Partition, position: Position) -> int:
    """The offset of the first batch of a later leader epoch."""
    first = position.offset
    for file in reversed(replica.segments):
        if (file.offset or 0) >= position.offset:
            continue
        older = False
        for item in file.batches(check_crc=False):
            if isinstance(item, Batch):
                if item.partition_leader_epoch > position.epoch:
                    first = min(first, item.base_offset)
                    break
                older = True
        if older:
            break
    return first
