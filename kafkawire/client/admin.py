"""`Admin`: the calls of KIP-664 (and the fencing of KIP-360 behind force-terminate), typed.

    async with Admin.connect("localhost:9092") as admin:
        listed = await admin.list_transactions(states=["Ongoing"])
        for broker_id, transactions in listed.values.items(): ...

Where several brokers, ids or partitions are asked, each has its own error and never spoils the others' answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkawire import rows
from kafkawire.client.acl_rights import missing_right
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.request_driver import drive, every
from kafkawire.client.cluster.routing import coordinators, leaders, replicas_on
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import (
    ID_NOT_FOUND,
    BrokerError,
    ClientError,
    ConfigError,
    NoSuchBrokerError,
)
from kafkawire.client.results import (
    Marked,
    Offsets,
    ProducerIdAndEpoch,
    ProducerState,
    Results,
    TopicPartition,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.client.rpc import partition_offsets
from kafkawire.client.rpc.init_producer_id import fence_request
from kafkawire.client.rpc.write_txn_markers import write_abort
from kafkawire.client.transport.config import Config
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.transactions.abort_rules import Marker
from kafkawire.transactions.coordinator_rules import IDLE, STATES

if TYPE_CHECKING:
    from types import TracebackType

_DURATION, _PATTERN = 1, 2  # versions of ListTransactions that brought these filters

_EVERYTHING = Search()


class Admin:
    """See the module. `cluster` is what it talks through."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @classmethod
    def connect(cls, bootstrap: str, properties: Mapping[str, str] | None = None) -> Admin:
        """From "host:port,host:port" and Java-style client properties. Nothing is sent yet. Raises ConfigError."""
        return cls(Cluster(Config.of(bootstrap, properties)))

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cluster.close()

    # Coordinators -----------------------------------------------------------------------------------------------------

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        broker_ids: Collection[int] | None = None,
        timeout_s: float | None = None,
    ) -> Results[int, tuple[TransactionListing, ...]]:
        """The transactional ids that brokers coordinate, by broker; by default of all brokers.

        Ids that the principal may not Describe are left out without notice (KIP-664).

        Args:
            states: names of states, Ongoing. `producer_ids`: those of the ids.
            duration_ms: only transactions that are open for longer, milliseconds (brokers from 3.8 on). Brokers list
                ids without an open transaction, too: those are left out here.
            pattern: a regular expression of RE2 that the whole id matches (brokers from 4.1 on).

        Raises:
            ConfigError: the pattern is empty. No id matches it, and brokers answer with all ids.
        """
        if pattern == "":
            raise ConfigError("an empty pattern matches no transactional id: leave it out to list all of them")
        deadline = self.cluster.deadline(timeout_s)
        body = ListTransactionsRequest(
            state_filters=tuple(states),
            producer_id_filters=tuple(producer_ids),
            duration_filter=-1 if duration_ms is None else duration_ms,
            transactional_id_pattern=pattern,
        )
        at_least = _PATTERN if pattern is not None else _DURATION if duration_ms is not None else 0

        async def ask(broker_id: int) -> tuple[TransactionListing, ...]:
            answer = await self.cluster.ask(broker_id, body, deadline, at_least=at_least)
            if answer.error_code:
                raise BrokerError(answer.error_code, "ListTransactions")
            if answer.unknown_state_filters:
                unknown = ", ".join(sorted(answer.unknown_state_filters))
                raise ConfigError(f"no state of transactional ids is named {unknown}: {', '.join(STATES.values())}")
            return tuple(
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
                if duration_ms is None or one.transaction_state not in IDLE
            )

        known = await self.cluster.known_brokers(deadline)
        asked = sorted(known) if broker_ids is None else sorted(set(broker_ids))
        return await every(self.cluster, asked, ask, deadline)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Each transactional id, as its coordinator describes it."""
        deadline = self.cluster.deadline(timeout_s)

        async def ask(broker: int, keys: Sequence[str]) -> dict[str, TransactionDescription | ClientError]:
            body = DescribeTransactionsRequest(transactional_ids=tuple(keys))
            answer = await self.cluster.ask(broker, body, deadline)
            return {one.transactional_id: _description(one, broker) for one in answer.transaction_states}

        return await drive(self.cluster, transactional_ids, coordinators(self.cluster, deadline), ask, deadline)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> Results[str, ProducerIdAndEpoch]:
        """Ends what each id has open, through its coordinator, and locks its present producer out (InitProducerId).

        As Kafka's `fenceProducers`: an id that does not exist is created.
        """
        deadline = self.cluster.deadline(timeout_s)

        async def ask(broker: int, keys: Sequence[str]) -> dict[str, ProducerIdAndEpoch | ClientError]:
            found: dict[str, ProducerIdAndEpoch | ClientError] = {}
            for key in keys:
                answer = await self.cluster.ask(broker, fence_request(key, deadline), deadline)
                found[key] = (
                    _id_error("InitProducerId", answer.error_code, key)
                    if answer.error_code
                    else ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
                )
            return found

        route = coordinators(self.cluster, deadline, "InitProducerId")
        return await drive(self.cluster, transactional_ids, route, ask, deadline)

    # Partitions -------------------------------------------------------------------------------------------------------

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_s: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that the leader of each partition remembers, or the replica on `broker_id`.

        Args:
            progress: called with the number of partitions that were described since its last call.
        """
        deadline = self.cluster.deadline(timeout_s)

        async def ask(
            broker: int, keys: Sequence[TopicPartition]
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
            topics = tuple(TopicRequest(name=name, partition_indexes=tuple(p)) for name, p in by_topic(keys).items())
            answer = await self.cluster.ask(broker, DescribeProducersRequest(topics=topics), deadline)
            if progress is not None:
                progress(len(keys))
            return {
                (place := TopicPartition(topic.name, one.partition_index)): _producers(place, one)
                for topic in answer.topics
                for one in topic.partitions
            }

        if broker_id is None:
            route = leaders(self.cluster, deadline)
        else:
            known = await self.cluster.known_brokers(deadline)
            if broker_id not in known:
                raise NoSuchBrokerError(
                    f"the cluster has no broker {broker_id} now; its brokers are {', '.join(map(str, sorted(known)))}"
                )
            route = replicas_on(self.cluster, broker_id, deadline)
        return await drive(self.cluster, partitions, route, ask, deadline)

    async def offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, Offsets]:
        """Log start, last stable offset and high watermark of partitions (ListOffsets; Describe on the topic)."""
        return await partition_offsets.list_offsets(self.cluster, partitions, self.cluster.deadline(timeout_s))

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout_s: float | None = None,
    ) -> Marked:
        """Writes an ABORT marker for one transaction into one partition, whatever its coordinator thinks.

        Destroys data where the transaction is not hanging: `aborting.abort` judges it first, and verifies. The
        transaction is named by its start offset, or by producer id, producer epoch and coordinator epoch; never both
        (AbortTransactionSpec). Sent once: where no answer comes, the error says that the outcome is not known.

        Raises:
            ConfigError: neither, or both. ClientError: it was not done, or that is not known.
        """
        given = (producer_id, producer_epoch, coordinator_epoch)
        if start_offset is not None:
            if given != (None, None, None):
                raise ConfigError("a transaction is named by a start offset or by a coordinator epoch, never by both")
            producer_id, producer_epoch, coordinator_epoch = await self._started_at(partition, start_offset, timeout_s)
        if producer_id is None or producer_epoch is None or coordinator_epoch is None:
            raise ConfigError(
                "a transaction is named by a start offset, or by producer id, producer epoch and coordinator epoch"
            )
        deadline = self.cluster.deadline(timeout_s)
        marker = Marker(
            topic=partition.topic,
            partition=partition.partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        return await write_abort(self.cluster, marker, deadline)

    async def find_hanging_transactions(
        self, search: Search = _EVERYTHING, progress: Callable[[int, int], None] | None = None
    ) -> rows.Audit:
        """Every open transaction with its verdict, evidence and what to do; see `hanging_search.find_hanging`."""
        return await find_hanging(self, search, progress)

    async def _started_at(
        self, partition: TopicPartition, start_offset: int, timeout_s: float | None
    ) -> tuple[int, int, int]:
        found = (await self.describe_producers([partition], timeout_s=timeout_s))[partition]
        for state in found:
            if state.transaction_start_offset == start_offset:
                # None: no coordinator has ever ended a transaction of this producer here. As Kafka's tool, 0 then.
                return state.producer_id, state.producer_epoch, max(state.coordinator_epoch or 0, 0)
        raise ClientError(f"{partition}: no transaction is open there that began at offset {start_offset}")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, as requests have them."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _description(one: Any, broker: int) -> TransactionDescription | ClientError:
    if one.error_code:
        return _id_error("DescribeTransactions", one.error_code, one.transactional_id)
    return TransactionDescription(
        transactional_id=one.transactional_id,
        coordinator=broker,
        state=one.transaction_state,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        timeout_ms=one.transaction_timeout_ms,
        start_time_ms=one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
        partitions=tuple(sorted(TopicPartition(topic.topic, p) for topic in one.topics for p in topic.partitions)),
    )


def _id_error(api: str, code: int, transactional_id: str) -> BrokerError:
    detail = "no coordinator knows it" if code == ID_NOT_FOUND else ""
    what = f"transactional id {transactional_id}"
    return BrokerError(code, what, detail=detail, right=missing_right(api, code, transactional_id))


def _producers(place: TopicPartition, one: Any) -> tuple[ProducerState, ...] | ClientError:
    if one.error_code:
        right = missing_right("DescribeProducers", one.error_code, place.topic)
        return BrokerError(one.error_code, f"partition {place}", detail=one.error_message or "", right=right)
    return tuple(
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            coordinator_epoch=_known(state.coordinator_epoch),
            last_sequence=_known(state.last_sequence),
            last_timestamp=_known(state.last_timestamp),
            transaction_start_offset=_known(state.current_txn_start_offset),
        )
        for state in one.active_producers
    )


def _known(value: int) -> int | None:
    return value if value >= 0 else None
