"""Real clients against the mock broker: a commit, an abort, a commit with offsets; then both isolation levels."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.testing import MockBroker
from tools.broker import BrokerUnavailableError, jars

pytestmark = pytest.mark.slow

READS = {"read_committed": ["committed", "with offsets"], "read_uncommitted": ["committed", "aborted", "with offsets"]}
TIMEOUT_S = 60
Read = dict[str, list[str]]


def librdkafka(address: str) -> Read:
    client = pytest.importorskip("confluent_kafka")
    quiet = {"bootstrap.servers": address, "log_level": 2}
    producer = client.Producer(quiet | {"transactional.id": "librdkafka", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    group = client.Consumer(quiet | {"group.id": "copied"})
    for value, commits in (("committed", True), ("aborted", False), ("with offsets", True)):
        producer.begin_transaction()
        producer.produce("orders", value, key="k", partition=0)
        producer.flush(TIMEOUT_S)
        if value == "with offsets":
            offsets = [client.TopicPartition("orders", 0, 3)]
            producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), TIMEOUT_S)
        if commits:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    group.close()
    found: Read = {}
    for isolation, wanted in READS.items():
        options = {"group.id": isolation, "auto.offset.reset": "earliest", "isolation.level": isolation}
        consumer = client.Consumer(quiet | options)
        consumer.subscribe(["orders"])
        values = found[isolation] = []
        while len(values) < len(wanted):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            values.append(message.value().decode())
        consumer.commit(asynchronous=False)
        consumer.close()
    return found


def kafka_python(address: str) -> Read:
    client = pytest.importorskip("kafka")
    producer = client.KafkaProducer(bootstrap_servers=address, transactional_id="kafka-python", linger_ms=0)
    producer.init_transactions()
    for value, commits in (("committed", True), ("aborted", False), ("with offsets", True)):
        producer.begin_transaction()
        producer.send("orders", value.encode(), key=b"k", partition=0).get(TIMEOUT_S)
        if value == "with offsets":
            from kafka.structs import OffsetAndMetadata

            offsets = {client.TopicPartition("orders", 0): OffsetAndMetadata(3, "", -1)}
            producer.send_offsets_to_transaction(offsets, "copied")
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    found: Read = {}
    for isolation, wanted in READS.items():
        consumer = client.KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id=isolation,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            consumer_timeout_ms=TIMEOUT_S * 1000,
        )
        found[isolation] = [next(consumer).value.decode() for _ in wanted]
        consumer.commit()
        consumer.close()
    return found


def aiokafka(address: str) -> Read:
    client = pytest.importorskip("aiokafka")

    async def run() -> Read:
        producer = client.AIOKafkaProducer(bootstrap_servers=address, transactional_id="aiokafka")
        await producer.start()
        for value, commits in (("committed", True), ("aborted", False), ("with offsets", True)):
            await producer.begin_transaction()
            await producer.send_and_wait("orders", value.encode(), key=b"k", partition=0)
            if value == "with offsets":
                await producer.send_offsets_to_transaction({client.TopicPartition("orders", 0): 3}, "copied")
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.stop()
        found: Read = {}
        for isolation, wanted in READS.items():
            consumer = client.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=address,
                group_id=isolation,
                auto_offset_reset="earliest",
                isolation_level=isolation,
            )
            await consumer.start()
            found[isolation] = [(await consumer.getone()).value.decode() for _ in wanted]
            await consumer.commit()
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def java(address: str) -> Read:
    if shutil.which("javac") is None:
        pytest.skip("no javac in PATH: Java's launcher compiles the client")
    try:
        home, libraries = jars.java(), jars.broker_jars()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    source = Path(__file__).with_name("TransactionalClient.java")
    command = [home, "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", str(source), address]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S * 2, check=True).stdout
    return dict(zip(READS, (line.split(",") for line in printed.splitlines()), strict=True))


@pytest.mark.parametrize("client", [librdkafka, kafka_python, aiokafka, java], ids=lambda client: client.__name__)
def test_read_committed_gets_what_was_committed_and_nothing_else(client: Callable[[str], Read]) -> None:
    with MockBroker({"orders": 1}) as broker:
        assert client(broker.address) == READS
        assert [(record.value or b"").decode() for record in broker.records("orders")] == READS["read_uncommitted"]
        visible = broker.records("orders", committed=True)
        assert [(record.value or b"").decode() for record in visible] == READS["read_committed"]
        assert broker.committed("copied") == {("orders", 0): 3}
        assert broker.committed("read_uncommitted")["orders", 0] in (5, 6)  # behind the last record, or its marker
        transaction = broker.transaction("java") if client is java else None
        assert transaction is None or (transaction.version, transaction.epoch) == (2, 3)  # a new epoch at each end
        assert not broker.refusals
