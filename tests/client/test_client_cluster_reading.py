"""A leader that other brokers do not name is no evidence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.messages import (
    MetadataRequest,
)
from tests.client.answers import admin, requests_at_once, scenario
from tests.client.hanging_script import (
    HANGING,
    SEARCH,
    STATE,
    broker,
    verdicts,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("other", [(1, 5), (2, 6), (-1, 6)])
@scenario
async def test_brokers_that_name_different_leaders_make_it_unknown(other: tuple[int, int]) -> None:
    """Broker 1 was deposed and has not learnt of it: its description of the partition is no evidence."""
    leader, epoch = other
    made, newer = broker(), broker()
    newer.node_id, newer.topics["orders"] = 2, {0: leader}
    made.topics[STATE] = newer.topics[STATE] = {0: 1, 1: 1}
    metadata = newer.metadata

    def moved(request: Any) -> Any:
        answer = metadata(request)
        topics = (
            replace(topic, partitions=tuple(replace(one, leader_epoch=epoch) for one in topic.partitions))
            if topic.name == "orders"
            else topic
            for topic in answer.topics
        )
        return replace(answer, topics=tuple(topics))

    newer.on[MetadataRequest] = moved
    async with made.running(), newer.running():
        made.brokers = newer.brokers = {1: made.port, 2: newer.port}
        async with admin(made.address) as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [("unknown", "coverage_incomplete")]
    sentences = " ".join(audit.findings[0].evidence)
    assert "Its leader changed, or brokers still disagree on it: broker 1 in leader epoch 0, " in sentences
    assert f"{'none' if leader < 0 else f'broker {leader}'} in leader epoch {epoch}." in sentences


@scenario
async def test_brokers_that_name_the_same_leader_confirm_it() -> None:
    made, other = broker(), broker()
    other.node_id = 2
    async with made.running(), other.running():
        made.brokers = other.brokers = {1: made.port, 2: other.port}
        async with admin(made.address) as client:
            audit = await client.find_hanging_transactions(SEARCH)
    assert verdicts(audit) == [HANGING]
    assert other.count(MetadataRequest) == 3  # once after the first reading, and twice in the second


@scenario
async def test_sends_requests_of_different_kinds_one_after_the_other() -> None:
    """A broker that closes the connection on one of them would end the others on it."""
    made = broker()
    async with made.running(), admin(made.address) as client:
        at_once = requests_at_once(client.cluster.waits)
        assert verdicts(await client.find_hanging_transactions(SEARCH)) == [HANGING]
    assert {frozenset({"ListOffsets"}), frozenset({"ListTransactions"})} <= at_once
    assert all(len(names) <= 1 for names in at_once), at_once
