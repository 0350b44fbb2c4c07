"""`txn doctor`: every check by a state that it is about, none on a clean cluster; planted settings on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client import Admin, BrokerError, ClientError, TransactionListing
from kafkawire.client.diagnosis.census import id_census, pattern_of, producer_census
from kafkawire.client.diagnosis.cluster_symptoms import ClusterState, below_min_isr
from kafkawire.client.diagnosis.doctor import examine
from kafkawire.client.diagnosis.doctor_checks import BROKER_SETTINGS, CHECKS, checks_made, risks
from kafkawire.client.results import PartitionInfo, ProducerState, TopicPartition
from kafkawire.client.rpc.cluster_state import Features, Quorum, Voter
from kafkawire.client.rpc.configs import Configs, ConfigValue
from kafkawire.client.rpc.eligible_replicas import EligibleReplicas
from kafkawire.client.rpc.log_dirs import LogDirs
from kafkawire.messages import (
    IncrementalAlterConfigsRequest,
)
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tests.client.doctor_script import DEFAULTS
from tools.broker import BrokerUnavailableError, cluster
from tools.polling import until

STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
TOPIC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


def configs(values: dict[str, str], **over: str) -> Configs:
    changed = {name.replace("_", "."): value for name, value in over.items()}
    return {name: ConfigValue(value) for name, value in (values | changed).items()}


def partition(topic: str, number: int, leader: int | None = None, **more: Any) -> tuple[TopicPartition, PartitionInfo]:
    place = TopicPartition(topic, number)
    info = PartitionInfo(place, number % 3 + 1 if leader is None else leader, 0, (1, 2, 3), (), (1, 2, 3))
    return place, replace(info, **more)


def clean() -> ClusterState:
    """Three brokers."""
    return ClusterState(
        partitions=dict([*(partition(STATE, n) for n in range(4)), partition(OFFSETS, 0), partition("orders", 0)]),
        broker_ids=(1, 2, 3),
        brokers={broker: configs(DEFAULTS) for broker in (1, 2, 3)},
        topics={
            STATE: configs(TOPIC, cleanup_policy="compact"),
            OFFSETS: configs(TOPIC, cleanup_policy="compact"),
            "orders": configs(TOPIC, cleanup_policy="delete"),
        },
        features=Features({"transaction.version": 2}, {"transaction.version": 2}),
        log_dirs={broker: LogDirs({TopicPartition(STATE, 0): 10}, {}) for broker in (1, 2, 3)},
        quorum=Quorum(1, tuple(Voter(node, DAY_MS) for node in (1, 2, 3))),
        eligible={},
    )


def brokers(**over: str) -> Callable[[ClusterState], ClusterState]:
    return lambda state: replace(state, brokers={broker: configs(DEFAULTS, **over) for broker in state.broker_ids})


def topic(name: str, **over: str) -> Callable[[ClusterState], ClusterState]:
    return lambda state: replace(state, topics={**state.topics, name: configs(TOPIC, **over)})


def place(*found: tuple[TopicPartition, PartitionInfo]) -> Callable[[ClusterState], ClusterState]:
    return lambda state: replace(state, partitions={**state.partitions, **dict(found)})


def census_of(pattern: str, ids: int) -> rows.IdCensus:
    return rows.IdCensus(pattern=pattern, ids=ids, states={"Empty": ids}, example="one", memory_bytes=1)


def producers_of(count: int) -> rows.ProducerCensus:
    return rows.ProducerCensus(topic="orders", partition=0, producer_ids=count, open=0, memory_bytes=1)


#: Check -> a change of the clean cluster, and what is found: subject, and value.
BAD: dict[str, tuple[Callable[[ClusterState], ClusterState], str, str]] = {
    "transaction_version": (
        lambda state: replace(state, features=Features({"transaction.version": 1}, {"transaction.version": 2})),
        "the cluster", "1 (the brokers support 2)",
    ),
    "eligible_replicas_off": (
        lambda state: replace(
            state, features=Features({"transaction.version": 2}, {"eligible.leader.replicas.version": 1})
        ),
        "the cluster", "0 (the brokers support 1)",
    ),
    "verification_off": (brokers(transaction_partition_verification_enable="false"), "brokers 1, 2, 3", "false"),
    "long_transaction_timeout": (brokers(transaction_max_timeout_ms="3600001"), "brokers 1, 2, 3", "3600001 (1 h)"),
    "ids_expire_during_pauses": (
        brokers(transactional_id_expiration_ms="3600000"), "brokers 1, 2, 3", "3600000 (1 h)",
    ),
    "producers_forgotten_early": (brokers(producer_id_expiration_ms="60000"), "brokers 1, 2, 3", "60000 (1 min)"),
    "late_timeouts": (
        brokers(transaction_abort_timed_out_transaction_cleanup_interval_ms="600000"),
        "brokers 1, 2, 3", "600000 (10 min)",
    ),
    "two_phase_commit": (brokers(transaction_two_phase_commit_enable="true"), "brokers 1, 2, 3", "true"),
    "unclean_election": (brokers(unclean_leader_election_enable="true"), "brokers 1, 2, 3", "true"),
    "unclean_election_of_topics": (
        topic("orders", unclean_leader_election_enable="true", cleanup_policy="delete"), "topic orders", "true",
    ),
    "cleaner_off": (brokers(log_cleaner_enable="false"), "brokers 1, 2, 3", "false"),
    "settings_differ": (
        lambda state: replace(
            state, brokers={**state.brokers, 2: configs(DEFAULTS, transaction_max_timeout_ms="60000")}
        ),
        "the cluster", "brokers 1, 3: 900000; broker 2: 60000",
    ),
    "coordinator_cleanup_policy": (topic(STATE, cleanup_policy="compact,delete"), f"topic {STATE}", "compact,delete"),
    "coordinator_partitions": (
        brokers(transaction_state_log_num_partitions="50"), "brokers", "50, and the topic has 4",
    ),
    "coordinator_replicas": (place(partition(STATE, 3, replicas=(1, 2), in_sync=(1, 2))), f"topic {STATE}", "2"),
    "isr_out_of_reach": (topic("orders", min_insync_replicas="4"), "topic orders", "4 of 3 replicas"),
    "isr_equals_replicas": (topic("orders", min_insync_replicas="3"), "topic orders", "3 of 3 replicas"),
    "coordinator_isr": (
        topic(STATE, min_insync_replicas="1", cleanup_policy="compact"), f"topic {STATE}", "1 of 3 replicas",
    ),
    "isr_of_topics": (topic("orders", min_insync_replicas="1"), "topic orders", "1 of 3 replicas"),
    "single_replicas": (place(partition("lone", 0, 1, replicas=(1,), in_sync=(1,))), "topic lone", "1"),
    "no_leader": (
        place((TopicPartition("orders", 1), PartitionInfo(TopicPartition("orders", 1), None, 0, (1, 2, 3)))),
        "partition orders-1", "1",
    ),
    "not_in_sync": (place(partition("orders", 0, in_sync=(1, 3))), "partition orders-0", "1"),
    "hot_coordinator": (
        place(*(partition(STATE, number, 1) for number in range(4))), "broker 1", "4 of 4",
    ),
    "offline_log_dirs": (
        lambda state: replace(state, log_dirs={2: LogDirs({}, {"/data": BrokerError(56, "it")})}),
        "broker 2", "/data: KAFKA_STORAGE_ERROR",
    ),
    "few_voters": (
        lambda state: replace(state, quorum=Quorum(1, (Voter(1, DAY_MS),))), "the controllers", "1",
    ),
    "voter_behind": (
        lambda state: replace(
            state, quorum=Quorum(1, (Voter(1, DAY_MS), Voter(2, DAY_MS), Voter(3, DAY_MS - HOUR_MS)))
        ),
        "controller 3", "1 h ago",
    ),
    "producer_id_leak": (
        lambda state: replace(state, producers=(producers_of(10_001), producers_of(10_000))),
        "partition orders-0", "10,001",
    ),
    "transactional_id_leak": (
        lambda state: replace(state, ids=(census_of("run-<uuid>", 101), census_of("a-<n>", 9_000))),
        "transactional ids run-<uuid>", "101, such as one",
    ),
}  # fmt: skip


def eligible(
    who: tuple[int, ...] | None, last: tuple[int, ...] = (), in_sync: tuple[int, ...] = ()
) -> Callable[[ClusterState], ClusterState]:
    """`orders-1` has no leader; who may lead it."""
    at = TopicPartition("orders", 1)
    return lambda state: replace(
        place((at, PartitionInfo(at, None, 0, (1, 2, 3))))(state), eligible={at: EligibleReplicas(in_sync, who, last)}
    )


#: With eligible leader replicas (KIP-966): check -> as in `BAD`; a check of the same state without them finds it, too.
ELIGIBLE: dict[str, tuple[Callable[[ClusterState], ClusterState], str, str, str]] = {
    "eligible_replicas_never": (
        topic("orders", min_insync_replicas="1"), "topic orders", "1 of 3 replicas", "isr_of_topics",
    ),
    "unclean_election_despite_eligible": (
        brokers(unclean_leader_election_enable="true"), "brokers 1, 2, 3", "true", "unclean_election",
    ),
    "waits_for_eligible_replica": (eligible((2, 3)), "partition orders-1", "2, 3", "no_leader"),
    "no_eligible_replica": (eligible((), (3,)), "partition orders-1", "none; last known: 3", "no_leader"),
}  # fmt: skip


def with_eligible(state: ClusterState) -> ClusterState:
    level = {"transaction.version": 2, "eligible.leader.replicas.version": 1}
    return replace(state, features=Features(level, level))


@pytest.mark.parametrize("name", ELIGIBLE)
def test_checks_of_eligible_replicas(name: str) -> None:
    change, subject, value, other = ELIGIBLE[name]
    found = risks(with_eligible(change(clean())))
    assert [(one.subject, one.value) for one in found if one.check == name] == [(subject, value)]
    assert {one.check for one in found} == {name, other}


def test_what_is_not_about_eligible_replicas() -> None:
    """Where brokers keep none; where a replica is in sync, which leads before an eligible one."""
    for who, in_sync in ((None, ()), ((2,), (1,))):
        found = risks(with_eligible(eligible(who, in_sync=in_sync)(clean())))
        assert {one.check for one in found} == {"no_leader"}
    assert risks(with_eligible(clean())) == ()
    assert below_min_isr(place(partition("orders", 0, in_sync=(1,)))(clean())) == [TopicPartition("orders", 0)]
    assert below_min_isr(clean()) == []


def test_a_clean_cluster_has_no_risk() -> None:
    assert risks(clean()) == ()
    assert checks_made(clean()) == tuple(check.name for check in CHECKS)
    assert set(DEFAULTS) == set(BROKER_SETTINGS)


@pytest.mark.parametrize("name", BAD)
def test_each_check_finds_the_state_that_it_is_about(name: str) -> None:
    change, subject, value = BAD[name]
    (found,) = risks(change(clean()))
    assert (found.check, found.subject, found.value) == (name, subject, value)


def test_an_id_that_expires_before_its_transaction_is_a_risk() -> None:
    state = brokers(transaction_max_timeout_ms=str(10 * DAY_MS))(clean())
    assert {one.check for one in risks(state)} == {"ids_expire_before_transactions", "long_transaction_timeout"}
    assert {*BAD, *ELIGIBLE, "ids_expire_before_transactions"} == {check.name for check in CHECKS}


def test_a_transaction_timeout_of_an_hour_is_no_risk() -> None:
    assert risks(brokers(transaction_max_timeout_ms=str(HOUR_MS))(clean())) == ()


def test_what_clients_need_is_given() -> None:
    state = replace(clean(), pause_ms=8 * DAY_MS, delivery_timeout_ms=2 * DAY_MS)
    assert {one.check for one in risks(state)} == {"ids_expire_during_pauses", "producers_forgotten_early"}


def test_one_broker_needs_no_second() -> None:
    alone = {place: replace(info, leader=1, replicas=(1,), in_sync=(1,)) for place, info in clean().partitions.items()}
    topics = {name: {**one, "min.insync.replicas": ConfigValue("1")} for name, one in clean().topics.items()}
    quorum = Quorum(1, (Voter(1, DAY_MS),))
    assert risks(replace(clean(), broker_ids=(1,), partitions=alone, topics=topics, quorum=quorum)) == ()


@pytest.mark.parametrize("value", ["", "many", "9" * 5000, "٣", "--5", None])
def test_a_value_that_is_no_number_is_passed_over(value: str | None) -> None:
    odd = dict.fromkeys((*BROKER_SETTINGS, "min.insync.replicas"), ConfigValue(value))
    state = replace(clean(), brokers={1: odd}, topics={"orders": odd})
    assert risks(state) == ()


def test_a_check_without_its_facts_is_not_made() -> None:
    made = checks_made(replace(clean(), brokers={}, quorum=None))
    assert "verification_off" not in made
    assert "voter_behind" not in made
    assert "no_leader" in made


@pytest.mark.parametrize(
    ("transactional_id", "pattern"),
    [
        ("orders-0_17", "orders-<n>_<n>"),
        ("run-123e4567-e89b-12d3-a456-426614174000-3", "run-<uuid>-<n>"),
        ("job-deadbeef01", "job-<hex>"),
        ("flink-1795275842646", "flink-<n+>"),
        ("facade-service", "facade-service"),
        ("x" * 100_000, "x" * 300),
    ],
)
def test_patterns_of_transactional_ids(transactional_id: str, pattern: str) -> None:
    assert pattern_of(transactional_id) == pattern


def test_census() -> None:
    def producer(producer_id: int, at: int | None, start: int | None = None) -> ProducerState:
        return ProducerState(
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=None,
            last_sequence=0,
            last_timestamp=at,
            transaction_start_offset=start,
        )

    states = {
        TopicPartition("a", 0): (),
        TopicPartition("b", 1): (producer(1, 100), producer(2, 50, 7), producer(3, 300), producer(4, None)),
    }
    (row,) = producer_census(states, 1000)
    assert (row.topic, row.producer_ids, row.open, row.first_expires, row.last_expires) == ("b", 4, 1, 1100, 1300)
    listed = [TransactionListing(f"s-{n}", n, "Empty" if n else "Ongoing") for n in range(3)]
    (ids,) = id_census(listed, {"s-1": 10, "s-2": 20}, 1000)
    assert (ids.pattern, ids.ids, ids.states) == ("s-<n>", 3, {"Empty": 2, "Ongoing": 1})
    assert (ids.first_expires, ids.last_expires) == (1010, 1020)


# A real broker -------------------------------------------------------------------------------------------------------

#: Settings of a single broker, and the checks that find them.
PLANTED = {
    "transaction.partition.verification.enable": ("false", "verification_off"),
    "transaction.max.timeout.ms": ("7200000", "long_transaction_timeout"),
    "transactional.id.expiration.ms": ("3600000", "ids_expire_during_pauses"),
    "producer.id.expiration.ms": ("60000", "producers_forgotten_early"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("600000", "late_timeouts"),
    "transaction.two.phase.commit.enable": ("true", "two_phase_commit"),
    "unclean.leader.election.enable": ("true", "unclean_election"),
}
OF_TOPICS = {
    STATE: {"cleanup.policy": "delete"},
    "lost": {"min.insync.replicas": "2"},
}


async def examined(address: str) -> rows.Checkup:
    async with Admin.connect(address) as admin:
        return await examine(admin.cluster)


async def use(address: str, topics: dict[str, dict[str, str]]) -> None:
    """Makes the topics, the coordinator's among them, with settings."""
    async with Admin.connect(address) as admin:
        await real_cluster.create_topics(admin, {"lost": 1})
        await admin.fence_producers(["doctor-1", "doctor-2"])  # creates the ids
        body = IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(
                    resource_type=2,
                    resource_name=name,
                    configs=tuple(
                        AlterableConfig(name=key, config_operation=0, value=one) for key, one in sets.items()
                    ),
                )
                for name, sets in topics.items()
            )
        )
        answer = await admin.cluster.ask_any(body, admin.cluster.deadline())
        assert {one.error_code for one in answer.responses} <= {0}


@pytest.mark.broker
@pytest.mark.slow
def test_finds_every_planted_setting_on_a_real_broker(start_cluster: StartCluster) -> None:
    config = {name: value for name, (value, _) in PLANTED.items()}
    with start_cluster(1, config=config, feature_levels={"transaction.version": 0}) as running:
        asyncio.run(use(running.bootstrap, OF_TOPICS))
        found = asyncio.run(examined(running.bootstrap))
    names = {one.check for one in found.risks}
    assert names == {check for _, check in PLANTED.values()} | {
        "transaction_version", "coordinator_cleanup_policy", "isr_out_of_reach", "ids_expire_before_transactions",
        "unclean_election_despite_eligible",
    }  # fmt: skip
    assert found.outcome.complete, found.hidden


@pytest.mark.broker
@pytest.mark.slow
def test_finds_nothing_on_a_clean_real_broker(start_cluster: StartCluster) -> None:
    with start_cluster(1) as running:
        asyncio.run(use(running.bootstrap, {}))
        found = asyncio.run(examined(running.bootstrap))
    assert found.risks == ()
    assert found.outcome.complete, found.hidden
    assert [(row.pattern, row.ids, row.states) for row in found.transactional_ids] == [("doctor-<n>", 2, {"Empty": 2})]
    (ids,) = found.transactional_ids
    assert ids.first_expires is not None
    assert 0 < ids.first_expires - found.as_of - 6 * DAY_MS < 2 * DAY_MS
    assert set(found.checks) == {check.name for check in CHECKS}


@pytest.mark.broker
@pytest.mark.slow
def test_a_partition_without_a_leader_waits_for_its_eligible_replica() -> None:
    """The follower is stopped, then the leader is killed: the last in sync, which is not asked to come back."""

    def info(admin: AdminClient) -> Any:
        return admin.list_topics(timeout=30).topics["waits"].partitions[0]

    try:
        with cluster(3, controllers=1) as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            new = NewTopic("waits", 1, replica_assignment=[[1, 2]], config={"min.insync.replicas": "2"})
            admin.create_topics([new])["waits"].result(60)
            running.stop_node(2)
            until(lambda: info(admin).isrs == [1] or None, "one replica in sync", seconds=60)
            running.kill_node(1)
            until(lambda: info(admin).leader < 0 or None, "no leader", seconds=60)
            found = asyncio.run(examined(running.node(3).address))
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    assert [(one.subject, one.value) for one in found.risks if one.check == "waits_for_eligible_replica"] == [
        ("partition waits-0", "1, 2")
    ], found


def test_an_unreachable_cluster_is_an_error() -> None:
    async def run() -> None:
        async with Admin.connect("127.0.0.1:1", {"default.api.timeout.ms": "300"}) as admin:
            await examine(admin.cluster)

    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
        asyncio.run(run())
