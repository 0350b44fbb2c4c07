"""A broker's own gauges (by JMX) beside the metrics of a watch: the same values of the same partitions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import pytest

from kafkawire.client import Admin, Search, Watch
from kafkawire.client.watch.metrics import lags, late_by_broker
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.broker.cluster import free_ports
from tools.broker.kafka_tools import run_tool
from tools.recordings.raw_client import RawCluster, RawProducer

MINUTE_MS = 60_000
TOPIC = "late"
ONE, TWO = RawProducer(765_432_101, 0), RawProducer(765_432_102, 0)
LATE = "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount"
LAG = f"kafka.cluster:type=Partition,name=LastStableOffsetLag,topic={TOPIC},partition="
#: By partition: the batches of two producers, and their ages in minutes.
BATCHES = (
    [(ONE, 30)],
    [(ONE, 1), (TWO, 30)],
    [(ONE, 30), (TWO, 1)],
    [(ONE, 30), (ONE, 1)],
    [],
)
#: Whose earliest transaction had its last batch more than 20 minutes ago.
IS_LATE = (True, False, True, False, False)


@pytest.fixture(scope="module")
def observed(start_cluster: StartCluster) -> Iterator[tuple[RunningCluster, str]]:
    """A broker that exposes its gauges, and the address of its JMX."""
    (port,) = free_ports(1)
    flags = ["host=127.0.0.1", "authenticate=false", "ssl=false", f"port={port}", f"rmi.port={port}"]
    options = " ".join(f"-Dcom.sun.management.jmxremote.{flag}" for flag in flags)
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JDK_JAVA_OPTIONS", f"{options} -Djava.rmi.server.hostname=127.0.0.1")
            settings = {"transaction.partition.verification.enable": False}
            cluster = stack.enter_context(start_cluster(1, config=settings))
        yield cluster, f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"


def gauges(address: str) -> dict[str, int]:
    """By name of the bean."""
    names = [LATE, *(f"{LAG}{partition}" for partition in range(len(BATCHES)))]
    wanted = [word for name in names for word in ("--object-name", name)]
    out = run_tool("JmxTool", "--jmx-url", address, *wanted, "--one-time", "true", "--report-format", "csv")
    lines = (line.rpartition(":Value,") for line in out.splitlines())  # names have commas, too
    return {name: int(value.strip('"')) for name, _, value in lines if name}


async def _create(bootstrap: str) -> None:
    async with Admin.connect(bootstrap) as admin:
        await real_cluster.create_topics(admin, {TOPIC: len(BATCHES)})


async def _watched(bootstrap: str) -> Watch:
    async with Admin.connect(bootstrap) as admin:
        watch = Watch(admin, Search(confirm_after_s=0.05), interval_s=60)
        await watch.poll()
        return watch


def test_the_broker_counts_the_same(observed: tuple[RunningCluster, str]) -> None:
    cluster, address = observed
    asyncio.run(_create(cluster.bootstrap))
    now = int(time.time() * 1000)
    with RawCluster(cluster.bootstrap) as wire:
        for partition, batches in enumerate(BATCHES):
            written: dict[int, int] = {}
            for producer, age in batches:
                sequence = written.get(producer.producer_id, 0)
                when = now - age * MINUTE_MS
                wire.produce(TOPIC, partition, [b"x"], producer, timestamp=when, sequence=sequence)
                written[producer.producer_id] = sequence + 1
    watch = asyncio.run(_watched(cluster.bootstrap))
    theirs = gauges(address)
    assert theirs[LATE] == sum(IS_LATE)
    assert late_by_broker(watch.state) == {1: theirs[LATE]}
    ours = {place.partition: lag for place, lag in lags(watch.state.seen.values()).items() if place.topic == TOPIC}
    assert {partition: ours.get(partition, 0) for partition in range(len(BATCHES))} == {
        partition: theirs[f"{LAG}{partition}"] for partition in range(len(BATCHES))
    }
