"""The rows of the entries of small files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire import rows
from kafkawire.logdir.entries import (
    AbortedEntry,
    CheckpointLine,
    EpochLine,
    FileEntry,
    OffsetEntry,
    Property,
    SnapshotEntry,
    TimeEntry,
)
from kafkawire.logdir.located_file import LocatedFile


def _place(entry: FileEntry, file: LocatedFile) -> dict[str, Any]:
    return {**file.place, "position": entry.position}


def _index(entry: OffsetEntry, file: LocatedFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.Index(**_place(entry, file), offset=offset, log_position=entry.log_position)


def _time_index(entry: TimeEntry, file: LocatedFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.TimeIndex(**_place(entry, file), timestamp=entry.timestamp, offset=offset)


def _aborted(entry: AbortedEntry, file: LocatedFile) -> rows.Row:
    aborted = entry.aborted
    return rows.TxnIndex(
        **_place(entry, file),
        version=entry.version,
        producer_id=aborted.producer_id,
        first_offset=aborted.first_offset,
        last_offset=aborted.last_offset,
        last_stable_offset=aborted.last_stable_offset,
    )


def _snapshot(entry: SnapshotEntry, file: LocatedFile) -> rows.Row:
    producer = entry.producer
    return rows.Snapshot(
        **_place(entry, file),
        offset=file.offset,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_offset=producer.last_offset,
        offset_delta=producer.offset_delta,
        timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=producer.current_txn_first_offset,
    )


def _epoch(entry: EpochLine, file: LocatedFile) -> rows.Row:
    return rows.Epoch(**_place(entry, file), epoch=entry.epoch, start_offset=entry.start_offset)


def _checkpoint(entry: CheckpointLine, file: LocatedFile) -> rows.Row:
    place = _place(entry, file) | {"topic": entry.topic, "partition": entry.partition}
    return rows.Checkpoint(**place, name=file.name, offset=entry.offset)


def _property(entry: Property, file: LocatedFile) -> rows.Row:
    return rows.PropertyRow(**_place(entry, file), name=entry.name, value=entry.value)


#: kind of file -> row of what its reader yields
ROWS: dict[str, Callable[[Any, LocatedFile], rows.Row]] = {
    "index": _index,
    "timeindex": _time_index,
    "txnindex": _aborted,
    "snapshot": _snapshot,
    "epochs": _epoch,
    "checkpoint": _checkpoint,
    "partition-metadata": _property,
    "meta-properties": _property,
    "quorum-state": _property,
    "clean-shutdown": _property,
    "rsm-manifest": _property,
}
