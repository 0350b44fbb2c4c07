"""The copy of a partition that consumers would read: the leader's, or else the one that reaches furthest."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from kafkawire.logdir import LogDirectory, Partition
from kafkawire.logdir.splits import end_offset
from kafkawire.transactions.cluster.cluster_metadata import newest_of, read_metadata
from kafkawire.transactions.facts import ClusterMetadata
from kafkawire.transactions.parts.replica_files import replicas


class Leading(NamedTuple):
    """A replica. `doubt`: why consumers may read another one, a sentence; None where they do not."""

    partition: Partition
    doubt: str | None = None


class LeadingReplicas:
    """The replicas of the log directories of one cluster."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._found: dict[tuple[str, int], list[Partition]] = {}
        for one in replicas(directory):
            self._found.setdefault((one.topic, one.partition), []).append(one)

    @cached_property
    def metadata(self) -> ClusterMetadata | None:
        """The newest copy of the metadata log; None where none is here."""
        return newest_of(read_metadata(self.directory.partitions).values())

    @cached_property
    def names(self) -> dict[UUID, str]:
        """The names of the topics that are here, by id."""
        partitions = (one for one in self.directory.partitions if not one.state)
        return {one.topic_id: one.topic for one in partitions if one.topic_id is not None}

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic that is here, or that the metadata log names, also as removed."""
        known = (
            [self.names] if self.metadata is None else [self.metadata.removed_ids, self.metadata.topic_ids, self.names]
        )
        return next((names[topic_id] for names in known if topic_id in names), None)

    def count_of(self, topic: str) -> int | None:
        """The number of partitions of a topic, by the metadata log; None where it is not known."""
        assigned = {} if self.metadata is None else self.metadata.assigned
        return sum(name == topic for name, _ in assigned) or None

    def numbers(self, topic: str) -> list[int]:
        """The partitions of a topic that are here."""
        return sorted(number for name, number in self._found if name == topic)

    def of(self, topic: str, partition: int) -> Leading | None:
        """The replica of a partition; None where none is here."""
        found = self._found.get((topic, partition), [])
        if not found:
            return None
        leader = None if self.metadata is None else self.metadata.leaders.get((topic, partition))
        # Two of one broker are copies from before and after the replica moved to another of its disks.
        own = [one for one in found if leader is not None and one.broker.node_id == leader.broker]
        if own:
            return Leading(max(own, key=_reach))
        name = f"{topic}-{partition}"
        furthest = max(found, key=_reach)
        if leader is not None:
            return Leading(furthest, f"{name}: its leader is broker {leader.broker}, whose copy is not here")
        if len(found) > 1:
            return Leading(furthest, f"{name}: which of {len(found)} copies is the leader's is not known")
        return Leading(furthest)


def _reach(partition: Partition) -> tuple[int, int]:
    return partition.high_watermark or 0, end_offset(partition.segments)
