"""`kafkawire.scan` of a real broker: through TLS and logins, beside a consumer, and beside its disks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
confluent_kafka = pytest.importorskip("confluent_kafka")

import kafkawire  # noqa: E402
from kafkawire.client import Admin, AuthenticationError, ClientError  # noqa: E402
from tests.client import real_cluster  # noqa: E402
from tests.client.conftest import PASSWORD, Secure, login  # noqa: E402
from tools.polling import until  # noqa: E402

pytestmark = pytest.mark.broker

TOPIC = "scanned"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def written(secure: Secure) -> Iterator[Secure]:
    """A topic with data of every codec, and transactions that were committed and aborted, and one that is open."""
    for at, codec in enumerate(CODECS):
        settings = {"bootstrap.servers": secure.plain, "compression.type": codec, "linger.ms": 20}
        plain = confluent_kafka.Producer(settings)
        for number in range(500):
            plain.produce(TOPIC, b"%d of %s" % (number, codec.encode()), b"key", headers={"codec": codec})
        plain.flush()
        producer = confluent_kafka.Producer(settings | {"transactional.id": f"{TOPIC}-{codec}"})
        producer.init_transactions()
        for outcome in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for number in range(100):
                producer.produce(TOPIC, b"%d" % number)
            producer.flush()
            if at < 4 or outcome == producer.commit_transaction:
                outcome()
    for number in range(50):
        plain.produce(TOPIC, b"behind the open one %d" % number)
    plain.flush()
    yield secure
    producer.abort_transaction()


def consumed(address: str, level: str) -> list[tuple[Any, ...]]:
    """The records that a consumer gets."""
    settings = {"bootstrap.servers": address, "group.id": "never", "enable.auto.commit": False,
                "isolation.level": level, "enable.partition.eof": True}  # fmt: skip
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[Any, ...]] = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        headers = dict(message.headers() or ())
        found.append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
    consumer.close()
    return found


def scanned(**options: Any) -> list[tuple[Any, ...]]:
    rows = kafkawire.scan(topics=TOPIC, **options).reader().read_all().to_pylist()
    return [
        (row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"],
         {header["key"]: header["value"] for header in row["headers"]})
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_records_are_those_of_a_consumer(written: Secure, level: str) -> None:
    found = scanned(bootstrap_servers=written.plain, isolation_level=level)
    assert found == consumed(written.plain, level)
    assert len(found) == {"read_uncommitted": 3550, "read_committed": 3000}[level]


def test_rows_are_those_of_the_disk(written: Secure) -> None:
    live = kafkawire.scan(bootstrap_servers=written.plain, topics=TOPIC, control=True).reader().read_all()
    disk = kafkawire.scan(written.cluster.log_dirs[1] / f"{TOPIC}-0", control=True).reader().read_all()
    assert live.to_pylist() == disk.to_pylist()
    states = live.group_by("transaction").aggregate([("offset", "count")]).to_pylist()
    assert {row["transaction"]: row["offset_count"] for row in states} == {
        "none": 2550, "committed": 505, "aborted": 404, "open": 100,
    }  # fmt: skip


def test_through_tls_and_a_login(written: Secure, tmp_path: Path) -> None:
    expected = scanned(bootstrap_servers=written.plain)
    authority = tmp_path / "authority.pem"
    authority.write_text(written.identity.certificate)
    tls = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    assert scanned(bootstrap_servers=written.tls, config=tls) == expected
    with pytest.raises(ClientError, match=r"not authorized|the principal needs"):
        scanned(bootstrap_servers=written.sasl, config=login())
    with pytest.raises(AuthenticationError):
        scanned(bootstrap_servers=written.sasl, config=login(password="wrong"))
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in tls.items()))
    assert scanned(bootstrap_servers=[written.tls], config=properties) == expected


def test_through_scram_with_the_right_to_read(written: Secure) -> None:
    """Read on the topic is all that is needed."""
    user = "scanner"
    with pytest.raises(ClientError):
        scanned(bootstrap_servers=written.sasl, config=login("SCRAM-SHA-512", user=user))

    async def permitted() -> None:
        async with Admin.connect(written.plain) as chief:
            await real_cluster.create_scram_user(chief, user, PASSWORD)
            await real_cluster.grant(chief, user, (real_cluster.TOPIC, TOPIC, real_cluster.READ))
            await real_cluster.settled(chief, user, 1)

    asyncio.run(permitted())
    properties = login("SCRAM-SHA-512", user=user)
    until(lambda: _reads(written.sasl, properties), "the user's rights", seconds=30)
    assert scanned(bootstrap_servers=written.sasl, config=properties) == scanned(bootstrap_servers=written.plain)


def _reads(address: str, properties: dict[str, str]) -> bool:
    try:
        kafkawire.scan(bootstrap_servers=address, topics=TOPIC, config=properties)
    except ClientError:
        return False
    return True
