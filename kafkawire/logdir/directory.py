"""`open`: a broker's log directory, several of them, one partition's directory, or one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from kafkawire._java_numbers import INT32, whole_number
from kafkawire.logdir.entries import AbortedEntry, CheckpointLine, EpochLine, Property, SnapshotEntry
from kafkawire.logdir.file_names import TIERED, is_uri
from kafkawire.logdir.folders import Links, Unreadable, listings
from kafkawire.logdir.indexes import aborted_transactions, producer_snapshot
from kafkawire.logdir.located_file import UNKNOWN
from kafkawire.logdir.log_files import LogFile, log_file, partition_of, segment_names
from kafkawire.logdir.swaps import SWAP, in_use
from kafkawire.logdir.text_files import leader_epochs, offset_checkpoint, properties
from kafkawire.logdir.tier_keys import private_key
from kafkawire.logdir.tiers import (
    Joined,
    TierEvents,
    by_partition,
    content_of,
    epoch_damage,
    epoch_lines,
    join,
    lineage_of,
    snapshots,
    tier_metadata,
    topic_id,
    uuid_of,
)
from kafkawire.records import Batch, Damage
from kafkawire.records.internal_topics import REMOTE_LOG_METADATA

EPOCHS = "leader-epoch-checkpoint"
PROPERTIES = "meta.properties"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"

#: The files that name the partitions of a log directory.
CHECKPOINTS = (HIGH_WATERMARKS, LOG_STARTS, CLEANED, RECOVERY_POINTS)
#: Properties that name the broker, of KRaft and of ZooKeeper.
_NODE_IDS = ("node.id", "broker.id")


class BrokerDirectory:
    """The files of a whole log directory: its `meta.properties` and checkpoint files.

    Attributes:
        root: the directory's path. `member`: a file in it, or in a folder of it.
    """

    def __init__(self, root: str, member: LogFile) -> None:
        self.root = root
        self._member = member
        self._read: dict[str, tuple[Any, ...]] = {}
        self._missing: set[str] = set()

    @cached_property
    def properties(self) -> dict[str, str]:
        """The names and values in `meta.properties`; empty where there is none."""
        return {p.name: p.value for p in self._entries(PROPERTIES) if isinstance(p, Property)}

    @property
    def node_id(self) -> int | None:
        """The broker's id; None where the directory does not contain it."""
        text = self.properties.get("node.id") or self.properties.get("broker.id") or ""
        return whole_number(text, INT32)

    @cached_property
    def damage(self) -> tuple[tuple[str, Damage], ...]:
        """The damage in those files, each with its file's path."""
        found = [(name, entry) for name in (PROPERTIES, *CHECKPOINTS) for entry in self._entries(name)]
        damaged = [(os.path.join(self.root, name), entry) for name, entry in found if isinstance(entry, Damage)]
        for entry in self._entries(PROPERTIES):
            if isinstance(entry, Property) and entry.name in _NODE_IDS and whole_number(entry.value, INT32) is None:
                what = f"{entry.name} is no broker's id: {entry.value[:50]!r}"
                damaged.append((os.path.join(self.root, PROPERTIES), Damage(entry.position, "bad_line", what)))
        return tuple(damaged)

    def damage_for(self, topic: str, partition: int) -> Iterator[tuple[str, Damage]]:
        """The damage in checkpoints that may hide the line of a partition: in those that have no other line of it."""
        for name in CHECKPOINTS:
            entries = self._entries(name)
            if not any(isinstance(e, CheckpointLine) and (e.topic, e.partition) == (topic, partition) for e in entries):
                yield from ((os.path.join(self.root, name), entry) for entry in entries if isinstance(entry, Damage))

    @property
    def directory_id(self) -> UUID | None:
        """The directory's own id (KIP-858); None where it has none."""
        return uuid_of(self.properties.get("directory.id") or "")

    @property
    def checkpoints(self) -> dict[str, dict[tuple[str, int], int]]:
        """The offsets of partitions in each of its checkpoints, by path."""
        return {os.path.join(self.root, name): self._offsets(name) for name in CHECKPOINTS}

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None where the directory does not contain it."""
        return self.properties.get("cluster.id") or None

    @cached_property
    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark of each partition, as last written: a broker writes them every 5 s and at shutdown."""
        return self._offsets(HIGH_WATERMARKS)

    @cached_property
    def log_starts(self) -> dict[tuple[str, int], int]:
        """The log start offset of each partition whose log starts after the first offset of its first segment; with
        tiered storage, of all partitions."""
        return self._offsets(LOG_STARTS)

    @cached_property
    def cleaned(self) -> dict[tuple[str, int], int]:
        """The offsets up to which compaction has come, of the partitions that were compacted."""
        return self._offsets(CLEANED)

    @cached_property
    def recovery_points(self) -> dict[tuple[str, int], int]:
        """The offsets up to which logs were on disk for certain."""
        return self._offsets(RECOVERY_POINTS)

    @property
    def cleans(self) -> bool:
        """Whether `cleaned` is known: a broker has the file even where it compacts nothing."""
        self._entries(CLEANED)
        return CLEANED not in self._missing

    def cleaned_to(self, topic: str, partition: int) -> int | None:
        """The offset up to which compaction has come in a partition: see `Partition.cleaned_to`."""
        entries = self._entries(CLEANED)
        whole = self.cleans and not any(isinstance(entry, Damage) for entry in entries)
        return self.cleaned.get((topic, partition), 0 if whole else None)

    def _offsets(self, name: str) -> dict[tuple[str, int], int]:
        lines = self._entries(name)
        return {(e.topic, e.partition): e.offset for e in lines if isinstance(e, CheckpointLine)}

    def _entries(self, name: str) -> tuple[Any, ...]:
        """What a file holds, and the damage in it; nothing where there is no file."""
        if name not in self._read:
            try:
                data = self._member.elsewhere(os.path.join(self.root, name)).content()
            except FileNotFoundError:
                self._missing.add(name)
                data = b""
            except OSError as error:
                data = Damage.unreadable(error)
            reader: Callable[[bytes], Iterator[Any]] = properties if name == PROPERTIES else offset_checkpoint
            self._read[name] = (data,) if isinstance(data, Damage) else tuple(reader(data))
        return self._read[name]


class Partition:
    """A replica of a partition, in one log directory. Iterating yields its batches and damage, segment after segment.

    Attributes:
        topic, partition: from the directory's name. `path`: the directory.
        state: empty; `delete`, `future` or `stray` for a replica that is removed or moved; `tiered` in a tier.
        broker: its log directory.
        files: all files in it.
        copies: directories in tiers of partitions of the same name.
        tier_metadata: gives what `__remote_log_metadata` has of its segments.
    """

    def __init__(self, files: Iterable[LogFile], broker: BrokerDirectory) -> None:
        self.files = tuple(files)
        self.copies: tuple[Partition, ...] = ()
        self._small: dict[str, bytes | Damage] = {}
        self.tier_metadata: Callable[[], TierEvents] = TierEvents
        first = self.files[0]
        assert first.topic is not None
        assert first.partition is not None
        self.topic = first.topic
        self.partition = first.partition
        self.path = os.path.dirname(first.path)
        named = partition_of(self.path, (file.name for file in self.files))
        self.state = named.state if named else ""
        self.broker = broker

    @cached_property
    def topic_id(self) -> UUID | None:
        """The topic's id, from `partition.metadata`, in a tier from the directory's name; None where it is not
        known."""
        if self.state == TIERED:
            return topic_id(self.path)
        data = self.small_file("partition.metadata")
        found = () if isinstance(data, Damage) else properties(data)
        ids = (uuid_of(line.value) for line in found if isinstance(line, Property) and line.name == "topic_id")
        return next(ids, None)

    @property
    def newest_epoch(self) -> EpochLine | None:
        """The last line of its `leader-epoch-checkpoint`; None where there is none, or the file is damaged."""
        return self._epochs[-1] if self._epochs else None

    @cached_property
    def _epochs(self) -> tuple[EpochLine, ...]:
        """The lines of its `leader-epoch-checkpoint`; empty where there is none, or the file is damaged."""
        if self.state == TIERED or all(file.name != EPOCHS for file in self.files):
            return ()
        data = self.small_file(EPOCHS)
        found = [data] if isinstance(data, Damage) else list(leader_epochs(data))
        lines = tuple(line for line in found if isinstance(line, EpochLine))
        return lines if len(lines) == len(found) else ()

    def small_file(self, name: str) -> bytes | Damage:
        """A file of the directory; empty where there is none. In a store the listing shows which files there are, and a
        file is fetched once."""
        if not self.files[0].listed_whole:
            return content_of(self._beside(name))
        if name not in self._small:
            there = any(file.name == name for file in self.files)
            self._small[name] = content_of(self._beside(name)) if there else b""
        return self._small[name]

    def _beside(self, name: str) -> LogFile:
        """A file of the directory, also where only others of it were given; it need not exist."""
        return self.files[0].elsewhere(os.path.join(self.path, name))

    @cached_property
    def tiers(self) -> tuple[Partition, ...]:
        """The directories in tiers with the older segments of the log (KIP-405), without those of a deleted topic of
        the same name."""
        known = self.topic_id if self.copies else None
        return tuple(one for one in self.copies if known is None or one.topic_id == known)

    def used(self, kind: str) -> tuple[LogFile, ...]:
        """The files of a kind in its own directory that are in use, by offset: a segment in `.log.swap` is (see
        `swaps`), the ones that it replaces are not."""
        found = (file for file in self._used if file.kind == kind)
        return tuple(sorted(found, key=lambda file: (file.offset or 0, file.path)))

    @cached_property
    def _used(self) -> tuple[LogFile, ...]:
        """The files in use, of all kinds. A replica that a broker removes or moves is not looked into."""
        states = (self.state,) if self.state else (self.state, SWAP)
        return tuple(file for file in in_use(self.files) if file.state in states)

    @property
    def segments(self) -> tuple[LogFile, ...]:
        """The `.log` files in use, by their first offset: those in its tiers, up to where the local ones begin, and
        these. Each offset is in one of them."""
        return self.joined.segments

    @cached_property
    def joined(self) -> Joined:
        """The segments of the log in its tiers and in its own directory, and the offsets that no copy has."""
        own = self.used("log")
        if not self.tiers and self.state != TIERED:
            return Joined(own)
        if self.state == TIERED:
            return join((), own, lineage_of(own), self.tier_metadata())
        tiered = [file for tier in self.tiers for file in tier.used("log")]
        checkpoint = self._beside(EPOCHS)
        data = content_of(checkpoint)
        lineage = epoch_lines(data) or lineage_of(tiered)
        found = join(own, tiered, lineage, self.tier_metadata(), self._checkpointed_start)
        return found._replace(damage=(*epoch_damage(checkpoint, data), *found.damage))

    @property
    def damage(self) -> tuple[tuple[str, Damage], ...]:
        """The damage in the small files that decide where its log begins and ends and which segments are part of it,
        each with its file's path."""
        joined = ((file.path, damage) for file, damage in self.joined.damage)
        return (*self.broker.damage_for(self.topic, self.partition), *joined)

    @property
    def local_log_start(self) -> int | None:
        """First offset of the segments on the broker: what lies below is in tiers only; None without such a segment."""
        return next((file.offset for file in self.used("log") if self.state != TIERED), None)

    @cached_property
    def txn_indexes(self) -> tuple[LogFile, ...]:
        """The `.txnindex` files in use, by their segment's first offset."""
        if not self.tiers and self.state != TIERED:
            return self.used("txnindex")
        named = (file.beside("txnindex") for file in self.segments)
        return tuple(file for file in named if file.path in self._present)

    @cached_property
    def snapshots(self) -> tuple[LogFile, ...]:
        """The `.snapshot` files in use, by offset: the state before it."""
        own = () if self.state == TIERED else self.used("snapshot")
        if not self.tiers and self.state != TIERED:
            return own
        return (*snapshots(self.segments, self._present, self.joined.missing), *own)

    @property
    def _present(self) -> frozenset[str]:
        return frozenset(file.path for one in (self, *self.tiers) for file in one.files)

    @property
    def _checkpointed_start(self) -> int | None:
        return self.broker.log_starts.get((self.topic, self.partition))

    @property
    def high_watermark(self) -> int | None:
        """The high watermark by the broker's checkpoint; None where that does not name the partition."""
        return self.broker.high_watermarks.get((self.topic, self.partition))

    @property
    def recovery_point(self) -> int | None:
        """The offset up to which the log was on disk for certain, its end where the broker was stopped cleanly; None
        where the broker's checkpoint does not name the partition."""
        return self.broker.recovery_points.get((self.topic, self.partition))

    @property
    def cleaned_to(self) -> int | None:
        """The offset from which on its broker's cleaner has removed nothing: the checkpoint's, 0 where that does not
        name the partition; None where there is no checkpoint, or a damaged one."""
        return self.broker.cleaned_to(self.topic, self.partition)

    @property
    def log_start_offset(self) -> int | None:
        """First offset that is part of the log: the checkpoint's, or the first segment's; None without a segment.

        It is below the first segment where the segments before are in a tier that was not given (KIP-405), or were not
        copied: what a broker deletes, it removes from its leader epochs as well (`LeaderEpochFileCache`)."""
        start, first = self._checkpointed_start, self._first_offset
        if start is None and first and self._epochs:
            return min(first, self._epochs[0].start_offset)
        return first if start is None else start

    @property
    def local_start_offset(self) -> int | None:
        """First offset of the log that can be here: the later of the log start and the first segment's offset."""
        start, first = self._checkpointed_start, self._first_offset
        return first if start is None else max(start, first or 0)

    @property
    def _first_offset(self) -> int | None:
        """First offset of the segments; None without one."""
        return next((file.offset for file in self.segments), None)

    def aborted_transactions(self) -> Iterator[AbortedEntry | Damage]:
        """The entries of all `.txnindex` files."""
        for file in self.txn_indexes:
            with file.source() as source:
                yield from aborted_transactions(source)

    def latest_snapshot(self) -> tuple[LogFile, list[SnapshotEntry | Damage]] | None:
        """The newest snapshot of producer state; None where there is none."""
        if not self.snapshots:
            return None
        file = self.snapshots[-1]
        data = file.content()
        return file, [data] if isinstance(data, Damage) else list(producer_snapshot(data))

    def __iter__(self) -> Iterator[Batch | Damage]:
        for segment in self.segments:
            yield from segment.batches()

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.partition}, {len(self.segments)} segments, {self.path!r})"


class LogDirectory:
    """The result of `open`: partitions, files and log directories.

    Attributes:
        partitions: by log directory, topic and number; the same partition once a replica.
        files: every file that was found, in those partitions or outside them.
        brokers: the log directories.
        unreadable: directories that could not be listed, and links to what is not there.

    Args:
        given: the directories that were given, and whose files are all here.
    """

    def __init__(
        self, files: Iterable[LogFile], unreadable: Iterable[Unreadable] = (), given: Iterable[str] = ()
    ) -> None:
        self.files = tuple(files)
        self._given = tuple(given)
        self.unreadable = tuple(unreadable)
        brokers: dict[str, BrokerDirectory] = {}
        by_directory: dict[str, list[LogFile]] = {}
        for file in self.files:
            if file.kind != UNKNOWN or file.topic is not None:
                brokers.setdefault(file.root, BrokerDirectory(file.root, file))
            if file.topic is not None:
                by_directory.setdefault(os.path.dirname(file.path), []).append(file)
        self.brokers = tuple(brokers.values())
        found = [Partition(listed, brokers[listed[0].root]) for listed in by_directory.values()]
        tiers: dict[tuple[str, int], list[Partition]] = {}
        for one in found:
            if one.state == TIERED:
                tiers.setdefault((one.topic, one.partition), []).append(one)
        for one in found:
            one.tier_metadata = partial(self._events_of, one.topic, one.partition)
            one.copies = () if one.state else tuple(tiers.get((one.topic, one.partition), ()))
        self.partitions = tuple(sorted(found, key=lambda p: (p.broker.root, p.topic, p.partition, p.path)))

    @cached_property
    def _clusters(self) -> frozenset[str]:
        return frozenset(one.cluster_id for one in self.brokers if one.cluster_id is not None)

    def is_whole(self, broker: BrokerDirectory) -> bool:
        """Whether a log directory was given as a whole, by its own path or by one above it; False where folders of
        partitions, or files, were."""
        return any(is_below(broker.root, given) for given in self._given)

    def same_cluster(self, one: BrokerDirectory, other: BrokerDirectory) -> bool:
        """Whether two log directories are of one cluster. Those without an id are of the only cluster that is known; of
        several, they are of none."""
        return len(self._clusters) < 2 or one.cluster_id == other.cluster_id

    @cached_property
    def tier_metadata(self) -> TierEvents:
        """What `__remote_log_metadata` has of the segments in tiers, by id; empty where no copy of it was given."""
        return tier_metadata(
            one.segments for one in self.partitions if one.topic == REMOTE_LOG_METADATA and not one.state
        )

    def _events_of(self, topic: str, partition: int) -> TierEvents:
        return self._events.get((topic, partition)) or TierEvents().like(self.tier_metadata)

    @cached_property
    def _events(self) -> dict[tuple[str, int], TierEvents]:
        return by_partition(self.tier_metadata)


def open(*paths: str | os.PathLike[str], tier_keys: Iterable[str | os.PathLike[str]] = ()) -> LogDirectory:
    """Open directories and files: a broker's log directory, a folder that holds several, a partition's directory, one
    file; a tier (KIP-405). Only names are examined; content is read when it is used.

    Args:
        paths: on this machine, or URIs of a store that pyarrow knows (s3://, gs://, hdfs://, file://).
        tier_keys: files with the RSA private keys (PEM) of an encrypted tier of Aiven's plugin.

    Raises:
        OSError: a path does not exist or must not be read; a file has no private key.
        MissingExtraError: a URI, and pyarrow is not installed; a key, and cryptography is not installed.
    """
    keys = tuple(os.fspath(key) for key in tier_keys)
    for key in keys:
        private_key(key)
    files: dict[str, LogFile] = {}
    unreadable: list[Unreadable] = []
    given: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        if is_uri(path):
            from kafkawire.logdir.remote import remote_files

            given.append(path)
            for remote in remote_files(path, keys):
                files.setdefault(remote.path, remote)
        elif os.path.isdir(path):
            os.listdir(path)  # raises, where the walk below would go on
            given.append(path)
            for file in _walk(path.rstrip(os.sep) or os.sep, unreadable, keys):
                files.setdefault(file.path, file)
        else:
            os.stat(path)
            directory, name = os.path.split(path)
            partition = partition_of(directory, [name])
            for found in segment_names([name]):
                place = path if found == name else os.path.join(directory, found)
                files.setdefault(place, log_file(place, partition, keys))
    return LogDirectory(files.values(), unreadable, given)


def is_below(root: str, given: str) -> bool:
    """Whether a log directory is at a path, or in a folder below it."""
    if is_uri(given):
        from kafkawire.logdir.remote import without_secrets

        root, given, separator = root.rstrip("/"), without_secrets(given), "/"
    else:
        root, given, separator = os.path.abspath(root), os.path.abspath(given), os.sep
    return root == given or root.startswith(given.rstrip(separator) + separator)


def _walk(path: str, unreadable: list[Unreadable], keys: tuple[str, ...]) -> Iterator[LogFile]:
    for found in listings(path, Links(path)):
        if isinstance(found, Unreadable):
            unreadable.append(found)
            continue
        names = [entry.name for entry in found.files]
        partition = partition_of(found.path, names)
        for name in segment_names(names):
            yield log_file(os.path.join(found.path, name), partition, keys)
