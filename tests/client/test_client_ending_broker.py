"""Transactions are ended on real brokers, of 4.4 and of 3.9, and readers move on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import pytest

from kafkawire.client import Admin, TopicPartition
from kafkawire.client.actions.aborting import abort, look_at
from kafkawire.client.actions.terminating import Terminated, describe_one, left_open, terminate
from kafkawire.client.diagnosis.ended_transaction import how_it_ended
from kafkawire.client.diagnosis.search import Search
from kafkawire.messages import WriteTxnMarkersRequest
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.rows import Finding
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec, choose
from tests.client import real_cluster
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
TIMEOUT_S = 60.0
TOPIC = "ending"
HANGS, LIVES, STUCK, ENDS, BESIDE = range(5)
SEARCH = Search(confirm_after_s=0.1, address="h:1")
T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


class Furnished(NamedTuple):
    """A cluster with transactions in the partitions of `TOPIC`, and the offsets at which they begin."""

    address: str
    starts: dict[int, int]


@pytest.fixture(scope="module", params=["4.4", "3.9"])
def furnished(request: pytest.FixtureRequest) -> Furnished:
    """4.4 without authorizer, 3.9 with one."""
    if request.param == "4.4":
        address = request.getfixturevalue("broker").bootstrap
    else:
        address = request.getfixturevalue("kafka_3_9").plain

    async def topics() -> None:
        async with Admin.connect(address) as admin:
            await real_cluster.create_topics(admin, {TOPIC: 5})

    run(topics())
    with RawCluster(address) as wire:
        return Furnished(address, _make(wire, int(time.time() * 1000) - 3 * HOUR_MS))


def _make(wire: RawCluster, old: int) -> dict[int, int]:
    starts: dict[int, int] = {}

    def write(partition: int, producer: RawProducer, **more: Any) -> None:
        starts[partition] = wire.produce(TOPIC, partition, [b"lost"], producer, timestamp=old, **more)

    write(HANGS, wire.init_producer("ending-hangs"))
    behind = wire.init_producer("ending-behind")
    wire.add_partitions(behind, {TOPIC: [HANGS]})
    wire.produce(TOPIC, HANGS, [b"committed"], behind, timestamp=old)
    assert wire.end(behind, committed=True) == 0
    lives = wire.init_producer("ending-lives")
    wire.add_partitions(lives, {TOPIC: [LIVES]})
    write(LIVES, lives)
    stuck = wire.init_producer("ending-stuck")
    wire.add_partitions(stuck, {TOPIC: [STUCK]})
    wire.write_marker(TOPIC, STUCK, stuck, coordinator_epoch=1_000_000)
    write(STUCK, stuck)
    assert wire.end(stuck, committed=True) == 0
    ends = wire.init_producer("ending-ends")
    wire.add_partitions(ends, {TOPIC: [ENDS]})
    write(ENDS, ends)
    write(BESIDE, ends)
    return starts


async def judged(admin: Admin, furnished: Furnished, partition: int) -> Finding:
    named = TransactionSpec(topic=TOPIC, partition=partition, start_offset=furnished.starts[partition])
    return choose((await look_at(admin.cluster, named, SEARCH)).findings, named)


async def end(admin: Admin, transactional_id: str) -> Terminated:
    found, _ = await describe_one(admin.cluster, transactional_id, SEARCH)
    return await terminate(admin.cluster, found, SEARCH, record=lambda *_: None)


def test_readers_proceed_after_an_abort(furnished: Furnished) -> None:
    """A real consumer waits before the hanging transaction, and gets what is behind it once that is aborted."""
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    place = TopicPartition(TOPIC, HANGS)
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": furnished.address,
            "group.id": "ending",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, HANGS, 0)])
        assert consumer.poll(0.5) is None

        async def scenario() -> None:
            async with Admin.connect(furnished.address) as admin:
                before = (await admin.offsets([place])).all()[place]
                finding = await judged(admin, furnished, HANGS)
                assert (finding.verdict, finding.blocked) == ("hanging", True)
                assert before.last_stable_offset == finding.start_offset
                done = await abort(admin.cluster, finding, SEARCH, record=lambda *_: None)
                assert (done.outcome, done.problem) == ("aborted", None)
                assert done.marker_offset == before.high_watermark
                after = (await admin.offsets([place])).all()[place]
                assert after.last_stable_offset == after.high_watermark == done.marker_offset + 1
                with pytest.raises(Refused, match="no transaction is open there that began at"):
                    await judged(admin, furnished, HANGS)
                by_start = TransactionSpec(topic=TOPIC, partition=HANGS, start_offset=finding.start_offset)
                by_producer = TransactionSpec(
                    topic=TOPIC, partition=HANGS, producer_id=finding.producer_id, producer_epoch=finding.producer_epoch
                )
                for named in (by_start, by_producer):
                    ended = await how_it_ended(admin.cluster, named)
                    assert ended is not None
                    assert (ended.marker, ended.marker_offset) == ("ABORT", done.marker_offset)

        run(scenario())
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"committed"
    finally:
        consumer.close()


@pytest.mark.parametrize(("partition", "reason"), [(LIVES, "live"), (STUCK, "stuck_prepare")])
@pytest.mark.parametrize("force", [False, True])
def test_what_a_coordinator_holds_is_left_alone(furnished: Furnished, partition: int, reason: str, force: bool) -> None:
    """Kafka's tool aborts both, without a warning."""
    place = TopicPartition(TOPIC, partition)

    async def scenario() -> None:
        async with Admin.connect(furnished.address) as admin:
            before = (await admin.offsets([place])).all()[place]
            finding = await judged(admin, furnished, partition)
            with pytest.raises(Refused) as caught:
                await abort(admin.cluster, finding, SEARCH, record=lambda *_: None, force=force)
            assert caught.value.reason == reason
            assert (await admin.offsets([place])).all()[place] == before

    run(scenario())


def test_terminates_through_the_coordinator(furnished: Furnished) -> None:
    """It is closed in its partitions. It stays open in one that the coordinator does not know, and is found there."""
    places = [TopicPartition(TOPIC, ENDS), TopicPartition(TOPIC, BESIDE)]

    async def scenario() -> None:
        async with Admin.connect(furnished.address) as admin:
            done = await end(admin, "ending-ends")
            assert (done.outcome, done.problem) == ("terminated", None)
            assert done.before.partitions == (places[0],)
            assert done.producer is not None
            assert done.producer.producer_epoch > done.before.producer_epoch
            offsets = (await admin.offsets(places)).all()
            assert offsets[places[0]].last_stable_offset == offsets[places[0]].high_watermark
            assert offsets[places[1]].last_stable_offset == furnished.starts[BESIDE]
            left = await left_open(admin.cluster, done.before.producer_id, SEARCH)
            assert [(one.topic, one.partition, one.verdict) for one in left.findings] == [(TOPIC, BESIDE, "hanging")]
            (finding,) = left.findings
            assert (await abort(admin.cluster, finding, SEARCH, record=lambda *_: None)).outcome == "aborted"
            assert not (await left_open(admin.cluster, done.before.producer_id, SEARCH)).findings
            assert (await end(admin, "ending-ends")).outcome == "nothing_open"

    run(scenario())


def test_a_stuck_one_is_not_ended(furnished: Furnished) -> None:
    async def scenario() -> None:
        async with Admin.connect(furnished.address) as admin:
            with pytest.raises(Refused, match=f"COMMIT is decided.*{TOPIC}-{STUCK}: The partition has seen a marker"):
                await end(admin, "ending-stuck")

    run(scenario())


def test_an_id_that_does_not_exist_is_not_created(furnished: Furnished) -> None:
    """Kafka's tool creates it."""

    async def scenario() -> None:
        async with Admin.connect(furnished.address) as admin:
            with pytest.raises(Refused, match="nothing was sent, for that would create it"):
                await end(admin, "ending-absent")
            listed = (await admin.list_transactions()).all()
            assert "ending-absent" not in {one.transactional_id for found in listed.values() for one in found}

    run(scenario())


def test_a_commit_that_is_stuck_is_written_by_hand(broker: Any) -> None:
    """As docs/transactions.md has it: the partition has the decided marker, and readers move on."""
    topic, place = "ending-by-hand", TopicPartition("ending-by-hand", 0)

    async def scenario() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {topic: 1})
            with RawCluster(broker.bootstrap) as wire:
                stuck = wire.init_producer("ending-by-hand")
                wire.add_partitions(stuck, {topic: [0]})
                wire.write_marker(topic, 0, stuck, coordinator_epoch=1_000_000)
                start = wire.produce(topic, 0, [b"kept"], stuck, timestamp=int(time.time() * 1000) - 3 * HOUR_MS)
                assert wire.end(stuck, committed=True) == 0
            named = TransactionSpec(topic=topic, partition=0, start_offset=start)
            finding = choose((await look_at(admin.cluster, named, SEARCH)).findings, named)
            assert (finding.reason, finding.coordinator_epoch) == ("stuck_prepare", 1_000_000)
            assert "so a COMMIT marker has to be written to broker 1, the leader of ending-by-hand-0 (" in (
                finding.action or ""
            )
            marker = WritableTxnMarker(
                producer_id=finding.producer_id,
                producer_epoch=finding.producer_epoch,
                coordinator_epoch=1_000_000,
                transaction_result=True,
                topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),),
            )
            request = WriteTxnMarkersRequest(markers=(marker,))
            answer = await admin.cluster.ask_broker(1, request, admin.cluster.deadline())
            assert answer.markers[0].topics[0].partitions[0].error_code == 0
            ended = await how_it_ended(admin.cluster, named)
            assert ended is not None
            assert ended.marker == "COMMIT"
            offsets = (await admin.offsets([place]))[place]
            assert offsets.last_stable_offset == offsets.high_watermark == ended.marker_offset + 1

    run(scenario())
