"""One reading of a cluster's open transactions, from leaders, coordinators and metadata.

Partitions are read before coordinators: a transaction that ends in between is open in the partition and ended at its
coordinator, and the next reading shows it closed. In the other order, a transaction that begins in between would look
hanging.

Metadata of all brokers shows whether they name the same leader. A deposed leader that does not know it yet still
answers, and may list transactions that have ended at its successor; its own metadata does not show that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

import msgspec

from kafkawire.client import results
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.request_driver import every
from kafkawire.client.diagnosis.coordinator_loading import unloaded
from kafkawire.client.errors import ClientError, is_unknown_id
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import describe_transactions, list_transactions
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.live_case import described

#: An open transaction: its partition, and its producer id.
OpenKey = tuple[results.TopicPartition, int]


class Coordinators(msgspec.Struct, frozen=True):
    """The partitions of `__transaction_state`: number -> leader (or None) and leader epoch; a change of
    them is a coordinator that moved. `missing`: brokers that have replicas and are not in the cluster now."""

    leaders: dict[int, tuple[int | None, int]]
    missing: frozenset[int]
    problem: str | None = None


class ClusterReading(msgspec.Struct, frozen=True, kw_only=True):
    """The open transactions of a cluster, read once, with what leaders, coordinators and metadata say of them.

    Attributes:
        at: epoch milliseconds of this machine's clock, when the partitions had been read.
        until: epoch milliseconds of this machine's clock, when coordinators had described their ids.
        opens: every open transaction. `starts`: the first offset of the earliest one of each partition.
        errors: partitions that could not be described.
        offsets: of the partitions with open transactions.
        listed: what the brokers list; empty where nothing is open. `id_states`: by producer id.
        coordinators: before and after all this.
        unloaded: partitions of `__transaction_state` that no coordinator had loaded before it listed its ids, and why;
            None where that was not checked.
        disputed: partitions with open transactions, and of `__transaction_state`, for which brokers name different
            leaders, with a sentence; empty where that was not checked.
        gone: brokers that had listed their ids, and did not answer any more at the end of the reading, and why: as long
            as a broker's session lasts, metadata names one that is dead, and its successors do not list its ids.
        agreed: the leader epoch of each partition with open transactions for which all brokers name one leader; empty
            where that was not checked.
    """

    at: int
    until: int
    described: int
    opens: dict[OpenKey, results.ProducerState]
    errors: dict[results.TopicPartition, ClientError]
    offsets: dict[results.TopicPartition, results.Offsets]
    listed: results.Results[int, tuple[results.TransactionListing, ...]]
    id_states: dict[int, IdState]
    coordinators: tuple[Coordinators, Coordinators]
    unloaded: dict[int, ClientError] | None = None
    disputed: dict[results.TopicPartition, str] = {}
    gone: dict[int, ClientError] = {}
    agreed: dict[results.TopicPartition, int] = {}

    @property
    def starts(self) -> dict[results.TopicPartition, int]:
        found: dict[results.TopicPartition, int] = {}
        for (place, _), state in self.opens.items():
            start = state.transaction_start_offset
            assert start is not None
            found[place] = min(found.get(place, start), start)
        return found

    @property
    def nameless(self) -> set[int]:
        """Producer ids of open transactions that no coordinator listed."""
        return {producer_id for _, producer_id in self.opens} - set(self.id_states)


def clock_ms() -> int:
    """This machine's clock, epoch milliseconds."""
    return int(time.time() * 1000)


async def read(
    cluster: Cluster,
    partitions: Collection[results.TopicPartition],
    *,
    broker_id: int | None,
    timeout_s: float | None,
    progress: Callable[[int], None] | None = None,
    thorough: bool = False,
    loaded: bool = False,
    clock: Callable[[], int] = clock_ms,
) -> ClusterReading:
    """Reads once. Partial failures are in the reading; an error is raised only where nothing can be read.

    Args:
        thorough: check whether all brokers name the same leaders, and still answer in the end.
        loaded: check whether coordinators have loaded the partitions that they lead. An authorizer would deny that.
        clock: this machine's, epoch milliseconds.
    """
    before = await coordinators(cluster, timeout_s)
    topics = {TRANSACTION_STATE, *(place.topic for place in partitions)} if thorough else set()
    seen = list((await views(cluster, topics, timeout_s)).values.values()) if topics else []
    states = await describe_producers(
        cluster, partitions, cluster.deadline(timeout_s), broker_id=broker_id, progress=progress
    )
    at = clock()
    opens = {
        (place, state.producer_id): state
        for place, found in states.values.items()
        for state in found
        if state.transaction_start_offset is not None
    }
    listed: results.Results[int, tuple[results.TransactionListing, ...]] = results.Results({}, {})
    offsets: results.Results[results.TopicPartition, results.Offsets] = results.Results({}, {})
    id_states: dict[int, IdState] = {}
    missing: dict[int, ClientError] | None = None
    gone: dict[int, ClientError] = {}
    after, until = before, at
    if opens:
        places = dict.fromkeys(place for place, _ in opens)
        producer_ids = sorted({producer_id for _, producer_id in opens})
        if loaded:
            led = [number for number, (leader, _) in before.leaders.items() if leader is not None]
            missing = await unloaded(cluster, led, len(before.leaders), timeout_s)
        # One after the other: a broker that closes the connection on one request would end the other, too.
        offsets = await list_offsets(cluster, places, cluster.deadline(timeout_s))
        listed = await list_transactions(cluster, cluster.deadline(timeout_s), producer_ids=producer_ids)
        id_states = await _id_states(cluster, opens, listed, before, timeout_s)
        until = clock()
        after = await coordinators(cluster, timeout_s)
        if topics:
            last = await views(cluster, topics, timeout_s)
            seen += last.values.values()
            left = ClientError("it is not in the cluster any more")
            gone = {broker: last.errors.get(broker, left) for broker in listed.values if broker not in last.values}
    judged = {place for place, _ in opens} | {
        results.TopicPartition(TRANSACTION_STATE, number) for number in after.leaders
    }
    return ClusterReading(
        at=at,
        until=until,
        described=len(states.values),
        opens=opens,
        errors=states.errors,
        offsets=offsets.values,
        listed=listed,
        id_states=id_states,
        coordinators=(before, after),
        unloaded=missing,
        disputed=disputed(seen, judged),
        gone=gone,
        agreed=agreed(seen, {place for place, _ in opens}),
    )


async def coordinators(cluster: Cluster, timeout_s: float | None) -> Coordinators:
    """The leaders of `__transaction_state` now."""
    metadata = await cluster.metadata([TRANSACTION_STATE], deadline=cluster.deadline(timeout_s))
    problem = metadata.errors.get(TRANSACTION_STATE)
    return Coordinators(
        {place.partition: (info.leader, info.leader_epoch) for place, info in metadata.partitions.items()},
        missing_brokers(metadata),
        None if problem is None else str(problem),
    )


def missing_brokers(metadata: results.Metadata) -> frozenset[int]:
    """Brokers that have replicas and are not in the cluster now."""
    have = {broker for info in metadata.partitions.values() for broker in info.replicas}
    return frozenset(have - set(metadata.brokers))


async def _id_states(
    cluster: Cluster,
    opens: Iterable[OpenKey],
    listed: results.Results[int, tuple[results.TransactionListing, ...]],
    known: Coordinators,
    timeout_s: float | None,
) -> dict[int, IdState]:
    """The ids that coordinators list, as they describe them, by producer id."""
    ids = {one.producer_id: one.transactional_id for found in listed.values.values() for one in found}
    wanted = {producer_id: ids[producer_id] for _, producer_id in opens if producer_id in ids}
    if not wanted:
        return {}
    answers = await describe_transactions(cluster, dict.fromkeys(wanted.values()), cluster.deadline(timeout_s))
    return {producer_id: _id_state(name, answers, known) for producer_id, name in wanted.items()}


def _id_state(name: str, answers: results.Results[str, results.TransactionDescription], known: Coordinators) -> IdState:
    epoch = epoch_of(name, known)
    error = answers.errors.get(name)
    if error is not None:
        problem = "it was listed, and is not known a moment later" if is_unknown_id(error) else str(error)
        return IdState(transactional_id=name, source="", value=None, epoch=epoch, problem=problem)
    found = answers.values[name]
    value = described(
        found.state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        start_time_ms=found.start_time_ms,
        partitions=found.partitions,
    )
    source = f"coordinator: broker {found.coordinator}"
    return IdState(
        transactional_id=name,
        source=source,
        value=value,
        described=True,
        partition=partition_of_id(name, len(known.leaders)) if known.leaders else None,
        coordinator=found.coordinator,
        epoch=epoch,
    )


def epoch_of(transactional_id: str, known: Coordinators) -> int:
    """The epoch of an id's coordinator, which its markers carry; -1 where it is not known."""
    if not known.leaders:
        return -1
    return known.leaders.get(partition_of_id(transactional_id, len(known.leaders)), (None, -1))[1]


# Leaders -------------------------------------------------------------------------------------------------------------


async def views(
    cluster: Cluster, topics: Collection[str], timeout_s: float | None, without: Collection[int] = ()
) -> results.Results[int, results.Metadata]:
    """Each broker's own metadata of some topics. `topics`: names; all brokers get a request for the same ones.
    `timeout_s`: seconds for all brokers together; None as configured. `without`: brokers that are not asked."""
    deadline = cluster.deadline(timeout_s)

    async def ask(broker_id: int) -> results.Metadata:
        return await cluster.metadata(topics, deadline=deadline, broker_id=broker_id)

    brokers = [broker for broker in await cluster.known_brokers(deadline) if broker not in without]
    return await every(cluster, brokers, ask, deadline)


def agreed(seen: list[results.Metadata], places: Iterable[results.TopicPartition]) -> dict[results.TopicPartition, int]:
    """The leader epochs of the partitions for which all of `seen` name one leader."""
    found = {}
    for place in places:
        leads = {(info.leader, info.leader_epoch) for one in seen if (info := one.partitions.get(place)) is not None}
        if len(leads) == 1 and (lead := next(iter(leads)))[0] is not None:
            found[place] = lead[1]
    return found


def disputed(
    seen: Iterable[results.Metadata], places: Iterable[results.TopicPartition]
) -> dict[results.TopicPartition, str]:
    """Partitions with more than one leader or leader epoch in `seen`, each with a sentence."""
    seen = list(seen)
    found = {}
    for place in places:
        leads = {(info.leader_epoch, info.leader) for one in seen if (info := one.partitions.get(place)) is not None}
        if len(leads) > 1:
            names = ", ".join(
                f"{'none' if leader is None else f'broker {leader}'} in leader epoch {epoch}"
                for epoch, leader in sorted(leads, key=lambda lead: lead[0])
            )
            found[place] = f"Its leader changed, or brokers still disagree on it: {names}."
    return found
