"""find_hanging on a real broker: every way to make a transaction hang or look like it, and what rights can hide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from kafkawire.client import Admin, ClientError, NoSuchBrokerError, Search
from kafkawire.client.diagnosis.blocked_group import find_blocking
from kafkawire.client.errors import RETRIABLE
from kafkawire.messages import ConsumerGroupHeartbeatRequest
from kafkawire.rows import Audit, Finding
from kafkawire.transactions.verdict.live_case import HIDDEN
from tests.client import real_cluster
from tests.client.conftest import USER, Guarded, Secure, login
from tests.client.setups import ALL, ONE_OF_EACH, make, size
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
TIMEOUT_S = 30.0
TOPIC = "hang"
#: Partitions of the setups.
NEVER_BEGUN, LIVE, BESIDE, ENDED, INVENTED, STUCK = range(6)
VERDICTS = dict(enumerate(verdict for setup in ONE_OF_EACH for verdict in setup.verdicts if verdict))

T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


def search(topic: str | None = TOPIC, **options: Any) -> Search:
    return Search(topics=None if topic is None else (topic,), confirm_after_s=0.1, address="h:1", **options)


async def find(address: str, what: Search, properties: dict[str, str] | None = None) -> Audit:
    async with Admin.connect(address, properties) as admin:
        return await admin.find_hanging_transactions(what)


def verdicts_by_partition(audit: Audit) -> dict[int, tuple[str, str]]:
    return {finding.partition: (finding.verdict, finding.reason) for finding in audit.findings}


@pytest.fixture(scope="module")
def hung(secure: Secure) -> Secure:
    with RawCluster(secure.plain) as wire:
        assert make(wire, TOPIC, int(time.time() * 1000) - 3 * HOUR_MS) == VERDICTS
    return secure


def test_verdicts_on_a_real_cluster(hung: Secure) -> None:
    audit = run(find(hung.plain, search()))
    assert verdicts_by_partition(audit) == VERDICTS
    found: dict[int, Finding] = {finding.partition: finding for finding in audit.findings}
    assert audit.read.complete
    assert (audit.read.brokers, audit.read.partitions) == ((1,), 6)
    assert audit.read.transaction_state == (0, 1, 2, 3)  # an authorizer is there: the log is the proof
    assert all(finding.blocked for finding in audit.findings)
    assert found[NEVER_BEGUN].transactional_id == "hang-never-begun-9"
    assert (found[LIVE].coordinator_state, found[STUCK].coordinator_state) == ("Ongoing", "PrepareCommit")
    assert found[STUCK].coordinator_epoch == 1_000_000
    for partition in (NEVER_BEGUN, BESIDE, ENDED, INVENTED):
        finding = found[partition]
        assert finding.action == (
            f"kafkawire txn abort --bootstrap-server h:1 --topic hang --partition {partition} "
            f"--start-offset {finding.start_offset}"
        )
    assert "all 4 partitions of __transaction_state were read" in found[INVENTED].evidence[1]
    assert "never abort it, COMMIT is decided" in (found[STUCK].action or "")
    assert "txn force-terminate --bootstrap-server h:1 --transactional-id hang-live" in (found[LIVE].action or "")


def test_does_not_call_young_transactions_hanging(hung: Secure) -> None:
    audit = run(find(hung.plain, search(max_timeout_ms=24 * HOUR_MS)))
    assert set(verdicts_by_partition(audit).values()) == {("not_hanging", "young"), VERDICTS[LIVE], VERDICTS[STUCK]}


def test_searches_one_partition(hung: Secure) -> None:
    audit = run(find(hung.plain, search(partitions=(INVENTED,), broker_id=1)))
    assert verdicts_by_partition(audit) == {INVENTED: VERDICTS[INVENTED]}


def test_unknown_topics_and_partitions_are_errors(hung: Secure) -> None:
    with pytest.raises(ClientError, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        run(find(hung.plain, search("nowhere")))
    with pytest.raises(ClientError, match="topic hang has no partition 77"):
        run(find(hung.plain, search(partitions=(77,))))
    with pytest.raises(NoSuchBrokerError, match="no broker 9 now; its brokers are 1"):
        run(find(hung.plain, search(broker_id=9)))


# What rights hide -----------------------------------------------------------------------------------------------------

_READ_HANG = (real_cluster.TOPIC, TOPIC, real_cluster.READ)
_READ_LOG = (real_cluster.TOPIC, "__transaction_state", real_cluster.READ)
_ALL_IDS = (real_cluster.TRANSACTIONAL_ID, "*", real_cluster.DESCRIBE)
_CLUSTER = (real_cluster.CLUSTER, "", real_cluster.DESCRIBE)
_HIDDEN = ("unknown", "coverage_incomplete")


@pytest.fixture
def rights(hung: Secure) -> Iterator[Any]:
    """Grants rights to alice for one test; returns when the broker knows them."""

    granted: list[tuple[int, str, int]] = []

    async def grant(*wanted: tuple[int, str, int]) -> None:
        granted.extend(wanted)
        async with Admin.connect(hung.plain) as chief:
            await real_cluster.grant(chief, USER, *wanted)
            await real_cluster.settled(chief, USER, len(granted))

    async def revoke() -> None:
        async with Admin.connect(hung.plain) as chief:
            await real_cluster.revoke_all(chief, USER)
            await real_cluster.settled(chief, USER, 0)

    run(revoke())
    yield lambda *wanted: run(grant(*wanted))
    run(revoke())


def as_alice(hung: Secure, what: Search) -> Audit:
    return run(find(hung.sasl, what, login()))


def test_ids_that_are_hidden_make_it_unknown(hung: Secure, rights: Any) -> None:
    """Kafka's tool calls all of them hanging, the live one too."""
    rights(_READ_HANG)
    audit = as_alice(hung, search())
    assert set(verdicts_by_partition(audit).values()) == {_HIDDEN}
    assert len(audit.findings) == 6
    assert all(HIDDEN in finding.evidence for finding in audit.findings)
    assert "grant it Read on topic __transaction_state" in HIDDEN


def test_the_log_is_proof_enough(hung: Secure, rights: Any) -> None:
    """Read on `__transaction_state` names every id, whatever the rights on ids are."""
    rights(_READ_HANG, _READ_LOG)
    assert verdicts_by_partition(as_alice(hung, search())) == VERDICTS


def test_ids_that_are_seen_prove_nothing_about_others(hung: Secure, rights: Any) -> None:
    rights(_READ_HANG, _ALL_IDS)
    audit = as_alice(hung, search())
    assert verdicts_by_partition(audit) == VERDICTS | {INVENTED: _HIDDEN}
    (stuck,) = (finding for finding in audit.findings if finding.partition == STUCK)
    text = " ".join(stuck.evidence)  # the coordinator's epoch is hidden too: that its marker does not arrive is seen
    assert "its COMMIT marker does not arrive" in text
    assert "a marker of coordinator epoch 1000000" in text


def test_one_id_that_is_seen(hung: Secure, rights: Any) -> None:
    rights(_READ_HANG, (real_cluster.TRANSACTIONAL_ID, "hang-live", real_cluster.DESCRIBE))
    assert verdicts_by_partition(as_alice(hung, search())) == dict.fromkeys(VERDICTS, _HIDDEN) | {
        LIVE: VERDICTS[LIVE],
        BESIDE: VERDICTS[BESIDE],
    }


def test_topics_that_are_hidden_are_no_all_clear(hung: Secure, rights: Any) -> None:
    """Kafka's tool prints an empty table, exit 0."""
    audit = as_alice(hung, search(None))
    assert not audit.findings
    assert audit.read.gaps == (
        "topics that the principal may not Describe were not seen (Describe on the cluster would show them)",
    )
    rights(_CLUSTER)
    (gap,) = as_alice(hung, search(None)).read.gaps
    assert " topics are hidden from the principal, which needs Describe: __transaction_state, hang, " in gap


def test_topics_that_may_only_be_described(hung: Secure, rights: Any) -> None:
    rights((real_cluster.TOPIC, TOPIC, real_cluster.DESCRIBE))
    with pytest.raises(ClientError, match="the principal needs Read on topic hang"):
        as_alice(hung, search())
    rights((real_cluster.TOPIC, "orders", real_cluster.READ))

    async def both() -> Audit:
        return await find(hung.sasl, Search(topics=(TOPIC, "orders"), confirm_after_s=0.1), login())

    audit = run(both())
    assert audit.read.partitions == 4
    assert audit.read.gaps == (
        "hang-0, hang-1, hang-2, hang-3, hang-4, hang-5 were not read: TOPIC_AUTHORIZATION_FAILED (Topic authorization "
        "failed.): the principal needs Read on topic hang",
    )


def test_members_of_a_group_whose_topic_may_not_be_described(hung: Secure, rights: Any) -> None:
    """ConsumerGroupDescribe names no member then, and offsets in the topic are left out: what was looked at is nothing
    but the group's own partition, or not even that."""
    group = "hang-readers"

    async def join() -> None:
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="AAAAAAAAAAAAAAAAAAAAAQ",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(TOPIC,),
            topic_partitions=(),
        )
        async with Admin.connect(hung.plain) as chief:
            cluster, deadline = chief.cluster, chief.cluster.deadline()
            await real_cluster.commit_offsets(
                chief, "another-group", TOPIC, {0: 0}
            )  # `__consumer_offsets` is made for the first
            while (answer := await cluster.ask_broker(1, joining, deadline)).error_code in RETRIABLE:
                assert await deadline.sleep(0.1)
            assert answer.error_code == 0, answer

    async def blocking(address: str, properties: dict[str, str] | None = None) -> Audit:
        async with Admin.connect(address, properties) as admin:
            return (await find_blocking(admin.cluster, group, search(None))).audit

    run(join())
    audit = run(blocking(hung.plain))
    assert verdicts_by_partition(audit) == VERDICTS
    assert audit.read.complete
    with pytest.raises(ClientError, match="the principal needs Describe on group hang-readers"):
        run(blocking(hung.sasl, login()))
    rights(
        (real_cluster.GROUP, group, real_cluster.DESCRIBE),
        (real_cluster.TOPIC, "__consumer_offsets", real_cluster.READ),
    )
    audit = run(blocking(hung.sasl, login()))
    assert (audit.findings, audit.read.partitions, audit.read.complete) == ((), 1, False)
    (gap,) = audit.read.gaps
    assert gap.startswith(f"what the members of group '{group}' are assigned could not be read: ")
    assert gap.endswith(": the principal needs Describe on each of its topics")
    rights(_READ_HANG, _READ_LOG)
    assert verdicts_by_partition(run(blocking(hung.sasl, login()))) == VERDICTS


# The release before 4 -------------------------------------------------------------------------------------------------

_MADE = tuple(setup for setup in ALL if setup.since < 4)


@pytest.fixture(scope="module")
def expected(kafka_3_9: Guarded) -> dict[int, tuple[str, str]]:
    async def topic() -> None:
        async with Admin.connect(kafka_3_9.plain) as admin:
            await real_cluster.create_topics(admin, {TOPIC: size(_MADE)})

    run(topic())
    with RawCluster(kafka_3_9.plain) as wire:
        return make(wire, TOPIC, int(time.time() * 1000) - 3 * HOUR_MS, _MADE)


def test_finds_hanging_transactions_on_kafka_3_9(kafka_3_9: Guarded, expected: dict[int, tuple[str, str]]) -> None:
    audit = run(find(kafka_3_9.plain, search()))
    assert verdicts_by_partition(audit) == expected
    assert audit.read.complete
    everything = run(find(kafka_3_9.plain, search(None)))
    assert everything.read.complete
    assert {f.partition: (f.verdict, f.reason) for f in everything.findings if f.topic == TOPIC} == expected


#: Reasons that need no more than the id's own word.
_NAMED = ("live", "stuck_prepare", "partition_not_in_transaction", "transaction_ended", "epoch_bumped")


@pytest.mark.parametrize(
    ("granted", "seen"),
    [((), ()), ((_ALL_IDS,), _NAMED), ((_READ_LOG,), (*_NAMED, "no_transactional_id"))],
    ids=["nothing", "ids", "log"],
)
def test_hidden_ids_make_verdicts_unknown_on_kafka_3_9(
    kafka_3_9: Guarded, expected: dict[int, tuple[str, str]], granted: tuple[Any, ...], seen: tuple[str, ...]
) -> None:
    async def rights(*wanted: Any) -> None:
        async with Admin.connect(kafka_3_9.plain) as chief:
            await real_cluster.revoke_all(chief, USER)
            await real_cluster.settled(chief, USER, 0)
            if wanted:
                await real_cluster.grant(chief, USER, *wanted)
                await real_cluster.settled(chief, USER, len(wanted))

    run(rights(_READ_HANG, *granted))
    try:
        audit = run(find(kafka_3_9.sasl, search(), login()))
    finally:
        run(rights())
    assert verdicts_by_partition(audit) == {
        p: verdict if verdict[1] in seen else _HIDDEN for p, verdict in expected.items()
    }
    assert all(HIDDEN in finding.evidence for finding in audit.findings if finding.verdict == "unknown")
