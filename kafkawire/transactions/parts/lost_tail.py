"""`lost_tail`: evidence that a log went on after the last batch that could be read.

A preallocated segment ends with zeros, and the copy of a running broker ends anywhere. A broker writes a `.snapshot`
of an offset, an index entry of a batch or an aborted transaction, and a high watermark once the records before are in
the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkawire import rows
from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.entries import AbortedEntry
from kafkawire.logdir.indexes import aborted_transactions
from kafkawire.logdir.seek import index_entries
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage
from kafkawire.transactions.facts import Segment
from kafkawire.transactions.parts.replica_files import read_snapshot


class LostTail(NamedTuple):
    """Records that were in a log after its last batch.

    Attributes:
        damage: where they were. at_end: some were after the last batch of all.
        entries: of the newest `.snapshot`, where that is of an offset after that batch.
    """

    damage: tuple[rows.DamageRow, ...] = ()
    at_end: bool = False
    entries: tuple[ProducerEntry, ...] = ()


def lost_tail(partition: Partition, segments: list[Segment]) -> LostTail:
    """What is lost at the end of a replica's segments, and within those that end with zeros.

    Args:
        segments: all of the partition, in order, as they were read.
    """
    if not segments:
        return LostTail()
    files, end = partition.segments, segments[-1].end_offset
    ends = [segment.base_offset for segment in segments[1:]]
    damage = [
        _zeros(file, segment, f"the next segment begins at offset {following}")
        for file, segment, following in zip(files, segments, ends, strict=False)
        if segment.zeros_at is not None and segment.end_offset < following
    ]
    last = segments[-1]
    newest = partition.snapshots[-1] if partition.snapshots else None
    beyond = newest is not None and (newest.offset or 0) > end
    shown = None
    if last.zeros_at is not None:  # only zeros can be in place of records
        evidence = list(_evidence(partition, last))
        shown = next((one for one in evidence if isinstance(one, str)), None)
        damage += [one for one in evidence if not isinstance(one, str)]
    if shown is not None:
        damage.append(_zeros(files[-1], last, shown))
    elif beyond and newest is not None:
        what = f"the log ends at offset {end}, and this is a snapshot of offset {newest.offset}"
        damage.append(rows.DamageRow.of(Damage(0, "missing", what), **newest.place))
    at_end = beyond or shown is not None
    return LostTail(tuple(damage), at_end, tuple(read_snapshot(partition)[0]) if beyond else ())


def _zeros(file: LogFile, segment: Segment, shown: str) -> rows.DamageRow:
    detail = f"zero bytes up to the end, where offsets from {segment.end_offset} on were: {shown}"
    return rows.DamageRow.of(Damage(segment.zeros_at or 0, "zeros", detail), **file.place)


def _evidence(partition: Partition, last: Segment) -> Iterator[str | rows.DamageRow]:
    """What shows that the last segment had more records, as sentences; and the indexes that cannot be asked. A log that
    was fetched has none."""
    end, newest = last.end_offset, max((one.offset or 0 for one in partition.snapshots), default=0)
    if newest > end:
        yield f"there is a snapshot of offset {newest}"
    high_watermark = partition.high_watermark
    if high_watermark is not None and high_watermark > end:
        yield f"the high watermark is {high_watermark}"
    for index in (*partition.used("index"), *partition.used("timeindex")):
        if index.offset == last.base_offset:
            try:
                entries = index_entries(index)
            except OSError as error:
                entries = Damage.unreadable(error)
            if isinstance(entries, Damage):
                yield rows.DamageRow.of(entries, **index.place)
            elif len(entries) and (offset := last.base_offset + int(entries["relative_offset"][-1])) >= end:
                yield f"its .{index.kind} has an entry of offset {offset}"
    for aborted in partition.used("txnindex"):
        if aborted.offset == last.base_offset:
            try:
                with aborted.source() as source:
                    found = (one for one in aborted_transactions(source) if isinstance(one, AbortedEntry))
                    reached = max((one.aborted.last_offset for one in found), default=-1)
            except OSError as error:
                yield rows.DamageRow.of(Damage.unreadable(error), **aborted.place)
            else:
                if reached >= end:
                    yield f"its .txnindex has an entry of offset {reached}"
