"""`kafkawire txn` and kafka-transactions.sh end the same transactions, command by command, on one cluster."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire.client import Admin, TopicPartition
from kafkawire.client.rpc.fetch_batches import batches
from tests.cli.runner import Run
from tests.cli.stock import kafka, kafka_refuses, rows
from tests.client import real_cluster
from tools.broker import RunningCluster
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = pytest.mark.broker

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
TOPIC = "txn-stock"
#: Partitions: what each tool aborts by start offset, what by epochs, and what ends through the coordinator.
OURS, THEIRS, OURS_BY_EPOCHS, THEIRS_BY_EPOCHS, OURS_ENDS, THEIRS_ENDS = range(6)


class Made(NamedTuple):
    """The cluster; by partition, the producer and where its transaction begins."""

    address: str
    producers: dict[int, RawProducer]
    starts: dict[int, int]


@pytest.fixture(scope="module")
def made(broker: RunningCluster) -> Made:
    old = int(time.time() * 1000) - 3 * HOUR_MS

    async def topics() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {TOPIC: 6})

    asyncio.run(topics())
    producers: dict[int, RawProducer] = {}
    starts: dict[int, int] = {}
    with RawCluster(broker.bootstrap) as wire:
        for partition in range(6):
            producer = producers[partition] = wire.init_producer(f"{TOPIC}-{partition}")
            if partition >= OURS_ENDS:
                wire.add_partitions(producer, {TOPIC: [partition]})
            starts[partition] = wire.produce(TOPIC, partition, [b"x"], producer, timestamp=old)
    return Made(broker.bootstrap, producers, starts)


@pytest.fixture
def txn(run: Run, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def runner(command: str, *args: object) -> Any:
        return run("txn", command, "--bootstrap-server", made.address, *args)

    return runner


def batch_of_marker(made: Made, partition: int) -> Any:
    """The last batch of a partition."""

    async def last() -> Any:
        place = TopicPartition(TOPIC, partition)
        async with Admin.connect(made.address) as admin:
            deadline = admin.cluster.deadline()
            offsets = (await admin.offsets([place]))[place]
            assert offsets.last_stable_offset == offsets.high_watermark
            found = None
            await admin.cluster.known_brokers(deadline)
            async with aclosing(batches(admin.cluster, 1, place, 0, offsets.high_watermark, deadline)) as all_:
                async for batch in all_:
                    found = batch
            return found

    return asyncio.run(last())


def meaning(batch: Any) -> tuple[Any, ...]:
    """A marker without what is its partition's own."""
    (record,) = batch.records
    return str(batch.control), batch.control.coordinator_epoch, batch.producer_epoch, record.key, record.value


def _printed(finding: dict[str, Any]) -> dict[str, str]:
    """As kafka-transactions.sh prints it."""
    epoch = finding["coordinator_epoch"]
    return {
        "Topic": finding["topic"],
        "Partition": str(finding["partition"]),
        "ProducerId": str(finding["producer_id"]),
        "ProducerEpoch": str(finding["producer_epoch"]),
        "CoordinatorEpoch": str(-1 if epoch is None else epoch),
        "StartOffset": str(finding["start_offset"]),
        "LastTimestamp": str(finding["last_timestamp"]),
    }


def test_finds_the_same_as_kafkas_tool(txn: Any, made: Made) -> None:
    """Of all topics there, whatever other tests have left."""
    result = txn("find-hanging", "--broker-id", 1, "--confirm-after", 0.05, "--format", "json")
    found = [one for one in json.loads(result.text)["findings"] if one["verdict"] == "hanging"]
    ours = {tuple(_printed(one).values()): one["age_ms"] // MINUTE_MS for one in found}
    stock = kafka(made.address, "find-hanging", "--broker-id", 1)
    minutes = [int(row.pop("Duration(min)")) for row in stock]
    assert {tuple(row) for row in stock} == {tuple(_printed(found[0]))}  # every other column
    theirs = dict(zip((tuple(row.values()) for row in stock), minutes, strict=True))
    assert {one for one in theirs if one[0] == TOPIC} == {one for one in ours if one[0] == TOPIC}
    assert len({one for one in ours if one[0] == TOPIC}) == 4
    assert set(theirs) <= set(ours)
    assert all(0 <= theirs[one] - ours[one] <= 1 for one in theirs)  # a moment later


def test_list_filters_as_kafkas_tool(txn: Any, made: Made) -> None:
    """Brokers take ids without a transaction for open since 1969: Kafka's tool shows them, and we do not."""
    filters = ("--transactional-id-pattern", f"{TOPIC}-.*", "--duration-filter", 1)
    ours, theirs = rows(txn("list", *filters, "--format", "csv").text), kafka(made.address, "list", *filters)
    idle = [row for row in theirs if row["TransactionState"] in ("Empty", "CompleteCommit", "CompleteAbort")]
    assert idle
    assert sorted(map(str, ours)) == sorted(str(row) for row in theirs if row not in idle)
    assert ours


def test_refuses_what_kafkas_tool_refuses(txn: Any, made: Made) -> None:
    """What is not there: both exit with 1, and name partition and offset."""
    where = ("--topic", TOPIC, "--partition", OURS)
    theirs = kafka_refuses(made.address, "abort", *where, "--start-offset", 777)
    ours = txn("abort", *where, "--start-offset", 777, "--yes")
    assert (ours.code, ours.text) == (1, "")
    for text in ("777", f"{TOPIC}-{OURS}"):
        assert text in theirs
        assert text in ours.err


def test_abort_by_start_offset_writes_the_same_marker(txn: Any, made: Made) -> None:
    """Kafka's tool prints nothing; the marker that it writes is ours, bit for bit."""
    theirs = ("--topic", TOPIC, "--partition", THEIRS, "--start-offset", made.starts[THEIRS])
    assert kafka(made.address, "abort", *theirs) == []
    ours = ("--topic", TOPIC, "--partition", OURS, "--start-offset", made.starts[OURS])
    result = txn("abort", *ours, "--yes", "--confirm-after", 0.05)
    assert result.code == 0
    assert meaning(batch_of_marker(made, OURS)) == meaning(batch_of_marker(made, THEIRS))
    assert json.loads(result.text)["MarkerOffset"] == batch_of_marker(made, OURS).base_offset


def test_abort_by_epochs_writes_the_same_marker(txn: Any, made: Made) -> None:
    """Where no coordinator has ended a transaction of the producer yet, its epoch is taken for 0."""

    def epochs(partition: int) -> tuple[object, ...]:
        producer = made.producers[partition]
        return (
            "--topic", TOPIC, "--partition", partition, "--producer-id", producer.producer_id,
            "--producer-epoch", producer.epoch, "--coordinator-epoch", 0,
        )  # fmt: skip

    assert kafka(made.address, "abort", *epochs(THEIRS_BY_EPOCHS)) == []
    result = txn("abort", *epochs(OURS_BY_EPOCHS), "--yes", "--confirm-after", 0.05)
    assert (result.code, json.loads(result.text)["Outcome"]) == (0, "aborted")
    assert meaning(batch_of_marker(made, OURS_BY_EPOCHS)) == meaning(batch_of_marker(made, THEIRS_BY_EPOCHS))


def test_force_terminate_ends_like_kafkas_tool(txn: Any, made: Made) -> None:
    """Kafka's tool repeats InitProducerId until it gets a producer; ours does not (the next one may be open)."""
    ours, theirs = f"{TOPIC}-{OURS_ENDS}", f"{TOPIC}-{THEIRS_ENDS}"
    assert kafka(made.address, "forceTerminateTransaction", "--transactionalId", theirs) == []
    result = txn("forceTerminateTransaction", "--transactionalId", ours, "--yes")
    row = json.loads(result.text)
    assert (result.code, row["Outcome"]) == (0, "terminated")

    async def described() -> Any:
        async with Admin.connect(made.address) as admin:
            return (await admin.describe_transactions([ours, theirs])).all()

    after = asyncio.run(described())
    assert (after[ours].state, after[theirs].state) == ("CompleteAbort", "Empty")
    assert after[theirs].producer_epoch == after[ours].producer_epoch + 1
    assert (row["NewProducerEpoch"], row["NewTransactionState"]) == (after[ours].producer_epoch, "CompleteAbort")
    assert meaning(batch_of_marker(made, OURS_ENDS)) == meaning(batch_of_marker(made, THEIRS_ENDS))


def test_force_terminate_does_not_create_an_unknown_id(txn: Any, made: Made) -> None:
    """Kafka's tool creates it silently."""
    ours, theirs = f"{TOPIC}-nobody-of-ours", f"{TOPIC}-nobody-of-theirs"
    assert kafka(made.address, "forceTerminateTransaction", "--transactionalId", theirs) == []
    assert txn("force-terminate", "--transactional-id", ours, "--yes").code == 1
    listed = txn("list", "--transactional-id-pattern", f"{TOPIC}-nobody.*", "--format", "json")
    assert [row["TransactionalId"] for row in json.loads(listed.text)] == [theirs]
