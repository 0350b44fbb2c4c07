"""What the names of files and directories in a broker's log directory mean (Kafka's `LogFileUtils`, `UnifiedLog`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from kafkawire.records.header import HIGHEST_OFFSET

_PARTITION = re.compile(
    r"(?P<topic>.+?)-(?P<partition>\d{1,10})(?:\.[0-9a-f]{32}-(?P<state>delete|future|stray))?",
    re.ASCII | re.DOTALL,  # no topic of Kafka's has a newline, and a directory of that name is not passed over
)
_STATES = "deleted|cleaned|swap|future"
_SEGMENT = re.compile(
    rf"(?P<offset>\d{{20}})\.(?P<kind>log|index|timeindex|txnindex|snapshot)(?:\.(?P<state>{_STATES}))?", re.ASCII
)
#: Directory beside those of partitions: indexes fetched from tiered storage (`RemoteIndexCache`).
REMOTE_INDEXES = "remote-log-index-cache"
#: `<first offset>_<segment's uuid>.index` there.
_CACHED_INDEX = re.compile(
    r"(?P<offset>\d{1,19})_[A-Za-z0-9_-]{22}\.(?P<kind>index|timeindex|txnindex)(?:\.(?P<state>deleted|tmp))?", re.ASCII
)
#: While one is written, a random number follows (`Snapshots.moveRename`).
_KRAFT_SNAPSHOT = re.compile(
    r"(?P<offset>\d{20})-\d{10}(?:-\d+)?\.(?P<kind>checkpoint)(?:\.(?P<state>deleted|part))?", re.ASCII
)
_TEMPORARY = ".tmp"
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://", re.ASCII)

_NAMED = {
    "leader-epoch-checkpoint": "epochs",
    "partition.metadata": "partition-metadata",
    "meta.properties": "meta-properties",
    "quorum-state": "quorum-state",
    "bootstrap.checkpoint": "kraft-snapshot",
    ".kafka_cleanshutdown": "clean-shutdown",
    ".lock": "lock",
    "cleaner-offset-checkpoint": "checkpoint",
    "log-start-offset-checkpoint": "checkpoint",
    "recovery-point-offset-checkpoint": "checkpoint",
    "replication-offset-checkpoint": "checkpoint",
}

#: Kinds of files in a partition's directory, which distinguish it from others of a similar name (`broker-1`).
PARTITION_KINDS = frozenset(
    {
        "log",
        "index",
        "timeindex",
        "txnindex",
        "snapshot",
        "epochs",
        "partition-metadata",
        "kraft-snapshot",
        "quorum-state",
    }
)


_HIGHEST_PARTITION = (1 << 31) - 1


class PartitionName(NamedTuple):
    """A partition's directory: `orders-0`, or `orders-0.<uuid>-delete` while it is removed or moved (`state`)."""

    topic: str
    partition: int
    state: str


class FileName(NamedTuple):
    """A file: its kind, the offset in its name, and the suffix that it has while it is replaced or removed."""

    kind: str
    offset: int | None
    state: str


def partition_name(name: str) -> PartitionName | None:
    """The parts of a partition directory's name; None for a name that no partition has."""
    found = _PARTITION.fullmatch(name)
    if found is None or int(found["partition"]) > _HIGHEST_PARTITION:
        return None
    return PartitionName(found["topic"], int(found["partition"]), found["state"] or "")


def file_name(name: str) -> FileName | None:
    """The parts of a file's name; None for a name that Kafka does not give."""
    plain = name.removesuffix(_TEMPORARY)
    if plain in _NAMED:
        return FileName(_NAMED[plain], None, "" if plain == name else "tmp")
    for pattern in (_SEGMENT, _CACHED_INDEX, _KRAFT_SNAPSHOT):
        found = pattern.fullmatch(name)
        if found:
            offset, kind = int(found["offset"]), found["kind"]
            known = FileName("kraft-snapshot" if kind == "checkpoint" else kind, offset, found["state"] or "")
            return known if offset <= HIGHEST_OFFSET else None
    return None


def is_uri(path: str) -> bool:
    """Whether a path is one of another store, such as `s3://bucket/kafka-logs`."""
    return _URI.match(path) is not None
