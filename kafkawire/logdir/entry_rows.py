"""The rows of the entries of small files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from kafkawire import rows
from kafkawire.logdir import entries
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry


def _place(entry: entries.FileEntry, file: LocatedFile) -> dict[str, Any]:
    return {**file.place, "position": entry.position}


def _index(entry: entries.OffsetEntry, file: LocatedFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.Index(**_place(entry, file), offset=offset, log_position=entry.log_position)


def _time_index(entry: entries.TimeEntry, file: LocatedFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.TimeIndex(**_place(entry, file), timestamp=entry.timestamp, offset=offset)


def _aborted(entry: entries.AbortedEntry, file: LocatedFile) -> rows.Row:
    return rows.TxnIndex(**_place(entry, file), version=entry.version, **_fields(entry.aborted))


def _snapshot(entry: entries.SnapshotEntry, file: LocatedFile) -> rows.Row:
    return rows.Snapshot(**_place(entry, file), offset=file.offset, **_fields(entry.producer))


def _epoch(entry: entries.EpochLine, file: LocatedFile) -> rows.Row:
    return rows.Epoch(**file.place, **asdict(entry))


def _checkpoint(entry: entries.CheckpointLine, file: LocatedFile) -> rows.Row:
    return rows.Checkpoint(**{**file.place, **asdict(entry)}, name=file.name)


def _property(entry: entries.Property, file: LocatedFile) -> rows.Row:
    return rows.PropertyRow(**file.place, **asdict(entry))


def _fields(message: AbortedTxn | ProducerEntry) -> dict[str, Any]:
    """The fields of a message, which are those of its row."""
    found = asdict(message)
    del found["unknown_tagged_fields"]
    return found


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
