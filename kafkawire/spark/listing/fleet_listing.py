"""`listing`: the replicas in log directories as rows. Workers list folders, and read brokers' small files.

The driver looks at few folders only: until there are enough for the workers. Text is bytes here: names of files need
not be UTF-8.
"""

from __future__ import annotations

import os
import posixpath
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.directory import PROPERTIES, BrokerDirectory
from kafkawire.logdir.file_names import TIERED, is_uri
from kafkawire.logdir.folders import Links, Unreadable, listings, scanned
from kafkawire.logdir.located_file import UNKNOWN
from kafkawire.logdir.log_files import log_file, partition_of, segment_names
from kafkawire.logdir.tiers import by_partition, tier_metadata
from kafkawire.records.internal_topics import REMOTE_LOG_METADATA
from kafkawire.spark.session.row_batches import array_of, as_batches
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.shipping import TaskEngine
from kafkawire.spark.session.task_sizing import at_least, by_batches
from kafkawire.transactions.cluster.cluster_metadata import read_metadata
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE
from kafkawire.transactions.parts.manifest import DirectoryContent
from kafkawire.transactions.parts.replica_files import content_of, outside_partitions, state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Kinds of rows.
REPLICA, BROKER, METADATA, UNREADABLE = "replica", "broker", "metadata", "unreadable"
#: A partition's folder in a tier, and what a copy of `__remote_log_metadata` has of a partition: see `tier_listing`.
TIER, TIER_EVENTS = "tier", "tier_events"
#: A `Size`, and the `TaskEngine` of a task.
SIZE, ENGINE = "size", "engine"
#: The kinds of rows that the driver takes.
OF_DRIVER = f"kind IN ('{BROKER}', '{METADATA}', '{UNREADABLE}', '{SIZE}', '{ENGINE}')"

#: The number of folders that is enough for the workers: the driver lists no more.
_FOLDERS = 256
_FEW_LISTS, _LISTS_A_TASK = 8, 32
#: The most keys of a log directory in a store that one task lists, estimated from three of its partitions: 100
#: requests.
_KEYS_A_LIST, _KEYS_TOGETHER = 1000, 100_000
#: The number of folders of a store that are listed at a time.
_AT_ONCE = 32

#: `real` identifies folders, `sort` orders them as `logdir.open` does, `partition` is that of all its replicas.
LISTING = pa.schema(
    [
        ("kind", pa.string()),
        ("argument", pa.int32()),
        ("sort", pa.binary()),
        ("payload", pa.binary()),
        ("real", pa.binary()),
        ("partition", pa.binary()),
        ("store", pa.string()),
        ("path", pa.binary()),
        ("names", pa.binary()),
        ("sizes", pa.binary()),
        ("bytes", pa.int64()),
        ("tiers", pa.binary()),
    ]
)
_KIND, _BYTES, _NAMES, _PARTITION = map(LISTING.names.index, ("kind", "bytes", "names", "partition"))
#: How the column `partition` begins in rows of `__transaction_state`.
_OF_COORDINATORS = os.fsencode(f"{TRANSACTION_STATE}\0")
LISTED = from_arrow_schema(LISTING)


class Folder(NamedTuple):
    """A folder to list.

    Attributes:
        argument: the number of the path that it was found below.
        store: the URI of the store that it is in; None for a file system of this machine. `path`: there.
        deep: with all folders below.
        names: of the files to list; None for all.
        top: the path that it was found below; None where only it is listed.
        lists: how many requests that takes, about.
    """

    argument: int
    store: str | None
    path: str
    deep: bool = True
    names: tuple[str, ...] | None = None
    top: str | None = None
    lists: int = 1


class FoundBroker(NamedTuple):
    """A log directory, as far as one task has listed it; `stopped`: cleanly."""

    content: DirectoryContent
    cluster_id: str | None
    damage: tuple[tuple[str, Any], ...]
    stopped: bool

    @property
    def root(self) -> str:
        return self.content.root

    @property
    def node_id(self) -> int | None:
        return self.content.node_id

    def with_part(self, other: FoundBroker) -> FoundBroker:
        """This directory, joined with what another task has listed of it."""
        held = dict(self.content.held)
        for name, states in other.content.held.items():
            held[name] = held.get(name, frozenset()) | states
        content = replace(
            self.content,
            node_id=other.node_id if self.node_id is None else self.node_id,
            directory_id=other.content.directory_id if self.content.directory_id is None else self.content.directory_id,
            named=self.content.named | other.content.named,
            held=held,
        )
        return self._replace(
            content=content,
            cluster_id=self.cluster_id or other.cluster_id,
            damage=self.damage or other.damage,
            stopped=self.stopped or other.stopped,
        )


class Listed(NamedTuple):
    """A folder's files. `sizes`: the bytes of segments, as listed."""

    path: str
    names: list[str]
    sizes: list[int]


def listing(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Rows of all kinds.

    Raises:
        OSError: a path that is not there or may not be read.
    """
    folders = [folder for number, path in enumerate(paths) for folder in _folders(number, os.fspath(path))]
    payloads = [sent(tuple(folder)) for folder in folders]
    lists = sum(one.lists for one in folders)
    tasks = max(1, min(len(folders), max(at_least(lists, _FEW_LISTS), lists // _LISTS_A_TASK)))
    # A table of them takes Spark a second more; many would be too much for each task.
    carried = payloads if len(payloads) <= _FOLDERS else []

    def list_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = [Folder(*received(carried[one] if carried else one)) for one in batch.column(0).to_pylist()]
            yield from as_batches(_with_size(row for folder in given for row in _rows_of(folder)), LISTING)

    if carried:
        seeds = spark.range(0, len(carried), 1, tasks)
    else:
        table = pa.table({"folder": array_of(payloads, pa.binary())})
        seeds = spark.createDataFrame(table, "folder binary").repartition(tasks)
    return by_batches(seeds, list_rows, LISTED)


# On the driver -------------------------------------------------------------------------------------------------------


def _folders(argument: int, path: str) -> list[Folder]:
    """What to list for a path."""
    if is_uri(path):
        from kafkawire.logdir.remote import found_at

        is_folder, key = found_at(path)
        if is_folder:
            return _spread(argument, path, key)
        return [Folder(argument, path, posixpath.dirname(key), False, (posixpath.basename(key),))]
    if os.path.isdir(path):
        os.listdir(path)  # raises, where workers would go on
        return _spread(argument, None, path.rstrip(os.sep) or os.sep)
    os.stat(path)
    directory, name = os.path.split(path)
    return [Folder(argument, None, directory, False, (name,))]


def _spread(argument: int, store: str | None, path: str) -> list[Folder]:
    """The folders below a path, as deep as it takes to have enough of them. A log directory in a store is not divided
    if it has few keys: its partitions would be a request each, with all below it there are a thousand keys in one."""
    seen: list[Folder] = []
    level, links = [path], None if store is not None else Links(path)
    while level and len(level) < _FOLDERS:
        following: list[str] = []
        for one, (below, lists) in zip(level, _level(store, level, links), strict=True):
            seen.append(Folder(argument, store, one, deep=lists > 0, top=path, lists=max(1, lists)))
            following += below
        level = following
    return [*seen, *(Folder(argument, store, one, top=path) for one in level)]


def _level(store: str | None, level: list[str], links: Links | None) -> list[tuple[list[str], int]]:
    """What is below each of some folders and to be listed on its own; or with how many requests, about, the folder is
    listed with all below it."""
    if store is None:
        assert links is not None
        return [(_below(one, links), 0) for one in level]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(partial(_in_store, store), level))


def _in_store(store: str, path: str) -> tuple[list[str], int]:
    from kafkawire.logdir.remote import folder_at, listed

    below, names = folder_at(store, path)
    if PROPERTIES not in names or not below:
        return below, 0
    looked = {below[0], below[len(below) // 2], below[-1]}
    try:
        found = [listed(store, one) for one in looked]
    except FileNotFoundError:
        return below, 0  # removed just now; the worker reports it
    keys = len(below) * max(sum(len(files) for files, _ in one.values()) for one in found)
    return ([], 1 + keys // _KEYS_A_LIST) if keys <= _KEYS_TOGETHER else (below, 0)


def _below(path: str, links: Links) -> list[str]:
    try:
        return [entry.path for entry in links.folders(scanned(path)[1])]
    except OSError:
        return []  # the worker reports it


# On the workers ------------------------------------------------------------------------------------------------------


def _rows_of(folder: Folder) -> Iterator[tuple[Any, ...]]:
    brokers: dict[str, _Seen] = {}
    for found in _listed(folder):
        if isinstance(found, Unreadable):
            yield _other(UNREADABLE, folder, os.fsencode(found.path), found)
            continue
        partition = partition_of(found.path, found.names)
        files = files_of(folder.store, found.path, found.names)
        for outside in outside_partitions(files):
            yield _other(UNREADABLE, folder, os.fsencode(found.path), outside)
        if partition is None:
            known = [file for file in files if file.kind != UNKNOWN]
        else:
            known = [files[0]]
            yield from _replica(folder, found, files)
        for file in known:
            seen = brokers.get(file.root)
            if seen is None:
                is_below = _is_below(found.path if partition is None else os.path.dirname(found.path), folder)
                seen = brokers[file.root] = _Seen(BrokerDirectory(file.root, file), is_below)
            seen.kinds.add(file.kind)
            seen.is_listed |= partition is None
            if partition is not None and partition.state != TIERED:
                seen.hold(Partition(files, seen.broker))
    for root, seen in brokers.items():
        yield _other(BROKER, folder, os.fsencode(root), tuple(seen.found()))


def _is_below(root: str, folder: Folder) -> bool:
    """Whether some task lists a log directory itself: it is below the path, or is the path."""
    return folder.top is not None and f"{root}/".startswith(f"{folder.top.rstrip('/')}/")


class _Seen:
    """What a task has listed of a log directory.

    Attributes:
        is_below: whether some task lists the directory itself. `is_listed`: whether this one does.
    """

    def __init__(self, broker: BrokerDirectory, is_below: bool) -> None:
        self.broker, self.is_below = broker, is_below
        self.is_listed = False
        self.kinds: set[str] = set()
        self._held: dict[tuple[str, int], frozenset[str]] = {}

    def hold(self, partition: Partition) -> None:
        name = partition.topic, partition.partition
        self._held[name] = self._held.get(name, frozenset()) | {state_of(partition)}

    def found(self) -> FoundBroker:
        """The log directory as this task has listed it. One task reads the broker's small files: the one that lists
        their folder. Where none does, each task reads those that identify the directory."""
        broker = self.broker
        if self.is_below and not self.is_listed:
            content = DirectoryContent(root=broker.root, whole=False, held=self._held)
            return FoundBroker(content, None, (), stopped=False)
        content = content_of(broker, self._held, whole=False)
        if "checkpoint" not in self.kinds:
            content = replace(content, named={})
        return FoundBroker(content, broker.cluster_id, broker.damage, "clean-shutdown" in self.kinds)


def _with_size(listed: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    replicas = tiers = size = files = largest = coordinators = 0
    for row in listed:
        replicas += row[_KIND] == REPLICA
        tiers += row[_KIND] == TIER
        coordinators += row[_KIND] in (REPLICA, TIER) and row[_PARTITION].startswith(_OF_COORDINATORS)
        size += row[_BYTES] or 0
        largest = max(largest, row[_BYTES] or 0)
        files += sum(name.endswith((b".log", b".log.swap")) for name in (row[_NAMES] or b"").split(b"\0"))
        yield row
    nowhere = Folder(0, None, "")
    yield _other(SIZE, nowhere, b"", (replicas, tiers, size, files, largest, coordinators))
    yield _other(ENGINE, nowhere, b"", tuple(TaskEngine.here()))


def _other(kind: str, folder: Folder, sort: bytes, value: object, real: bytes | None = None) -> tuple[Any, ...]:
    """A row that is no folder of a partition."""
    return (kind, folder.argument, sort, sent(value), real, *[None] * 7)


def _replica(folder: Folder, found: Listed, files: list[LogFile]) -> Iterator[tuple[Any, ...]]:
    """The row of a partition's folder, if there is a segment in it; of one in a tier in any case."""
    first = files[0]
    partition = Partition(files, BrokerDirectory(first.root, first))
    in_use = {file.name for file in partition.used("log")} if partition.state in ("", TIERED) else set()
    kind = TIER if any(file.state == TIERED for file in files) else REPLICA
    directory = os.path.dirname(first.path)
    real = os.fsencode(os.path.realpath(directory))
    key = partition_key(first.topic or "", first.partition or 0)
    sort = b"\0".join((os.fsencode(first.root), key, os.fsencode(directory)))
    if first.topic == CLUSTER_METADATA:  # a checkpoint counts without a segment
        metadata = read_metadata([partition])
        yield _other(METADATA, folder, sort, metadata, real)
    if kind == REPLICA and not in_use:
        return
    size = sum(size for size, name in zip(found.sizes, found.names, strict=True) if name in in_use)
    path, names, sizes = os.fsencode(found.path), b"\0".join(map(os.fsencode, found.names)), array("q", found.sizes)
    place = folder.store, path, names, sizes.tobytes(), size
    yield (kind, folder.argument, sort, None, real, key, *place, None)
    if first.topic == REMOTE_LOG_METADATA and kind == REPLICA:
        yield from _event_rows(partition, size, folder, sort, real)


def _event_rows(replica: Partition, size: int, folder: Folder, sort: bytes, real: bytes) -> Iterator[tuple[Any, ...]]:
    """What a copy of `__remote_log_metadata` has: a row for each partition that it names."""
    for place, events in by_partition(tier_metadata([replica.segments])).items():
        payload = sent((replica.partition, size, events))
        yield (TIER_EVENTS, folder.argument, sort, payload, real, partition_key(*place), *[None] * 6)


def partition_key(topic: str, partition: int) -> bytes:
    """The column `partition`."""
    return os.fsencode(f"{topic}\0{partition:010}")


def files_of(store: str | None, path: str, names: Sequence[str], keys: tuple[str, ...] = ()) -> list[LogFile]:
    """The files of a folder.

    Args:
        store, path: as in `Folder`. `names`: of its files.
        keys: paths of private keys for encrypted tiers.
    """
    partition = partition_of(path, names)
    names = list(segment_names(names))
    if store is None:
        return [log_file(os.path.join(path, name), partition, keys) for name in names]
    from kafkawire.logdir.remote import remote_file

    return [remote_file(store, posixpath.join(path, name), partition, keys) for name in names]


def _listed(folder: Folder) -> Iterator[Listed | Unreadable]:
    if folder.store is not None:
        from kafkawire.logdir.remote import listed

        found = listed(folder.store, folder.path, deep=folder.deep)
        for path, (names, sizes) in found.items():
            yield _chosen(folder, Listed(path, names, sizes))
        return
    if folder.names is not None:
        sizes = [os.stat(os.path.join(folder.path, name)).st_size for name in folder.names]
        yield Listed(folder.path, list(folder.names), sizes)
        return
    for one in listings(folder.path, Links(folder.top or folder.path), deep=folder.deep):
        if isinstance(one, Unreadable):
            yield one
        else:
            yield Listed(one.path, [entry.name for entry in one.files], [_size(entry) for entry in one.files])


def _chosen(folder: Folder, found: Listed) -> Listed:
    if folder.names is None:
        return found
    pairs = [(name, size) for name, size in zip(found.names, found.sizes, strict=True) if name in folder.names]
    return Listed(found.path, [name for name, _ in pairs], [size for _, size in pairs])


def _size(entry: os.DirEntry[str]) -> int:
    """Bytes of a segment; 0 of other files, whose size nothing asks for."""
    try:
        return entry.stat().st_size if entry.name.endswith((".log", ".log.swap")) else 0
    except OSError:
        return 0  # reading it reports that
