"""The meaning of the names of files and directories, in a broker's log directory (Kafka's `LogFileUtils`,
`UnifiedLog`), and in a tier (KIP-405) of `LocalTieredStorage` (`RemoteTopicPartitionDirectory`,
`RemoteLogSegmentFileset`) or of Aiven's plugin (`ObjectKeyFactory`)."""

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
_UUID = "[A-Za-z0-9_-]{22}"
#: State of a partition that was copied to a tier, and of its files.
TIERED = "tiered"
_TIERED_PARTITION = re.compile(rf"(?P<topic>.+)-(?P<partition>\d{{1,10}})-{_UUID}", re.ASCII | re.DOTALL)
#: The names of folders of Aiven's plugin: one for a topic, and in it one for each partition.
_OBJECTS_TOPIC = re.compile(rf"(?P<topic>.+)-{_UUID}", re.ASCII | re.DOTALL)
_OBJECTS_PARTITION = re.compile(r"\d{1,10}", re.ASCII)
_TIERED_SEGMENT = re.compile(
    rf"(?P<offset>\d{{20}})-{_UUID}\."
    r"(?P<kind>log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint|indexes|rsm-manifest)(?P<state>)",
    re.ASCII,
)  # fmt: skip
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
#: Suffixes of files that are no kind's name -> the kind.
_KINDS = {"checkpoint": "kraft-snapshot", "leader_epoch_checkpoint": "epochs"}

#: Kinds of files in a partition's directory, which distinguish it from others of a similar name (`broker-1`).
PARTITION_KINDS = frozenset({
    "log", "index", "timeindex", "txnindex", "snapshot", "epochs", "partition-metadata", "kraft-snapshot",
    "quorum-state", "rsm-manifest",
})  # fmt: skip

_HIGHEST_PARTITION = (1 << 31) - 1


class PartitionName(NamedTuple):
    """A partition's directory: `orders-0`; `orders-0.<uuid>-delete` while it is removed or moved (`state`); in a tier
    `orders-0-<topic id>`."""

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
    return None if found is None else _partition(found["topic"], found["partition"], found["state"] or "")


def tiered_partition_name(name: str) -> PartitionName | None:
    """The parts of the name that a partition's directory has in a tier; None for another name."""
    found = _TIERED_PARTITION.fullmatch(name)
    return None if found is None else _partition(found["topic"], found["partition"], TIERED)


def objects_partition_name(topic: str, partition: str) -> PartitionName | None:
    """The parts of the names of the two folders that a partition has in a tier of Aiven's plugin; None for others."""
    found = _OBJECTS_TOPIC.fullmatch(topic)
    numbered = _OBJECTS_PARTITION.fullmatch(partition) is not None
    return None if found is None or not numbered else _partition(found["topic"], partition, TIERED)


def _partition(topic: str, number: str, state: str) -> PartitionName | None:
    return None if int(number) > _HIGHEST_PARTITION else PartitionName(topic, int(number), state)


def is_tiered(name: str) -> bool:
    """Whether a file has the name that a tier gives to a file of a segment."""
    return name[20:21] == "-" and _TIERED_SEGMENT.fullmatch(name) is not None


def file_name(name: str) -> FileName | None:
    """The parts of a file's name; None for a name that Kafka does not give."""
    found = _SEGMENT.fullmatch(name)  # nearly all files of a broker
    if found is None:
        plain = name.removesuffix(_TEMPORARY)
        if plain in _NAMED:
            return FileName(_NAMED[plain], None, "" if plain == name else "tmp")
        others = (pattern.fullmatch(name) for pattern in (_CACHED_INDEX, _KRAFT_SNAPSHOT, _TIERED_SEGMENT))
        found = next(filter(None, others), None)
    if found is None:
        return None
    offset, kind = int(found["offset"]), found["kind"]
    known = FileName(_KINDS.get(kind, kind), offset, found["state"] or "")
    return known if offset <= HIGHEST_OFFSET else None


def is_uri(path: str) -> bool:
    """Whether a path is one of another store, such as `s3://bucket/kafka-logs`."""
    return _URI.match(path) is not None
