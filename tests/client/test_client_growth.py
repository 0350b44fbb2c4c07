"""The work of a client grows linearly with partitions, producers and ids (`tests.doubling`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kafkawire.client import Admin, Search, TopicPartition
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import infos
from kafkawire.client.results import Metadata, PartitionInfo
from kafkawire.messages import DescribeProducersRequest, DescribeProducersResponse, ListTransactionsRequest
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from tests.client.answers import admin, listing, run
from tests.client.partition_script import PartitionBroker
from tests.doubling import assert_linear_steps

#: Requests travel through the event loop of both sides, which takes a few steps more or less.
_TOLERANCE = 1.1


def opened(producer_id: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp=1000,
        coordinator_epoch=-1,
        current_txn_start_offset=0,
    )


def broker_of(states: list[list[ProducerState]], ids: int = 0) -> PartitionBroker:
    """Leads a partition for each list of states, and coordinates `ids` transactional ids."""
    broker = PartitionBroker(len(states))

    def describe(request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(
                            partition_index=number,
                            active_producers=tuple(states[number]) if topic.name == "orders" else (),
                        )
                        for number in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    broker.on[DescribeProducersRequest] = describe
    if ids:
        broker.on[ListTransactionsRequest] = lambda _: listing(*(f"id-{number}" for number in range(ids)))
    return broker


def partitions(n: int) -> PartitionBroker:
    return broker_of([[opened(7)] for _ in range(n)])


def producers(n: int) -> PartitionBroker:
    return broker_of([[opened(number) for number in range(n)]])


def ids(n: int) -> PartitionBroker:
    return broker_of([[opened(number) for number in range(n)]], n)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "n"), [(partitions, 10), (producers, 20), (ids, 20)])
def test_finding_open_transactions_grows_linearly(make: Callable[[int], PartitionBroker], n: int) -> None:
    def prepare(size: int) -> Callable[[], object]:
        async def scenario() -> None:
            async with make(size).running() as broker, admin(broker.address) as client:
                search = Search(topics=("orders",), confirm_after_s=0, max_timeout_ms=0)
                audit = await Admin.find_hanging_transactions(client, search)
                assert len(audit.findings) == size

        return lambda: run(scenario)

    assert_linear_steps(prepare, n, most=_TOLERANCE)


def test_routing_grows_linearly_with_partitions_that_do_not_exist() -> None:
    def prepare(n: int) -> Callable[[], object]:
        there = [TopicPartition("orders", number) for number in range(n)]
        found = Metadata(
            cluster_id=None,
            brokers={},
            partitions={place: _info(place) for place in there},
            errors={},
        )

        class Known:
            async def metadata(self, *_: Any, **__: Any) -> Metadata:
                return found

        missing = [TopicPartition("orders", n + number) for number in range(n)]

        async def scenario() -> None:
            assert len(await infos(cast(Cluster, Known()), missing, Deadline(1))) == n

        return lambda: run(scenario)

    assert_linear_steps(prepare, 30, most=_TOLERANCE)


def _info(place: TopicPartition) -> PartitionInfo:
    return PartitionInfo(place, 1, 0, (1,))
