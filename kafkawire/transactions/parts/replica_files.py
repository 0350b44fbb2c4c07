"""The replicas of log directories, and their newest snapshots. A file that cannot be read becomes damage, never an
exception."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkawire import rows
from kafkawire.logdir import BrokerDirectory, LogDirectory, LogFile, Partition, Unreadable
from kafkawire.logdir.file_names import TIERED
from kafkawire.logdir.indexes import snapshot_producers
from kafkawire.logdir.located_file import UNKNOWN
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.transactions.facts import Place
from kafkawire.transactions.parts.manifest import EMPTY, LIVE, DirectoryContent


def replicas(directory: LogDirectory) -> list[Partition]:
    """The partitions to audit, each directory once; without those that are being deleted or moved. A directory is the
    partition of the log directory that links to it, before that of the one that it is in. A tier is part of its
    partition's replicas, and a replica of its own where there is no other."""
    found: dict[str, Partition] = {}
    on_brokers = {(one.topic, one.partition) for one in directory.partitions if not one.state}
    for partition in directory.partitions:
        alone = partition.state == TIERED and (partition.topic, partition.partition) not in on_brokers
        if (alone or not partition.state) and partition.segments:
            real = os.path.realpath(partition.path)
            if real not in found or (os.path.islink(partition.path) and not os.path.islink(found[real].path)):
                found[real] = partition
    return list(found.values())


def outside_partitions(files: Iterable[LogFile]) -> list[Unreadable]:
    """The folders that hold segments and have no partition's name: a renamed copy, or a tier of another layout;
    segments in a tier without the name that they have there; and segments under other names, compressed for example."""
    files = list(files)
    tiers = {os.path.dirname(file.path) for file in files if file.state == TIERED}
    stray = [file for file in files if file.kind == "log" and not file.state]
    folders = {os.path.dirname(file.path): None for file in stray if not file.topic}
    renamed = [
        file
        for file in files
        if file.kind == UNKNOWN and file.topic and ".log" in file.name and os.path.dirname(file.path) not in tiers
    ]
    return [
        *(Unreadable(folder, "it holds segments, and its name is no partition's") for folder in folders),
        *(
            Unreadable(one.path, "its name is no segment's in a tier")
            for one in stray
            if os.path.dirname(one.path) in tiers
        ),
        *(Unreadable(one.path, "its name is no segment's") for one in renamed),
    ]


def gaps_of(unread: Iterable[Unreadable], read: Iterable[str]) -> tuple[str, ...]:
    """What was not read, as sentences, by path.

    Args:
        read: the folders of the replicas that were. One may be read through a link, and not under its own name.
    """
    found = sorted(unread, key=lambda one: (one.path.split(os.sep), one.reason))
    targets = {os.path.realpath(path) for path in read} if found else ()
    return tuple(f"{one.path} was not read: {one.reason}" for one in found if os.path.realpath(one.path) not in targets)


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


def read_snapshot(partition: Partition) -> tuple[list[ProducerEntry], list[rows.DamageRow]]:
    """Producers of the newest `.snapshot` with open transactions, and what is damaged."""
    if not partition.snapshots:
        return [], []
    newest = partition.snapshots[-1]
    producers, damage = snapshot_producers(newest)
    found = [one for one in producers if one.current_txn_first_offset >= 0]
    return found, [rows.DamageRow.of(one, **newest.place) for one in damage]
