"""Settings of the mock broker's topics and brokers: described, changed, and obeyed where it says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire import records
from kafkawire.client import Cluster, Config
from kafkawire.client.errors import BrokerError
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ProduceRequest,
)
from kafkawire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kafkawire.messages.describe_configs_request import DescribeConfigsResource
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.testing import MockBroker

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2


def ask(broker: MockBroker, request: Any, **where: Any) -> Any:
    async def run() -> Any:
        async with Cluster(Config.of(broker.address)) as cluster:
            return await cluster.ask(request, timeout_s=10, **where)

    return asyncio.run(run())


def described(broker: MockBroker, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    (result,) = ask(broker, DescribeConfigsRequest(resources=(resource,), include_synonyms=True)).results
    assert result.error_code == 0
    assert all(entry.synonyms[0].value == entry.value for entry in result.configs)
    return {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def alter(broker: MockBroker, name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC) -> int:
    configs = tuple(AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = ask(broker, IncrementalAlterConfigsRequest(resources=(resource,)))
    return int(answer.responses[0].error_code)


def create(broker: MockBroker, name: str, **settings: str) -> Any:
    configs = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    return ask(broker, CreateTopicsRequest(topics=(topic,), timeout_ms=1000)).topics[0]


def test_settings_of_topics() -> None:
    with MockBroker() as broker:
        made = create(broker, "orders", cleanup_policy="compact", retention_ms="1000")
        assert {each.name: each.value for each in made.configs}["cleanup.policy"] == "compact"
        found = described(broker, TOPIC, "orders")
        assert (found["cleanup.policy"], found["retention.ms"]) == (("compact", 1), ("1000", 1))
        assert found["segment.bytes"] == ("1073741824", 5)
        assert alter(broker, "orders", ("retention.ms", SET, "5"), ("cleanup.policy", DELETE, None)) == 0
        assert described(broker, TOPIC, "orders", "retention.ms", "cleanup.policy", "none") == {
            "retention.ms": ("5", 1),
            "cleanup.policy": ("delete", 5),
        }


def test_settings_of_brokers() -> None:
    with MockBroker(nodes=2) as broker:
        assert described(broker, BROKER, "2", "transaction.max.timeout.ms") == {
            "transaction.max.timeout.ms": ("900000", 5)
        }
        assert alter(broker, "1", ("log.retention.ms", SET, "7"), kind=BROKER) == 0
        assert described(broker, BROKER, "1", "log.retention.ms") == {"log.retention.ms": ("7", 2)}
        assert described(broker, BROKER, "2", "log.retention.ms") == {"log.retention.ms": ("604800000", 5)}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("retention.ms", SET, "long"), "INVALID_CONFIG"),
        (("retention.ms", SET, "٣"), "INVALID_CONFIG"),
        (("retention.ms", SET, None), "INVALID_CONFIG"),
        (("unclean.leader.election.enable", SET, "yes"), "INVALID_CONFIG"),
        (("cleanup.policy", SET, "x" * 2000), "INVALID_CONFIG"),
        (("no.such", SET, "1"), "INVALID_CONFIG"),
        (("cleanup.policy", APPEND, "compact"), "INVALID_REQUEST"),
    ],
)
def test_change_that_is_refused_changes_nothing(change: tuple[str, int, str | None], error: str) -> None:
    with MockBroker({"orders": 1}) as broker:
        assert alter(broker, "orders", ("retention.bytes", SET, "1"), change) == CODES[error]
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            alter(broker, "none", change)
        assert alter(broker, "9", change, kind=BROKER) == CODES["INVALID_REQUEST"]
        assert described(broker, TOPIC, "orders", "retention.bytes") == {"retention.bytes": ("-1", 5)}
        assert create(broker, "bad", retention_ms="long").error_code == CODES["INVALID_CONFIG"]
        assert "bad" not in broker.topics


def test_max_message_bytes_is_obeyed() -> None:
    with MockBroker() as broker:
        create(broker, "orders", max_message_bytes="300")
        codes = []
        for size in (100, 400):
            data = records.build([records.Record(value=bytes(size))], timestamp=5)
            place = ProduceRequest.PartitionProduceData(records=data)
            topic = ProduceRequest.TopicProduceData(name="orders", partition_data=(place,))
            answer = ask(broker, ProduceRequest(acks=1, timeout_ms=1000, topic_data=(topic,)), topic="orders")
            codes.append(answer.responses[0].partition_responses[0].error_code)
    assert codes == [0, CODES["MESSAGE_TOO_LARGE"]]
