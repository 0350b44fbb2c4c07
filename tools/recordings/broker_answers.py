"""The live brokers' answers about transactions and offsets, with which tests compare the project's own findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kafkawire import messages
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic

from . import RecordingError
from .clients import now
from .raw_client import RawCluster, expect

_EARLIEST, _LATEST = -2, -1
_UNCOMMITTED, _COMMITTED = 0, 1
_SETTLE_S = 20.0


class DescribedProducer(msgspec.Struct, frozen=True, kw_only=True):
    """DescribeProducers' answer for one producer in one partition. `current_txn_start_offset` -1: none is open."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

    @property
    def open(self) -> bool:
        return self.current_txn_start_offset >= 0

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.producer_id


class DescribedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """ListTransactions' and DescribeTransactions' answer for one transactional id."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: list[tuple[str, int]]


class LeaderOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """ListOffsets' answers for one partition, at its leader."""

    topic: str
    partition: int
    leader: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers' answers at one time (`asked_at`, epoch milliseconds)."""

    asked_at: int
    producers: list[DescribedProducer]
    transactions: list[DescribedTransaction]
    offsets: list[LeaderOffsets]

    def producer(self, topic: str, partition: int, producer_id: int) -> DescribedProducer:
        """The state of a producer at the leader of a partition. Raises RecordingError where the leader has none.

        Args:
            partition: number. `producer_id`: of the producer.
        """
        for state in self.producers:
            if (state.topic, state.partition, state.producer_id) == (topic, partition, producer_id):
                return state
        raise RecordingError(f"the leader of {topic}-{partition} does not know producer id {producer_id}")

    def transaction(self, producer_id: int) -> DescribedTransaction | None:
        """The coordinator's answer about a producer id; None where no coordinator knows it."""
        return next((t for t in self.transactions if t.producer_id == producer_id), None)

    def offsets_of(self, topic: str, partition: int) -> LeaderOffsets:
        return next(o for o in self.offsets if (o.topic, o.partition) == (topic, partition))


def ask(wire: RawCluster, topics: Iterable[str], *, transactions: bool = True) -> Truth:
    """Queries all brokers.

    Args:
        topics: those whose producers and offsets are requested.
        transactions: whether coordinators are asked, which brokers before 3.0 do not answer.
    """
    leaders = dict(sorted(wire.leaders(topics).items()))
    return Truth(
        asked_at=now(),
        producers=[state for place, node in leaders.items() for state in _producers(wire, *place, node)],
        transactions=_transactions(wire) if transactions else [],
        offsets=[_offsets(wire, *place, node) for place, node in leaders.items()],
    )


def ask_until(
    wire: RawCluster, topics: Iterable[str], settled: Callable[[Truth], bool], *, transactions: bool = True
) -> Truth:
    """Asks until the answer has `settled`, at most 20 s; the last answer. EndTxn is answered before the markers are
    written: the brokers' answers directly after it are not yet final.

    Args:
        topics: those whose producers and offsets are requested.
        settled: whether an answer is final. `transactions`: as for `ask`.
    """
    deadline = time.monotonic() + _SETTLE_S
    while not settled(truth := ask(wire, topics, transactions=transactions)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return truth


def as_json(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _producers(wire: RawCluster, topic: str, partition: int, leader: int) -> list[DescribedProducer]:
    request = messages.DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(partition,)),))
    answer = wire.connection(leader).ask(request, 0, messages.DescribeProducersResponse).topics[0].partitions[0]
    expect(answer.error_code, 0, f"DescribeProducers of {topic}-{partition}")
    place: dict[str, Any] = {"topic": topic, "partition": partition, "leader": leader}
    states = [
        DescribedProducer(
            **place, **{name: getattr(p, name) for name in DescribedProducer.__struct_fields__[len(place) :]}
        )
        for p in answer.active_producers
    ]
    return sorted(states, key=lambda s: s.producer_id)


def _transactions(wire: RawCluster) -> list[DescribedTransaction]:
    found = []
    for node in sorted(wire.brokers()):
        connection = wire.connection(node)
        listed = connection.ask(messages.ListTransactionsRequest(), 0, messages.ListTransactionsResponse)
        expect(listed.error_code, 0, f"ListTransactions at broker {node}")
        ids = tuple(state.transactional_id for state in listed.transaction_states)
        described = connection.ask(
            messages.DescribeTransactionsRequest(transactional_ids=ids), 0, messages.DescribeTransactionsResponse
        )
        for state in described.transaction_states:
            expect(state.error_code, 0, f"DescribeTransactions of {state.transactional_id}")
            found.append(
                DescribedTransaction(
                    transactional_id=state.transactional_id,
                    coordinator=node,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    state=state.transaction_state,
                    timeout_ms=state.transaction_timeout_ms,
                    start_time_ms=state.transaction_start_time_ms,
                    partitions=sorted((t.topic, p) for t in state.topics for p in t.partitions),
                )
            )
    return sorted(found, key=lambda t: t.transactional_id)


def _offsets(wire: RawCluster, topic: str, partition: int, leader: int) -> LeaderOffsets:
    def offset(timestamp: int, isolation_level: int) -> int:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = messages.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),),
        )
        answer = wire.connection(leader).ask(request, 6, messages.ListOffsetsResponse).topics[0].partitions[0]
        expect(answer.error_code, 0, f"ListOffsets of {topic}-{partition}")
        return answer.offset

    return LeaderOffsets(
        topic=topic,
        partition=partition,
        leader=leader,
        log_start_offset=offset(_EARLIEST, _UNCOMMITTED),
        last_stable_offset=offset(_LATEST, _COMMITTED),
        high_watermark=offset(_LATEST, _UNCOMMITTED),
    )
