"""Real clients at a mock cluster of three nodes with TLS and logins, while leaders move and a node stops; groups of
both protocols share the partitions among their members."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
)
from kafkawire.testing import MockBroker
from tests.client.certificates import make_identity
from tools.broker import BrokerUnavailableError, jars

pytestmark = pytest.mark.slow

USERS = {"alice": "secret"}
WRITTEN = sorted(f"{part}-{number}" for part in ("first", "second") for number in range(6))
TIMEOUT_S = 60


class Place(NamedTuple):
    """Where the cluster is: addresses, the certificate that it has, and what happens to it in the middle of writing."""

    addresses: str
    certificate: Path
    half: Callable[[], None]
    protocol: str


def written(send: Callable[[int, str], Any], half: Callable[[], None]) -> None:
    for part in ("first", "second"):
        for number in range(6):
            send(number % 3, f"{part}-{number}")
        if part == "first":
            half()


def shared(shares: list[int]) -> bool:
    """Whether each member has some of the three partitions, and all together have all."""
    return all(shares) and sum(shares) == 3


def librdkafka(place: Place) -> list[str]:
    client = pytest.importorskip("confluent_kafka")
    options = {
        "bootstrap.servers": place.addresses,
        "log_level": 2,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place.certificate),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    producer = client.Producer(options | {"linger.ms": 0, "reconnect.backoff.max.ms": 200})

    def send(partition: int, value: str) -> None:
        producer.produce("orders", value, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0

    written(send, place.half)
    reads = {"group.id": "g", "auto.offset.reset": "earliest", "group.protocol": place.protocol}
    members = [client.Consumer(options | reads) for _ in range(2)]
    values: set[str] = set()
    members[0].subscribe(["orders"])

    def poll(member: Any) -> None:
        message = member.poll(0.2)
        if message is not None and message.error() is None:
            values.add(message.value().decode())

    until = time.monotonic() + TIMEOUT_S
    while len(values) < len(WRITTEN) and time.monotonic() < until:
        poll(members[0])
    members[0].commit(asynchronous=False)
    members[1].subscribe(["orders"])
    while time.monotonic() < until:
        shares = [len(member.assignment()) for member in members]
        if shared(shares):
            break
        for member in members:
            poll(member)
    for member in members:
        member.close()
    assert shared(shares)
    return sorted(values)


def kafka_python(place: Place) -> list[str]:
    client = pytest.importorskip("kafka")
    options = {
        "bootstrap_servers": place.addresses.split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(place.certificate),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }
    producer = client.KafkaProducer(**options, linger_ms=0)
    written(lambda partition, value: producer.send("orders", value.encode(), partition=partition).get(30), place.half)
    producer.close()
    consumer = client.KafkaConsumer(
        "orders", group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **options
    )
    values = sorted(next(consumer).value.decode() for _ in WRITTEN)
    consumer.commit()
    members = [consumer, client.KafkaConsumer("orders", group_id="g", **options)]
    over = threading.Event()

    def poll(member: Any) -> None:
        while not over.is_set():
            member.poll(timeout_ms=100)

    with ThreadPoolExecutor() as pool:
        polling = [pool.submit(poll, member) for member in members]
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until and not shared([len(member.assignment()) for member in members]):
            time.sleep(0.05)
        shares = [len(member.assignment()) for member in members]
        over.set()
    for each, member in zip(polling, members, strict=True):
        each.result()
        member.close()
    assert shared(shares)
    return values


def aiokafka(place: Place) -> list[str]:
    client = pytest.importorskip("aiokafka")
    options = {
        "bootstrap_servers": place.addresses,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=place.certificate),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }

    async def run() -> list[str]:
        producer = client.AIOKafkaProducer(**options)
        await producer.start()
        for part in ("first", "second"):
            for number in range(6):
                await producer.send_and_wait("orders", f"{part}-{number}".encode(), partition=number % 3)
            if part == "first":
                place.half()
        await producer.stop()
        consumer = client.AIOKafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **options)
        await consumer.start()
        values = sorted([(await consumer.getone()).value.decode() for _ in WRITTEN])
        await consumer.commit()
        second = client.AIOKafkaConsumer("orders", group_id="g", **options)
        await second.start()
        while not shared([len(member.assignment()) for member in (consumer, second)]):
            await asyncio.sleep(0.05)
        await second.stop()
        await consumer.stop()
        return values

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def java(place: Place) -> list[str]:
    if shutil.which("javac") is None:
        pytest.skip("no javac in PATH: Java's launcher compiles the client")
    try:
        home, libraries = jars.java(), jars.broker_jars()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        "bootstrap.servers": place.addresses,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place.certificate),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="alice" password="secret";',
    }
    properties = place.certificate.with_name("java.properties")
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    source = Path(__file__).with_name("ClusterClient.java")
    command = [home, "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", str(source), str(properties), place.protocol]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "half\n"
        place.half()
        values, _ = process.communicate("go on\n", timeout=TIMEOUT_S * 2)
        assert process.returncode == 0
    return values.strip().split(",")


CASES = [(librdkafka, "classic"), (librdkafka, "consumer"), (java, "classic"), (java, "consumer")]
CASES += [(kafka_python, "classic"), (aiokafka, "classic")]


@pytest.mark.parametrize(("client", "protocol"), CASES, ids=[f"{client.__name__}-{what}" for client, what in CASES])
def test_clients_follow_leaders_through_tls_and_logins(
    client: Callable[[Place], list[str]], protocol: str, tmp_path: Path
) -> None:
    identity = make_identity()
    pem, certificate = tmp_path / "broker.pem", tmp_path / "ca.pem"
    pem.write_text(identity.certificate + identity.key)
    certificate.write_text(identity.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    with MockBroker({"orders": 3}, nodes=3, tls=context, users=USERS) as broker:

        def half() -> None:
            broker.move_leader("orders", 0, 2)
            broker.stop_node(3)
            assert broker.leader("orders", 2) != 3

        place = Place(",".join(broker.addresses.values()), certificate, half, protocol)
        assert client(place) == WRITTEN
        held = [(record.value or b"").decode() for number in range(3) for record in broker.records("orders", number)]
        assert set(held) == set(WRITTEN)
        assert broker.committed("g") == {("orders", number): broker.offsets("orders", number)[2] for number in range(3)}
        beats = {kind for kind in (HeartbeatRequest, ConsumerGroupHeartbeatRequest) if broker.requests.of(kind)}
        assert beats <= {ConsumerGroupHeartbeatRequest if protocol == "consumer" else HeartbeatRequest}
        assert bool(broker.requests.of(ConsumerGroupHeartbeatRequest)) == (protocol == "consumer")
        assert broker.requests.of(OffsetCommitRequest)
        assert not broker.requests.of(ConsumerGroupDescribeRequest)
        assert not broker.refusals
