"""`examine`: reads a cluster's settings, features and producers, and lists what invites trouble. Read-only."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Hashable
from typing import TypeVar

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.census import id_census, producer_census
from kafkawire.client.diagnosis.cluster_symptoms import TOPIC_SETTINGS, ClusterState, below_min_isr
from kafkawire.client.diagnosis.doctor_checks import BROKER_SETTINGS, checks_made, risks
from kafkawire.client.diagnosis.transaction_state_log import read_ids
from kafkawire.client.diagnosis.unread_partitions import gaps_of
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Results, TopicPartition
from kafkawire.client.rpc.cluster_state import read_features, read_quorum
from kafkawire.client.rpc.configs import broker_configs, topic_configs
from kafkawire.client.rpc.eligible_replicas import EligibleReplicas, eligible_replicas
from kafkawire.client.rpc.hidden_resources import has_authorizer, hidden_topics
from kafkawire.client.rpc.log_dirs import describe_log_dirs
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import list_transactions
from kafkawire.transactions.cluster.cluster_traits import ID_EXPIRATION, PRODUCER_EXPIRATION
from kafkawire.transactions.coordinator.coordinator_rules import IDLE, state_name
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.verdict.settings import TRANSACTIONAL_ID_EXPIRATION_MS

#: `__transaction_state` is read, for the times of ids, only where it has no more bytes.
MOST_STATE_BYTES = 64 << 20

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def examine(cluster: Cluster, *, delivery_timeout_ms: int = 120_000, pause_ms: int = 86_400_000) -> rows.Checkup:
    """The settings and states of a cluster that invite hanging transactions, loss of data or trouble of coordinators;
    and the census.

    Args:
        delivery_timeout_ms: delivery.timeout.ms of the producers, which no request contains.
        pause_ms: how long a client that keeps running may pause.

    Raises:
        ClientError: the cluster cannot be reached. What cannot be read is in `hidden`.
    """
    return await _Examination(cluster).run(delivery_timeout_ms, pause_ms)


class _Examination:
    """Reads one thing after the other, and collects what could not be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hidden: list[str] = []

    async def run(self, delivery_timeout_ms: int, pause_ms: int) -> rows.Checkup:
        cluster, now = self._cluster, int(time.time() * 1000)
        metadata = await cluster.metadata(deadline=cluster.deadline())
        topics = sorted({place.topic for place in metadata.partitions})
        configs = await broker_configs(cluster, metadata.brokers, BROKER_SETTINGS, cluster.deadline())
        of_topics = (
            await topic_configs(cluster, topics, TOPIC_SETTINGS, cluster.deadline()) if topics else Results({}, {})
        )
        log_dirs = await describe_log_dirs(cluster, metadata.brokers, cluster.deadline())
        state = ClusterState(
            partitions=metadata.partitions,
            broker_ids=tuple(sorted(metadata.brokers)),
            brokers=self._values(configs),
            topics=self._values(of_topics),
            features=await self._one(read_features(cluster, cluster.deadline())),
            log_dirs=self._values(log_dirs),
            quorum=await self._one(read_quorum(cluster, cluster.deadline())),
            delivery_timeout_ms=delivery_timeout_ms,
            pause_ms=pause_ms,
        )
        state = replace(state, eligible=await self._eligible(state))
        state = await self._counted(state, set(topics))
        found, hidden = risks(state), tuple(self._hidden)
        return rows.Checkup(
            as_of=now,
            cluster_id=metadata.cluster_id,
            brokers=state.broker_ids,
            partitions=len(metadata.partitions),
            checks=checks_made(state),
            risks=found,
            producers=state.producers,
            transactional_ids=state.ids,
            hidden=hidden,
            outcome=rows.Outcome(found=bool(found), complete=not hidden, missing=hidden),
        )

    async def _eligible(self, state: ClusterState) -> dict[TopicPartition, EligibleReplicas] | None:
        """The eligible replicas of the partitions that may have some; None where brokers keep none, or could not be
        asked."""
        wanted = set(below_min_isr(state))
        if not state.keeps_eligible:
            return None
        topics = {place.topic for place in wanted}
        found = await self._one(eligible_replicas(self._cluster, topics, self._cluster.deadline()))
        return None if found is None else {k: v for k, v in self._values(found).items() if k in wanted}

    def _values(self, found: Results[K, T]) -> dict[K, T]:
        self._hidden += dict.fromkeys(map(str, found.errors.values()))
        return found.values

    async def _one(self, asked: Awaitable[T]) -> T | None:
        try:
            return await asked
        except ClientError as error:
            self._hidden.append(str(error))
            return None

    async def _counted(self, state: ClusterState, topics: set[str]) -> ClusterState:
        """Adds the census to the checkup."""
        cluster = self._cluster
        producers = await describe_producers(cluster, state.partitions, cluster.deadline())
        self._hidden += [f"producers: {gap.text}" for gap in gaps_of(producers.errors)]
        listed = self._values(await list_transactions(cluster, cluster.deadline()))
        updated = await self._updated(state)
        if await self._one(has_authorizer(cluster, cluster.deadline())):
            names, more = await hidden_topics(cluster, state.broker_ids, topics, cluster.deadline())
            if names:
                self._hidden.append(f"topics: {len(names)} are hidden from the principal, which needs Describe on them")
            elif more is not None:
                self._hidden.append(f"topics: those that the principal may not Describe were not seen ({more})")
            if updated is None:
                self._hidden.append("transactional ids: those that the principal may not Describe are not listed")
        return replace(
            state,
            producers=producer_census(producers.values, state.number(PRODUCER_EXPIRATION, PRODUCER_ID_EXPIRATION_MS)),
            ids=id_census(
                (one for found in listed.values() for one in found),
                updated or {},
                state.number(ID_EXPIRATION, TRANSACTIONAL_ID_EXPIRATION_MS),
            ),
        )

    async def _updated(self, state: ClusterState) -> dict[str, int] | None:
        """When idle ids were last written, from `__transaction_state`; None where it was not read."""
        places = [place for place in state.partitions if place.topic == TRANSACTION_STATE]
        sizes = [dirs.sizes.get(place) for place in places for dirs in state.log_dirs.values()]
        known = [size for size in sizes if size is not None]
        if not places:
            return {}
        if len(known) < len(places) or sum(known) > MOST_STATE_BYTES:
            why = f"it has {sum(known):,} bytes" if len(known) >= len(places) else "its size is not known"
            self._hidden.append(f"when transactional ids expire: {TRANSACTION_STATE} was not read: {why}")
            return None
        logs = await read_ids(self._cluster, [place.partition for place in places], self._cluster.deadline())
        self._hidden += [f"when transactional ids expire: {gap.text}" for gap in gaps_of(logs.errors)]
        return (
            {
                one.transactional_id: one.value.transaction_last_update_timestamp_ms
                for log in logs.values.values()
                for one in log.records()
                if one.value is not None and state_name(one.value.transaction_status) in IDLE
            }
            if not logs.errors
            else None
        )
