"""The programs in `examples/programs`, as a new user would write them: each runs, and none has 60 lines."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import records
from kafkawire.client import Admin, Cluster, Config
from kafkawire.messages import REGISTRY, MetadataRequest
from kafkawire.proxy import Proxy
from kafkawire.testing import MockBroker
from tests import own_schemas
from tests.client import real_cluster
from tools.broker import RunningCluster

FOLDER = Path(__file__).parents[1] / "examples" / "programs"


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def test_transaction_by_requests_alone() -> None:
    with MockBroker({"orders": 1}) as broker:
        asyncio.run(program("transactional_producer").main(broker.address, "orders", "a", "b"))
        found = broker.records("orders", committed=True)
        assert [record.value for record in found] == [b"a", b"b"]
        assert all(record.timestamp > 0 for record in found)


def test_proxy_that_renames_topics() -> None:
    async def topics(address: str) -> list[str | None]:
        async with Cluster(Config.of(address)) as cluster:
            return [topic.name for topic in (await cluster.ask(MetadataRequest(topics=None))).topics]

    with MockBroker({"eu-orders": 1}) as broker, Proxy(broker.address) as proxy:
        program("rewriting_proxy").prefixed(proxy, "eu-")
        assert asyncio.run(topics(proxy.address)) == ["orders"]
        asyncio.run(program("transactional_producer").main(proxy.address, "orders", "a"))
        assert len(broker.records("eu-orders")) == 1


def test_bytes_of_a_capture() -> None:
    found = program("bytes_by_topic").bytes_by_topic(str(FOLDER.parent / "capture" / "transactions.pcap"))
    assert found.total() == 10_014
    assert found["payments"] == 1779


# With their real counterparts: a broker of Kafka's, librdkafka --------------------------------------------------------


def consumed(client: Any, address: str, topic: str, count: int) -> list[bytes]:
    """What librdkafka reads with isolation.level=read_committed."""
    consumer = client.Consumer({"bootstrap.servers": address, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([client.TopicPartition(topic, 0, 0)])
    values = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None
        values.append(message.value())
    consumer.close()
    return values


@pytest.mark.broker
@pytest.mark.slow
def test_programs_on_a_real_broker(broker: RunningCluster, tmp_path: Path) -> None:
    """The transaction is read by librdkafka, which writes through the proxy; the bytes are those of the log."""
    client = pytest.importorskip("confluent_kafka")
    topic = "example-programs"

    async def create() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {topic: 1})

    asyncio.run(create())
    asyncio.run(program("transactional_producer").main(broker.bootstrap, topic, "a", "b"))
    assert consumed(client, broker.bootstrap, topic, 2) == [b"a", b"b"]
    path = tmp_path / "all.pcapng"
    with Proxy(broker.bootstrap, record=path) as proxy:
        program("rewriting_proxy").prefixed(proxy, "example-")
        producer = client.Producer({"bootstrap.servers": proxy.address, "linger.ms": 0})
        for number in range(5):
            producer.produce("programs", str(number) * 100, partition=0)
            assert producer.flush(30) == 0
        assert consumed(client, proxy.address, "programs", 7)[2:] == [str(number).encode() * 100 for number in range(5)]
    (log,) = broker.log_dirs.values()
    batches = list(records.read((log / f"{topic}-0" / "00000000000000000000.log").read_bytes()))
    written = sum(batch.size for batch in batches if isinstance(batch, records.Batch) and not batch.transactional)
    assert program("bytes_by_topic").bytes_by_topic(str(path)).total() == written > 500


@pytest.mark.slow
def test_librdkafka_at_a_broker_with_edited_schemas(tmp_path: Path) -> None:
    client = pytest.importorskip("confluent_kafka")
    mine = kafkawire.load_schemas(edited(tmp_path))
    with MockBroker({"orders": 1}, registry=mine.registry.over(REGISTRY)) as running:
        assert mine.MetadataRequest.spec.valid_versions[-1] in running.versions[3]
        producer = client.Producer({"bootstrap.servers": running.address})
        producer.produce("orders", b"a")
        assert producer.flush(30) == 0
        assert [record.value for record in running.records("orders")] == [b"a"]
        assert not running.refusals


def edited(folder: Path) -> Path:
    """Schemas of a message of one's own, and of a Metadata with a version more."""
    schemas = [own_schemas.shipped(name) for name in ("MetadataRequest", "MetadataResponse")]
    for schema in schemas:
        first, _, last = schema["validVersions"].partition("-")
        schema["validVersions"] = f"{first}-{int(last) + 1}"
    return own_schemas.write(folder / "schemas", own_schemas.PING, own_schemas.PONG, *schemas)


def test_own_and_edited_schemas(tmp_path: Path) -> None:
    assert program("edited_schemas").run(str(edited(tmp_path))) == ("HELLO", ["orders"])
