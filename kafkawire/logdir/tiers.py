"""A partition's log, joined from its segments in a tier and on a broker (KIP-405): each offset once, along the
replica's leader epochs.

A tier holds segments that were copied by the leaders of their time. A follower's segments have other borders: where the
leader changed, copies overlap, and a later one may begin before an earlier one. After an unclean election the tier
keeps what the log has lost. So the log is a chain of copies, each the one that reaches farthest of those that begin
within the one before, and read up to where the next begins.
"""

from __future__ import annotations

import base64
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from kafkawire.errors import RecordError
from kafkawire.logdir.entries import EpochLine
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.located_file import LocatedFile, known_size
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.selection import Selection
from kafkawire.logdir.text_files import leader_epochs
from kafkawire.records import Batch, Damage, decode_value
from kafkawire.records.damage import described
from kafkawire.records.internal_topics import REMOTE_LOG_METADATA

if TYPE_CHECKING:
    from kafkawire.logdir.log_files import LogFile

_UUID = re.compile("[A-Za-z0-9_-]{22}", re.ASCII)
#: Values of `RemoteLogSegmentState`.
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)


class TieredSegment(NamedTuple):
    """What `__remote_log_metadata` has of a segment.

    Attributes:
        topic, partition, topic_id: of the partition. `state`: of `RemoteLogSegmentState`, the last one written.
        start, end: its first and its last offset; -1 where only a later event was read.
        since: when that state was written, by a broker's clock, epoch milliseconds; -1 where it is not known.
    """

    topic: str
    partition: int
    topic_id: UUID
    state: int
    start: int = -1
    end: int = -1
    since: int = -1


class TierEvents(dict[UUID, TieredSegment]):
    """What `__remote_log_metadata` has of segments, by id.

    Attributes:
        partial: why events may be missing: the copy is damaged, cannot be read, or does not begin at offset 0; empty
            where none can be.
        damage: of each file the first record that cannot be understood, which reading it as a log does not show.
    """

    def __init__(self, events: Mapping[UUID, TieredSegment] = MappingProxyType({})) -> None:
        super().__init__(events)
        self.partial = ""
        self.damage: tuple[tuple[LogFile, Damage], ...] = ()

    def like(self, other: TierEvents) -> TierEvents:
        """These events, of which some may be missing where some of the others may be."""
        self.partial, self.damage = other.partial, other.damage
        return self

    def lack(self, file: LogFile, what: str, damage: Damage | None = None) -> None:
        """Events may be missing. `damage`: of a record."""
        self.partial = self.partial or f"{file.path}: {what}"
        if damage is not None and all(one is not file for one, _ in self.damage):
            self.damage = (*self.damage, (file, damage))


def tier_metadata(copies: Iterable[Sequence[LogFile]]) -> TierEvents:
    """The segments that `__remote_log_metadata` names, by id, each in the state that was written last. `copies`: the
    segments of each replica of its partitions. Of each partition the longest copy is read."""
    longest: dict[int | None, Sequence[LogFile]] = {}
    for segments in copies:
        number = segments[0].partition if segments else None
        longest[number] = max(longest.get(number, ()), segments, key=lambda files: sum(map(known_size, files)))
    found = TierEvents()
    for segments in longest.values():
        if segments and segments[0].offset:
            found.lack(segments[0], f"the log begins at offset {segments[0].offset}")
        for file in segments:
            try:
                _read(found, file)
            except OSError as error:  # reading the partition reports it
                found.lack(file, error.strerror or str(error))
    return found


def _read(found: TierEvents, file: LogFile) -> None:
    for batch in file.batches():
        if isinstance(batch, Damage):
            if not batch.harmless:  # reading the partition reports it
                found.lack(file, described(batch))
        elif not batch.control:
            try:
                for record in batch.records:
                    event = decode_value(REMOTE_LOG_METADATA, record.key, record.value)
                    if event is not None and event.problem:
                        _lack_record(found, file, batch, f"offset {record.offset}: {event.problem}")
                    _take(found, getattr(event, "message", None))
            except RecordError as error:
                _lack_record(found, file, batch, str(error))


def _lack_record(found: TierEvents, file: LogFile, batch: Batch, what: str) -> None:
    damage = Damage(batch.position, "bad_records", what, batch.position + batch.size)
    found.lack(file, f"at byte {batch.position}: {what}", damage)


def by_partition(events: TierEvents) -> dict[tuple[str, int], TierEvents]:
    """The events of each partition."""
    found: dict[tuple[str, int], TierEvents] = {}
    for id, one in events.items():
        found.setdefault((one.topic, one.partition), TierEvents().like(events))[id] = one
    return found


def _take(found: dict[UUID, TieredSegment], message: Any) -> None:
    segment_id = getattr(message, "remote_log_segment_id", None)
    if segment_id is None:
        return
    of, state = segment_id.topic_id_partition, message.remote_log_segment_state
    before, since = found.get(segment_id.id), message.event_timestamp_ms
    if hasattr(message, "start_offset"):
        found[segment_id.id] = TieredSegment(
            of.name, of.partition, of.id, state, message.start_offset, message.end_offset, since
        )
    else:
        known = before or TieredSegment(of.name, of.partition, of.id, state)
        found[segment_id.id] = known._replace(state=state, since=since)


def segment_id(file: LogFile) -> UUID:
    """The id in the name of a tier's file."""
    return _uuid(os.path.basename(file.path)[21:43])


def topic_id(folder: str) -> UUID:
    """The topic's id in the path of a partition's directory in a tier."""
    topic, partition = os.path.split(folder)
    return _uuid((topic if partition.isdigit() else folder)[-22:])


def uuid_of(text: str) -> UUID | None:
    """An id in Kafka's form; None where the text has not 22 characters of base64url."""
    return _uuid(text) if _UUID.fullmatch(text) else None


def _uuid(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


class Joined(NamedTuple):
    """A partition's log in a tier and on a broker.

    Attributes:
        segments: files whose `limit` is where the next one takes over.
        missing: ranges of offsets that no copy has, each with its first offset and the one after its last; below the
            first copy only if the log start offset is known.
        unknown_ends: copies that cannot be read up to their ends, and whose ends no metadata has: offsets that are
            missing after these may be in them.
        damage: of the files that decided which copies belong to the log: with leader epochs, and the tier's metadata.
    """

    segments: tuple[LogFile, ...]
    missing: tuple[tuple[int, int], ...] = ()
    unknown_ends: tuple[LogFile, ...] = ()
    damage: tuple[tuple[LogFile, Damage], ...] = ()


def join(
    local: Sequence[LogFile],
    tiered: Iterable[LogFile],
    lineage: Sequence[EpochLine],
    metadata: TierEvents,
    log_start: int | None = None,
) -> Joined:
    """The whole log: the segments of the tier below the first local one, then the local ones.

    Args:
        local: the replica's segments, in order.
        tiered: the partition's `.log` files of a tier.
        lineage: of the replica's `leader-epoch-checkpoint`. What lies below its first entry is accepted.
        metadata: the result of `tier_metadata`; a copy that is not finished, or is being deleted, does not count.
            Empty: the names alone are known, and all count.
        log_start: segments that end below are left out.
    """
    copies: list[_Copy] = []
    unknown: list[LogFile] = []
    damaged = list(metadata.damage)
    for file in tiered:
        known = metadata.get(segment_id(file))
        if metadata and (known is None or known.state != COPY_FINISHED):
            continue
        base = file.offset or 0
        if known is not None and known.end >= 0:
            end = known.end + 1
        else:
            end, certain = copied_end(file)
            unknown += [] if certain else [file]
        checkpoint = file.beside("leader_epoch_checkpoint")
        data = content_of(checkpoint)
        damaged += epoch_damage(checkpoint, data)
        left_at = leaves_lineage(epoch_lines(data), lineage, base)
        if left_at is not None and left_at < end:
            end, file = left_at, replace(file, limit=_position(file, left_at))
        if end > base:
            copies.append(_Copy(base, end, file))
    copies.sort(key=lambda copy: copy[:2])
    stop = (local[0].offset or 0) if local else None
    start = min((copy.base for copy in copies), default=stop or 0) if log_start is None else log_start
    chain, missing = _chain(copies, start, _FAR if stop is None else stop)
    found = []
    following: int | None
    for copy, following in zip(chain, [*(after.base for after in chain[1:]), stop], strict=False):
        if following is not None and following < copy.end:
            found.append(replace(copy.file, limit=_position(copy.file, following)))
        else:
            found.append(copy.file)
    return Joined((*found, *local), tuple(missing), tuple(unknown), tuple(damaged))


class _Copy(NamedTuple):
    """A copy of a segment: its first offset, and the one after the last that belongs to the log."""

    base: int
    end: int
    file: LogFile


def _chain(copies: Sequence[_Copy], start: int, stop: int) -> tuple[list[_Copy], list[tuple[int, int]]]:
    """The copies that cover the offsets from `start` up to `stop`, and the ranges that no copy has. `copies`: by their
    first offset."""
    chain: list[_Copy] = []
    missing = []
    reached, farthest, at = start, None, 0
    while reached < stop:
        while at < len(copies) and copies[at].base <= reached:
            if farthest is None or copies[at].end > farthest.end:
                farthest = copies[at]
            at += 1
        if farthest is not None and farthest.end > reached:
            chain.append(farthest)
            reached = farthest.end
        elif at < len(copies) and copies[at].base < stop:
            missing.append((reached, copies[at].base))
            reached = copies[at].base
        else:
            missing += [(reached, stop)] if stop < _FAR else []
            break
    return chain, missing


_FAR = 1 << 63


def lineage_of(tiered: Iterable[LogFile]) -> list[EpochLine]:
    """The leader epochs of the newest copy of a tier, for a log of which no replica is at hand."""
    found = [copied_epochs(file) for file in tiered]
    return max(found, key=lambda lines: (lines[-1].epoch, lines[-1].start_offset) if lines else (-1, -1), default=[])


def snapshots(
    segments: Sequence[LogFile], present: frozenset[str], missing: Iterable[tuple[int, int]] = ()
) -> list[LogFile]:
    """The `.snapshot` files of a tier's segments. Each was copied under the name of its segment and holds the state at
    the end of it: that is its `offset` here.

    Args:
        segments: of a joined log. `missing`: the ranges of offsets that it has not.
        present: paths of the files that there are.
    """
    found = []
    ends = {end: start for start, end in missing}
    for file, after in pairwise(segments):
        snapshot = file.beside("snapshot")
        if file.state == TIERED and file.limit is None and snapshot.path in present:
            found.append(replace(snapshot, offset=ends.get(after.offset or 0, after.offset)))
    return found


def leaves_lineage(epochs: Sequence[EpochLine], lineage: Sequence[EpochLine], base: int) -> int | None:
    """The first offset of a segment whose leader epoch is not the one of the lineage there; None without one. `epochs`:
    of the segment. `base`: its first offset."""
    starts = [line.start_offset for line in lineage]
    for line, after in pairwise([*epochs, None]):
        assert line is not None
        first, end = max(line.start_offset, base), None if after is None else after.start_offset
        if end is not None and end <= base:
            continue  # a segment's checkpoint begins with the log
        for offset in [first, *(start for start in starts if start > first and (end is None or start < end))]:
            at = bisect_right(starts, offset) - 1
            # The last epoch of a segment says nothing on where it ends: after the segment the lineage may go on.
            if at >= 0 and lineage[at].epoch != line.epoch:
                return offset
    return None


def copied_epochs(file: LogFile) -> list[EpochLine]:
    """The leader epochs in the checkpoint that was copied with the segment; empty where it cannot be read."""
    return epoch_lines(content_of(file.beside("leader_epoch_checkpoint")))


def content_of(file: LogFile) -> bytes | Damage:
    """A small file; empty where it does not exist."""
    try:
        return file.content()
    except FileNotFoundError:
        return b""
    except OSError as error:
        return Damage.unreadable(error)


def epoch_lines(data: bytes | Damage) -> list[EpochLine]:
    """The readable lines of a `leader-epoch-checkpoint`."""
    return [] if isinstance(data, Damage) else [line for line in leader_epochs(data) if isinstance(line, EpochLine)]


def epoch_damage(file: LogFile, data: bytes | Damage) -> list[tuple[LogFile, Damage]]:
    """What is damaged in a `leader-epoch-checkpoint`, with the file."""
    found = [data] if isinstance(data, Damage) else leader_epochs(data)
    return [(file, one) for one in found if isinstance(one, Damage)]


def copied_end(file: LocatedFile) -> tuple[int, bool]:
    """The offset after the last batch of a segment, at least the one after its base; and whether all can be read."""
    end, certain = (file.offset or 0) + 1, True
    try:
        start = start_position(file, Selection(offsets=(_FAR - 1, None)))
        for batch in file.batches(start=start, check_crc=False):
            if isinstance(batch, Batch):
                end = max(end, batch.last_offset + 1)
            else:
                certain = certain and batch.harmless
    except OSError:  # reading the segment reports it
        certain = False
    return end, certain


def _position(file: LogFile, offset: int) -> int | None:
    """Where the first batch from an offset on begins in a segment; None where there is none, or it cannot be read."""
    try:
        start = start_position(file, Selection(offsets=(offset, None)))
        for batch in file.batches(start=start, check_crc=False):
            if isinstance(batch, Batch) and batch.base_offset >= offset:
                return batch.position
    except OSError:  # reading the segment reports it
        pass
    return None
