"""The lease of an abort, on a real broker with transaction.version 0: the next transaction has the same epoch."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Any

import pytest

from kafkawire.client import Admin, Search, TopicPartition
from kafkawire.client.actions import lease
from kafkawire.client.actions.aborting import abort, look_at
from kafkawire.client.rpc.fetch_batches import first_batch
from kafkawire.messages import DescribeProducersRequest, ListOffsetsRequest, MetadataRequest
from kafkawire.proxy import Held, Proxy
from kafkawire.records import Batch
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec, choose
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = [pytest.mark.broker, pytest.mark.slow]

HOUR_MS = 3_600_000
TIMEOUT_S = 60.0
SEARCH = Search(confirm_after_s=0.1)
KINDS = [MetadataRequest, ListOffsetsRequest, DescribeProducersRequest]


@pytest.fixture(scope="module")
def old_version(start_cluster: StartCluster) -> Any:
    config = {"transaction.partition.verification.enable": False}
    with start_cluster(1, config=config, feature_levels={"transaction.version": 0}) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
def test_a_transaction_that_begins_while_an_answer_is_late_is_committed(
    old_version: RunningCluster, kind: type
) -> None:
    """The request is recorded; the next answer takes more than a second, and meanwhile the application goes on."""
    topic = f"leased-{kind.__name__.lower()}"

    async def topics() -> None:
        async with Admin.connect(old_version.bootstrap) as admin:
            await real_cluster.create_topics(admin, {topic: 2})

    asyncio.run(topics())
    with RawCluster(old_version.bootstrap) as wire, Proxy(old_version.bootstrap) as proxy:
        producer = wire.init_producer(topic)
        _hang(wire, topic, producer)
        recorded: list[bool] = []
        holding: queue.Queue[Held] = queue.Queue()

        def application() -> None:
            held = holding.get(timeout=TIMEOUT_S)
            assert held.caught.wait(TIMEOUT_S)
            wire.add_partitions(producer, {topic: [0]})
            wire.produce(topic, 0, [b"live"], producer, timestamp=int(time.time() * 1000), sequence=1)
            time.sleep(lease.LIMIT_S + 0.2)  # the lease is over by then
            held.release()

        def record(_: Any, __: Any, result: Any) -> None:
            if result is None and not recorded:
                recorded.append(True)
                holding.put(proxy.hold(kind))

        async def attempt() -> None:
            async with Admin.connect(proxy.address) as admin:
                named = TransactionSpec(topic=topic, partition=0, start_offset=0)
                finding = choose((await look_at(admin.cluster, named, SEARCH)).findings, named)
                assert (finding.verdict, finding.reason) == ("hanging", "transaction_ended")
                with pytest.raises(Refused) as caught:
                    await abort(admin.cluster, finding, SEARCH, record=record)
                assert caught.value.reason == "changed"

        thread = threading.Thread(target=application)
        thread.start()
        asyncio.run(asyncio.wait_for(attempt(), TIMEOUT_S))
        thread.join(TIMEOUT_S)
        assert wire.end(producer, committed=True) == 0
    assert asyncio.run(_first_marker(old_version.bootstrap, topic)) == "COMMIT"


def _hang(wire: RawCluster, topic: str, producer: RawProducer) -> None:
    """A batch of partition 0, which is not in the transaction that is committed."""
    old = int(time.time() * 1000) - 3 * HOUR_MS
    wire.add_partitions(producer, {topic: [1]})
    wire.produce(topic, 1, [b"x"], producer, timestamp=old)
    wire.produce(topic, 0, [b"hangs"], producer, timestamp=old)
    assert wire.end(producer, committed=True) == 0


async def _first_marker(bootstrap: str, topic: str) -> str | None:
    """Of partition 0, once it is there."""
    place = TopicPartition(topic, 0)

    def is_marker(batch: Batch) -> bool:
        return batch.is_control

    async with Admin.connect(bootstrap) as admin:
        deadline = admin.cluster.deadline()
        while True:
            end = (await admin.offsets([place])).all()[place].high_watermark
            found = await first_batch(admin.cluster, place, 0, end, deadline, is_marker)
            if found is not None and found.control is not None:
                return found.control.name
            assert await deadline.sleep(0.05)
