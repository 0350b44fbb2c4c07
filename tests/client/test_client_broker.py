"""The client against a real broker: every way to log in, every fault of a listener, every call, missing rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kafkawire.client import (
    Admin,
    AuthenticationError,
    BrokerError,
    ClientError,
    ConnectError,
    PeerError,
    TlsError,
    TopicPartition,
)
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tests.client.conftest import MODULES, USER, Guarded, Secure, login
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
TIMEOUT_S = 60.0
T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


async def _list(address: str, properties: dict[str, str] | None = None, **filters: Any) -> list[str]:
    async with Admin.connect(address, properties) as admin:
        found = (await admin.list_transactions(**filters)).all()
    return sorted(one.transactional_id for listed in found.values() for one in listed)


# Logging in -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MODULES)
def test_logs_in_with_each_mechanism(secure: Secure, mechanism: str) -> None:
    if mechanism.startswith("SCRAM"):
        pytest.importorskip("scramp")
    assert run(_list(secure.sasl, login(mechanism))) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(secure: Secure, mechanism: str) -> None:
    with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED") as caught:
        run(_list(secure.sasl, login(mechanism, "wrong")))
    assert str(caught.value).startswith(secure.sasl)


def test_login_where_none_is_wanted(secure: Secure) -> None:
    with pytest.raises(AuthenticationError, match="takes no authentication"):
        run(_list(secure.plain, login()))


def test_no_login_where_one_is_wanted(secure: Secure) -> None:
    with pytest.raises(ConnectError, match="requires authentication"):
        run(_list(secure.sasl))


@pytest.mark.parametrize("store", ["pem", "p12"])
def test_connects_with_tls(secure: Secure, store: str, tmp_path: Path) -> None:
    path = tmp_path / f"trust.{store}"
    path.write_bytes(secure.identity.certificate.encode() if store == "pem" else secure.identity.truststore("changeit"))
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(path),
        "ssl.truststore.password": "changeit",
    }
    run(_list(secure.tls, properties))


def test_tls_that_is_not_trusted(secure: Secure) -> None:
    with pytest.raises(TlsError, match="its certificate is not trusted"):
        run(_list(secure.tls, {"security.protocol": "SSL"}))


def test_a_certificate_of_another_host_is_refused(secure: Secure) -> None:
    """`localhost` is no name in the certificate; the check can be switched off, as in Java."""
    properties = {"security.protocol": "SSL", "ssl.truststore.certificates": secure.identity.certificate}
    elsewhere = secure.tls.replace("127.0.0.1", "localhost")
    with pytest.raises(TlsError, match="its certificate is not for localhost"):
        run(_list(elsewhere, properties))
    run(_list(elsewhere, properties | {"ssl.endpoint.identification.algorithm": ""}))


def test_plaintext_detects_a_tls_listener(secure: Secure) -> None:
    with pytest.raises(PeerError, match="this is a TLS listener"):
        run(_list(secure.tls))


@pytest.mark.parametrize("listener", ["plain", "sasl"])
def test_tls_detects_a_plaintext_listener(secure: Secure, listener: str) -> None:
    with pytest.raises(TlsError, match="plaintext listener"):
        run(_list(getattr(secure, listener), {"security.protocol": "SSL"}))


# Calls ----------------------------------------------------------------------------------------------------------------


def begun(wire: RawCluster, name: str, *partitions: int, at: int) -> RawProducer:
    """A transaction with a record in each partition of `orders`, not ended."""
    producer = wire.init_producer(name)
    wire.add_partitions(producer, {"orders": partitions})
    for partition in partitions:
        wire.produce("orders", partition, [b"x"], producer, timestamp=at)
    return producer


def test_lists_describes_and_fences_a_transaction(secure: Secure) -> None:
    """Listed, described, its producers and offsets; then fenced, and gone."""
    now = int(time.time() * 1000)
    with RawCluster(secure.plain) as wire:
        producer = begun(wire, "calls-1", 0, 1, at=now)

    async def scenario() -> None:
        async with Admin.connect(secure.plain) as admin:
            listed = (await admin.list_transactions(producer_ids=[producer.producer_id])).all()
            assert [(b, t.transactional_id, t.state) for b, ts in listed.items() for t in ts] == [
                (1, "calls-1", "Ongoing")
            ]
            described = (await admin.describe_transactions(["calls-1", "calls-none"])).values["calls-1"]
            assert described.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))
            assert (described.producer_id, described.producer_epoch) == (producer.producer_id, producer.epoch)
            assert described.start_time_ms is not None
            partitions = [TopicPartition("orders", p) for p in range(4)]
            states = (await admin.describe_producers(partitions)).all()
            mine = [s for s in states[partitions[0]] if s.producer_id == producer.producer_id]
            assert mine[0].transaction_start_offset is not None
            assert mine[0].last_timestamp == now
            offsets = (await admin.offsets(partitions)).all()[partitions[0]]
            assert offsets.log_start <= offsets.last_stable_offset < offsets.high_watermark
            fenced = (await admin.fence_producers(["calls-1"])).all()["calls-1"]
            assert fenced.producer_epoch > producer.epoch
            again = (await admin.describe_transactions(["calls-1"])).all()["calls-1"]
            assert again.start_time_ms is None or again.state != "Ongoing"

    run(scenario())


def test_filters_select_transactions(secure: Secure) -> None:
    now = int(time.time() * 1000)
    with RawCluster(secure.plain) as wire:
        begun(wire, "filter-a", 1, at=now)
        begun(wire, "filter-b", 1, at=now)
        ended = begun(wire, "filter-c", 1, at=now)
        wire.end(ended, committed=True)
        wire.init_producer("filter-d")
    everything = ["filter-a", "filter-b", "filter-c", "filter-d"]
    assert run(_list(secure.plain, pattern="filter-.*")) == everything
    assert run(_list(secure.plain, pattern="filter-.*", states=["Ongoing"])) == ["filter-a", "filter-b"]
    assert run(_list(secure.plain, pattern="filter-.*", duration_ms=0)) == ["filter-a", "filter-b"]
    assert run(_list(secure.plain, pattern="filter-.*", duration_ms=HOUR_MS)) == []
    with pytest.raises(ClientError, match="no state of transactional ids is named Bogus"):
        run(_list(secure.plain, states=["Bogus"]))


def test_an_id_that_does_not_exist(secure: Secure) -> None:
    async def scenario() -> ClientError:
        async with Admin.connect(secure.plain) as admin:
            return (await admin.describe_transactions(["absent-id"])).errors["absent-id"]

    assert str(run(scenario())) == "transactional id absent-id: TRANSACTIONAL_ID_NOT_FOUND (no coordinator knows it)"


def test_a_hanging_transaction_is_aborted(secure: Secure) -> None:
    """The last stable offset moves on; a second try fails, because nothing is open there."""
    place = TopicPartition("payments", 0)
    with RawCluster(secure.plain) as wire:
        producer = wire.init_producer("hang-abort")
        start = wire.produce("payments", 0, [b"x"], producer, timestamp=int(time.time() * 1000) - 3 * HOUR_MS)

    async def scenario() -> None:
        async with Admin.connect(secure.plain) as admin:
            before = (await admin.offsets([place])).all()[place]
            assert before.last_stable_offset == start
            done = await admin.abort_transaction(place, start_offset=start)
            assert (done.producer_id, done.producer_epoch) == (producer.producer_id, producer.epoch)
            deadline = admin.cluster.deadline()
            while (after := (await admin.offsets([place])).all()[place]).last_stable_offset <= start:
                assert await deadline.sleep(0.02)
            assert after.high_watermark > before.high_watermark  # the marker
            with pytest.raises(ClientError, match="no transaction is open there that began at"):
                await admin.abort_transaction(place, start_offset=start)

    run(scenario())


# Rights ---------------------------------------------------------------------------------------------------------------


def test_errors_name_missing_rights(secure: Secure) -> None:
    """What is missing is named, and once it is granted the call is answered."""
    place = TopicPartition("payments", 1)

    async def scenario() -> None:
        async with Admin.connect(secure.plain) as chief, Admin.connect(secure.sasl, login()) as alice:
            (await chief.fence_producers(["rights-1"])).all()

            async def producers() -> Any:
                return (await alice.describe_producers([place]))[place]

            async def described() -> Any:
                return (await alice.describe_transactions(["rights-1"]))["rights-1"]

            async def fenced() -> Any:
                return (await alice.fence_producers(["rights-1"]))["rights-1"]

            async def aborted() -> Any:
                return await alice.abort_transaction(place, producer_id=1, producer_epoch=0, coordinator_epoch=0)

            topic, own = "payments", "rights-1"
            steps = [
                (producers, "Describe on topic payments", (real_cluster.TOPIC, topic, real_cluster.DESCRIBE)),
                (producers, "Read on topic payments", (real_cluster.TOPIC, topic, real_cluster.READ)),
                (
                    described,
                    "Describe on transactional id rights-1",
                    (real_cluster.TRANSACTIONAL_ID, own, real_cluster.DESCRIBE),
                ),
                (
                    fenced,
                    "Write on transactional id rights-1",
                    (real_cluster.TRANSACTIONAL_ID, own, real_cluster.WRITE),
                ),
                (
                    aborted,
                    "Alter or ClusterAction on the cluster",
                    (real_cluster.CLUSTER, "", real_cluster.CLUSTER_ACTION),
                ),
            ]
            try:
                for call, right, granted in steps:
                    with pytest.raises(BrokerError) as caught:
                        await call()
                    assert caught.value.right == right
                    assert str(caught.value).endswith(f"the principal needs {right}")
                    await real_cluster.grant(chief, USER, granted)
                    await _answered(call, right, alice)
            finally:
                await real_cluster.revoke_all(chief, USER)

    run(scenario())


async def _answered(call: Any, denied: str, admin: Admin) -> None:
    """Waits until a right that was granted has come to the broker: the call fails for another reason, or not at all."""
    deadline = admin.cluster.deadline(20)
    while True:
        try:
            await call()
        except BrokerError as error:
            if error.right != denied:
                return
        else:
            return
        assert await deadline.sleep(0.05)


# Other releases -------------------------------------------------------------------------------------------------------


def test_calls_work_on_kafka_3_9(kafka_3_9: Guarded) -> None:
    async def scenario() -> None:
        async with Admin.connect(kafka_3_9.plain) as admin:
            await real_cluster.create_topics(admin, {"orders": 1})
            with RawCluster(kafka_3_9.plain) as wire:
                await asyncio.to_thread(begun, wire, "old-1", 0, at=int(time.time() * 1000))
            assert "old-1" in await _ids(admin)
            found = await admin.list_transactions(pattern=".*")
            assert "from Kafka 4.1 on" in str(found.errors[1])
            described = (await admin.describe_transactions(["old-1"])).all()["old-1"]
            assert described.partitions == (TopicPartition("orders", 0),)
            place = TopicPartition("orders", 0)
            assert len((await admin.describe_producers([place])).all()[place]) == 1
            done = await admin.abort_transaction(place, start_offset=0)
            assert done.producer_id == described.producer_id

    run(scenario())


def test_calls_work_on_kafka_2_8(start_cluster: StartCluster) -> None:
    with start_cluster(1, version="2.8.2") as old:

        async def scenario() -> None:
            async with Admin.connect(old.bootstrap) as admin:
                await real_cluster.create_topics(admin, {"orders": 1})
                found = await admin.list_transactions()
                assert "does not support ListTransactions requests: brokers know it from Kafka 3.0 on" in str(
                    found.errors[1]
                )
                place = TopicPartition("orders", 0)
                assert (await admin.describe_producers([place])).all() == {place: ()}

        run(scenario())


async def _ids(admin: Admin) -> list[str]:
    found = (await admin.list_transactions()).all()
    return [one.transactional_id for listed in found.values() for one in listed]
