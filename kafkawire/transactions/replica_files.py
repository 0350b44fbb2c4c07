"""The replicas of log directories, and their newest snapshots. A file that cannot be read becomes damage, never an
exception."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import dirname, realpath

from kafkawire import rows
from kafkawire.logdir import BrokerDirectory, LogDirectory, LogFile, Partition, Unreadable
from kafkawire.logdir.file_names import TIERED
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Damage
from kafkawire.transactions.facts import Place
from kafkawire.transactions.manifest import EMPTY, LIVE, DirectoryContent


def replicas(directory: LogDirectory) -> list[Partition]:
    """The partitions to audit, each directory once; without those that are being deleted or moved. A tier is part of
    its partition's replicas, and a replica of its own where there is no other."""
    found: dict[str, Partition] = {}
    on_brokers = {(one.topic, one.partition) for one in directory.partitions if not one.state}
    for partition in directory.partitions:
        alone = partition.state == TIERED and (partition.topic, partition.partition) not in on_brokers
        if (alone or not partition.state) and partition.segments:
            found.setdefault(realpath(partition.path), partition)
    return list(found.values())


def outside_partitions(files: Iterable[LogFile]) -> list[Unreadable]:
    """The folders that hold segments and have no partition's name: a renamed copy, or a tier of another layout; and
    segments in a tier without the name that they have there."""
    files = list(files)
    tiers = {dirname(file.path) for file in files if file.state == TIERED}
    stray = [file for file in files if file.kind == "log" and not file.state]
    folders = {dirname(file.path): None for file in stray if not file.topic}
    return [
        *(Unreadable(folder, "it holds segments, and its name is no partition's") for folder in folders),
        *(Unreadable(one.path, "its name is no segment's in a tier") for one in stray if dirname(one.path) in tiers),
    ]


def gaps_of(unread: Iterable[Unreadable]) -> tuple[str, ...]:
    """What was not read, as sentences."""
    return tuple(f"{one.path} was not read: {one.reason}" for one in unread)


def contents(directory: LogDirectory) -> list[DirectoryContent]:
    """What each of the log directories must hold, and holds."""
    held: dict[str, dict[tuple[str, int], frozenset[str]]] = {broker.root: {} for broker in directory.brokers}
    for partition in directory.partitions:
        if partition.state != TIERED:
            of_root, name = held[partition.broker.root], (partition.topic, partition.partition)
            of_root[name] = of_root.get(name, frozenset()) | {state_of(partition)}
    return [content_of(broker, held[broker.root], whole=directory.is_whole(broker)) for broker in directory.brokers]


def content_of(
    broker: BrokerDirectory, held: dict[tuple[str, int], frozenset[str]], *, whole: bool
) -> DirectoryContent:
    """What a log directory must hold. The arguments are those of `DirectoryContent`."""
    return DirectoryContent(
        root=broker.root,
        node_id=broker.node_id,
        directory_id=broker.directory_id,
        whole=whole,
        named={path: lines for path, lines in broker.checkpoints.items() if lines},
        held=held,
    )


def state_of(partition: Partition) -> str:
    """The state of a partition's folder, as `DirectoryContent.held` has it."""
    return partition.state or (LIVE if partition.segments else EMPTY)


def place_of(partition: Partition) -> Place:
    return Place(partition.broker.root, partition.topic, partition.partition)


def read_snapshot(partition: Partition, start: int) -> tuple[list[ProducerEntry], list[rows.DamageRow]]:
    """Producers of the newest `.snapshot` whose open transactions began below an offset, and what is damaged."""
    try:
        newest = partition.latest_snapshot()
    except OSError as error:
        damage = Damage.unreadable(error)
        return [], [rows.DamageRow.of(damage, **partition.snapshots[-1].place)]
    if newest is None:
        return [], []
    file, entries = newest
    found: list[ProducerEntry] = []
    damaged: list[rows.DamageRow] = []
    for entry in entries:
        if isinstance(entry, Damage):
            damaged.append(rows.DamageRow.of(entry, **file.place))
        elif 0 <= entry.producer.current_txn_first_offset < start:
            found.append(entry.producer)
    return found, damaged
