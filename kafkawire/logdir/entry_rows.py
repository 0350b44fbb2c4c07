"""The rows of the entries of small files."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from kafkawire import rows
from kafkawire.logdir.entries import FileEntry
from kafkawire.logdir.located_file import LocatedFile

#: kind of file -> row of an entry
ROWS: dict[str, type[rows.Row]] = {
    "index": rows.Index,
    "timeindex": rows.TimeIndex,
    "txnindex": rows.TxnIndex,
    "snapshot": rows.Snapshot,
    "epochs": rows.Epoch,
    "checkpoint": rows.Checkpoint,
    "partition-metadata": rows.PropertyRow,
    "meta-properties": rows.PropertyRow,
    "quorum-state": rows.PropertyRow,
    "clean-shutdown": rows.PropertyRow,
    "rsm-manifest": rows.PropertyRow,
}


def row_of(entry: FileEntry, file: LocatedFile) -> rows.Row:
    """The row of an entry: its fields, and those of the message that it holds."""
    fields: dict[str, Any] = {**file.place, **asdict(entry)}  # a line of a checkpoint has a topic of its own
    message = fields.pop("aborted", None) or fields.pop("producer", None)
    if message is not None:
        fields |= asdict(message)
        del fields["unknown_tagged_fields"]
    if "relative_offset" in fields:
        fields["offset"] = (file.offset or 0) + fields.pop("relative_offset")
    elif file.kind == "snapshot":
        fields["offset"] = file.offset
    elif file.kind == "checkpoint":
        fields["name"] = file.name
    return ROWS[file.kind](**fields)
