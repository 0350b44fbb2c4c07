"""`MetadataReplay`: the records of a metadata log that brokers and controllers cannot replay: they stop there, at every
start (Kafka's `ClusterDelta`, `TopicsDelta` and `ClusterControlManager`). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from kafkawire import messages
from kafkawire.logdir import Partition
from kafkawire.transactions.cluster.metadata_log import MetadataLog

_WANTED = (
    messages.BrokerRegistrationChangeRecord, messages.FenceBrokerRecord, messages.PartitionChangeRecord,
    messages.PartitionRecord, messages.RegisterBrokerRecord, messages.RemoveTopicRecord, messages.TopicRecord,
    messages.UnfenceBrokerRecord, messages.UnregisterBrokerRecord,
)  # fmt: skip


class StoppedAt(NamedTuple):
    """A record that cannot be replayed. `why`: a sentence without its end."""

    offset: int
    timestamp: int
    why: str


class MetadataReplay:
    """Takes the messages of a metadata log, in order. `whole`: nothing is missing before the next message; else a
    broker or topic that is not known may be in what is missing."""

    def __init__(self, *, whole: bool = True) -> None:
        self.whole = whole
        self._epochs: dict[int, int] = {}
        self._topics: dict[UUID, set[int]] = {}

    def take(self, message: object) -> str | None:
        """Why a message cannot be replayed; None where it can, or where that is not known."""
        match message:
            case messages.RegisterBrokerRecord():
                self._epochs[message.broker_id] = message.broker_epoch
            case messages.BrokerRegistrationChangeRecord():
                return self._of_broker("change", message.broker_id, message.broker_epoch, message)
            case messages.UnregisterBrokerRecord():
                why = self._of_broker("unregister", message.broker_id, message.broker_epoch, message)
                self._epochs.pop(message.broker_id, None)
                return why
            case messages.FenceBrokerRecord():
                return self._of_broker("fence", message.id, message.epoch, message)
            case messages.UnfenceBrokerRecord():
                return self._of_broker("unfence", message.id, message.epoch, message)
            case messages.TopicRecord():
                self._topics[message.topic_id] = set()
            case messages.RemoveTopicRecord():
                if self._topics.pop(message.topic_id, None) is None and self.whole:
                    return f"RemoveTopicRecord: no topic has the id {message.topic_id}"
            case messages.PartitionRecord():
                return self._of_partition(message, new=True)
            case messages.PartitionChangeRecord():
                return self._of_partition(message, new=False)
        return None

    def _of_broker(self, action: str, broker: int, epoch: int, message: object) -> str | None:
        kind, known = type(message).__name__, self._epochs.get(broker)
        if known is None:
            missing = f"{kind}: tried to {action} broker {broker}, but that broker is not registered"
            return missing if self.whole else None
        if known != epoch:
            return (
                f"{kind}: tried to {action} broker {broker}, but the given epoch, {epoch}, is not the current broker "
                f"epoch, {known}"
            )
        return None

    def _of_partition(
        self, message: messages.PartitionRecord | messages.PartitionChangeRecord, *, new: bool
    ) -> str | None:
        kind, of_topic = type(message).__name__, self._topics.get(message.topic_id)
        if of_topic is None:
            return f"{kind}: no topic has the id {message.topic_id}" if self.whole else None
        if not new and message.partition_id not in of_topic and self.whole:
            return f"{kind}: topic {message.topic_id} has no partition {message.partition_id}"
        of_topic.add(message.partition_id)
        return None


def stops(partition: Partition) -> Iterator[StoppedAt | str]:
    """The records of a copied metadata log that cannot be replayed; after them sentences on what could not be read.
    `partition`: with its newest checkpoint."""
    log = MetadataLog(_WANTED)
    segments = partition.segments
    checkpointed = any(file.kind == "kraft-snapshot" and not file.state for file in partition.files)
    replay = MetadataReplay(whole=checkpointed or bool(segments and not segments[0].offset))
    for entry in log.entries(partition):
        replay.whole = replay.whole and log.complete
        why = replay.take(entry.message)
        if why is not None:
            yield StoppedAt(entry.offset, entry.timestamp, why)
    yield from log.gaps
