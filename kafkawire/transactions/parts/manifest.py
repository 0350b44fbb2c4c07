"""`manifest`: the partitions that log directories must hold, because their checkpoints or the metadata log name them.

Each is there and was read up to its high watermark, or a sentence names it: a partition that is not there could hold
any transaction. Pure; engines fill `DirectoryContent`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import basename, join
from uuid import UUID

import msgspec

from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE, ClusterMetadata, PartitionFacts
from kafkawire.transactions.formatting import numbers, some

#: A partition: its topic and number.
Name = tuple[str, int]

#: In `DirectoryContent.held`: a folder with segments in use, and one without any. Other states are of its name.
LIVE, EMPTY = "", "empty"
_STRAY, _DELETE, _FUTURE = "stray", "delete", "future"
#: Ids below are no directory's: unassigned, lost, migrating (Kafka's `DirectoryId`).
_RESERVED = 100
#: The most topics, or folders, that a sentence names; and the most characters of a topic's name, as Kafka allows.
_TOPICS, _CHARACTERS = 20, 249


class DirectoryContent(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's log directory: what it should hold, and what is there.

    Attributes:
        root: its path. `node_id`, `directory_id`: from its `meta.properties`.
        whole: it was given as a whole, and not some partitions of it by name.
        named: by the path of each of its checkpoints the offsets of partitions.
        held: the states of the folders of each partition: `LIVE`, `EMPTY`, `delete`, `future` or `stray`.
    """

    root: str
    node_id: int | None = None
    directory_id: UUID | None = None
    whole: bool = True
    named: dict[str, dict[Name, int]] = {}
    held: dict[Name, frozenset[str]] = {}

    def holds(self, name: Name) -> bool:
        """Whether it has a folder of the partition with segments in use."""
        return LIVE in self.held.get(name, ())


class Manifest(msgspec.Struct, frozen=True):
    """What the log directories of a cluster must hold.

    Attributes:
        sources: the files that name partitions.
        gaps: sentences on the partitions that were not read to where these files say.
        strays: folders of partitions that the broker does not use.
        short: the partitions whose log ends below an offset that a checkpoint has.
    """

    sources: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    short: frozenset[Name] = frozenset()


def manifest(
    directories: Sequence[DirectoryContent],
    partitions: Sequence[PartitionFacts],
    chosen: Iterable[PartitionFacts],
    metadata: Mapping[str, ClusterMetadata],
    newest: ClusterMetadata | None,
) -> Manifest:
    """Compare log directories of one cluster with what names their partitions.

    Args:
        partitions: the replicas that were read. `chosen`: of each partition the one that counts.
        metadata: by log directory. `newest`: the copy that was made last.
    """
    directories = sorted(directories, key=lambda one: one.root)
    whole = [one for one in directories if one.whole]
    if not whole:
        newest = None
    missing: dict[tuple[str, str], list[Name]] = defaultdict(list)
    found: set[tuple[str, Name]] = set()
    for directory in whole:
        for name, files in _lines(directory).items():
            if not directory.holds(name) and not _excused(directory, name, newest):
                missing[directory.root, f"which {some(files, 2)} there names"].append(name)
                found.add((directory.root, name))
    gaps = []
    if newest is not None:
        for root, name in _assigned(directories, whole, newest, metadata):
            if (root, name) not in found:
                missing[root, f"which {newest.path} assigns to it"].append(name)
                found.add((root, name))
        gaps += _without_replica(partitions, newest, {name for _, name in found})
        gaps += _not_in_sync(directories, partitions, newest)
    short = list(_too_short(directories, partitions, chosen))
    return Manifest(
        sources=(
            *(path for one in whole for path, lines in one.named.items() if lines),
            *((newest.path,) if newest is not None and newest.assigned else ()),
        ),
        gaps=(
            *(f"{root} does not hold {listed(names)}, {why}" for (root, why), names in missing.items()),
            *gaps,
            *_without_segments(directories),
            *(sentence for _, sentence in short),
        ),
        strays=tuple(_path(one, name) + f".*-{_STRAY}" for one in whole for name in one.held if _is_stray(one, name)),
        short=frozenset(name for name, _ in short),
    )


def listed(names: Iterable[Name]) -> str:
    """Partitions by their topics: `orders-3`, `partitions 0-2, 7 of orders`."""
    of_topics: dict[str, set[int]] = defaultdict(set)
    for topic, number in names:
        of_topics[topic[:_CHARACTERS]].add(number)
    texts = [
        f"{topic}-{min(found)}" if len(found) == 1 else f"partitions {numbers(sorted(found))} of {topic}"
        for topic, found in sorted(of_topics.items())
    ]
    more = len(texts) - _TOPICS
    return "; ".join(texts[:_TOPICS]) + (f" and partitions of {more:,} more topics" if more > 0 else "")


def _lines(directory: DirectoryContent) -> dict[Name, list[str]]:
    """The partitions that checkpoints name, with the names of these files."""
    found: dict[Name, list[str]] = {}
    for path, lines in directory.named.items():
        for name in lines:
            found.setdefault(name, []).append(basename(path))
    return found


def _excused(directory: DirectoryContent, name: Name, newest: ClusterMetadata | None) -> bool:
    """Whether a line of a checkpoint is older than the removal of the partition, or of a replica that is not live yet:
    brokers write checkpoints now and then."""
    states = directory.held.get(name, frozenset())
    if states & {_DELETE, _FUTURE, EMPTY}:
        return True  # an empty folder is named as such
    if newest is None or name[0] == CLUSTER_METADATA:
        return False
    if name[0] in newest.removed:
        return True
    replicas = newest.assigned.get(name)
    if replicas is None:
        return newest.since_checkpoint and newest.complete
    if not replicas or directory.node_id is None:
        return False
    of_broker = [id for broker, id in replicas if broker == directory.node_id]
    return all(_elsewhere(directory, id) for id in of_broker)


def _elsewhere(directory: DirectoryContent, id: UUID | None) -> bool:
    """Whether an id is certainly that of another directory."""
    return id is not None and id.int >= _RESERVED and directory.directory_id not in (None, id)


def _assigned(
    directories: Sequence[DirectoryContent],
    whole: Sequence[DirectoryContent],
    newest: ClusterMetadata,
    metadata: Mapping[str, ClusterMetadata],
) -> Iterator[tuple[str, Name]]:
    """The log directories, and partitions that the metadata log assigns to their brokers and that no directory of the
    broker has. What the broker's own copy of the log does not have yet was created after the copy was made."""
    of_brokers: dict[int, list[DirectoryContent]] = defaultdict(list)
    for directory in whole:
        if directory.node_id is not None:
            of_brokers[directory.node_id].append(directory)
    held: dict[int | None, set[Name]] = defaultdict(set)
    own: dict[int | None, ClusterMetadata] = {}
    for directory in directories:
        held[directory.node_id].update(name for name, states in directory.held.items() if states & {LIVE, EMPTY})
        copy = metadata.get(directory.root)
        if copy is not None:
            own[directory.node_id] = copy
    for name, replicas in newest.assigned.items():
        for broker, id in replicas:
            given = [one for one in of_brokers.get(broker, ()) if not _elsewhere(one, id)]
            lost = id is not None and 0 < id.int < _RESERVED
            if given and not lost and name not in held[broker]:
                copy = own.get(broker)
                if (
                    copy is None
                    or not copy.complete
                    or any(number == broker for number, _ in copy.assigned.get(name, ()))
                ):
                    yield given[0].root, name


def _without_replica(partitions: Sequence[PartitionFacts], newest: ClusterMetadata, named: set[Name]) -> list[str]:
    """The partitions of which no replica was given. Those of `__transaction_state` are counted where they matter."""
    read = {(one.place.topic, one.place.partition) for one in partitions}
    lost = [name for name in newest.assigned if name not in read and name not in named and name[0] != TRANSACTION_STATE]
    return [f"{listed(lost)}: no replica of {'it' if len(lost) == 1 else 'them'} was given"] if lost else []


def _not_in_sync(
    directories: Sequence[DirectoryContent], partitions: Sequence[PartitionFacts], newest: ClusterMetadata
) -> Iterator[str]:
    """The partitions of which only replicas were given that had been left behind: transactions may have begun and ended
    without them. What is in sync has all that consumers may read."""
    nodes = {one.root: one.node_id for one in directories}
    read: dict[Name, set[int | None]] = defaultdict(set)
    for one in partitions:
        read[one.place.topic, one.place.partition].add(nodes.get(one.place.copy))
    behind: dict[tuple[int, ...], list[Name]] = defaultdict(list)
    for name, given in read.items():
        leader = newest.leaders.get(name)
        in_sync = () if leader is None else tuple(sorted({*leader.isr, *leader.elr}))
        if in_sync and None not in given and given.isdisjoint(in_sync):
            behind[in_sync].append(name)
    for in_sync, names in behind.items():
        brokers = f"{'broker' if len(in_sync) == 1 else 'brokers'} {numbers(list(in_sync))}"
        yield f"{listed(names)}: only replicas that were not in sync were given; {brokers} had those in sync"


def _without_segments(directories: Sequence[DirectoryContent]) -> Iterator[str]:
    """A broker's partition has a segment, if only an empty one. The metadata log may begin with a checkpoint: that it
    has no segment is named with what it lacks."""
    for directory in directories if any(one.whole for one in directories) else ():
        empty = [
            name
            for name, states in directory.held.items()
            if EMPTY in states and LIVE not in states and name[0] != CLUSTER_METADATA
        ]
        if directory.whole and empty:
            yield f"{directory.root}: no segment is in the folders of {listed(empty)}"


def _too_short(
    directories: Sequence[DirectoryContent], partitions: Sequence[PartitionFacts], chosen: Iterable[PartitionFacts]
) -> Iterator[tuple[Name, str]]:
    """The partitions of which the replica that counts ends below an offset that a checkpoint has, with a sentence: of
    its own directory, or of another replica in the same leader epoch."""
    counts = {(one.place.topic, one.place.partition): one for one in chosen}
    named = {one.root: one.named for one in directories}
    for replica in sorted(partitions, key=lambda one: one.place):
        name = replica.place.topic, replica.place.partition
        best = counts.get(name)
        if best is None or best.newest_epoch > replica.newest_epoch:
            continue
        offsets = [
            (lines[name], basename(path)) for path, lines in named.get(replica.place.copy, {}).items() if name in lines
        ]
        if not offsets and replica.high_watermark is not None:
            offsets = [(replica.high_watermark, "replication-offset-checkpoint")]
        most, file = max(offsets, default=(0, ""))
        if best.log_end < most:
            where = "" if best is replica else f" in {replica.place.copy}"
            path = join(best.place.copy, str(best.place))
            yield name, f"{path} ends at offset {best.log_end}, and {file} has {most}{where}"


def _is_stray(directory: DirectoryContent, name: Name) -> bool:
    return _STRAY in directory.held[name]


def _path(directory: DirectoryContent, name: Name) -> str:
    return join(directory.root, f"{name[0]}-{name[1]}")
