"""What principals with few rights get from a real broker: each call names the missing right, what the broker leaves out
is never taken for absent, and no live transaction is called hanging."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from kafkawire.client import Admin, BrokerError, ClientError, Results, Search, TopicPartition
from kafkawire.client.diagnosis.transaction_state_log import read_ids
from kafkawire.client.rpc.log_dirs import describe_log_dirs
from kafkawire.rows import Audit
from tests.client import real_cluster
from tests.client.conftest import Secure, login
from tests.client.principals import (
    ALL_IDS,
    ALL_TOPICS,
    BOTH,
    CLEAR,
    HANG,
    LIVE,
    LOG,
    MARKS,
    ORDERS,
    OWN,
    PLAIN,
    PRINCIPALS,
    Principal,
)
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.broker

TIMEOUT_S = 60.0
HOUR_MS = 3_600_000
T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


@pytest.fixture(scope="module")
def scene(secure: Secure) -> Secure:
    """See `principals`."""

    async def prepare() -> None:
        async with Admin.connect(secure.plain) as chief:
            await real_cluster.create_topics(chief, dict.fromkeys((ORDERS, PLAIN, MARKS), 1))
            await real_cluster.create_acls(chief, {one.name: one.acls for one in PRINCIPALS})
            for one in PRINCIPALS:
                await real_cluster.settled(chief, one.name, len(one.acls))

    run(prepare())
    old = int(time.time() * 1000) - 3 * HOUR_MS
    with RawCluster(secure.plain) as wire:
        both = wire.init_producer(LIVE)
        wire.add_partitions(both, {ORDERS: [0], PLAIN: [0]})
        wire.produce(ORDERS, 0, [b"x"], both, timestamp=old)
        wire.produce(PLAIN, 0, [b"x"], both, timestamp=old)
        wire.produce(PLAIN, 0, [b"x"], wire.init_producer(HANG), timestamp=old)
        for name in ALL_IDS - {LIVE, HANG}:
            wire.init_producer(name)
    return secure


def missing(results: Results[Any, Any], key: Any) -> str | None:
    """The right that was lacking for an answer; None where it came."""
    error = results.errors.get(key)
    if error is None:
        return None
    assert isinstance(error, BrokerError), error
    assert error.right is not None
    assert str(error).endswith(f"the principal needs {error.right}")
    return error.right


async def answers_to(admin: Admin, name: str) -> Principal:
    """The results of the client's calls, in the form of a row."""
    deadline = admin.cluster.deadline()
    listed = (await admin.list_transactions()).all()
    described = await admin.describe_transactions([LIVE, "p-absent"])
    metadata = await admin.cluster.metadata()
    unknown = (await admin.cluster.metadata(["p-nowhere"])).errors["p-nowhere"]
    places = orders, plain = TopicPartition(ORDERS, 0), TopicPartition(PLAIN, 0)
    producers = await admin.describe_producers(places)
    disks = await describe_log_dirs(admin.cluster, [1], deadline)
    assert missing(disks, 1) in (None, "Describe on the cluster")
    log = await read_ids(admin.cluster, range(4), deadline)
    fenced = await admin.fence_producers([OWN])
    random_id, no_topic = described.errors["p-absent"], unknown
    assert isinstance(random_id, BrokerError)
    assert isinstance(no_topic, BrokerError)
    if described.errors.get(LIVE):
        assert missing(described, LIVE) == f"Describe on transactional id {LIVE}"
    return Principal(
        name=name,
        ids=frozenset(one.transactional_id for found in listed.values() for one in found) & ALL_IDS,
        described=None if LIVE in described.errors else frozenset(p.topic for p in described[LIVE].partitions),
        random_id=random_id.code,
        topics=frozenset(place.topic for place in metadata.partitions) & ALL_TOPICS,
        random_topic=no_topic.code,
        orders=missing(producers, orders),
        plain=missing(producers, plain),
        cluster=not disks.errors,
        log=not log.errors,
        abort=await _marker(admin),
        init=missing(fenced, OWN),
        verdicts=await _verdicts(admin),
    )


async def _marker(admin: Admin) -> str | None:
    """A marker for a producer that was never there."""
    place = TopicPartition(MARKS, 0)
    try:
        await admin.abort_transaction(place, producer_id=1 << 40, producer_epoch=0, coordinator_epoch=0)
    except BrokerError as error:
        return error.right
    return None


async def _verdicts(admin: Admin) -> tuple[str | None, str | None, str | None]:
    try:
        audit = await admin.find_hanging_transactions(Search(topics=(ORDERS, PLAIN), confirm_after_s=0.05))
    except ClientError as error:
        if "the principal needs" not in str(error):
            raise
        return (None, None, None)
    _no_false_alarm(audit)
    found = {(one.topic, one.start_offset): one.reason for one in audit.findings}
    for topic in BOTH:
        if not any(topic == one.topic for one in audit.findings):
            assert any(f"topic {topic}" in gap and "the principal needs" in gap for gap in audit.read.gaps)
    first, second = sorted(start or 0 for topic, start in found if topic == PLAIN) or (None, None)
    return found.get((ORDERS, 0)), found.get((PLAIN, first)), found.get((PLAIN, second))


def _no_false_alarm(audit: Audit) -> None:
    for finding in audit.findings:
        if finding.transactional_id == LIVE or (finding.topic, finding.start_offset) == (ORDERS, 0):
            assert finding.verdict != "hanging", finding
        if finding.verdict == "unknown":
            assert f"grant it Read on topic {LOG}" in " ".join(finding.evidence)


@pytest.mark.parametrize("principal", PRINCIPALS, ids=lambda one: one.name)
def test_each_principal_sees_what_its_rights_allow(scene: Secure, principal: Principal) -> None:
    async def scenario() -> Principal:
        async with Admin.connect(scene.sasl, login(user=principal.name)) as admin:
            return await answers_to(admin, principal.name)

    expected = Principal(**{name: getattr(principal, name) for name in principal.__struct_fields__} | {"acls": ()})
    assert run(scenario()) == expected


def test_a_super_user_sees_everything(scene: Secure) -> None:
    async def scenario() -> Principal:
        async with Admin.connect(scene.plain) as admin:
            return await answers_to(admin, "chief")

    answers = run(scenario())
    assert (answers.ids, answers.described, answers.topics, answers.verdicts) == (ALL_IDS, BOTH, ALL_TOPICS, CLEAR)
    assert (answers.orders, answers.plain, answers.abort, answers.init, answers.cluster, answers.log) == (None,) * 4 + (
        True,
        True,
    )
