"""Entries of small files, each with its position. Readers yield them, and `Damage` between them."""

from __future__ import annotations

import msgspec

from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry


class FileEntry(msgspec.Struct, frozen=True, gc=False):
    """Base class of entries: each begins at `position` in the file."""

    position: int


class OffsetEntry(FileEntry, frozen=True, gc=False):
    relative_offset: int
    log_position: int


class TimeEntry(FileEntry, frozen=True, gc=False):
    timestamp: int
    relative_offset: int


class AbortedEntry(FileEntry, frozen=True, gc=False):
    version: int
    aborted: AbortedTxn


class SnapshotEntry(FileEntry, frozen=True, gc=False):
    producer: ProducerEntry


class CheckpointLine(FileEntry, frozen=True, gc=False):
    """A line of a broker's checkpoint file: an offset of a partition."""

    topic: str
    partition: int
    offset: int


class EpochLine(FileEntry, frozen=True, gc=False):
    epoch: int
    start_offset: int


class Property(FileEntry, frozen=True, gc=False):
    name: str
    value: str
