"""Clocks of brokers, which the audit of a live cluster compares by the times that brokers wrote."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client import Admin, Search
from kafkawire.client.diagnosis.live_clocks import clocks_ahead
from kafkawire.client.diagnosis.wire_audit import WireAudit, audit
from kafkawire.client.results import Metadata, PartitionInfo, TopicPartition
from kafkawire.testing import MockBroker
from kafkawire.transactions.facts import PartitionFacts, Place, partition_of
from tools.recordings.raw_client import RawCluster

NOW, MINUTE, HOUR = 1_800_000_000_000, 60_000, 3_600_000
#: The leader epoch of every partition.
EPOCH = 4


def clocks(*written: tuple[int, int] | None) -> str | None:
    """Partition n is led by broker n + 1. `written`: of each the leader epoch and the newest time in it."""
    partitions: list[PartitionFacts] = [
        replace(partition_of(Place("here", "orders", number), []), leader_time=time)
        for number, time in enumerate(written)
    ]
    infos = {
        place: PartitionInfo(place, place.partition + 1, EPOCH, ())
        for number in range(len(written))
        for place in [TopicPartition("orders", number)]
    }
    return clocks_ahead(partitions, Metadata("id", {}, infos, {}), NOW)


def test_one_broker_is_compared_with_the_others() -> None:
    found = clocks((EPOCH, NOW - HOUR), (EPOCH, NOW + HOUR), (EPOCH, NOW - MINUTE))
    assert found == (
        "the clock of broker 2 is ahead of the clock here by at least 1 h, that of brokers 1, 3 is not known to be"
    )


def test_where_all_are_ahead_the_clock_here_is_behind() -> None:
    found = clocks((EPOCH, NOW + HOUR), (EPOCH, NOW + 2 * HOUR))
    assert found == "the clock here is behind those of all brokers that wrote a time, by at least 1 h"


@pytest.mark.parametrize(
    "written",
    [
        (EPOCH, NOW - 26 * HOUR),  # it may have written nothing since
        (EPOCH, NOW + 1_000),
        (EPOCH - 1, NOW + HOUR),  # another broker's
        None,
    ],
)
def test_what_shows_nothing_of_a_clock_is_not_told(written: tuple[int, int] | None) -> None:
    assert clocks((EPOCH, NOW), written) is None


def test_the_audit_tells_a_broker_whose_clock_is_ahead() -> None:
    async def audited(broker: MockBroker) -> rows.Audit:
        async with Admin.connect(broker.address) as admin:
            return await audit(admin.cluster, WireAudit(search=Search(confirm_after_s=0), since_ms=0))

    with MockBroker({"orders": 1}) as broker, RawCluster(broker.address) as wire:
        for number, advanced in enumerate((0, HOUR)):
            producer = wire.init_producer(f"id-{number}")
            wire.add_partitions(producer, {"orders": [0]})
            wire.produce("orders", 0, [b"v"], producer, timestamp=NOW)
            broker.advance(advanced)
            wire.end(producer, committed=True)
            found = asyncio.run(audited(broker))
            told = "the clock of broker 1 is ahead of the clock here by at least 59 min"
            assert (told in str(found.read.clock)) == bool(advanced)
