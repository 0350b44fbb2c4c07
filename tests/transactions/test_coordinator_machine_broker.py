"""The machine beside a real coordinator: random requests for one id, the same answers and the same description."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kafkawire.client import Admin
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.testing import coordinator_machine
from kafkawire.testing.coordinator_machine import TransactionMetadata, Transition
from kafkawire.transactions.coordinator.coordinator_rules import PREPARED
from tests.broker_fixture import StartCluster
from tests.client import real_cluster
from tools.broker import RunningCluster, jars
from tools.recordings.raw_client import RawCluster

pytestmark = pytest.mark.broker

TOPIC, PARTITIONS = "machine", 4
STEPS = 150
TIMEOUT_S = 30.0


class Coordinator(NamedTuple):
    """A release, its cluster's transaction.version (which its own aborts have), and the EndTxn that are asked of it."""

    release: str
    version: int
    ends: tuple[int, int]


COORDINATORS = (Coordinator(jars.BROKER_VERSION, 2, (3, 5)), Coordinator("3.9.1", 0, (3, 4)))


class Beside:
    """An id of the broker, and of the machine. New producer ids are not known before: the broker's are taken over."""

    def __init__(self, wire: RawCluster, name: str, version: int) -> None:
        self.name = name
        self._version = version
        first = wire.init_producer(name, timeout_ms=60_000)
        self._connection = wire.connection(wire.coordinator(name))
        new = coordinator_machine.create(first.producer_id, 1000, 0)
        self.held = coordinator_machine.init_producer_id(new, timeout_ms=60_000, now=0, new_producer_id=-1).after
        assert (self.held.producer_id, self.held.epoch) == (first.producer_id, first.epoch)

    def _asked(self, body: Any, version: int, kind: Any) -> Any:
        return self._connection.ask(body, version, kind)

    def _init(self, expected: tuple[int, int] | None) -> InitProducerIdRequest:
        producer_id, epoch = expected or (-1, -1)
        return InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
        )

    def init(self, expected: tuple[int, int] | None) -> None:
        answer = self._asked(self._init(expected), 4, InitProducerIdResponse)
        step = coordinator_machine.init_producer_id(
            self.held, timeout_ms=60_000, now=0, new_producer_id=-1, expected=expected, version=self._version
        )
        self._take(step, answer.error_code, f"InitProducerId {expected}")
        if not step.error:
            assert (answer.producer_id, answer.producer_epoch) == (self.held.producer_id, self.held.epoch)

    def add(self, own: tuple[int, int], partition: int) -> None:
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=(partition,))
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=own[0],
            v3_and_below_producer_epoch=own[1],
            v3_and_below_topics=(topic,),
        )
        answer = self._asked(body, 3, AddPartitionsToTxnResponse)
        ((result,),) = (topic.results_by_partition for topic in answer.results_by_topic_v3_and_below)
        step = coordinator_machine.add_partitions(self.held, *own, {(TOPIC, partition)}, now=0)
        self._take(step, result.partition_error_code, f"AddPartitionsToTxn {own}")

    def end(self, own: tuple[int, int], committed: bool, request_version: int) -> None:
        body = EndTxnRequest(transactional_id=self.name, producer_id=own[0], producer_epoch=own[1], committed=committed)
        answer = self._asked(body, request_version, EndTxnResponse)
        version = self._version if request_version >= 5 else 0
        step = coordinator_machine.end(self.held, *own, committed=committed, now=0, version=version)
        self._take(step, answer.error_code, f"EndTxn v{request_version} {own} {committed}")
        if request_version >= 5 and not step.error:
            assert (answer.producer_id, answer.producer_epoch) == (self.held.producer_id, self.held.epoch)

    def _take(self, step: Transition, error: int, what: str) -> None:
        assert step.error == error, (what, self.held)
        self.held = step.after
        if self.held.state in PREPARED:
            self.held = coordinator_machine.complete(self.held, now=0)
        self._compare(what)

    def _compare(self, what: str) -> None:
        """The coordinator's description, as soon as its markers are written."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            body = DescribeTransactionsRequest(transactional_ids=(self.name,))
            (described,) = self._asked(body, 0, DescribeTransactionsResponse).transaction_states
            if described.transaction_state not in PREPARED:
                break
            assert time.monotonic() < deadline, described
        held = self.held
        assert (
            described.transaction_state,
            described.producer_id,
            described.producer_epoch,
            described.transaction_timeout_ms,
        ) == (
            held.state,
            held.producer_id,
            held.epoch,
            held.timeout_ms,
        ), what
        assert {(topic.topic, one) for topic in described.topics for one in topic.partitions} == held.partitions, what


@pytest.fixture(scope="module", params=COORDINATORS, ids=lambda one: one.release)
def asked(request: pytest.FixtureRequest, start_cluster: StartCluster) -> Iterator[tuple[RawCluster, Coordinator]]:
    coordinator: Coordinator = request.param
    if coordinator.release == jars.BROKER_VERSION:
        yield from ((wire, coordinator) for wire in _wire(request.getfixturevalue("broker")))
        return
    with start_cluster(1, version=coordinator.release) as cluster:
        yield from ((wire, coordinator) for wire in _wire(cluster))


def _wire(broker: RunningCluster) -> Iterator[RawCluster]:
    async def topic() -> None:
        async with Admin.connect(broker.bootstrap) as admin:
            await real_cluster.create_topics(admin, {TOPIC: PARTITIONS})

    asyncio.run(topic())
    with RawCluster(broker.bootstrap) as wire:
        wire.leaders([TOPIC])  # waits for them
        yield wire


@pytest.mark.parametrize("seed", range(6))
def test_random_requests(asked: tuple[RawCluster, Coordinator], seed: int) -> None:
    wire, coordinator = asked
    choose = random.Random(seed)
    both = Beside(wire, f"machine-{seed}", coordinator.version)

    def own() -> tuple[int, int]:
        held: TransactionMetadata = both.held
        return choose.choice(
            [(held.producer_id, held.epoch)] * 6
            + [(held.producer_id, held.epoch - 1), (held.producer_id, held.epoch + 1), (held.producer_id + 999, 0)]
        )

    def expected() -> tuple[int, int] | None:
        held = both.held
        return choose.choice([None, own(), (held.producer_id, max(held.last_epoch, 0))])

    requests: list[Callable[[], None]] = [
        lambda: both.init(expected()),
        lambda: both.add(own(), choose.randrange(PARTITIONS)),
        lambda: both.add(own(), choose.randrange(PARTITIONS)),
        lambda: both.end(own(), choose.random() < 0.5, choose.choice(coordinator.ends)),
    ]
    for _ in range(STEPS):
        choose.choice(requests)()
    assert both.held.epoch > 0
