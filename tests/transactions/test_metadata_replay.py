"""Records of the metadata log that brokers cannot replay (bitnami/containers#80381)."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafkawire import logdir
from kafkawire.messages import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kafkawire.transactions.cluster.metadata_replay import MetadataReplay, StoppedAt, stops
from tests.recorded_clusters import CLUSTERS
from tools.recordings.archive import unpacked

TOPIC = UUID(int=7)


def test_wrong_epochs_and_what_is_not_registered() -> None:
    replay = MetadataReplay()
    assert replay.take(RegisterBrokerRecord(broker_id=2, broker_epoch=40)) is None
    assert replay.take(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=40)) is None
    assert replay.take(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=39)) == (
        "BrokerRegistrationChangeRecord: tried to change broker 2, but the given epoch, 39, is not the current broker "
        "epoch, 40"
    )
    for message, action in ((FenceBrokerRecord(id=3, epoch=1), "fence"), (UnfenceBrokerRecord(id=3), "unfence")):
        assert f"tried to {action} broker 3, but that broker is not registered" in str(replay.take(message))
    assert replay.take(UnregisterBrokerRecord(broker_id=2, broker_epoch=40)) is None
    assert "not registered" in str(replay.take(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=40)))


def test_topics_and_partitions_that_are_not_there() -> None:
    replay = MetadataReplay()
    assert replay.take(PartitionRecord(topic_id=TOPIC)) == f"PartitionRecord: no topic has the id {TOPIC}"
    assert replay.take(TopicRecord(name="orders", topic_id=TOPIC)) is None
    assert replay.take(PartitionRecord(topic_id=TOPIC, partition_id=0)) is None
    assert replay.take(PartitionChangeRecord(topic_id=TOPIC, partition_id=0)) is None
    assert "has no partition 1" in str(replay.take(PartitionChangeRecord(topic_id=TOPIC, partition_id=1)))
    assert replay.take(RemoveTopicRecord(topic_id=TOPIC)) is None
    assert replay.take(RemoveTopicRecord(topic_id=TOPIC)) is not None


def test_what_is_missing_may_have_registered_it() -> None:
    replay = MetadataReplay(whole=False)
    for message in (
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=39),
        PartitionRecord(topic_id=TOPIC),
        RemoveTopicRecord(topic_id=TOPIC),
    ):
        assert replay.take(message) is None


@pytest.mark.slow
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_logs_that_brokers_have_replayed_have_no_such_record(cluster: str) -> None:
    directory = logdir.open(str(unpacked(cluster)))
    found = [one for one in directory.partitions if one.topic == "__cluster_metadata"]
    assert [(one.path, stop) for one in found for stop in stops(one) if isinstance(stop, StoppedAt)] == []
