"""Causes on a real broker: a delayed request makes a transaction hang only where partitions are not verified."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from kafkawire import versions
from kafkawire.client import Admin, Search
from kafkawire.client.rpc.broker_traits import read_traits, releases_like
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeConfigsRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
)
from kafkawire.proxy import Proxy
from kafkawire.rows import Cause
from kafkawire.transactions.cluster.cluster_traits import VERIFICATION, ClusterTraits
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tests.client.answers import admin, scenario
from tests.client.scripted import ScriptedBroker
from tests.client.setups import until
from tools import polling
from tools.broker import RunningCluster
from tools.recordings import RecordingError
from tools.recordings.raw_client import TRANSIENT, RawCluster, RawProducer

TOPIC = "causes"
SEARCH = Search(topics=(TOPIC,), confirm_after_s=0.1, impact=True)
HOUR_MS = 3_600_000


def late_batch(bootstrap: str, partition: int, name: str, *, version: int = 1) -> str:
    """A Produce request is delivered after its transaction has ended (KIP-890); returns what the broker answers.

    Args:
        version: transaction.version of the producer. From 2 on, Produce adds partitions, and EndTxn raises the epoch.
    """
    produce_version, end_version = (12, 5) if version >= 2 else (9, 3)
    answered: list[str] = []
    at = int(time.time() * 1000) - 3 * HOUR_MS
    with (
        Proxy(bootstrap) as proxy,
        RawCluster(bootstrap) as direct,
        RawCluster(proxy.address) as slow,
    ):
        held = proxy.hold(ProduceRequest)
        producer = direct.init_producer(name)
        if version < 2:
            direct.add_partitions(producer, {TOPIC: [partition]})
        direct.produce(TOPIC, partition, [b"in time"], producer, timestamp=at, version=produce_version)

        def produce() -> None:
            try:
                slow.produce(TOPIC, partition, [b"late"], producer, timestamp=at, sequence=1, version=produce_version)
                answered.append("written")
            except RecordingError as error:
                answered.append(str(error))

        writing = threading.Thread(target=produce)
        writing.start()
        assert held.caught.wait(20)
        assert direct.end(producer, committed=True, version=end_version) == 0
        until(direct, name, "CompleteCommit")
        held.release()
        writing.join(30)
    (answer,) = answered
    return answer


@contextmanager
def verifying(bootstrap: str) -> Iterator[None]:
    """All brokers verify partitions meanwhile."""

    async def set_to(value: str) -> None:
        async with Admin.connect(bootstrap) as client:
            await real_cluster.set_broker_config(client, VERIFICATION, value)
            deadline = client.cluster.deadline()
            while (await traits(client)).verified is not (value == "true"):
                assert await deadline.sleep(0.05)

    asyncio.run(set_to("true"))
    try:
        yield
    finally:
        asyncio.run(set_to("false"))


async def traits(client: Admin) -> ClusterTraits:
    deadline = client.cluster.deadline()
    return await read_traits(client.cluster, await client.cluster.known_brokers(deadline), deadline)


def causes(bootstrap: str) -> dict[int, Cause | None]:
    async def find() -> dict[int, Cause | None]:
        async with Admin.connect(bootstrap) as client:
            found = (await client.find_hanging_transactions(SEARCH)).findings
            return {one.partition: one.cause for one in found if one.reason != "live"}

    return asyncio.run(asyncio.wait_for(find(), 90))


def create(bootstrap: str) -> None:
    async def topics() -> None:
        async with Admin.connect(bootstrap) as client:
            await real_cluster.create_topics(client, {TOPIC: 6})

    asyncio.run(topics())


@pytest.mark.broker
@pytest.mark.parametrize("release", ["4.4", "3.9"])
def test_a_delayed_batch_hangs_only_where_partitions_are_not_verified(
    request: pytest.FixtureRequest, release: str
) -> None:
    current = release == "4.4"
    address = request.getfixturevalue("broker").bootstrap if current else request.getfixturevalue("kafka_3_9").plain
    create(address)
    assert late_batch(address, 0, "causes-late") == "written"
    with verifying(address):
        assert "Produce to causes-1" in late_batch(address, 1, "causes-refused")
        after = causes(address)
    found = causes(address)
    assert list(found) == list(after) == [0]
    made, unexplained = found[0], after[0]
    assert made is not None
    assert (made.name, made.certainty) == ("late_data_after_marker", "proven")
    assert made.evidence[1] == f"{VERIFICATION} is false on broker 1."
    assert unexplained is not None
    assert (unexplained.name, unexplained.certainty) == ("unknown", "unknown")


def test_a_delayed_batch_hangs_on_a_release_that_does_not_verify(start_cluster: StartCluster) -> None:
    with start_cluster(1, version="3.5.2") as old:
        create(old.bootstrap)
        assert late_batch(old.bootstrap, 0, "causes-old") == "written"
        made = causes(old.bootstrap)[0]
    assert made is not None
    assert (made.name, made.certainty) == ("late_data_after_marker", "proven")
    assert made.evidence[1] == "Brokers of Kafka 3.5 do not verify partitions: that came with 3.6."


def test_transaction_version_2_refuses_a_delayed_batch_without_verification(broker: RunningCluster) -> None:
    create(broker.bootstrap)
    assert "Produce to causes-3 answers error 47" in late_batch(broker.bootstrap, 3, "causes-raised", version=2)
    assert 3 not in causes(broker.bootstrap)


def last_epoch(bootstrap: str, name: str) -> None:
    """A producer fences another one that has the last epoch, whose EndTxn is delivered after that.

    Partition 4 has the transaction that is fenced, partition 5 the one that begins with the epoch of EndTxn's response.
    """
    at = int(time.time() * 1000) - 3 * HOUR_MS
    begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
    with RawCluster(bootstrap) as wire:
        producer = wire.init_producer(name, timeout_ms=1000)
        coordinator = wire.connection(wire.coordinator(name))
        while producer.epoch < 32_766:
            missing = 32_766 - producer.epoch if producer.epoch >= 0 else 1  # an error has the epoch -1
            producer.epoch = coordinator.ask_often(begin, 4, InitProducerIdResponse, missing).producer_epoch
        wire.produce(TOPIC, 4, [b"fenced"], producer, timestamp=at, version=12)
        coordinator.ask(begin, 4, InitProducerIdResponse)
        late = EndTxnRequest(transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch)

        def ended() -> EndTxnResponse | None:
            answer = coordinator.ask(late, 5, EndTxnResponse)
            return None if answer.error_code in TRANSIENT else answer

        answer = polling.until(ended, "an answer to EndTxn", seconds=20)
        if answer.error_code == 0:
            goes_on = RawProducer(answer.producer_id, answer.producer_epoch, name)
            wire.produce(TOPIC, 5, [b"goes on"], goes_on, timestamp=at, version=12)
        coordinator.ask(begin, 4, InitProducerIdResponse)


@pytest.mark.parametrize(("version", "partition"), [("4.0.0", 4), ("4.2.0", 5)])
def test_the_last_epoch_hangs_on_a_release_without_its_fix(
    start_cluster: StartCluster, version: str, partition: int
) -> None:
    """KAFKA-19367 and KAFKA-20090."""
    with start_cluster(1, version=version, log_level="warn") as affected:
        create(affected.bootstrap)
        last_epoch(affected.bootstrap, "causes-epoch")
        found = polling.until(lambda: causes(affected.bootstrap) or None, "a finding", seconds=30)
    assert list(found) == [partition]
    made = found[partition]
    assert made is not None
    assert (made.name, made.certainty) == ("producer_epoch_exhausted", "consistent")


def test_the_last_epoch_does_not_hang_where_it_is_fixed(broker: RunningCluster) -> None:
    create(broker.bootstrap)
    last_epoch(broker.bootstrap, "causes-epoch")
    with RawCluster(broker.bootstrap) as wire:
        until(wire, "causes-epoch", "CompleteAbort")
    assert not {4, 5} & causes(broker.bootstrap).keys()


def test_a_marker_of_an_invented_epoch_is_the_cause_of_a_stuck_prepare(broker: RunningCluster) -> None:
    create(broker.bootstrap)
    at = int(time.time() * 1000) - 3 * HOUR_MS
    with RawCluster(broker.bootstrap) as wire:
        stuck = wire.init_producer("causes-stuck")
        wire.add_partitions(stuck, {TOPIC: [2]})
        wire.write_marker(TOPIC, 2, stuck, coordinator_epoch=1_000_000)
        wire.produce(TOPIC, 2, [b"x"], stuck, timestamp=at)
        assert wire.end(stuck, committed=True) == 0
    made = causes(broker.bootstrap)[2]
    assert made is not None
    assert (made.name, made.certainty) == ("coordinator_epoch_from_the_future", "proven")


def test_reads_the_release_and_features_of_a_real_broker(broker: RunningCluster) -> None:
    async def read() -> ClusterTraits:
        async with Admin.connect(broker.bootstrap) as client:
            return await traits(client)

    found = asyncio.run(read())
    assert (found.oldest, found.newest) == ((4, 4), (4, 4))
    assert (found.transaction_version, found.verified, found.id_expiration_ms) == (2, False, 604_800_000)


# Scripted -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_release_is_recognized_by_its_versions() -> None:
    for release in versions.releases():
        assert release in releases_like(versions.to_response(versions.of(release)))
    assert releases_like(ApiVersionsResponse()) == ()
    lenient = {**versions.of("4.4"), 0: range(14)}  # as a broker of 4.4.0 offers Produce
    assert releases_like(versions.to_response(lenient)) == ("4.4.0",)
    odd = versions.of("4.0") | {1: range(99)}
    assert releases_like(versions.to_response(odd)) == ()


@pytest.mark.slow
@scenario
async def test_a_broker_that_refuses_its_settings_leaves_them_unknown() -> None:
    made = ScriptedBroker({"orders": {0: 1}})
    made.versions[32] = (1, 4)
    made.on[DescribeConfigsRequest] = lambda _: None
    async with made.running(), admin(made.address) as client:
        found = await read_traits(client.cluster, [1], client.cluster.deadline(2))
    assert found == replace(ClusterTraits(), oldest=found.oldest, newest=found.newest)
    assert made.count(ApiVersionsRequest) >= 1
