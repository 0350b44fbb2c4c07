"""`HeldSide`: the copies that brokers hold, as the join asks for them; and `DirectoryCopies`, which reads them from log
directories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from kafkawire import offsets
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.offsets import Replica
from kafkawire.offsets.group_records import GroupLog
from kafkawire.rows import DamageRow
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.group_log import CONSUMER_OFFSETS, GroupLogs
from kafkawire.witness.held import CopyOfPartition, copy_of, newest_first


@dataclass
class Identity:
    """Ids in the Metadata responses of captures. `clusters`: of the cluster. `topics`: those of each topic."""

    clusters: set[str] = field(default_factory=set)
    topics: dict[str, set[UUID]] = field(default_factory=dict)

    def is_same(self, cluster: str | None, topic: str, topic_id: UUID | None) -> bool | None:
        """Whether a copy is of the cluster and the topic that the captures show; None: that is not known."""
        if cluster is not None and self.clusters and cluster not in self.clusters:
            return False
        ids = self.topics.get(topic)
        if topic_id is not None and ids:
            return topic_id in ids
        return True if cluster is not None and self.clusters else None


class HeldSide(ABC):
    """What brokers hold.

    Attributes:
        damage: what of the logs cannot be read. left_out: copies of another cluster, or of another topic of the same
            name. problems: of groups' logs, sentences.
    """

    def __init__(self) -> None:
        self.damage: list[DamageRow] = []
        self.left_out: list[str] = []
        self.problems: list[str] = []

    @abstractmethod
    def topic_names(self) -> dict[UUID, str]:
        """Names of topics by their ids."""

    @abstractmethod
    def copies(self, place: Place, identity: Identity, *, only_newest: bool) -> Iterator[CopyOfPartition]:
        """The copies of a partition that may be of what was captured, the newest first.

        Raises:
            OSError: a file cannot be read.
        """

    @abstractmethod
    def read_decisions(self, decided: DecidedTransactions, identity: Identity) -> None:
        """Reads the newest copies of `__transaction_state`."""

    @abstractmethod
    def read_groups(self, logs: GroupLogs, groups: list[str], identity: Identity) -> None:
        """Reads the newest copies of the partitions of `__consumer_offsets` that have these groups."""


class DirectoryCopies(HeldSide):
    """Log directories.

    Args:
        directory: of several brokers.
    """

    def __init__(self, directory: LogDirectory) -> None:
        super().__init__()
        self._directory = directory

    def topic_names(self) -> dict[UUID, str]:
        return {
            one.topic_id: one.topic
            for one in self._directory.partitions
            if one.topic_id is not None and one.topic is not None
        }

    def copies(self, place: Place, identity: Identity, *, only_newest: bool) -> Iterator[CopyOfPartition]:
        for one in self._replicas(place):
            same = _is_same(identity, one.partition)
            if same is False:
                self.left_out.append(one.partition.path)
            elif one.partition.segments:
                yield copy_of(one, same=same is True)
                self.damage += (*one.damage, *one.support_damage)
                if only_newest:
                    return

    def _replicas(self, place: Place) -> list[Replica]:
        try:
            return newest_first(offsets.replicas(self._directory, *place))
        except LookupError:
            return []

    def _newest(self, topic: str, identity: Identity) -> Iterator[tuple[int, Replica, bool]]:
        """The newest copy of each partition of an internal topic, and whether it is of what was captured."""
        found = {one.partition for one in self._directory.partitions if one.topic == topic and not one.state}
        for number in sorted(one for one in found if one is not None):
            for replica in self._replicas((topic, number)):
                same = _is_same(identity, replica.partition)
                if replica.partition.segments and same is not False:
                    yield number, replica, same is True
                    break

    def read_decisions(self, decided: DecidedTransactions, identity: Identity) -> None:
        for number, replica, _ in self._newest(TRANSACTION_STATE, identity):
            batches = (item for file in replica.partition.segments for item in file.batches())
            decided.add(replica.partition.path, number, batches)

    def read_groups(self, logs: GroupLogs, groups: list[str], identity: Identity) -> None:
        # A copy of some partitions does not show how many there are: all that are there are read.
        for _, replica, same in self._newest(CONSUMER_OFFSETS, identity):
            one, log = replica.partition, GroupLog(replica.partition)
            records = log.records()
            compacted = bool(one.broker.cleaned.get((one.topic, one.partition), 0)) or log.outcomes.cleaned_to > 0
            from_start = not one.log_start_offset and not one.segments[0].offset
            whole = from_start and not compacted
            logs.add(one.path, records, whole=same and whole, rewritten=not whole)
            if log.problems:
                logs.damaged(one.path)
            self.problems += log.problems


def _is_same(identity: Identity, partition: Partition) -> bool | None:
    return identity.is_same(partition.broker.cluster_id, partition.topic or "", partition.topic_id)


def partitions_of(names: list[str], number: int) -> list[int]:
    """The partitions of a coordinator's topic that have these groups or transactional ids.

    Args:
        number: of the topic's partitions.
    """
    return sorted({partition_of_id(name, number) for name in names})
