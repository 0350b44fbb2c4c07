"""Replays of log directories, beside what the broker wrote there itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.entries import AbortedEntry, SnapshotEntry
from kafkawire.logdir.indexes import aborted_transactions, producer_snapshot
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Batch
from kafkawire.transactions import Replay, append_of, outcome_of, read_committed

States = dict[int, list[ProducerEntry]]
Index = dict[int, list[AbortedTxn]]


def snapshot_entries(file: LogFile) -> list[ProducerEntry]:
    """The entries of a `.snapshot`, by producer id."""
    found = []
    for item in producer_snapshot(file.read_bytes()):
        assert isinstance(item, SnapshotEntry), item
        found.append(item.producer)
    return sorted(found, key=lambda entry: entry.producer_id)


def written_states(partition: Partition) -> States:
    """What the broker wrote: {offset: entries} of the `.snapshot` files."""
    return {file.offset or 0: snapshot_entries(file) for file in partition.snapshots}


def written_index(partition: Partition) -> Index:
    """What the broker wrote: {segment's base offset: entries} of the `.txnindex` files that have some."""
    found: Index = defaultdict(list)
    for file in partition.txn_indexes:
        with file.source() as source:
            for item in aborted_transactions(source):
                assert isinstance(item, AbortedEntry), item
                found[file.offset or 0].append(item.aborted)
    return dict(found)


def replayed(
    partition: Partition, offsets: Iterable[int], entries: Iterable[ProducerEntry] = (), start: int = 0
) -> tuple[States, Index]:
    """The same from the log: the states before `offsets`, and the aborted transactions by segment.

    Args:
        entries: the state before `start`, where the replay begins.
    """
    replay = Replay(entries)
    waiting = sorted(offset for offset in offsets if offset >= start)
    states: States = {}
    index: Index = defaultdict(list)
    for segment in partition.segments:
        for batch in segment.batches():
            assert isinstance(batch, Batch), batch
            if batch.last_offset < start:
                continue
            while waiting and batch.base_offset >= waiting[0]:
                states[waiting.pop(0)] = replay.snapshot()
            append = append_of(batch)
            ended = None if append is None else replay.add(append)
            if ended is not None and ended.aborted is not None:
                index[segment.offset or 0].append(ended.aborted)
    states |= {offset: replay.snapshot() for offset in waiting}
    return states, dict(index)


def view(partition: Partition) -> tuple[int, list[list[Any]]]:
    """The last stable offset, and what read_committed leaves: [[offset, key, value], ...] as text."""
    start = partition.log_start_offset or 0
    aborted, stable = outcome_of(partition, high_watermark=partition.high_watermark, log_start=start)
    return stable, [
        [record.offset, _text(record.key), _text(record.value)]
        for batch in read_committed(partition, aborted, stable)
        for record in batch.records
        if record.offset >= start
    ]


def assert_replayed(partition: Partition, *, compacted: bool = False) -> int:
    """Holds every `.snapshot` and `.txnindex` of the partition against its log, entry by entry. Returns how many.

    Where the log begins behind offset 0, its snapshots may know producers that it does not show any more: then every
    producer that it shows is the same, and from the first snapshot on, each next one follows to the last entry.

    Args:
        compacted: batches were removed since the snapshots were written. The cleaner keeps each producer's last one,
            so that the newest snapshot still follows; older ones may not.
    """
    written, index = written_states(partition), written_index(partition)
    if compacted:
        written = {offset: written[offset] for offset in sorted(written)[-1:]}
    start = partition.log_start_offset or 0
    states, aborted = replayed(partition, written, start=start)
    assert aborted == index, partition
    if not start:
        assert states == written, partition
    elif written:
        for offset, entries in states.items():
            assert {entry.producer_id for entry in entries} <= {entry.producer_id for entry in written[offset]}
        first = min(written)
        chained, _ = replayed(partition, written, written[first], first)
        assert chained == written, partition
    return sum(map(len, written.values())) + sum(map(len, index.values()))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
