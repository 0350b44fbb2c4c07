"""`Cluster.ask`: routed, in a version that carries the request, repeated by Kafka's rules, typed as the response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from kafkawire import records
from kafkawire.client import (
    ApiTimeoutError,
    BrokerError,
    Cluster,
    Config,
    ConnectError,
    NoSuchBrokerError,
    OutcomeUnknownError,
    TopicPartition,
)
from kafkawire.client.cluster.cluster import refusal
from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    DescribeGroupsResponse,
    FetchResponse,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.testing import Fault, MockBroker

T = TypeVar("T")
NOT_LEADER = CODES["NOT_LEADER_OR_FOLLOWER"]


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    with MockBroker({"orders": 3, "one": 1}) as running:
        yield running


def asking(broker: MockBroker, use: Callable[[Cluster], Awaitable[T]], **settings: str) -> T:
    async def run() -> T:
        async with Cluster(Config.of(broker.address, settings)) as cluster:
            return await use(cluster)

    return asyncio.run(run())


def produce(topic: str = "orders", partition: int = 0, **more: Any) -> ProduceRequest:
    data = records.build([records.Record(value=b"one")], timestamp=5)
    place = ProduceRequest.PartitionProduceData(index=partition, records=data)
    topics = (ProduceRequest.TopicProduceData(name=topic, partition_data=(place,)),)
    return ProduceRequest(topic_data=topics, **({"acks": -1, "timeout_ms": 1000} | more))


def test_leader_of_a_partition(broker: MockBroker) -> None:
    async def use(cluster: Cluster) -> ProduceResponse:
        return await cluster.ask(produce(partition=2), partition=TopicPartition("orders", 2))

    response = asking(broker, use)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert [record.value for record in broker.records("orders", 2)] == [b"one"]
    (sent,) = (request for request in broker.requests if isinstance(request.body, ProduceRequest))
    assert sent.version == 12  # the newest that names topics; 13 has ids


def test_route_is_kept_until_a_request_fails(broker: MockBroker) -> None:
    async def use(cluster: Cluster) -> int:
        for _ in range(3):
            await cluster.ask(produce(), topic="orders", partition=0)
        before = len(broker.requests.of(MetadataRequest))
        broker.fault(ProduceRequest, Fault(error=NOT_LEADER))
        await cluster.ask(produce(), topic="orders", partition=0)
        return len(broker.requests.of(MetadataRequest)) - before

    assert asking(broker, use) == 1
    assert len(broker.records("orders", 0)) == 4


def test_coordinators(broker: MockBroker) -> None:
    async def use(cluster: Cluster) -> tuple[int, int]:
        begun = await cluster.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000),
                                  transactional_id="t")  # fmt: skip
        beat = await cluster.ask(HeartbeatRequest(group_id="g", member_id="m"), group="g")
        return begun.error_code, beat.error_code

    assert asking(broker, use) == (0, CODES["UNKNOWN_MEMBER_ID"])
    keys = [(request.key_type, request.coordinator_keys) for request in broker.requests.of(FindCoordinatorRequest)]
    assert keys == [(1, ("t",)), (0, ("g",))]


def test_any_broker_and_one_by_id(broker: MockBroker) -> None:
    async def use(cluster: Cluster) -> None:
        assert (await cluster.ask(MetadataRequest(topics=()))).cluster_id == "kafkawire-mock"
        assert (await cluster.ask(ListTransactionsRequest(), broker=1)).error_code == 0
        with pytest.raises(NoSuchBrokerError):
            await cluster.ask(ListTransactionsRequest(), broker=7)

    asking(broker, use)


def test_temporary_errors_are_waited_for(broker: MockBroker) -> None:
    for name in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"):
        broker.fault(InitProducerIdRequest, Fault(error=CODES[name]))
    broker.fault(InitProducerIdRequest, Fault(drop="before"))
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    response = asking(broker, lambda cluster: cluster.ask(request, transactional_id="t"))
    assert response.error_code == 0
    assert len(broker.requests.of(InitProducerIdRequest)) == 5


def test_lasting_error_is_the_response(broker: MockBroker) -> None:
    broker.fault(ProduceRequest, Fault(error=CODES["TOPIC_AUTHORIZATION_FAILED"]), times=None)
    response = asking(broker, lambda cluster: cluster.ask(produce(), topic="orders", partition=0))
    assert response.responses[0].partition_responses[0].error_code == 29
    assert len(broker.requests.of(ProduceRequest)) == 1


def test_deadline(broker: MockBroker) -> None:
    broker.fault(ProduceRequest, Fault(error=NOT_LEADER), times=None)
    began = time.monotonic()
    with pytest.raises(ApiTimeoutError, match=r"Produce: NOT_LEADER_OR_FOLLOWER \(after 0.5 s\)"):
        asking(broker, lambda cluster: cluster.ask(produce(), topic="orders", partition=0, timeout_s=0.5))
    assert time.monotonic() - began < 2


def test_what_may_have_been_carried_out_is_not_sent_again(broker: MockBroker) -> None:
    broker.fault(ProduceRequest, Fault(drop="after"))
    with pytest.raises(OutcomeUnknownError, match="Produce was sent and not answered"):
        asking(broker, lambda cluster: cluster.ask(produce(), topic="orders", partition=0, again=False))
    assert len(broker.records("orders", 0)) == 1
    broker.fault(ProduceRequest, Fault(drop="after"))
    asking(broker, lambda cluster: cluster.ask(produce(), topic="orders", partition=0))
    assert len(broker.records("orders", 0)) == 3  # as any producer without idempotence


def test_topic_that_does_not_exist_is_no_wait_for_ever(broker: MockBroker) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        asking(broker, lambda cluster: cluster.ask(produce("none"), topic="none", partition=0))
    assert time.monotonic() - began < 5


def test_topic_alone_is_its_only_partition(broker: MockBroker) -> None:
    asking(broker, lambda cluster: cluster.ask(produce("one"), topic="one"))
    assert len(broker.records("one")) == 1
    with pytest.raises(ValueError, match="topic orders has 3 partitions: say which one by partition="):
        asking(broker, lambda cluster: cluster.ask(produce(), topic="orders"))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"partition": 1}, "partition=1 without topic="),
        ({"partition": TopicPartition("a", 1), "topic": "a"}, "a TopicPartition has its topic"),
        ({"group": "g", "broker": 1}, "one of them says which broker: broker, group"),
    ],
)
def test_places_that_contradict_each_other(broker: MockBroker, where: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        asking(broker, lambda cluster: cluster.ask(produce(), **where))
    with pytest.raises(ValueError, match="acks=0 has no response"):
        asking(broker, lambda cluster: cluster.ask(produce(acks=0), topic="orders", partition=0))


def test_no_broker_at_all() -> None:
    with MockBroker() as broker:
        address = broker.address

    async def run() -> None:
        async with Cluster(Config.of(address)) as cluster:
            await cluster.ask(MetadataRequest(topics=()))

    with pytest.raises(ConnectError):
        asyncio.run(run())


def test_newest_version_where_none_carries_all(broker: MockBroker) -> None:
    """A field of version 4 and one of 0 to 3 that may be dropped: as `encode` has it."""
    request = ListOffsetsRequest(
        isolation_level=1, topics=(ListOffsetsRequest.ListOffsetsTopic(name="one", partitions=()),)
    )

    async def use(cluster: Cluster) -> ListOffsetsResponse:
        return await cluster.ask(request, topic="one")

    asking(broker, use)
    (sent,) = (found for found in broker.requests if isinstance(found.body, ListOffsetsRequest))
    assert sent.version == broker.versions[2][-1]


def listed(*codes: int) -> ProduceResponse:
    partitions = tuple(ProduceResponse.PartitionProduceResponse(error_code=code) for code in codes)
    return ProduceResponse(responses=(ProduceResponse.TopicProduceResponse(partition_responses=partitions),))


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (listed(), 0),
        (listed(0, NOT_LEADER), 0),
        (listed(NOT_LEADER, NOT_LEADER), NOT_LEADER),
        (listed(NOT_LEADER, 29), 29),
        (MetadataResponse(topics=(MetadataResponse.MetadataResponseTopic(error_code=5),)), 5),
        (FetchResponse(error_code=70), 70),
        (DescribeGroupsResponse(groups=(DescribeGroupsResponse.DescribedGroup(error_code=16),)), 16),
    ],
)
def test_response_is_a_refusal_only_where_nothing_succeeded(response: Any, code: int) -> None:
    assert refusal(response) == code
