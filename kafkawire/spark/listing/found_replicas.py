"""`found_in`: the part of a listing that the driver takes: brokers, copies of metadata logs, sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.logdir.folders import Unreadable
from kafkawire.spark.listing.fleet_listing import BROKER, ENGINE, METADATA, SIZE, FoundBroker
from kafkawire.spark.session.sent_values import received
from kafkawire.spark.session.shipping import TaskEngine, check_engines
from kafkawire.transactions.cluster.cluster_metadata import newest_of, of_older_copy

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkawire.transactions.facts import ClusterMetadata


class Size(NamedTuple):
    """The size of a listing: how many replicas and folders of partitions in tiers there are; bytes and number of
    segments; bytes of the largest folder of a partition; how many folders are of `__transaction_state`."""

    replicas: int = 0
    tiers: int = 0
    size: int = 0
    files: int = 0
    largest: int = 0
    coordinators: int = 0

    def with_part(self, other: Size) -> Size:
        """This size, joined with that of what another task has listed."""
        return Size(
            self.replicas + other.replicas,
            self.tiers + other.tiers,
            self.size + other.size,
            self.files + other.files,
            max(self.largest, other.largest),
            self.coordinators + other.coordinators,
        )


class FoundReplicas(NamedTuple):
    """The part of a listing that the driver takes."""

    size: Size
    brokers: list[FoundBroker]
    metadata: dict[str, ClusterMetadata]
    unreadable: list[Unreadable]

    @property
    def clusters(self) -> dict[str, str]:
        """The cluster of each log directory that has its id."""
        return {broker.root: broker.cluster_id for broker in self.brokers if broker.cluster_id is not None}


def _copies(payloads: Iterable[bytes], brokers: Mapping[str, FoundBroker]) -> dict[str, ClusterMetadata]:
    """The copies of metadata logs, by log directory. One of each cluster is whole, the newest: no two are in memory for
    longer than it takes to compare them."""
    found: dict[str, ClusterMetadata] = {}
    newest: dict[str | None, str] = {}
    for payload in payloads:
        of_root: dict[str, ClusterMetadata] = received(payload)
        for root, copy in of_root.items():
            broker = brokers.get(root)
            cluster = None if broker is None else broker.cluster_id
            found[root] = copy
            older = newest.setdefault(cluster, root)
            if older != root:
                if newest_of((found[older], copy)) is copy:
                    newest[cluster], root = root, older
                of_older = brokers.get(root)
                found[root] = of_older_copy(found[root], None if of_older is None else of_older.node_id)
    return found


def found_in(answers: pa.Table) -> FoundReplicas:
    """The content of the rows `OF_DRIVER`. Warns of workers without the native engine (`check_engines`).

    Raises:
        SparkError: they should have it.
    """
    brokers: dict[str, FoundBroker] = {}
    metadata: dict[bytes, tuple[bytes, bytes]] = {}
    unreadable: list[tuple[int, list[bytes], Unreadable]] = []
    size, engines = Size(), set[TaskEngine]()
    for row in sorted(answers.to_pylist(), key=lambda row: (row["argument"], row["sort"])):
        if row["kind"] == METADATA:
            before_metadata = metadata.get(row["real"])
            if before_metadata is None or row["sort"] < before_metadata[0]:
                metadata[row["real"]] = row["sort"], row["payload"]
            continue
        value = received(row["payload"])
        if row["kind"] == SIZE:
            size = size.with_part(Size(*value))
        elif row["kind"] == ENGINE:
            engines.add(TaskEngine(*value))
        elif row["kind"] == BROKER:
            broker = FoundBroker(*value)
            before = brokers.get(broker.root)
            brokers[broker.root] = broker if before is None else before.with_part(broker)
        else:
            unreadable.append((row["argument"], row["sort"].split(os.sep.encode()), value))
    check_engines(engines)
    ordered = sorted(metadata.values(), key=lambda pair: pair[0])
    return FoundReplicas(
        size,
        list(brokers.values()),
        _copies((payload for _, payload in ordered), brokers),
        [value for *_, value in sorted(unreadable, key=lambda one: one[:2])],
    )
