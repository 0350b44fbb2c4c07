"""The offsets that MirrorMaker 2 states (offset-syncs, and checkpoints of groups), compared with two copies.

An offset-sync states that a record of the source is the record at an offset of the mirror. A checkpoint states where a
group that stands at an offset of the source goes on in the mirror: it may get records once more, and must miss none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkawire import offsets
from kafkawire.embedded import MirrorCheckpointKey, MirrorCheckpointValue, MirrorOffsetSyncKey, MirrorOffsetSyncValue
from kafkawire.errors import RecordError
from kafkawire.logdir import LogDirectory
from kafkawire.logdir.transaction_states import COMMITTED, NONE
from kafkawire.offsets.group_records import GroupLog
from kafkawire.records import Record
from kafkawire.records.array_types import Int64
from kafkawire.records.decoded_message import RecordMessages
from kafkawire.records.mirror_topics import mirror_messages
from kafkawire.rows import MirroredOffset
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import newest_first
from kafkawire.witness.record_order import OrderedRecords


class MirrorOffsets:
    """The newest copies of MirrorMaker's topics in log directories.

    Args:
        directories: of the source and of the mirror; either may have them.

    Attributes:
        problems: what cannot be read, a sentence each.

    Raises:
        OSError: a file cannot be read.
    """

    def __init__(self, *directories: LogDirectory) -> None:
        self._syncs: dict[Place, list[tuple[int, int]]] = {}
        self._checkpoints: dict[tuple[str, Place], tuple[int, int]] = {}
        self.problems: list[str] = []
        seen: set[str] = set()
        for directory in directories:
            places = {
                (one.topic, one.partition)
                for one in directory.partitions
                if one.topic is not None and one.partition is not None and mirror_messages(one.topic)
            }
            for place in sorted(places):
                found = newest_first(offsets.replicas(directory, *place))
                for replica in found[:1]:
                    if replica.partition.path not in seen:
                        seen.add(replica.partition.path)
                        self._read(GroupLog(replica.partition))

    def _read(self, log: GroupLog) -> None:
        messages = mirror_messages(log.partition.topic)
        assert messages is not None
        high = log.outcomes.high_watermark
        for batch, state in log.data_batches():
            if state not in (NONE, COMMITTED) or batch.base_offset >= high:
                continue
            try:
                for record in batch.records:
                    self._take(log.partition.path, messages, record)
            except RecordError as error:
                self.problems.append(f"{log.partition.path}: offset {batch.base_offset}: {error}")
        self.problems += log.problems

    def _take(self, path: str, messages: RecordMessages, record: Record) -> None:
        if record.key is None or record.value is None or messages.key is None or messages.value is None:
            return
        read = messages.key.read(bytes(record.key)), messages.value.read(bytes(record.value))
        key, value = (one.message for one in read)
        if isinstance(key, MirrorOffsetSyncKey) and isinstance(value, MirrorOffsetSyncValue):
            syncs = self._syncs.setdefault((key.topic, key.partition), [])
            syncs.append((value.upstream_offset, value.downstream_offset))
        elif isinstance(key, MirrorCheckpointKey) and isinstance(value, MirrorCheckpointValue):
            where = key.group, (key.topic, key.partition)
            self._checkpoints[where] = value.upstream_offset, value.downstream_offset
        else:
            problem = next((one.problem for one in read if one.problem), "no message")
            self.problems.append(f"{path}: offset {record.offset}: {problem}")

    def checked(self, place: Place, topic_b: str, a: OrderedRecords, b: OrderedRecords) -> _Checked:
        """The statements on a partition, checked by the records of both copies.

        Args:
            place: in the source. topic_b: its name in the mirror.
        """
        rows: list[MirroredOffset] = []
        syncs = self._syncs.get(place, [])
        unknown = 0
        for source, mirror in syncs:
            same = _same_record(a, source, b, mirror)
            unknown += same is None
            if same is False:
                rows.append(_row("sync", "other_record", place, source, mirror))
        for (group, where), (source, mirror) in sorted(self._checkpoints.items()):
            if where == (topic_b, place[1]):
                rows.append(_checkpoint(group, place, source, mirror, a, b))
        return _Checked(len(syncs), unknown, rows)


class _Checked(NamedTuple):
    """`syncs`: their number; `unknown`: of those whose records are not in both copies. `rows`: of syncs that are wrong,
    and of all checkpoints."""

    syncs: int
    unknown: int
    rows: list[MirroredOffset]


def _at(records: OrderedRecords, offset: int) -> int | None:
    """The digest of the record at an offset."""
    place = int(np.searchsorted(records.offset, offset))
    there = place < len(records.offset) and records.offset[place] == offset
    return int(records.digest[place]) if there else None


def _same_record(a: OrderedRecords, source: int, b: OrderedRecords, mirror: int) -> bool | None:
    one, other = _at(a, source), _at(b, mirror)
    return None if one is None or other is None else one == other


def _checkpoint(
    group: str, place: Place, source: int, mirror: int, a: OrderedRecords, b: OrderedRecords
) -> MirroredOffset:
    """A group that stands at `source` goes on at `mirror`. Records that are in a copy twice prove nothing."""
    at_a, at_b = _pairs(a, b)
    missed = int(((at_a >= source) & (at_b < mirror)).sum())
    again = int(((at_a < source) & (at_b >= mirror)).sum())
    result = "skips" if missed else "same" if len(at_a) else "unknown"
    return _row("checkpoint", result, place, source, mirror, group=group, missed=missed, again=again)


def _row(
    said_by: str,
    result: str,
    place: Place,
    source: int,
    mirror: int,
    *,
    group: str | None = None,
    missed: int | None = None,
    again: int | None = None,
) -> MirroredOffset:
    return MirroredOffset(
        said_by=said_by,
        result=result,
        group=group,
        topic=place[0],
        partition=place[1],
        offset_a=source,
        offset_b=mirror,
        missed=missed,
        again=again,
    )


def _pairs(a: OrderedRecords, b: OrderedRecords) -> tuple[Int64, Int64]:
    """The offsets of records that are once in each copy."""
    (one, at_one, times_one), (other, at_other, times_other) = (
        np.unique(found.digest, return_index=True, return_counts=True) for found in (a, b)
    )
    _, first, second = np.intersect1d(one[times_one == 1], other[times_other == 1], return_indices=True)
    return a.offset[at_one[times_one == 1][first]], b.offset[at_other[times_other == 1][second]]
