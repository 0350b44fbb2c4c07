"""Three real brokers, one of which goes: what is hanging stays hanging, what cannot be proven is unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from kafkawire.client import Admin, Search, TopicPartition
from kafkawire.rows import Audit
from tests.broker_fixture import StartCluster
from tests.client import live
from tools.broker import Cluster
from tools.examples.wire import Producer, Wire

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
TOPIC = "hang"
INVENTED = Producer(987_654_321, 0)
#: Shorter than in the field, so that tests do not wait for minutes.
SESSION_MS = 3000
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def three(start_cluster: StartCluster) -> Iterator[Cluster]:
    config = {"transaction.partition.verification.enable": False, "broker.session.timeout.ms": SESSION_MS}
    with start_cluster(3, config=config, heap="300m") as cluster:

        async def topics() -> None:
            async with Admin.connect(cluster.bootstrap) as admin:
                await live.create_topics(admin, {TOPIC: 6}, replicas=3)

        asyncio.run(topics())
        yield cluster


async def find(cluster: Cluster) -> Audit:
    search = Search(topics=(TOPIC,), confirm_after_s=0.2, session_s=SESSION_MS / 1000 + 1, timeout_s=20)
    properties = {"socket.connection.setup.timeout.ms": "1500"}
    async with Admin.connect(cluster.bootstrap, properties) as admin:
        return await admin.find_hanging_transactions(search)


def test_a_broker_that_is_killed(three: Cluster) -> None:
    """Until its session is over, metadata names it and its ids are in nobody's list; then the others take over."""
    old = int(time.time() * 1000) - 3 * HOUR_MS
    with Wire(three.bootstrap) as wire:
        for partition in range(6):
            wire.produce(TOPIC, partition, [b"x"], INVENTED, timestamp=old)
        lives = []
        for i in range(4):
            producer = wire.init_producer(f"live-{i}")
            wire.add_partitions(producer, {TOPIC: [i]})
            wire.produce(TOPIC, i, [b"x"], producer, timestamp=old)
            lives.append(producer.producer_id)

    everything = ["hanging"] * 6 + ["not_hanging"] * 4
    before = asyncio.run(asyncio.wait_for(find(three), TIMEOUT_S))
    assert _verdicts(before) == everything
    assert before.read.complete
    three.kill_node(2)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        audit = asyncio.run(asyncio.wait_for(find(three), TIMEOUT_S))
        for finding in audit.findings:
            right = ("not_hanging",) if finding.producer_id in lives else ("hanging",)
            assert finding.verdict in (*right, "unknown"), finding  # whatever was missing, never the wrong one
        if _verdicts(audit) == everything:
            break
        assert time.monotonic() < deadline, audit


def _verdicts(audit: Audit) -> list[str]:
    return sorted(finding.verdict for finding in audit.findings)


def test_replicas_side_by_side(three: Cluster) -> None:
    """Followers answer DescribeProducers, too; a broker without a replica is named."""

    async def scenario() -> None:
        async with Admin.connect(three.bootstrap) as admin:
            place = TopicPartition(TOPIC, 0)
            states = [(await admin.describe_producers([place], broker_id=broker)).all()[place] for broker in (1, 3)]
            assert states[0] == states[1]

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))
