"""What a live cluster's open transactions hold back: figures that come true on a real broker, and what is refused."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.client import Admin, Search, TopicPartition
from kafkawire.client.actions.aborting import abort, look_at
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.client.diagnosis.impact_reading import read_impacts
from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    FetchRequest,
    FetchResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkawire.messages import offset_fetch_response as module
from kafkawire.messages.describe_configs_response import DescribeConfigsResult
from kafkawire.messages.list_groups_response import ListedGroup
from kafkawire.records import Batch
from kafkawire.rows import Finding, Impact
from kafkawire.transactions import Settings
from kafkawire.transactions.verdict.abort_rules import TransactionSpec, choose
from tests.client import real_cluster
from tests.client.answers import admin, scenario
from tests.client.hanging_script import SEARCH, find
from tests.client.hanging_script import broker as scripted_broker
from tests.client.scripted import ScriptedBroker
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

TOPIC = "impact"
P = TopicPartition(TOPIC, 0)
IMPACT = Search(confirm_after_s=0.1, address="h:1", topics=(TOPIC,), impact=True, show_records=1)
HOUR_MS = 3_600_000


# Scripted -------------------------------------------------------------------------------------------------------------


def guarded() -> ScriptedBroker:
    """A broker that refuses everything that an impact is read from."""
    made = scripted_broker()
    made.versions |= {1: (4, 12), 9: (7, 9), 16: (0, 5), 32: (1, 4), 35: (1, 4)}
    made.on |= {
        DescribeConfigsRequest: lambda request: DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(error_code=29, resource_type=one.resource_type, resource_name=one.resource_name)
                for one in request.resources
            )
        ),
        DescribeLogDirsRequest: lambda _: DescribeLogDirsResponse(error_code=31),
        ListGroupsRequest: lambda _: ListGroupsResponse(error_code=31),
        FetchRequest: lambda _: FetchResponse(error_code=29),
    }
    return made


def only(findings: Any) -> Impact:
    (finding,) = findings
    assert finding.impact is not None
    made: Impact = finding.impact
    return made


@scenario
async def test_refusals_are_named_and_are_no_gap() -> None:
    made = guarded()
    audit = await find(made, replace(SEARCH, impact=True))
    impact = only(audit.findings)
    assert (impact.held.start_offset, impact.held.end_offset, impact.held.bytes) == (40, 90, None)
    assert impact.held.estimated
    text = "\n".join(impact.unknown)
    for subject in ("groups of broker 1", "the topic's settings", "the records, which were not fetched", "bytes of"):
        assert subject in text
    assert audit.read.complete


@scenario
async def test_nothing_more_is_asked_without_the_option() -> None:
    made = guarded()
    audit = await find(made)
    assert only(audit.findings).held.end_offset == 90
    for request in (FetchRequest, ListGroupsRequest, DescribeLogDirsRequest, OffsetFetchRequest):
        assert made.count(request) == 0


@scenario
async def test_a_transaction_is_measured_once() -> None:
    """A watch repeats the search: what an earlier one measured is kept."""
    made = guarded()
    search = replace(SEARCH, impact=True)
    async with made.running(), admin(made.address) as client:
        first = await observe(client.cluster, search, {})
        counts = [made.count(kind) for kind in (FetchRequest, ListGroupsRequest, DescribeLogDirsRequest)]
        earlier = {(TopicPartition(one.topic, one.partition), one.producer_id): one for one in first.audit.findings}
        again = await observe(client.cluster, search, earlier)
    assert counts == [1, 1, 1]
    assert [made.count(kind) for kind in (FetchRequest, ListGroupsRequest, DescribeLogDirsRequest)] == counts
    assert only(again.audit.findings) == only(first.audit.findings)


@scenario
async def test_nothing_is_read_for_a_live_transaction() -> None:
    made = guarded()
    live_one = Finding(
        verdict="not_hanging", reason="live", topic="orders", partition=0, producer_id=7, producer_epoch=0,
        start_offset=40, high_watermark=90, last_stable_offset=40,
    )  # fmt: skip
    async with made.running(), admin(made.address) as client:
        found = await read_impacts(client.cluster, [live_one], replace(SEARCH, impact=True), [1], {})
    assert only(found).held.end_offset == 90
    assert made.requests == []


@pytest.mark.parametrize("versions", [(7, 7), (7, 9)])
@scenario
async def test_offsets_of_groups_are_read_one_by_one_from_old_brokers(versions: tuple[int, int]) -> None:
    """Several groups in a request came with OffsetFetch 8. Share groups have no offsets there."""
    made = guarded()
    made.versions[9] = versions

    def fetch(request: OffsetFetchRequest) -> OffsetFetchResponse:
        if request.groups:
            partition = module.OffsetFetchResponsePartitions(partition_index=0, committed_offset=40)
            topic = module.OffsetFetchResponseTopics(name="orders", partitions=(partition,))
            return OffsetFetchResponse(
                groups=tuple(
                    module.OffsetFetchResponseGroup(group_id=one.group_id, topics=(topic,)) for one in request.groups
                )
            )
        of_group = module.OffsetFetchResponsePartition(partition_index=0, committed_offset=40)
        return OffsetFetchResponse(topics=(module.OffsetFetchResponseTopic(name="orders", partitions=(of_group,)),))

    listed = (ListedGroup(group_id="a"), ListedGroup(group_id="b"), ListedGroup(group_id="s", group_type="share"))
    made.on |= {ListGroupsRequest: lambda _: ListGroupsResponse(groups=listed), OffsetFetchRequest: fetch}
    impact = only((await find(made, replace(SEARCH, impact=True))).findings)
    assert impact.groups is not None
    assert [(one.group, one.waits, one.lag) for one in impact.groups] == [("a", True, 50), ("b", True, 50)]
    assert made.count(OffsetFetchRequest) == (2 if versions[1] == 7 else 1)


# A real broker --------------------------------------------------------------------------------------------------------


def furnish(wire: RawCluster, at: int) -> None:
    """Data, a transaction that hangs, data of others behind it, and one more batch of the transaction."""
    idle = RawProducer(-1, -1)
    for _ in range(10):
        wire.produce(TOPIC, 0, [b"before"] * 5, idle, timestamp=at, sequence=-1, transactional=False)
    lost = wire.init_producer("impact-lost")
    wire.produce(TOPIC, 0, [b"lost %d" % n for n in range(4)], lost, timestamp=at)
    for number in range(60):
        values = [b"behind %3d" % number + b"." * 90] * 5
        wire.produce(TOPIC, 0, values, idle, timestamp=at, sequence=-1, transactional=False)
    wire.produce(TOPIC, 0, [b"lost"] * 2, lost, timestamp=at, sequence=4)


def consumed(kafka: Any, address: str, end: int) -> int:
    """Records that a read_committed consumer gets of the partition, once it has come to `end`."""
    consumer = kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "impact-reader", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, 0, 0)])
        count, until = 0, time.monotonic() + 60
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                count += 1
            elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                assert message.offset() == end
                return count
        raise AssertionError(f"the consumer did not come to offset {end}")
    finally:
        consumer.close()


def sizes(cluster: RunningCluster) -> dict[int, int]:
    """Bytes of the partition's batches, by base offset."""
    (partition,) = (p for p in logdir.open(cluster.log_dirs[1]).partitions if (p.topic, p.partition) == P)
    return {one.base_offset: one.size for one in partition if isinstance(one, Batch)}


def test_the_figures_come_true_on_a_real_broker(broker: RunningCluster) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

    async def before() -> tuple[Finding, Finding]:
        async with Admin.connect(broker.bootstrap) as client:
            await real_cluster.create_topics(client, {TOPIC: 1})
            with RawCluster(broker.bootstrap) as wire:
                await asyncio.to_thread(furnish, wire, int(time.time() * 1000) - 3 * HOUR_MS)
            await real_cluster.commit_offsets(client, "impact-waits", TOPIC, {0: 50})
            await real_cluster.commit_offsets(client, "impact-comes", TOPIC, {0: 20})
            await real_cluster.commit_offsets(client, "impact-reads-all", TOPIC, {0: 300})
            (counted,) = (await client.find_hanging_transactions(IMPACT)).findings
            few = replace(IMPACT, fetch_bytes=12_000)
            (estimated,) = (await client.find_hanging_transactions(few)).findings
            return counted, estimated

    async def end() -> int:
        async with Admin.connect(broker.bootstrap) as client:
            named = TransactionSpec(topic=TOPIC, partition=0, start_offset=50)
            finding = choose((await look_at(client.cluster, named, IMPACT)).findings, named)
            done = await abort(client.cluster, finding, IMPACT, record=lambda *_: None)
            assert (done.outcome, done.problem) == ("aborted", None)
            assert done.marker_offset is not None
            return done.marker_offset

    counted, estimated = asyncio.run(asyncio.wait_for(before(), 90))
    impact = only([counted])
    high = counted.high_watermark
    assert high == 50 + 6 + 300
    readable = consumed(kafka, broker.bootstrap, 50)
    assert readable == 50
    marker = asyncio.run(asyncio.wait_for(end(), 90))

    # Offsets, records, and bytes as they are on disk.
    freed = {base: size for base, size in sizes(broker).items() if 50 <= base < marker}
    assert (impact.held, marker) == (impact.released, high)
    assert (impact.held.start_offset, impact.held.end_offset) == (50, high)
    assert (impact.held.records, impact.held.bytes) == (306, sum(freed.values()))
    assert not impact.held.estimated
    # What an abort hides.
    data = impact.data
    assert data is not None
    assert (data.records, data.first_offset, data.last_offset) == (6, 50, high - 1)
    assert [one.value for one in data.shown] == ["lost 0"]
    assert consumed(kafka, broker.bootstrap, marker + 1) == readable + 306 - data.records
    # A bounded Fetch, and an estimate.
    few = only([estimated])
    assert few.held.estimated
    assert few.held.bytes is not None
    assert few.held.bytes == pytest.approx(sum(freed.values()), rel=0.1)
    assert few.data is not None
    assert (few.data.records, few.data.estimated) == (4, True)
    # Groups.
    assert impact.groups is not None
    groups = {one.group: (one.waits, one.committed_lag, one.lag) for one in impact.groups}
    assert groups["impact-waits"] == (True, 0, 306)
    assert groups["impact-comes"] == (False, 30, 336)
    assert groups["impact-reads-all"] == (False, 0, 56)
    assert (impact.retention, impact.compaction, impact.unknown) == ("not_held", None, ())


def test_a_compacted_topic_is_held_where_its_copy_says(broker: RunningCluster) -> None:
    """The same figures from the broker's answers and from its disks."""
    topic = "impact-compacted"

    async def read() -> Finding:
        async with Admin.connect(broker.bootstrap) as client:
            await real_cluster.create_topics(client, {topic: 1}, configs={"cleanup.policy": "compact"})
            with RawCluster(broker.bootstrap) as wire:
                at = int(time.time() * 1000) - 3 * HOUR_MS
                lost = wire.init_producer("impact-compacted")
                wire.produce(topic, 0, [b"x"] * 3, lost, timestamp=at)
                wire.produce(topic, 0, [b"y"] * 9, RawProducer(-1, -1), timestamp=at, sequence=-1, transactional=False)
            search = replace(IMPACT, topics=(topic,))
            (found,) = (await client.find_hanging_transactions(search)).findings
            return found

    over_the_wire = only([asyncio.run(asyncio.wait_for(read(), 90))])
    audit = transactions.audit(logdir.open(broker.log_dirs[1]), Settings(show_records=1))
    on_disk = only([one for one in audit.findings if one.topic == topic])
    assert over_the_wire.compaction is not None
    assert on_disk.compaction is not None
    assert over_the_wire.compaction.held_offset == on_disk.compaction.held_offset == 0
    assert over_the_wire.retention == on_disk.retention == "none"
    assert over_the_wire.data == on_disk.data
    assert (over_the_wire.held.records, over_the_wire.held.end_offset) == (12, 12)
    assert on_disk.held.end_offset <= 12  # the checkpoint is written every 5 s
